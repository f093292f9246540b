# class: protected-paths
# about: files that a shell runs when someone enters the folder
# before: broke
printf 'hide = []\n' >>crealeph.toml; git commit -qam hide
no_agent_may_write sub/.envrc .direnv/bin/x .mise.local.toml .tool-versions
