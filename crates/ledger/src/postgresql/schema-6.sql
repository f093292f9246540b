-- Version 6: receipts of work runs and records of executions, of all robots, however many other entries lie between them.
CREATE INDEX receipts ON crealeph.entries (tenant, kind, seq)
  WHERE kind IN ('execution_record', 'reported_receipt', 'run_receipt');
