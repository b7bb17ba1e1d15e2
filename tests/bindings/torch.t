#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# torch.t - bindings/torch builds against the installed PyTorch and gives Gloo's results; faults raise.
. "${top_srcdir:-.}/tests/lib/tap.sh"
. "${top_srcdir:-.}/tests/docs/book.sh"

src=${top_srcdir:-.}
build=$(cd "${top_builddir:-.}" && pwd)
here=$(cd "$src" && pwd)/tests/bindings

[ -z "$TEST_SANITIZE" ] || skip_all "python3 is built without -fsanitize=$TEST_SANITIZE"
python=
for candidate in python3 /usr/bin/python3; do
    command -v "$candidate" >/dev/null || continue
    "$candidate" -c 'import torch.distributed as d; assert d.is_gloo_available()' 2>/dev/null || continue
    python=$candidate
    break
done
[ -n "$python" ] || skip_all "PyTorch with Gloo is not installed"
"$python" -c 'import setuptools' 2>/dev/null || skip_all "python3-setuptools is not installed"
command -v c++ >/dev/null || skip_all "c++ is not installed"
command -v pkg-config >/dev/null || skip_all "pkg-config is not installed"

dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

"$python" - >"$dir/flags" 2>/dev/null <<'END'
import sysconfig
from torch.utils.cpp_extension import include_paths
print(*("-I" + path for path in [*include_paths(), sysconfig.get_path("include")]))
END
has_header() {
    # shellcheck disable=SC2046 # flags are words
    printf '#if !__has_include(<%s>)\n#error\n#endif\n' "$1" |
        c++ -E -x c++ $(cat "$dir/flags") - >/dev/null 2>&1
}
for header in torch/csrc/distributed/c10d/ProcessGroup.hpp pybind11/pybind11.h Python.h; do
    has_header "$header" || skip_all "$header is not installed"
done

# ---- the wheel ----

# As the installed coll.pc, for the tree.
cat >"$dir/coll.pc" <<END
libdir=$build/.libs
Name: coll
Description: libcoll
Version: $("$build/coll" --version | sed -n '1s/^[^0-9]*\([0-9.]*\).*/\1/p')
Cflags: -I$(cd "$src" && pwd)/include
Libs: -L\${libdir} -lcoll
END
PKG_CONFIG_PATH=$dir
LD_LIBRARY_PATH=$build/.libs${LD_LIBRARY_PATH:+:$LD_LIBRARY_PATH}
PYTHONPATH=$dir/site
PYTHONDONTWRITEBYTECODE=1
OMP_NUM_THREADS=1
COLL_BACKEND=tcp
export PKG_CONFIG_PATH LD_LIBRARY_PATH PYTHONPATH PYTHONDONTWRITEBYTECODE OMP_NUM_THREADS COLL_BACKEND

