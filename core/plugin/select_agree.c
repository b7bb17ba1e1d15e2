/* SPDX-License-Identifier: BSD-3-Clause */
/* select_agree.c - the ranks exchange their capabilities and make the same choice. */
#include "plugin/plugin_impl.h"
#include "plugin/select_impl.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Names a rank in another process, if there is one: for backends that keep all ranks in one process. */
static void agree_elsewhere(const struct bootstrap *bootstrap, int in_process, char *text,
			    size_t size)
{
	const struct bootstrap_peer *first = bootstrap_peer(bootstrap, 0), *other = first;
	int r = 0;

	text[0] = '\0';
	if (in_process)
		return;
	while (++r < bootstrap_nranks(bootstrap)) {
		other = bootstrap_peer(bootstrap, r);
		if (memcmp(other->process, first->process, sizeof(first->process)) != 0)
			break;
	}
	snprintf(
		text, size,
		"it keeps all ranks in one process, but rank %d (pid %d on %.63s) lives in another "
		"process than rank 0 (pid %d on %.63s)",
		r, (int)other->pid, other->host, (int)first->pid, first->host);
}

/* The exchanged capabilities of all ranks. */
struct agreement {
	struct bootstrap *bootstrap;
	int64_t deadline;
	struct capabilities_head own, *heads; /* of all ranks */
	char *own_table, *tables;             /* `width` bytes of each rank */
	size_t width;
	struct capabilities *caps; /* of all ranks */
};

/* Probes the backends by priority until one is usable, unless all are probed. */
static void agree_probe(const struct config *config, struct plugin_list *list,
			const struct filter *filter, const char *elsewhere)
{
	for (int i = 0; i < list->count; i++) {
		const struct plugin *plugin = &list->item[i];

		if (!select_counts(list, i) ||
		    select_objection(list, plugin, filter, elsewhere).kind != SELECT_MAY)
			continue;
		if (plugin->unprobed)
			plugins_probe(list, config, plugin->name);
		if (!plugin->code)
			return;
	}
}

/* Packs this rank's capabilities. */
static int agree_pack(struct agreement *a, const struct config *config, struct plugin_list *list,
		      int in_process)
{
	char elsewhere[320];
	struct filter filter;
	int code = filter_parse(config, &filter);

	if (!code) {
		agree_elsewhere(a->bootstrap, in_process, elsewhere, sizeof(elsewhere));
		agree_probe(config, list, &filter, elsewhere);
		a->own_table = capabilities_pack(list, &filter, elsewhere, &a->own);
		code = a->own_table ? COLL_SUCCESS : COLL_ERR_NO_MEMORY;
	}
	return code;
}

/* Takes part in the exchange of the other ranks with a failure. */
static int agree_fail(struct agreement *a, int code, const char *text)
{
	return bootstrap_exchange_fail(a->bootstrap, code, text, clock_remaining(a->deadline));
}

static int agree_exchange_heads(struct agreement *a)
{
	const int n = bootstrap_nranks(a->bootstrap), rank = bootstrap_rank(a->bootstrap);
	int code;

	a->heads = calloc((size_t)n, sizeof(*a->heads));
	a->caps = calloc((size_t)n, sizeof(*a->caps));
	if (!a->heads || !a->caps)
		return agree_fail(a, COLL_ERR_NO_MEMORY, "no memory to choose a backend");
	code = bootstrap_exchange(a->bootstrap, &a->own, a->heads, sizeof(a->own),
				  clock_remaining(a->deadline));
	for (int r = 0; !code && r < n; r++) {
		code = capabilities_check_head(&a->heads[r], r);
		if (a->heads[r].size > a->width)
			a->width = a->heads[r].size;
	}
	if (!code && memcmp(&a->own, &a->heads[rank], sizeof(a->own)) != 0)
		code = error_set(COLL_ERR_REMOTE,
				 "the size of the list of backends of rank %d came back as %" PRIu32
				 " instead of %" PRIu32
				 ": the exchange between the ranks altered bytes on the way",
				 rank, a->heads[rank].size, a->own.size);
	return code;
}

