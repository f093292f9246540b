# class: repository-forgery
# about: a folder .GIT is the git folder where case does not count
# before: broke
agent_runs 'mkdir .GIT; printf "[core]\n" >.GIT/config' 
denied '.GIT/config'
test ! -e .GIT || broken "it was published"
