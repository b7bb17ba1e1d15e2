# SPDX-License-Identifier: BSD-3-Clause
# table.awk - the tables of RESULTS.md, from lines "ranks|operation|bytes|engine|round|us|commit".

function sort(list, n,    i, j, t) {
	for (i = 2; i <= n; i++)
		for (j = i; j > 1 && list[j] < list[j - 1]; j--) {
			t = list[j]
			list[j] = list[j - 1]
			list[j - 1] = t
		}
}

function number(x) {
	return sprintf(x < 10 ? "%.2f" : x < 100 ? "%.1f" : "%.0f", x)
}

function bytes(x) {
	return x < 1024 ? x : x < 1048576 ? x / 1024 "K" : x / 1048576 "M"
}

# Sets median, least and most of a / b (b "": of a) over the rounds in which both have a time; returns how many.
function over_rounds(row, a, b,    list, n, r) {
	n = 0
	for (r = 1; r <= rounds; r++)
		if (us[row, a, r] > 0 && (b == "" || us[row, b, r] > 0))
			list[++n] = us[row, a, r] / (b == "" ? 1 : us[row, b, r])
	if (!n)
		return 0
	sort(list, n)
	median = n % 2 ? list[(n + 1) / 2] : (list[n / 2] + list[n / 2 + 1]) / 2
	least = list[1]
	most = list[n]
	return n
}

function cell(row, a, b, mark,    text) {
	if (!over_rounds(row, a, b))
		return b != "" ? "-" : (row, a) in why ? why[row, a] : "not there"
	text = number(median) " (" number(least) "-" number(most) ")"
	return mark && least > 1 ? "**" text "**" : text
}

# The peer of lowest median.
function best(row, names, n,    i, lowest, name) {
	for (i = 1; i <= n; i++)
		if (names[i] !~ /^(tcp|ucx|simulated|tcp-sockets|bare.*)$/ && over_rounds(row, names[i], "") &&
		    (name == "" || median < lowest)) {
			lowest = median
			name = names[i]
		}
	return name
}

function is_ours(name) {
	return name ~ /^(tcp|ucx|simulated|tcp-sockets)$/
}

function table(ranks, title, list,    names, n, i, k, row, peer, line, bare, part) {
	n = split(list, names, " ")
	bare = names[n]
	printf "\n## %d ranks, %s\n\n| operation | bytes |", ranks, title
	for (i = 1; i <= n; i++)
		printf " %s |", names[i]
	printf " best peer |"
	for (i = 1; i <= n; i++)
		if (is_ours(names[i]))
			printf " %s / best | %s / bare |", names[i], names[i]
	printf " commit |\n|"
	for (i = 1; i <= 4 + n + ours(names, n) * 2; i++)
		printf "---|"
	printf "\n"
	for (k = 1; k <= nrows; k++) {
		row = order[k]
		split(row, part, SUBSEP)
		if (part[1] != ranks)
			continue
		peer = best(row, names, n)
		printf "| %s | %s |", part[2], part[2] == "barrier" ? "" : bytes(part[3])
		for (i = 1; i <= n; i++)
			printf " %s |", cell(row, names[i], "", 0)
		printf " %s |", peer == "" ? "none" : peer
		for (i = 1; i <= n; i++)
			if (is_ours(names[i]))
				printf " %s | %s |", peer == "" ? "-" : cell(row, names[i], peer, 1), cell(row, names[i], bare, 0)
		printf " %s |\n", commit[row]
	}
}

function ours(names, n,    i, count) {
	for (i = 1; i <= n; i++)
		count += is_ours(names[i])
	return count
}

# The rows that libcoll loses in every round, for each of its engines.
function lost(ranks, list,    names, n, i, k, row, peer, part) {
	n = split(list, names, " ")
	for (i = 1; i <= n; i++)
		for (k = 1; is_ours(names[i]) && k <= nrows; k++) {
			row = order[k]
			split(row, part, SUBSEP)
			peer = part[1] == ranks ? best(row, names, n) : ""
			if (peer != "" && over_rounds(row, names[i], peer) && least > 1)
				printf "| %d | %s | %s | %s | %s | %s (%s-%s) |\n", ranks, names[i], part[2],
				    part[2] == "barrier" ? "" : bytes(part[3]), peer, number(median), number(least), number(most)
		}
}

{
	row = $1 SUBSEP $2 SUBSEP $3
	if (!(row in seen)) {
		seen[row] = 1
		order[++nrows] = row
		if (!($1 in known)) {
			known[$1] = 1
			ranks[++nranks] = $1
		}
	}
	commit[row] = $7
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
	print "\nMicroseconds of a call: the median of the rounds' medians (least-most of them). group: of 100 allreduces."
	print "Ratios are taken round by round; below 1: libcoll is faster. Bold: libcoll is slower than the best peer in every round."
	for (i = 1; i <= nranks; i++) {
		table(ranks[i], "shared memory", shm)
		table(ranks[i], "TCP sockets", net)
	}
	print "\n## Rows that libcoll loses in every round\n"
	print "| ranks | engine | operation | bytes | best peer | libcoll / peer |\n|---|---|---|---|---|---|"
	for (i = 1; i <= nranks; i++) {
		lost(ranks[i], shm)
		lost(ranks[i], net)
	}
}

function before(a, b,    x, y) {
	split(a, x, SUBSEP)
	split(b, y, SUBSEP)
	if (x[1] != y[1])
		return x[1] + 0 < y[1] + 0
	return x[2] != y[2] ? place[x[2]] < place[y[2]] : x[3] + 0 < y[3] + 0
}
