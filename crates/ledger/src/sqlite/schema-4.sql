-- Version 4, first part: what it adds. Entries of an earlier version are filled in, in bounded steps, before the second part.

-- For an entry of a snapshot type, the sequence number of the effective newest entry of its robot, type and state up to here;
-- and what its lineage reaches by effective time: a byte of bits (signal, fusion, idea, copy, benchmark, playbook from the
-- lowest), then for each bit 5 bytes of sequence number and 12 of nanoseconds since 1970, big-endian.
ALTER TABLE entries ADD COLUMN newest INTEGER;
ALTER TABLE entries ADD COLUMN used BLOB;

-- Events by state, and drafts, however many other entries lie between them.
CREATE INDEX events_by_state ON entries (log, state) WHERE attempt IS NOT NULL;
CREATE INDEX drafts ON entries (log) WHERE state = 'draft';
CREATE INDEX drafts_of_robot ON entries (log, robot) WHERE state = 'draft';

-- Leases go by the time since the machine started, so they name that start; what an earlier program left is over.
DELETE FROM leases;
ALTER TABLE leases ADD COLUMN boot TEXT NOT NULL DEFAULT '';

-- How far each log is filled in.
CREATE TABLE migration (
  log  INTEGER PRIMARY KEY,
  done INTEGER NOT NULL
) STRICT;
