/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * choice_test.c - a backend of the highest priority that takes device memory only: which programs
 * get it by default, that probing it has no side effects, and the messages about it.
 *
 * Each case is a process of its own, because a process either uses CUDA for its whole life or does
 * not.
 */
#include "../lib/device_harness.h"
#include "../lib/plugin_dir.h"

#define IDLE                                                                                       \
	"it takes device memory only, and this process has neither initialised CUDA nor named a "  \
	"device: name the backend with COLL_BACKEND"

enum { PAIR = 2 };

static void in_child(void (*fn)(struct rank *r), const char *what)
{
	struct rank r = {.failure = ranks_memory(RANKS_TEXT)};
	int status = -1;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0) {
		fn(&r);
		exit(0);
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		bail_out("no child: %s", strerror(errno));
	ok(!status && !r.failure[0], "%s", what);
	if (status || r.failure[0])
		diag("status %#x, %s", (unsigned)status, r.failure);
	munmap(r.failure, RANKS_TEXT);
}

static int is_ready(void)
{
	void *context;

	return cuCtxGetCurrent(&context) != CUDA_ERROR_NOT_INITIALIZED;
}

static int backend_is(struct rank *r, coll_comm_t comm, const char *want, const char *what)
{
	const char *name = "none";

	return rank_did(r, coll_comm_backend(comm, &name), what) &&
	       (!strcmp(name, want) || rank_fail(r, "%s: %s, not %s", what, name, want));
}

/* Do all ranks of this process get that backend? */
static void gets(struct rank *r, const int32_t *devices, const char *want, const char *what)
{
	coll_comm_t comms[PAIR];

	if (!rank_did(r, coll_comm_init_all(comms, PAIR, devices, NULL), what))
		return;
	for (int i = 0; i < PAIR; i++) {
		backend_is(r, comms[i], want, what);
		rank_did(r, coll_comm_destroy(comms[i]), "destroy");
	}
}

static void context_push(struct rank *r)
{
	void *context;

	if (cuDevicePrimaryCtxRetain(&context, 0) || cuCtxPushCurrent_v2(context))
		rank_fail(r, "no context");
}

static int32_t exchange_alone(void *user, const void *in, void *out, size_t len, int64_t timeout_ms)
{
	(void)user;
	(void)timeout_ms;
	memcpy(out, in, len);
	return 0;
}

/* ------------------------------------------------------------- which programs get it -- */

static void nothing_said(struct rank *r)
{
	gets(r, NULL, "tcp", "without CUDA");
	if (is_ready())
		rank_fail(r, "CUDA was initialised");
}

static void excluded_others(struct rank *r)
{
	setenv("COLL_BACKEND", "^simulated", 1);
	nothing_said(r);
}

static void devices_said(struct rank *r)
{
	const int32_t current[PAIR] = {-1, -1}, own[PAIR] = {1, 0};

	gets(r, current, "tcp", "the current devices");
	gets(r, own, "gpu", "devices by number");
	gets(r, NULL, "tcp", "and then none");
}

static void device_said(struct rank *r)
{
	coll_config_t config;

	ranks_config(&config, NULL);
	config.device = 0;
	if (rank_did(r, coll_comm_init_exchange(&r->comm, 1, 0, exchange_alone, NULL, &config),
		     "one rank") &&
	    backend_is(r, r->comm, "gpu", "in its configuration"))
		rank_did(r, coll_comm_destroy(r->comm), "destroy");
}

static void cuda_used(struct rank *r)
{
	cuInit(0);
	gets(r, NULL, "gpu", "with CUDA");
	gets(r, NULL, "gpu", "and again");
}

/* A driver initialised by a probe does not mean that the application uses CUDA. */
static void named(struct rank *r)
{
	setenv("COLL_BACKEND", "gpu", 1);
	gets(r, NULL, "gpu", "by name");
	unsetenv("COLL_BACKEND");
	if (!is_ready())
		rank_fail(r, "it was not probed");
	gets(r, NULL, "tcp", "and then not");
	context_push(r);
	gets(r, NULL, "gpu", "with a context");
}

/* -------------------------------------------------------------------- messages -- */

static void asked(struct rank *r)
{
	rank_did(r, coll_backend_available("gpu", NULL, 0), "available");
	if (!is_ready())
		rank_fail(r, "it was not probed");
	gets(r, NULL, "tcp", "after a question");
}

static coll_backend_info_t find(struct rank *r, coll_info_t info, const char *name)
{
	coll_backend_info_t b = {.size = sizeof(b)};

	for (int i = 0; i < coll_info_backend_count(info); i++)
		if (!coll_info_backend(info, i, &b) && !strcmp(b.name, name))
			return b;
	rank_fail(r, "no backend '%s'", name);
	return (coll_backend_info_t){.choice = "", .reason = ""};
}

