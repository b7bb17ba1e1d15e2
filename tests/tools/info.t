#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# info.t - `coll info`: what it shows, as text and as JSON, and its exit status.
. "${top_srcdir:-.}/tests/lib/tap.sh"

coll=${top_builddir:-.}/coll
dir=$(cd "$(mktemp -d)" && pwd -P) || exit 1
trap 'rm -rf "$dir"' EXIT
export XDG_CONFIG_HOME=$dir/no-config
# The choice must not depend on other plugins of the build tree.
only_backends "$dir/tcp-simulated" tcp simulated
plugins=$COLL_PLUGIN_PATH

info() {
    timeout 60 "$coll" info "$@" >"$dir/out" 2>"$dir/err" </dev/null
    status=$?
}

# Prints the value of a Python expression over the document d.
json() {
    python3 -c 'import json, sys
d = json.load(open(sys.argv[1], encoding="utf-8"))
print(eval(sys.argv[2]))' "$dir/out" "$1" 2>&1
}

# ------------------------------------------------------------------------ text

info
is "a communicator could be made: status 0" $status 0
has "the chosen backend has a star" "$dir/out" '^  \* tcp [^ ]*: usable$'
has "its file" "$dir/out" "file +$plugins/"
has "its priority and who set it" "$dir/out" 'priority +[0-9]+, set by '
has "its ABI" "$dir/out" 'ABI +1\.[0-9]+$'
has "what it can" "$dir/out" 'can +transport, host-memory$'
has "a legend of that" "$dir/out" '^  can transport +moves messages, '
none "of what is shown only" "$(grep '^  can native' "$dir/out")"
has "why another backend may be chosen within a host" "$dir/out" '^  priority +the highest wins'
has "an interface" "$dir/out" '^  lo +(up|down), this host only, packets of [0-9]+ bytes'
has "the meaning of an option" "$dir/out" '^ +longest time without progress in any wait$'
none "the value of no option is longer than a line" "$(sed -n '/^Options/,/^Interfaces/p' "$dir/out" | awk 'length > 100')"
has "why it was chosen" "$dir/out" 'choice +chosen'
has "an option with its value" "$dir/out" '^  timeout +[0-9]'
has "and who set one" "$dir/out" '^  plugin_path .*\(COLL_PLUGIN_PATH\)$'
has "the verdict" "$dir/out" "^  .*'tcp'"
none "no colour where no terminal is" "$(grep -c "$(printf '\033')" "$dir/out" | grep -v '^0$')"
none "nothing on stderr" "$(cat "$dir/err")"

# A priority of 10 that is 60 within a host: what that means stands beside it.
has "in one process: simulated" "$dir/out" \
    '^      choice +passed over: only for .*; if all ranks live in one process: chosen \(priority 70\)$'
