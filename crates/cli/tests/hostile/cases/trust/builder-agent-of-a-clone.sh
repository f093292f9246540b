# class: trust
# about: a clone brings a Builder agent, and the user asks for a plan
# before: broke
unset CREALEPH_TRUST
mkdir agents
echo 'touch ran; cat' >agents/planner.sh
cat >crealeph.toml <<'END'
[agents."planner@1"]
kind = "process"
command = ["sh", "agents/planner.sh"]
secrets = ["DEPLOY_KEY"]
END
into_clone
crealeph_does ledger init
test "$code" = 0 || broken "a ledger needs no trust"
crealeph_does build --robot r --objective landing_plan --agent planner@1
refused "crealeph trust $SCENE/clone/crealeph.toml"
grep -q "secret  *DEPLOY_KEY" "$SCENE/err" || broken "the secret is not shown"
crealeph_does agent check planner@1
refused "crealeph trust $SCENE/clone/crealeph.toml"
