# class: protected-paths
# about: the configuration of every common CI at the top of the tree
# before: broke
no_agent_may_write .travis.yml bitbucket-pipelines.yml .drone.yml .forgejo/workflows/x.yml Jenkinsfile.release
