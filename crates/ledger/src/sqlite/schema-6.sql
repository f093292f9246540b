-- Version 6: what server processes share. Not part of any log.

-- Requests that were accepted and whose outcome is not in the log. An answer that leaves nothing in the log is kept for a while.
-- A request is worked on under the lease that it names; `number` is one of the tenant's lease tokens and gives the order.
CREATE TABLE accepted (
  tenant      TEXT NOT NULL,
  robot       TEXT NOT NULL,
  execution   TEXT NOT NULL,
  number      INTEGER NOT NULL,
  attempt     INTEGER NOT NULL,
  fingerprint TEXT NOT NULL,
  request     TEXT NOT NULL,
  rerun_of    TEXT,
  key_id      TEXT,
  lease       TEXT NOT NULL,
  accepted_at INTEGER NOT NULL,
  tries       INTEGER NOT NULL,
  answer      TEXT,
  failure     TEXT,
  ended_at    INTEGER,
  PRIMARY KEY (tenant, robot, execution)
) STRICT;
CREATE UNIQUE INDEX accepted_in_order ON accepted (tenant, number);
CREATE INDEX accepted_open ON accepted (tenant, number) WHERE ended_at IS NULL;
CREATE INDEX accepted_ended ON accepted (tenant, ended_at) WHERE ended_at IS NOT NULL;

-- The server processes that use this ledger, and the digest of what each decides by.
CREATE TABLE processes (
  name     TEXT PRIMARY KEY,
  holder   TEXT NOT NULL,
  digest   TEXT NOT NULL,
  sections TEXT NOT NULL,
  replaced INTEGER NOT NULL,
  until    INTEGER NOT NULL,
  ttl      INTEGER NOT NULL,
  boot     TEXT NOT NULL
) STRICT;
