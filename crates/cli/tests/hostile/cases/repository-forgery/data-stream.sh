# class: repository-forgery
# about: .git::$INDEX_ALLOCATION is the git folder on NTFS
# before: broke
agent_runs 'mkdir ".git::\$INDEX_ALLOCATION"; echo x >".git::\$INDEX_ALLOCATION/config"' 
denied '.git::$INDEX_ALLOCATION/config'
safe
