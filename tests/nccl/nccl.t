#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# nccl.t - whether the nccl backend can be used, and the reason if not; what the plugin is linked
# with; older versions of NCCL and its blocking mode, over stand-ins for NCCL and the CUDA driver.
. "${top_srcdir:-.}/tests/lib/tap.sh"

build=$(cd "${top_builddir:-.}" && pwd) || exit 1
coll=$build/coll
plugin=$build/.libs/coll_nccl.so
fakes=$build/tests/fakes
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT
export XDG_CONFIG_HOME="$dir/home" COLL_SYSCONFDIR="$dir/no-config"
only_backends "$dir/plugins" nccl simulated tcp

# info VARIABLE=VALUE...: runs `coll info`, and prints the reason why nccl is not usable.
info() {
    status=0
    env "$@" timeout 120 "$coll" info >"$dir/out" 2>"$dir/err" </dev/null || status=$?
    reason=$(sed -n '/^ .* nccl /,/^ *choice/s/^ *why not *//p' "$dir/out")
}

# why NAME TEXT VARIABLE=VALUE...: checks that nccl is not usable, and that the reason contains the
# text.
why() {
    name=$1 text=$2
    shift 2
    info "$@"
    check "$name: '$text'" sh -c "printf '%s\n' \"\$1\" | grep -qF -e \"\$2\" ||
        { echo \"reason: \$1\"; cat '$dir/out' '$dir/err'; false; }" sh "$reason" "$text"
}

# program NAME COMMAND...: runs a test program as one check; prints its failed checks.
program() {
    name=$1 status=0
    shift
    timeout 600 "$@" >"$dir/out" 2>&1 </dev/null || status=$?
    tap_result $status "$name" "exit status $status: $*
$(grep -v '^ok ' "$dir/out")"
}

# ------------------------------------------------------------ libraries that the plugin links

readelf -d "$plugin" >"$dir/dynamic"
none "linked with nothing of CUDA's or NCCL's" \
    "$(grep NEEDED "$dir/dynamic" | grep -E 'cuda|cudart|nccl|nvidia')"
nm -D -u "$plugin" >"$dir/undefined"
none "no symbol of libcoll, CUDA or NCCL is wanted" \
    "$(grep -E ' (coll_|cu[A-Z]|cuda|nccl)' "$dir/undefined")"
is "one symbol is exported" "$(nm -D --defined-only "$plugin" | sed 's/.* //' | grep -v '^__')" \
    coll_backend_v1

# ------------------------------------------------------- without a driver, without NCCL

# stub FILE VERSION NAME...: builds a library with these functions, which do nothing.
stub() {
    file=$1 version=$2
    shift 2
    {
        echo "int ncclGetVersion(int *v) { *v = $version; return 0; }"
        for name; do
            echo "int $name(void) { return 3; }"
        done
    } >"$dir/stub.c"
    ${TEST_CC:-cc} -shared -fPIC -w -o "$dir/$file" "$dir/stub.c"
}

# Functions that every version of NCCL must have.
calls=$(sed -n 's/^[[:space:]]*{"\(nccl[A-Za-z]*\)", .*, 0},$/\1/p' \
    "${top_srcdir:-.}/plugins/nccl/nccl_library.c")

if ldconfig -p 2>/dev/null | grep -q 'libcuda\.so\.1 ' ||
    [ -e /usr/lib/wsl/lib/libcuda.so.1 ]; then
    skip "no driver" "there is one"
else
    # shellcheck disable=SC2086
    stub whole.so 22809 $calls
    why "no driver: NCCL is there" "NCCL 2.28.9 is installed ($dir/whole.so), but no CUDA driver is" \
        COLL_NCCL_LIBRARY="$dir/whole.so"
    why "no driver: it is named" \
        "libcuda.so.1: cannot open shared object file: No such file or directory" \
        COLL_NCCL_LIBRARY="$dir/whole.so"
    info A=
    is "no driver: the rest can be used" $status 0
    has "no driver: another backend is chosen" "$dir/out" '^  \* (tcp|simulated) [^ ]*: usable$'
    case $reason in
    *"NCCL is not installed"*)
        skip "no driver: the real NCCL" "it is not installed: $reason"
        ;;
    *)
        check "no driver: the real NCCL says its version, and that there is none" sh -c \
            "printf '%s\n' \"\$1\" | grep -qE '^NCCL [2-9]\.[0-9]+\.[0-9]+ is installed \(/.*libnccl\.so.*\), but no CUDA driver is: libcuda\.so\.1: '" \
            sh "$reason"
        ;;
    esac
    info COLL_BACKEND=nccl
    is "no driver: named it is an error" $status 1
    has "no driver: in these words" "$dir/out" \
        "^  .*'nccl'.*(no CUDA driver|not installed).*lib(cuda|nccl)\.so"
    status=0
    COLL_BACKEND=nccl timeout 60 "$build/tests/examples/hello" >"$dir/out" 2>&1 || status=$?
    check "no driver: named, a program ends with the reason" test $status -ne 0
    has "no driver: in these words" "$dir/out" "lib(cuda|nccl)\.so"
