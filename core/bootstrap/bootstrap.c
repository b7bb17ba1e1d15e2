/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bootstrap.c - the part common to all kinds of bootstrap: exchange, failures, facts about each rank, and which things
 * two ranks share: the process, the host, namespaces of the kernel.
 */
#include <coll/backend.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "base/siphash.h"
#include "bootstrap/bootstrap_kind.h"

/* ------------------------------------------------------------------ who we are -- */

/* Random once per process; a fork makes a new one. */
static pthread_mutex_t self_lock = PTHREAD_MUTEX_INITIALIZER;
static uint8_t self_process[16];
static pid_t self_pid;

static int bootstrap_process_id(uint8_t out[16])
{
	int code = 0;

	pthread_mutex_lock(&self_lock);
	if (self_pid != getpid()) {
		code = random_bytes(self_process, sizeof(self_process));
		if (code == 0)
			self_pid = getpid();
	}
	memcpy(out, self_process, sizeof(self_process));
	pthread_mutex_unlock(&self_lock);
	return code;
}

static void bootstrap_cpus(struct bootstrap_peer *peer)
{
	cpu_set_t cpus;

	if (sched_getaffinity(0, sizeof(cpus), &cpus))
		return;
	peer->cpus = (uint16_t)CPU_COUNT(&cpus);
	while (peer->first_cpu < CPU_SETSIZE && !CPU_ISSET(peer->first_cpu, &cpus))
		peer->first_cpu++;
}

#define SHARES_BOOT_ID "/proc/sys/kernel/random/boot_id"

enum { SHARES_UUID = 36, SHARES_LINK = 40 };

/* A thing of the host, and the namespace in which two processes must be to share it. */
static const struct shares_thing {
	uint8_t bit;
	const char *namespace;
} shares_things[BOOTSTRAP_THINGS] = {
	{COLL_SHARES_HOST, NULL},
	{COLL_SHARES_NETWORK, "/proc/self/ns/net"},
	{COLL_SHARES_PIDS, "/proc/self/ns/pid"},
	{COLL_SHARES_FILES, "/proc/self/ns/mnt"},
	{COLL_SHARES_IPC, "/proc/self/ns/ipc"},
};

/* What two processes have in common if they share a thing; no bytes are left uninitialised. */
struct shares_facts {
	char boot_id[SHARES_UUID]; /* of the running kernel */
	char link[SHARES_LINK];    /* the name of the namespace, such as "net:[4026531840]" */
	uint8_t process[16];       /* all 0, unless boot_id and link are unknown */
};

static int shares_read_boot_id(char boot_id[SHARES_UUID])
{
	int fd = descriptor_lift(open(SHARES_BOOT_ID, O_RDONLY | O_CLOEXEC)), whole;

	if (fd < 0)
		return 0;
	whole = read(fd, boot_id, SHARES_UUID) == SHARES_UUID;
	close(fd);
	return whole;
}

/* A process without readable facts shares the thing with no other process. */
static uint64_t shares_hash(const struct bootstrap_peer *peer, const char *boot_id,
			    const struct shares_thing *thing)
{
	static const uint8_t key[16] = "libcoll shares";
	struct shares_facts facts;
	uint8_t hash[16];
	uint64_t first;

	memset(&facts, 0, sizeof(facts));
	if (!boot_id ||
	    (thing->namespace && readlink(thing->namespace, facts.link, sizeof(facts.link)) <= 0)) {
		memset(&facts, 0, sizeof(facts));
		memcpy(facts.process, peer->process, sizeof(facts.process));
	} else {
		memcpy(facts.boot_id, boot_id, sizeof(facts.boot_id));
	}
	siphash128(key, &facts, sizeof(facts), hash);
	memcpy(&first, hash, sizeof(first));
	return first;
}

static void bootstrap_read_things(struct bootstrap_peer *peer)
{
	char boot_id[SHARES_UUID];
	int known = shares_read_boot_id(boot_id);

	for (int i = 0; i < BOOTSTRAP_THINGS; i++)
		peer->thing[i] = shares_hash(peer, known ? boot_id : NULL, &shares_things[i]);
}

int bootstrap_self(struct bootstrap_peer *peer)
{
	int code;

	memset(peer, 0, sizeof(*peer));
	if (gethostname(peer->host, sizeof(peer->host) - 1) < 0 || peer->host[0] == '\0')
		strcpy(peer->host, "unnamed host");
	peer->pid = (int32_t)getpid();
	bootstrap_cpus(peer);
	code = bootstrap_process_id(peer->process);
	if (code == 0)
		bootstrap_read_things(peer);
	return code;
}

