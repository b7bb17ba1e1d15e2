/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucx_gap.c - closes the gap that a killed rank may leave in this rank's receive queue in shared memory.
 *
 * All ranks of a host write into one queue of the receiver: a sender claims the next slot, copies its frame into
 * it, and marks the slot as filled.  The receiver reads the slots in order.  If a sender is killed before it has
 * marked its slot, UCX waits at that slot for ever, and every later frame of every other rank waits behind it.
 *
 * After a death this file therefore looks for slots that are claimed and not filled, waits until each such slot can
 * only be the dead rank's, and puts an empty frame there (UCX_AM_EMPTY).  A living rank may own such a slot too, as
 * long as it is inside UCX.  So each rank counts its calls of UCX in memory that the other ranks of the host can
 * read.  A rank that was outside UCX after the death has filled all slots that it had claimed before.
 *
 * UCX has no function for this.  The layout of the queue is the same in UCX 1.13 to 1.22; senders in other processes,
 * with other versions of UCX, rely on it too.  This file uses a queue only if this endpoint's worker watches
 * the queue's socket, and if all slots look as they should.
 */
#include "ucx.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

/* ---------------------------------------------------------- the calls of each rank -- */

void ucx_calls_open(struct ucx *u)
{
	void *page = MAP_FAILED;

	u->calls_of_ucx = &u->calls_unshared;
	u->calls_fd = descriptor_lift(memfd_create("coll-ucx", MFD_CLOEXEC));
	if (u->calls_fd >= 0 && descriptor_may_grow(UCX_CALLS_SIZE) &&
	    !ftruncate(u->calls_fd, UCX_CALLS_SIZE))
		page = mmap(NULL, UCX_CALLS_SIZE, PROT_READ | PROT_WRITE, MAP_SHARED, u->calls_fd,
			    0);
	if (page != MAP_FAILED)
		u->calls_of_ucx = page;
	else
		ucx_calls_unpublish(u);
}

void ucx_calls_unpublish(struct ucx *u)
{
	if (u->calls_fd >= 0)
		close(u->calls_fd);
	u->calls_fd = -1;
}

/* Maps the peer's number.  The peer must not have closed its descriptor. */
static void ucx_calls_map(struct ucx *u, struct ucx_peer *peer)
{
	const struct ucx_record *record = &u->record[peer->rank];
	void *page = MAP_FAILED;
	char path[48];
	int fd = -1;

	snprintf(path, sizeof(path), "/proc/%d/fd/%d", record->pid, record->calls_fd);
	if (record->calls_fd >= 0)
		fd = descriptor_lift(open(path, O_RDONLY | O_CLOEXEC));
	if (fd >= 0) {
		page = mmap(NULL, UCX_CALLS_SIZE, PROT_READ, MAP_SHARED, fd, 0);
		close(fd);
	}
	if (page != MAP_FAILED)
		peer->calls_of_ucx = page;
	else
		kit_log(u->host, COLL_LOG_INFO,
			"cannot see when rank %u is inside UCX: if another rank is killed while it "
			"writes, the receive queue stays blocked while rank %u lives",
			peer->rank, peer->rank);
}

void ucx_calls_map_all(struct ucx *u)
{
	for (uint32_t i = 0; i < u->nranks; i++)
		if (i != u->rank && kit_shares(u->host, i, COLL_SHARES_PIDS))
			ucx_calls_map(u, &u->peer[i]);
}

void ucx_calls_close(struct ucx *u)
{
	for (uint32_t i = 0; u->peer && i < u->nranks; i++)
		if (u->peer[i].calls_of_ucx)
			munmap((void *)(uintptr_t)u->peer[i].calls_of_ucx, UCX_CALLS_SIZE);
	if (u->calls_of_ucx != &u->calls_unshared)
		munmap(u->calls_of_ucx, UCX_CALLS_SIZE);
	ucx_calls_unpublish(u);
}

