# SPDX-License-Identifier: BSD-3-Clause
# watching.awk - the table of watching.sh: reads its lines "watcher|instructions|title", then its rows
# "watcher|bytes|round|median|mean".

# The value below which this part of a sorted list lies.
function part(list, n, share,    at) {
    at = 1 + (n - 1) * share
    return list[int(at)] + (at - int(at)) * (list[int(at) + (at > int(at))] - list[int(at)])
}

function times(watcher, bytes,    round, n, list) {
    for (round = 1; round <= rounds; round++)
        if ((watcher, bytes, round) in median)
            list[++n] = median[watcher, bytes, round]
    sort(list, n)
    return n ? sprintf("%.3f (%.3f to %.3f)", part(list, n, 0.5), list[1], list[n]) : "not measured"
}

function more(watcher, bytes, values,    round, n, list) {
    for (round = 1; round <= rounds; round++)
        if ((watcher, bytes, round) in values && ("nothing", bytes, round) in values)
            list[++n] = 1000 * (values[watcher, bytes, round] - values["nothing", bytes, round])
    sort(list, n)
    return n ? sprintf("%.0f (%.0f to %.0f)", part(list, n, 0.5), part(list, n, 0.25), part(list, n, 0.75)) : "not measured"
}

NF == 3 {
    watcher[++watchers] = $1
    count[$1] = $2
    title[$1] = $3
}

NF == 5 {
    median[$1, $2, $3] = $4
    mean[$1, $2, $3] = $5
    rounds = $3 > rounds ? $3 : rounds
}

END {
    n = split(sizes, size, " ")
    for (s = 1; s <= n; s++) {
        bytes = size[s]
        printf "\n| watched by | %s B: us | more, ns | more by the mean, ns |%s\n", bytes, s == 1 ? " instructions |" : ""
        printf "|---|---|---|---|%s\n", s == 1 ? "---|" : ""
        for (w = 1; w <= watchers; w++) {
            name = watcher[w]
            printf "| %s | %s | %s | %s |%s\n", title[name], times(name, bytes),
                name == "nothing" ? "" : more(name, bytes, median), name == "nothing" ? "" : more(name, bytes, mean),
                s == 1 ? " " count[name] " |" : ""
        }
    }
}
