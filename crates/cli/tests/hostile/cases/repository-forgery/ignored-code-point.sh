# class: repository-forgery
# about: HFS+ leaves a zero width non-joiner out when it compares names
# before: broke
name=$(printf '.g\342\200\214it')
agent_runs "mkdir '$name'; echo x >'$name/config'"
denied '.g\u200cit/config'
test ! -e "$name" || broken "it was published"