uint8_t bootstrap_shares(const struct bootstrap *bootstrap, int a, int b)
{
	const struct bootstrap_peer *p = &bootstrap->peers[a], *q = &bootstrap->peers[b];
	uint8_t bits = memcmp(p->process, q->process, sizeof(p->process)) ? 0 : COLL_SHARES_PROCESS;

	for (int i = 0; i < BOOTSTRAP_THINGS; i++)
		bits |= p->thing[i] == q->thing[i] ? shares_things[i].bit : 0;
	return bits;
}

int bootstrap_all_share(const struct bootstrap *bootstrap, uint8_t things)
{
	int r = 0;

	while (r < bootstrap->nranks && (bootstrap_shares(bootstrap, 0, r) & things) == things)
		r++;
	return r == bootstrap->nranks;
}

/* A hash table of the lowest ranks, 1 plus each; at most half of the slots are in use. */
int bootstrap_hosts(const struct bootstrap *bootstrap, uint8_t things, int *lowest)
{
	int bits = 1;
	int *slot;

	while (bits < 31 && 1 << (bits - 1) < bootstrap->nranks)
		bits++;
	slot = calloc((size_t)1 << bits, sizeof(*slot));
	if (!slot)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for %d ranks", bootstrap->nranks);
	for (int r = 0; r < bootstrap->nranks; r++) {
		uint64_t hash = bootstrap->peers[r].thing[0] * 0x9e3779b97f4a7c15u;
		size_t at = (size_t)(hash >> (64 - bits));

		while (slot[at] &&
		       (bootstrap_shares(bootstrap, slot[at] - 1, r) & things) != things)
			at = (at + 1) & (((size_t)1 << bits) - 1);
		slot[at] = slot[at] ? slot[at] : r + 1;
		lowest[r] = slot[at] - 1;
	}
	free(slot);
	return COLL_SUCCESS;
}

/* ---------------------------------------------------------------------- errors -- */

static _Atomic int64_t bootstrap_stall_ms;

void bootstrap_set_stall(int64_t ms)
{
	atomic_store(&bootstrap_stall_ms, ms);
}

int64_t bootstrap_stall_time(void)
{
	const int64_t ms = atomic_load(&bootstrap_stall_ms);

	return ms > 0 ? clock_deadline(ms) : INT64_MAX;
}

const char *bootstrap_seconds(int64_t ms, char buf[24])
{
	snprintf(buf, 24, ms < 9950 ? "%.2g" : "%.0f", (double)ms / 1000);
	return buf;
}

int bootstrap_list_missing(char *buf, size_t size, const uint8_t *status, int nranks)
{
	size_t used = 0;
	int missing = 0;

	buf[0] = '\0';
	for (int r = 0; r < nranks; r++) {
		int last = r;

		if (status[r])
			continue;
		while (last + 1 < nranks && !status[last + 1])
			last++;
		missing += last - r + 1;
		if (used + 32 > size) {
			snprintf(buf + used, size - used, ", ...");
			return missing + 1;
		}
		used += (size_t)snprintf(buf + used, size - used, "%s%d", used ? ", " : "", r);
		if (last > r)
			used += (size_t)snprintf(buf + used, size - used, "-%d", last);
		r = last;
	}
	return missing;
}

int bootstrap_timeout_error(const uint8_t *status, int nranks, int64_t timeout_ms, const char *note)
{
	char list[256], seconds[24];
	int missing = bootstrap_list_missing(list, sizeof(list), status, nranks);

	return error_set(
		COLL_ERR_TIMEOUT, "timed out: %s %s of %d %s not been heard from after %s s%s%s",
		missing == 1 ? "rank" : "ranks", list, nranks, missing == 1 ? "has" : "have",
		bootstrap_seconds(timeout_ms, seconds), note[0] ? "; " : "", note);
}

/* ------------------------------------------------------------------- giving up -- */

void bootstrap_watch(struct bootstrap *bootstrap, const _Atomic int *aborted)
{
	bootstrap->aborted = aborted;
	bootstrap->watched = bootstrap->rank;
}

void bootstrap_guard(struct bootstrap *bootstrap, int (*check)(void *user), void *user)
{
	bootstrap->guard = check;
	bootstrap->guard_user = user;
}

