/* SPDX-License-Identifier: BSD-3-Clause */
/* stub.h - a transport that does nothing, for plugins that the tests only load. */
#ifndef TESTS_PLUGINS_STUB_H
#define TESTS_PLUGINS_STUB_H

#include <coll/backend.h>
#include <stdlib.h>

__attribute__((unused)) static int32_t stub_open(const coll_host_t *host, void **ep,
						 coll_error_t *err)
{
	(void)host;
	(void)err;
	*ep = malloc(1);
	return *ep ? COLL_SUCCESS : COLL_ERR_NO_MEMORY;
}

__attribute__((unused)) static void stub_close(void *ep, int64_t timeout_ms)
{
	(void)timeout_ms;
	free(ep);
}

static int32_t stub_send(void *ep, coll_send_t *send, coll_error_t *err)
{
	(void)ep;
	(void)err;
	send->status = COLL_ERR_UNSUPPORTED;
	return COLL_SUCCESS;
}

static int32_t stub_progress(void *ep)
{
	(void)ep;
	return 0;
}

static const coll_transport_t stub_transport = {
	.size = sizeof(coll_transport_t),
	.send = stub_send,
	.progress = stub_progress,
};

#endif