static void shown(struct rank *r)
{
	coll_backend_info_t b;
	coll_config_t config;
	coll_info_t info;

	if (!rank_did(r, coll_info_create(NULL, &info), "info"))
		return;
	b = find(r, info, "gpu");
	if (!b.usable || b.chosen || strcmp(b.choice, "passed over: " IDLE) != 0)
		rank_fail(r, "usable %d, chosen %d, '%s'", b.usable, b.chosen, b.choice);
	if (!find(r, info, "tcp").chosen)
		rank_fail(r, "tcp is not chosen");
	coll_info_destroy(info);
	ranks_config(&config, NULL);
	config.device = 1;
	if (!rank_did(r, coll_info_create(&config, &info), "info"))
		return;
	if (!find(r, info, "gpu").chosen)
		rank_fail(r, "with a device: '%s'", find(r, info, "gpu").choice);
	coll_info_destroy(info);
}

static void nothing_else(struct rank *r)
{
	coll_comm_t comm;
	int code;

	setenv("COLL_PLUGIN_PATH", at("alone"), 1);
	code = coll_comm_init_all(&comm, 1, NULL, NULL);
	if (code != COLL_ERR_NOT_FOUND ||
	    strcmp(coll_get_last_error(NULL), "no backend can be used: 'gpu': " IDLE) != 0)
		rank_fail(r, "%d (%s)", code, coll_get_last_error(NULL));
}

/* ------------------------------------------------------ ranks with different devices -- */

static void one_names_a_device(struct rank *r, struct ranks_shared *shared)
{
	const char *words = r->rank ? "coll_gpu.so' cannot be used: " IDLE
				    : "backend 'gpu' is passed over: rank 1: " IDLE;
	coll_config_t config;

	ranks_config(&config, NULL);
	config.device = r->rank ? -1 : 0;
	setenv("COLL_LOG", "info", 1);
	log_begin();
	if (ranks_init(r, shared, &config) && backend_is(r, r->comm, "tcp", "by both"))
		rank_did(r, coll_comm_destroy(r->comm), "destroy");
	log_end();
	if (!log_lines(words))
		rank_fail(r, "not logged: %s", words);
}

static void one_names_it(struct rank *r, struct ranks_shared *shared)
{
	coll_config_t config;

	ranks_config(&config, r->rank ? NULL : "gpu");
	if (ranks_init(r, shared, &config))
		rank_fail(r, "a communicator");
	else if (strcmp(coll_get_last_error(NULL), "rank 1 cannot use backend 'gpu': " IDLE) == 0)
		r->failure[0] = '\0';
}

static void in_pair(void (*fn)(struct rank *r, struct ranks_shared *shared), const char *what)
{
	struct ranks_shared *shared = ranks_memory(sizeof(*shared));
	pid_t pids[PAIR];
	int status, bad = 0;

	fflush(stdout);
	for (int i = 0; i < PAIR; i++) {
		struct rank r = {NULL, i, PAIR, NULL, shared->failure[i]};

		pids[i] = fork();
		if (pids[i] == 0) {
			fn(&r, shared);
			exit(0);
		}
	}
	for (int i = 0; i < PAIR; i++) {
		status = -1;
		bad += pids[i] < 0 || waitpid(pids[i], &status, 0) != pids[i] || status ||
		       shared->failure[i][0];
		diag("rank %d: status %#x %s", i, (unsigned)status, shared->failure[i]);
	}
	is_int(bad, 0, "%s", what);
	munmap(shared, sizeof(*shared));
}

int main(void)
{
	const char *top = getenv("top_builddir");
	char tcp[512];

	plugin_dir_begin();
	snprintf(tcp, sizeof(tcp), "%s/.libs/coll_tcp.so", top ? top : ".");
	make_dir("alone");
	place("coll_gpu.so", "coll_gpu.so");
	place("coll_gpu.so", "alone/coll_gpu.so");
	place_file(tcp, "coll_tcp.so");
	setenv("COLL_PLUGIN_PATH", at(""), 1);
	setenv("COLL_INIT_TIMEOUT", "60s", 1);
	in_child(nothing_said, "not for who does not use CUDA, and it is not probed");
	in_child(excluded_others, "nor by leaving others out");
	in_child(devices_said, "for who names devices to init_all");
	in_child(device_said, "and in the configuration");
	in_child(cuda_used, "for who has initialised CUDA");
	in_child(named, "and by name");
	in_child(asked, "it is available to all, and asking changes nothing");
	in_child(shown, "coll info says why it is passed over");
	in_child(nothing_else, "so does the error where there is no other");
	in_pair(one_names_a_device, "not unless all ranks use CUDA, and the log says so");
	in_pair(one_names_it, "named by another rank only: an error that says so");
	plugin_dir_end();
	return done_testing();
}
