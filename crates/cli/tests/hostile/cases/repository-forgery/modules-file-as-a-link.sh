# class: repository-forgery
# about: .gitmodules is a link to a file that the agent may write, where protected paths may be changed
# before: broke
echo 'paths = { allow_laws = true }' >>crealeph.toml
agent_runs 'echo x >modules; ln -s modules .gitmodules'
denied .gitmodules
test ! -L .gitmodules || broken "it was published"
