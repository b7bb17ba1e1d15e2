/* SPDX-License-Identifier: BSD-3-Clause */
/* tcp_map.h - files in memory that ranks share: the rings, and memory of coll_mem_alloc. */
#ifndef TCP_MAP_H
#define TCP_MAP_H

#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <sys/mman.h>

#ifndef MADV_POPULATE_WRITE
#define MADV_POPULATE_WRITE 23 /* Linux 5.14 */
#endif

enum {
	TCP_MAP_TRIES = 16, /* of an allocation that signals interrupt */
	/* Nobody changes the size of a shared file. */
	TCP_SEALS = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL
};

/* Maps the file for this process alone, not for its children.  Returns NULL with errno on a failure. */
static inline void *tcp_map(int fd, uint64_t size, int protection)
{
	void *at = mmap(NULL, size, protection, MAP_SHARED, fd, 0);
	int reason;

	if (at == MAP_FAILED)
		return NULL;
	if (!madvise(at, size, MADV_DONTFORK))
		return at;
	reason = errno;
	munmap(at, size);
	errno = reason;
	return NULL;
}

/* Gives a part of the file its pages, since a lack of memory would be a SIGBUS later.  Returns 0 or an errno. */
static inline int tcp_map_fill(int fd, uint64_t begin, uint64_t bytes)
{
	int reason = EINTR;

	for (int i = 0; i < TCP_MAP_TRIES && reason == EINTR; i++)
		reason = posix_fallocate(fd, (off_t)begin, (off_t)bytes);
	return reason;
}

#endif
