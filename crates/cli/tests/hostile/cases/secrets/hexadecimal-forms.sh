# class: secrets
# about: hexadecimal in every shape that source code and dumps have it
# before: broke
grant_secret
for form in 'xxd -p' 'xxd -i' 'xxd -u -p' 'od -An -tx1 -v' ; do
    agent_runs 'printf %s "$API_KEY" | '"$form"' >dump.txt; test -s dump.txt'
    denied_with 'Secret in change: dump.txt'
done
agent_runs 'printf %s "$API_KEY" | xxd -p | sed "s/../\\\\x&/g" >dump.txt'
denied_with 'Secret in change: dump.txt'
agent_runs 'printf %s "$API_KEY" | xxd -p -c 64 | sed "s/../&:/g" >dump.txt'
denied_with 'Secret in change: dump.txt'
