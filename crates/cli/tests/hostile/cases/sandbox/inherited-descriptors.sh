# class: sandbox
# about: descriptors that the caller left open reach the program: a file, a folder, a socket
# before: held
# fails without: closing every descriptor past the third
echo secret >"$OUT/secret"
exec 7<"$OUT/secret" 8<"$OUT" 9>"$OUT/written"
inside '
import os
for number in range(3, 64):
    try:
        print("GOT", number, os.readlink(f"/proc/self/fd/{number}"))
    except OSError: pass
print("TRIED")'
exec 7<&- 8<&- 9>&-
grep -v "GOT 3 /proc" "$SCENE/inside" >"$SCENE/rest"; mv "$SCENE/rest" "$SCENE/inside"
tried
