# class: protected-paths
# about: names that NTFS and HFS+ take for .github: a dot or a space at the end, characters that are not shown, a stream
# before: broke
no_agent_may_write .github./workflows/x.yml '.github /workflows/x.yml' "$(printf '.g\342\200\214ithub/workflows/x.yml')" 'GITHUB~1/workflows/x.yml'