fi

why "no NCCL" \
    "NCCL is not installed, or not where the loader or the option nccl.library looks: /nonexistent/libnccl.so: cannot open" \
    COLL_NCCL_LIBRARY=/nonexistent/libnccl.so
mkdir -p "$dir/home/coll"
printf '[nccl]\nlibrary = /nonexistent/by-file.so\n' >"$dir/home/coll/coll.conf"
why "no NCCL where coll.conf says" "/nonexistent/by-file.so" A=
rm "$dir/home/coll/coll.conf"

# ------------------------------------------------------------ unusable versions of NCCL

stub none.so 22809
why "a library without what is needed" "$dir/none.so has no 'ncclGetUniqueId'" \
    COLL_NCCL_LIBRARY="$dir/none.so"
# shellcheck disable=SC2086
stub lacking.so 22809 $(printf '%s\n' $calls | grep -v '^ncclGroupEnd$')
why "a library without one function" "$dir/lacking.so has no 'ncclGroupEnd'" \
    COLL_NCCL_LIBRARY="$dir/lacking.so"
why "another library altogether" "cannot be used: ncclGetVersion is missing" \
    COLL_NCCL_LIBRARY=libm.so.6
# shellcheck disable=SC2086
stub old.so 21703 $calls
why "too old: both versions are named" \
    "NCCL 2.17.3 ($dir/old.so) cannot be used: 2.18 or later is needed" \
    COLL_NCCL_LIBRARY="$dir/old.so"
echo "no library" >"$dir/text.so"
why "not a library" "$dir/text.so: " COLL_NCCL_LIBRARY="$dir/text.so"

# ------------------------------------------------------------------ over the stand-ins

export LD_LIBRARY_PATH="$fakes/.libs" NCCL_STAND_INS="$fakes/.libs" STANDIN_CUDA_DEVICES=4
info A=
is "stand-ins: nccl is usable" "$status$reason" 0
has "stand-ins: with the facts" "$dir/out" \
    "NCCL 2\.28\.9 \($fakes/\.libs/libnccl\.so[.0-9]*\), driver for CUDA 13\.0, 4 devices"
has "stand-ins: it takes device memory, and has streams" "$dir/out" \
    'can +native, cuda-memory, streams'
why "stand-ins: too old" "NCCL 2.17.3 ($fakes/.libs/libnccl.so.2" STANDIN_NCCL_VERSION=21703
why "stand-ins: too old, the needed version" "2.18 or later is needed" STANDIN_NCCL_VERSION=21703
why "stand-ins: no device" "NCCL 2.28.9 and a CUDA driver are installed, but there is no CUDA device" \
    STANDIN_CUDA_INIT=100
why "stand-ins: no device" "CUDA_VISIBLE_DEVICES" STANDIN_CUDA_DEVICES=0
why "stand-ins: the driver does not fit" \
    "NCCL 2.28.9 is installed, but CUDA cannot be used: cuInit: the CUDA driver says " \
    STANDIN_CUDA_INIT=803
why "stand-ins: the driver's own name for it" "(803, CUDA_ERROR_SYSTEM_DRIVER_MISMATCH)" \
    STANDIN_CUDA_INIT=803
why "stand-ins: the toolkit's library for the linker" \
    "$fakes/.libs/libcuda.so.1 is not a driver: it is the CUDA toolkit's stub" STANDIN_CUDA_INIT=34

