-- Version 5.

-- Who appended an entry through a server; part of the entry, and none in entries of before.
ALTER TABLE entries ADD COLUMN actor TEXT;

-- Who is told of a log's entries, up to which one they were told, and the secret that signs it. Not part of any log.
CREATE TABLE subscriptions (
  tenant   TEXT NOT NULL,
  id       TEXT NOT NULL,
  secret   TEXT NOT NULL,
  position INTEGER NOT NULL,
  notes    TEXT NOT NULL,
  PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;
