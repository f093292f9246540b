# class: protected-paths
# about: CI files in a folder that is, or becomes, a repository of its own
# before: broke
no_agent_may_write packages/one/.github/workflows/x.yml deploy/Jenkinsfile sub/.gitlab-ci.yml
