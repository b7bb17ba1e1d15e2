/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tcp_memory.c - memory that the program allocates with coll_mem_alloc: a sealed memfd, which the other ranks of the host can
 * map (tcp_lend.c, tcp_borrow.c).
 *
 * The memory belongs to the process, not to an endpoint.  A table has all of it.  The number of an entry is never used again, so
 * that an endpoint can tell whether memory that it knows is still there.
 */
#include "tcp_ring.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sysinfo.h>
#include <unistd.h>

#ifndef F_SEAL_FUTURE_WRITE
#define F_SEAL_FUTURE_WRITE 0x0010 /* Linux 5.1 */
#endif

static pthread_mutex_t tcp_memory_lock = PTHREAD_MUTEX_INITIALIZER;
static struct tcp_memory *_Atomic tcp_memory_table; /* the lock guards these */
static uint32_t tcp_memory_room;
static uint64_t tcp_memory_last;
static _Atomic uint32_t tcp_memory_count;
static _Atomic uint64_t tcp_memory_ended;

/* ------------------------------------------------------------------------ forks -- */

/*
 * Closes the descriptors of the parent's memory, which the child does not have: they would keep the memory when it is freed.
 * Another thread of the parent may have had the lock; the table is whole at any moment.
 */
static void tcp_memory_forked(void)
{
	const uint32_t n = atomic_exchange(&tcp_memory_count, 0);
	const struct tcp_memory *table = atomic_load(&tcp_memory_table);

	pthread_mutex_init(&tcp_memory_lock, NULL);
	for (uint32_t i = 0; i < n; i++)
		close(table[i].fd);
}

/* The memory may outlive all endpoints, so that the slot `forked` is not enough. */
static void tcp_memory_watch_forks(void)
{
	pthread_atfork(NULL, NULL, tcp_memory_forked);
}

/* -------------------------------------------------------------------- the table -- */

int tcp_memory_any(void)
{
	return atomic_load_explicit(&tcp_memory_count, memory_order_acquire) != 0;
}

uint64_t tcp_memory_frees(void)
{
	return atomic_load_explicit(&tcp_memory_ended, memory_order_acquire);
}

