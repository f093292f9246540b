# class: repository-forgery
# about: the same in a folder, which would be a nested repository
# before: broke
agent_runs 'mkdir -p src/.Git/hooks; echo x >src/.Git/hooks/post-checkout' 
denied 'src/.Git/hooks/post-checkout'
test ! -e src/.Git || broken "it was published"