why "stand-ins: the driver is older than NCCL's CUDA" \
    "cannot use this CUDA driver, which serves CUDA up to 12.4: it was built for CUDA 13.0: update the driver" \
    STANDIN_CUDA_VERSION=12040
info STANDIN_CUDA_VERSION=13000
is "stand-ins: a driver for the same CUDA" "$status$reason" 0
# shellcheck disable=SC2086
stub unknown.so 22809 $calls
info STANDIN_CUDA_VERSION=12040 COLL_NCCL_LIBRARY="$dir/unknown.so"
is "stand-ins: an NCCL that does not say for which CUDA it is" "$status$reason" 0

why "stand-ins: an environment that makes communicators non-blocking" \
    "NCCL_COMM_BLOCKING=0 (the environment, or a file nccl.conf) makes NCCL's communicators non-blocking" \
    NCCL_COMM_BLOCKING=0
info NCCL_COMM_BLOCKING=1
is "stand-ins: an environment that makes them blocking" "$status$reason" 0

# coll_backend_available() must give the same answers.
available() {
    env "$@" "$build/tests/nccl/init_test" available 2>&1
}
is "coll_backend_available: yes" "$(available A=)" "0"
check "coll_backend_available: no device" sh -c 'case $1 in 1*"but there is no CUDA device"*) ;; *) false;; esac' \
    sh "$(available STANDIN_CUDA_INIT=100)"
check "coll_backend_available: version" sh -c \
    'case $1 in 20*"2.17.3"*"2.18 or later"*) ;; *) false;; esac' \
    sh "$(available STANDIN_NCCL_VERSION=21703)"
check "coll_backend_available: library" sh -c \
    'case $1 in 20*"/nonexistent"*) ;; *) false;; esac' \
    sh "$(available COLL_NCCL_LIBRARY=/nonexistent)"

# A program whose data is in host memory.
status=0
COLL_BACKEND=nccl timeout 60 "$build/tests/examples/hello" >"$dir/out" 2>&1 || status=$?
is "host memory: a program that knows nothing of devices runs" "$status $(cat "$dir/out")" \
    "0 rank 0: the sum of all ranks is 0, backend nccl"
status=0
COLL_COMPANION=none COLL_BACKEND=nccl timeout 60 "$build/tests/examples/hello" >"$dir/out" 2>&1 || status=$?
check "host memory without a companion: refused" test $status -ne 0
has "host memory without a companion: in a sentence that says what to do" "$dir/out" \
    "host memory, which backend 'nccl' does not take.*companion"

# ------------------------------------------------------- other versions, other ways

unset LD_LIBRARY_PATH NCCL_STAND_INS
program "NCCL 2.18.5: every collective, what it lacks made of messages" \
    "$build/tests/nccl/coll_test" old/.libs:.libs
program "NCCL 2.18.5: calls without elements connect nobody" "$build/tests/nccl/links_test" \
    old/.libs:.libs
program "NCCL 2.18.5: launches, timeouts, aborts" "$build/tests/nccl/launch_test" old/.libs:.libs
program "blocking = yes: streams and groups" env COLL_NCCL_BLOCKING=yes \
    "$build/tests/nccl/stream_test"
program "blocking = yes: events" env COLL_NCCL_BLOCKING=yes "$build/tests/nccl/event_test"
program "memory of a pool: streams and groups" env STANDIN_CUDA_POOL=1 \
    "$build/tests/nccl/stream_test"
program "NCCL_COMM_BLOCKING=1: streams and groups" env NCCL_COMM_BLOCKING=1 \
    "$build/tests/nccl/stream_test"
program "frees wait for the device: aborts" env STANDIN_CUDA_FREE=wait "$build/tests/nccl/abort_test"
program "frees wait for the device: init, splits" env STANDIN_CUDA_FREE=wait "$build/tests/nccl/init_test"
program "NCCL 2.18.5: aborts that give up" "$build/tests/nccl/give_up_test" old/.libs:.libs
program "NCCL settles late: streams and groups" env STANDIN_NCCL_DELAY_US=20000 \
    "$build/tests/nccl/stream_test"
program "NCCL settles late: events" env STANDIN_NCCL_DELAY_US=20000 \
    "$build/tests/nccl/event_test"
done_testing
