#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# python.t - bindings/python builds, and its calls do as coll.h says on 2 and 3 ranks; faults raise exceptions.
. "${top_srcdir:-.}/tests/lib/tap.sh"
. "${top_srcdir:-.}/tests/docs/book.sh"

src=$(cd "${top_srcdir:-.}" && pwd)
build=$(cd "${top_builddir:-.}" && pwd)
here=$src/tests/bindings

[ -z "$TEST_SANITIZE" ] || skip_all "python3 is built without -fsanitize=$TEST_SANITIZE"
python=
for candidate in python3 /usr/bin/python3; do
    "$candidate" -c 'import numpy, setuptools' 2>/dev/null || continue
    python=$candidate
    break
done
[ -n "$python" ] || skip_all "no python3 with numpy and setuptools is installed"
command -v cc >/dev/null || skip_all "cc is not installed"
command -v pkg-config >/dev/null || skip_all "pkg-config is not installed"
[ -e "$("$python" -c 'import sysconfig; print(sysconfig.get_path("include"))')/Python.h" ] ||
    skip_all "Python.h is not installed"

dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

# ---- the package ----

# As the installed coll.pc, for the tree.
cat >"$dir/coll.pc" <<END
libdir=$build/.libs
plugindir=$build/.libs
Name: coll
Description: libcoll
Version: $("$build/coll" --version | sed -n '1s/^[^0-9]*\([0-9.]*\).*/\1/p')
Cflags: -I$src/include
Libs: -L\${libdir} -lcoll
END
PKG_CONFIG_PATH=$dir
LD_LIBRARY_PATH=$build/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
PYTHONPATH=$dir/site
PYTHONDONTWRITEBYTECODE=1
PYTHONUNBUFFERED=1
OMP_NUM_THREADS=1
OPENBLAS_NUM_THREADS=1
COLL_BACKEND=tcp
export PKG_CONFIG_PATH LD_LIBRARY_PATH PYTHONPATH PYTHONDONTWRITEBYTECODE PYTHONUNBUFFERED OMP_NUM_THREADS
export OPENBLAS_NUM_THREADS COLL_BACKEND

cp -R "$src/bindings/python" "$dir/python" && chmod -R u+w "$dir/python"
build_package() {
    (cd "$dir/python" && CFLAGS='-O1 -g' "$python" setup.py build --build-lib "$dir/site") >"$dir/out" 2>&1
}
check "it builds" build_package || { cat "$dir/out"; done_testing; exit; }
none "without a warning of its own" "$(grep 'extension/.*warning:' "$dir/out")"
check "it finds libcoll by its run path" env -u LD_LIBRARY_PATH "$python" -c 'import coll'
check "the extension uses the limited API alone" test -e "$dir/site/coll/_core.abi3.so"
if "$python" -c 'import wheel' 2>/dev/null; then
    check "as a wheel for every Python from 3.9 on" sh -c 'cd "$1/python" &&
        "$2" setup.py -q bdist_wheel && ls dist/coll-*-cp39-abi3-*.whl' sh "$dir" "$python"
else
    skip "as a wheel for every Python from 3.9 on" "python3-wheel is not installed"
fi
for other in python3.9 python3.10 python3.11 python3.12 python3.13 python3.14; do
    if "$other" -c '' 2>/dev/null; then
        check "the same extension in $other" "$other" -c 'import coll; coll.init().destroy()'
    fi
done
"$python" - "$dir" >"$dir/out" 2>&1 <<'END'
# A package whose extension asks for a library that is not there.
import importlib.machinery, sys, types
class Missing:
    def find_spec(name, path=None, target=None):
        if name == "coll._core":
            raise ImportError("libcoll.so.1: cannot open shared object file: No such file or directory")
sys.meta_path.insert(0, Missing)
import coll
END
has "without libcoll the import says what to do" "$dir/out" 'ImportError: libcoll.so.1: .*install it where the loader looks'

# README's commands: pip, which the test keeps from the network, in a virtual environment.
mkdir -p "$dir/first/bindings" "$dir/first/bin" && cp -R "$dir/python" "$dir/first/bindings/"
book_python "$dir/first" "$python"
in_venv() {
    (
        cd "$dir/first" && unset PYTHONPATH LD_LIBRARY_PATH && export PIP_NO_INDEX=1 PIP_NO_BUILD_ISOLATION=0 CFLAGS=-O0
        PATH=$dir/first/bin:$PATH
        eval "$(sed -n '/^    python3 -m venv /,/^    pip install /s/^    //p' "$src/bindings/python/README.md")" || exit
        cd / && python3 -c 'import coll; print("in", coll.__file__, coll.init().allreduce(4))'
    ) >"$dir/out" 2>&1
}
if "$python" -c 'import ensurepip, venv, wheel' 2>/dev/null; then
    in_venv
    has "README's commands install it in a virtual environment" "$dir/out" "^in $dir/first/v/.*/coll/__init__.py 4\$"
