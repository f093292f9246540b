# class: repository-forgery
# about: HEAD and commondir are enough, where another folder has the rest
# before: broke
mkdir -p data/objects data/refs
agent_runs 'mkdir lib; echo "ref: refs/heads/main" >lib/HEAD; echo ../data >lib/commondir; printf "[core]\n" >data/config'
test "$(status)" = denied || broken "$(status)"
