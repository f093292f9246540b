# class: secrets
# about: a planning agent puts its secret into an artifact, which the ledger would keep permanently
# before: broke
cat >leaky.sh <<'END'
key=$(printf 'x%s' "$API_KEY" | base64 -w 0)
jq -c --arg key "$key" '{ok: true, executionId, status: "succeeded", artifacts: [{type: .allowedArtifactTypes[0], payload: {note: $key},
    dependsOnLedgerIds: [.allowedLineage.dependsOnLedgerIds[0]], metadata: {generatedAt: .snapshotAt}}]}'
END
printf '[agents."leaky@1"]\nkind = "process"\ncommand = ["sh", "leaky.sh"]\nsecrets = ["API_KEY"]\n' >>crealeph.toml
crealeph_does agent check leaky@1
if test "$code" = 0; then broken "the answer was taken"; fi
grep -q 'contains a secret that the agent was granted' "$SCENE/out" "$SCENE/err" || broken "it was refused for another reason"