else
    skip "README's commands install it in a virtual environment" "python3-venv or python3-wheel is not installed"
fi
none "each page that installs a package with pip does so in one" "$(cd "$src" && grep -rl 'pip install .*\./' --include=*.md \
    --include=*.rst README.md docs bindings | while read -r page; do
    grep -q 'python3 -m venv --system-site-packages v && \. v/bin/activate' "$page" || echo "$page"
done)"

# A package that carries the library and its plugins.
bundle() {
    (cd "$dir/python" && COLL_BUNDLE=yes CFLAGS=-O0 "$python" setup.py build --build-base "$dir/bundle" \
        --build-lib "$dir/bundled") >"$dir/out" 2>&1
}
check "a package that carries libcoll" bundle || cat "$dir/out"
alone() {
    env -u LD_LIBRARY_PATH -u COLL_PLUGIN_PATH PYTHONPATH="$dir/bundled" timeout 120 "$@"
}
alone "$python" "$here/python_ends.py" ids >"$dir/out" 2>&1
is "three ranks meet over its plugins" "$(grep -c '^sum 3.0$' "$dir/out")" 3 || cat "$dir/out"
alone "$python" -c 'import coll; print(*coll.info().notes, sep="\n")' >"$dir/out"
has "which are those in the package" "$dir/out" "'$dir/bundled/coll/lib/plugins' .*: [2-9] plugins"

# ---- jobs ----

# lines NAME: the checks of a job in $dir/out.
lines() {
    while read -r line; do
        case $line in
        "ok "*) check "$1: ${line#ok }" true ;;
        "not ok "*) none "$1: ${line#not ok }" "$line" ;;
        esac
    done <"$dir/out"
    has "$1: the job ends" "$dir/out" '^end$'
}
# job N CASE: N ranks, for at most five minutes: no test may wait without an end.
job() {
    timeout 300 "$build/coll" run --no-prefix --grace 60 -n "$1" -- "$python" "$here/python_job.py" "$2" \
        >"$dir/out" 2>&1
}
for n in 2 3; do
    job "$n" all
    lines "$n processes over tcp"
done
COLL_BACKEND=simulated timeout 300 "$python" "$here/python_job.py" all 3 >"$dir/out" 2>&1
lines "3 threads over simulated"
if can ucx; then
    COLL_BACKEND=ucx job 2 all
    lines "2 processes over ucx"
fi
COLL_COUNTERS=yes job 2 counted
lines "2 processes that count"
COLL_PROGRESS=thread job 2 asyncio
lines "2 processes with progress = thread"
job 2 interrupted
lines "2 processes"

job 3 killed
for rank in 0 2; do
    has "rank $rank: the exception names the rank that was killed" "$dir/out" "^rank $rank: PeerLost 23 \[1\] .*rank 1"
    has "rank $rank: the survivors go on" "$dir/out" "^rank $rank: sum of survivors 2$"
done
job 3 raising
for rank in 0 2; do
    has "rank $rank hears of an exception on rank 1" "$dir/out" "^rank $rank: RemoteError 6 \[\] rank 1 aborted"
done
job 3 silent
has "a timeout names the rank that is silent" "$dir/out" '^rank [02]: TimedOut 8 .*timed out.*not heard from: rank 1'
job 3 mismatched
for rank in 0 1 2; do
    has "rank $rank hears both calls" "$dir/out" "^rank $rank: Mismatch 22 .*allreduce of [4-6] .*allreduce of [4-6] "
done

# ---- memory of devices, over the stand-ins for the CUDA driver and NCCL ----

mkdir "$dir/fakes" && ln -s "$build/tests/fakes/.libs/libcuda.so.1" "$build/tests/fakes/.libs/libnccl.so.2" "$dir/fakes/"
on_device() {
    LD_LIBRARY_PATH=$dir/fakes:$LD_LIBRARY_PATH STANDIN_CUDA_DEVICES=2 COLL_ENABLE_GPU_FALLBACK=yes COLL_BACKEND=$1 \
        job 2 device
    lines "devices over $1"
}
on_device tcp
has "a warning names the line of the program" "$dir/out" 'warn: .*copies 20 bytes from .*called at place [0-9]+'
[ ! -e "$build/.libs/coll_nccl.so" ] || on_device nccl

