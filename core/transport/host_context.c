/* SPDX-License-Identifier: BSD-3-Clause */
/* host_context.c - opens and closes the endpoint for host memory beside a native backend. */
#include "transport/host_context.h"

/* The bootstrap and the configuration stay those of the native context. */
static int host_context_begin(struct context **out, const struct context *context,
			      const struct plugin *plugin)
{
	const struct context_parts parts = {.client = context->client,
					    .bootstrap = context->bootstrap,
					    .config = context->config,
					    .plugin = plugin,
					    .selection = context->selection,
					    .device = -1};
	const int code = context_make(out, &parts);

	if (code)
		return code;
	(*out)->home.device = context->home.device;
	return context_open(*out);
}

int host_context_open(struct context *context, const struct plugin *plugin)
{
	struct context *host = NULL;
	struct error_first first = {0};
	const int code = host_context_begin(&host, context, plugin);

	error_note(&first,
		   context_all_ok(host, context->bootstrap, code, context->host.timeout_ms));
	if (first.code && host)
		host_context_close(host, 0);
	else if (!first.code)
		context->host_context = host;
	bootstrap_watch(context->bootstrap, &context->aborted); /* the new context had it */
	return error_raise(&first);
}

void host_context_close(struct context *host_context, int64_t timeout_ms)
{
	wait_thread_stop(host_context);
	context_withdraw(host_context, timeout_ms);
}
