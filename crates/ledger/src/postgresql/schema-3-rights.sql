-- Version 3, third part: who may do what.

-- Two roles of this database alone, so that a grant for one ledger opens no other. Their names are kept here, because a
-- database can be restored under another name, and can be read by everyone, who then knows which role to ask for.
ALTER TABLE crealeph.version ADD COLUMN ledger_role text, ADD COLUMN audit_role text;
DO $$ DECLARE
  base text := current_database();
  kind text;
  wanted text;
  number int;
  member text;
BEGIN
  IF octet_length(base) > 40 THEN
    base := md5(base);
  END IF;
  FOREACH kind IN ARRAY ARRAY['ledger', 'audit'] LOOP
    number := 1;
    LOOP
      wanted := 'crealeph_' || kind || '_' || base || CASE WHEN number > 1 THEN '_' || number ELSE '' END;
      BEGIN
        EXECUTE format('CREATE ROLE %I NOLOGIN NOSUPERUSER NOBYPASSRLS', wanted);
        EXIT;
      EXCEPTION WHEN duplicate_object OR unique_violation THEN
        -- Of a database that had this name before; whoever was let into that one is not let into this one.
        number := number + 1;
      END;
    END LOOP;
    EXECUTE format('GRANT %I TO %I', wanted, session_user);
    EXECUTE format('UPDATE crealeph.version SET %I = %L', kind || '_role', wanted);
  END LOOP;
  -- Whoever worked with this ledger through the role that all databases shared goes on.
  IF EXISTS (SELECT FROM crealeph.logs) THEN
    FOR member IN SELECT m.rolname FROM pg_auth_members a JOIN pg_roles m ON m.oid = a.member
      JOIN pg_roles r ON r.oid = a.roleid WHERE r.rolname = 'crealeph_ledger' LOOP
      EXECUTE format('GRANT %I TO %I', (SELECT ledger_role FROM crealeph.version), member);
    END LOOP;
  END IF;
END $$;
REVOKE ALL ON ALL TABLES IN SCHEMA crealeph FROM crealeph_ledger;
REVOKE ALL ON SCHEMA crealeph FROM crealeph_ledger;
GRANT USAGE ON SCHEMA crealeph TO PUBLIC;
GRANT SELECT ON crealeph.version TO PUBLIC;

-- Logins that may use certain tenants alone. A login without a row here may use any.
CREATE TABLE crealeph.logins (
  login  name NOT NULL,
  tenant text COLLATE "C" NOT NULL,
  PRIMARY KEY (login, tenant)
);

-- Entries, edges, tiles and heads come in through this function and no other way: the rows right after the head, and the head
-- with them. It works as the owner, for whoever may execute it.
CREATE FUNCTION crealeph.append(text, bigint[], text[], text[], text[], text[], text[], text[], bigint[], text[], text[],
  text[], bigint[], text[], bytea[], bigint[], bigint[], bigint[], bigint[], bigint[], bigint[], text[], text[], bigint[],
  bytea[], bigint[], bigint[], smallint[], bigint[], bytea[], bytea[], bigint, bigint, bytea)
RETURNS void LANGUAGE plpgsql SECURITY DEFINER SET search_path = crealeph, pg_temp AS $$
DECLARE
  before bigint := $32 - cardinality($2);
BEGIN
  IF $1 IS DISTINCT FROM current_setting('crealeph.tenant', true)
    OR EXISTS (SELECT FROM logins WHERE login = session_user)
      AND NOT EXISTS (SELECT FROM logins WHERE login = session_user AND tenant = $1) THEN
    RAISE insufficient_privilege USING MESSAGE = format('%s may not use tenant %s', session_user, $1);
  END IF;
  IF cardinality($2) = 0
    OR EXISTS (SELECT FROM unnest($2) WITH ORDINALITY AS w (seq, turn) WHERE w.seq IS DISTINCT FROM before + w.turn)
    OR EXISTS (SELECT FROM unnest($26, $27) AS w (parent, child)
      WHERE NOT coalesce(w.parent BETWEEN 1 AND w.child - 1 AND w.child BETWEEN before + 1 AND $32, false)) THEN
    RAISE EXCEPTION 'the ledger is append-only';
  END IF;
  UPDATE logs SET size = $32, last_at = $33, peaks = $34 WHERE tenant = $1 AND size = before;
  IF NOT FOUND THEN
    RAISE EXCEPTION 'the log of tenant % does not have % entries', $1, before;
  END IF;
  INSERT INTO entries (tenant, seq, id, robot, module, source, kind, state, created_at, observed_at, key, execution, attempt,
    rerun_of, leaf, reach_signal, reach_fusion, reach_idea, reach_copy, reach_benchmark, reach_playbook, depends_on, payload,
    newest, used)
  SELECT $1, * FROM unnest($2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22,
    $23, $24, $25);
  IF cardinality($26) > 0 THEN
    INSERT INTO edges (tenant, parent, child) SELECT $1, * FROM unnest($26, $27);
  END IF;
  IF cardinality($28) > 0 THEN
    INSERT INTO tiles (tenant, level, number, root, hashes) SELECT $1, * FROM unnest($28, $29, $30, $31);
  END IF;
