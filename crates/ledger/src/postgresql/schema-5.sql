-- Version 5: what server processes share. Not part of any log.

-- Requests that were accepted and whose outcome is not in the log. An answer that leaves nothing in the log is kept for a while.
-- A request is worked on under the lease that it names; `number` is one of the tenant's lease tokens and gives the order.
CREATE TABLE crealeph.accepted (
  tenant      text COLLATE "C" NOT NULL,
  robot       text COLLATE "C" NOT NULL,
  execution   text COLLATE "C" NOT NULL,
  number      bigint NOT NULL,
  attempt     bigint NOT NULL,
  fingerprint text NOT NULL,
  request     text NOT NULL,
  rerun_of    text,
  key_id      text,
  lease       text COLLATE "C" NOT NULL,
  accepted_at bigint NOT NULL,
  tries       bigint NOT NULL,
  answer      text,
  failure     text,
  ended_at    bigint,
  PRIMARY KEY (tenant, robot, execution)
);
CREATE UNIQUE INDEX accepted_in_order ON crealeph.accepted (tenant, number);
CREATE INDEX accepted_open ON crealeph.accepted (tenant, number) WHERE ended_at IS NULL;
CREATE INDEX accepted_ended ON crealeph.accepted (tenant, ended_at) WHERE ended_at IS NOT NULL;

-- The server processes that use this ledger, and the digest of what each decides by. Nothing in it is a tenant's.
CREATE TABLE crealeph.processes (
  name     text COLLATE "C" PRIMARY KEY,
  holder   text NOT NULL,
  digest   text NOT NULL,
  sections text NOT NULL,
  replaced boolean NOT NULL,
  until    bigint NOT NULL,
  ttl      bigint NOT NULL
);

ALTER TABLE crealeph.accepted ENABLE ROW LEVEL SECURITY;
ALTER TABLE crealeph.accepted FORCE ROW LEVEL SECURITY;
CREATE POLICY own_tenant ON crealeph.accepted USING (tenant = current_setting('crealeph.tenant', true))
  WITH CHECK (tenant = current_setting('crealeph.tenant', true));
-- The functions below look for work of all tenants, as the owner.
CREATE POLICY owner_finds ON crealeph.accepted FOR SELECT TO CURRENT_USER USING (true);
CREATE POLICY owner_finds ON crealeph.leases FOR SELECT TO CURRENT_USER USING (true);

-- The first tenant after a name that has a request which nobody works on, or an answer that ended before a time.
CREATE FUNCTION crealeph.tenant_with_work(text, bigint) RETURNS text LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = crealeph, pg_temp AS $$
  SELECT a.tenant FROM accepted a WHERE a.tenant > $1 AND may_use(a.tenant) AND (a.ended_at < $2
    OR a.ended_at IS NULL AND NOT EXISTS (SELECT FROM leases l WHERE l.tenant = a.tenant AND l.name = a.lease
      AND l.until - (extract(epoch FROM clock_timestamp()) * 1000)::bigint BETWEEN 1 AND 2 * l.ttl))
  ORDER BY a.tenant LIMIT 1
$$;

-- How many requests of all tenants wait or are worked on, counted up to a number.
CREATE FUNCTION crealeph.open_requests(bigint) RETURNS bigint LANGUAGE sql VOLATILE SECURITY DEFINER
SET search_path = crealeph, pg_temp AS $$
  SELECT count(*) FROM (SELECT FROM accepted WHERE ended_at IS NULL LIMIT $1) AS open
$$;

-- As before, with the new table.
CREATE OR REPLACE FUNCTION crealeph.bind_login(name, text) RETURNS void LANGUAGE plpgsql
SET search_path = crealeph, pg_temp AS $$
DECLARE relation text;
BEGIN
  INSERT INTO logins (login, tenant) VALUES ($1, $2) ON CONFLICT DO NOTHING;
  FOREACH relation IN ARRAY ARRAY['logs', 'entries', 'edges', 'tiles', 'checkpoints', 'leases', 'lease_tokens',
    'subscriptions', 'accepted'] LOOP
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
  EXECUTE format('GRANT SELECT ON crealeph.accepted, crealeph.processes TO %I, %I', ledger, audit);
  EXECUTE format('GRANT INSERT, UPDATE, DELETE ON crealeph.accepted, crealeph.processes TO %I', ledger);
  EXECUTE format('CREATE POLICY audit ON crealeph.accepted FOR SELECT TO %I USING (true)', audit);
  REVOKE ALL ON FUNCTION crealeph.tenant_with_work, crealeph.open_requests FROM PUBLIC;
  EXECUTE format('GRANT EXECUTE ON FUNCTION crealeph.tenant_with_work, crealeph.open_requests TO %I', ledger);
  IF EXISTS (SELECT FROM pg_policy WHERE polrelid = 'crealeph.leases'::regclass AND polname = 'bound_login') THEN
    EXECUTE format('CREATE POLICY bound_login ON crealeph.accepted AS RESTRICTIVE TO %I '
      'USING ((SELECT crealeph.may_use(current_setting(''crealeph.tenant'', true))))', ledger);
  END IF;
END $$;
