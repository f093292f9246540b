-- One row per tenant: the name of its log, and where it stands.
CREATE TABLE logs (
  number   INTEGER PRIMARY KEY,
  tenant   TEXT NOT NULL UNIQUE,
  origin   TEXT NOT NULL UNIQUE,
  size     INTEGER NOT NULL,
  last_at  INTEGER NOT NULL,
  frontier BLOB NOT NULL
) STRICT;

CREATE TABLE entries (
  place           INTEGER PRIMARY KEY,
  log             INTEGER NOT NULL,
  id              TEXT NOT NULL,
  robot           TEXT NOT NULL,
  module          TEXT NOT NULL,
  source          TEXT NOT NULL,
  kind            TEXT NOT NULL,
  state           TEXT NOT NULL,
  created_at      INTEGER NOT NULL,
  observed_at     TEXT,
  key             TEXT,
  execution       TEXT,
  attempt         INTEGER,
  rerun_of        TEXT,
  leaf            BLOB NOT NULL,
  reach_signal    INTEGER,
  reach_fusion    INTEGER,
  reach_idea      INTEGER,
  reach_copy      INTEGER,
  reach_benchmark INTEGER,
  reach_playbook  INTEGER,
  depends_on      TEXT NOT NULL,
  payload         TEXT NOT NULL
) STRICT;

CREATE UNIQUE INDEX entries_by_id ON entries (log, id);
CREATE UNIQUE INDEX entries_by_key ON entries (log, key) WHERE key IS NOT NULL;
CREATE UNIQUE INDEX events ON entries (log, execution, robot, attempt, state) WHERE attempt IS NOT NULL;
CREATE INDEX entries_by_kind ON entries (log, robot, kind, state);
CREATE INDEX entries_by_execution ON entries (log, execution) WHERE execution IS NOT NULL;

-- Which place rests on which, to look down; each entry itself says what it rests on.
CREATE TABLE edges (
  parent INTEGER NOT NULL,
  child  INTEGER NOT NULL,
  PRIMARY KEY (parent, child)
) STRICT, WITHOUT ROWID;

-- Whole runs of 256 hashes of the Merkle tree, by level.
CREATE TABLE tiles (
  log    INTEGER NOT NULL,
  level  INTEGER NOT NULL,
  number INTEGER NOT NULL,
  root   BLOB NOT NULL,
  hashes BLOB NOT NULL,
  PRIMARY KEY (log, level, number)
) STRICT;

CREATE TABLE checkpoints (
  log  INTEGER NOT NULL,
  size INTEGER NOT NULL,
  root BLOB NOT NULL,
  note TEXT NOT NULL,
  PRIMARY KEY (log, size, note)
) STRICT;

-- Nothing is ever changed or removed. Replacing a row deletes without asking a delete trigger, so inserting over one
-- is refused as well.
CREATE TRIGGER entries_stay BEFORE UPDATE ON entries BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER entries_remain BEFORE DELETE ON entries BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER entries_are_new BEFORE INSERT ON entries
WHEN EXISTS (SELECT 1 FROM entries WHERE place = NEW.place)
  OR EXISTS (SELECT 1 FROM entries WHERE log = NEW.log AND id = NEW.id)
  OR (NEW.key IS NOT NULL AND EXISTS (SELECT 1 FROM entries WHERE log = NEW.log AND key = NEW.key))
  OR (NEW.attempt IS NOT NULL AND EXISTS (
    SELECT 1 FROM entries WHERE log = NEW.log AND execution = NEW.execution AND robot = NEW.robot
      AND attempt = NEW.attempt AND state = NEW.state))
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER edges_stay BEFORE UPDATE ON edges BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER edges_remain BEFORE DELETE ON edges BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER tiles_stay BEFORE UPDATE ON tiles BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER tiles_remain BEFORE DELETE ON tiles BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER tiles_are_new BEFORE INSERT ON tiles
WHEN EXISTS (SELECT 1 FROM tiles WHERE log = NEW.log AND level = NEW.level AND number = NEW.number)
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER checkpoints_stay BEFORE UPDATE ON checkpoints BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER checkpoints_remain BEFORE DELETE ON checkpoints BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER logs_remain BEFORE DELETE ON logs BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER logs_are_new BEFORE INSERT ON logs
WHEN EXISTS (SELECT 1 FROM logs WHERE number = NEW.number OR tenant = NEW.tenant OR origin = NEW.origin)
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER logs_only_grow BEFORE UPDATE ON logs
WHEN NEW.number <> OLD.number OR NEW.tenant <> OLD.tenant OR NEW.origin <> OLD.origin
  OR NEW.size <= OLD.size OR NEW.last_at < OLD.last_at
BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
