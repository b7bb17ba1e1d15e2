/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll_null.h - the struct that coll_comm_native_handle returns on backends 'null' and
 * 'nulldevice'.
 */
#ifndef TESTS_PLUGINS_COLL_NULL_H
#define TESTS_PLUGINS_COLL_NULL_H

#include <stdatomic.h>
#include <stdint.h>

struct null_handle {
	_Atomic uint64_t calls; /* number of operations submitted so far */
	/* how many of them, from the first on, are complete; UINT64_MAX: all */
	_Atomic uint64_t done;
	_Atomic uint64_t queries; /* number of calls of query */
	/* number of such calls before the operations of an open group had begun */
	_Atomic uint64_t early;
	_Atomic uint64_t errors;  /* number of calls of async_error */
	_Atomic uint64_t records; /* number of events recorded */
	_Atomic int64_t events;   /* number of events that exist */
	_Atomic uint64_t group;   /* number of the last group that the endpoint was in */
	_Atomic int groups;       /* groups begun and not ended */
	_Atomic int failing;      /* if not 0: the code that async_error returns */
	_Atomic int refusing;     /* if not 0: the code that calls return */
	_Atomic int aborted;
	const void *sendbuf; /* count and stream of the last call */
	uint64_t count;
	void *stream;
};

#endif