/* --------------------------------------------------------- the receive queue of UCX -- */

/* The first bytes of a queue: uct_mm_fifo_ctl_t of UCX. */
struct ucx_queue_head {
	_Atomic uint64_t head; /* number of claimed slots; the highest bit asks for a signal */
	struct {
		socklen_t length;
		struct sockaddr_un name;
	} __attribute__((packed)) socket; /* the socket that gets the signal */
	uint8_t unused[6];
	_Atomic uint64_t tail; /* the slots before it are read; it lags behind */
	pid_t pid;
};

/* The first bytes of a slot: uct_mm_fifo_element_t of UCX. */
struct ucx_slot {
	_Atomic uint8_t flags;
	uint8_t id;
	uint16_t length;
	struct {
		uint64_t segment;
		uint32_t size, offset;
	} __attribute__((packed)) descriptor; /* the memory of a long frame */
};

enum {
	UCX_QUEUE_SLOTS_AT = 192, /* offset of the first slot */
	UCX_SLOT_SIZE = 128,
	UCX_SLOT_FRAME_AT = 28, /* offset of a short frame within its slot */
	UCX_SLOT_ROUND = 1,     /* flag: changes with every round through the queue */
	UCX_SLOT_INLINE = 2,    /* flag: the frame is in the slot */
	UCX_SLOT_AM_SINGLE = 23 /* id: an active message of the user in one piece */
};
static const uint64_t ucx_queue_signal = (uint64_t)1 << 63;

_Static_assert(offsetof(struct ucx_queue_head, tail) == 128, "UCX's layout");
_Static_assert(offsetof(struct ucx_queue_head, pid) == 136, "UCX's layout");
_Static_assert(sizeof(struct ucx_slot) == 20, "UCX's layout");

/* The header of UCX's active messages: ucp_am_hdr_t of UCX. */
struct ucx_am_head {
	uint16_t id, flags;
	uint32_t header_length;
};

static struct ucx_slot *ucx_slot(const struct ucx_queue *queue, uint64_t number)
{
	uint8_t *first = (uint8_t *)queue->head + UCX_QUEUE_SLOTS_AT;

	return (struct ucx_slot *)(first + number % queue->slots * UCX_SLOT_SIZE);
}

/* Is the slot claimed and not filled? */
static int ucx_slot_is_open(const struct ucx_queue *queue, uint64_t number)
{
	uint8_t flags = atomic_load_explicit(&ucx_slot(queue, number)->flags, memory_order_acquire);

	return (flags & UCX_SLOT_ROUND) != (number / queue->slots & 1);
}

static int ucx_queue_is_open(const struct ucx_queue *queue)
{
	for (uint64_t i = atomic_load(&queue->head->tail); i < queue->claimed; i++)
		if (ucx_slot_is_open(queue, i))
			return 1;
	return 0;
}

static int ucx_queue_close(const struct ucx_queue *queue)
{
	const struct ucx_am_head empty = {.id = UCX_AM_EMPTY};
	int n = 0;

	for (uint64_t i = atomic_load(&queue->head->tail); i < queue->claimed; i++) {
		struct ucx_slot *slot = ucx_slot(queue, i);

		if (!ucx_slot_is_open(queue, i))
			continue;
		slot->id = UCX_SLOT_AM_SINGLE;
		slot->length = sizeof(empty);
		memcpy((uint8_t *)slot + UCX_SLOT_FRAME_AT, &empty, sizeof(empty));
		atomic_store_explicit(&slot->flags,
				      (uint8_t)(UCX_SLOT_INLINE | (i / queue->slots & 1)),
				      memory_order_release);
		n++;
	}
	return n;
}

/* ------------------------------------------------------------------ finding the queues -- */

/*
 * Returns the number of slots: the highest power of two that the memory holds.  Each slot has memory for long frames, and
 * the bytes after the last slot are 0.  Returns 0 if the memory does not look so.
 */
