/* SPDX-License-Identifier: BSD-3-Clause */
/* transport_harness.c - the host of a plugin under test: its table, its messages, its ranks. */
#include "transport_harness.h"

int64_t harness_now_ms(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

void harness_await_end(const struct harness *h, uint32_t rank)
{
	const int64_t end = harness_now_ms() + HARNESS_WAIT_MS;
	int ended = 0;

	while (!ended && harness_now_ms() < end) {
		char path[64], line[256] = "";
		FILE *stat;

		snprintf(path, sizeof(path), "/proc/%d/stat", h->job->shared->pid[rank]);
		stat = fopen(path, "r");
		ended = !stat || !fgets(line, sizeof(line), stat) || strstr(line, ") Z ");
		if (stat)
			fclose(stat);
		usleep(1000);
	}
}

int harness_fail(struct harness *h, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(h->job->shared->text[h->host.rank], sizeof(h->job->shared->text[0]), fmt, args);
	va_end(args);
	return 1;
}

/* ---------------------------------------------------------------- host table -- */

static void harness_log(const coll_host_t *host, int32_t level, const char *text)
{
	if (getenv("HARNESS_LOG"))
		fprintf(stderr, "# rank %u level %d: %s\n", host->rank, level, text);
}

static const char *harness_option_string(const coll_host_t *host, const char *key)
{
	const struct harness *h = host->core;
	const coll_backend_t *backend = h->job->backend;
	int here = !h->job->options_of || h->job->options_of == host->rank;

	for (int i = 0; here && h->job->options && h->job->options[i]; i += 2)
		if (!strcmp(h->job->options[i], key))
			return h->job->options[i + 1];
	for (uint32_t i = 0; i < backend->option_count; i++)
		if (!strcmp(backend->options[i].key, key))
			return backend->options[i].fallback;
	return NULL;
}

static int64_t harness_option_int(const coll_host_t *host, const char *key)
{
	const char *text = harness_option_string(host, key);
	char *end = NULL;
	int64_t number = text ? strtoll(text, &end, 10) : 0;

	if (text && !strcmp(text, "yes"))
		return 1;
	return number * (end && *end == 'K' ? 1 << 10 : end && *end == 'M' ? 1 << 20 : 1);
}

static int32_t harness_exchange(const coll_host_t *host, const void *in, void *out, uint64_t len,
				int64_t timeout_ms, coll_error_t *err)
{
	struct harness *h = host->core;
	struct harness_shared *shared = h->job->shared;
	uint32_t step = h->exchanges++;
	int64_t deadline = harness_now_ms() + timeout_ms;

	if (len > HARNESS_RECORD || step >= HARNESS_EXCHANGES)
		abort();
	if (len)
		memcpy(shared->area[step][host->rank], in, len);
	atomic_fetch_add(&shared->arrived[step], 1);
	while (atomic_load(&shared->arrived[step]) < host->nranks) {
		if (harness_now_ms() > deadline) {
			snprintf(err->text, sizeof(err->text), "exchange timed out");
			return COLL_ERR_TIMEOUT;
		}
		usleep(200);
	}
	if (atomic_load(&shared->gave_up[step])) {
		snprintf(err->text, sizeof(err->text), "%s", shared->gave_up_text[step]);
		err->code = shared->gave_up_code[step];
		return err->code;
	}
	for (uint32_t i = 0; len && i < host->nranks; i++)
		memcpy((uint8_t *)out + i * len, shared->area[step][i], len);
	return h->job->exchanged && len ? h->job->exchanged(h) : 0;
}

static int32_t harness_exchange_fail(const coll_host_t *host, int32_t code, const char *text,
				     int64_t timeout_ms)
{
	struct harness *h = host->core;
	struct harness_shared *shared = h->job->shared;
	coll_error_t err = {.size = sizeof(err)};

	if (!atomic_exchange(&shared->gave_up[h->exchanges], 1)) {
		shared->gave_up_code[h->exchanges] = code;
		snprintf(shared->gave_up_text[h->exchanges], sizeof(shared->gave_up_text[0]),
			 "rank %u: %s", host->rank, text);
	}
	harness_exchange(host, NULL, NULL, 0, timeout_ms, &err);
	return code;
}

int harness_barrier(struct harness *h)
{
	coll_error_t err;

	return harness_exchange(&h->host, NULL, NULL, 0, HARNESS_WAIT_MS, &err);
}

/* Computes a keyed hash like the core's, strong enough for a test. */
static void harness_mac(const coll_host_t *host, const void *data, uint64_t len, uint8_t out[16])
{
	const uint8_t *bytes = data;

	for (uint64_t byte = 0; byte < 16; byte++) {
		uint64_t hash = 0xcbf29ce484222325u + byte;

		for (uint64_t i = 0; i < 16 + len; i++) {
			hash ^= i < 16 ? host->key[i] : bytes[i - 16];
			hash *= 0x100000001b3u;
		}
		out[byte] = (uint8_t)(hash >> 32);
	}
}

static int32_t harness_aborted(const coll_host_t *host)
{
	const struct harness *h = host->core;

	return h->aborting;
}

static void *harness_alloc(const coll_host_t *host, uint64_t bytes)
{
	(void)host;
	return aligned_alloc(64, (bytes + 63) / 64 * 64);
}

static void harness_free(const coll_host_t *host, void *ptr, uint64_t bytes)
{
	(void)host;
	(void)bytes;
	free(ptr);
}

static int32_t harness_posted(const coll_host_t *host, uint32_t peer, const coll_header_t *header)
{
	const struct harness *h = host->core;
	const struct harness_recv *r = h->recvs;

	while (r && (r->peer != peer || r->tag != header->tag))
		r = r->next;
	return r != NULL;
}

static int32_t harness_arrive(const coll_host_t *host, uint32_t peer, const coll_header_t *header,
			      coll_sink_t *sink)
{
	struct harness *h = host->core;
	struct harness_arrival *a;
	struct harness_recv **at = &h->recvs;

	if (header->meta[0] != ~header->tag || header->meta[1] != header->len * 3)
		return COLL_ERR_INTERNAL;
	if (h->refuse_peer && peer == h->refuse_peer)
		return COLL_ERR_INTERNAL;
	a = calloc(1, sizeof(*a));
	a->peer = peer;
	a->tag = header->tag;
	a->len = header->len;
	a->status = COLL_IN_PROGRESS;
	while (*at && ((*at)->peer != peer || (*at)->tag != header->tag))
		at = &(*at)->next;
	if (*at) {
		a->recv = *at;
		*at = a->recv->next;
		a->recv->len = header->len;
		a->buf = a->recv->buf;
		a->next = h->flowing;
		h->flowing = a;
		if (header->len > a->recv->size)
			abort();
	} else {
		a->buf = malloc(header->len ? header->len : 1);
		a->next = h->early;
		h->early = a;
	}
	sink->cookie = (uintptr_t)a;
	sink->memory = COLL_MEM_HOST;
	sink->buf = a->recv && a->recv->add ? NULL : a->buf;
	return 0;
}

static void harness_data(const coll_host_t *host, uint64_t cookie, const void *bytes, uint64_t n)
{
	struct harness_arrival *a = (void *)(uintptr_t)cookie;
	const uint8_t *from = bytes;

	(void)host;
	if (a->got + n > a->len)
		abort();
	for (uint64_t i = 0; a->buf && i < n; i++)
		a->buf[a->got + i] = (uint8_t)(a->buf[a->got + i] + from[i]);
	a->got += n;
}

static void harness_arrived(const coll_host_t *host, uint64_t cookie, int32_t status)
{
	struct harness *h = host->core;
	struct harness_arrival *a = (void *)(uintptr_t)cookie, **at = &h->flowing;

	a->status = status;
	if (!a->recv)
		return;
	a->recv->status = status;
	while (*at != a)
		at = &(*at)->next;
	*at = a->next;
	free(a);
}

static int32_t harness_message(const coll_host_t *host, uint32_t peer, const coll_header_t *header,
			       const void *bytes)
{
	coll_sink_t sink = {0};
	int32_t code = harness_arrive(host, peer, header, &sink);

	if (code)
		return code;
	if (sink.buf && header->len)
		memcpy(sink.buf, bytes, header->len);
	else if (header->len)
		harness_data(host, sink.cookie, bytes, header->len);
	harness_arrived(host, sink.cookie, COLL_SUCCESS);
	return 0;
}

static void harness_peer_lost(const coll_host_t *host, uint32_t peer, const char *text)
{
	struct harness *h = host->core;

	if (h->lost[peer]++)
		abort();
	snprintf(h->lost_text[peer], sizeof(h->lost_text[peer]), "%s", text);
}

/* ------------------------------------------------------------------ messages -- */

int32_t harness_send(struct harness *h, coll_send_t *send, uint32_t peer, uint64_t tag,
		     const void *buf, uint64_t len)
{
	coll_error_t err = {.size = sizeof(err)};

	memset(send, 0, sizeof(*send));
	send->header.tag = tag;
	send->header.meta[0] = ~tag;
	send->header.meta[1] = len * 3;
	send->header.len = len;
	send->buf = len ? buf : NULL;
	send->peer = peer;
	send->memory = COLL_MEM_HOST;
	send->status = COLL_IN_PROGRESS;
	return h->transport->send(h->ep, send, &err);
}

static void harness_recv_take(struct harness_recv *r, const struct harness_arrival *a)
{
	r->len = a->len;
	r->status = a->status;
	for (uint64_t i = 0; r->add && r->buf && i < a->len; i++)
		r->buf[i] = (uint8_t)(r->buf[i] + a->buf[i]);
	if (!r->add && a->len)
		memcpy(r->buf, a->buf, a->len);
}

void harness_recv(struct harness *h, struct harness_recv *r)
{
	struct harness_arrival **at = &h->early, *a;
	int64_t deadline = harness_now_ms() + HARNESS_WAIT_MS;

	r->status = COLL_IN_PROGRESS;
	while (*at && ((*at)->peer != r->peer || (*at)->tag != r->tag))
		at = &(*at)->next;
	a = *at;
	if (!a) {
		r->next = h->recvs;
		h->recvs = r;
		return;
	}
	/* The first bytes are here: handles the remaining bytes in the same way. */
	while (a->status == COLL_IN_PROGRESS && harness_now_ms() < deadline)
		h->transport->progress(h->ep);
	for (at = &h->early; *at != a;)
		at = &(*at)->next;
	*at = a->next;
	harness_recv_take(r, a);
	free(a->buf);
	free(a);
}

int32_t harness_wait(struct harness *h, const int32_t *status)
{
	int64_t deadline = harness_now_ms() + HARNESS_WAIT_MS;
	int idle = 0;

	while (*status == COLL_IN_PROGRESS) {
		struct pollfd fd = {.events = POLLIN};

		if (h->transport->progress(h->ep)) {
			idle = 0;
			continue;
		}
		if (++idle < 100) {
			if (idle > 20)
				sched_yield();
			continue;
		}
		if (harness_now_ms() > deadline)
			return COLL_ERR_TIMEOUT;
		if (!h->transport->wait_fd || h->transport->arm(h->ep))
			continue;
		fd.fd = h->transport->wait_fd(h->ep);
		poll(&fd, 1, 20000);
	}
	return *status;
}

/* ---------------------------------------------------------------------- runs -- */

/* Returns the shares: all ranks are on one host, except for the rank that is apart. */
static uint8_t harness_shares(const struct harness_job *job, uint32_t a, uint32_t b)
{
	uint8_t host = COLL_SHARES_HOST | COLL_SHARES_NETWORK | COLL_SHARES_PIDS |
		       COLL_SHARES_FILES | COLL_SHARES_IPC |
		       (job->turns ? COLL_SHARES_PROCESSORS : 0);

	if (a == b)
		return host | COLL_SHARES_PROCESS;
	if (job->apart && (a == job->apart || b == job->apart))
		return 0;
	return host | (job->threads ? COLL_SHARES_PROCESS : 0);
}

void harness_host_init(struct harness *h, const struct harness_job *job, uint32_t rank)
{
	memset(h, 0, sizeof(*h));
	h->job = job;
	h->transport = job->backend->transport;
	h->host = (coll_host_t){.size = sizeof(h->host),
				.abi_minor = COLL_BACKEND_ABI_MINOR,
				.rank = rank,
				.nranks = job->nranks,
				.device = -1,
				.timeout_ms = job->timeout_ms ? job->timeout_ms : 60000,
				.key = "a test's secret",
				.core = h,
				.log = harness_log,
				.option_string = harness_option_string,
				.option_int = harness_option_int,
				.exchange = harness_exchange,
				.mac = harness_mac,
				.aborted = harness_aborted,
				.alloc = harness_alloc,
				.free = harness_free,
				.arrive = harness_arrive,
				.data = harness_data,
				.arrived = harness_arrived,
				.peer_lost = harness_peer_lost,
				.exchange_fail = harness_exchange_fail,
				.key_is_secret = 1,
				.shares = h->shares,
				.posted = harness_posted,
				.message = harness_message};
	if (job->old_core)
		h->host.size = offsetof(coll_host_t, shares);
	for (uint32_t r = 0; r < job->nranks; r++)
		h->shares[r] = harness_shares(job, rank, r);
}

void harness_host_free(struct harness *h)
{
	struct harness_arrival *a, *next;

	for (a = h->early; a; a = next) {
		next = a->next;
		free(a->buf);
		free(a);
	}
	for (a = h->flowing; a; a = next) {
		next = a->next;
		free(a);
	}
}

/* Runs one rank from open to close. */
static int harness_rank(const struct harness_job *job, uint32_t rank)
{
	struct harness *h = malloc(sizeof(*h));
	int result;

	harness_host_init(h, job, rank);
	h->open_error.size = sizeof(h->open_error);
	h->open_code = job->backend->open(&h->host, &h->ep, &h->open_error);
	atomic_store(&job->shared->open[rank], 1);
	if (h->open_code && !job->open_may_fail)
		result = harness_fail(h, "open: %d %s", h->open_code, h->open_error.text);
	else
		result = job->run(h);
	if (h->ep)
		job->backend->close(h->ep, 5000);
	harness_host_free(h);
	free(h);
	job->shared->result[rank] = result;
	return result;
}

struct harness_thread {
	const struct harness_job *job;
	uint32_t rank;
	pthread_t id;
};

static void *harness_thread(void *arg)
{
	struct harness_thread *thread = arg;

	harness_rank(thread->job, thread->rank);
	return NULL;
}

static void harness_run_threads(struct harness_job *job)
{
	struct harness_thread thread[HARNESS_RANKS];

	for (uint32_t i = 0; i < job->nranks; i++) {
		thread[i] = (struct harness_thread){.job = job, .rank = i};
		if (pthread_create(&thread[i].id, NULL, harness_thread, &thread[i]))
			abort();
	}
	for (uint32_t i = 0; i < job->nranks; i++)
		pthread_join(thread[i].id, NULL);
}

static void harness_run_processes(struct harness_job *job)
{
	pid_t pid[HARNESS_RANKS];

	fflush(NULL);
	for (uint32_t i = 0; i < job->nranks; i++) {
		pid[i] = fork();
		if (pid[i] < 0)
			abort();
		if (!pid[i]) {
			job->shared->pid[i] = getpid();
			/*
			 * Calls exit and not _exit, because leak checkers report in exit handlers.
			 */
			exit(harness_rank(job, i) != 0);
		}
	}
	for (uint32_t i = 0; i < job->nranks; i++) {
		int status = 0;

		while (waitpid(pid[i], &status, 0) < 0 && errno == EINTR)
			;
		if (WIFSIGNALED(status))
			job->shared->result[i] = -WTERMSIG(status);
		else if (WEXITSTATUS(status) && !job->shared->result[i])
			job->shared->result[i] = WEXITSTATUS(status);
	}
}

int harness_run(struct harness_job *job)
{
	int failed = 0;

	job->shared = mmap(NULL, sizeof(*job->shared), PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (job->shared == MAP_FAILED)
		abort();
	if (job->threads)
		harness_run_threads(job);
	else
		harness_run_processes(job);
	for (uint32_t i = 0; i < job->nranks; i++)
		failed += job->shared->result[i] != 0;
	return failed;
}

void harness_job_free(struct harness_job *job)
{
	munmap(job->shared, sizeof(*job->shared));
	job->shared = NULL;
}

void harness_check(struct harness_job *job, const char *name)
{
	int failed = harness_run(job);

	ok(!failed, "%s, %u %s", name, job->nranks, job->threads ? "threads" : "processes");
	for (uint32_t i = 0; i < job->nranks; i++)
		if (job->shared->result[i])
			diag("rank %u: %d %s", i, job->shared->result[i], job->shared->text[i]);
	harness_job_free(job);
}

const coll_backend_t *harness_load(const char *name)
{
	const char *top = getenv("top_builddir"), *file = getenv("HARNESS_PLUGIN");
	char path[4096];
	void *plugin;

	snprintf(path, sizeof(path), "%s/.libs/coll_%s.so", top ? top : ".", name);
	plugin = dlopen(file ? file : path, RTLD_NOW | RTLD_LOCAL);
	if (!plugin) {
		fprintf(stderr, "# %s\n", dlerror());
		return NULL;
	}
	return dlsym(plugin, COLL_BACKEND_SYMBOL);
}
