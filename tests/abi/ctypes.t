#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# ctypes.t - coll.h from another language; coll_ctypes.py says which and how.
. "${top_srcdir:-.}/tests/lib/tap.sh"

command -v python3 >/dev/null || skip_all "python3 is not installed"
exec python3 "${top_srcdir:-.}/tests/abi/coll_ctypes.py"
