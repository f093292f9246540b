# class: protected-paths
# about: a checkout on a file system that folds case runs .GitHub/Workflows
# before: broke
no_agent_may_write .GitHub/Workflows/x.yml JENKINSFILE .Husky/pre-commit CREALEPH.TOML
