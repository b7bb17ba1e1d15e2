# SPDX-License-Identifier: BSD-3-Clause
# links.awk - a document of the tree as it is installed: its links lead to installed files.
#
#   awk -v folder=plugins -v installed='README.md ...' -v includedir=... -v sysconfdir=... -f links.awk FILE
#
# `folder` is the file's place in the tree, "." at the top; `installed` names the documents that keep their place.  A link
# to a file that is not installed becomes its path in the sources.
function normal(path,    parts, n, i, kept, out) {
    n = split(path, parts, "/")
    for (i = 1; i <= n; i++)
        if (parts[i] == "..")
            kept--
        else if (parts[i] != "." && parts[i] != "")
            out[++kept] = parts[i]
    path = out[1]
    for (i = 2; i <= kept; i++)
        path = path "/" out[i]
    return path
}

# Returns the place of a file of the tree in the installed documents, or "".
function place(path) {
    if (path in known)
        return up path
    if (path ~ /^include\//)
        return includedir substr(path, 8)
    if (path == "conf/coll.conf")
        return sysconfdir "/coll.conf"
    if (sub(/^tests\/examples\//, "", path))
        return up "examples/" path
    if (sub(/^tests\/out-of-tree/, "", path))
        return up "examples/backend" path
    return ""
}

function link(text, target,    path, there) {
    if (target ~ /^(https?:|#|mailto:)/)
        return "[" text "](" target ")"
    path = normal(folder "/" target)
    there = place(path)
    if (there != "")
        return "[" text "](" there ")"
    return text (text == path ? " (in the sources)" : " (" path " in the sources)")
}

BEGIN {
    n = split(installed, names, " ")
    for (i = 1; i <= n; i++)
        known[names[i]] = 1
    n = folder == "." ? 0 : split(folder, names, "/")
    while (n-- > 0)
        up = up "../"
}

{
    line = ""
    while (match($0, /\[[^][]*\]\([^() ]*\)/)) {
        found = substr($0, RSTART + 1, RLENGTH - 2)
        split(found, halves, /\]\(/)
        line = line substr($0, 1, RSTART - 1) link(halves[1], halves[2])
        $0 = substr($0, RSTART + RLENGTH)
    }
    print line $0
}