static uint64_t ucx_count_slots(struct ucx_queue_head *head, uint64_t size)
{
	const struct ucx_queue queue = {.head = head, .slots = UINT64_MAX};
	uint64_t capacity = (size - UCX_QUEUE_SLOTS_AT) / UCX_SLOT_SIZE, n = 0, slots = 1;

	while (slots * 2 <= capacity)
		slots *= 2;
	while (n < capacity && ucx_slot(&queue, n)->descriptor.size)
		n++;
	return n == slots ? slots : 0;
}

static int ucx_is_head(const struct ucx_queue_head *head, const struct sockaddr_un *name,
		       socklen_t length)
{
	return head->pid == getpid() && head->socket.length == length &&
	       !memcmp(&head->socket.name, name, length);
}

/*
 * Is there a queue with this socket at that address?  The kernel reads the memory, because another thread may be unmapping
 * it.
 */
static int ucx_is_queue(int memory_fd, uint64_t at, const struct sockaddr_un *name,
			socklen_t length)
{
	struct ucx_queue_head head;

	return pread(memory_fd, (void *)&head, sizeof(head), (off_t)at) == sizeof(head) &&
	       ucx_is_head(&head, name, length);
}

static void ucx_queue_unmap(struct ucx_queue *queue)
{
	if (queue->mapped)
		munmap(queue->head, queue->size);
	queue->mapped = 0;
}

static int ucx_shares_process(const struct ucx *u)
{
	for (uint32_t i = 0; i < u->nranks; i++)
		if (i != u->rank && kit_shares(u->host, i, COLL_SHARES_PROCESS))
			return 1;
	return 0;
}

/*
 * Maps UCX's memory from begin to end once more, by mremap of 0 bytes of the shared mapping.  UCX's own mapping is
 * not safe: if several ranks share the process, each rank that sends to this rank has a mapping of the queue too, and
 * may be unmapping the mapping that was found.  Huge pages cannot be mapped twice like this.
 */
static int ucx_queue_map(const struct ucx *u, struct ucx_queue *queue, uint64_t begin, uint64_t end)
{
	void *found = (void *)(uintptr_t)begin, *memory;

	queue->size = end - begin;
	memory = mremap(found, 0, queue->size, MREMAP_MAYMOVE);
	queue->mapped = memory != MAP_FAILED;
	queue->head = queue->mapped ? memory : found;
	return queue->mapped || !ucx_shares_process(u);
}

/* Looks for the queue in UCX's shared memory: lines such as "7f00-7f30 rw-s ... /dev/shm/ucx_shm_posix_1". */
static void ucx_find_queue(struct ucx *u, const struct sockaddr_un *name, socklen_t length)
{
	int memory_fd = descriptor_lift(open("/proc/self/mem", O_RDONLY | O_CLOEXEC));
	FILE *maps = memory_fd < 0 ? NULL : descriptor_read("/proc/self/maps");
	char line[512], modes[5];
	uint64_t begin, end;

	while (maps && u->queues < UCX_QUEUES && fgets(line, sizeof(line), maps)) {
		struct ucx_queue *queue = &u->queue[u->queues];

		if ((!strstr(line, "/ucx_shm_posix_") && !strstr(line, "/SYSV")) ||
		    sscanf(line, "%" SCNx64 "-%" SCNx64 " %4s", &begin, &end, modes) != 3 ||
		    strcmp(modes, "rw-s") != 0 || !ucx_is_queue(memory_fd, begin, name, length))
			continue;
		if (!ucx_queue_map(u, queue, begin, end))
			continue;
		/* Look again: other memory may have come to that address meanwhile. */
		queue->slots = ucx_is_head(queue->head, name, length)
				       ? ucx_count_slots(queue->head, queue->size)
				       : 0;
		if (queue->slots)
			u->queues++;
		else
			ucx_queue_unmap(queue);
	}
	if (maps)
		fclose(maps);
	if (memory_fd >= 0)
		close(memory_fd);
}

