# SPDX-License-Identifier: BSD-3-Clause
# facts.awk - reads a preprocessed header and writes the C program that prints its facts.

{ text = text " " $0 }

END {
    text = without_attributes(text)
    gsub(/[ \t]+/, " ", text)
    print "#include <stddef.h>\n#include <stdio.h>\n#include <" header ">\n"
    print_helpers()
    print "int main(void)\n{"
    each_declaration(text)
    print "\treturn failed;\n}"
}

# Structs that may grow although they have no member for their own size: option_size of
# coll_backend_t is the stride of options, and only the core makes sends, never a plugin.
function may_grow(name, first) {
    return first == "size" || name == "coll_option_t" || name == "coll_send_t"
}

function print_helpers() {
    print "static int failed;"
    print "static size_t end;"
    print "static void field(const char *of, const char *name, size_t at, size_t size,"
    print "                  size_t align, const char *type)\n{"
    print "\tprintf(\"field %s.%s at %zu size %zu type %s\\n\", of, name, at, size, type);"
    print "\tif (at < end || at - end >= align)"
    print "\t\tfailed = fprintf(stderr, \"facts: a field before %s.%s was missed\\n\", of, name);"
    print "\tend = at + size;\n}"
    print "static void whole(const char *name, size_t size, size_t align, int grows)\n{"
    print "\tif (size < end || size - end >= align)"
    print "\t\tfailed = fprintf(stderr, \"facts: the last field of %s was missed\\n\", name);"
    print "\tif (grows)\n\t\tprintf(\"struct %s grows\\n\", name);"
    print "\telse\n\t\tprintf(\"struct %s fixed at %zu\\n\", name, size);"
    print "\tend = 0;\n}"
}

# Removes `__attribute__((...))`, with any text in the parentheses.
function without_attributes(t,    out, i, depth) {
    out = ""
    while ((i = index(t, "__attribute__"))) {
        out = out substr(t, 1, i - 1)
        t = substr(t, i + 13)
        sub(/^[ \t]*/, "", t)
        depth = 0
        for (i = 1; i <= length(t); i++) {
            depth += (substr(t, i, 1) == "(") - (substr(t, i, 1) == ")")
            if (!depth)
                break
        }
        t = substr(t, i + 1)
    }
    return out t
}

# A declaration ends with a ';' outside of braces.
function each_declaration(t,    part, n, i, depth, decl) {
    n = split(t, part, ";")
    decl = ""
    depth = 0
    for (i = 1; i < n; i++) {
        decl = decl (decl == "" ? "" : ";") part[i]
        depth += gsub(/\{/, "{", part[i]) - gsub(/\}/, "}", part[i])
        if (depth)
            continue
        declaration(trim(decl))
        decl = ""
    }
}

