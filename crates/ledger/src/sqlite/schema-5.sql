-- Version 5.

-- Who appended an entry through a server; part of the entry, and none in entries of before.
ALTER TABLE entries ADD COLUMN actor TEXT;

-- Where a log's entries are sent, up to which one they were, and the secret that signs them. Not part of any log.
CREATE TABLE subscriptions (
  tenant   TEXT NOT NULL,
  id       TEXT NOT NULL,
  secret   TEXT NOT NULL,
  position INTEGER NOT NULL,
  notes    TEXT NOT NULL,
  PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;
