# class: sandbox
# about: the program writes into a FIFO of a directory that it may only read
# before: broke
mkdir "$OUT/granted"
chmod 755 "$OUT" "$OUT/granted"
mkfifo -m 666 "$OUT/granted/pipe"
cat <"$OUT/granted/pipe" >"$OUT/heard" &
listener=$!
inside '
import os, sys
try: os.write(os.open("'"$OUT"'/granted/pipe", os.O_WRONLY | os.O_NONBLOCK), b"pwned")
except OSError as error: print(error)
print("TRIED")' --read "$OUT/granted"
kill $listener 2>/dev/null || true
tried
test ! -s "$OUT/heard" || broken "a reader outside heard: $(cat "$OUT/heard")"
