# class: repository-forgery
# about: .gitmodules is a link to a file that the agent may write
# before: broke
agent_runs 'echo x >modules; rm -f .gitmodules; ln -s modules .gitmodules' 
denied '.gitmodules'
test ! -L .gitmodules || broken "it was published"
