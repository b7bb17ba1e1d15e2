/* SPDX-License-Identifier: BSD-3-Clause */
/* select_agree.c - all ranks tell what they can, and come to the same result. */
#include "plugin/select_impl.h"
#include "base/error.h"
#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Who lives elsewhere, if anybody does: for backends that keep all ranks in one process. */
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

static char *agree_write(const struct bootstrap *bootstrap, const struct config *config,
			 const struct plugin_list *list, int in_process, int code)
{
	struct filter filter = {0};
	char elsewhere[320], unknown[768], *text;

	agree_elsewhere(bootstrap, in_process, elsewhere, sizeof(elsewhere));
	if (!code)
		code = filter_parse(config, &filter);
	if (!code && !bootstrap_rank(bootstrap) &&
	    select_excludes_unknown(config, list, unknown, sizeof(unknown)))
		log_warn("%s", unknown);
	text = capabilities_write(list, &filter, elsewhere, code);
	filter_free(&filter);
	return text;
}

/* Takes over the texts of all ranks. */
static int agree_read(struct capabilities *all, char **texts, int n)
{
	char text[1024] = "";
	int first = COLL_SUCCESS;

	for (int r = 0; r < n; r++) {
		int code = capabilities_read(&all[r], texts[r], r);

		texts[r] = NULL;
		if (code && !first) {
			first = code;
			snprintf(text, sizeof(text), "%s", error_text());
		}
	}
	return first ? error_set(first, "%s", text) : COLL_SUCCESS;
}

static int agree_choose(const struct bootstrap *bootstrap, char **texts,
			const struct plugin_list *list, const struct plugin **chosen)
{
	const int n = bootstrap_nranks(bootstrap);
	struct capabilities *all = calloc((size_t)n, sizeof(*all));
	const char *name;
	int code;

	if (!all)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for the offers of %d ranks", n);
	code = agree_read(all, texts, n);
	if (!code)
		code = select_choose(all, n, &name);
	if (!code && !(*chosen = plugins_find(list, name)))
		code = error_set(COLL_ERR_REMOTE,
				 "the lists of backends agree on '%.60s', which rank %d never "
				 "offered: the exchange between the ranks altered bytes on the way",
				 name, bootstrap_rank(bootstrap));
	for (int r = 0; r < n; r++)
		capabilities_free(&all[r]);
	free(all);
	return code;
}

int select_agree(struct bootstrap *bootstrap, const struct config *config,
		 const struct plugin_list *list, int in_process, int local_code,
		 const struct plugin **chosen)
{
	const int64_t timeout_ms = config_int(config, "init_timeout") / 1000;
	char *own = agree_write(bootstrap, config, list, in_process, local_code), **texts = NULL;
	char failure[1024];
	int code;

	*chosen = NULL;
	snprintf(failure, sizeof(failure), "%s", error_text());
	code = bootstrap_exchange_text(bootstrap, own ? own : capabilities_poor, &texts,
				       timeout_ms);
	free(own);
	/* A rank that had failed before knows better than the exchange. */
	if (code && local_code)
		code = error_set(local_code, "%s", failure);
	if (!code)
		code = agree_choose(bootstrap, texts, list, chosen);
	bootstrap_texts_free(bootstrap, texts);
	return code;
}

/* ---------------------------------------------------------------- after a step -- */

int select_all_ok(struct bootstrap *bootstrap, int code, int64_t timeout_ms)
{
	return code ? bootstrap_exchange_fail(bootstrap, code, error_text(), timeout_ms)
		    : bootstrap_exchange(bootstrap, NULL, NULL, 0, timeout_ms);
}
