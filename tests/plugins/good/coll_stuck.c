/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll_stuck.c - a backend without a transport whose calls return only once the endpoint is aborted.  The shrink of rank 0
 * lasts as long as the option `lingers` says, whatever happens meanwhile.
 */
#include <coll/backend.h>

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct stuck {
	const coll_host_t *host;
	atomic_int aborted;
};

static int32_t stuck_error(coll_error_t *err, int32_t code, const char *text)
{
	snprintf(err->text, sizeof(err->text), "%s", text);
	return err->code = code;
}

static void stuck_pause(void)
{
	const struct timespec moment = {.tv_nsec = 1000000};

	nanosleep(&moment, NULL);
}

static int32_t stuck_call(void *ep, const coll_args_t *args, coll_error_t *err)
{
	struct stuck *s = ep;

	(void)args;
	while (!atomic_load(&s->aborted))
		stuck_pause();
	return stuck_error(err, COLL_ERR_ABORTED, "the call was aborted");
}

static int32_t stuck_query(void *ep, coll_error_t *err)
{
	(void)ep;
	(void)err;
	return COLL_SUCCESS;
}

static void stuck_abort(void *ep)
{
	atomic_store(&((struct stuck *)ep)->aborted, 1);
}

static int32_t stuck_open(const coll_host_t *host, void **ep, coll_error_t *err)
{
	struct stuck *s = calloc(1, sizeof(*s));

	*ep = s;
	if (!s)
		return stuck_error(err, COLL_ERR_NO_MEMORY, "no memory for an endpoint");
	s->host = host;
	return COLL_SUCCESS;
}

static void stuck_close(void *ep, int64_t timeout_ms)
{
	(void)timeout_ms;
	free(ep);
}

static int32_t stuck_shrink(void *ep, const int32_t *exclude, int32_t count,
			    const coll_host_t *newhost, void **newep, coll_error_t *err)
{
	const char *lingers = newhost->option_string(newhost, "lingers");

	(void)ep;
	(void)exclude;
	(void)count;
	if (newhost->rank == 0 && !strcmp(lingers, "until a loss"))
		while (!newhost->aborted(newhost))
			stuck_pause();
	for (int ms = newhost->rank ? 0 : atoi(lingers); ms > 0; ms--)
		stuck_pause();
	return stuck_open(newhost, newep, err);
}

static const coll_option_t stuck_options[] = {
	{.key = "lingers",
	 .fallback = "0",
	 .unit = "",
	 .help = "milliseconds, or 'until a loss' of another rank is known",
	 .type = COLL_OPTION_STRING},
};

static const coll_native_t stuck_slots = {
	.size = sizeof(coll_native_t),
	.allreduce = stuck_call,
	.broadcast = stuck_call,
	.alltoallv = stuck_call,
	.send = stuck_call,
	.recv = stuck_call,
	.query = stuck_query,
	.abort = stuck_abort,
	.shrink = stuck_shrink,
};

COLL_BACKEND_EXPORT const coll_backend_t coll_backend_v1 = {
	.size = sizeof(coll_backend_t),
	.abi_minor = COLL_BACKEND_ABI_MINOR,
	.name = "stuck",
	.version = "1.0",
	.description = "its calls return only once they are aborted",
	.priority = 1,
	.memory = COLL_MEM_HOST,
	.options = stuck_options,
	.option_count = sizeof(stuck_options) / sizeof(stuck_options[0]),
	.option_size = sizeof(coll_option_t),
	.native = &stuck_slots,
	.open = stuck_open,
	.close = stuck_close,
};