END $$;

-- Whether a login may use a tenant.
CREATE FUNCTION crealeph.may_use(text) RETURNS boolean LANGUAGE sql STABLE SECURITY DEFINER
SET search_path = crealeph, pg_temp AS $$
  SELECT NOT EXISTS (SELECT FROM logins WHERE login = session_user)
    OR EXISTS (SELECT FROM logins WHERE login = session_user AND tenant = $1)
$$;

-- A tenant's first log, under the name given unless it has one.
CREATE FUNCTION crealeph.open_log(text, text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = crealeph, pg_temp AS $$
BEGIN
  IF $1 IS DISTINCT FROM current_setting('crealeph.tenant', true) OR NOT may_use($1) THEN
    RAISE insufficient_privilege USING MESSAGE = format('%s may not use tenant %s', session_user, $1);
  END IF;
  INSERT INTO logs (tenant, origin, size, last_at, peaks) VALUES ($1, $2, 0, 0, '') ON CONFLICT (tenant) DO NOTHING;
END $$;

-- A checkpoint of entries that are there.
CREATE FUNCTION crealeph.keep_checkpoint(text, bigint, bytea, text) RETURNS void LANGUAGE plpgsql SECURITY DEFINER
SET search_path = crealeph, pg_temp AS $$
BEGIN
  IF $1 IS DISTINCT FROM current_setting('crealeph.tenant', true) OR NOT may_use($1) THEN
    RAISE insufficient_privilege USING MESSAGE = format('%s may not use tenant %s', session_user, $1);
  END IF;
  IF NOT EXISTS (SELECT FROM logs WHERE tenant = $1 AND size >= $2 AND $2 >= 0) THEN
    RAISE EXCEPTION 'the log of tenant % does not have % entries', $1, $2;
  END IF;
  INSERT INTO checkpoints (tenant, size, root, note) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING;
END $$;

-- For the owner: a login that may use this tenant, and others only where it is bound to them as well. The policies that see to
-- it for reading are made with the first one, because they cost something on every statement.
CREATE FUNCTION crealeph.bind_login(name, text) RETURNS void LANGUAGE plpgsql SET search_path = crealeph, pg_temp AS $$
DECLARE relation text;
BEGIN
  INSERT INTO logins (login, tenant) VALUES ($1, $2) ON CONFLICT DO NOTHING;
  FOREACH relation IN ARRAY ARRAY['logs', 'entries', 'edges', 'tiles', 'checkpoints', 'leases', 'lease_tokens'] LOOP
    IF NOT EXISTS (SELECT FROM pg_policy WHERE polrelid = relation::regclass AND polname = 'bound_login') THEN
      EXECUTE format('CREATE POLICY bound_login ON %I AS RESTRICTIVE TO %I '
        'USING ((SELECT crealeph.may_use(current_setting(''crealeph.tenant'', true))))',
        relation, (SELECT ledger_role FROM version));
    END IF;
  END LOOP;
END $$;

-- The role of the program reads, and appends through the functions. To change the column `tenant` of a head is refused to
-- everyone by its trigger; the right to it is the right to lock the head. The role for audits reads every row.
DO $$ DECLARE
  relation text;
  ledger text := (SELECT ledger_role FROM crealeph.version);
  audit text := (SELECT audit_role FROM crealeph.version);
BEGIN
  FOREACH relation IN ARRAY ARRAY['logs', 'entries', 'edges', 'tiles', 'checkpoints', 'leases', 'lease_tokens'] LOOP
    EXECUTE format('GRANT SELECT ON crealeph.%I TO %I, %I', relation, ledger, audit);
    EXECUTE format('CREATE POLICY audit ON crealeph.%I FOR SELECT TO %I USING (true)', relation, audit);
  END LOOP;
  EXECUTE format('GRANT SELECT ON crealeph.logins TO %I', audit);
  EXECUTE format('GRANT UPDATE (tenant) ON crealeph.logs TO %I', ledger);
  EXECUTE format('GRANT INSERT, UPDATE, DELETE ON crealeph.leases TO %I', ledger);
  EXECUTE format('GRANT INSERT, UPDATE (last) ON crealeph.lease_tokens TO %I', ledger);
  REVOKE ALL ON ALL FUNCTIONS IN SCHEMA crealeph FROM PUBLIC;
  EXECUTE format('GRANT EXECUTE ON FUNCTION crealeph.append, crealeph.may_use, crealeph.open_log, crealeph.keep_checkpoint TO %I',
    ledger);
END $$;
-- The owner is one of the auditors, and sees which logs there are as one of them.
DROP POLICY owner_lists ON crealeph.logs;
