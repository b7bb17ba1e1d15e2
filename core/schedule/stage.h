/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stage.h - staging memory, which stands in for device buffers, and the copies to and from it as steps of a
 * schedule.  The memory has a part for the send buffer and a part for the receive buffer; in place both
 * parts are the same.
 */
#ifndef CORE_SCHEDULE_STAGE_H
#define CORE_SCHEDULE_STAGE_H

#include "schedule/sched.h"

/*
 * The used bytes of a buffer.  A list counts as if its blocks followed one another from its address on.  Both are 0 if the
 * rank uses no bytes.
 */
struct stage_span {
	uintptr_t begin, end;
};

struct stage {
	/* The caller describes the call.  Arrays have an entry for SCHED_SEND and one for SCHED_RECV. */
	int staged;   /* bit 1 << buffer: the buffer is staged */
	int in_place; /* the buffers overlap as coll.h allows */
	int rank;
	/*
	 * Bit 1 << buffer: the buffer is a list, of blocks of `block` bytes at the displacements, in elements of
	 * `elem` bytes.  In staging memory the blocks of a list follow one another.
	 */
	int list;
	size_t block, elem;
	const size_t *displs[2];
	uintptr_t address[2];
	struct stage_span span[2]; /* of the staged buffers */
	/* stage_layout sets the members from here on. */
	size_t need;  /* bytes of staging memory */
	size_t at[2]; /* offset of each buffer's begin in the memory, modulo 2^N */
	/* base of each buffer: base + offset in the memory is the address of the user's byte */
	uintptr_t user[2];
	uintptr_t near[2]; /* address of the first used byte */
};

/* Lays the staged buffers out in the staging memory. */
void stage_layout(struct stage *stage);
/*
 * Returns the address in the program's memory of the byte at offset `off` of the staging memory.  part: the buffer for
 * which the byte stands.
 */
uintptr_t stage_user_at(const struct stage *stage, int part, size_t off);
/*
 * Appends the copies to and from the staged buffers to a schedule.  longest: the most bytes of a copy.  No copy is longer
 * than s->segment.
 */
void stage_schedule(struct sched *s, const struct stage *stage, size_t longest);

#endif
