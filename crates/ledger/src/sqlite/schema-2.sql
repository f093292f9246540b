-- Who is at work on what, until when. Not part of any log; tokens only grow, so that a row may be removed.
CREATE TABLE leases (
  tenant TEXT NOT NULL,
  name   TEXT NOT NULL,
  holder TEXT NOT NULL,
  token  INTEGER NOT NULL,
  until  INTEGER NOT NULL,
  ttl    INTEGER NOT NULL,
  PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;
CREATE INDEX leases_by_end ON leases (tenant, until);

CREATE TABLE lease_tokens (
  tenant TEXT PRIMARY KEY,
  last   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TRIGGER tokens_only_grow BEFORE UPDATE ON lease_tokens WHEN NEW.tenant <> OLD.tenant OR NEW.last <= OLD.last
BEGIN SELECT RAISE(ABORT, 'lease tokens only grow'); END;
CREATE TRIGGER tokens_remain BEFORE DELETE ON lease_tokens BEGIN SELECT RAISE(ABORT, 'lease tokens only grow'); END;
