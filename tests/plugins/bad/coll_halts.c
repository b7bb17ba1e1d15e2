/* SPDX-License-Identifier: BSD-3-Clause */
/* fails: caller-stream */
/* needs: libcuda.so.1 */
/* coll_halts.c - send waits until the device is idle, while a stream of the program waits for the message. */
#include "uds.h"
#include <dlfcn.h>

static int32_t halts_send(void *ep, coll_send_t *send, coll_error_t *err)
{
	void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD), *at, *context;
	int (*retain)(void **context, int device), (*push)(void *context), (*wait)(void),
		(*pop)(void **context);

	if (driver && (at = dlsym(driver, "cuDevicePrimaryCtxRetain")) &&
	    memcpy(&retain, &at, sizeof(at)) && (at = dlsym(driver, "cuCtxPushCurrent_v2")) &&
	    memcpy(&push, &at, sizeof(at)) && (at = dlsym(driver, "cuCtxSynchronize")) &&
	    memcpy(&wait, &at, sizeof(at)) && (at = dlsym(driver, "cuCtxPopCurrent_v2")) &&
	    memcpy(&pop, &at, sizeof(at)) && !retain(&context, 0) && !push(context)) {
		wait();
		pop(&context);
	}
	return bad_send(ep, send, err);
}

#define BAD_NAME "halts"
#define BAD_SEND halts_send
#include "table.h"
