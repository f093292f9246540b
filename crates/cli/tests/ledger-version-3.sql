-- A ledger of schema version 3, as the program of that time left it: five entries, an execution that was planned, a signal that
-- came late, and an execution that was blocked because of it.
PRAGMA application_id = 1131564135;
PRAGMA user_version = 3;
PRAGMA foreign_keys=OFF;
BEGIN TRANSACTION;
CREATE TABLE logs (
  number   INTEGER PRIMARY KEY,
  tenant   TEXT NOT NULL UNIQUE,
  origin   TEXT NOT NULL UNIQUE,
  size     INTEGER NOT NULL,
  last_at  INTEGER NOT NULL,
  frontier BLOB NOT NULL
) STRICT;
INSERT INTO logs VALUES(1,'local','crealeph-log/658681e9b8bf247ad58cf8a42e881db1',13,1794787957631,X'0a913273bde66c1fe19c90cc2710723c0ada541d46437a23239db0a5b6577c33529bbf8ad861a1ee8828f0919dd1e964ac6d9b4ff8cd72894e2d1791c0e072aa4ee03fca7633ce8d4eaf61f5a72cf3ab06a1dfa483eb31ae9be7d37e043b39ee');
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
INSERT INTO entries VALUES(1099511627777,1,'01a1e1b2-ad97-7001-b4ff-f4bba04c909f','shop-17','scout','web','signal','final',1794787945879,NULL,'signal-1',NULL,NULL,NULL,X'68f48e8d73d89a6e194fffc0abb83f3dfbc00ba46ef56d52d68ccbbdf75fd3f3',NULL,NULL,NULL,NULL,NULL,NULL,'[]','{"visits":1180}');
INSERT INTO entries VALUES(1099511627778,1,'01a1e1b2-ad97-7002-a146-fc714fcee2d8','shop-17','fusion','fusion.run','fusion','final',1794787945879,NULL,'fusion-1',NULL,NULL,NULL,X'61536968c0647c57b6b9b5ed8fe16fe7a00ce59ce92eb6f3c034be5d5adff580',1,NULL,NULL,NULL,NULL,NULL,'["01a1e1b2-ad97-7001-b4ff-f4bba04c909f"]','{"trend":"up"}');
INSERT INTO entries VALUES(1099511627779,1,'01a1e1b2-ad97-7003-92af-a371bc164974','shop-17','ideator','ideator.run','idea','final',1794787945879,NULL,'idea-1',NULL,NULL,NULL,X'f55447807d0739113e6e7f4cae6d7ad9366d921948358d0f9af4a6cbcfb858b6',1,2,NULL,NULL,NULL,NULL,'["01a1e1b2-ad97-7001-b4ff-f4bba04c909f","01a1e1b2-ad97-7002-a146-fc714fcee2d8"]','{"title":"Spring sale"}');
INSERT INTO entries VALUES(1099511627780,1,'01a1e1b2-ad97-7004-aee2-e0f97b7d4592','shop-17','copywriter','copywriter.run','copy','final',1794787945879,NULL,'copy-1',NULL,NULL,NULL,X'eea221891784384e38a871e4167c4309fb636a16102233fc8cad61ce9ffd2e91',1,2,3,NULL,NULL,NULL,'["01a1e1b2-ad97-7003-92af-a371bc164974"]','{"headline":"Fresh for spring"}');
INSERT INTO entries VALUES(1099511627781,1,'01a1e1b2-ad97-7005-abc6-12723a92bbf9','shop-17','playbooks','playbooks.v1.run','playbook','final',1794787945879,NULL,'playbook-1',NULL,NULL,NULL,X'573eb63323a7ea8158e1616c9ae59522ab2bb8ff294b29847c73f0bda4dc06f5',1,2,3,NULL,NULL,NULL,'["01a1e1b2-ad97-7003-92af-a371bc164974"]','{"steps":4}');
INSERT INTO entries VALUES(1099511627782,1,'01a1e1b2-ae5d-71f0-bdf9-dfadac8e786f','shop-17','builder','builder','copy','planned',1794787946080,NULL,NULL,'01a1e1b2-addc-7eaa-8944-b300787f7e73',NULL,NULL,X'a8b8a0839bd87726fa1888329fdece30f995eaeb2599c0a57a24c7685369f5ba',1,2,3,4,NULL,5,'["01a1e1b2-ad97-7001-b4ff-f4bba04c909f","01a1e1b2-ad97-7002-a146-fc714fcee2d8","01a1e1b2-ad97-7003-92af-a371bc164974","01a1e1b2-ad97-7004-aee2-e0f97b7d4592","01a1e1b2-ad97-7005-abc6-12723a92bbf9"]','{"considered":["benchmark","coherence","copy","fusion","idea","lineage","playbook","playbooks","robotId","signals"],"steps":["look at the newest signals","compare them with the plan","write down what changes"],"title":"copy for landing_plan"}');
INSERT INTO entries VALUES(1099511627783,1,'01a1e1b2-ae5d-717a-94a8-f662a80ec4b1','shop-17','builder','builder','task','planned',1794787946080,NULL,NULL,'01a1e1b2-addc-7eaa-8944-b300787f7e73',NULL,NULL,X'da0c3ab468e8aa1b8357078350c2d2b7ac7ae90b9dad0feea9d0cdea0fb6b2c6',1,2,3,4,NULL,5,'["01a1e1b2-ad97-7001-b4ff-f4bba04c909f","01a1e1b2-ad97-7002-a146-fc714fcee2d8","01a1e1b2-ad97-7003-92af-a371bc164974","01a1e1b2-ad97-7004-aee2-e0f97b7d4592","01a1e1b2-ad97-7005-abc6-12723a92bbf9"]','{"considered":["benchmark","coherence","copy","fusion","idea","lineage","playbook","playbooks","robotId","signals"],"steps":["look at the newest signals","compare them with the plan","write down what changes"],"title":"task for landing_plan"}');
INSERT INTO entries VALUES(1099511627784,1,'01a1e1b2-ae5d-7b62-bac6-d1bd14ffc640','shop-17','builder','builder','site_plan','planned',1794787946080,NULL,NULL,'01a1e1b2-addc-7eaa-8944-b300787f7e73',NULL,NULL,X'89d28f9f62affcbb0cdd9d5aa70d1c1080553c5cb268bd5f5c3c54ffd920896b',1,2,3,4,NULL,5,'["01a1e1b2-ad97-7001-b4ff-f4bba04c909f","01a1e1b2-ad97-7002-a146-fc714fcee2d8","01a1e1b2-ad97-7003-92af-a371bc164974","01a1e1b2-ad97-7004-aee2-e0f97b7d4592","01a1e1b2-ad97-7005-abc6-12723a92bbf9"]','{"considered":["benchmark","coherence","copy","fusion","idea","lineage","playbook","playbooks","robotId","signals"],"steps":["look at the newest signals","compare them with the plan","write down what changes"],"title":"site_plan for landing_plan"}');
INSERT INTO entries VALUES(1099511627785,1,'01a1e1b2-ae60-7009-b0a9-a696ae11c468','shop-17','agent-builder','agent-builder','execution_event','planned',1794787946080,NULL,NULL,'01a1e1b2-addc-7eaa-8944-b300787f7e73',1,NULL,X'2ce60335c6418adefe58337779a8d692b3233d96cf54340df4926d591a98461c',1,2,3,4,NULL,5,'["01a1e1b2-ad97-7001-b4ff-f4bba04c909f","01a1e1b2-ad97-7002-a146-fc714fcee2d8","01a1e1b2-ad97-7003-92af-a371bc164974","01a1e1b2-ad97-7004-aee2-e0f97b7d4592","01a1e1b2-ad97-7005-abc6-12723a92bbf9"]','{"action":"plan_landing_plan","agentVersion":"planner@1","attempt":1,"coherenceStatus":"coherent","dryRun":false,"durationMs":130,"executionContractVersion":"v1","executionId":"01a1e1b2-addc-7eaa-8944-b300787f7e73","snapshotAt":"2026-11-16T00:12:25.879Z","target":"site_builder","workflowVersion":"1"}');
INSERT INTO entries VALUES(1099511627786,1,'01a1e1b2-ae60-700a-a8ac-5c5dc82cccd4','shop-17','builder','builder','execution_record','planned',1794787946080,NULL,'execution_record:212ea79b24927ed65bc31125c729e534f7df147afa765489f56dbefaa29b336e','01a1e1b2-addc-7eaa-8944-b300787f7e73',NULL,NULL,X'79c0da033f98f426f0f1e4f75ea1b02fc2ea6800e8942e5319c8814da9878866',1,2,3,4,NULL,5,'["01a1e1b2-ad97-7001-b4ff-f4bba04c909f","01a1e1b2-ad97-7002-a146-fc714fcee2d8","01a1e1b2-ad97-7003-92af-a371bc164974","01a1e1b2-ad97-7004-aee2-e0f97b7d4592","01a1e1b2-ad97-7005-abc6-12723a92bbf9"]','{"agent":{"diagnostics":"","identity":{"command":["python3","agents/planner.py"],"hosts":[],"kind":"process","name":"planner@1","sandbox":"full"}},"answer":{"artifacts":[{"id":"01a1e1b2-ae5d-71f0-bdf9-dfadac8e786f","type":"copy"},{"id":"01a1e1b2-ae5d-717a-94a8-f662a80ec4b1","type":"task"},{"id":"01a1e1b2-ae5d-7b62-bac6-d1bd14ffc640","type":"site_plan"}],"coherence":{"reason":"everything rests on the newest evidence","status":"coherent"},"executionId":"01a1e1b2-addc-7eaa-8944-b300787f7e73","idempotent":false,"ok":true,"state":"planned"},"artifacts":[{"id":"01a1e1b2-ae5d-71f0-bdf9-dfadac8e786f","metadata":{"generatedAt":"2026-11-16T00:12:25.879Z"},"type":"copy"},{"id":"01a1e1b2-ae5d-717a-94a8-f662a80ec4b1","metadata":{"generatedAt":"2026-11-16T00:12:25.879Z"},"type":"task"},{"id":"01a1e1b2-ae5d-7b62-bac6-d1bd14ffc640","metadata":{"generatedAt":"2026-11-16T00:12:25.879Z"},"type":"site_plan"}],"attempt":1,"configurationVersion":"50f7f3f0deed4ec1a87846febd3889251b06fc11b5518a0975d86ddfd75758ff","executionId":"01a1e1b2-addc-7eaa-8944-b300787f7e73","fingerprint":"1e638d5ea19e22f77012c411242218a831e6dc766fd04ff9c7db5a89556ed0eb","gate":{"allowedArtifactTypes":["copy","task","site_plan"],"outcome":"planned","runMode":"execute","runs":true},"isRetry":false,"policy":{"coherenceRules":{"grace_minutes":0,"judged":["idea","copy","playbook"],"uncounted_states":["draft"],"upstream":["signal","fusion"]},"evaluatedAt":"2026-11-16T00:12:25.949Z","inputDigest":"4831a358309dd6117c09527b5a92ce0081cb5ff6d7a4639eab931128681e0cef","output":{"allowedActions":["builder.run"],"blockedActions":[],"confidence":1,"decision":"ALLOW","deferredActions":[],"evaluatedAt":"2026-11-16T00:12:25.949Z","ok":true,"policyContractVersion":"v1","reasons":[{"evidence":{"fusionAt":"2026-11-16T00:12:25.879Z","signalsAt":"2026-11-16T00:12:25.879Z"},"message":"the snapshot is coherent and what the action needs is fresh","ruleId":"coherence.coherent","severity":"info"}]},"rules":{"actions":{"builder.run":["signalsAt","fusionAt"],"competitors.run_insights":[],"copywriter.run":["ideaAt","signalsAt|fusionAt"],"fusion.run":[],"ideator.run":["signalsAt|fusionAt"],"market_twin.run":["signalsAt"],"playbooks.v1.run":["fusionAt","ideaAt","benchmarkAt"],"playbooks.v2.run":["fusionAt","ideaAt","benchmarkAt"],"robots.run":[],"work.run":[]},"refresh":{"benchmarkAt":["competitors.run_insights"],"copyAt":["copywriter.run"],"fusionAt":["fusion.run"],"ideaAt":["ideator.run"],"playbookAt":["playbooks.v1.run","playbooks.v2.run"],"signalsAt":[]},"thresholds":{"maxStalenessMinutes":1440,"minConfidence":0.5,"minLineageCount":1}},"rulesDigest":"682709c1cd0afba41c7243b4ab6d45bea22bf01a983ace5b7d09735e8968b263","thresholds":{"allowDraftOnly":1,"maxStalenessMinutes":1440,"minConfidence":0.5,"minLineageCount":1}},"reason":"the snapshot is coherent and what the action needs is fresh","recordVersion":"v1","request":{"agentVersion":"planner@1","attempt":1,"coherence_policy":{"on_partial":"draft_only","on_stale":"block"},"constraints":{"language":"en"},"dryRun":false,"executionId":"01a1e1b2-addc-7eaa-8944-b300787f7e73","objective_payload":{"page":"spring sale"},"objective_type":"landing_plan","robotId":"shop-17","workflowVersion":"1"},"snapshot":{"coherenceStatus":"coherent","digest":"7a377be9a560454a40ee3d7cb0ca165055ba641a2f1d8aeddc544aa703545f70","isLineageCut":false,"lineageCount":5,"seq":5,"snapshotAt":"2026-11-16T00:12:25.879Z"}}');
INSERT INTO entries VALUES(1099511627787,1,'01a1e1b2-db71-700b-91f6-5d769f2f2ac0','shop-17','scout','web','signal','final',1794787957617,'2026-01-01T00:00:00Z',NULL,NULL,NULL,NULL,X'f1fdea7d3e6d61b9672aa15032317afc336c4e97f86efd41768072136645e1e9',NULL,NULL,NULL,NULL,NULL,NULL,'[]','{"visits":9}');
INSERT INTO entries VALUES(1099511627788,1,'01a1e1b2-db7f-700c-ae13-74b0063ca056','shop-17','agent-builder','agent-builder','execution_event','failed',1794787957631,NULL,NULL,'01a1e1b2-db7c-7a3c-b228-1c77d26a2297',1,NULL,X'97bb5eae14d9abf21639d75ea47f60663bad343fc80770634cd26e30d0183f67',11,2,3,6,NULL,5,'["01a1e1b2-ad97-7001-b4ff-f4bba04c909f","01a1e1b2-ad97-7002-a146-fc714fcee2d8","01a1e1b2-ad97-7003-92af-a371bc164974","01a1e1b2-ad97-7004-aee2-e0f97b7d4592","01a1e1b2-ad97-7005-abc6-12723a92bbf9","01a1e1b2-ae5d-71f0-bdf9-dfadac8e786f","01a1e1b2-db71-700b-91f6-5d769f2f2ac0"]','{"action":"plan_landing_plan","agentVersion":"planner@1","attempt":1,"coherenceStatus":"stale","dryRun":false,"durationMs":1,"error":{"code":"COHERENCE_BLOCKED","message":"a signal is newer than the one used for the newest idea, copy and playbook","retryable":false},"executionContractVersion":"v1","executionId":"01a1e1b2-db7c-7a3c-b228-1c77d26a2297","snapshotAt":"2026-11-16T00:12:37.617Z","target":"site_builder","workflowVersion":"1"}');
INSERT INTO entries VALUES(1099511627789,1,'01a1e1b2-db7f-700d-831f-da8e8059be34','shop-17','builder','builder','execution_record','failed',1794787957631,NULL,'execution_record:6bb136ab7768d77b9a294dbb9304977043e2cedcfecd64d266c7d5f9c74d2ad3','01a1e1b2-db7c-7a3c-b228-1c77d26a2297',NULL,NULL,X'4ee03fca7633ce8d4eaf61f5a72cf3ab06a1dfa483eb31ae9be7d37e043b39ee',11,2,3,6,NULL,5,'["01a1e1b2-ad97-7001-b4ff-f4bba04c909f","01a1e1b2-ad97-7002-a146-fc714fcee2d8","01a1e1b2-ad97-7003-92af-a371bc164974","01a1e1b2-ad97-7004-aee2-e0f97b7d4592","01a1e1b2-ad97-7005-abc6-12723a92bbf9","01a1e1b2-ae5d-71f0-bdf9-dfadac8e786f","01a1e1b2-db71-700b-91f6-5d769f2f2ac0"]','{"answer":{"artifacts":[],"blocking_reason":"COHERENCE_BLOCKED","coherence":{"outdated":["idea","copy","playbook"],"reason":"a signal is newer than the one used for the newest idea, copy and playbook","status":"stale"},"executionId":"01a1e1b2-db7c-7a3c-b228-1c77d26a2297","idempotent":false,"ok":false,"state":"failed"},"artifacts":[],"attempt":1,"configurationVersion":"50f7f3f0deed4ec1a87846febd3889251b06fc11b5518a0975d86ddfd75758ff","executionId":"01a1e1b2-db7c-7a3c-b228-1c77d26a2297","fingerprint":"26b19bfec3e1dccd4d5441300b43e57364f33af840dfdf2ac12205f16dfe5c5f","gate":{"allowedArtifactTypes":["copy","task","site_plan"],"outcome":"failed","runs":false},"isRetry":false,"policy":{"coherenceRules":{"grace_minutes":0,"judged":["idea","copy","playbook"],"uncounted_states":["draft"],"upstream":["signal","fusion"]},"evaluatedAt":"2026-11-16T00:12:37.629Z","inputDigest":"30d28af93273c10f7909a657f37f14cde66ea227ea74c6a03bba8aee4da00b2b","output":{"allowedActions":["copywriter.run","ideator.run","playbooks.v1.run","playbooks.v2.run"],"blockedActions":["builder.run","robots.run","work.run"],"confidence":1,"decision":"BLOCK","deferredActions":["competitors.run_insights","fusion.run","market_twin.run"],"evaluatedAt":"2026-11-16T00:12:37.629Z","ok":true,"policyContractVersion":"v1","reasons":[{"evidence":{"outdated":["idea","copy","playbook"],"toAllow":{"coherenceStatus":"coherent","refreshedBy":{"copy":["copywriter.run"],"idea":["ideator.run"],"playbook":["playbooks.v1.run","playbooks.v2.run"]}}},"message":"the snapshot is stale: idea, copy, playbook must be made anew on the newest evidence","ruleId":"coherence.stale","severity":"critical"}]},"rules":{"actions":{"builder.run":["signalsAt","fusionAt"],"competitors.run_insights":[],"copywriter.run":["ideaAt","signalsAt|fusionAt"],"fusion.run":[],"ideator.run":["signalsAt|fusionAt"],"market_twin.run":["signalsAt"],"playbooks.v1.run":["fusionAt","ideaAt","benchmarkAt"],"playbooks.v2.run":["fusionAt","ideaAt","benchmarkAt"],"robots.run":[],"work.run":[]},"refresh":{"benchmarkAt":["competitors.run_insights"],"copyAt":["copywriter.run"],"fusionAt":["fusion.run"],"ideaAt":["ideator.run"],"playbookAt":["playbooks.v1.run","playbooks.v2.run"],"signalsAt":[]},"thresholds":{"maxStalenessMinutes":1440,"minConfidence":0.5,"minLineageCount":1}},"rulesDigest":"682709c1cd0afba41c7243b4ab6d45bea22bf01a983ace5b7d09735e8968b263","thresholds":{"allowDraftOnly":1,"maxStalenessMinutes":1440,"minConfidence":0.5,"minLineageCount":1}},"reason":"a signal is newer than the one used for the newest idea, copy and playbook","recordVersion":"v1","request":{"agentVersion":"planner@1","attempt":1,"coherence_policy":{"on_partial":"draft_only","on_stale":"block"},"constraints":{"language":"en"},"dryRun":false,"executionId":"01a1e1b2-db7c-7a3c-b228-1c77d26a2297","objective_payload":{"page":"spring sale"},"objective_type":"landing_plan","robotId":"shop-17","workflowVersion":"1"},"snapshot":{"coherenceStatus":"stale","digest":"f80ef9fb9b1843b0e85ce9ff3808546e9098f025682e26534336be82cb276641","isLineageCut":false,"lineageCount":7,"seq":11,"snapshotAt":"2026-11-16T00:12:37.617Z"}}');
CREATE TABLE edges (
  parent INTEGER NOT NULL,
  child  INTEGER NOT NULL,
  PRIMARY KEY (parent, child)
) STRICT, WITHOUT ROWID;
INSERT INTO edges VALUES(1099511627777,1099511627778);
INSERT INTO edges VALUES(1099511627777,1099511627779);
INSERT INTO edges VALUES(1099511627777,1099511627782);
INSERT INTO edges VALUES(1099511627777,1099511627783);
INSERT INTO edges VALUES(1099511627777,1099511627784);
INSERT INTO edges VALUES(1099511627777,1099511627785);
INSERT INTO edges VALUES(1099511627777,1099511627786);
INSERT INTO edges VALUES(1099511627777,1099511627788);
INSERT INTO edges VALUES(1099511627777,1099511627789);
INSERT INTO edges VALUES(1099511627778,1099511627779);
INSERT INTO edges VALUES(1099511627778,1099511627782);
INSERT INTO edges VALUES(1099511627778,1099511627783);
INSERT INTO edges VALUES(1099511627778,1099511627784);
INSERT INTO edges VALUES(1099511627778,1099511627785);
INSERT INTO edges VALUES(1099511627778,1099511627786);
INSERT INTO edges VALUES(1099511627778,1099511627788);
INSERT INTO edges VALUES(1099511627778,1099511627789);
INSERT INTO edges VALUES(1099511627779,1099511627780);
INSERT INTO edges VALUES(1099511627779,1099511627781);
INSERT INTO edges VALUES(1099511627779,1099511627782);
INSERT INTO edges VALUES(1099511627779,1099511627783);
INSERT INTO edges VALUES(1099511627779,1099511627784);
INSERT INTO edges VALUES(1099511627779,1099511627785);
INSERT INTO edges VALUES(1099511627779,1099511627786);
INSERT INTO edges VALUES(1099511627779,1099511627788);
INSERT INTO edges VALUES(1099511627779,1099511627789);
INSERT INTO edges VALUES(1099511627780,1099511627782);
INSERT INTO edges VALUES(1099511627780,1099511627783);
INSERT INTO edges VALUES(1099511627780,1099511627784);
INSERT INTO edges VALUES(1099511627780,1099511627785);
INSERT INTO edges VALUES(1099511627780,1099511627786);
INSERT INTO edges VALUES(1099511627780,1099511627788);
INSERT INTO edges VALUES(1099511627780,1099511627789);
INSERT INTO edges VALUES(1099511627781,1099511627782);
INSERT INTO edges VALUES(1099511627781,1099511627783);
INSERT INTO edges VALUES(1099511627781,1099511627784);
INSERT INTO edges VALUES(1099511627781,1099511627785);
INSERT INTO edges VALUES(1099511627781,1099511627786);
INSERT INTO edges VALUES(1099511627781,1099511627788);
INSERT INTO edges VALUES(1099511627781,1099511627789);
INSERT INTO edges VALUES(1099511627782,1099511627788);
INSERT INTO edges VALUES(1099511627782,1099511627789);
INSERT INTO edges VALUES(1099511627787,1099511627788);
INSERT INTO edges VALUES(1099511627787,1099511627789);
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
CREATE TABLE leases (
  tenant TEXT NOT NULL,
  name   TEXT NOT NULL,
  holder TEXT NOT NULL,
  token  INTEGER NOT NULL,
  until  INTEGER NOT NULL,
  ttl    INTEGER NOT NULL,
  PRIMARY KEY (tenant, name)
) STRICT, WITHOUT ROWID;
CREATE TABLE lease_tokens (
  tenant TEXT PRIMARY KEY,
  last   INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE UNIQUE INDEX entries_by_id ON entries (log, id);
CREATE UNIQUE INDEX entries_by_key ON entries (log, key) WHERE key IS NOT NULL;
CREATE UNIQUE INDEX events ON entries (log, execution, robot, attempt, state) WHERE attempt IS NOT NULL;
CREATE INDEX entries_by_kind ON entries (log, robot, kind, state);
CREATE INDEX entries_by_execution ON entries (log, execution) WHERE execution IS NOT NULL;
CREATE TRIGGER entries_stay BEFORE UPDATE ON entries BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
CREATE TRIGGER entries_remain BEFORE DELETE ON entries BEGIN SELECT RAISE(ABORT, 'the ledger is append-only'); END;
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
CREATE INDEX leases_by_end ON leases (tenant, until);
CREATE TRIGGER tokens_only_grow BEFORE UPDATE ON lease_tokens WHEN NEW.tenant <> OLD.tenant OR NEW.last <= OLD.last
BEGIN SELECT RAISE(ABORT, 'lease tokens only grow'); END;
CREATE TRIGGER tokens_remain BEFORE DELETE ON lease_tokens BEGIN SELECT RAISE(ABORT, 'lease tokens only grow'); END;
CREATE TRIGGER entries_are_new BEFORE INSERT ON entries
WHEN EXISTS (SELECT 1 FROM entries WHERE place = NEW.place)
  OR EXISTS (SELECT 1 FROM entries WHERE log = NEW.log AND id = NEW.id)
  OR (NEW.key IS NOT NULL AND EXISTS (SELECT 1 FROM entries WHERE log = NEW.log AND key = NEW.key))
  OR (NEW.attempt IS NOT NULL AND EXISTS (
    SELECT 1 FROM entries WHERE log = NEW.log AND execution = NEW.execution AND robot = NEW.robot
      AND attempt = NEW.attempt AND state = NEW.state))
BEGIN SELECT RAISE(FAIL, 'the ledger is append-only'); END;
COMMIT;
