# SPDX-License-Identifier: BSD-3-Clause
# table.awk - RESULTS.md, from the lines of the file reasons and lines "ranks|operation|bytes|engine|round|us|commit|kind|samples".
# The kind of a row's samples is near, far or any; rows of different kinds stand in different tables.

function number(x) {
	return sprintf(x < 0.1 ? "%.3f" : x < 10 ? "%.2f" : x < 100 ? "%.1f" : "%.0f", x)
}

function bytes(x) {
	return x < 1024 ? x : x < 1048576 ? x / 1024 "K" : x / 1048576 "M"
}

# Sets median, least and most of a list of n numbers; returns n.
function summarize(list, n) {
	if (!n)
		return 0
	sort(list, n)
	median = n % 2 ? list[(n + 1) / 2] : (list[n / 2] + list[n / 2 + 1]) / 2
	least = list[1]
	most = list[n]
	return n
}

# Summarizes a / b (b "": a) over the rounds in which both have a time; without such a round, a's median over b's: "~".
function over_rounds(row, a, b,    list, n, r, of_b) {
	n = 0
	approximately = ""
	for (r = 1; r <= rounds; r++)
		if (us[row, a, r] > 0 && (b == "" || us[row, b, r] > 0))
			list[++n] = us[row, a, r] / (b == "" ? 1 : us[row, b, r])
	if (n || b == "" || !over_rounds(row, b, ""))
		return summarize(list, n)
	of_b = median
	if (!over_rounds(row, a, ""))
		return 0
	approximately = "~"
	median = least = most = median / of_b
	return 1
}

# The nanoseconds that a takes more than b, in each round.
function beyond(row, a, b,    list, n, r) {
	n = 0
	for (r = 1; r <= rounds; r++)
		if (us[row, a, r] > 0 && us[row, b, r] > 0)
			list[++n] = 1000 * (us[row, a, r] - us[row, b, r])
	return summarize(list, n) ? sprintf(least == most ? "%.0f" : "%.0f (%.0f to %.0f)", median, least, most) : "-"
}

function range() {
	return approximately number(median) (least == most ? "" : " (" number(least) "-" number(most) ")")
}

function cell(row, a, b, mark) {
	if (!over_rounds(row, a, b)) {
		if (b != "" || !((row, a) in why))
			return b != "" ? "-" : "not measured"
		if (why[row, a] ~ /^failed/)
			failed[row, a] = "* " row_name(row) ", " a ": " why[row, a]
		return why[row, a] ~ /^failed/ ? "failed" : why[row, a]
	}
	return mark && least > 1 ? "**" range() "**" : range()
}

function row_name(row,    part) {
	split(row, part, SUBSEP)
	return part[1] " ranks, " part[2] (part[2] == "barrier" ? "" : " " bytes(part[3])) (part[4] == "any" ? "" : ", " part[4])
}

# "2 ranks, shared memory, near processors"
function title(n_ranks, what, kind) {
	return "\n## " n_ranks " ranks, " what (kind == "any" ? "" : ", " kind " processors") "\n"
}

# The peer of lowest median.
function best(row, names, n,    i, lowest, name) {
	for (i = 1; i <= n; i++)
		if (names[i] !~ /^(tcp|tcp-mem|ucx|simulated|tcp-sockets|bare.*)$/ && over_rounds(row, names[i], "") &&
		    (name == "" || median < lowest)) {
			lowest = median
			name = names[i]
		}
	return name
}

function is_ours(name) {
	return name ~ /^(tcp|tcp-mem|ucx|simulated|tcp-sockets)$/
}

function table(n_ranks, kind, what, list,    names, n, i, k, row, peer, bare, part) {
	n = split(list, names, " ")
	bare = names[n]
	printf "%s\n| operation | bytes | best peer |", title(n_ranks, what, kind)
	for (i = 1; i <= n; i++)
		if (is_ours(names[i]))
			printf " %s / best | %s / bare |", names[i], names[i]
	for (i = 1; i <= n; i++)
		printf " %s |", names[i]
	printf "\n|"
	for (i = 1; i <= 3 + n + ours(names, n) * 2; i++)
		printf "---|"
	printf "\n"
	for (k = 1; k <= nrows; k++) {
		row = order[k]
		split(row, part, SUBSEP)
		if (part[1] != n_ranks || part[4] != kind)
			continue
		peer = best(row, names, n)
		printf "| %s | %s | %s |", part[2], part[2] == "barrier" ? "" : bytes(part[3]), peer == "" ? "none" : peer
		for (i = 1; i <= n; i++)
			if (is_ours(names[i]))
				printf " %s | %s |", peer == "" ? "-" : cell(row, names[i], peer, 1), cell(row, names[i], bare, 0)
		for (i = 1; i <= n; i++)
			printf " %s |", cell(row, names[i], "", 0)
		printf "\n"
	}
}

