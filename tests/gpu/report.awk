# SPDX-License-Identifier: BSD-3-Clause
# report.awk - puts together what the ranks of one run said (gpu.h): a line for each check, as
# "0|NAME|", "1|NAME|WHAT" or "skip|NAME|REASON".  -v ranks=N: how many there should be.

/^\[[0-9]+\] / {
    rank = substr($1, 2, length($1) - 2)
    line = substr($0, length($1) + 2)
    if (line == "end")
        ends++
    if (line !~ /^(ok|not ok|skip)\|/)
        next
    verdict = line
    sub(/\|.*/, "", verdict)
    name = substr(line, length(verdict) + 2)
    text = name
    sub(/\|.*/, "", name)
    text = substr(text, length(name) + 2)
    if (!(name in said))
        names[++count] = name
    said[name]++
    if (verdict == "not ok")
        wrong[name] = wrong[name] "rank " rank ": " text "; "
    if (verdict == "skip") {
        skipped[name]++
        reason[name] = text
    }
}

END {
    for (i = 1; i <= count; i++) {
        name = names[i]
        if (name in wrong)
            print "1|" name "|" wrong[name]
        else if (said[name] != ranks)
            print "1|" name "|said by " said[name] " of " ranks " ranks"
        else if (skipped[name] == ranks)
            print "skip|" name "|" reason[name]
        else
            print "0|" name "|"
    }
    print (ends != ranks) "|every rank comes to its end|" ends + 0 " of " ranks " ranks did"
}
