# class: self-granting
# about: the agent replaces a secret file of the workspace by a link, so that the next run is given another file
# before: broke
echo a-long-enough-token >token.txt
cat >>crealeph.toml <<'END'
secret_files = { TOKEN = "token.txt" }
END
agent_runs "rm -f token.txt; ln -s a.txt token.txt"
denied token.txt
