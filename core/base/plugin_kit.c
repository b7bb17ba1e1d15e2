/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin_kit.c - helpers for the plugins of this tree. */
#include "base/plugin_kit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

void kit_log(const coll_host_t *host, int32_t level, const char *fmt, ...)
{
	char text[512];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	host->log(host, level, text);
}

int32_t kit_exchange_fail(const coll_host_t *host, int32_t code, const coll_error_t *err)
{
	if (host->size > offsetof(coll_host_t, exchange_fail) && host->exchange_fail)
		host->exchange_fail(host, code, err ? err->text : NULL, host->timeout_ms);
	return code;
}

int kit_read_boot_id(char text[KIT_BOOT_ID_SIZE])
{
	int fd = open(KIT_BOOT_ID_FILE, O_RDONLY | O_CLOEXEC);

	memset(text, 0, KIT_BOOT_ID_SIZE);
	if (fd < 0)
		return errno;
	if (read(fd, text, KIT_BOOT_ID_SIZE - 1) < 36) /* a UUID */
		text[0] = '\0';
	close(fd);
	return 0;
}

void kit_read_namespace(const char *file, struct kit_namespace *ns)
{
	struct stat st;

	*ns = (struct kit_namespace){0, 0};
	if (stat(file, &st))
		return;
	ns->device = st.st_dev;
	ns->inode = st.st_ino;
}

int kit_same_namespace(const struct kit_namespace *a, const struct kit_namespace *b)
{
	return a->inode && a->inode == b->inode && a->device == b->device;
}

void send_queue_remove(struct send_queue *queue, coll_send_t *send)
{
	coll_send_t *before = queue->first;

	if (before == send) {
		queue->first = send_queue_next(send);
		return;
	}
	while (before && send_queue_next(before) != send)
		before = send_queue_next(before);
	if (!before)
		return;
	before->plugin[0] = send->plugin[0];
	if (queue->last == send)
		queue->last = before;
}

uint8_t *send_rest_new(struct send_rest *rest, const coll_host_t *host, uint64_t size)
{
	*rest = (struct send_rest){.bytes = host->alloc(host, size), .size = size};
	return rest->bytes;
}

void send_rest_free(struct send_rest *rest, const coll_host_t *host)
{
	if (rest->bytes)
		host->free(host, rest->bytes, rest->size);
	rest->bytes = NULL;
}
