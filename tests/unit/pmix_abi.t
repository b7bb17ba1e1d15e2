#!/usr/bin/env bash
# SPDX-License-Identifier: BSD-3-Clause
# pmix_abi.t - the declarations of core/meet/pmix_abi.h are those of an installed PMIx.
. "${top_srcdir:-.}/tests/lib/tap.sh"

pkg-config --exists pmix 2>/dev/null || skip_all "PMIx's headers are not installed"
dir=$(mktemp -d) || exit 1
trap 'rm -rf "$dir"' EXIT

cat >"$dir/abi.c" <<'END'
#include <pmix.h>
#include <stddef.h>
#include "meet/pmix_abi.h"

#define SAME(a, b) _Static_assert((a) == (b), #a " differs from " #b)

SAME(PMIX_ABI_SUCCESS, PMIX_SUCCESS);
SAME(PMIX_ABI_BOOL, PMIX_BOOL);
SAME(PMIX_ABI_STRING, PMIX_STRING);
SAME(PMIX_ABI_UINT16, PMIX_UINT16);
SAME(PMIX_ABI_UINT32, PMIX_UINT32);
SAME(PMIX_ABI_GLOBAL, PMIX_GLOBAL);
SAME(PMIX_ABI_RANK_WILDCARD, PMIX_RANK_WILDCARD);
SAME(sizeof(PMIX_ABI_JOB_SIZE), sizeof(PMIX_JOB_SIZE));
SAME(sizeof(struct pmix_abi_proc), sizeof(pmix_proc_t));
SAME(offsetof(struct pmix_abi_proc, rank), offsetof(pmix_proc_t, rank));
SAME(offsetof(struct pmix_abi_value, type), offsetof(pmix_value_t, type));
SAME(offsetof(struct pmix_abi_value, data), offsetof(pmix_value_t, data));
_Static_assert(sizeof(struct pmix_abi_value) >= sizeof(pmix_value_t), "room for PMIx's union");
SAME(offsetof(struct pmix_abi_info, key), offsetof(pmix_info_t, key));
SAME(offsetof(struct pmix_abi_info, flags), offsetof(pmix_info_t, flags));
SAME(offsetof(struct pmix_abi_info, value), offsetof(pmix_info_t, value));

/* Each call has the arguments of the declaration in pmix_abi.h. */
int main(int argc, char **argv)
{
	pmix_proc_t proc;
	pmix_info_t *info = NULL;
	pmix_value_t *value = NULL;
	size_t n = (size_t)argc;
	int status = PMIx_Init(&proc, info, n);

	status |= PMIx_Finalize(info, n);
	status |= PMIx_Put((uint8_t)n, argv[0], value);
	status |= PMIx_Commit();
	status |= PMIx_Fence_nb(&proc, n, info, n, (pmix_op_cbfunc_t)0, argv);
	status |= PMIx_Get(&proc, argv[0], info, n, &value);
	status |= PMIx_Get_nb(&proc, argv[0], info, n, (pmix_value_cbfunc_t)0, argv);
	return status | !PMIx_Error_string(status);
}
END
printf '#include <pmix.h>\n#include "meet/pmix_abi.h"\n%s\n' \
    'key JOB_SIZE = PMIX_JOB_SIZE PMIX_ABI_JOB_SIZE
key LOCAL_SIZE = PMIX_LOCAL_SIZE PMIX_ABI_LOCAL_SIZE
key LOCAL_RANK = PMIX_LOCAL_RANK PMIX_ABI_LOCAL_RANK
key COLLECT_DATA = PMIX_COLLECT_DATA PMIX_ABI_COLLECT_DATA' >"$dir/keys.c"
flags="$(pkg-config --cflags pmix) -I$top_srcdir/core"

# shellcheck disable=SC2086 # several flags
check "types, constants and functions" ${TEST_CC:-cc} $flags -Wall -Werror -c "$dir/abi.c" -o "$dir/abi.o"
# shellcheck disable=SC2086
${TEST_CC:-cc} $flags -E -P "$dir/keys.c" >"$dir/keys"
is "the names of all keys" "$(sed -n 's/^key .* = "\(.*\)" "\1"$/same/p' "$dir/keys")" "same
same
same
same"

done_testing
