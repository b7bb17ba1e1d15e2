/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gpu.c - one rank of the tests on GPUs.
 *
 *   gpu THEME...   makes a communicator from the environment (`coll run`) and runs these themes on it
 *   gpu facts      prints the hardware and software found, or why no test can run
 */
#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "gpu.h"

static char gpu_failure[600];

/* ---------------------------------------------------------------- saying it -- */

/* Prints each line by a single write, so that no line is lost if the process dies. */
static void gpu_line(const char *kind, const char *fmt, va_list args)
{
	char text[1200];

	vsnprintf(text, sizeof(text), fmt, args);
	for (char *p = text; *p; p++)
		if (*p == '\n')
			*p = ' ';
	printf("%s%s\n", kind, text);
	fflush(stdout);
}

void gpu_say(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	gpu_line("", fmt, args);
	va_end(args);
}

int gpu_fail(const char *fmt, ...)
{
	va_list args;

	if (gpu_failure[0])
		return 0;
	va_start(args, fmt);
	vsnprintf(gpu_failure, sizeof(gpu_failure), fmt, args);
	va_end(args);
	return 0;
}

int gpu_did(coll_result_t code, const char *what)
{
	if (code == COLL_SUCCESS)
		return 1;
	return gpu_fail("%s: %d, %s", what, code, coll_get_last_error(NULL));
}

int gpu_refused(coll_result_t code, coll_result_t want, const char *piece, const char *what)
{
	const char *text = coll_get_last_error(NULL);

	if (code != want)
		return gpu_fail("%s: %d (%s), not %d", what, code, code ? text : "", want);
	return strstr(text, piece) != NULL ||
	       gpu_fail("%s: '%s' does not say '%s'", what, text, piece);
}

void gpu_report(const char *fmt, ...)
{
	char name[300];
	va_list args;

	va_start(args, fmt);
	vsnprintf(name, sizeof(name), fmt, args);
	va_end(args);
	if (gpu_failure[0])
		gpu_say("not ok|%s|%s", name, gpu_failure);
	else
		gpu_say("ok|%s", name);
	gpu_failure[0] = '\0';
}

void gpu_skip(const char *name, const char *fmt, ...)
{
	char kind[200];
	va_list args;

	snprintf(kind, sizeof(kind), "skip|%s|", name);
	va_start(args, fmt);
	gpu_line(kind, fmt, args);
	va_end(args);
	gpu_failure[0] = '\0';
}

/* ------------------------------------------------------------------- sums -- */

enum { SUM_COUNT = 1024 };

int32_t gpu_total(const struct gpu *g)
{
	return g->nranks * (g->nranks + 1) / 2;
}

int gpu_sum_begin(const struct gpu *g, coll_comm_t comm, coll_stream_t stream)
{
	int32_t mine[SUM_COUNT];

	for (int i = 0; i < SUM_COUNT; i++)
		mine[i] = (g->rank + 1) * (i + 1);
	gpu_copy(g->send, mine, sizeof(mine));
	memset(mine, 0, sizeof(mine));
	gpu_copy(g->recv, mine, sizeof(mine));
	return gpu_did(
		coll_allreduce(g->send, g->recv, SUM_COUNT, COLL_INT32, COLL_SUM, comm, stream),
		"coll_allreduce");
}

int gpu_sum_end(const struct gpu *g, int32_t want, const char *what)
{
	int32_t sums[SUM_COUNT];

	gpu_copy(sums, g->recv, sizeof(sums));
	for (int i = 0; i < SUM_COUNT; i++)
		if (sums[i] != want * (i + 1))
			return gpu_fail("%s: sum %d is %d, not %d", what, i, sums[i],
					want * (i + 1));
	return 1;
}

int gpu_sums(const struct gpu *g, coll_comm_t comm, int32_t want, const char *what)
{
	return gpu_sum_begin(g, comm, NULL) && gpu_did(coll_sync(comm), what) &&
	       gpu_sum_end(g, want, what);
}

/* ------------------------------------------------------------------- facts -- */

/* Asks NCCL itself for its version, if the library is an NCCL. */
static void facts_nccl(void)
{
	void *library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_LOCAL), *symbol;
	int (*get_version)(int *version), version = 0;

	if (!library)
		return;
	symbol = dlsym(library, "ncclGetVersion");
	memcpy(&get_version, &symbol, sizeof(symbol));
	if (symbol && !get_version(&version))
		gpu_say("fact|nccl|%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
}

