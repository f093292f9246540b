# class: protected-paths
# about: a link elsewhere that leads to a file that a tool reads by its own documentation, so that a later write goes there
# before: broke
# users: ordinary
# The judgement is the same for both users, and there are hundreds of runs.
echo "hide = []" >>crealeph.toml; git commit -qam hide
sampled laws >"$SCENE/paths"
each_path 'ln -s "$1" harmless'
each_denied 'Denied path: harmless (a link to PATH)'