# ---- ends ----

# program N CASE: a program of python_ends.py; its status in $status.
program() {
    timeout 120 "$build/coll" run --no-prefix --grace 60 -n "$1" -- "$python" "$here/python_ends.py" "$2" \
        >"$dir/out" 2>&1
    status=$?
}
for name in left circle leaves made daemon child; do
    for progress in caller thread; do
        COLL_PROGRESS=$progress program 2 $name
        is "$name, progress = $progress: it ends" "$status" 0
        is "$name, progress = $progress: both ranks" "$(grep -c '^sum 2.0$' "$dir/out")" 2
        none "$name, progress = $progress: in silence" "$(grep -i 'Traceback\|fatal' "$dir/out")"
    done
done
timeout 120 "$python" -W default "$here/python_ends.py" circle >"$dir/out" 2>&1
has "a communicator that the program forgets is a warning" "$dir/out" 'ResourceWarning: <coll.Comm rank 0 of 1> was not'
program 2 raises
has "an uncaught exception is heard at once" "$dir/out" '^rank 0 hears: .*rank 1 aborted'
timeout 120 "$python" "$here/python_ends.py" ids >"$dir/out" 2>&1
is "processes of multiprocessing meet by an id" "$(grep -c '^sum 3.0$' "$dir/out")" 3
timeout 120 "$python" "$here/python_ends.py" exchanges >"$dir/out" 2>&1
is "ranks meet by an exchange function" "$(grep -c '^sum 2.0$' "$dir/out")" 2
has "its exception is the cause" "$dir/out" "^error .* OSError\\('no network'\\)$"
has "too many parts are an error" "$dir/out" '^error .*returned 3 parts of .* bytes; expected 2 parts of'

# ---- what is written ----

unset COLL_BACKEND
timeout 120 "$python" - >"$dir/out" 2>&1 <<'END'
import doctest, sys
import coll
for name in ("coll", "coll._arrays", "coll._calls", "coll._comm", "coll._request"):
    result = doctest.testmod(sys.modules[name])
    print(name, result.attempted, "failed", result.failed)
END
is "doctests of five modules" "$(grep -c '^coll[a-z._]* [0-9]* failed 0$' "$dir/out")" 5 || cat "$dir/out"

# README's programs: each runs on two ranks and prints what its last comment says.
awk -v dir="$dir" '/^```python$/ { n++; on = 1; next } /^```$/ { on = 0 } on { print > (dir "/readme" n ".py") }' \
    "$src/bindings/python/README.md"
for program in "$dir"/readme*.py; do
    wanted=$(sed -n 's/^# prints: //p' "$program")
    timeout 120 "$build/coll" run --no-prefix -n 2 -- "$python" "$program" >"$dir/out" 2>&1
    is "README's $(basename "$program" .py) ends" "$?" 0
    has "and prints '$wanted'" "$dir/out" "^$wanted$"
done

awk '/^```python$/ { on = 1; next } /^```$/ { on = 0 } on' "$src/README.md" >"$dir/top.py"
timeout 120 "$build/coll" run --no-prefix -n 2 -- "$python" "$dir/top.py" >"$dir/out" 2>&1
is "the program of the tree's README prints the sum on two ranks" "$(grep -c '^the sum over all ranks is 3.0$' "$dir/out")" 2

book_tree "$dir/tree"
book_python "$dir/tree" "$python"
(book_page "$src/docs/coll-tutorial-python.rst" "$dir/tutorial")
book_judge coll-tutorial-python "$dir/tutorial"

accuracy() {
    sed -n 's/^held-out accuracy \([0-9.]*\) .*/\1/p' "$1"
}
"$build/tests/examples/digits" --data "$src/tests/examples/data" --in-process 1 >"$dir/c" 2>&1
for n in 1 4; do
    COLL_BACKEND=tcp timeout 300 "$build/coll" run --no-prefix -n $n -- "$python" "$src/bindings/python/digits.py" \
        "$src/tests/examples/data" >"$dir/out" 2>&1
    check "digits on $n ranks: accuracy $(accuracy "$dir/out")" awk -v a="$(accuracy "$dir/out")" \
        -v b="$(accuracy "$dir/c")" 'BEGIN { exit !(a >= 0.9 && a - b < 0.0051 && b - a < 0.0051) }'
done

done_testing
