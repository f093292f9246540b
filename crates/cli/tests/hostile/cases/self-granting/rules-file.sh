# class: self-granting
# about: the agent edits the rules file that decides what is allowed
# before: broke
echo '[thresholds]' >gate.toml
printf 'min_confidence = 0.9\n' >>gate.toml
cat >>crealeph.toml <<'END'
[tenants.local.robots.shop.builder]
rules = "gate.toml"
END
agent_runs 'sed -i s/0.9/0.0/ gate.toml'
denied gate.toml
grep -q 0.9 gate.toml || broken "the rules were changed"
