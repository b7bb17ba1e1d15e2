/* SPDX-License-Identifier: BSD-3-Clause */
/* bootstrap.c - what is common to all ways to meet: exchange, exchange of text, who is who. */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>
#include "bootstrap/bootstrap_impl.h"
#include "base/error.h"

/*
 * Bytes of one rank's text at most.  Every rank receives all texts, padded to the longest, so this
 * number is also the memory per rank that one wrong length can cost every rank.  The longest texts,
 * those of select_offer.c, have one line per plugin: room for 170 plugins with the longest lines.
 */
enum { BOOT_TEXT_LONGEST = 256 << 10 };

int64_t boot_now(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

int64_t boot_deadline(int64_t timeout_ms)
{
	/* A year is as good as for ever, and keeps sums from overflowing. */
	const int64_t longest = INT64_C(365) * 24 * 3600 * 1000;

	if (timeout_ms < 0)
		timeout_ms = 0;
	return boot_now() + (timeout_ms < longest ? timeout_ms : longest);
}

int64_t boot_remaining(int64_t deadline)
{
	int64_t now = boot_now();

	return deadline > now ? deadline - now : 0;
}

int boot_random(void *out, size_t len)
{
	uint8_t *p = out;

	while (len > 0) {
		ssize_t n = getrandom(p, len, 0);

		if (n < 0 && errno != EINTR)
			return error_set(COLL_ERR_SYSTEM, "cannot get random bytes: %s",
					 strerror(errno));
		if (n > 0) {
			p += n;
			len -= (size_t)n;
		}
	}
	return 0;
}

/* ------------------------------------------------------------------ who we are -- */

/* Random once per process; a fork makes a new one. */
static pthread_mutex_t self_lock = PTHREAD_MUTEX_INITIALIZER;
static uint8_t self_process[16];
static pid_t self_pid;

static int boot_process_id(uint8_t out[16])
{
	int code = 0;

	pthread_mutex_lock(&self_lock);
	if (self_pid != getpid()) {
		code = boot_random(self_process, sizeof(self_process));
		if (code == 0)
			self_pid = getpid();
	}
	memcpy(out, self_process, sizeof(self_process));
	pthread_mutex_unlock(&self_lock);
	return code;
}

static void boot_cpus(struct boot_peer *peer)
{
	cpu_set_t cpus;

	if (sched_getaffinity(0, sizeof(cpus), &cpus))
		return;
	peer->cpus = (uint16_t)CPU_COUNT(&cpus);
	while (peer->first_cpu < CPU_SETSIZE && !CPU_ISSET(peer->first_cpu, &cpus))
		peer->first_cpu++;
}

int boot_self(struct boot_peer *peer)
{
	memset(peer, 0, sizeof(*peer));
	if (gethostname(peer->host, sizeof(peer->host) - 1) < 0 || peer->host[0] == '\0')
		strcpy(peer->host, "unnamed host");
	peer->pid = (int32_t)getpid();
	boot_cpus(peer);
	return boot_process_id(peer->process);
}

/* ---------------------------------------------------------------------- errors -- */

const char *boot_seconds(int64_t ms, char buf[24])
{
	snprintf(buf, 24, ms < 9950 ? "%.2g" : "%.0f", (double)ms / 1000);
	return buf;
}

/* "2, 5-7" for the ranks whose heard[] is 0; ends in "..." if there is no more room. */
static int boot_list_missing(char *buf, size_t size, const uint8_t *heard, int nranks)
{
	size_t used = 0;
	int missing = 0;

	buf[0] = '\0';
	for (int r = 0; r < nranks; r++) {
		int last = r;

		if (heard[r])
			continue;
		while (last + 1 < nranks && !heard[last + 1])
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

int boot_timeout_error(const uint8_t *heard, int nranks, int64_t timeout_ms, const char *note)
{
	char list[256], seconds[24];
	int missing = boot_list_missing(list, sizeof(list), heard, nranks);

	return error_set(COLL_ERR_TIMEOUT, "%s %s of %d %s not been heard from after %s s%s%s",
			 missing == 1 ? "rank" : "ranks", list, nranks,
			 missing == 1 ? "has" : "have", boot_seconds(timeout_ms, seconds),
			 note[0] ? "; " : "", note);
}

/* ------------------------------------------------------------------- giving up -- */

void boot_watch(struct boot *boot, const _Atomic int *aborted)
{
	boot->aborted = aborted;
	boot->watched = boot->rank;
}

int boot_check_aborted(const struct boot *boot)
{
	if (!boot->aborted || !atomic_load(boot->aborted))
		return 0;
	return error_set(COLL_ERR_ABORTED, "rank %d aborted the communicator", boot->watched);
}

int64_t boot_look(const struct boot *boot, int64_t deadline)
{
	int64_t look = boot_now() + BOOT_LOOK_MS;

	return boot->aborted && look < deadline ? look : deadline;
}

int boot_remote_code(int code)
{
	return code == COLL_ERR_ABORTED ? COLL_ERR_REMOTE : code;
}

/* ------------------------------------------------------------------ the verbs -- */

int boot_new(struct boot **boot, size_t size, const struct boot_kind *kind, int rank, int nranks)
{
	struct boot *b;

	*boot = NULL;
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
	*boot = b;
	return 0;
}

int boot_meet(struct boot *boot, int64_t timeout_ms)
{
	struct boot_peer self;
	int code = boot_self(&self);

	if (code)
		return code;
	code = boot_exchange(boot, &self, boot->peers, sizeof(self), timeout_ms);
	for (int r = 0; r < boot->nranks; r++) /* other processes wrote these */
		boot->peers[r].host[sizeof(self.host) - 1] = '\0';
	return code;
}

int boot_rank(const struct boot *boot)
{
	return boot->rank;
}

int boot_nranks(const struct boot *boot)
{
	return boot->nranks;
}

const struct boot_peer *boot_peer(const struct boot *boot, int rank)
{
	return &boot->peers[rank];
}

int boot_in_process(const struct boot *boot)
{
	for (int r = 1; r < boot->nranks; r++)
		if (memcmp(boot->peers[r].process, boot->peers[0].process,
			   sizeof(boot->peers[0].process)) != 0)
			return 0;
	return 1;
}

void boot_key(const struct boot *boot, uint8_t key[BOOT_KEY_SIZE])
{
	memcpy(key, boot->key, BOOT_KEY_SIZE);
}

int boot_exchange(struct boot *boot, const void *in, void *out, size_t len, int64_t timeout_ms)
{
	int code;

	if (boot->failed)
		return error_set(boot->failed, "%s", boot->failure);
	if (len > SIZE_MAX / 2 / (size_t)boot->nranks)
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "%zu bytes from each of %d ranks do not fit in memory", len,
				 boot->nranks);
	if (boot->nranks == 1) {
		if (len > 0)
			memmove(out, in, len);
		return 0;
	}
	code = boot->kind->exchange(boot, in, out, len, timeout_ms);
	if (code && boot->kind->sticky) {
		boot->failed = code;
		snprintf(boot->failure, sizeof(boot->failure), "%s", error_text());
	}
	return code;
}

void boot_texts_free(const struct boot *boot, char **texts)
{
	if (texts == NULL)
		return;
	for (int r = 0; r < boot->nranks; r++)
		free(texts[r]);
	free(texts);
}

/* Cuts the padded pieces into strings. */
static int boot_split_texts(const struct boot *boot, const char *pieces, const uint64_t *lens,
			    size_t width, char ***out)
{
	char **texts = calloc((size_t)boot->nranks, sizeof(*texts));

	for (int r = 0; texts != NULL && r < boot->nranks; r++) {
		texts[r] = strndup(pieces + (size_t)r * width, lens[r]);
		if (texts[r] == NULL) {
			boot_texts_free(boot, texts);
			texts = NULL;
		}
	}
	if (texts == NULL)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for the texts of %d ranks",
				 boot->nranks);
	*out = texts;
	return 0;
}

/* Second half of exchange_text: lens are known, width is the longest of them. */
static int boot_exchange_padded(struct boot *boot, const char *in, const uint64_t *lens,
				size_t width, char ***out, int64_t timeout_ms)
{
	size_t n = (size_t)boot->nranks;
	char *padded = calloc(1, width + 1);
	char *pieces = width <= SIZE_MAX / 2 / n ? malloc(n * width + 1) : NULL;
	int code;

	if (padded == NULL || pieces == NULL) {
		code = error_set(COLL_ERR_NO_MEMORY,
				 "no memory for %zu bytes of text from %d ranks", width,
				 boot->nranks);
		goto fail;
	}
	memcpy(padded, in, strlen(in));
	code = width > 0 ? boot_exchange(boot, padded, pieces, width, timeout_ms) : 0;
	if (code == 0)
		code = boot_split_texts(boot, pieces, lens, width, out);
fail:
	free(padded);
	free(pieces);
	return code;
}

/* The longest of the lengths that the ranks have exchanged, if none of them is impossible. */
static int boot_check_lengths(const struct boot *boot, const uint64_t *lens, uint64_t own,
			      size_t *width)
{
	*width = 0;
	if (lens[boot->rank] != own)
		return error_set(COLL_ERR_REMOTE,
				 "the length of the text of rank %d came back as %llu instead of "
				 "%llu: the exchange between the ranks altered bytes on the way",
				 boot->rank, (unsigned long long)lens[boot->rank],
				 (unsigned long long)own);
	for (int r = 0; r < boot->nranks; r++) {
		if (lens[r] > BOOT_TEXT_LONGEST)
			return error_set(COLL_ERR_REMOTE,
					 "rank %d announces a text of %llu bytes, but a text has "
					 "at most %d: rank %d has far too many plugins, or the "
					 "exchange between the ranks altered bytes on the way",
					 r, (unsigned long long)lens[r], BOOT_TEXT_LONGEST, r);
		if (lens[r] > *width)
			*width = (size_t)lens[r];
	}
	return 0;
}

int boot_exchange_text(struct boot *boot, const char *in, char ***out, int64_t timeout_ms)
{
	int64_t deadline = boot_deadline(timeout_ms);
	uint64_t len = strlen(in);
	uint64_t *lens = calloc((size_t)boot->nranks, sizeof(*lens));
	size_t width;
	int code;

	*out = NULL;
	if (lens == NULL)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for %d ranks", boot->nranks);
	code = boot_exchange(boot, &len, lens, sizeof(len), timeout_ms);
	if (code == 0)
		code = boot_check_lengths(boot, lens, len, &width);
	if (code == 0)
		code = boot_exchange_padded(boot, in, lens, width, out, boot_remaining(deadline));
	free(lens);
	return code;
}

void boot_close(struct boot *boot)
{
	if (boot == NULL)
		return;
	boot->kind->close(boot);
	free(boot->peers);
	free(boot);
}
