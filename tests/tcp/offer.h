/* SPDX-License-Identifier: BSD-3-Clause */
/* offer.h - offers shared memory over a local socket, as a peer with the tcp plugin does (tcp_ring_offer.c). */
#ifndef TESTS_TCP_OFFER_H
#define TESTS_TCP_OFFER_H

#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

/* Sends len bytes with a descriptor of `size` bytes of memory that has these seals (0: none): 0, or -1 with errno. */
static int offer_memory(int socket, void *bytes, size_t len, off_t size, int seals)
{
	struct iovec iov = {bytes, len};
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {.bytes = {0}};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.bytes,
			     .msg_controllen = sizeof(control.bytes)};
	struct cmsghdr *part = CMSG_FIRSTHDR(&msg);
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING), failed;

	part->cmsg_level = SOL_SOCKET;
	part->cmsg_type = SCM_RIGHTS;
	part->cmsg_len = CMSG_LEN(sizeof(int));
	memcpy(CMSG_DATA(part), &fd, sizeof(fd));
	failed = fd < 0 || ftruncate(fd, size) || (seals && fcntl(fd, F_ADD_SEALS, seals)) ||
		 sendmsg(socket, &msg, 0) != (ssize_t)len;
	if (fd >= 0)
		close(fd);
	return failed ? -1 : 0;
}

#endif
