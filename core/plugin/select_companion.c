/* SPDX-License-Identifier: BSD-3-Clause */
/* select_companion.c - chooses the transport beside a backend that has none, or that does not hear of every rank's death. */
#include "plugin/select_impl.h"
#include "base/error.h"
#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Can a rank use the companion that all ranks are to use? */
struct companion_offer {
	char version[32];
	char reason[320];
	int32_t code;
};

static int companion_exchange(struct bootstrap *bootstrap, const struct config *config,
			      const void *own, void *all, size_t size)
{
	const int64_t timeout_ms = config_int(config, "init_timeout") / 1000;

	if (!all)
		return bootstrap_exchange_fail(bootstrap, COLL_ERR_NO_MEMORY,
					       "no memory to choose a companion", timeout_ms);
	return bootstrap_exchange(bootstrap, own, all, size, timeout_ms);
}

/* A transport gets a companion only if the user has named another transport. */
static int companion_is_wanted(const coll_backend_t *backend, const struct companion_wish *wish)
{
	return !backend->transport || (wish->named && strcmp(wish->name, backend->name) != 0);
}

/* Collective: sets *wish, but not `wanted`, to the option `companion` as rank 0 has it, and warns on ranks that have another. */
static int companion_ask(struct bootstrap *bootstrap, const struct config *config,
			 struct companion_wish *wish)
{
	struct companion_wish own = {
		.named = strcmp(config_source(config, "companion"), "default") != 0};
	struct companion_wish *all = calloc((size_t)bootstrap_nranks(bootstrap), sizeof(*all));
	int code;

	snprintf(own.name, sizeof(own.name), "%s", config_string(config, "companion"));
	code = companion_exchange(bootstrap, config, &own, all, sizeof(own));
	if (!code) {
		*wish = all[0];
		wish->name[sizeof(wish->name) - 1] = '\0';
	}
	free(all);
	if (!code && strcmp(own.name, wish->name) != 0)
		log_warn("rank %d: option companion is %s, but rank 0's is %s; all ranks use "
			 "rank 0's",
			 bootstrap_rank(bootstrap), own.name, wish->name);
	return code;
}

int select_companion_wish(struct bootstrap *bootstrap, struct config *config,
			  struct plugin_list *list, const struct plugin *plugin,
			  struct companion_wish *wish)
{
	const coll_backend_t *backend = &plugin->backend;
	int code;

	*wish = (struct companion_wish){.named = 0};
	/* Where all ranks share their process ids, the backend hears of each death without a companion. */
	if (backend->transport && (!(backend->flags & COLL_BACKEND_COMPANION) ||
				   bootstrap_all_share(bootstrap, COLL_SHARES_PIDS)))
		return COLL_SUCCESS;
	code = companion_ask(bootstrap, config, wish);
	wish->wanted = !code && companion_is_wanted(backend, wish);
	wish->named &= wish->wanted;
	if (wish->wanted && filter_wants(config, wish->name) != PLUGIN_EXCLUDED)
		plugins_open(list, config, wish->name);
	return code;
}

/* Can this rank use it? */
static void companion_fill_offer(const struct config *config, struct plugin_list *list,
				 const char *name, struct companion_offer *offer)
{
	const struct plugin *plugin = plugins_probe(list, config, name);
	struct filter filter;

	if (!plugin) {
		offer->code = COLL_ERR_NOT_FOUND;
		snprintf(offer->reason, sizeof(offer->reason), "it is not installed");
	} else if (plugin->code || !plugin->backend.transport) {
		offer->code = plugin->code ? plugin->code : COLL_ERR_UNSUPPORTED;
		snprintf(offer->reason, sizeof(offer->reason), "%.300s",
			 plugin->code ? plugin->reason : "it has no transport");
	} else {
		snprintf(offer->version, sizeof(offer->version), "%s",
			 plugin->backend.version ? plugin->backend.version : "");
	}
	if (!filter_parse(config, &filter) && filter.leaves_out && filter_has(filter.list, name)) {
		offer->code = COLL_ERR_CONFIG;
		snprintf(offer->reason, sizeof(offer->reason), "it is excluded by %s",
			 filter.request);
	}
}

/* Returns the first failure of a rank, as an error. */
static int companion_check_offers(struct companion_offer *all, int n, const char *name)
{
	for (int r = 0; r < n; r++) {
		all[r].reason[sizeof(all[r].reason) - 1] = '\0';
		all[r].version[sizeof(all[r].version) - 1] = '\0';
		if (all[r].code)
			return error_set(all[r].code, "rank %d cannot use the companion '%s': %s",
					 r, name, all[r].reason);
		if (strcmp(all[r].version, all[0].version) != 0)
			return error_set(COLL_ERR_VERSION,
					 "the companion '%s' has version %s on rank 0 but %s on "
					 "rank %d: install the same plugin for all ranks",
					 name, all[0].version, all[r].version, r);
	}
	return COLL_SUCCESS;
}

/* A list of backends to leave out may not be meant for the companion. */
static void companion_log_none(int code)
{
	if (code == COLL_ERR_CONFIG)
		log_warn("the ranks have no companion, so there are no calls on host memory, and "
			 "nobody names a rank that has failed: %s; set companion = none if that is "
			 "meant, else name the backend instead of those to leave out",
			 error_text());
	else
		log_info("the ranks have no companion: %s", error_text());
}

int select_companion(struct bootstrap *bootstrap, const struct config *config,
		     struct plugin_list *list, const struct companion_wish *wish,
		     const struct plugin **chosen)
{
	struct companion_offer own = {.code = 0}, *all;
	int code, offers;

	*chosen = NULL;
	if (!wish->wanted || !strcmp(wish->name, "none"))
		return COLL_SUCCESS;
	all = calloc((size_t)bootstrap_nranks(bootstrap), sizeof(*all));
	companion_fill_offer(config, list, wish->name, &own);
	code = companion_exchange(bootstrap, config, &own, all, sizeof(own));
	offers = code ? code : companion_check_offers(all, bootstrap_nranks(bootstrap), wish->name);
	free(all);
	if (code || (offers && wish->named))
		return offers;
	if (offers && bootstrap_rank(bootstrap) == 0)
		companion_log_none(offers);
	if (!offers)
		*chosen = plugins_find(list, wish->name);
	return COLL_SUCCESS;
}
