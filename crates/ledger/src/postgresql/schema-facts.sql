-- What the schema is, one line for each fact, with the two roles and the owner by what they are: compared with
-- schema-facts.txt, and if a login is bound with the policies of `bind_login` as well.
WITH names (oid, name) AS (
  SELECT oid, CASE
    WHEN rolname = (SELECT ledger_role FROM crealeph.version) THEN '{ledger}'
    WHEN rolname = (SELECT audit_role FROM crealeph.version) THEN '{audit}'
    WHEN oid = (SELECT nspowner FROM pg_namespace WHERE nspname = 'crealeph') THEN '{owner}'
    ELSE rolname::text END FROM pg_roles
  UNION ALL SELECT 0, 'PUBLIC'
), relations AS (
  SELECT * FROM pg_class WHERE relnamespace = 'crealeph'::regnamespace
), tables AS (
  SELECT * FROM relations WHERE relkind NOT IN ('i', 'I', 't', 'c')
), functions AS (
  SELECT *, proname || '(' || pg_get_function_identity_arguments(oid) || ')' AS shown FROM pg_proc
  WHERE pronamespace = 'crealeph'::regnamespace
), rights (thing, acl, owner) AS (
  SELECT 'schema', nspacl, nspowner FROM pg_namespace WHERE nspname = 'crealeph'
  UNION ALL SELECT relname::text, relacl, relowner FROM tables
  UNION ALL SELECT relname || '.' || attname, attacl, relowner FROM tables JOIN pg_attribute ON attrelid = tables.oid
  UNION ALL SELECT proname || '()', coalesce(proacl, acldefault('f', proowner)), proowner FROM functions
), facts (fact) AS (
  SELECT format('%s %s of %s%s', CASE relkind WHEN 'r' THEN 'table' ELSE 'relation' END, relname, names.name,
    CASE WHEN relrowsecurity THEN ', row security' ELSE '' END || CASE WHEN relforcerowsecurity THEN ' forced' ELSE '' END)
  FROM tables LEFT JOIN names ON names.oid = relowner
  UNION ALL
  SELECT format('column %s.%s %s%s%s', relname, attname, format_type(atttypid, atttypmod),
    CASE WHEN attnotnull THEN ' not null' ELSE '' END,
    CASE WHEN collname <> 'default' THEN ' collate ' || collname ELSE '' END)
  FROM tables JOIN pg_attribute ON attrelid = tables.oid LEFT JOIN pg_collation c ON c.oid = attcollation
  WHERE attnum > 0 AND NOT attisdropped
  UNION ALL
  SELECT pg_get_indexdef(indexrelid) || CASE WHEN indisvalid AND indisready THEN '' ELSE ' (not valid)' END
  FROM pg_index JOIN tables ON tables.oid = indrelid
  UNION ALL
  SELECT pg_get_triggerdef(t.oid) || CASE tgenabled WHEN 'O' THEN '' ELSE ' (' || tgenabled::text || ')' END
  FROM pg_trigger t JOIN tables ON tables.oid = tgrelid WHERE NOT tgisinternal
  UNION ALL
  SELECT pg_get_ruledef(r.oid) FROM pg_rewrite r JOIN tables ON tables.oid = ev_class
  UNION ALL
  SELECT format('policy %s on %s for %s to %s, %s, using %s, check %s', polname, relname, polcmd,
    (SELECT string_agg(coalesce(names.name, r::text), ' ' ORDER BY coalesce(names.name, r::text)) FROM unnest(polroles) r LEFT JOIN names ON names.oid = r),
    CASE WHEN polpermissive THEN 'permissive' ELSE 'restrictive' END,
    pg_get_expr(polqual, polrelid), pg_get_expr(polwithcheck, polrelid))
  FROM pg_policy JOIN tables ON tables.oid = polrelid
  UNION ALL
  SELECT format('function %s of %s, %s%s, %s, %s', shown, names.name, lanname,
    CASE WHEN prosecdef THEN ', as its owner' ELSE '' END, array_to_string(proconfig, ' '), md5(prosrc))
  FROM functions JOIN pg_language l ON l.oid = prolang LEFT JOIN names ON names.oid = proowner
  UNION ALL
  SELECT format('%s may %s %s', coalesce(names.name, grantee::text), privilege_type, thing)
  FROM rights, aclexplode(acl) LEFT JOIN names ON names.oid = grantee WHERE grantee <> owner
  UNION ALL
  SELECT format('role %s%s%s%s', names.name, CASE WHEN rolsuper THEN ' superuser' ELSE '' END,
    CASE WHEN rolbypassrls THEN ' bypassrls' ELSE '' END, CASE WHEN rolcanlogin THEN ' login' ELSE '' END)
  FROM pg_roles r JOIN names USING (oid) WHERE names.name IN ('{ledger}', '{audit}')
)
SELECT regexp_replace(fact, '\s+', ' ', 'g') COLLATE "C" FROM facts ORDER BY 1
