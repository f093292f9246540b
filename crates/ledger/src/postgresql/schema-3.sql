-- Version 3, first part: what it adds. Entries of an earlier version are filled in, in bounded steps, before the second part.

-- For an entry of a snapshot type, the sequence number of the effective newest entry of its robot, type and state up to here;
-- and what its lineage reaches by effective time: a byte of bits (signal, fusion, idea, copy, benchmark, playbook from the
-- lowest), then for each bit 5 bytes of sequence number and 12 of nanoseconds since 1970, big-endian.
ALTER TABLE crealeph.entries ADD COLUMN newest bigint, ADD COLUMN used bytea;

-- Events by state, and drafts, however many other entries lie between them.
CREATE INDEX events_by_state ON crealeph.entries (tenant, state, seq) WHERE attempt IS NOT NULL;
CREATE INDEX drafts ON crealeph.entries (tenant, seq) WHERE state = 'draft';
CREATE INDEX drafts_of_robot ON crealeph.entries (tenant, robot, seq) WHERE state = 'draft';

-- The owner of the ledger may see which logs there are; the role that the program works as may not.
CREATE POLICY owner_lists ON crealeph.logs FOR SELECT TO CURRENT_USER USING (true);

-- How far each log is filled in.
CREATE TABLE crealeph.migration (
  tenant text COLLATE "C" PRIMARY KEY,
  done   bigint NOT NULL
);