int bootstrap_check_aborted(const struct bootstrap *bootstrap)
{
	if (!bootstrap->aborted || !atomic_load(bootstrap->aborted))
		return bootstrap->guard ? bootstrap->guard(bootstrap->guard_user) : 0;
	return error_set(COLL_ERR_ABORTED, "rank %d aborted the communicator", bootstrap->watched);
}

int64_t bootstrap_look(const struct bootstrap *bootstrap, int64_t deadline)
{
	int64_t look = clock_now_ms() + BOOTSTRAP_LOOK_MS;

	return (bootstrap->aborted || bootstrap->guard) && look < deadline ? look : deadline;
}

int bootstrap_remote_code(int code)
{
	return code == COLL_ERR_ABORTED ? COLL_ERR_REMOTE : code;
}

/* ------------------------------------------------------------------ the verbs -- */

int bootstrap_new(struct bootstrap **bootstrap, size_t size, const struct bootstrap_kind *kind,
		  int rank, int nranks)
{
	struct bootstrap *b;

	*bootstrap = NULL;
	if (nranks < 1)
		return error_set(COLL_ERR_INVALID_ARGUMENT, "nranks is %d, but must be at least 1",
				 nranks);
	if (rank < 0 || rank >= nranks)
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "rank is %d, but must be from 0 to nranks - 1 = %d", rank,
				 nranks - 1);
	b = calloc(1, size);
	if (b != NULL)
		b->peers = calloc((size_t)nranks, sizeof(*b->peers));
	if (b == NULL || b->peers == NULL) {
		free(b);
		return error_set(COLL_ERR_NO_MEMORY, "no memory for a table of %d ranks", nranks);
	}
	b->kind = kind;
	b->rank = rank;
	b->nranks = nranks;
	*bootstrap = b;
	return 0;
}

int bootstrap_meet(struct bootstrap *bootstrap, int64_t timeout_ms)
{
	struct bootstrap_peer self;
	int code = bootstrap_self(&self);

	if (code)
		return code;
	code = bootstrap_exchange(bootstrap, &self, bootstrap->peers, sizeof(self), timeout_ms);
	for (int r = 0; r < bootstrap->nranks; r++) /* other processes wrote these strings */
		bootstrap->peers[r].host[sizeof(self.host) - 1] = '\0';
	bootstrap->met = code == 0;
	return code;
}

int bootstrap_rank(const struct bootstrap *bootstrap)
{
	return bootstrap->rank;
}

int bootstrap_nranks(const struct bootstrap *bootstrap)
{
	return bootstrap->nranks;
}

const struct bootstrap_peer *bootstrap_peer(const struct bootstrap *bootstrap, int rank)
{
	return &bootstrap->peers[rank];
}

int bootstrap_in_process(const struct bootstrap *bootstrap)
{
	for (int r = 1; r < bootstrap->nranks; r++)
		if (memcmp(bootstrap->peers[r].process, bootstrap->peers[0].process,
			   sizeof(bootstrap->peers[0].process)) != 0)
			return 0;
	return 1;
}

void bootstrap_key(const struct bootstrap *bootstrap, uint8_t key[BOOTSTRAP_KEY_SIZE])
{
	memcpy(key, bootstrap->key, BOOTSTRAP_KEY_SIZE);
}

int bootstrap_key_is_secret(const struct bootstrap *bootstrap)
{
	return bootstrap->key_is_secret;
}

/* A rank may have failed because another rank did: ranks the codes by how likely they name the cause. */
static int bootstrap_weight(int code)
{
	switch (code) {
	case COLL_ERR_REMOTE: return 0;
	case COLL_ERR_PEER_LOST:
	case COLL_ERR_TIMEOUT: return 1;
	case BOOTSTRAP_REMOTE: return 2;
	default: return 3;
	}
}

static int bootstrap_public_code(int code)
{
	return code == BOOTSTRAP_REMOTE ? COLL_ERR_REMOTE : code;
}

int bootstrap_failed(const struct bootstrap_failure *failure)
{
	return error_set(bootstrap_public_code(failure->code), "%s", failure->text);
}

/* Does the code say that another rank is the cause? */
static int bootstrap_blames(int code)
{
	return bootstrap_weight(code) < bootstrap_weight(COLL_ERR_INTERNAL);
}

int bootstrap_failed_too(const struct bootstrap_failure *failure, int code)
{
	if (!failure->code || failure->code == COLL_ERR_REMOTE)
		return code;
	if (!bootstrap_blames(failure->code))
		return bootstrap_failed(failure);
	return error_set(bootstrap_public_code(failure->code), "%s; %s", failure->text,
			 error_text());
}

