/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nvtx.c - the observer nvtx: a range of NVTX for each call and message, in the domain "libcoll", for Nsight Systems and
 * other tools.  It needs no header and no library of CUDA: the tool names its library in NVTX_INJECTION64_PATH.
 */
#include "nvtx_abi.h"

#include <coll/observer.h>

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NVTX_BUCKETS = 1 << 10 };

/* -------------------------------------------------------------------------- the tool -- */

/* The tool's functions, once for the process: a table for each module.  The tool leaves a slot NULL for which it has none. */
static nvtx_function nvtx_core[NVTX_SLOTS], nvtx_core2[NVTX_SLOTS];
static nvtx_function *nvtx_core_table[NVTX_SLOTS], *nvtx_core2_table[NVTX_SLOTS];
static pthread_once_t nvtx_once = PTHREAD_ONCE_INIT;
static char nvtx_why_not[400]; /* "": the tool is here */
static void *nvtx_domain;

static int nvtx_table_of(int32_t module, nvtx_function ***table, unsigned *slots)
{
	if (module != NVTX_MODULE_CORE && module != NVTX_MODULE_CORE2)
		return 0;
	*table = module == NVTX_MODULE_CORE ? nvtx_core_table : nvtx_core2_table;
	if (slots)
		*slots = NVTX_SLOTS;
	return 1;
}

static void nvtx_tell(uint32_t version)
{
	(void)version;
}

static const void *nvtx_hand_out(uint32_t id)
{
	static const struct nvtx_callbacks callbacks = {sizeof(callbacks), nvtx_table_of};
	static const struct nvtx_version version = {sizeof(version), NVTX_VERSION_3, 0, nvtx_tell};

	return id == NVTX_TABLE_CALLBACKS ? (const void *)&callbacks
	       : id == NVTX_TABLE_VERSION ? (const void *)&version
					  : NULL;
}

static void nvtx_find_tool(void)
{
	const char *path = secure_getenv("NVTX_INJECTION64_PATH");
	void *tool = path && path[0] ? dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE) : NULL;
	nvtx_initialize initialize;

	for (int i = 0; i < NVTX_SLOTS; i++) {
		nvtx_core_table[i] = &nvtx_core[i];
		nvtx_core2_table[i] = &nvtx_core2[i];
	}
	*(void **)&initialize = tool ? dlsym(tool, "InitializeInjectionNvtx2") : NULL;
	if (!path || !path[0])
		snprintf(
			nvtx_why_not, sizeof(nvtx_why_not),
			"no tool takes ranges of NVTX: NVTX_INJECTION64_PATH is not set; start the "
			"program by the tool (nsys profile --trace=nvtx)");
	else if (!initialize)
		snprintf(nvtx_why_not, sizeof(nvtx_why_not),
			 "the tool's library, which NVTX_INJECTION64_PATH names, cannot be used: "
			 "%.250s",
			 tool ? "it lacks InitializeInjectionNvtx2" : dlerror());
	else if (!initialize(nvtx_hand_out) || !nvtx_core2[NVTX_DOMAIN_RANGE_START] ||
		 !nvtx_core2[NVTX_DOMAIN_RANGE_END])
		snprintf(nvtx_why_not, sizeof(nvtx_why_not),
			 "the tool's library '%.250s' takes no ranges of NVTX 3", path);
	else if (nvtx_core2[NVTX_DOMAIN_CREATE])
		nvtx_domain = ((nvtx_domain_create)nvtx_core2[NVTX_DOMAIN_CREATE])("libcoll");
}

static uint64_t nvtx_start(const struct nvtx_event *event)
{
	return ((nvtx_range_start)nvtx_core2[NVTX_DOMAIN_RANGE_START])(nvtx_domain, event);
}

static void nvtx_end(uint64_t range)
{
	((nvtx_range_end)nvtx_core2[NVTX_DOMAIN_RANGE_END])(nvtx_domain, range);
}

/* ------------------------------------------------------------------------ open calls -- */

/* A call whose range has no end yet. */
struct nvtx_call {
	struct nvtx_call *next;
	uint64_t comm, number, range;
	uint32_t what;
	int32_t lane;
};

struct nvtx {
	const coll_observer_host_t *host;
	pthread_mutex_t lock; /* of what follows */
	struct nvtx_call *bucket[NVTX_BUCKETS], *spare;
};

/* The link to the call of the event, or to NULL where it would be. */
static struct nvtx_call **nvtx_find(struct nvtx *nvtx, const coll_observed_t *e)
{
	const uint64_t slot = e->number + e->comm * 31 + e->what + (uint64_t)e->lane * 7;
	struct nvtx_call **at = &nvtx->bucket[slot % NVTX_BUCKETS];

	while (*at && ((*at)->comm != e->comm || (*at)->number != e->number ||
		       (*at)->what != e->what || (*at)->lane != e->lane))
		at = &(*at)->next;
	return at;
}

