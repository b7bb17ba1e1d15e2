/* SPDX-License-Identifier: BSD-3-Clause */
/* harness.c - finds the stand-ins, makes ranks on devices of their own, and values and gates there. */
#include "harness.h"
#include "../lib/crash.h"

#include <dlfcn.h>

/* An NCCL that is installed would take their place. */
static void bail_without_stand_ins(const char *folders)
{
	char file[4096];

	snprintf(file, sizeof(file), "%.*s/libnccl.so.2", (int)strcspn(folders, ":"), folders);
	if (access(file, R_OK))
		bail_out("there is no %s: 'make check TESTS=' builds it", file);
}

void nccl_find_stand_ins(char **argv, const char *folders)
{
	const char *top = getenv("top_builddir"), *rest = folders;
	char path[4096] = "";
	size_t at = 0;

	if (getenv("NCCL_STAND_INS"))
		return;
	for (size_t n; *rest && at < sizeof(path); rest += n + (rest[n] == ':')) {
		n = strcspn(rest, ":");
		at += (size_t)snprintf(path + at, sizeof(path) - at, "%s%s/tests/fakes/%.*s",
				       at ? ":" : "", top ? top : ".", (int)n, rest);
	}
	bail_without_stand_ins(path);
	setenv("NCCL_STAND_INS", path, 1);
	setenv("LD_LIBRARY_PATH", path, 1);
	setenv("STANDIN_CUDA_DEVICES", "4", 0);
	execv("/proc/self/exe", argv);
	bail_out("cannot begin again: %s", strerror(errno));
}

void nccl_begin(char **argv, const char *folders)
{
	nccl_find_stand_ins(argv, folders);
	ranks_plugins(".libs", NULL);
	setenv("COLL_TIMEOUT", "60s", 0);
	setenv("COLL_INIT_TIMEOUT", "60s", 0);
}

void nccl_hold_devices(void)
{
	void *context;

	if (cuInit(0))
		bail_out("no stand-in for the driver");
	for (int device = 0; device < NCCL_DEVICES; device++)
		if (cuDevicePrimaryCtxRetain(&context, device))
			bail_out("no context of device %d", device);
}

void nccl_drop_devices(void)
{
	for (int device = 0; device < NCCL_DEVICES; device++)
		if (cuDevicePrimaryCtxRelease_v2(device))
			bail_out("device %d was not held any more", device);
}

void nccl_config(coll_config_t *config, int rank)
{
	ranks_config(config, "nccl");
	config->device = rank % NCCL_DEVICES;
}

/* The application's allgather. */
static int32_t nccl_exchange(void *user, const void *in, void *out, size_t len, int64_t timeout_ms)
{
	struct nccl_member *member = user;
	struct nccl_rendezvous *m = member->rendezvous;
	char(*slots)[NCCL_SLOT] = m->slots[member->round % 2];
	double deadline = ranks_now() + (double)timeout_ms / 1e3;
	int want = ++member->round * member->nranks;

	if (len > NCCL_SLOT)
		return 1;
	memcpy(slots[member->rank], in, len);
	atomic_fetch_add(&m->arrived, 1);
	while (atomic_load(&m->arrived) < want) {
		if (ranks_now() > deadline)
			return 1;
		ranks_sleep(0.0005);
	}
	for (int r = 0; r < member->nranks; r++)
		memcpy((char *)out + (size_t)r * len, slots[r], len);
	return 0;
}

static int nccl_init_comm(struct rank *r, int init, struct nccl_member *member)
{
	coll_config_t config;

	nccl_config(&config, r->rank);
	if (init == INIT_ID)
		return ranks_init(r, &member->rendezvous->shared, &config);
	return rank_did(r,
			coll_comm_init_exchange(&r->comm, r->nranks, r->rank, nccl_exchange, member,
						&config),
			"init_exchange");
}

/* ------------------------------------------------------------------- ranks -- */

struct nccl_member *nccl_member(struct rank *r)
{
	return &((struct nccl_rank *)(void *)((char *)r - offsetof(struct nccl_rank, rank)))
			->member;
}

int nccl_init(struct rank *r, coll_comm_t *comm, const coll_config_t *config)
{
	coll_config_t own;

	nccl_config(&own, r->rank);
	return coll_comm_init_exchange(comm, r->nranks, r->rank, nccl_exchange, nccl_member(r),
				       config ? config : &own);
}

void nccl_one(struct nccl_rank *one)
{
	struct rank *r = &one->rank;

	if (!r->comm && one->job->init != INIT_NONE &&
	    !nccl_init_comm(r, one->job->init, &one->member))
		return;
	one->job->fn(r);
	if (r->comm)
		rank_did(r, coll_comm_destroy(r->comm), "destroy");
}

static void *nccl_thread(void *arg)
{
	nccl_one(arg);
	return NULL;
}

static void nccl_run_threads(const struct nccl_job *job, struct nccl_rank *all)
{
	coll_comm_t comms[RANKS_MAX] = {NULL};
	coll_config_t config;

	ranks_config(&config, "nccl");
	if (job->init == INIT_ALL && coll_comm_init_all(comms, job->nranks, NULL, &config)) {
		rank_fail(&all[0].rank, "init_all: %s", coll_get_last_error(NULL));
		return;
	}
	for (int r = 0; r < job->nranks; r++) {
		all[r].rank.comm = comms[r];
		if (pthread_create(&all[r].id, NULL, nccl_thread, &all[r]))
			bail_out("cannot start a thread");
	}
	for (int r = 0; r < job->nranks; r++)
		pthread_join(all[r].id, NULL);
}

