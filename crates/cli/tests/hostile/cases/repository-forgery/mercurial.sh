# class: repository-forgery
# about: Mercurial runs hooks that .hg/hgrc names
# before: broke
agent_runs 'mkdir .hg; printf "[hooks]\nupdate = sh evil\n" >.hg/hgrc' 
denied '.hg/hgrc'
test ! -e .hg || broken "it was published"
