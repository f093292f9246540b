-- What the program may do it does as this role: it owns nothing, and no wall is open to it.
DO $$ BEGIN
  CREATE ROLE crealeph_ledger NOLOGIN NOSUPERUSER NOBYPASSRLS;
EXCEPTION WHEN duplicate_object OR unique_violation THEN NULL;
END $$;
DO $$ BEGIN
  EXECUTE format('GRANT crealeph_ledger TO %I', session_user);
EXCEPTION WHEN unique_violation THEN NULL;
END $$;

CREATE TABLE crealeph.logs (
  tenant   text COLLATE "C" PRIMARY KEY,
  origin   text NOT NULL,
  size     bigint NOT NULL,
  last_at  bigint NOT NULL,
  frontier bytea NOT NULL
);

CREATE TABLE crealeph.entries (
  tenant          text COLLATE "C" NOT NULL,
  seq             bigint NOT NULL,
  id              text COLLATE "C" NOT NULL,
  robot           text COLLATE "C" NOT NULL,
  module          text COLLATE "C" NOT NULL,
  source          text COLLATE "C" NOT NULL,
  kind            text COLLATE "C" NOT NULL,
  state           text COLLATE "C" NOT NULL,
  created_at      bigint NOT NULL,
  observed_at     text,
  key             text COLLATE "C",
  execution       text COLLATE "C",
  attempt         bigint,
  rerun_of        text,
  leaf            bytea NOT NULL,
  reach_signal    bigint,
  reach_fusion    bigint,
  reach_idea      bigint,
  reach_copy      bigint,
  reach_benchmark bigint,
  reach_playbook  bigint,
  depends_on      text NOT NULL,
  payload         text NOT NULL,
  PRIMARY KEY (tenant, seq)
);

CREATE UNIQUE INDEX entries_by_id ON crealeph.entries (tenant, id);
CREATE UNIQUE INDEX entries_by_key ON crealeph.entries (tenant, key) WHERE key IS NOT NULL;
CREATE UNIQUE INDEX events ON crealeph.entries (tenant, execution, robot, attempt, state) WHERE attempt IS NOT NULL;
CREATE INDEX entries_by_kind ON crealeph.entries (tenant, robot, kind, state, seq);
CREATE INDEX entries_by_execution ON crealeph.entries (tenant, execution, seq) WHERE execution IS NOT NULL;

CREATE TABLE crealeph.edges (
  tenant text COLLATE "C" NOT NULL,
  parent bigint NOT NULL,
  child  bigint NOT NULL,
  PRIMARY KEY (tenant, parent, child)
);

CREATE TABLE crealeph.tiles (
  tenant text COLLATE "C" NOT NULL,
  level  smallint NOT NULL,
  number bigint NOT NULL,
  root   bytea NOT NULL,
  hashes bytea NOT NULL,
  PRIMARY KEY (tenant, level, number)
);

CREATE TABLE crealeph.checkpoints (
  tenant text COLLATE "C" NOT NULL,
  size   bigint NOT NULL,
  root   bytea NOT NULL,
  note   text NOT NULL,
  PRIMARY KEY (tenant, size, note)
);

-- Nothing is ever changed or removed, whoever asks.
CREATE FUNCTION crealeph.refuse() RETURNS trigger LANGUAGE plpgsql AS
  $$ BEGIN RAISE EXCEPTION 'the ledger is append-only'; END $$;
CREATE FUNCTION crealeph.only_grow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF NEW.tenant <> OLD.tenant OR NEW.origin <> OLD.origin OR NEW.size <= OLD.size OR NEW.last_at < OLD.last_at THEN
    RAISE EXCEPTION 'the ledger is append-only';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER logs_only_grow BEFORE UPDATE ON crealeph.logs FOR EACH ROW EXECUTE FUNCTION crealeph.only_grow();
CREATE TRIGGER logs_remain BEFORE DELETE OR TRUNCATE ON crealeph.logs EXECUTE FUNCTION crealeph.refuse();

-- A tenant sees its own rows and no others; where no tenant is set, none.
DO $$ DECLARE name text; BEGIN
  FOREACH name IN ARRAY ARRAY['entries', 'edges', 'tiles', 'checkpoints'] LOOP
    EXECUTE format('CREATE TRIGGER %I BEFORE UPDATE OR DELETE OR TRUNCATE ON crealeph.%I EXECUTE FUNCTION crealeph.refuse()',
      name || '_stay', name);
    EXECUTE format('GRANT SELECT, INSERT ON crealeph.%I TO crealeph_ledger', name);
  END LOOP;
  FOREACH name IN ARRAY ARRAY['logs', 'entries', 'edges', 'tiles', 'checkpoints'] LOOP
    EXECUTE format('ALTER TABLE crealeph.%I ENABLE ROW LEVEL SECURITY', name);
    EXECUTE format('ALTER TABLE crealeph.%I FORCE ROW LEVEL SECURITY', name);
    EXECUTE format('CREATE POLICY own_tenant ON crealeph.%I USING (tenant = current_setting(''crealeph.tenant'', true)) '
      'WITH CHECK (tenant = current_setting(''crealeph.tenant'', true))', name);
  END LOOP;
END $$;
GRANT USAGE ON SCHEMA crealeph TO crealeph_ledger;
GRANT SELECT ON crealeph.version TO crealeph_ledger;
GRANT SELECT, INSERT ON crealeph.logs TO crealeph_ledger;
GRANT UPDATE (size, last_at, frontier) ON crealeph.logs TO crealeph_ledger;
