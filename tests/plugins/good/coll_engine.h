/* SPDX-License-Identifier: BSD-3-Clause */
/* coll_engine.h - the struct that coll_comm_native_handle returns on backend 'engine'. */
#ifndef TESTS_PLUGINS_COLL_ENGINE_H
#define TESTS_PLUGINS_COLL_ENGINE_H

enum { ENGINE_STREAMS = 2 };

struct engine_handle {
	void *stream[ENGINE_STREAMS]; /* number of further streams, beside the endpoint's own */
	/* the function that made the endpoint: "open", "open_all", "split", "shrink" */
	const char *made;
	int thread; /* id (gettid) of the thread that called it */
	int device; /* the device that the host table names */
};

#endif
