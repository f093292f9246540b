# class: repository-forgery
# about: git~1 is the short name of the git folder on NTFS
# before: broke
agent_runs 'mkdir git~1; echo x >git~1/config' 
denied 'git~1/config'
test ! -e git~1 || broken "it was published"
