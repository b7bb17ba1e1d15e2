/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine.h - what executes the calls of a communicator.
 *
 * A call becomes an operation (comm/op.h), and waits for its turn in the queue of its communicator (comm/queue.h).  The
 * queue then hands the operation to an engine, and knows nothing else of how the operation is done.  A communicator has up to
 * three engines:
 *
 *     ENGINE_NATIVE    the backend does the whole call by its own function (coll_native_t): native/
 *     ENGINE_COMPOSED  the library does the call by the steps of a schedule, over the backend's transport
 *                      (coll_transport_t): compose/
 *     ENGINE_AWAIT     there is no call: the operation waits for one of another lane (compose/await.c)
 *
 * comm_client.choose chooses the engine of a call when its operation is made.  The queue starts an operation when it is the
 * oldest, when it belongs to the group of the oldest, or behind a running one of the same engine if that keeps their
 * order.  The life of an operation, in the words of op.h:
 *
 *     OP_QUEUED -> start -> OP_RUNNING -> advance or progress -> OP_DONE
 *                        -> OP_SUBMITTED: the engine ends it, in the order of the starts; it leaves the queue at once
 *
 * A new engine is a file like compose/await.c with one of these structs, which a part of the communicator puts into
 * lane->engine (exec/parts.c), and a case in dispatch_choose (compose/dispatch.c).  An engine needs `start` and what ends
 * an operation: `advance`, or `progress` if it is ENGINE_NATIVE.  Every other function may be NULL, which its comment
 * explains.  The engine of tests/unit/small_core_test.c has 60 lines.
 *
 * The context's lock is held in all functions.  No function waits, unless it calls a slot of a backend that blocks
 * (backend.h).  A function that fails calls comm_fail, and all operations of the communicator are over.
 */
#ifndef CORE_ENGINE_H
#define CORE_ENGINE_H

#include <coll/backend.h>

#include <stddef.h>
#include <stdint.h>

struct call;
struct lane;
struct derive;
struct op;

/* The engines of a communicator: lane->engine[]. */
enum engine_index { ENGINE_NATIVE, ENGINE_COMPOSED, ENGINE_AWAIT, ENGINES };

/* The result of `start`. */
enum engine_start {
	ENGINE_STARTED, /* the operation has another state now, or the communicator has failed */
	ENGINE_BLOCKED, /* not yet: the queue asks again */
	ENGINE_DECLINED, /* the engine cannot do it: the queue hands it to ENGINE_COMPOSED when it is the oldest */
};

struct engine {
	/* --- a call with nothing in its way.  NULL: all calls go through the queue */

	/*
	 * Enqueues an idle operation, starts it and moves its context, if nothing else is under way there.  Returns 1,
	 * also if the communicator has failed, or 0: the engine has done nothing.
	 */
	int (*at_once)(struct op *op);
	/*
	 * Hands a checked call to the backend without an operation.  Returns 1, also if the communicator has failed, or
	 * 0: the engine has done nothing.  Called of ENGINE_NATIVE only.
	 */
	int (*now)(struct lane *lane, const struct call *call);
	/*
	 * Does for unchecked arguments what `now` does for a call.  The arguments must be those of the last call of `now`, but for
	 * the buffers and the stream, so that no check could fail.  Returns 0 for other arguments.  Called of ENGINE_NATIVE only.
	 */
	int (*again)(struct lane *lane, const coll_args_t *args);

	/*
	 * Does the backend take the buffers of a checked call where they are?  Returns 0 if it may not.  Asked of
	 * ENGINE_NATIVE of a communicator with two lanes (comm/lane.h), which must have this function.
	 *
	 * Three questions decide who does a call.  comm_client.supports knows the kind only: it comes before the check of the
	 * arguments, since a call that no engine of this lane does may belong to the other lane.  `takes` knows the buffers
	 * too, and chooses between the lanes.  comm_client.choose knows the whole call: it makes the plan, or says why not.
	 */
	int (*takes)(struct lane *lane, const struct call *call);

	/* --- one operation */

	/* Starts an operation in state OP_QUEUED: OP_RUNNING or OP_SUBMITTED afterwards (op_begin). */
	enum engine_start (*start)(struct op *op);
	/*
	 * Moves a running operation, and calls op_end once it is done.  Returns 1 if anything moved.  NULL: `progress`
	 * ends the operations, and nothing is to be done for a single operation.
	 */
	int (*advance)(struct op *op);
	/*
	 * Does nothing of a running operation move until a message comes?  Then nobody looks at the operation.  NULL: something
	 * may always move; an engine with by_messages must have this function.
	 */
	int (*rests)(const struct op *op);
	/*
	 * Marks in `ranks`, a byte per rank, the ranks for which a running operation waits.  Returns 1 if it has marked
	 * any.  NULL: unknown.
	 */
	int (*awaits)(const struct op *op, uint8_t *ranks);
	/* Ends a running operation: nothing touches its buffers afterwards.  NULL: `abort` does that. */
	void (*cancel)(struct op *op);
	/* An operation is freed: frees what this engine keeps with it, if anything.  NULL: the engine keeps nothing. */
	void (*forget)(struct op *op);

	/* --- all operations of a lane: see comm/engines.h.  Called of ENGINE_NATIVE only.  NULL: there is nothing to do */

	/* Ends the operations that the backend has completed.  Returns 1 if there were any. */
	int (*progress)(struct lane *lane);
	/* Has the backend operations in its hands that have left the queue? */
	int (*busy)(const struct lane *lane);
	/* Writes which operations the backend has.  NULL: `busy` is NULL too. */
	void (*describe)(const struct lane *lane, char *text, size_t size);
	/*
	 * A request or an event refers to the newest operation: its end must be seen even if many operations follow it.  NULL: the
	 * engine sees each end anyway.
	 */
	void (*mark)(struct lane *lane);
	/* The communicator has failed: ends the backend's work. */
	void (*abort)(struct lane *lane);
	/* Fails the communicator if the backend has failed, also while it has no operation in its hands. */
	void (*check)(struct lane *lane);
	/* The operations of a group start between these two.  NULL: the engine starts them one by one. */
	void (*group_begin)(struct lane *lane);
	void (*group_end)(struct lane *lane);

	/* --- communicators made from others: see api/derive.h.  NULL: they share the endpoint (api/derive_transport.c) */
	const struct derive *derive;

	/* --- properties */

	int keeps_order; /* it runs operations in the order of their starts: one may be started behind a running one */
	int by_messages; /* the transport's descriptor wakes a thread that waits for an operation */
};

#endif
