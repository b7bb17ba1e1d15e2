/* SPDX-License-Identifier: BSD-3-Clause */
/* coll_null.h - what coll_comm_native_handle gives on backends 'null' and 'nulldevice'. */
#ifndef TESTS_PLUGINS_COLL_NULL_H
#define TESTS_PLUGINS_COLL_NULL_H

#include <stdatomic.h>
#include <stdint.h>

struct null_handle {
	_Atomic uint64_t calls;   /* operations taken so far */
	_Atomic uint64_t done;    /* the first so many of them are complete; UINT64_MAX: all */
	_Atomic uint64_t queries; /* how often query, and */
	_Atomic uint64_t early;   /* the same while what a group held was not begun */
	_Atomic uint64_t errors;  /* how often async_error was called */
	_Atomic uint64_t records; /* events recorded, and */
	_Atomic int64_t events;   /* how many there are */
	_Atomic uint64_t group;   /* the number of the last group it was in */
	_Atomic int groups;       /* begun and not ended */
	_Atomic int failing;      /* not 0: async_error says this code */
	_Atomic int refusing;     /* not 0: calls answer this code */
	_Atomic int aborted;
	const void *sendbuf; /* of the last call, as its count and stream */
	uint64_t count;
	void *stream;
};

#endif
