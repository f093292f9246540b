-- Who is at work on what, until when. Not part of any log; tokens only grow, so that a row may be removed.
CREATE TABLE crealeph.leases (
  tenant text COLLATE "C" NOT NULL,
  name   text COLLATE "C" NOT NULL,
  holder text NOT NULL,
  token  bigint NOT NULL,
  until  bigint NOT NULL,
  ttl    bigint NOT NULL,
  PRIMARY KEY (tenant, name)
);
CREATE INDEX leases_by_end ON crealeph.leases (tenant, until);

CREATE TABLE crealeph.lease_tokens (
  tenant text COLLATE "C" PRIMARY KEY,
  last   bigint NOT NULL
);
CREATE FUNCTION crealeph.tokens_only_grow() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
  IF NEW.tenant <> OLD.tenant OR NEW.last <= OLD.last THEN
    RAISE EXCEPTION 'lease tokens only grow';
  END IF;
  RETURN NEW;
END $$;
CREATE TRIGGER tokens_only_grow BEFORE UPDATE ON crealeph.lease_tokens
  FOR EACH ROW EXECUTE FUNCTION crealeph.tokens_only_grow();
CREATE TRIGGER tokens_remain BEFORE DELETE OR TRUNCATE ON crealeph.lease_tokens EXECUTE FUNCTION crealeph.refuse();

DO $$ DECLARE name text; BEGIN
  FOREACH name IN ARRAY ARRAY['leases', 'lease_tokens'] LOOP
    EXECUTE format('ALTER TABLE crealeph.%I ENABLE ROW LEVEL SECURITY', name);
    EXECUTE format('ALTER TABLE crealeph.%I FORCE ROW LEVEL SECURITY', name);
    EXECUTE format('CREATE POLICY own_tenant ON crealeph.%I USING (tenant = current_setting(''crealeph.tenant'', true)) '
      'WITH CHECK (tenant = current_setting(''crealeph.tenant'', true))', name);
  END LOOP;
END $$;
GRANT SELECT, INSERT, UPDATE, DELETE ON crealeph.leases TO crealeph_ledger;
GRANT SELECT, INSERT, UPDATE (last) ON crealeph.lease_tokens TO crealeph_ledger;
