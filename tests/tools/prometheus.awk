# SPDX-License-Identifier: BSD-3-Clause
# prometheus.awk - prints what is wrong in a text of `coll metrics`: lines that are not in the text format of Prometheus, families
# in two places or without a type, samples that are there twice, and buckets that fall or lack their end.
function wrong(what) { print what ": " $0 }
BEGIN { FS = "[{ ]" }
/^# HELP coll_[a-z_]+ [A-Z].*\.$/ {
    if ($3 in families) wrong("again")
    family = $3; families[family]; type = ""
    next
}
/^# TYPE coll_[a-z_]+ (counter|gauge|histogram)$/ {
    if ($3 != family || type != "") wrong("type")
    type = $4
    if ((type == "counter") != (family ~ /_total$/)) wrong("name")
    next
}
!/^coll_[a-z_]+\{[a-z]+="([^"\\]|\\["\\n])*"(,[a-z]+="([^"\\]|\\["\\n])*")*\} ([0-9]+(\.[0-9]+)?(e[+-][0-9]+)?|\+Inf|NaN)$/ { wrong("form"); next }
{
    name = $1
    if (type == "histogram") sub(/_(bucket|sum|count)$/, "", name)
    if (name != family || type == "") wrong("family")
    series = $0; sub(/ [^ ]*$/, "", series)
    if (series in seen) wrong("twice")
    seen[series]
}
/_bucket\{/ {
    labels = series; sub(/,le="[^"]*"\}$/, "", labels); sub(/^[^{]*/, "", labels)
    if (labels in bucket && $NF + 0 < bucket[labels]) wrong("falls")
    bucket[labels] = $NF + 0
    if (series ~ /,le="\+Inf"\}$/) whole[labels]
    else if (series !~ /,le="[0-9.e-]+"\}$/) wrong("limit")
}
/_count\{/ {
    labels = series; sub(/\}$/, "", labels); sub(/^[^{]*/, "", labels)
    if (!(labels in whole) || bucket[labels] != $NF + 0) wrong("count")
}
END { if (!(family in families)) print "there is no family" }
