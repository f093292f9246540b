# class: protected-paths
# about: a link in the place of every file that a tool reads by its own documentation
# before: broke
# users: ordinary
# The judgement is the same for both users, and there are hundreds of runs.
echo "hide = []" >>crealeph.toml; git commit -qam hide
sampled laws >"$SCENE/paths"
each_path 'mkdir -p "$(dirname "$1")"; ln -sf nowhere "$1"'
each_denied 'Denied path: PATH'
