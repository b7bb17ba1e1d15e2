# SPDX-License-Identifier: BSD-3-Clause
# book.sh - runs what a page of docs shows; read with:  . "${top_srcdir:-.}/tests/docs/book.sh"
#
#   book_tree DIR      makes an installed libcoll of the tree, in DIR: cc, coll and pkg-config's module coll; and ssh, which
#                      runs its command on this host
#   book_python DIR PYTHON  makes this the python3 of DIR
#   book_devices DIR   makes stand-ins for four GPUs and NCCL, in DIR, for pages that need cuda or nccl
#   book_page PAGE DIR  runs the page's commands in DIR, one after the other in this shell
#   book_judge NAME DIR  checks what they have printed
#
# A page is reStructuredText.  These are run; all else is for readers:
#
#   .. file: NAME               the next block is the content of this file
#   .. code-block:: console     lines "$ COMMAND" are run, and print the lines that follow them
#   .. fails                    the last command of the next block fails
#   .. like                     of the next block's lines the numbers do not count, but for those of ranks ("rank 1") and errors
#                               ("error 8"); nor does the order of the words in a line; each line may come several times: ranks
#                               differ in what they notice first
#   .. needs: NAME              what follows needs this command (book_has); "nothing" ends that
#   .. skips: REASON            what follows is not run; "nothing" ends that
#   .. tested by: FILE          this test runs the page, since it has built what the page needs
#
# "..." in an expected line stands for any text, and as a line for any lines.  The order of the lines does not count,
# since ranks print in any order.  The ports 29600 to 29609 of a page become others, so that several runs of a test do
# not meet.  A command without expected lines may print what it likes.
# shellcheck shell=sh

# book_cc FILE: makes a compiler of tests, which adds their flags.  It has the path of its program: FILE may be found as "cc".
book_cc() {
    book_file=$1
    # shellcheck disable=SC2086 # the compiler may have options
    set -- ${TEST_CC:-cc}
    book_program=$(command -v "$1")
    shift
    printf '#!/bin/sh\nexec %s $TEST_CFLAGS "$@"\n' "$book_program${*:+ $*}" >"$book_file"
}

book_tree() {
    book_src=$(cd "${top_srcdir:-.}" && pwd)
    book_build=$(cd "${top_builddir:-.}" && pwd)
    mkdir -p "$1/bin" "$1/examples/data"
    book_cc "$1/bin/cc"
    printf '#!/bin/sh\nexec "%s/coll" "$@"\n' "$book_build" >"$1/bin/coll"
    printf '#!/bin/sh\nshift\nexec sh -c "$*"\n' >"$1/bin/ssh"
    chmod +x "$1/bin/cc" "$1/bin/coll" "$1/bin/ssh"
    cp "$book_src"/tests/examples/*.[ch] "$1/examples"
    cp "$book_src"/tests/examples/data/* "$1/examples/data"
    cp "$book_src/docs/examples.mk" "$1/examples/Makefile"
    cp -R "$book_src/tests/out-of-tree" "$1/examples/backend"
    mv "$1/examples/backend/observer" "$1/examples/observer"
    sed -e "s|@prefix@|$1|; s|@libdir@|$book_build/.libs|; s|@includedir@|$book_src/include|" \
        -e "s|@plugindir@|$book_build/.libs|; s|@examplesdir@|$1/examples|; s|@[A-Z_a-z]*@||" \
        -e "s|^Version:.*|Version: 0|" "$book_src/conf/coll.pc.in" >"$1/coll.pc"
    # The variables that coll-tutorial-first(7) sets for a prefix of its own.
    PATH=$1/bin:$PATH
    PKG_CONFIG_PATH=$1
    LD_LIBRARY_PATH=$book_build/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    # As root, and with more ranks than processors.
    OMPI_ALLOW_RUN_AS_ROOT=1
    OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
    OMPI_MCA_rmaps_base_oversubscribe=1
    export PATH PKG_CONFIG_PATH LD_LIBRARY_PATH
    export OMPI_ALLOW_RUN_AS_ROOT OMPI_ALLOW_RUN_AS_ROOT_CONFIRM OMPI_MCA_rmaps_base_oversubscribe
}

book_python() {
    printf '#!/bin/sh\nexec %s "$@"\n' "$(command -v "$2")" >"$1/bin/python3"
    chmod +x "$1/bin/python3"
}

book_devices() {
    book_fakes=$1
    mkdir -p "$1"
    cp "$book_build/tests/fakes/.libs/libcuda.so.1" "$book_build/tests/fakes/.libs/libnccl.so.2" "$1"
    LD_LIBRARY_PATH=$1${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
    STANDIN_CUDA_DEVICES=4
    export LD_LIBRARY_PATH STANDIN_CUDA_DEVICES
}

# book_steps PAGE DIR: takes the page apart, into DIR/N.file, N.command, N.wanted, N.like, N.fails, N.needs and N.lacks.
book_steps() {
    awk -v dir="$2" '
        function out(kind, text) { print text >(dir "/" sprintf("%03d", n) "." kind) }
        function begin() { n++; if (needs != "") out("needs", needs); if (skips != "") out("lacks", skips) }
        function end() { if (fails) out("fails", ""); inside = fails = like = 0 }
        inside && /^[^ ]/ { end() }
        /^\.\. file: / { file = $3; next }
        /^\.\. needs: / { needs = $3 == "nothing" ? "" : $3; next }
        /^\.\. skips: / { skips = $3 == "nothing" ? "" : substr($0, 11); next }
        /^\.\. fails$/ { fails = 1; next }
        /^\.\. like$/ { like = 1; next }
        /^\.\. code-block:: / {
            kind = $3
            name = ""
            if (file != "") { begin(); out("file", file); name = sprintf("%s/%03d.text", dir, n); file = "" }
            inside = 1
            next
        }
        !inside { next }
        { sub(/^   /, "") }
        name != "" { if (seen[name]++ || $0 != "") print >name; next }
        kind != "console" || $0 == "" { next }
        more { out("command", $0); more = /\\$/; next }
        /^\$ / { begin(); if (like) out("like", ""); out("command", substr($0, 3)); more = /\\$/; next }
        { out("wanted", $0) }
        END { if (inside) end() }' "$1"
}

# book_plain: lines without numbers, but for those of ranks and errors; their words in alphabetical order, each line once.
book_plain() {
    awk '
        $0 == "..." { print; next }
        {
            # The numbers that count become words: "rank 12" is "rank#bc".
            while (match($0, /(ranks?|error) [0-9]+(-[0-9]+)?/)) {
                named = substr($0, RSTART, RLENGTH)
                sub(/ /, "#", named)
                for (i = 0; i <= 9; i++) gsub(i, substr("abcdefghij", i + 1, 1), named)
                $0 = substr($0, 1, RSTART - 1) named substr($0, RSTART + RLENGTH)
            }
            gsub(/\.[0-9]+/, "")
            gsub(/[0-9a-f]*[0-9][0-9a-f]*/, "0")
            gsub(/[][(),:;]/, "")
            n = split($0, word, " ")
            for (i = 2; i <= n; i++)
                for (k = i; k > 1 && word[k - 1] > word[k]; k--) {
                    kept = word[k]
                    word[k] = word[k - 1]
                    word[k - 1] = kept
                }
            for (line = word[i = 1]; i < n;) line = line " " word[++i]
            if (!seen[line]++) print line
        }'
}