mkdir "$dir/within"
cp "$plugins"/*.so "${top_builddir:-.}/tests/plugins/.libs/coll_null.so" "$dir/within/"
COLL_PLUGIN_PATH=$dir/within COLL_NULL_PRIORITY=30 info
has "between hosts: another backend" "$dir/out" "^  backend 'null' would be chosen: highest priority \\(30, COLL_NULL_PRIORITY\\)"
has "the verdict names tcp within one host" "$dir/out" "; if all ranks run on one host: 'tcp' \\(priority 60\\); if all"
has "and tcp's own choice says so" "$dir/out" \
    "^      choice +passed over: 'null' has a higher priority .*; if all ranks run on one host: chosen \\(priority 60\\)\$"

COLL_TIMEOUT=7 info --option timeout
is "one option: its value, unit, source and meaning" "$(cat "$dir/out")" \
    "$(printf '  %-24s 7 seconds  (COLL_TIMEOUT)\n%27s  longest time without progress in any wait' timeout '')"
info -o timeout log
is "several options" "$(grep -c '^  [a-z]' "$dir/out")" 2
info timeout
has "a name alone is an option" "$dir/out" '^  timeout +300s$'
info tcp
is "or a backend: status 0" $status 0
has "which is shown" "$dir/out" '^  \* tcp [^ ]*: usable$'
has "with its options" "$dir/out" '^  tcp.interface '
none "and no other" "$(grep -E '^  (timeout|[ *] simulated)' "$dir/out")"
info tcpp
is "a name of nothing: 1" $status 1
has "which is suggested" "$dir/err" "no option and no backend is called 'tcpp', did you mean 'tcp'\?"
info -o timeuot
is "an option that does not exist: 1" $status 1
has "with a suggestion" "$dir/err" "no option and no backend is called 'timeuot', did you mean 'timeout'\?"

# -------------------------------------------------------------------- failures

printf '\n[tcp]\nsecurity = strong\nnosuch = 1\npriority = high\n' >"$dir/strong.conf"
COLL_CONFIG=$dir/strong.conf info
is "tcp.security = strong: status 1" $status 1
has "the file, the line and the words" "$dir/out" \
    "strong.conf:3: option 'tcp.security' has the value 'strong': expected one of none, integrity, encrypt"
COLL_TCP_SECURITY=strong info
is "the same in the environment: status 1" $status 1
has "the variable" "$dir/out" "COLL_TCP_SECURITY: option 'tcp.security' has the value 'strong'"
for backend in ^tcp simulated; do
    COLL_BACKEND=$backend COLL_CONFIG=$dir/strong.conf COLL_TCP_NOSUCH=1 info
    is "$backend: nobody reads the section of a plugin that is ruled out" $status 0
    none "and nobody complains of it" "$(grep -hE 'strong.conf:[0-9]|TCP_NOSUCH' "$dir/out" "$dir/err")"
done
COLL_SECURITY=encrypt info
is "COLL_SECURITY, which is no option: status 1" $status 1
has "the text names the right one" "$dir/out" "COLL_SECURITY is set, but .* set COLL_TCP_SECURITY"
COLL_SECURITY=none info
is "COLL_SECURITY=none asks for nothing: status 0" $status 0

# ------------------------------------------ plugins that crash, exit or hang

mkdir "$dir/fatal"
cp "$plugins/coll_tcp.so" "${top_builddir:-.}/tests/plugins/.libs/coll_fatal.so" "$dir/fatal/"
for manner in load crash exit hang; do
    COLL_PLUGIN_PATH=$dir/fatal STUB_FATAL=$manner collect "$manner" timeout 60 "$coll" info &
done
STUB_FATAL=load COLL_PLUGIN_PATH=$dir/fatal collect model timeout 60 "$coll" model -r 2 -s 8 allreduce &
COLL_PLUGIN_PATH=$dir/fatal collect harmless timeout 60 "$coll" info &
wait
for manner in "load crashed: signal 6" "crash crashed: signal 6" "exit exited with status 3" "hang did not return in 5 s"; do
    take "${manner%% *}"
    is "${manner%% *}: status 0" "$status" 0
    has "${manner%% *}: the reason" "$dir/out" "^      why not +its probe ${manner#* }.*; set COLL_BACKEND=\^fatal"
    has "${manner%% *}: another backend is chosen" "$dir/out" '^  \* tcp '
done
take model
is "coll model survives it, too" "$status" 0
take harmless
has "the table comes from the child" "$dir/out" '^  [ *] fatal 1.0: usable$'
has "its priority" "$dir/out" '^      priority +40, set by plugin$'
has "what it can" "$dir/out" '^      can +transport, host-memory$'
has "its options" "$dir/out" '^  fatal.lanes +1$'
STUB_FATAL=talk COLL_PLUGIN_PATH=$dir/fatal timeout 60 "$coll" info >"$dir/out" <&- 2>&-
has "without stdin and stderr: nothing that a probe prints is taken for its answer" "$dir/out" '^  [ *] fatal 1.0: usable$'
STUB_FATAL=say COLL_PLUGIN_PATH=$dir/fatal timeout 60 "$coll" info --json >"$dir/out" 2>"$dir/err"
is "what a probe prints is no output of coll info" "$(grep -c words "$dir/out") $(grep -c words "$dir/err")" "0 1"
STUB_FATAL=load COLL_BACKEND=tcp COLL_PLUGIN_PATH=$dir/fatal info
is "a plugin that is ruled out: status 0" $status 0
has "it is not opened" "$dir/out" 'why not +it was not opened, since COLL_BACKEND rules it out$'

COLL_BACKEND=nosuch info
is "a backend that does not exist: status 1" $status 1
has "and the verdict names it" "$dir/out" "^  .*'nosuch'"

mkdir "$dir/plugins"
echo "not a plugin" >"$dir/plugins/coll_text.so"
echo "about this directory" >"$dir/plugins/README"
COLL_PLUGIN_PATH=$dir/plugins info
is "no usable backend: status 1" $status 1
has "a refused file is shown" "$dir/out" "file +$dir/plugins/coll_text.so"
has "with the loader's words" "$dir/out" 'why not +.*(invalid ELF header|file too short)'

COLL_PLUGIN_PATH=$dir/absent info
is "a plugin directory that is not there: status 1" $status 1
has "is named" "$dir/out" "$dir/absent"

COLL_PLUGIN_PATH=: info
is "a plugin path without a directory: status 1" $status 1
has "says so" "$dir/out" "plugin_path ':' \(COLL_PLUGIN_PATH\) names no directory"

COLL_TIMEOUT=soon info
is "a bad value: status 1" $status 1
has "names the variable" "$dir/out" 'COLL_TIMEOUT'

if script -qec true /dev/null >/dev/null 2>&1 </dev/null; then
    timeout 60 script -qec "stty cols 70; NO_COLOR=1 TERM=xterm '$coll' info" /dev/null </dev/null | tr -d '\r' >"$dir/out"
    has "on a terminal there is output" "$dir/out" '^Verdict'
    none "on a terminal no line is broken by the terminal" \
        "$(grep -v '/' "$dir/out" | sed -n '/^Backends/,/^Interfaces/p' | awk 'length > 70')"
else
    skip "on a terminal" "no program 'script'"
fi

escape=$(printf 'esc\033[31m')
mkdir "$dir/$escape"
COLL_PLUGIN_PATH=$dir/$escape info
none "nothing in a name steers the terminal" \
    "$(grep -c "$(printf '\033')" "$dir/out" | grep -v '^0$')"

# ------------------------------------------------------------------------ JSON

if command -v python3 >/dev/null; then
    info --json
    is "JSON: status 0" $status 0
    is "JSON: members" "$(json '" ".join(d)')" "version backends options notes interfaces observers verdict"
    is "JSON: the choice" "$(json '[b["name"] for b in d["backends"] if b["chosen"]]')" "['tcp']"
    is "JSON: sources" \
        "$(json '[o["source"] for o in d["options"] if o["name"] == "plugin_path"]')" \
        "['COLL_PLUGIN_PATH']"
    is "JSON: the verdict" "$(json 'd["verdict"]["ok"]')" True

    is "JSON: an interface" "$(json '[(i["loopback"], type(i["mtu"]).__name__, type(i["addresses"]).__name__)
        for i in d["interfaces"] if i["name"] == "lo"]')" "[(True, 'int', 'list')]"

    info --json tcp
    is "JSON: one backend" "$(json '[b["name"] for b in d]')" "['tcp']"
    info --json -o timeout
    is "JSON: one option" "$(json '[o["name"] for o in d]')" "['timeout']"

    odd=$(printf '"\\\001\377\303\251\342\202z\360\220\200z\355\240\200')
    mkdir "$dir/$odd"
    cp "$dir/plugins/coll_text.so" "$dir/$odd/"
    COLL_PLUGIN_PATH=$dir/$odd info --json
    # In the output each byte of the path that is not UTF-8 is replaced.
    is "JSON: well-formed for any bytes" \
        "$(json 'ascii([o["value"] for o in d["options"] if o["name"] == "plugin_path"][0]
            .rsplit("/", 1)[1])')" \
        "'\"\\\\\\x01\\ufffd\\xe9\\ufffd\\ufffdz\\ufffd\\ufffd\\ufffdz\\ufffd\\ufffd\\ufffd'"
    COLL_BACKEND=nosuch info --json
    is "JSON: a failed verdict" "$(json '(d["verdict"]["ok"], d["verdict"]["code"] != 0)')" \
        "(False, True)"
else
    skip "JSON" "no python3"
fi

# ------------------------------------------- a user namespace that hides root

# rootless ARGUMENT...: a user who is root in a user namespace with no other user runs an installed `coll`.
rootless() {
    status=0
    HOME=/ PATH=$dir/lib:$PATH LD_LIBRARY_PATH=$dir/lib timeout 60 setpriv --reuid=64123 --regid=64123 --clear-groups \
        unshare -Ur "$@" >"$dir/out" 2>"$dir/err" </dev/null || status=$?
}
mkdir "$dir/lib" "$dir/lib/v1" "$dir/lib/etc" "$dir/theirs"
cp -L "${top_builddir:-.}"/.libs/libcoll.so.1 "${top_builddir:-.}/.libs/coll" "$dir/lib/"
cp "$plugins"/coll_tcp.so "$dir/lib/v1/"
cp "$plugins"/coll_tcp.so "$dir/theirs/"
chmod -R go=u-w "$dir"
export COLL_SYSCONFDIR=$dir/lib/etc
rootless true
if [ "$(id -u)" != 0 ] || [ $status -ne 0 ]; then
    skip "a user namespace that hides root" "needs root, setpriv and user namespaces"
else
    chown -R 64124 "$dir/theirs"
    echo 'timeout = 9s' >"$dir/lib/etc/coll.conf"
    COLL_PLUGIN_PATH=$dir/lib/v1 rootless coll info
    is "an installed libcoll takes the plugins below it: status 0" $status 0
    has "and root's coll.conf" "$dir/out" "^  timeout +9s  \($dir/lib/etc/coll.conf:1\)"
    COLL_PLUGIN_PATH=$dir/theirs rootless coll info
    is "a stranger's plugin is refused: status 1" $status 1
    has "the text names the map and the remedy" "$dir/out" \
        "why not .*an unknown user owns the directory '$dir/theirs' .*uid_map: 0 64123 1.* set COLL_TRUST=$dir/theirs if"
    COLL_TRUST=$dir/theirs COLL_PLUGIN_PATH=$dir/theirs rootless coll info
    is "with that variable it is taken: status 0" $status 0
    mv "$dir/lib/etc" "$dir/etc"
    COLL_SYSCONFDIR=$dir/etc COLL_PLUGIN_PATH=$dir/lib/v1 rootless coll info
    is "a coll.conf elsewhere is refused: status 1" $status 1
    has "with the same remedy" "$dir/out" "etc/coll.conf: .* set COLL_TRUST=$dir/etc if"
fi
unset COLL_SYSCONFDIR

# ----------------------------------------------------------------- wrong usage

info --jsno
is "a misspelt option: 2" $status 2
has "with a suggestion" "$dir/err" "did you mean '--json'\?"
info --algorithms timeout
is "a word too many: 2" $status 2
info --option
is "a missing name: 2" $status 2

timeout 60 "$coll" --version >"$dir/out"
has "coll --version" "$dir/out" '^coll [0-9]+\.[0-9]+\.[0-9]+$'
timeout 60 "$coll" inof >"$dir/out" 2>"$dir/err"
is "an unknown command: 2" $? 2
has "with a suggestion" "$dir/err" "no command 'inof', did you mean 'info'\?"
timeout 60 "$coll" >"$dir/out" 2>"$dir/err"
is "no command: 2" $? 2
if [ -c /dev/full ]; then
    timeout 60 "$coll" info >/dev/full 2>"$dir/err"
    is "a full disk is a failure" $? 1
else
    skip "a full disk is a failure" "no /dev/full"
fi

done_testing
