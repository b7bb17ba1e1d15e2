# SPDX-License-Identifier: BSD-3-Clause
# circles.awk - reads `nm -A` of the archives of core; prints each circle of files that call one another, the largest
# of a room first: "room files", then a line for each pair that calls one another directly, with a symbol of each.
function name(archive_member,    parts, n, room) {
	n = split(archive_member, parts, ":")
	room = parts[1]
	sub(/^.*libcore_/, "", room)
	sub(/\.a$/, "", room)
	sub(/^.*_la-/, "", parts[2])
	sub(/\.l?o$/, "", parts[2])
	return room "/" parts[2]
}

# Tarjan's algorithm.
function visit(v,    i, w, n, to, members) {
	number[v] = low[v] = ++visited
	stack[++depth] = v
	on_stack[v] = 1
	n = split(calls[v], to, " ")
	for (i = 1; i <= n; i++) {
		w = to[i]
		if (!(w in number)) {
			visit(w)
			if (low[w] < low[v]) low[v] = low[w]
		} else if (on_stack[w] && number[w] < low[v])
			low[v] = number[w]
	}
	if (low[v] != number[v]) return
	n = 0
	do {
		w = stack[depth--]
		on_stack[w] = 0
		members = members " " w
		n++
	} while (w != v)
	if (n > 1) tell(n, members)
}

function tell(n, members,    list, i, k, room, rooms) {
	split(members, list, " ")
	for (i = 1; i <= n; i++) {
		room = list[i]
		sub(/\/.*/, "", room)
		if (rooms !~ "(^|,)" room "(,|$)") rooms = rooms (rooms ? "," : "") room
	}
	print rooms, n members
	for (i = 1; i <= n; i++)
		for (k = i + 1; k <= n; k++)
			if ((list[i], list[k]) in by && (list[k], list[i]) in by)
				print "#   " list[i] " calls " by[list[i], list[k]] ", and " list[k] " calls " by[list[k], list[i]]
}

NF >= 3 {
	symbol = $NF
	kind = $(NF - 1)
	where = $1
	sub(/:[0-9a-f]*$/, "", where)
	where = name(where)
	if (kind == "U") uses[++nuses] = where " " symbol
	else if (kind ~ /^[TDBRVW]$/) home[symbol] = where
}

END {
	for (i = 1; i <= nuses; i++) {
		split(uses[i], use, " ")
		if (!(use[2] in home) || home[use[2]] == use[1]) continue
		if (!((use[1], home[use[2]]) in by)) calls[use[1]] = calls[use[1]] " " home[use[2]]
		by[use[1], home[use[2]]] = use[2]
	}
	for (v in calls) if (!(v in number)) visit(v)
}