cp -R "$src/bindings/torch" "$dir/torch" && chmod -R u+w "$dir/torch"
build_wheel() {
    # The later -O counts; what is tested is not the compiler.
    cd "$dir/torch" && CFLAGS='-O1 -g0' nice -n 10 "$python" setup.py build --build-lib "$dir/site" >"$dir/out" 2>&1
}
check "it builds" build_wheel || cat "$dir/out"
none "without a warning of its own" "$(grep 'coll_torch/.*warning:' "$dir/out")"
check "it finds libcoll by its run path" env -u LD_LIBRARY_PATH "$python" -c 'import torch, coll_torch._C'
egg_info() {
    (cd "$dir/torch" && "$python" setup.py -q egg_info --egg-base "$dir/site") >"$dir/out" 2>&1
}
autoload() {
    "$python" - <<'END' >"$dir/out" 2>&1
import importlib.metadata, sys
entries = importlib.metadata.entry_points()
group = "torch.backends"
entries = entries.select(group=group) if hasattr(entries, "select") else entries.get(group, [])
for entry in entries:
    entry.load()()
import torch.distributed
assert torch.distributed.Backend.COLL.lower() == "coll"
assert "coll_torch._C" not in sys.modules, "libcoll is loaded"
END
}
check "it tells its entry points" egg_info || cat "$dir/out"
check "by the one that PyTorch 2.5 calls 'coll' is a name, and libcoll not loaded" autoload || cat "$dir/out"
if "$python" -c 'import wheel' 2>/dev/null; then
    check "as a wheel" sh -c 'cd "$1/torch" && cp -R ../site build/ &&
        "$2" setup.py -q bdist_wheel --skip-build && ls dist/*.whl' sh "$dir" "$python"
else
    skip "as a wheel" "python3-wheel is not installed"
fi

# ---- jobs ----

# job N CASE: N ranks, for at most five minutes: no test may wait without an end.  A rank that dies does not end the
# others before they have told what they saw of it.
job() {
    timeout 300 "$build/coll" run --no-prefix --grace 60 -n "$1" -- \
        "$python" "$here/torch_job.py" "$2" "$dir/$2.$1.store" >"$dir/out" 2>&1
}
for n in 2 4; do
    job "$n" all
    while read -r line; do
        case $line in
        "ok "*) check "$n ranks: ${line#ok }" true ;;
        "not ok "*) none "$n ranks: ${line#not ok }" "$line" ;;
        esac
    done <"$dir/out"
    has "$n ranks: the job ends" "$dir/out" '^end$'
done

# The class of failures in this version of PyTorch; with the words by which programs know a timeout of Gloo's.
fault=$("$python" -c 'import torch.distributed as d; print(getattr(d, "DistBackendError", RuntimeError).__name__)')
job 4 killed
for rank in 0 2 3; do
    has "rank $rank names the rank that was killed" "$dir/out" \
        "^rank $rank after .* lost \[1\]: $fault: coll:.*rank 1"
done
job 4 stopped
for rank in 0 2 3; do
    has "rank $rank names the rank that is stopped" "$dir/out" \
        "^rank $rank after .*: $fault: coll:.*timed out.*still needs data from:.* 1"
done
job 4 mismatched
for rank in 0 1 2 3; do
    has "rank $rank hears both calls" "$dir/out" \
        "^rank $rank: $fault: coll:all_reduce: .*(allreduce of 7 float32.* allreduce of 1000|allreduce of 1000 float32.* allreduce of 7) "
done
job 2 late
has "a wait of limited time raises" "$dir/out" \
    "^rank 0, wait of 50 ms: $fault: coll:.* Timed out waiting for 50 ms"
has "the group's timeout raises and names the missing rank" "$dir/out" \
    "^rank 0, wait: $fault: coll:.* Timed out waiting: .*timed out.*1"
has "also in the future" "$dir/out" "^rank 0, future: ($fault|RuntimeError): .* Timed out "
job 2 circle
is "a program ends whose function waits for its own future" "$?" 0
has "it does not complete that future" "$dir/out" '^rank 0, its own: \[False\]$'
has "the group's timeout ends what another function waits for" "$dir/out" "^rank 0, nested: .*Timed out waiting: .*1"
job 3 monitored_over_tcp
for number in 0 1; do
    for rank in 0 1 2; do
        has "rank $rank: barrier $number over a TCPStore names the rank that comes late" "$dir/out" \
            "^rank $rank, barrier $number: $fault: coll:monitored_barrier: .*Rank 1 failed to pass"
    done
done
for turn in 1 2 3; do
    check "turn $turn: a program ends with futures under way" job 2 left_open || cat "$dir/out"
done
job 2 closed
has "a future taken while the group ends is complete" "$dir/out" '^rank 0, while it ends: 2.0$'
for rank in 0 1; do
    has "rank $rank: a future in a child of fork" "$dir/out" "^rank $rank, child: 0$"
    has "rank $rank: a future taken after the group's end has the result" "$dir/out" "^rank $rank, sum: 2.0$"
    has "rank $rank: that of a receive to which no message has come raises" "$dir/out" \
        "^rank $rank, message: ($fault|RuntimeError): coll:recv: "
done
job 2 locked
for name in is_completed get_future; do
    for rank in 0 1; do
        has "rank $rank: $name while another thread ends the work" "$dir/out" "^rank $rank, $name: goes on$"
    done
done
job 2 aborted
has "an abort ends the wait" "$dir/out" "^rank 0: $fault: coll:.*abort"

# ---- CUDA tensors, over the stand-ins for the CUDA driver and NCCL ----

fakes=$build/tests/fakes/.libs
build_cuda() {
    # By the module that built the backend: with the language and the ABI of PyTorch.
    mkdir "$dir/cuda" && cd "$dir/cuda" || return
    cat >setup.py <<END
from setuptools import setup
from torch.utils.cpp_extension import BuildExtension, CppExtension
setup(name="torch_cuda", cmdclass={"build_ext": BuildExtension.with_options(use_ninja=False)},
      ext_modules=[CppExtension("torch_cuda", ["$here/torch_cuda.cpp"], library_dirs=["$fakes"], libraries=["cuda"])])
END
    CFLAGS='-O1 -g0' nice -n 10 "$python" setup.py build --build-lib "$dir/site" --build-temp "$dir/cuda" >"$dir/out" 2>&1
}
cuda_job() {
    COLL_BACKEND=$1 LD_LIBRARY_PATH=$fakes:$LD_LIBRARY_PATH timeout 300 "$build/coll" run --no-prefix --grace 60 -n 2 \
        -- "$python" "$here/torch_cuda_job.py" "$dir/cuda.$1.store" >"$dir/out" 2>&1
}
if ! "$python" -c 'import torch; assert torch.__version__.startswith("1.13") and not torch.version.cuda' 2>/dev/null; then
    skip "CUDA tensors" "the stand-in device is for a PyTorch 1.13 that was built without CUDA"
elif check "CUDA devices for a PyTorch without CUDA" build_cuda; then
    for backend in tcp nccl; do
        cuda_job "$backend"
        sort "$dir/out" | uniq -c >"$dir/cuda.$backend"
        while read -r times line; do
            case $line in
            "ok "*) is "CUDA tensors over $backend: ${line#ok }" "$times" 2 ;;
            "not ok "*) none "CUDA tensors over $backend: ${line#not ok }" "$line" ;;
            esac
        done <"$dir/cuda.$backend"
        has "CUDA tensors over $backend: both ranks end" "$dir/cuda.$backend" '^ *2 end$'
    done
else
    cat "$dir/out"
fi

# ---- bindings/README.md ----

awk '/^```python$/ { on = 1; next } /^```$/ { on = 0 } on' "$src/bindings/README.md" >"$dir/sum.py"
is "README's program has five lines" "$(wc -l <"$dir/sum.py" | tr -d ' ')" 5
unset RANK WORLD_SIZE MASTER_ADDR MASTER_PORT
timeout 300 "$build/coll" run --no-prefix -n 4 -- "$python" "$dir/sum.py" >"$dir/out" 2>&1
is "it prints the sum on four ranks" "$(grep -c '^sum: 4.0$' "$dir/out")" 4
sed 's/"coll"/"gloo"/' "$dir/sum.py" >"$dir/gloo.py"
timeout 300 "$build/coll" run --no-prefix -n 2 -- "$python" "$dir/gloo.py" >"$dir/out" 2>&1
is "a program of another backend starts under coll run too" "$(grep -c '^sum: 2.0$' "$dir/out")" 2

# ---- tutorials ----

book_tree "$dir/tree"
book_python "$dir/tree" "$python"
for page in coll-tutorial-pytorch coll-tutorial-frameworks; do
    (book_page "$book_src/docs/$page.rst" "$dir/$page")
    book_judge $page "$dir/$page"
done

done_testing
