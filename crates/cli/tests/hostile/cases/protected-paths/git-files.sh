# class: protected-paths
# about: files that git itself obeys: filters, submodules, in any folder
# before: broke
no_agent_may_write src/.gitattributes src/.gitmodules .lfsconfig .gitconfig