/* Returns exit status 0, or 77 with the reason why no test can run. */
static int facts(void)
{
	char why[300], name[200] = "?";
	int count, device, version = 0;
	const char *const backends[] = {"nccl", "tcp", "ucx"};

	count = gpu_driver_open(why, sizeof(why));
	if (!count) {
		gpu_say("%s", why);
		return 77;
	}
	gpu_must(cuda_driver.cuDeviceGet(&device, 0), "cuDeviceGet");
	gpu_must(cuda_driver.cuDeviceGetName(name, sizeof(name), device), "cuDeviceGetName");
	gpu_must(cuda_driver.cuDriverGetVersion(&version), "cuDriverGetVersion");
	gpu_say("fact|gpus|%d", count);
	gpu_say("fact|gpu|%s", name);
	gpu_say("fact|cuda|%d.%d", version / 1000, version % 1000 / 10);
	gpu_say("fact|standin|%s", gpu_is_standin ? "yes" : "no");
	facts_nccl();
	for (size_t i = 0; i < sizeof(backends) / sizeof(backends[0]); i++)
		if (coll_backend_available(backends[i], why, sizeof(why)))
			gpu_say("fact|no_%s|%s", backends[i], why);
	return 0;
}

/* ------------------------------------------------------------------- themes -- */

static const struct theme {
	const char *name;
	void (*run)(struct gpu *g);
	int timeout_ms; /* timeout of every wait */
} themes[] = {
	{"move", gpu_move, 20000},      {"reduce", gpu_reduce, 20000},
	{"group", gpu_group, 20000},    {"event", gpu_event, 20000},
	{"stream", gpu_streams, 20000}, {"capture", gpu_capture, 20000},
	{"memory", gpu_memory, 20000},  {"derive", gpu_derive, 20000},
	{"fault", gpu_fault, 4000},     {"death", gpu_death, 4000},
	{"both", gpu_both, 20000},      {"differ", gpu_differ, 20000},
	{"many", gpu_many, 20000},      {"speed", gpu_speed, 50000},
};

static const struct theme *theme_named(const char *name)
{
	for (size_t i = 0; i < sizeof(themes) / sizeof(themes[0]); i++)
		if (!strcmp(themes[i].name, name))
			return &themes[i];
	fprintf(stderr, "gpu: there is no theme '%s'\n", name);
	exit(2);
}

/* Does the backend have device streams? */
static int gpu_is_native(const char *backend)
{
	coll_backend_info_t about = {.size = sizeof(about)};
	coll_info_t info;
	int native = 0;

	if (coll_info_create(NULL, &info))
		return 0;
	for (int i = 0; i < coll_info_backend_count(info); i++)
		if (!coll_info_backend(info, i, &about) && !strcmp(about.name, backend))
			native = (about.capabilities & COLL_CAP_STREAMS) != 0;
	coll_info_destroy(info);
	return native;
}

static void gpu_begin(struct gpu *g, int timeout_ms)
{
	const char *local = getenv("COLL_LOCAL_RANK"), *sanitize = getenv("TEST_SANITIZE");
	const char *const options[] = {"destroy_timeout=2s", "stall_after=1s", NULL};
	coll_config_t config;
	char why[300];

	g->devices = gpu_driver_open(why, sizeof(why));
	if (!g->devices) {
		gpu_say("not ok|there is a device|%s", why);
		exit(1);
	}
	g->device = local ? atoi(local) % g->devices : 0;
	g->small = sanitize && sanitize[0];
	gpu_use(g->device);
	g->stream = gpu_stream();
	g->send = gpu_alloc(GPU_ARENA, 0);
	g->recv = gpu_alloc(GPU_ARENA, 0);
	g->host = malloc(GPU_ARENA);
	coll_config_init(&config, sizeof(config));
	config.device = g->device;
	config.timeout_ms = timeout_ms;
	config.init_timeout_ms = 40000;
	config.options = options;
	if (!g->send || !g->recv || !g->host)
		gpu_fail("no memory for buffers of %d bytes", GPU_ARENA);
	else if (gpu_did(coll_comm_init_env(&g->comm, &config), "coll_comm_init_env") &&
		 gpu_did(coll_comm_user_rank(g->comm, &g->rank), "rank") &&
		 gpu_did(coll_comm_count(g->comm, &g->nranks), "count") &&
		 gpu_did(coll_comm_backend(g->comm, &g->backend), "backend") &&
		 g->nranks > GPU_RANKS)
		gpu_fail("at most %d ranks", GPU_RANKS);
	gpu_report("a communicator");
	if (!g->comm || g->nranks > GPU_RANKS)
		exit(1);
	g->native = gpu_is_native(g->backend);
}

int main(int argc, char **argv)
{
	struct gpu g = {0};
	int timeout_ms = 0;

	if (argc < 2) {
		fprintf(stderr, "usage: gpu facts | THEME...\n");
		return 2;
	}
	if (!strcmp(argv[1], "facts"))
		return facts();
	for (int i = 1; i < argc; i++)
		timeout_ms = theme_named(argv[i])->timeout_ms;
	gpu_begin(&g, timeout_ms);
	for (int i = 1; i < argc; i++)
		theme_named(argv[i])->run(&g);
	gpu_did(coll_comm_destroy(g.comm), "coll_comm_destroy");
	gpu_report("the communicator's end");
	gpu_free(g.send);
	gpu_free(g.recv);
	free(g.host);
	gpu_must(cuda_driver.cuStreamDestroy(g.stream), "cuStreamDestroy");
	gpu_say("end");
	return 0;
}
