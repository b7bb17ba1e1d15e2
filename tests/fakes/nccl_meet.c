/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nccl_meet.c - how the ranks of a communicator meet and move bytes, be they threads or processes: a
 * file under /dev/shm with the meeting's name, which has a byte ring for each pair of ranks.  It is
 * of one size whatever the number of ranks, so that nobody can cut it under another, and sparse.  The
 * last to come takes its name away.
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

enum { MEET_RING = 32768, MEET_NOTE = 64, MEET_NAP_MS = 2 };

/* Bytes from one rank to another; what was ever written, and of that read. */
struct meet_ring {
	_Atomic uint64_t in, out;
	_Atomic uint32_t announced[2]; /* the sender, the receiver will use it */
	unsigned char data[MEET_RING];
};

struct meet_seat {
	_Atomic uint32_t taken, bell, sleeping, notes;
	unsigned char note[2][MEET_NOTE];
};

struct meet_room {
	_Atomic uint32_t nranks, come, refused;
	struct meet_seat seats[MEET_RANKS];
	struct meet_ring rings[LANES][MEET_RANKS][MEET_RANKS]; /* [from][to] */
};

struct meet {
	struct meet_room *room;
	int rank, nranks;
	uint32_t notes; /* gatherings so far */
	char path[MEET_NAME + 32];
};

int halt_asked(const struct halt *halt)
{
	size_t i;

	for (i = 0; i < sizeof(halt->flag) / sizeof(halt->flag[0]); i++)
		if (halt->flag[i] && atomic_load(halt->flag[i]))
			return 1;
	return 0;
}

static void meet_ring_bell(struct meet *meet, int rank)
{
	struct meet_seat *seat = &meet->room->seats[rank];

	atomic_fetch_add(&seat->bell, 1);
	if (atomic_load(&seat->sleeping))
		syscall(SYS_futex, &seat->bell, FUTEX_WAKE, INT_MAX, NULL, NULL, 0);
}

uint32_t meet_bell(struct meet *meet)
{
	return atomic_load(&meet->room->seats[meet->rank].bell);
}

void meet_sleep(struct meet *meet, uint32_t bell)
{
	struct meet_seat *seat = &meet->room->seats[meet->rank];
	struct timespec nap = {0, MEET_NAP_MS * 1000000L};

	atomic_fetch_add(&seat->sleeping, 1);
	syscall(SYS_futex, &seat->bell, FUTEX_WAIT, bell, &nap, NULL, 0);
	atomic_fetch_sub(&seat->sleeping, 1);
}

static int meet_open(struct meet *meet)
{
	void *at = MAP_FAILED;
	int fd = open(meet->path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);

	if (fd < 0)
		return call_fail(NCCL_SYSTEM_ERROR, "cannot open '%s': %s", meet->path,
				 strerror(errno));
	if (ftruncate(fd, sizeof(struct meet_room)) == 0)
		at = mmap(NULL, sizeof(struct meet_room), PROT_READ | PROT_WRITE, MAP_SHARED, fd,
			  0);
	close(fd);
	if (at == MAP_FAILED)
		return call_fail(NCCL_SYSTEM_ERROR, "cannot map '%s': %s", meet->path,
				 strerror(errno));
	meet->room = at;
	return NCCL_SUCCESS;
}

/* Takes the rank's seat; one mistake of anybody is the failure of all. */
static int meet_sit(struct meet *meet)
{
	uint32_t none = 0;
	int i, code = NCCL_SUCCESS;

	if (!atomic_compare_exchange_strong(&meet->room->nranks, &none, (uint32_t)meet->nranks) &&
	    none != (uint32_t)meet->nranks)
		code = call_fail(NCCL_INTERNAL_ERROR,
				 "mismatch in rank count from ranks: %d here, %u there",
				 meet->nranks, (unsigned)none);
	else if (atomic_exchange(&meet->room->seats[meet->rank].taken, 1))
		code = call_fail(NCCL_INTERNAL_ERROR, "rank %d of %d ranks has already checked in",
				 meet->rank, meet->nranks);
	if (code)
		atomic_store(&meet->room->refused, 1);
	else
		atomic_fetch_add(&meet->room->come, 1);
	for (i = 0; i < MEET_RANKS; i++)
		meet_ring_bell(meet, i);
	return code;
}

