//! The screens of the ledger.

use expect_test::expect;

use crate::story::Story;

#[test]
fn a_ledger_from_its_start() {
    let story = Story::new();
    story.shows(
        "crealeph ledger init",
        expect![[r#"
        created the ledger `.crealeph/ledger.db` with its signing key in
          `.crealeph/ledger.db.keys`
        save the output of `crealeph ledger key` elsewhere: it is needed to verify the
          log
    "#]],
    );
    story.shows(
        "crealeph ledger append entries.jsonl",
        expect![[r#"
        5 appended, 0 repeats
    "#]],
    );
    story.shows(
        "crealeph ledger append --print entries.jsonl",
        expect![[r#"
               1  <time>  <id>  repeat
               2  <time>  <id>  repeat
               3  <time>  <id>  repeat
               4  <time>  <id>  repeat
               5  <time>  <id>  repeat
        0 appended, 5 repeats
    "#]],
    );
    story.shows(
        "crealeph ledger list",
        expect![[r#"
            $
                   1  <time>  shop-17          signal           final
                     <id>
                   2  <time>  shop-17          fusion           final
                     <id>
                   3  <time>  shop-17          idea             final
                     <id>
                   4  <time>  shop-17          copy             final
                     <id>
                   5  <time>  shop-17          playbook         final
                     <id>
        "#]],
    );
    story.shows(
        "crealeph ledger list --newest --limit 1 --type signal",
        expect![[r#"
            $
                   1  <time>  shop-17          signal           final
                     <id>
        "#]],
    );
    story.shows(
        "crealeph ledger get key:s",
        expect![[r#"
        {
          "createdAt": "<time>",
          "id": "<id>",
          "key": "s",
          "module": "scout",
          "payload": {
            "visits": 1180
          },
          "robotId": "shop-17",
          "seq": 1,
          "source": "test",
          "state": "final",
          "tenantId": "local",
          "type": "signal"
        }
    "#]],
    );
    story.shows(
        "crealeph ledger lineage key:i",
        expect![[r#"
            $
              1       1  <time>  shop-17          signal           final
                   <id>
              1       2  <time>  shop-17          fusion           final
                   <id>
        "#]],
    );
    story.shows(
        "crealeph ledger lineage key:f --down",
        expect![[r#"
            $
              1       3  <time>  shop-17          idea             final
                   <id>
              2       4  <time>  shop-17          copy             final
                   <id>
              2       5  <time>  shop-17          playbook         final
                   <id>
        "#]],
    );
    story.shows(
        "crealeph ledger stats | grep -v root",
        expect![[r#"
            {
              "ledger": ".crealeph/ledger.db",
              "tenantId": "local",
              "origin": "crealeph-log/2-<random>",
              "entries": 5,
              "edges": 5,
              "lastAt": "<time>",
              "checkpoints": 0
            }
        "#]],
    );
    story.shows(
        "crealeph ledger tenants",
        expect![[r#"
        local                             5 entries  <time>
    "#]],
    );
}

#[test]
fn proofs_of_a_ledger() {
    let story = Story::with_entries();
    story.quietly("crealeph ledger checkpoint > saved.checkpoint && crealeph ledger key > saved.key");
    story.shows(
        "crealeph ledger verify",
        expect![[r#"
        verifying with the keys next to the ledger; use --key to verify with a key that
          you saved
        verified 5 entries of tenant `local`, root
          <hash>
        verified 1 checkpoints; a known key signed 5 entries
    "#]],
    );
    story.shows(
        "crealeph ledger verify --key saved.key --checkpoint saved.checkpoint",
        expect![[r#"
        verified 5 entries of tenant `local`, root
          <hash>
        verified 1 checkpoints; a known key signed 5 entries
    "#]],
    );
    story.shows(
        "crealeph ledger export log.jsonl",
        expect![[r#"
        entries: 5, checkpoints: 1
    "#]],
    );
    story.shows(
        "crealeph ledger verify log.jsonl --key saved.key",
        expect![[r#"
        verified 5 entries of tenant `local`, root
          <hash>
        verified 1 checkpoints; a known key signed 5 entries
    "#]],
    );
    story.quietly("id=$(CREALEPH_OUTPUT=json crealeph ledger get key:s | grep -o '\"id\":\"[^\"]*' | cut -d'\"' -f4) && crealeph ledger prove $id > proof.json");
    story.shows(
        "crealeph ledger verify-proof proof.json --key saved.key",
        expect![[r#"
        error: `proof.json` proves nothing: the file is not a proof: the entry is not in
          canonical form
        exit code 1
    "#]],
    );
    story.shows(
        "crealeph ledger backup copy.db",
        expect![[r#"
        copied to `copy.db`; the signing keys in `.crealeph/ledger.db.keys` are not part
          of it
    "#]],
    );
    story.shows(
        "crealeph ledger migrate",
        expect![[r#"
        the ledger already has schema version 7; nothing was changed
    "#]],
    );
    story.shows(
        "sed -i 's/1180/9180/' log.jsonl; crealeph ledger verify log.jsonl --key saved.key",
        expect![[r#"
            changed: entry 1 (`<id>`) does not match its
              leaf hash; it was changed
            exit code 1
        "#]],
    );
    story.shows(
        "crealeph ledger import log.jsonl --ledger other.db",
        expect![[r#"
        error: there is no ledger at `other.db`
        hint: create one with `crealeph ledger init`
        exit code 2
    "#]],
    );
}
