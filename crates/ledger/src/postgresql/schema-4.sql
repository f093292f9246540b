-- Version 4.

-- Who appended an entry through a server; part of the entry, and none in entries of before.
ALTER TABLE crealeph.entries ADD COLUMN actor text;
DROP FUNCTION crealeph.append;
CREATE FUNCTION crealeph.append(text, bigint[], text[], text[], text[], text[], text[], text[], bigint[], text[], text[],
  text[], bigint[], text[], bytea[], bigint[], bigint[], bigint[], bigint[], bigint[], bigint[], text[], text[], bigint[],
  bytea[], text[], bigint[], bigint[], smallint[], bigint[], bytea[], bytea[], bigint, bigint, bytea)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = crealeph, pg_temp AS $$
DECLARE
  before bigint := $33 - cardinality($2);
BEGIN
  IF $1 IS DISTINCT FROM current_setting('crealeph.tenant', true)
    OR EXISTS (SELECT FROM logins WHERE login = session_user)
      AND NOT EXISTS (SELECT FROM logins WHERE login = session_user AND tenant = $1) THEN
    RAISE insufficient_privilege USING MESSAGE = format('%s may not use tenant %s', session_user, $1);
  END IF;
  IF cardinality($2) = 0
    OR EXISTS (SELECT FROM unnest($2) WITH ORDINALITY AS w (seq, turn) WHERE w.seq IS DISTINCT FROM before + w.turn)
    OR EXISTS (SELECT FROM unnest($27, $28) AS w (parent, child)
      WHERE NOT coalesce(w.parent BETWEEN 1 AND w.child - 1 AND w.child BETWEEN before + 1 AND $33, false)) THEN
    RAISE EXCEPTION 'the ledger is append-only';
  END IF;
  UPDATE logs SET size = $33, last_at = $34, peaks = $35 WHERE tenant = $1 AND size = before;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'the log of tenant % does not have % entries', $1, before;
  END IF;
  INSERT INTO entries (tenant, seq, id, robot, module, source, kind, state, created_at, observed_at, key, execution, attempt,
    rerun_of, leaf, reach_signal, reach_fusion, reach_idea, reach_copy, reach_benchmark, reach_playbook, depends_on, payload,
    newest, used, actor)
  SELECT $1, * FROM unnest($2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22,
    $23, $24, $25, $26);
  IF cardinality($27) > 0 THEN
    INSERT INTO edges (tenant, parent, child) SELECT $1, * FROM unnest($27, $28);
  END IF;
  IF cardinality($29) > 0 THEN
    INSERT INTO tiles (tenant, level, number, root, hashes) SELECT $1, * FROM unnest($29, $30, $31, $32);
  END IF;
END $$;

-- Where a log's entries are sent, up to which one they were, and the secret that signs them. Not part of any log. The role for
-- audits may read the table, because a dump locks every table, and sees none of its rows, because of the secret.
CREATE TABLE crealeph.subscriptions (
  tenant   text COLLATE "C" NOT NULL,
  id       text COLLATE "C" NOT NULL,
  secret   text NOT NULL,
  position bigint NOT NULL,
  notes    text NOT NULL,
  PRIMARY KEY (tenant, id)
);
ALTER TABLE crealeph.subscriptions ENABLE ROW LEVEL SECURITY;
ALTER TABLE crealeph.subscriptions FORCE ROW LEVEL SECURITY;
-- Only for the function below, which works as the owner.
CREATE POLICY owner_lists ON crealeph.subscriptions FOR SELECT TO CURRENT_USER USING (true);

-- The tenants that have a subscription and that the login may use: a server has to know whom to tell before anyone asks.
CREATE FUNCTION crealeph.subscribed_tenants() RETURNS SETOF text LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = crealeph, pg_temp AS $$
  SELECT DISTINCT tenant FROM subscriptions WHERE may_use(tenant)
$$;

CREATE OR REPLACE FUNCTION crealeph.bind_login(name, text) RETURNS void LANGUAGE plpgsql SET search_path = crealeph, pg_temp AS $$
DECLARE relation text;
BEGIN
  INSERT INTO logins (login, tenant) VALUES ($1, $2) ON CONFLICT DO NOTHING;
  FOREACH relation IN ARRAY ARRAY['logs', 'entries', 'edges', 'tiles', 'checkpoints', 'leases', 'lease_tokens',
    'subscriptions'] LOOP
    IF NOT EXISTS (SELECT FROM pg_policy WHERE polrelid = relation::regclass AND polname = 'bound_login') THEN
      EXECUTE format('CREATE POLICY bound_login ON %I AS RESTRICTIVE TO %I '
        'USING ((SELECT crealeph.may_use(current_setting(''crealeph.tenant'', true))))',
        relation, (SELECT ledger_role FROM version));
    END IF;
  END LOOP;
END $$;

DO $$ DECLARE
  ledger text := (SELECT ledger_role FROM crealeph.version);
  audit text := (SELECT audit_role FROM crealeph.version);
BEGIN
  EXECUTE format('GRANT SELECT, INSERT, UPDATE, DELETE ON crealeph.subscriptions TO %I', ledger);
  EXECUTE format('GRANT SELECT ON crealeph.subscriptions TO %I', audit);
  EXECUTE format('CREATE POLICY own_tenant ON crealeph.subscriptions TO %I, CURRENT_USER '
    'USING (tenant = current_setting(''crealeph.tenant'', true)) '
    'WITH CHECK (tenant = current_setting(''crealeph.tenant'', true))', ledger);
  REVOKE ALL ON FUNCTION crealeph.append, crealeph.subscribed_tenants FROM PUBLIC;
  EXECUTE format('GRANT EXECUTE ON FUNCTION crealeph.append, crealeph.subscribed_tenants TO %I', ledger);
  IF EXISTS (SELECT FROM crealeph.logins) THEN
    EXECUTE format('CREATE POLICY bound_login ON crealeph.subscriptions AS RESTRICTIVE TO %I '
      'USING ((SELECT crealeph.may_use(current_setting(''crealeph.tenant'', true))))', ledger);
  END IF;
END $$;
