-- Version 3, second part, when every entry is filled in. A program of an earlier version that is still running asks for the
-- column by its old name, and can write no more.
ALTER TABLE crealeph.logs RENAME COLUMN frontier TO peaks;
DROP TABLE crealeph.migration;
