/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nccl_rendezvous.c - the ranks of a communicator, threads or processes, find each other and
 * exchange bytes through a file under /dev/shm with the name of the rendezvous.  The file has a
 * byte ring for each pair of ranks.  It is sparse, and its size does not depend on the number of
 * ranks, so that no rank can truncate it under another.  The ranks unlink the file when all have
 * come.
 */
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "nccl_parts.h"

enum { RENDEZVOUS_RING = 32768, RENDEZVOUS_NOTE = 64, RENDEZVOUS_SLEEP_MS = 2 };

/* Bytes from one rank to another, with the numbers of bytes ever written and ever read. */
struct rendezvous_ring {
	_Atomic uint64_t in, out;
	_Atomic uint32_t
		announced[2]; /* bits: the uses that the sender, the receiver has announced */
	unsigned char data[RENDEZVOUS_RING];
};

struct rendezvous_slot {
	_Atomic uint32_t taken, bell, sleeping, notes;
	unsigned char note[2][RENDEZVOUS_NOTE];
};

struct rendezvous_memory {
	_Atomic uint32_t nranks, come, refused;
	struct rendezvous_slot slots[RENDEZVOUS_RANKS];
	struct rendezvous_ring rings[CHANNELS][RENDEZVOUS_RANKS][RENDEZVOUS_RANKS]; /* [from][to] */
};

struct rendezvous {
	struct rendezvous_memory *memory;
	int rank, nranks;
	uint32_t notes; /* number of gatherings so far */
	char path[RENDEZVOUS_NAME + 32];
};

int halt_asked(const struct halt *halt)
{
	size_t i;

	for (i = 0; i < sizeof(halt->flag) / sizeof(halt->flag[0]); i++)
		if (halt->flag[i] && atomic_load(halt->flag[i]))
			return 1;
	return 0;
}

