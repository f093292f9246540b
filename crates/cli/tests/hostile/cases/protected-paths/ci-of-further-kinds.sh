# class: protected-paths
# about: the configuration of rarer CIs and of cloud builds
# before: broke
no_agent_may_write appveyor.yml .cirrus.yml .teamcity/settings.kts .semaphore/semaphore.yml cloudbuild.yaml
