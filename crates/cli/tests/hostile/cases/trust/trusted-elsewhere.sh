# class: trust
# about: a second clone of a trusted repository, with another owner, is used without a question
# before: broke
unset CREALEPH_TRUST
crealeph_does trust --yes
into_clone
agent_runs 'echo x >>a.txt'
refused "crealeph trust $SCENE/clone/crealeph.toml"
