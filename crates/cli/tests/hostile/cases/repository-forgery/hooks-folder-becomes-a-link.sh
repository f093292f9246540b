# class: repository-forgery
# about: the folder of hooks becomes a link to a folder that the agent may write
# before: broke
agent_runs 'rm -rf .git/hooks; mkdir tools; ln -s ../tools .git/hooks; echo x >tools/post-checkout'
denied .git/hooks
test ! -L .git/hooks || broken "it is a link"