static void rendezvous_ring_bell(struct rendezvous *rendezvous, int rank)
{
	struct rendezvous_slot *slot = &rendezvous->memory->slots[rank];

	atomic_fetch_add(&slot->bell, 1);
	if (atomic_load(&slot->sleeping))
		syscall(SYS_futex, &slot->bell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

uint32_t rendezvous_bell(struct rendezvous *rendezvous)
{
	return atomic_load(&rendezvous->memory->slots[rendezvous->rank].bell);
}

void rendezvous_sleep(struct rendezvous *rendezvous, uint32_t bell)
{
	struct rendezvous_slot *slot = &rendezvous->memory->slots[rendezvous->rank];
	struct timespec delay = {0, RENDEZVOUS_SLEEP_MS * 1000000L};

	atomic_fetch_add(&slot->sleeping, 1);
	syscall(SYS_futex, &slot->bell, FUTEX_WAIT, bell, &delay, NULL, 0);
	atomic_fetch_sub(&slot->sleeping, 1);
}

static int rendezvous_open(struct rendezvous *rendezvous)
{
	void *at = MAP_FAILED;
	int fd = open(rendezvous->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		return call_fail(NCCL_SYSTEM_ERROR, "cannot open '%s': %s", rendezvous->path,
				 strerror(errno));
	if (ftruncate(fd, sizeof(struct rendezvous_memory)) == 0)
		at = mmap(NULL, sizeof(struct rendezvous_memory), PROT_READ | PROT_WRITE,
			  MAP_SHARED, fd, 0);
	close(fd);
	if (at == MAP_FAILED)
		return call_fail(NCCL_SYSTEM_ERROR, "cannot map '%s': %s", rendezvous->path,
				 strerror(errno));
	rendezvous->memory = at;
	return NCCL_SUCCESS;
}

/* Takes the rank's slot; a mistake of any rank makes all ranks fail. */
static int rendezvous_take_slot(struct rendezvous *rendezvous)
{
	uint32_t none = 0;
	int i, code = NCCL_SUCCESS;

	if (!atomic_compare_exchange_strong(&rendezvous->memory->nranks, &none,
					    (uint32_t)rendezvous->nranks) &&
	    none != (uint32_t)rendezvous->nranks)
		code = call_fail(NCCL_INTERNAL_ERROR,
				 "mismatch in rank count from ranks: %d here, %u there",
				 rendezvous->nranks, (unsigned)none);
	else if (atomic_exchange(&rendezvous->memory->slots[rendezvous->rank].taken, 1))
		code = call_fail(NCCL_INTERNAL_ERROR, "rank %d of %d ranks has already checked in",
				 rendezvous->rank, rendezvous->nranks);
	if (code)
		atomic_store(&rendezvous->memory->refused, 1);
	else
		atomic_fetch_add(&rendezvous->memory->come, 1);
	for (i = 0; i < RENDEZVOUS_RANKS; i++)
		rendezvous_ring_bell(rendezvous, i);
	return code;
}

static int rendezvous_wait_all(struct rendezvous *rendezvous, const struct halt *halt)
{
	uint32_t bell;

	for (;;) {
		bell = rendezvous_bell(rendezvous);
		if (atomic_load(&rendezvous->memory->refused))
			return call_fail(NCCL_REMOTE_ERROR, "another rank was refused");
		if (atomic_load(&rendezvous->memory->come) == (uint32_t)rendezvous->nranks)
			return NCCL_SUCCESS;
		if (halt_asked(halt))
			return call_fail(NCCL_INTERNAL_ERROR, "aborted while waiting for ranks");
		rendezvous_sleep(rendezvous, bell);
	}
}

int rendezvous_join(const char *name, int nranks, int rank, const struct halt *halt,
		    struct rendezvous **out)
{
	struct rendezvous *rendezvous = calloc(1, sizeof(*rendezvous));
	int code;

	*out = NULL;
	if (!rendezvous)
		return NCCL_SYSTEM_ERROR;
	rendezvous->rank = rank;
	rendezvous->nranks = nranks;
	snprintf(rendezvous->path, sizeof(rendezvous->path), "/dev/shm/standin_nccl_%s", name);
	code = rendezvous_open(rendezvous);
	if (!code)
		code = rendezvous_take_slot(rendezvous);
	if (!code)
		code = rendezvous_wait_all(rendezvous, halt);
	/* All ranks unlink the name, because the last to come may die before it does. */
	unlink(rendezvous->path);
	if (code)
		rendezvous_leave(rendezvous);
	else
		*out = rendezvous;
	return code;
}

void rendezvous_leave(struct rendezvous *rendezvous)
{
	if (rendezvous && rendezvous->memory)
		munmap(rendezvous->memory, sizeof(*rendezvous->memory));
	free(rendezvous);
}

/*
 * Two alternating notes suffice: no rank writes its next note but one before all ranks have written
 * their next note, and so have read this one.
 */
int rendezvous_gather(struct rendezvous *rendezvous, const void *mine, void *all, size_t n,
		      const struct halt *halt)
{
	struct rendezvous_slot *slot = &rendezvous->memory->slots[rendezvous->rank];
	uint32_t note = rendezvous->notes++, bell;
	int i;

	memcpy(slot->note[note & 1], mine, n);
	atomic_store(&slot->notes, note + 1);
	for (i = 0; i < rendezvous->nranks; i++)
		rendezvous_ring_bell(rendezvous, i);
	for (i = 0; i < rendezvous->nranks; i++) {
		slot = &rendezvous->memory->slots[i];
		for (bell = rendezvous_bell(rendezvous);
		     (int32_t)(atomic_load(&slot->notes) - note) <= 0;
		     bell = rendezvous_bell(rendezvous)) {
			if (halt_asked(halt))
				return call_fail(NCCL_INTERNAL_ERROR, "aborted while ranks talk");
			rendezvous_sleep(rendezvous, bell);
		}
		memcpy((unsigned char *)all + (size_t)i * n, slot->note[note & 1], n);
	}
	return NCCL_SUCCESS;
}

size_t rendezvous_put(struct rendezvous *rendezvous, int channel, int peer, const void *data,
		      size_t n)
{
	struct rendezvous_ring *ring = &rendezvous->memory->rings[channel][rendezvous->rank][peer];
	uint64_t in = atomic_load_explicit(&ring->in, memory_order_relaxed);
	size_t space = RENDEZVOUS_RING - (size_t)(in - atomic_load(&ring->out));
	size_t at = (size_t)(in % RENDEZVOUS_RING), first;

	n = n < space ? n : space;
	if (!n)
		return 0;
	first = n < RENDEZVOUS_RING - at ? n : RENDEZVOUS_RING - at;
	memcpy(ring->data + at, data, first);
	memcpy(ring->data, (const unsigned char *)data + first, n - first);
	atomic_store(&ring->in, in + n);
	rendezvous_ring_bell(rendezvous, peer);
	return n;
}

size_t rendezvous_take(struct rendezvous *rendezvous, int channel, int peer, void *buf, size_t n)
{
	struct rendezvous_ring *ring = &rendezvous->memory->rings[channel][peer][rendezvous->rank];
	uint64_t out = atomic_load_explicit(&ring->out, memory_order_relaxed);
	size_t there = (size_t)(atomic_load(&ring->in) - out);
	size_t at = (size_t)(out % RENDEZVOUS_RING), first;

	n = n < there ? n : there;
	if (!n)
		return 0;
	first = n < RENDEZVOUS_RING - at ? n : RENDEZVOUS_RING - at;
	memcpy(buf, ring->data + at, first);
	memcpy((unsigned char *)buf + first, ring->data, n - first);
	atomic_store(&ring->out, out + n);
	rendezvous_ring_bell(rendezvous, peer);
	return n;
}

void rendezvous_announce(struct rendezvous *rendezvous, int channel, int from, int to, unsigned as)
{
	int sends = from == rendezvous->rank;

	atomic_fetch_or(&rendezvous->memory->rings[channel][from][to].announced[!sends], as);
	rendezvous_ring_bell(rendezvous, sends ? to : from);
}

int rendezvous_connected(struct rendezvous *rendezvous, int channel, int from, int to, unsigned as)
{
	int sends = from == rendezvous->rank;

	return (atomic_load(&rendezvous->memory->rings[channel][from][to].announced[sends]) & as) ==
	       as;
}