/* This process must not have used CUDA before, or its children could not use it. */
static void nccl_run_processes(const struct nccl_job *job, struct nccl_rank *all)
{
	double deadline = ranks_now() + 300;
	pid_t pids[RANKS_MAX];

	fflush(stdout);
	for (int r = 0; r < job->nranks; r++) {
		pids[r] = fork();
		if (pids[r] < 0)
			bail_out("cannot fork: %s", strerror(errno));
		if (pids[r] > 0)
			continue;
		crash_watch();
		nccl_hold_devices();
		nccl_one(&all[r]);
		exit(0);
	}
	for (int r = 0; r < job->nranks; r++)
		ranks_reap_rank(pids[r], deadline, all[r].rank.failure);
}

static const char *nccl_init_name(int init)
{
	static const char *const names[] = {"init_all", "init_rank", "init_exchange", "no init"};

	return names[init];
}

int nccl_ok(const struct nccl_job *job, const char *fmt, ...)
{
	struct nccl_rendezvous *rendezvous = ranks_memory(sizeof(*rendezvous));
	struct nccl_rank all[RANKS_MAX];
	char name[256];
	va_list args;
	int bad = 0;

	va_start(args, fmt);
	vsnprintf(name, sizeof(name), fmt, args);
	va_end(args);
	for (int r = 0; r < job->nranks; r++)
		all[r] = (struct nccl_rank){
			.job = job,
			.member = {rendezvous, r, job->nranks, 0},
			.rank = {NULL, r, job->nranks, job->user, rendezvous->shared.failure[r]}};
	if (job->processes)
		nccl_run_processes(job, all);
	else
		nccl_run_threads(job, all);
	for (int r = 0; r < job->nranks; r++)
		bad += all[r].rank.failure[0] != '\0';
	ok(!bad, "%s (%d %s, %s)", name, job->nranks, job->processes ? "processes" : "threads",
	   nccl_init_name(job->init));
	for (int r = 0; r < job->nranks; r++)
		if (all[r].rank.failure[0])
			diag("rank %d: %s", r, all[r].rank.failure);
	munmap(rendezvous, sizeof(*rendezvous));
	return !bad;
}

int64_t *nccl_new(int device, const int64_t *values, int n)
{
	int64_t *there = device_new(device, (size_t)n * sizeof(*values), 0);

	device_move(device, there, values, (size_t)n * sizeof(*values));
	return there;
}

int64_t nccl_value(int device, const int64_t *there)
{
	int64_t x = -1;

	device_move(device, &x, there, sizeof(x));
	return x;
}

int nccl_sums(struct rank *r, coll_comm_t comm, int device, int64_t x, int64_t want,
	      const char *what)
{
	int64_t *there = nccl_new(device, &x, 1), y;
	int good = rank_did(r, coll_allreduce(there, there, 1, COLL_INT64, COLL_SUM, comm, NULL),
			    what) &&
		   rank_did(r, coll_sync(comm), what);

	y = nccl_value(device, there);
	device_free(device, there);
	return good && (y == want || rank_fail(r, "%s: the sum is %lld, not %lld", what,
					       (long long)y, (long long)want));
}

int nccl_works(struct rank *r)
{
	return is_rank(r, r->comm, r->rank, r->nranks) &&
	       nccl_sums(r, r->comm, r->rank, r->rank + 1, r->nranks * (r->nranks + 1) / 2,
			 "allreduce");
}

int nccl_fails(struct rank *r, coll_result_t code, coll_result_t want, const char *words,
	       const char *what)
{
	const char *text = coll_get_last_error(NULL);

	return (code == want && strstr(text, words)) ||
	       rank_fail(r, "%s: %d, not %d with (%s): %s", what, code, want, words, text);
}

static void nccl_gate_wait(void *arg)
{
	struct nccl_gate *gate = arg;

	atomic_store(&gate->reached, 1);
	for (double deadline = ranks_now() + 300; !atomic_load(&gate->open);) {
		if (ranks_now() > deadline)
			bail_out("nobody has opened the gate");
		ranks_sleep(0.0005);
	}
}

void nccl_gate(struct nccl_gate *gate, int device, void *stream)
{
	context_begin(device);
	if (cuLaunchHostFunc(stream, nccl_gate_wait, gate))
		bail_out("no work on the stream");
	context_end(device);
}

void nccl_open(struct nccl_gate *gate)
{
	atomic_store(&gate->open, 1);
}

void *nccl_stream(int device)
{
	void *stream = NULL;

	context_begin(device);
	if (cuStreamCreate(&stream, 1))
		bail_out("no stream");
	context_end(device);
	return stream;
}

int nccl_stream_do(int device, void *stream, int (*call)(void *stream))
{
	int result;

	context_begin(device);
	result = call(stream);
	context_end(device);
	return result;
}

void *nccl_symbol(const char *name)
{
	void *library = dlopen("libnccl.so.2", RTLD_NOW | RTLD_NOLOAD), *symbol;

	symbol = library ? dlsym(library, name) : NULL;
	if (!symbol)
		bail_out("no %s: %s", name, dlerror());
	dlclose(library);
	return symbol;
}

long nccl_calls(const char *function)
{
	void *symbol = nccl_symbol("standin_nccl_calls");
	long (*calls)(const char *);

	memcpy(&calls, &symbol, sizeof(symbol));
	return calls(function);
}

int nccl_comms(void)
{
	void *symbol = nccl_symbol("standin_nccl_comms");
	int (*comms)(void);

	memcpy(&comms, &symbol, sizeof(symbol));
	return comms();
}

int nccl_comms_left(void)
{
	for (double end = ranks_now() + NCCL_ENDS_S; nccl_comms() && ranks_now() < end;)
		ranks_sleep(0.001);
	return nccl_comms();
}