# libcoll over the libraries of peers, beside each library alone: a line for each row and library that was measured.
function over_table(n_ranks, kind, list,    names, n, i, k, row, part, mine, head) {
	n = split(list, names, " ")
	for (k = 1; k <= nrows; k++) {
		row = order[k]
		split(row, part, SUBSEP)
		for (i = 1; i <= n && part[1] == n_ranks && part[4] == kind; i++) {
			mine = "coll-" names[i]
			if (!over_rounds(row, mine, "") && !((row, mine) in why))
				continue
			if (!head++) {
				print title(n_ranks, "libcoll over the library of a peer", kind)
				print "| operation | bytes | library | libcoll | library | non-blocking | libcoll / library | libcoll / non-blocking | more than non-blocking, ns |"
				print "|---|---|---|---|---|---|---|---|---|"
			}
			printf "| %s | %s | %s | %s | %s | %s | %s | %s | %s |\n", part[2], part[2] == "barrier" ? "" : bytes(part[3]),
			    names[i], cell(row, mine, "", 0), cell(row, names[i], "", 0), cell(row, names[i] "-i", "", 0),
			    cell(row, mine, names[i], 0), cell(row, mine, names[i] "-i", 0), beyond(row, mine, names[i] "-i")
		}
	}
}

function ours(names, n,    i, count) {
	for (i = 1; i <= n; i++)
		count += is_ours(names[i])
	return count
}

function in_list(x, list,    name, i) {
	for (i = split(list, name, " "); i > 0; i--)
		if (name[i] == x || name[i] == "*")
			return 1
	return 0
}

function to_bytes(text) {
	return text * (text ~ /K$/ ? 1024 : text ~ /M$/ ? 1048576 : 1)
}

# The sentence of the file "reasons" for a row.
function reason(row, engine,    part, size, i) {
	split(row, part, SUBSEP)
	for (i = 1; i <= nreasons; i++) {
		split(reason_sizes[i], size, "-")
		if (in_list(part[2], reason_ops[i]) && in_list(part[1], reason_ranks[i]) &&
		    in_list(engine, reason_engine[i]) && in_list(part[4], reason_kinds[i]) &&
		    (size[1] == "*" || (part[3] >= to_bytes(size[1]) && part[3] <= to_bytes(size[2]))))
			return reason_text[i]
	}
	return ""
}

function lose(row, engine, goal, peer, ratio,    part, time) {
	split(row, part, SUBSEP)
	time = cell(row, engine, "", 0) " | " cell(row, peer, "", 0)
	lost = lost sprintf("| %d | %s | %s | %d | %s | %s | %s | %s | %s | %s |\n", part[1], part[4], engine, goal, part[2],
	    part[2] == "barrier" ? "" : bytes(part[3]), peer, ratio, time, reason(row, engine))
}

function count(row, engine, goal, peer, has, within,    part) {
	split(row, part, SUBSEP)
	# No processors of this kind while libcoll ran: neither won nor lost.  What failed is lost.
	if (!has && why[row, engine] == "no sample") {
		missing[goal, part[1], part[4]]++
		return
	}
	of[goal, part[1], part[4]]++
	if (has && within)
		good[goal, part[1], part[4]]++
	else
		lose(row, engine, goal, peer, has ? range() : "no time")
}

# Judges libcoll without an option set (engine) against the best peer of the list, by the three goals.
function judge(engine, list, host,    names, n, k, row, part, peer, has) {
	n = split(list, names, " ")
	for (k = 1; k <= nrows; k++) {
		row = order[k]
		split(row, part, SUBSEP)
		if ((peer = best(row, names, n)) == "")
			continue
		has = over_rounds(row, engine, peer) > 0
		if (host && part[3] <= 1024)
			count(row, engine, 1, peer, has, median <= 1.3)
		else
			count(row, engine, 2, peer, has, least <= 1)
		has = over_rounds(row, engine, peer) > 0
		if (host && part[3] >= 1048576 && part[3] <= 16777216)
			count(row, engine, 3, peer, has, median * 1.5 <= 1)
	}
}

