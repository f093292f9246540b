# class: repository-forgery
# about: .CREALEPH is our own folder where case does not count
# before: broke
agent_runs 'mkdir .CREALEPH; echo {} >.CREALEPH/journal' 
denied '.CREALEPH/journal'
safe
