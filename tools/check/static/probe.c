/* SPDX-License-Identifier: BSD-3-Clause */
/* probe.c - probe and info are cheap, leave nothing behind, and give the same result each time. */
#include <pthread.h>
#include <string.h>
#include "check/host/host.h"
#include "check/static/static.h"
#include "check/kit/trace.h"
#include "lib/tool.h"

enum { PROBE_THREADS = 4, PROBE_TIMES = 20, PROBE_BOUND_MS = 5000 };

static const char probe_poison = 0x5a;

/* Makes the host of a program that has no ranks yet.  Host functions that only open may call are NULL. */
static struct check_ep *probe_host(struct check_case *c)
{
	struct check_ep *ep = check_ep_new(c, 0, 0);

	ep->host.rank = ep->host.nranks = 0;
	memset(ep->host.key, 0, sizeof(ep->host.key));
	memset((char *)&ep->host + offsetof(coll_host_t, exchange), 0,
	       sizeof(ep->host) - offsetof(coll_host_t, exchange));
	return ep;
}

static int probe_there(struct check_case *c)
{
	const char *text;

	if (check_plugin(c, &text)->backend.probe)
		return 1;
	check_skip(c, "the plugin has no probe");
	return 0;
}

static int32_t probe_call(struct check_ep *ep, coll_error_t *err)
{
	memset(err, probe_poison, sizeof(*err));
	err->size = sizeof(*err);
	err->code = 0;
	return ep->plugin->backend.probe(&ep->host, err);
}

static void probe_answer(struct check_case *c)
{
	struct check_ep *ep;
	coll_error_t first, again;
	int32_t code;

	if (!probe_there(c))
		return;
	ep = probe_host(c);
	check_slot(c, 0, "probe");
	code = probe_call(ep, &first);
	for (int i = 0; i < PROBE_TIMES; i++)
		if (probe_call(ep, &again) != code)
			check_fail(c, "probe returned %d first and another code later", code);
	check_slot(c, 0, NULL);
	if (code && (first.code != code || !memchr(first.text, 0, sizeof(first.text))))
		check_fail(c, "probe returned %d but filled no reason in *err (code %d)", code,
			   first.code);
	check_ep_free(ep);
}

static void probe_cheap(struct check_case *c)
{
	int64_t begin = tool_now_ms();
	int threads = check_count_threads(), fds = check_count_fds();
	struct check_ep *ep;
	coll_error_t err;

	if (!probe_there(c))
		return;
	ep = probe_host(c);
	check_slot(c, 0, "probe");
	probe_call(ep, &err);
	check_slot(c, 0, NULL);
	if (check_count_threads() > threads)
		check_fail(c, "probe started a thread");
	if (check_count_fds() > fds)
		check_fail(c, "probe left a descriptor open");
	if (tool_now_ms() - begin > PROBE_BOUND_MS)
		check_fail(c, "probe took %lld ms", (long long)(tool_now_ms() - begin));
	check_ep_free(ep);
}

static void *probe_thread(void *arg)
{
	struct check_case *c = arg;
	struct check_ep *ep = probe_host(c);
	coll_error_t err;
	int32_t code = probe_call(ep, &err);

	atomic_fetch_or(&c->shared->number[0], 1ll << (code ? 1 : 0));
	check_ep_free(ep);
	return NULL;
}

static void probe_threads(struct check_case *c)
{
	pthread_t thread[PROBE_THREADS];
	int n = 0;

	if (!probe_there(c))
		return;
	check_slot(c, 0, "probe");
	while (n < PROBE_THREADS && !pthread_create(&thread[n], NULL, probe_thread, c))
		n++;
	while (n > 0)
		pthread_join(thread[--n], NULL);
	check_slot(c, 0, NULL);
	if (atomic_load(&c->shared->number[0]) == 3)
		check_fail(c, "probe returned 0 in one thread and an error in another");
}

static int32_t probe_write_info(struct check_ep *ep, char *buf, uint64_t size)
{
	return ep->plugin->backend.info(&ep->host, buf, size);
}

static void probe_info(struct check_case *c)
{
	struct check_ep *ep;
	const char *text;

	if (!check_plugin(c, &text)->backend.info) {
		check_skip(c, "the plugin has no info");
		return;
	}
	ep = probe_host(c);
	check_line(ep, "info", probe_write_info);
	check_ep_free(ep);
}

const struct check check_probe_checks[] = {
	{.name = "probe",
	 .says = "probe returns the same code each time, and a reason when it refuses",
	 .promise = "coll_backend_t.probe",
	 .group = CHECK_TABLE,
	 .run = probe_answer},
	{.name = "probe-cheap",
	 .says = "probe starts no thread and leaves no descriptor open",
	 .promise = "coll_backend_t.probe",
	 .group = CHECK_TABLE,
	 .run = probe_cheap},
	{.name = "probe-threads",
	 .says = "probe may run in several threads at once",
	 .promise = "Threads",
	 .group = CHECK_TABLE,
	 .run = probe_threads},
	{.name = "info",
	 .says = "info writes one line and stays within its buffer",
	 .promise = "coll_backend_t.info",
	 .group = CHECK_TABLE,
	 .run = probe_info},
	{.name = NULL},
};
