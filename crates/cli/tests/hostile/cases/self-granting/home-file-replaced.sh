# class: self-granting
# about: the agent replaces a file that is copied into its HOME by a link to another
# before: broke
echo settings >settings.json
cat >>crealeph.toml <<'END'
home = ["settings.json"]
END
agent_runs "rm settings.json; ln -s a.txt settings.json"
denied settings.json