/* Exchanges the tables, each padded to the size of the largest. */
static int agree_exchange_tables(struct agreement *a)
{
	const size_t n = (size_t)bootstrap_nranks(a->bootstrap);
	char *padded = calloc(1, a->width);

	a->tables = a->width <= SIZE_MAX / n ? malloc(n * a->width) : NULL;
	if (!padded || !a->tables) {
		free(padded);
		return agree_fail(a, COLL_ERR_NO_MEMORY, "no memory to choose a backend");
	}
	memcpy(padded, a->own_table, a->own.size);
	free(a->own_table);
	a->own_table = padded;
	return bootstrap_exchange(a->bootstrap, padded, a->tables, a->width,
				  clock_remaining(a->deadline));
}

static int agree_choose(struct agreement *a, const struct plugin_list *list,
			const struct plugin **chosen, int *by_name)
{
	const int n = bootstrap_nranks(a->bootstrap);
	struct error_first first = {0};
	const char *name;

	for (int r = 0; r < n; r++)
		error_note(&first,
			   capabilities_unpack(&a->caps[r], a->tables + (size_t)r * a->width,
					       a->heads[r].size, r));
	if (!first.code)
		error_note(&first, select_choose(a->caps, n, &name));
	if (first.code)
		return error_raise(&first);
	for (int r = 0; r < n; r++)
		*by_name |= a->caps[r].list[0] != '\0';
	*chosen = plugins_find(list, name);
	if (*chosen)
		return COLL_SUCCESS;
	return error_set(COLL_ERR_REMOTE,
			 "the lists of backends agree on '%.60s', which rank %d does not have: the "
			 "exchange between the ranks altered bytes on the way",
			 name, bootstrap_rank(a->bootstrap));
}

/* Warns of a name that the option `backend` excludes and no plugin has.  Ranks that probe and choose again do not warn again. */
static void agree_warn(const struct bootstrap *bootstrap, const struct config *config,
		       const struct plugin_list *list)
{
	char unknown[768];

	if (!bootstrap_rank(bootstrap) &&
	    select_excludes_unknown(config, list, unknown, sizeof(unknown)))
		log_warn("%s", unknown);
}

/* Has a rank not probed the backend yet? */
static int agree_is_unprobed(const struct agreement *a, const char *name)
{
	for (int r = 0; r < bootstrap_nranks(a->bootstrap); r++)
		if (capabilities_find(&a->caps[r], name)->unprobed)
			return 1;
	return 0;
}

/* One choice.  Sets *again if a rank must probe the chosen backend first, which this rank does if it has to. */
static int agree_once(struct agreement *a, const struct config *config, struct plugin_list *list,
		      int code, const struct plugin **chosen, int *by_name, int *again)
{
	code = code ? agree_fail(a, code, error_text()) : agree_exchange_heads(a);
	if (!code)
		code = agree_exchange_tables(a);
	if (!code)
		code = agree_choose(a, list, chosen, by_name);
	*again = !code && agree_is_unprobed(a, (*chosen)->name);
	if (*again && (*chosen)->unprobed)
		plugins_probe(list, config, (*chosen)->name);
	for (int r = 0; a->caps && r < bootstrap_nranks(a->bootstrap); r++)
		capabilities_free(&a->caps[r]);
	free(a->caps);
	free(a->heads);
	free(a->tables);
	free(a->own_table);
	return code;
}

int select_agree(struct bootstrap *bootstrap, const struct config *config, struct plugin_list *list,
		 int in_process, int local_code, const struct plugin **chosen, int *by_name)
{
	const int64_t deadline = clock_deadline(config_int(config, "init_timeout") / 1000);
	int code, again;

	*chosen = NULL;
	*by_name = 0;
	if (!local_code)
		agree_warn(bootstrap, config, list);
	do {
		struct agreement a = {.bootstrap = bootstrap, .deadline = deadline};

		code = local_code ? local_code : agree_pack(&a, config, list, in_process);
		code = agree_once(&a, config, list, code, chosen, by_name, &again);
	} while (again);
	return code;
}

void select_give_up(struct plugin_list *list, const struct plugin *chosen, int code)
{
	plugin_refuse(&list->item[chosen - list->item], code, "it could not be opened: %.700s",
		      error_text());
}