static int meet_wait_all(struct meet *meet, const struct halt *halt)
{
	uint32_t bell;

	for (;;) {
		bell = meet_bell(meet);
		if (atomic_load(&meet->room->refused))
			return call_fail(NCCL_REMOTE_ERROR, "another rank was refused");
		if (atomic_load(&meet->room->come) == (uint32_t)meet->nranks)
			return NCCL_SUCCESS;
		if (halt_asked(halt))
			return call_fail(NCCL_INTERNAL_ERROR, "aborted while waiting for ranks");
		meet_sleep(meet, bell);
	}
}

int meet_join(const char *name, int nranks, int rank, const struct halt *halt, struct meet **out)
{
	struct meet *meet = calloc(1, sizeof(*meet));
	int code;

	*out = NULL;
	if (!meet)
		return NCCL_SYSTEM_ERROR;
	meet->rank = rank;
	meet->nranks = nranks;
	snprintf(meet->path, sizeof(meet->path), "/dev/shm/standin_nccl_%s", name);
	code = meet_open(meet);
	if (!code)
		code = meet_sit(meet);
	if (!code)
		code = meet_wait_all(meet, halt);
	/* All of them take the name away: the last to come may be one that dies before it does. */
	unlink(meet->path);
	if (code)
		meet_leave(meet);
	else
		*out = meet;
	return code;
}

void meet_leave(struct meet *meet)
{
	if (meet && meet->room)
		munmap(meet->room, sizeof(*meet->room));
	free(meet);
}

/*
 * Two notes in turn are enough: nobody writes its next but one before all have written their next,
 * and so have read this one.
 */
int meet_gather(struct meet *meet, const void *mine, void *all, size_t n, const struct halt *halt)
{
	struct meet_seat *seat = &meet->room->seats[meet->rank];
	uint32_t turn = meet->notes++, bell;
	int i;

	memcpy(seat->note[turn & 1], mine, n);
	atomic_store(&seat->notes, turn + 1);
	for (i = 0; i < meet->nranks; i++)
		meet_ring_bell(meet, i);
	for (i = 0; i < meet->nranks; i++) {
		seat = &meet->room->seats[i];
		for (bell = meet_bell(meet); (int32_t)(atomic_load(&seat->notes) - turn) <= 0;
		     bell = meet_bell(meet)) {
			if (halt_asked(halt))
				return call_fail(NCCL_INTERNAL_ERROR, "aborted while ranks talk");
			meet_sleep(meet, bell);
		}
		memcpy((unsigned char *)all + (size_t)i * n, seat->note[turn & 1], n);
	}
	return NCCL_SUCCESS;
}

size_t meet_put(struct meet *meet, int lane, int peer, const void *data, size_t n)
{
	struct meet_ring *ring = &meet->room->rings[lane][meet->rank][peer];
	uint64_t in = atomic_load_explicit(&ring->in, memory_order_relaxed);
	size_t room = MEET_RING - (size_t)(in - atomic_load(&ring->out));
	size_t at = (size_t)(in % MEET_RING), first;

	n = n < room ? n : room;
	if (!n)
		return 0;
	first = n < MEET_RING - at ? n : MEET_RING - at;
	memcpy(ring->data + at, data, first);
	memcpy(ring->data, (const unsigned char *)data + first, n - first);
	atomic_store(&ring->in, in + n);
	meet_ring_bell(meet, peer);
	return n;
}

size_t meet_take(struct meet *meet, int lane, int peer, void *buf, size_t n)
{
	struct meet_ring *ring = &meet->room->rings[lane][peer][meet->rank];
	uint64_t out = atomic_load_explicit(&ring->out, memory_order_relaxed);
	size_t there = (size_t)(atomic_load(&ring->in) - out);
	size_t at = (size_t)(out % MEET_RING), first;

	n = n < there ? n : there;
	if (!n)
		return 0;
	first = n < MEET_RING - at ? n : MEET_RING - at;
	memcpy(buf, ring->data + at, first);
	memcpy((unsigned char *)buf + first, ring->data, n - first);
	atomic_store(&ring->out, out + n);
	meet_ring_bell(meet, peer);
	return n;
}

void meet_announce(struct meet *meet, int lane, int from, int to)
{
	int sends = from == meet->rank;

	atomic_store(&meet->room->rings[lane][from][to].announced[!sends], 1);
	meet_ring_bell(meet, sends ? to : from);
}

int meet_connected(struct meet *meet, int lane, int from, int to)
{
	int sends = from == meet->rank;

	return (int)atomic_load(&meet->room->rings[lane][from][to].announced[sends]);
}
