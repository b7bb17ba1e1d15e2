/* SPDX-License-Identifier: BSD-3-Clause */
/* agree.c - the ranks agree on the options that schedules depend on. */
#include "start/library.h"
#include "algorithm/selection.h"
#include "base/error.h"
#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* For lack of memory this rank cannot take part in the next exchange; the other ranks are told. */
static int agree_no_memory(struct bootstrap *bootstrap, int64_t timeout_ms)
{
	char text[48];

	snprintf(text, sizeof(text), "no memory for %d ranks", bootstrap_nranks(bootstrap));
	return bootstrap_exchange_fail(bootstrap, COLL_ERR_NO_MEMORY, text, timeout_ms);
}

/* The selections differ: takes rank 0's. */
static int agree_take_first(struct bootstrap *bootstrap, const struct config *config,
			    const struct selection *own, struct selection *selection,
			    int64_t timeout_ms)
{
	struct selection *all = calloc((size_t)bootstrap_nranks(bootstrap), sizeof(*all));
	char differ[256];
	int code;

	if (!all)
		return agree_no_memory(bootstrap, timeout_ms);
	code = bootstrap_exchange(bootstrap, own, all, sizeof(*own), timeout_ms);
	if (!code)
		code = choose_check(config, &all[0]);
	if (!code)
		*selection = all[0];
	free(all);
	if (code || !memcmp(own, selection, sizeof(*own)))
		return code;
	choose_differences(own, selection, differ, sizeof(differ));
	log_warn("rank %d: %s differ from rank 0's; all ranks use rank 0's",
		 bootstrap_rank(bootstrap), differ);
	return COLL_SUCCESS;
}

/*
 * Every rank chooses algorithms and builds schedules with rank 0's values.  parts->selection: this rank's
 * own, then rank 0's.
 */
int agree_selection(struct context_parts *parts)
{
	struct bootstrap *bootstrap = parts->bootstrap;
	int64_t timeout_ms = config_int(parts->config, "init_timeout") / 1000;
	int n = bootstrap_nranks(bootstrap), code, same = 1;
	const struct selection own = *parts->selection;
	uint64_t brief[2] = {own.table, choose_hash(&own)}, (*all)[2];

	all = calloc((size_t)n, sizeof(*all));
	if (!all)
		return agree_no_memory(bootstrap, timeout_ms);
	code = bootstrap_exchange(bootstrap, brief, all, sizeof(brief), timeout_ms);
	for (int r = 1; !code && r < n; r++) {
		if (all[r][0] != all[0][0])
			code = error_set(COLL_ERR_VERSION,
					 "rank %d knows other algorithms than rank 0: all ranks "
					 "need the same version of libcoll (rank %d has %s)",
					 r, bootstrap_rank(bootstrap), coll_version_string());
		same &= all[r][1] == all[0][1];
	}
	free(all);
	if (!code && !same)
		code = agree_take_first(bootstrap, parts->config, &own, parts->selection,
					timeout_ms);
	parts->node_size = parts->selection->node_size;
	return code;
}
