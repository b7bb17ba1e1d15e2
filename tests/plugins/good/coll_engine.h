/* SPDX-License-Identifier: BSD-3-Clause */
/* coll_engine.h - what coll_comm_native_handle gives on backend 'engine'. */
#ifndef TESTS_PLUGINS_COLL_ENGINE_H
#define TESTS_PLUGINS_COLL_ENGINE_H

enum { ENGINE_STREAMS = 2 };

struct engine_handle {
	void *stream[ENGINE_STREAMS]; /* further streams, beside the endpoint's own */
	const char *made;             /* by which function: "open", "open_all", "split", "shrink" */
	int thread;                   /* and by which thread, as gettid tells it */
	int device;                   /* as its host table tells it */
};

#endif