int tcp_memory_find(const void *buf, uint64_t len, struct tcp_memory *memory)
{
	CANCEL_OFF;
	int found = 0;

	pthread_mutex_lock(&tcp_memory_lock);
	for (uint32_t i = 0; i < tcp_memory_count && !found; i++)
		if (tcp_memory_has(&tcp_memory_table[i], buf, len)) {
			*memory = tcp_memory_table[i];
			memory->fd = fcntl(memory->fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
			found = 1;
		}
	pthread_mutex_unlock(&tcp_memory_lock);
	return found && memory->fd >= 0;
}

int tcp_memory_is_there(uint64_t id)
{
	CANCEL_OFF;
	int found = 0;

	pthread_mutex_lock(&tcp_memory_lock);
	for (uint32_t i = 0; i < tcp_memory_count && !found; i++)
		found = tcp_memory_table[i].id == id;
	pthread_mutex_unlock(&tcp_memory_lock);
	return found;
}

/* ------------------------------------------------------------------ allocation -- */

int tcp_memory_populate(const struct tcp_memory *memory, uint64_t begin, uint64_t bytes)
{
	if (!madvise(memory->at + begin, bytes, MADV_POPULATE_WRITE))
		return 0;
	if (errno != EINVAL)
		return errno == EFAULT ? ENOMEM : errno;
	return tcp_map_fill(memory->fd, begin, bytes);
}

/* Maps the file; fill: gives it its pages, huge pages where the kernel can.  Returns 0 or an errno. */
static int tcp_memory_map(struct tcp_memory *memory, int fill)
{
	int reason;

	memory->at = tcp_map(memory->fd, memory->size, PROT_READ | PROT_WRITE);
	if (!memory->at)
		return errno;
	if (!fill)
		return 0;
	madvise(memory->at, memory->size, MADV_HUGEPAGE); /* a hint: a refusal does no harm */
	reason = tcp_memory_populate(memory, 0, memory->size);
	if (reason)
		munmap(memory->at, memory->size);
	return reason;
}

/* From now on nobody can resize the file, nor write to it but by this mapping.  Returns 0 or an errno. */
static int tcp_memory_seal(int fd)
{
	return fcntl(fd, F_ADD_SEALS, TCP_SEALS | F_SEAL_FUTURE_WRITE) &&
			       (errno != EINVAL || fcntl(fd, F_ADD_SEALS, TCP_SEALS))
		       ? errno
		       : 0;
}

/* Is it more than all memory of the machine?  The kernel would end processes, this one too, until it has no more pages to give. */
static int tcp_memory_exceeds(uint64_t size)
{
	struct sysinfo info;

	return !sysinfo(&info) && size / info.mem_unit > (uint64_t)info.totalram + info.totalswap;
}

/* Makes a file of that name and maps it as tcp_memory_map.  Returns 0 or an errno. */
static int tcp_memory_make(struct tcp_memory *memory, const char *name, uint64_t bytes, int fill)
{
	const uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
	int reason;

	memory->size = (bytes + page - 1) / page * page;
	if (tcp_memory_exceeds(memory->size))
		return ENOMEM;
	if (!descriptor_may_grow(memory->size))
		return EFBIG;
	memory->fd = descriptor_lift(memfd_create(name, MFD_CLOEXEC | MFD_ALLOW_SEALING));
	if (memory->fd < 0)
		return errno;
	reason = ftruncate(memory->fd, (off_t)memory->size) ? errno : tcp_memory_map(memory, fill);
	if (!reason) {
		reason = tcp_memory_seal(memory->fd);
		if (reason)
			munmap(memory->at, memory->size);
	}
	if (reason)
		close(memory->fd);
	return reason;
}

/* Makes room for one more entry in a new table, since a fork may come at any moment.  Returns 0 without memory for it. */
static int tcp_memory_grow(uint32_t n)
{
	const uint32_t room = 2 * n + 8;
	struct tcp_memory *old = tcp_memory_table, *table;

	if (n < tcp_memory_room)
		return 1;
	table = calloc(room, sizeof(*table));
	if (!table)
		return 0;
	if (n)
		memcpy(table, old, n * sizeof(*table));
	atomic_store(&tcp_memory_table, table);
	tcp_memory_room = room;
	free(old);
	return 1;
}

/* Appends the memory to the table.  Returns 0 without memory for that. */
static int tcp_memory_add(struct tcp_memory *memory)
{
	const uint32_t n = tcp_memory_count;

	if (!tcp_memory_grow(n))
		return 0;
	memory->id = ++tcp_memory_last;
	tcp_memory_table[n] = *memory;
	atomic_store_explicit(&tcp_memory_count, n + 1, memory_order_release);
	return 1;
}

/* Has another rank of the host a ring, in which it could be told of the memory? */
static int tcp_memory_serves(const struct tcp *t)
{
	for (uint32_t i = 0; i < t->nranks && t->ring_size; i++)
		if (i != t->rank && t->conn[i].fd >= 0 && !t->conn[i].inet)
			return 1;
	return 0;
}

/* Makes memory and enters it into the table.  Returns 0 or an errno. */
static int tcp_memory_new(struct tcp_memory *memory, const char *name, uint64_t bytes, int fill)
{
	static pthread_once_t forks = PTHREAD_ONCE_INIT;
	int reason, added;

	pthread_once(&forks, tcp_memory_watch_forks);
	reason = tcp_memory_make(memory, name, bytes, fill);
	if (reason)
		return reason;
	pthread_mutex_lock(&tcp_memory_lock);
	added = tcp_memory_add(memory);
	pthread_mutex_unlock(&tcp_memory_lock);
	if (added)
		return 0;
	munmap(memory->at, memory->size);
	close(memory->fd);
	return ENOMEM;
}

int tcp_memory_open(struct tcp_memory *memory, uint64_t bytes)
{
	CANCEL_OFF;

	return tcp_memory_new(memory, "coll-bounce", bytes, 0);
}

int32_t tcp_mem_alloc(void *ep, uint64_t bytes, void **ptr, coll_error_t *err)
{
	CANCEL_OFF;
	struct tcp_memory memory = {.fd = -1};
	int reason;

	if (!tcp_memory_serves(ep))
		return error_fill(err, COLL_ERR_UNSUPPORTED,
				  "no other rank of this host is connected over shared memory");
	reason = tcp_memory_new(&memory, "coll-memory", bytes, 1);
	if (reason)
		return error_fill(err,
				  reason == ENOMEM || reason == ENOSPC ? COLL_ERR_NO_MEMORY
								       : COLL_ERR_UNSUPPORTED,
				  "cannot make %llu bytes of memory that ranks share: %s%s",
				  (unsigned long long)bytes, strerror(reason),
				  error_remedy(reason));
	*ptr = memory.at;
	return COLL_SUCCESS;
}

void tcp_mem_free(void *ptr)
{
	CANCEL_OFF;
	struct tcp_memory memory = {.fd = -1};
	uint32_t n, i = 0;

	pthread_mutex_lock(&tcp_memory_lock);
	n = tcp_memory_count;
	while (i < n && tcp_memory_table[i].at != ptr)
		i++;
	if (i < n) {
		memory = tcp_memory_table[i];
		tcp_memory_table[i] = tcp_memory_table[n - 1];
		atomic_store(&tcp_memory_count, n - 1);
		atomic_fetch_add(&tcp_memory_ended, 1);
	}
	pthread_mutex_unlock(&tcp_memory_lock);
	if (memory.fd < 0)
		return;
	munmap(memory.at, memory.size);
	close(memory.fd);
}
