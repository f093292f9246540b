#!/bin/sh
# An agent to copy: reads one AgentInput on standard input, writes one AgentOutput on standard output.
# It needs nothing but a POSIX shell and awk. Whatever is meant for people goes to standard error.
#
# The input is cut at its quotes: every second piece is then the inside of a text, and the pieces between hold the
# brackets, so that a field is distinguished from one of the same name deeper down. Texts are passed on as they were written,
# escapes included.
LC_ALL=C
export LC_ALL
exec awk '
BEGIN { RS = "\""; depth = 0; inside = 0; text = ""; ids = 0; kinds = 0 }

# The inside of a text; one that ends with an odd number of backslashes goes on after the quote.
inside {
    text = text $0
    if (match($0, /\\+$/) && RLENGTH % 2 == 1) { text = text "\""; next }
    inside = 0
    pending = text
    next
}

# What stands between two texts: a colon makes the last one a name, anything else a value.
{
    if (NR > 1) {
        if ($0 ~ /^[ \t\r\n]*:/) name[depth] = pending
        else value(pending)
    }
    between = $0
    gsub(/[^][{}]/, "", between)
    for (at = 1; at <= length(between); at++) {
        bracket = substr(between, at, 1)
        if (bracket == "{" || bracket == "[") { depth++; name[depth] = "" }
        else depth--
    }
    inside = 1
    text = ""
}

function value(found) {
    if (depth == 1) field[name[1]] = found
    else if (depth == 2 && name[1] == "objective" && name[2] == "type") objective = found
    else if (depth == 2 && name[1] == "allowedArtifactTypes") kind[++kinds] = found
    else if (depth == 3 && name[1] == "allowedLineage" && name[2] == "dependsOnLedgerIds" && ids < 10) id[++ids] = found
}

END {
    start = "\"executionId\":\"" field["executionId"] "\""
    if (field["runMode"] == "execute" && field["coherenceStatus"] == "stale") {
        print "{\"ok\":false," start ",\"status\":\"blocked\",\"error\":{\"code\":\"STALE_SNAPSHOT\"," \
            "\"message\":\"a stale snapshot is not executed\",\"retryable\":false}}"
        exit
    }
    for (at = 1; at <= ids; at++) lineage = lineage (at > 1 ? "," : "") "\"" id[at] "\""
    for (at = 1; at <= kinds; at++)
        made = made (at > 1 ? "," : "") "{\"type\":\"" kind[at] "\"," \
            "\"payload\":{\"title\":\"" kind[at] " for " objective "\"," \
            "\"steps\":[\"look at the newest signals\",\"write down what changes\"]}," \
            "\"dependsOnLedgerIds\":[" lineage "],\"metadata\":{\"generatedAt\":\"" field["snapshotAt"] "\"}}"
    print "{\"ok\":true," start ",\"status\":\"succeeded\",\"artifacts\":[" made "]}"
}
'
