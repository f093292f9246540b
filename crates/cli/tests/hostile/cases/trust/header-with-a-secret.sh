# class: trust
# about: a clone brings an HTTP agent that sends a variable of the user's as a header
# before: broke
unset CREALEPH_TRUST
listening
cat >crealeph.toml <<END
[agents."remote@1"]
kind = "http"
url = "http://127.0.0.1:$port/plan"
secret_headers = { Authorization = { env = "GITHUB_TOKEN" } }
END
into_clone
export GITHUB_TOKEN=a-secret-token
crealeph_does agent check remote@1 --case unicode
safe
refused "crealeph trust $SCENE/clone/crealeph.toml"
grep -q "secret header  *Authorization = .*GITHUB_TOKEN" "$SCENE/err" || broken "the header is not shown"