function declaration(d) {
    sub(/^__extension__ /, "", d)
    if (d ~ /^enum( [a-z_]+)? *\{/)
        constants(inside(d))
    else if (d ~ /^(typedef )?struct coll_[a-z0-9_]+ *\{/)
        struct(d)
    else if (d ~ /^typedef .*[ *(]coll_[a-z0-9_]+(\)\(.*\))?$/)
        named_type(d)
    else if (d ~ /^(extern )?[a-z].*[ *]coll_[a-z0-9_]+ *\(.*\)$/)
        named("function", d)
    else if (d ~ /^extern .*[ *]coll_[a-z0-9_]+$/)
        named("object", d)
}

function constants(list,    item, n, i) {
    n = split(list, item, ",")
    for (i = 1; i <= n; i++) {
        sub(/=.*/, "", item[i])
        item[i] = trim(item[i])
        if (item[i] ~ /^COLL_/)
            printf "\tprintf(\"enum %s %%lld\\n\", (long long)%s);\n", item[i], item[i]
    }
}

function struct(d,    tag, name, item, n, i, first) {
    tag = d
    sub(/^(typedef )?struct /, "", tag)
    sub(/[ {].*/, "", tag)
    name = tag "_t"
    n = split(inside(d), item, ";")
    for (i = 1; i < n; i++)
        fields(tag, name, trim(item[i]))
    first = trim(item[1])
    sub(/.*[ *]/, "", first)
    printf "\twhole(\"%s\", sizeof(struct %s), __alignof__(struct %s), %d);\n", name, tag, tag,
        may_grow(name, first)
}

# Splits `int64_t min, max` or `int32_t (*send)(void *ep, ...)` into members.
function fields(tag, name, d,    item, n, i, base, at) {
    if (d ~ /\(/) {
        at = d
        sub(/^[^(]*\( *\** */, "", at)
        sub(/\).*/, "", at)
        field(tag, name, at, d)
        return
    }
    n = split(d, item, ",")
    base = item[1]
    sub(/[ *]*[A-Za-z_][A-Za-z_0-9]*(\[[^]]*\])?$/, "", base)
    for (i = 1; i <= n; i++) {
        at = trim(item[i])
        sub(/\[[^]]*\]$/, "", at)
        sub(/^.*[ *]/, "", at)
        field(tag, name, at, i == 1 ? item[1] : base " " trim(item[i]))
    }
}

function field(tag, name, at, d) {
    printf "\tfield(\"%s\", \"%s\", offsetof(struct %s, %s), sizeof(((struct %s *)0)->%s), " \
        "__alignof__(((struct %s *)0)->%s), \"%s\");\n", name, at, tag, at, tag, at, tag, at,
        type_of(d)
}

function named_type(d,    name) {
    name = d
    sub(/^typedef /, "", d)
    sub(/\)\(.*/, "", name)
    sub(/^.*[ *(]/, "", name)
    printf "\tputs(\"type %s %s\");\n", name, type_of(d)
}

function named(what, d,    name) {
    sub(/^extern /, "", d)
    name = d
    sub(/ *\(.*/, "", name)
    sub(/^.*[ *]/, "", name)
    printf "\tputs(\"%s %s %s\");\n", what, name, type_of(d)
}

# Prints a declaration without its names, with uniform spaces.
function type_of(d,    head, list, item, n, i) {
    list = ""
    if (d ~ /\(.*\)$/) {
        match(d, /\([^()]*\)$/)
        list = substr(d, RSTART + 1, RLENGTH - 2)
        head = trim(substr(d, 1, RSTART - 1))
        n = split(list, item, ",")
        list = ""
        for (i = 1; i <= n; i++)
            list = list (i > 1 ? ", " : "") unnamed(trim(item[i]), 1)
        list = "(" list ")"
        if (head ~ /\)$/)
            head = substr(head, 1, length(head) - 1)
        head = unnamed(head, 0)
        list = (head ~ /\( *\*$/ ? ")" : " ") list
    } else
        head = unnamed(d, 0)
    return spaced(head list)
}

# A single word is a type: `void`.
function unnamed(d, lone,    array) {
    array = ""
    if (match(d, / *\[[^]]*\]$/)) {
        array = substr(d, RSTART)
        d = substr(d, 1, RSTART - 1)
    }
    if (!(lone && d ~ /^[A-Za-z_0-9]*$/))
        sub(/[A-Za-z_][A-Za-z_0-9]*$/, "", d)
    return trim(d) (array == "" ? "" : " " trim(array))
}

function spaced(t) {
    gsub(/ *\* */, "*", t)
    gsub(/\*/, " *", t)
    while (gsub(/\* \*/, "**", t))
        ;
    gsub(/\( \*/, "(*", t)
    gsub(/\( /, "(", t)
    gsub(/ +/, " ", t)
    return trim(t)
}

function inside(d) {
    sub(/^[^{]*\{/, "", d)
    sub(/\}[^}]*$/, "", d)
    return d
}

function trim(t) {
    sub(/^ +/, "", t)
    sub(/ +$/, "", t)
    return t
}
