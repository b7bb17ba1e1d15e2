# SPDX-License-Identifier: BSD-3-Clause
# layers.awk - names every call and every #include that goes against the order of a tree's folders, and every
# declaration of a function or variable that another folder defines.
#
#   { nm -A OBJECT...; grep -H '#.*include' SOURCE...; grep -HE '^[A-Za-z_].*\(|^[[:space:]]*extern ' SOURCE...; } |
#       awk -v root=core -v order='base <- reduce, schedule <- config' -f layers.awk
#
# The paths begin with the root.  Input may mix the lines of both commands in any order.
#
# "a <- b, c <- d": a folder may use itself and the folders of all levels to its left.  Folders of one level
# may not use each other.  "." is the root itself.  A line that begins with "    " and contains "<-"
# adds to the order, so a README that shows the order may come before the other input.
#
# except='a/b.c:x/y.h ...': these files may include these headers of another tree.
#
# Output: one line for each fault, nothing for a tree in order.  The exit status is 1 if there is a fault.
# An object file counts only if its source is in the input: a build directory may hold older ones.

function folder_of(path) {
	return sub("/[^/]*$", "", path) ? path : "."
}

function fault(text) {
	if (!said[text]++) {
		print text
		faults++
	}
}

# "core/config/.libs/libconfig_la-parse.o" -> "config/parse.o"
function object_name(path) {
	sub("^([.]/)?" root "/", "", path)
	sub("[.]libs/", "", path)
	if (match(path, "[^/]*$"))
		path = substr(path, 1, RSTART - 1) object_base(substr(path, RSTART))
	return path
}

function object_base(name) {
	sub("^[^-]*-", "", name)
	return name
}

function read_order(text,    count, levels, level, names, i, n) {
	count = split(text, levels, "<-")
	for (level = 1; level <= count; level++) {
		n = split(levels[level], names, "[, \t]+")
		for (i = 1; i <= n; i++)
			if (names[i] != "") {
				if (names[i] in rank)
					fault("the order names " root "/" names[i] " twice")
				rank[names[i]] = level
			}
	}
}

function may_use(user, used) {
	return user == used || ((user in rank) && (used in rank) && rank[used] < rank[user])
}

/^    .*<-/ {
	order = order " " $0
	next
}

# path:include line
/^[^:]*[.][ch]:.*#[ \t]*include/ {
	file = substr($0, 1, index($0, ":") - 1)
	sub("^([.]/)?" root "/", "", file)
	source[file] = 1
	if (match($0, "include[ \t]*\"[^\"]*\""))
		includes[file " " substr($0, RSTART, RLENGTH)] = 1
	next
}

# path:declaration, on its first line.  A caller would see no header, and an unused inline function leaves no
# call in the object files: only the declaration itself shows.
/^[^: ]*[.][ch]:/ {
	file = substr($0, 1, index($0, ":") - 1)
	text = substr($0, length(file) + 2)
	sub("^([.]/)?" root "/", "", file)
	gsub(/__attribute__\(\([a-z_]+(\([^)]*\))?\)\) */, "", text)
	if (text !~ /^(static|typedef)[ \t]/ && match(text, /[A-Za-z_0-9]+[ \t]*[[(;=]/))
		declares[file " " substr(text, RSTART, RLENGTH)] = 1
	next
}

# path:address type symbol, as nm -A prints it
/^[^ ]*[.]o:/ && NF >= 3 {
	file = object_name(substr($1, 1, index($1, ".o:") + 1))
	type = $(NF - 1)
	built[file] = 1
	if (type == "U" || type == "w" || type == "v")
		uses[file " " $NF] = 1
	else if (type ~ /^[A-Zu]$/)
		definers[$NF] = definers[$NF] " " file
}

# A symbol that several object files define may come from any of them.
function check_use(user, symbol,    count, files, i, outsider) {
	outsider = ""
	count = split(definers[symbol], files, " ")
	for (i = 1; i <= count; i++) {
		if (!has_source(files[i]))
			continue
		if (may_use(folder_of(user), folder_of(files[i])))
			return
		outsider = files[i]
	}
	if (outsider != "")
		fault(user " -> " outsider ": " symbol)
}

function check_declaration(file, symbol,    count, files, i, outsider) {
	outsider = ""
	count = split(definers[symbol], files, " ")
	for (i = 1; i <= count; i++) {
		if (!has_source(files[i]))
			continue
		if (folder_of(files[i]) == folder_of(file))
			return
		outsider = files[i]
	}
	if (outsider != "")
		fault(file " -> " outsider ": declares " symbol "; include the header of its folder")
}

function has_source(file) {
	sub("[.]o$", ".c", file)
	return file in source
}

function check_include(file, header,    folder) {
	folder = folder_of(header)
	if (index(" " except " ", " " file ":" header " "))
		return
	if (!(header in source))
		fault(file " -> " header ": not a header of " root "/; the name begins with its folder")
	else if (!may_use(folder_of(file), folder))
		fault(file " -> " header ": #include")
	else if (header ~ /_impl[.]h$/ && folder != folder_of(file))
		fault(file " -> " header ": an _impl.h stays within its folder")
}

END {
	read_order(order)
	for (file in source) {
		folder = folder_of(file)
		seen[folder] = 1
		if (!(folder in rank))
			fault(root "/" file ": the order does not name the folder " folder)
		object = file
		if (sub("[.]c$", ".o", object) && !(object in built))
			fault(root "/" file ": no object file; build first")
	}
	for (folder in rank)
		if (!(folder in seen))
			fault("the order names " root "/" folder ", which has no source")
	for (use in uses) {
		split(use, part, " ")
		if (has_source(part[1]))
			check_use(part[1], part[2])
	}
	for (line in declares) {
		split(line, part, "[^A-Za-z_0-9./]+")
		check_declaration(part[1], part[2])
	}
	for (line in includes) {
		split(line, part, " ")
		header = line
		sub("^[^\"]*\"", "", header)
		sub("\".*", "", header)
		check_include(part[1], header)
	}
	exit faults > 0
}