# book_differs WANTED GOT: prints the lines that are missing, and those that no line wants.
book_differs() {
    awk '
        function pattern(line) {
            gsub(/[][\\.*+?^$(){}|]/, "\\\\&", line)
            gsub(/\\\.\\\.\\\./, ".*", line)
            return "^" line "$"
        }
        function find(i, exact,    k) {
            for (k = 1; k <= got; k++)
                if (!used[k] && (exact ? line[k] == wanted[i] : line[k] ~ pattern(wanted[i])))
                    return used[k] = 1
            return 0
        }
        FNR == NR { if ($0 == "...") any = 1; else wanted[++n] = $0; next }
        { line[++got] = $0 }
        END {
            for (i = 1; i <= n; i++) done[i] = find(i, 1)
            for (i = 1; i <= n; i++) if (!done[i] && !find(i, 0)) { print "missing: " wanted[i]; missing = 1 }
            for (k = 1; k <= got; k++) if (!used[k] && (!any || missing)) print "printed: " line[k]
        }' "$1" "$2"
}

# Does a command, or what a page needs by another name, work here?
book_has() {
    case $1 in
    accelerate | transformers) python3 -c "import $1" ;;
    cuda) ls "${book_fakes-/nowhere}/libcuda.so.1" || nvidia-smi -L ;;
    mpirun) mpirun -n 2 true ;;
    nccl) COLL_BACKEND=nccl coll info nccl | grep ': usable$' ;;
    srun) srun -n 2 true ;;
    torchrun) torchrun --nproc_per_node 1 --no_python true ;;
    *) command -v "$1" ;;
    esac >/dev/null 2>&1 </dev/null
}

# book_run DIR: runs the steps in DIR/work, all commands in this shell.
book_run() {
    cd "$1/work" || return
    for book_step in "$1"/*.command "$1"/*.file; do echo "${book_step%.*}"; done | sort >"$1/order"
    while read -r book_step <&7; do
        [ ! -e "$book_step.lacks" ] || continue
        if [ -e "$book_step.needs" ] && ! book_has "$(cat "$book_step.needs")"; then
            echo "$(cat "$book_step.needs") does not work here" >"$book_step.lacks"
        elif [ -e "$book_step.file" ]; then
            cp "$book_step.text" "$(cat "$book_step.file")"
        else
            eval "$(cat "$book_step.command")" >"$book_step.out" 2>&1 </dev/null
            echo $? >"$book_step.status"
        fi
    done 7<"$1/order"
}

book_judge() {
    for book_step in "$2"/*.command; do
        book_step=${book_step%.command}
        book_name="$1: $(sed -n 1p "$book_step.command")"
        if [ -e "$book_step.lacks" ]; then
            skip "$book_name" "$(cat "$book_step.lacks")"
            continue
        fi
        none "$book_name" "$(
            status=$(cat "$book_step.status" 2>/dev/null)
            case ${status:-none}-$([ ! -e "$book_step.fails" ] || echo fails) in
            0-) ;;
            0-fails) echo "it succeeds" ;;
            *-fails) ;;
            *) echo "exit status $status" && cat "$book_step.out" ;;
            esac
            if [ -e "$book_step.like" ]; then
                for book_file in wanted out; do
                    book_plain <"$book_step.$book_file" >"$book_step.$book_file.plain"
                done
                book_differs "$book_step.wanted.plain" "$book_step.out.plain"
            elif [ -e "$book_step.wanted" ]; then
                book_differs "$book_step.wanted" "$book_step.out"
            fi
        )"
    done
}

book_page() {
    mkdir -p "$2/work"
    sed "s/\b2960\([0-9]\)\b/$((2000 + $$ % 1200))\1/g" "$1" >"$2/page"
    book_steps "$2/page" "$2"
    book_run "$2"
}