/* Without memory the call has no range. */
static void nvtx_begin(struct nvtx *nvtx, const coll_observed_t *e)
{
	char message[128];
	const struct nvtx_event event = {.version = NVTX_VERSION_3,
					 .size = sizeof(event),
					 .payload_type = NVTX_PAYLOAD_UINT64,
					 .payload = e->bytes,
					 .message_type = NVTX_MESSAGE_ASCII,
					 .message = message};
	struct nvtx_call **at, *call;

	snprintf(message, sizeof(message), "%s%s %llu B%s%s",
		 e->what == COLL_OBSERVE_MESSAGE ? "i" : "", nvtx->host->kind_name(e->kind),
		 (unsigned long long)e->bytes, e->algorithm ? " " : "",
		 e->algorithm ? e->algorithm : "");
	pthread_mutex_lock(&nvtx->lock);
	at = nvtx_find(nvtx, e);
	call = nvtx->spare ? nvtx->spare : malloc(sizeof(*call));
	if (call && !*at) {
		nvtx->spare = nvtx->spare ? nvtx->spare->next : NULL;
		*call = (struct nvtx_call){.comm = e->comm,
					   .number = e->number,
					   .range = nvtx_start(&event),
					   .what = e->what,
					   .lane = e->lane};
		*at = call;
	} else if (call && call != nvtx->spare) {
		free(call);
	}
	pthread_mutex_unlock(&nvtx->lock);
}

static void nvtx_ended(struct nvtx *nvtx, const coll_observed_t *e)
{
	struct nvtx_call **at, *call;

	pthread_mutex_lock(&nvtx->lock);
	at = nvtx_find(nvtx, e);
	call = *at;
	if (call) {
		nvtx_end(call->range);
		*at = call->next;
		call->next = nvtx->spare;
		nvtx->spare = call;
	}
	pthread_mutex_unlock(&nvtx->lock);
}

static void nvtx_mark(const coll_observed_t *e)
{
	const struct nvtx_event event = {.version = NVTX_VERSION_3,
					 .size = sizeof(event),
					 .message_type = NVTX_MESSAGE_ASCII,
					 .message = e->text};

	if (nvtx_core2[NVTX_DOMAIN_MARK])
		((nvtx_domain_mark)nvtx_core2[NVTX_DOMAIN_MARK])(nvtx_domain, &event);
}

/* A message has no BEGIN. */
static void nvtx_event(void *state, const coll_observed_t *e)
{
	const int begins =
		e->what == COLL_OBSERVE_MESSAGE ? COLL_OBSERVED_ISSUED : COLL_OBSERVED_BEGIN;

	if (e->what == COLL_OBSERVE_FAILURE)
		nvtx_mark(e);
	else if (e->what != COLL_OBSERVE_CALL && e->what != COLL_OBSERVE_MESSAGE)
		return;
	else if (e->phase == begins)
		nvtx_begin(state, e);
	else if (e->phase == COLL_OBSERVED_END)
		nvtx_ended(state, e);
}

/* ---------------------------------------------------------------------- open, close -- */

static coll_result_t nvtx_open(const coll_observer_host_t *host, void **state, coll_error_t *err)
{
	struct nvtx *nvtx;

	pthread_once(&nvtx_once, nvtx_find_tool);
	if (nvtx_why_not[0]) {
		snprintf(err->text, sizeof(err->text), "%s", nvtx_why_not);
		return COLL_ERR_UNSUPPORTED;
	}
	nvtx = calloc(1, sizeof(*nvtx));
	if (!nvtx) {
		snprintf(err->text, sizeof(err->text), "no memory for the ranges of calls");
		return COLL_ERR_NO_MEMORY;
	}
	nvtx->host = host;
	pthread_mutex_init(&nvtx->lock, NULL);
	*state = nvtx;
	return COLL_SUCCESS;
}

static void nvtx_free_calls(struct nvtx_call *call)
{
	while (call) {
		struct nvtx_call *next = call->next;

		free(call);
		call = next;
	}
}

static void nvtx_close(void *state)
{
	struct nvtx *nvtx = state;

	for (int i = 0; i < NVTX_BUCKETS; i++)
		nvtx_free_calls(nvtx->bucket[i]);
	nvtx_free_calls(nvtx->spare);
	pthread_mutex_destroy(&nvtx->lock);
	free(nvtx);
}

COLL_OBSERVER_EXPORT const coll_observer_t coll_observer_v1 = {
	.size = sizeof(coll_observer_t),
	.abi_minor = COLL_OBSERVER_ABI_MINOR,
	.wants = COLL_OBSERVE_CALL | COLL_OBSERVE_MESSAGE | COLL_OBSERVE_FAILURE,
	.name = "nvtx",
	.version = "1.0",
	.description = "ranges of NVTX for Nsight Systems and other tools",
	.open = nvtx_open,
	.event = nvtx_event,
	.close = nvtx_close,
};
