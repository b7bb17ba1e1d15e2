/* SPDX-License-Identifier: BSD-3-Clause */
/* observing.c - the observers of a context and of the contexts made from it, and the numbers by which files name them. */
#include "endpoint/context.h"

#include <string.h>

uint64_t context_number(const struct context *context)
{
	const struct bootstrap_peer *first = bootstrap_peer(context->bootstrap, 0);
	uint8_t key[BOOTSTRAP_KEY_SIZE], mac[16];
	uint64_t number;

	bootstrap_key(context->bootstrap, key);
	siphash128(key, first->process, sizeof(first->process), mac);
	memcpy(&number, mac, sizeof(number));
	return number;
}

const struct context *context_first(const struct context *context)
{
	while (context->parent)
		context = context->parent;
	return context;
}

uint64_t context_job(const struct context *context)
{
	return context_number(context_first(context));
}

static void context_share_observers(struct context *context, struct observers *observers)
{
	context_lock(context);
	context->observers = observers;
	context->observed = observers_wanted(observers);
	context_leave(context);
}

void context_observe(struct context *context)
{
	const struct observe_place place = {
		.host = bootstrap_peer(context->bootstrap, context->rank)->host,
		.backend = context->plugin->backend.name,
		.job = context_job(context),
		.rank = context->rank,
		.nranks = context->nranks};
	struct observers *observers = observers_open(context->plugins, context->config, &place);

	if (!observers)
		return;
	context_share_observers(context, observers);
	if (context->host_context)
		context_share_observers(context->host_context, observers);
}

void context_inherit_observers(struct context *context, const struct context *parent)
{
	context->observers = parent->observers;
	context->observed = parent->observed;
}
