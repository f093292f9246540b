# class: protected-paths
# about: the configuration of hook managers, which the next commit of a person runs
# before: broke
no_agent_may_write lefthook.yml .overcommit.yml .githooks/pre-commit .simple-git-hooks.json sub/.husky/pre-commit
