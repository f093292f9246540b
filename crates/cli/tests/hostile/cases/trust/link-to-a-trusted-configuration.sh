# class: trust
# about: a clone brings a crealeph.toml that is a link to one that the user trusts, whose relative paths now lead into the clone
# before: broke
unset CREALEPH_TRUST
mkdir data
cat >crealeph.toml <<'END'
[work.agents.one]
agent_id = "agent-1"
command = ["sh", "-c", "{prompt}"]
read = ["data"]
END
crealeph_does trust --yes
test "$code" = 0 || broken "it cannot be trusted"
mkdir "$SCENE/clone"
cd "$SCENE/clone"
ln -s "$WS/crealeph.toml" crealeph.toml
echo x >a.txt
agent_runs 'echo y >>a.txt'
refused "crealeph trust $SCENE/clone/crealeph.toml"
