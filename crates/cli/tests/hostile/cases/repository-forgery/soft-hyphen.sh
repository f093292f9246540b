# class: repository-forgery
# about: a casefolding ext4 leaves a soft hyphen out when it compares names
# before: broke
name=$(printf '.gi\302\255t')
agent_runs "mkdir '$name'; echo x >'$name/config'"
denied '.gi\u00adt/config'
test ! -e "$name" || broken "it was published"
