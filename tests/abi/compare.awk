# SPDX-License-Identifier: BSD-3-Clause
# compare.awk - holds the facts of a header against what was frozen, and says each difference.
#
#   awk -f compare.awk FROZEN... kind=found FOUND          one sentence a line; nothing: all is well
#   awk -v want=new -f compare.awk FROZEN... kind=found FOUND    the facts that are new

/^#/ || NF < 2 { next }
{ key = $1 " " $2; rest = substr($0, length(key) + 2) }
kind != "found" { frozen[key] = rest; order[++known] = key; next }
{ found[key] = rest }
!(key in frozen) && want == "new" { print }
!(key in frozen) && want != "new" { fresh[++news] = key }

END {
    if (want == "new")
        exit
    for (i = 1; i <= known; i++)
        if (!(order[i] in found))
            gone(order[i])
        else if (found[order[i]] != frozen[order[i]])
            changed(order[i], frozen[order[i]], found[order[i]])
    for (i = 1; i <= news; i++)
        print name_of(fresh[i]) " is new, not yet in the table: run tests/abi/update"
}

function name_of(key) {
    sub(/^[a-z]+ /, "", key)
    return key
}

function gone(key) {
    print name_of(key) " is gone: what was released stays, even if nobody should use it"
}

function changed(key, was, is) {
    if (key ~ /^field/)
        field(name_of(key), was, is)
    else if (key ~ /^struct/)
        print name_of(key) " was '" was "', is '" is "': a struct that cannot tell its size " \
            "cannot grow"
    else if (key ~ /^enum/)
        print name_of(key) " was " was ", is " is ": the value of a constant never changes"
    else
        print name_of(key) " was '" was "', is '" is "': what was released keeps its type; add a " \
            "new one beside it"
}

# at OFFSET size SIZE type TYPE
function field(name, was, is,    a, b) {
    split(was, a, " ")
    split(is, b, " ")
    if (a[2] != b[2])
        print name " was at " a[2] ", is at " b[2] ": slots may only be appended"
    if (a[4] != b[4])
        print name " had " a[4] " bytes, has " b[4] ": a field never changes its size"
    sub(/.* type /, "", was)
    sub(/.* type /, "", is)
    if (was != is)
        print name " was '" was "', is '" is "': a field never changes its type"
}