void ucx_gap_close(struct ucx *u)
{
	for (int i = 0; i < u->queues; i++)
		ucx_queue_unmap(&u->queue[i]);
	u->queues = 0;
}

/* Finds the queue of a socket that this endpoint's worker watches: such a queue is the endpoint's. */
static int ucx_find_queue_of(int fd, void *arg)
{
	struct sockaddr_un name;
	socklen_t length = sizeof(name);

	memset(&name, 0, sizeof(name));
	if (getsockname(fd, (struct sockaddr *)&name, &length) || name.sun_family != AF_UNIX)
		return 0;
	ucx_find_queue(arg, &name, length);
	return 1;
}

static void ucx_find_queues(struct ucx *u)
{
	ucx_gap_close(u);
	ucx_each_watched(u->efd, ucx_find_queue_of, u);
}

/* ------------------------------------------------------------------ closing the gap -- */

void ucx_gap_expect(struct ucx *u)
{
	u->gap = UCX_GAP_EXPECTED;
}

/* Notes the slots that are claimed now.  Later slots cannot be the dead rank's. */
static void ucx_gap_begin(struct ucx *u)
{
	int open = 0;

	ucx_find_queues(u);
	for (int i = 0; i < u->queues; i++) {
		struct ucx_queue *queue = &u->queue[i];

		queue->claimed = atomic_load(&queue->head->head) & ~ucx_queue_signal;
		open |= ucx_queue_is_open(queue);
	}
	u->gap = open ? UCX_GAP_OPEN : UCX_GAP_NONE;
	u->gap_deadline = clock_now_ms() + UCX_GAP_MS;
	if (!open)
		ucx_gap_close(u);
	for (uint32_t i = 0; open && i < u->nranks; i++) {
		struct ucx_peer *peer = &u->peer[i];

		peer->calls_then = peer->calls_of_ucx ? atomic_load(peer->calls_of_ucx) : 1;
		peer->may_fill = i != u->rank && ucx_may_share_memory(u, i);
	}
}

/* A rank that is stopped while it writes hides the frames behind its slot for good, but not the death. */
int ucx_gap_hides_frames(const struct ucx *u)
{
	if (u->gap == UCX_GAP_NONE)
		return u->calls - u->gap_last_call <= UCX_QUIET_CALLS;
	return u->gap == UCX_GAP_EXPECTED || clock_now_ms() < u->gap_deadline;
}

/*
 * May the peer still fill a slot that was claimed then?  Not if it was outside UCX since ucx_gap_begin, nor after its
 * goodbye, its last frame.
 */
static int ucx_may_fill(const struct ucx_peer *peer)
{
	if (!peer->may_fill || peer->broken || peer->bye_received)
		return 0;
	return (peer->calls_then & 1) &&
	       (!peer->calls_of_ucx || atomic_load(peer->calls_of_ucx) == peer->calls_then);
}

void ucx_gap_advance(struct ucx *u)
{
	CANCEL_OFF;
	int n = 0;

	if (u->gap == UCX_GAP_EXPECTED)
		ucx_gap_begin(u);
	if (u->gap != UCX_GAP_OPEN)
		return;
	u->gap_last_call = u->calls;
	for (uint32_t i = 0; i < u->nranks; i++) {
		u->peer[i].may_fill = ucx_may_fill(&u->peer[i]);
		if (u->peer[i].may_fill)
			return;
	}
	for (int i = 0; i < u->queues; i++)
		n += ucx_queue_close(&u->queue[i]);
	ucx_gap_close(u);
	u->gap = UCX_GAP_NONE;
	u->moved = 1;
	if (n)
		kit_log(u->host, COLL_LOG_INFO,
			"a rank was killed while it wrote into the receive queue of rank %u: %d of "
			"its slots left out",
			u->rank, n);
}
