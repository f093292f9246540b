# class: repository-forgery
# about: Jujutsu reads its configuration from .jj/repo
# before: broke
agent_runs 'mkdir -p src/.jj/repo; echo x >src/.jj/repo/config.toml' 
denied 'src/.jj/repo/config.toml'
safe