void bootstrap_merge_failure(struct bootstrap_failure *failure, int rank, int code,
			     const char *text)
{
	int weight = bootstrap_weight(code), known = bootstrap_weight(failure->code);

	if (failure->code && (weight == known ? rank >= failure->rank : weight < known))
		return;
	failure->code = code > 0 || code == BOOTSTRAP_REMOTE ? code : COLL_ERR_INTERNAL;
	failure->rank = rank;
	if (text[0] != '\0')
		snprintf(failure->text, sizeof(failure->text), "%s", text);
	else
		snprintf(failure->text, sizeof(failure->text), "rank %d failed: it sent no message",
			 rank);
}

int bootstrap_all_ok(struct bootstrap *bootstrap, int code, int64_t timeout_ms)
{
	return code ? bootstrap_exchange_fail(bootstrap, code, error_text(), timeout_ms)
		    : bootstrap_exchange(bootstrap, NULL, NULL, 0, timeout_ms);
}

int bootstrap_rank_failed(const struct bootstrap *bootstrap)
{
	return bootstrap->rank_failed;
}

int bootstrap_failure_waits(struct bootstrap *bootstrap)
{
	return bootstrap->kind->failure_waits && !bootstrap->failed &&
	       bootstrap->kind->failure_waits(bootstrap);
}

/* Calls the exchange of this bootstrap's kind and turns the failure of a rank into the result. */
static int bootstrap_exchange_kind(struct bootstrap *bootstrap, const void *in, void *out,
				   size_t len, struct bootstrap_failure *failure,
				   int64_t timeout_ms)
{
	int code = bootstrap->kind->exchange(bootstrap, in, out, len, failure, timeout_ms);

	if (code && bootstrap->kind->sticky) {
		bootstrap->failed = code;
		snprintf(bootstrap->failure, sizeof(bootstrap->failure), "%s", error_text());
	}
	bootstrap->rank_failed = !code && failure->code;
	return bootstrap->rank_failed ? bootstrap_failed(failure) : code;
}

int bootstrap_exchange(struct bootstrap *bootstrap, const void *in, void *out, size_t len,
		       int64_t timeout_ms)
{
	struct bootstrap_failure failure = {.code = COLL_SUCCESS};

	bootstrap->rank_failed = 0;
	if (bootstrap->failed)
		return error_set(bootstrap->failed, "%s", bootstrap->failure);
	if (len > SIZE_MAX / 2 / (size_t)bootstrap->nranks)
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "%zu bytes from each of %d ranks do not fit in memory", len,
				 bootstrap->nranks);
	if (bootstrap->nranks == 1) {
		if (len > 0)
			memmove(out, in, len);
		return 0;
	}
	return bootstrap_exchange_kind(bootstrap, in, out, len, &failure, timeout_ms);
}

int bootstrap_exchange_fail(struct bootstrap *bootstrap, int code, const char *text,
			    int64_t timeout_ms)
{
	struct bootstrap_failure failure = {.code = bootstrap_remote_code(code),
					    .rank = bootstrap->rank};
	char own[BOOTSTRAP_TEXT_SIZE]; /* text may be error_text(), which the exchange changes */
	int told;

	snprintf(own, sizeof(own), "%s", text);
	snprintf(failure.text, sizeof(failure.text), "rank %d: %.*s", bootstrap->rank,
		 BOOTSTRAP_TEXT_SIZE - 32, own);
	bootstrap->rank_failed = bootstrap->nranks == 1;
	if (bootstrap->nranks == 1 || bootstrap->failed)
		return error_set(bootstrap_public_code(code), "%s", own);
	told = bootstrap_exchange_kind(bootstrap, NULL, NULL, 0, &failure, timeout_ms);
	if (code == COLL_ERR_ABORTED) /* only on this rank */
		return error_set(code, "%s", own);
	/* This rank only knows that another rank has failed; the exchange may name that rank. */
	if (bootstrap->rank_failed || (told && code == COLL_ERR_REMOTE) || told == code)
		return told;
	if (told && bootstrap_blames(code))
		return error_set(bootstrap_public_code(code), "%s; %s", own, error_text());
	return error_set(code, "%s", own);
}

void bootstrap_close(struct bootstrap *bootstrap)
{
	if (bootstrap == NULL)
		return;
	bootstrap->kind->close(bootstrap);
	free(bootstrap->peers);
	free(bootstrap);
}