function summary(    goal, i, k, text, line) {
	text[1] = "Within a host, up to 1 KiB: at most 1.3 times the best peer's time (`tcp`)"
	text[2] = "All other rows: not slower than the best peer in every round (`tcp`, `tcp-sockets`)"
	text[3] = "Within a host, 1 to 16 MiB: at least 1.5 times faster than the best peer (`tcp`)"
	printf "Rows within the goal, of all rows that a peer has (and rows for which libcoll met no processors of the kind):\n\n| | goal |"
	line = "|---|---|"
	for (i = 1; i <= nranks; i++)
		for (k = 1; k <= nkinds; k++)
			if ((ranks[i], kinds[k]) in measured) {
				printf " %d ranks%s |", ranks[i], kinds[k] == "any" ? "" : ", " kinds[k]
				line = line "---|"
			}
	print "\n" line
	for (goal = 1; goal <= 3; goal++) {
		printf "| %d | %s |", goal, text[goal]
		for (i = 1; i <= nranks; i++)
			for (k = 1; k <= nkinds; k++)
				if ((ranks[i], kinds[k]) in measured)
					printf " %d of %d%s |", good[goal, ranks[i], kinds[k]], of[goal, ranks[i], kinds[k]],
					    (goal, ranks[i], kinds[k]) in missing ? " (" missing[goal, ranks[i], kinds[k]] ")" : ""
		printf "\n"
	}
}

/^#/ {
	next
}

NF == 6 {
	nreasons++
	reason_ops[nreasons] = $1
	reason_sizes[nreasons] = $2
	reason_ranks[nreasons] = $3
	reason_engine[nreasons] = $4
	reason_kinds[nreasons] = $5
	reason_text[nreasons] = $6
	next
}

$8 == "neither" {
	next
}

{
	kind = $8 == "" ? "any" : $8
	row = $1 SUBSEP $2 SUBSEP $3 SUBSEP kind
	measured[$1, kind] = 1
	if (!(kind in has_kind)) {
		has_kind[kind] = 1
		kinds[++nkinds] = kind
	}
	if (!(row in seen)) {
		seen[row] = 1
		order[++nrows] = row
		if (!($1 in known)) {
			known[$1] = 1
			ranks[++nranks] = $1
		}
	}
	rounds = $5 > rounds ? $5 : rounds
	if ($6 + 0 > 0)
		us[row, $4, $5] = $6
	else
		why[row, $4] = $6
}

END {
	# Rows in the order of the operations, then of the sizes.
	for (i = split(operations, name, " "); i > 0; i--)
		place[name[i]] = i
	for (i = 2; i <= nrows; i++)
		for (j = i; j > 1 && before(order[j], order[j - 1]); j--) {
			t = order[j]
			order[j] = order[j - 1]
			order[j - 1] = t
		}
	print "# libcoll beside its peers\n"
	judge("tcp", shm, 1)
	judge("tcp-sockets", net, 0)
	summary()
	print "\nIn the next table the column \"goal\" has the number of the goal that the row misses."
	print "\n## Lost rows\n\n| ranks | processors | libcoll | goal | operation | bytes | best peer | libcoll / peer | libcoll, us | peer, us | reason |"
	print "|---|---|---|---|---|---|---|---|---|---|---|"
	printf "%s", lost
	print "\n## The measurement\n\n`make bench` (run.sh) wrote this file; [README.md](README.md) explains the measurement.\n"
	while ((getline line < about) > 0)
		print line
	print "\nTimes are microseconds of a call: the median of the rounds (least-most of them). group: of 100 allreduces. Bytes are those"
	print "of the longer buffer of a rank: allgather's result, the input of alltoall and reduce_scatter. Ratios are taken round by round,"
	print "or (\"~\") between the medians where no round has both; below 1: libcoll is faster. Bold: libcoll is slower than the best peer in every round. `tcp` is libcoll with no option set;"
	print "the bare loops use no library."
	for (i = 1; i <= nranks; i++)
		for (k = 1; k <= nkinds; k++) {
			if (!((ranks[i], kinds[k]) in measured))
				continue
			table(ranks[i], kinds[k], "shared memory", shm)
			table(ranks[i], kinds[k], "TCP sockets", net)
			over_table(ranks[i], kinds[k], over)
		}
	print "\n## Failures\n"
	n = split(over, library, " ")
	for (i = 1; i <= n; i++)
		net = net " coll-" library[i] " " library[i] "-i"
	n = split(shm " " net, names, " ")
	for (k = 1; k <= nrows; k++)
		for (i = 1; i <= n; i++)
			if ((order[k], names[i]) in failed) {
				print failed[order[k], names[i]]
				failures++
			}
	if (!failures)
		print "None."
}

function before(a, b,    x, y) {
	split(a, x, SUBSEP)
	split(b, y, SUBSEP)
	if (x[1] != y[1])
		return x[1] + 0 < y[1] + 0
	return x[2] != y[2] ? place[x[2]] < place[y[2]] : x[3] + 0 < y[3] + 0
}
