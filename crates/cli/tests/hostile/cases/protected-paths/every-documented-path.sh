# class: protected-paths
# about: every file that a CI, git, an editor, a shell or a coding agent reads by its own documentation
# before: broke
echo "hide = []" >>crealeph.toml; git commit -qam hide
sampled laws >"$SCENE/paths"
test "$(wc -l <"$SCENE/paths")" -gt 200 || broken "there are too few samples"
each_path 'mkdir -p "$(dirname "$1")"; echo evil >"$1"'
each_denied 'Denied path: PATH'
