/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * table.h - the table of a bad plugin: the good backend's functions, except those that BAD_* names.
 */

#ifndef GOOD_OPTIONS
#define GOOD_OPTIONS      NULL
#define GOOD_OPTION_COUNT 0
#endif

/* ---- calls of the good backend ---- */

BAD_FN int32_t bad_send(void *ep, coll_send_t *send, coll_error_t *err)
{
	return GOOD_SEND(((struct bad *)ep)->ep, send, err);
}

BAD_FN int32_t bad_progress(void *ep)
{
	return GOOD_PROGRESS(((struct bad *)ep)->ep);
}

#ifdef GOOD_CANCEL
BAD_FN void bad_cancel(void *ep, coll_send_t *send)
{
	GOOD_CANCEL(((struct bad *)ep)->ep, send);
}

BAD_FN void bad_drop(void *ep, uint64_t cookie)
{
	GOOD_DROP(((struct bad *)ep)->ep, cookie);
}

BAD_FN int32_t bad_wait_fd(void *ep)
{
	return GOOD_WAIT_FD(((struct bad *)ep)->ep);
}

BAD_FN int32_t bad_arm(void *ep)
{
	return GOOD_ARM(((struct bad *)ep)->ep);
}
#endif

BAD_FN int32_t bad_open(const coll_host_t *host, void **ep, coll_error_t *err)
{
	struct bad *b = calloc(1, sizeof(*b));

	*ep = b;
	if (!b)
		return err->code = COLL_ERR_NO_MEMORY;
	b->host = *host;
	b->real = host;
#ifdef BAD_ARRIVE
	b->host.arrive = BAD_ARRIVE;
#endif
#ifdef BAD_DATA
	b->host.data = BAD_DATA;
#endif
#ifdef BAD_ARRIVED
	b->host.arrived = BAD_ARRIVED;
#endif
#ifdef BAD_PEER_LOST
	b->host.peer_lost = BAD_PEER_LOST;
#endif
	return GOOD_OPEN(&b->host, &b->ep, err);
}

BAD_FN void bad_close(void *ep, int64_t timeout_ms)
{
	struct bad *b = ep;

	if (b->ep)
		GOOD_CLOSE(b->ep, timeout_ms);
	free(b->memory);
	free(b);
}

/* ---- the spoilt functions ---- */

#ifndef BAD_SEND
#define BAD_SEND bad_send
#endif
#ifndef BAD_PROGRESS
#define BAD_PROGRESS bad_progress
#endif
#ifndef BAD_OPEN
#define BAD_OPEN bad_open
#endif
#ifndef BAD_CLOSE
#define BAD_CLOSE bad_close
#endif
#ifndef BAD_CANCEL
#define BAD_CANCEL bad_cancel
#endif
#ifndef BAD_DROP
#define BAD_DROP bad_drop
#endif
#ifndef BAD_WAIT_FD
#define BAD_WAIT_FD bad_wait_fd
#endif

static const coll_transport_t bad_transport = {
	.size = sizeof(coll_transport_t),
	.send = BAD_SEND,
	.progress = BAD_PROGRESS,
#ifdef BAD_FLUSH
	.send_more = BAD_SEND_MORE,
	.flush = BAD_FLUSH,
#endif
#ifdef BAD_MEMORY
	.memory = BAD_MEMORY,
#endif
#ifdef BAD_MEM_ALLOC
	.mem_alloc = BAD_MEM_ALLOC,
	.mem_free = BAD_MEM_FREE,
#endif
#ifdef BAD_DESCRIBE
	.describe = BAD_DESCRIBE,
#endif
#ifdef GOOD_CANCEL
	.cancel = BAD_CANCEL,
	.drop = BAD_DROP,
	.wait_fd = BAD_WAIT_FD,
	.arm = bad_arm,
#endif
};

#undef COLL_BACKEND_EXPORT
#define COLL_BACKEND_EXPORT __attribute__((visibility("default")))

COLL_BACKEND_EXPORT const coll_backend_t coll_backend_v1 = {
	.size = sizeof(coll_backend_t),
	.abi_minor = COLL_BACKEND_ABI_MINOR,
	.name = BAD_NAME,
	.version = "1.0",
	.description = "a backend with one fault",
	.priority = 1,
	.memory = COLL_MEM_HOST,
	.options = GOOD_OPTIONS,
	.option_count = GOOD_OPTION_COUNT,
	.option_size = sizeof(coll_option_t),
	.transport = &bad_transport,
	.open = BAD_OPEN,
	.close = BAD_CLOSE,
#ifdef BAD_FINISH
	.finish = BAD_FINISH,
#endif
};
