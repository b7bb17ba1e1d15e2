/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * call.c - one collective or message, from Python's arguments to its request.
 *
 * The library cannot know how long an array is: a call is only made if both arrays fit its count.
 */
#include "core.h"

#include <stdlib.h>
#include <string.h>

/* How many elements an array of a call has. */
enum part {
	NO_ARRAY,
	COUNT,  /* count */
	EACH,   /* count for each rank */
	COUNTS, /* the v-forms' counts: at least up to the end of the last part */
};

struct shape {
	enum part in, out;
	int in_root, out_root; /* 1: on the root only */
};

static const struct shape shapes[] = {
	[COLL_KIND_ALLREDUCE] = {COUNT, COUNT, 0, 0},
	[COLL_KIND_BROADCAST] = {NO_ARRAY, COUNT, 0, 0}, /* in place */
	[COLL_KIND_REDUCE] = {COUNT, COUNT, 0, 1},
	[COLL_KIND_ALLGATHER] = {COUNT, EACH, 0, 0},
	[COLL_KIND_REDUCE_SCATTER] = {EACH, COUNT, 0, 0},
	[COLL_KIND_ALLTOALL] = {EACH, EACH, 0, 0},
	[COLL_KIND_GATHER] = {COUNT, EACH, 0, 1},
	[COLL_KIND_SCATTER] = {EACH, COUNT, 1, 0},
	[COLL_KIND_ALLGATHERV] = {COUNT, COUNTS, 0, 0},
	[COLL_KIND_REDUCE_SCATTERV] = {COUNTS, COUNT, 0, 0},
	[COLL_KIND_ALLTOALLV] = {COUNTS, COUNTS, 0, 0},
	[COLL_KIND_GATHERV] = {COUNT, COUNTS, 0, 1},
	[COLL_KIND_SCATTERV] = {COUNTS, COUNT, 1, 0},
	[COLL_KIND_BARRIER] = {NO_ARRAY, NO_ARRAY, 0, 0},
	[COLL_KIND_SEND] = {COUNT, NO_ARRAY, 0, 0},
	[COLL_KIND_RECV] = {NO_ARRAY, COUNT, 0, 0},
	[COLL_KIND_SCAN] = {COUNT, COUNT, 0, 0},
	[COLL_KIND_EXSCAN] = {COUNT, COUNT, 0, 0},
};

struct call {
	const struct comm *comm;
	const struct shape *shape;
	coll_args_t args;
	struct kept kept;
	const struct array *in, *out; /* of kept; NULL: this rank needs none */
	int has_site;                 /* to be taken back from libcoll */
	size_t *numbers;              /* the four arrays of a v-form, one after the other */
};

_Thread_local PyObject *group_requests;
PyObject *core_caller_line;

static const char *name_of(const struct call *call)
{
	return coll_kind_name(call->args.kind);
}

/* ---- arrays ---- */

static int takes(const struct call *call, enum part part, int root_only)
{
	return part != NO_ARRAY && (!root_only || call->args.root == call->comm->rank);
}

/* Names the program's line for libcoll, which warns once for each place that has device memory staged. */
static void name_site(struct call *call)
{
	PyObject *line = PyObject_CallObject(core_caller_line, NULL);

	if (line)
		coll_set_call_site(PyLong_AsVoidPtr(line));
	call->has_site = line != NULL;
	PyErr_Clear();
	Py_XDECREF(line);
}

int array_await(const struct array *array, coll_comm_t comm, int now)
{
	struct outcome outcome;
	PyThreadState *state;
	coll_event_t event;

	if (!array->ready)
		return 0;
	WITHOUT_GIL(&outcome, coll_event_create(comm, &event));
	if (outcome.code) {
		outcome_raise(&outcome, comm);
		return -1;
	}
	WITHOUT_GIL(&outcome, coll_event_record_on_stream(event, comm, array->ready));
	if (!outcome.code && now)
		WITHOUT_GIL(&outcome, coll_event_synchronize(event));
	else if (!outcome.code)
		WITHOUT_GIL(&outcome, coll_comm_wait_event(comm, event));
	state = PyEval_SaveThread();
	(void)coll_event_destroy(event);
	PyEval_RestoreThread(state);
	if (outcome.code)
		outcome_raise(&outcome, comm);
	return outcome.code ? -1 : 0;
}

/* Makes the call begin after the work that fills device memory: a prepared call at each of its starts. */
static int order_after(struct call *call, struct array *array)
{
	if (array->on_device)
		name_site(call);
	if (call->args.stream)
		array->ready = NULL; /* the call is ordered with this stream */
	return call->comm->way == WAY_PREPARE ? 0 : array_await(array, call->comm->handle, 0);
}

static int take(struct call *call, struct array *array, PyObject *object, int writable,
		const char *name)
{
	char what[64];

	PyOS_snprintf(what, sizeof(what), "%s: %s", name_of(call), name);
	if (object == Py_None) {
		PyErr_Format(core_invalid_argument, "%s is None, and this rank needs it", what);
		return -1;
	}
	return array_take(array, object, writable, call->args.stream, what) ||
			       order_after(call, array)
		       ? -1
		       : 0;
}

/* Takes the arrays that this rank needs.  In place by out=x both are one. */
static int take_arrays(struct call *call, PyObject *in, PyObject *out)
{
	const struct shape *shape = call->shape;
	struct kept *kept = &call->kept;
	coll_args_t *args = &call->args;

	if (takes(call, shape->out, shape->out_root)) {
		if (take(call, &kept->out, out, 1, shape->in == NO_ARRAY ? "x" : "out"))
			return -1;
		call->out = &kept->out;
		args->recvbuf = kept->out.data;
		args->dtype = kept->out.dtype;
	}
	if (args->kind == COLL_KIND_BROADCAST)
		args->sendbuf = args->recvbuf;
	if (!takes(call, shape->in, shape->in_root))
		return 0;
	call->in = in == out && call->out ? call->out : &kept->in;
	if (call->in == &kept->in && take(call, &kept->in, in, 0, "x"))
		return -1;
	args->sendbuf = call->in->data;
	args->dtype = call->in->dtype;
	if (!call->out || call->out->dtype == args->dtype)
		return 0;
	PyErr_Format(core_invalid_argument, "%s: x has elements of %s and out of %s", name_of(call),
		     coll_dtype_name(args->dtype), coll_dtype_name(call->out->dtype));
	return -1;
}

/* ---- counts ---- */

/* Reads a sequence of one number for each rank.  *numbers: NULL for None. */
static int numbers_read(const struct call *call, PyObject *object, size_t *at,
			const size_t **numbers)
{
	*numbers = NULL;
	if (object == Py_None)
		return 0;
	if (PySequence_Size(object) != call->comm->size) {
		PyErr_Clear();
		PyErr_Format(
			core_invalid_argument,
			"%s: counts and displacements are sequences of %d numbers, one for each "
			"rank",
			name_of(call), call->comm->size);
		return -1;
	}
	for (int r = 0; r < call->comm->size; r++) {
		PyObject *item = PySequence_GetItem(object, r);
		PyObject *number = item ? PyNumber_Index(item) : NULL;

		at[r] = number ? PyLong_AsSize_t(number) : 0;
		Py_XDECREF(number);
		Py_XDECREF(item);
		if (PyErr_Occurred())
			return -1;
	}
	*numbers = at;
	return 0;
}

/* Reads (sendcounts, senddispls, recvcounts, recvdispls). */
static int counts_read(struct call *call, PyObject *counts)
{
	const size_t n = (size_t)call->comm->size;
	const size_t **places[] = {&call->args.sendcounts, &call->args.senddispls,
				   &call->args.recvcounts, &call->args.recvdispls};

	if (counts == Py_None)
		return 0;
	call->numbers = calloc(4 * n, sizeof(*call->numbers));
	if (!call->numbers) {
		PyErr_NoMemory();
		return -1;
	}
	for (size_t i = 0; i < 4; i++)
		if (numbers_read(call, PyTuple_GetItem(counts, (Py_ssize_t)i),
				 call->numbers + i * n, places[i]))
			return -1;
	return 0;
}

/* The elements up to the end of the last part of a v-form. */
static size_t counts_end(const struct call *call, const size_t *counts, const size_t *displs)
{
	size_t end = 0, sum = 0;

	for (int r = 0; counts && r < call->comm->size; r++) {
		const size_t begin = displs ? displs[r] : sum;

		sum += counts[r];
		if (counts[r] > SIZE_MAX - begin)
			return SIZE_MAX;
		if (counts[r] && begin + counts[r] > end)
			end = begin + counts[r];
	}
	return end;
}

/* The count of the call: the length of an array of one part, else a part of the other array. */
static size_t count_of(const struct call *call)
{
	if (call->in && call->shape->in == COUNT)
		return call->in->count;
	if (call->out && call->shape->out == COUNT)
		return call->out->count;
	return call->in && call->shape->in == EACH ? call->in->count / (size_t)call->comm->size : 0;
}

/* Refuses an array whose length is not that of the call. */
static int fit(const struct call *call, const struct array *array, enum part part, size_t end,
	       const char *name)
{
	const size_t count = call->args.count;
	const size_t needs = part == COUNT  ? count
			     : part == EACH ? count * (size_t)call->comm->size
					    : end;

	if (!array || (part == COUNTS ? array->count >= needs : array->count == needs))
		return 0;
	PyErr_Format(core_invalid_argument,
		     part == EACH
			     ? "%s: %s has %zu elements, but the call needs %zu: %zu for each of "
			       "%d ranks"
			     : "%s: %s has %zu elements, but the call needs %zu",
		     name_of(call), name, array->count, needs, count, call->comm->size);
	return -1;
}

static int call_fit(struct call *call)
{
	const struct shape *shape = call->shape;
	coll_args_t *args = &call->args;
	const size_t *in_counts = args->sendcounts ? args->sendcounts : args->recvcounts;

	args->count = count_of(call);
	if (args->kind == COLL_KIND_REDUCE_SCATTERV && args->recvcounts)
		args->count = args->recvcounts[call->comm->rank];
	if (fit(call, call->in, shape->in, counts_end(call, in_counts, args->senddispls), "x"))
		return -1;
	return fit(call, call->out, shape->out,
		   counts_end(call, args->recvcounts, args->recvdispls),
		   shape->in == NO_ARRAY ? "x" : "out");
}

/* ---- issuing ---- */

/* Issues the call and waits a slice.  *handle becomes NULL if that was enough; an error keeps its text. */
static coll_result_t issue_and_wait(const struct call *call, coll_request_t *handle)
{
	coll_result_t code = coll_request_issue(call->comm->handle, &call->args, handle);

	if (!code)
		code = coll_wait_for(*handle, WAIT_SLICE_MS);
	if (!code) {
		(void)coll_request_free(*handle);
		*handle = NULL;
	}
	return code;
}

static PyObject *call_result(struct call *call)
{
	PyObject *result = call->kept.result;

	Py_INCREF(result);
	return result;
}

/* A call that waits: the operation, and not more, is complete when it returns. */
static PyObject *call_wait(struct call *call)
{
	coll_request_t handle = NULL;
	struct outcome outcome;
	PyThreadState *state;

	WITHOUT_GIL(&outcome, issue_and_wait(call, &handle));
	if (outcome.code == COLL_IN_PROGRESS && request_wait(handle, -1, 0, &outcome)) {
		request_abandon(handle, &call->kept); /* the handler of a signal has raised */
		return NULL;
	}
	if (outcome.code) {
		/* The error may be of the wait alone: the arrays stay until the operation is over. */
		if (handle)
			request_abandon(handle, &call->kept);
		request_reap();
		return outcome_raise(&outcome, call->comm->handle);
	}
	if (handle) {
		state = PyEval_SaveThread();
		(void)coll_request_free(handle);
		PyEval_RestoreThread(state);
	}
	return op_check(call->kept.op) ? NULL : call_result(call);
}

/* A call in a group, or with a stream: whoever waits for the group or the stream waits for it. */
static PyObject *call_leave(struct call *call, PyObject *request)
{
	PyObject *result = request ? call_result(call) : NULL;

	if (result && group_requests && PyList_Append(group_requests, request))
		Py_CLEAR(result);
	Py_XDECREF(request);
	return result;
}

static PyObject *call_start(struct call *call)
{
	const struct comm *comm = call->comm;
	coll_request_t handle = NULL;
	struct outcome outcome;
	struct kept kept;

	if (comm->way == WAY_PREPARE)
		WITHOUT_GIL(&outcome, coll_request_init(comm->handle, &call->args, &handle));
	else
		WITHOUT_GIL(&outcome, coll_request_issue(comm->handle, &call->args, &handle));
	if (outcome.code)
		return outcome_raise(&outcome, comm->handle);
	kept = call->kept;
	call->kept = (struct kept){.result = kept.result};
	Py_INCREF(kept.result);
	return request_make(request_class, handle, comm->handle, &kept,
			    comm->way == WAY_PREPARE ? REQUEST_PERSISTENT : REQUEST_OPERATION);
}

static PyObject *call_make(struct call *call)
{
	PyObject *request;

	if (call->comm->way == WAY_WAIT && !group_requests && !call->args.stream)
		return call_wait(call);
	request = call_start(call);
	return call->comm->way == WAY_WAIT ? call_leave(call, request) : request;
}

static const struct comm *comm_read(PyObject *object)
{
	if (PyObject_TypeCheck(object, comm_type))
		return (const struct comm *)object;
	PyErr_SetString(PyExc_TypeError, "not a communicator");
	return NULL;
}

/* Has the library compose the call by the algorithm of comm.using(). */
static int name_algorithm(struct call *call)
{
	coll_algorithm_info_t info = {.size = sizeof(info)};

	for (int32_t i = 0; i < coll_algorithm_count(); i++)
		if (!coll_algorithm(i, &info) && info.kind == call->args.kind &&
		    !strcmp(info.name, call->comm->algorithm)) {
			call->args.flags = (uint32_t)(i + 1) << COLL_ARGS_ALGORITHM;
			return 0;
		}
	PyErr_Format(core_invalid_argument,
		     "%s has no algorithm '%s'; `coll info --algorithms` lists the algorithms",
		     name_of(call), call->comm->algorithm);
	return -1;
}

/* The arguments of run(): comm, kind, x, out, op, root or peer, tag, stream, counts. */
static int call_read(struct call *call, PyObject *const *argv)
{
	coll_args_t *args = &call->args;

	call->comm = comm_read(argv[0]);
	if (!call->comm)
		return -1;
	args->size = sizeof(*args);
	args->kind = (int32_t)PyLong_AsLong(argv[1]);
	call->shape = &shapes[args->kind];
	args->root = (int32_t)PyLong_AsLong(argv[5]);
	args->tag = (uint32_t)PyLong_AsUnsignedLongMask(argv[6]);
	if (call->comm->tag && args->kind != COLL_KIND_SEND && args->kind != COLL_KIND_RECV)
		args->tag = call->comm->tag;
	if (call->comm->algorithm && name_algorithm(call))
		return -1;
	if (PyErr_Occurred() || !to_stream(argv[7], &args->stream) ||
	    (argv[4] != Py_None && op_code(argv[4], &args->op)))
		return -1;
	call->kept.result = argv[3];
	Py_INCREF(argv[3]);
	if (argv[4] != Py_None && !PyUnicode_Check(argv[4])) {
		call->kept.op = argv[4];
		Py_INCREF(argv[4]);
	}
	return take_arrays(call, argv[2], argv[3]) || counts_read(call, argv[8]) ? -1 : 0;
}

PyObject *core_run(PyObject *module, PyObject *const *argv, Py_ssize_t argc)
{
	struct call call = {0};
	PyObject *result = NULL;

	(void)module;
	(void)argc;
	request_reap();
	if (!call_read(&call, argv) && !call_fit(&call))
		result = call_make(&call);
	if (call.has_site)
		coll_set_call_site(NULL);
	free(call.numbers);
	kept_release(&call.kept);
	return result;
}

/* ---- messages outside the order, and reductions of this process ---- */

/*
 * message(comm, is_send, x, peer, tag): coll_isend or coll_irecv.  Messages have no place in the order of streams, so the
 * call waits for the work that fills device memory.
 */
PyObject *core_message(PyObject *module, PyObject *const *argv, Py_ssize_t argc)
{
	const struct comm *comm = comm_read(argv[0]);
	const int is_send = PyObject_IsTrue(argv[1]), peer = (int)PyLong_AsLong(argv[3]);
	const int32_t tag = (int32_t)PyLong_AsUnsignedLongMask(argv[4]);
	coll_request_t handle = NULL;
	struct kept kept = {0};
	struct array *a = &kept.in;
	struct outcome outcome;

	(void)module;
	(void)argc;
	request_reap();
	if (!comm || PyErr_Occurred() ||
	    array_take(a, argv[2], !is_send, NULL, is_send ? "isend: x" : "irecv: x") ||
	    array_await(a, comm->handle, 1)) {
		kept_release(&kept);
		return NULL;
	}
	if (is_send)
		WITHOUT_GIL(&outcome, coll_isend(a->data, a->count, a->dtype, peer, tag,
						 comm->handle, &handle));
	else
		WITHOUT_GIL(&outcome, coll_irecv(a->data, a->count, a->dtype, peer, tag,
						 comm->handle, &handle));
	if (outcome.code) {
		kept_release(&kept);
		return outcome_raise(&outcome, comm->handle);
	}
	kept.result = argv[2];
	Py_INCREF(kept.result);
	return request_make(request_class, handle, comm->handle, &kept, REQUEST_MESSAGE);
}

/* reduce_local(x, inout, op, comm): inout[i] = x[i] op inout[i]. */
PyObject *core_reduce_local(PyObject *module, PyObject *const *argv, Py_ssize_t argc)
{
	struct outcome outcome = {0};
	struct kept kept = {0};
	coll_comm_t comm;
	coll_op_t op;
	int failed;

	(void)module;
	(void)argc;
	failed = !to_handle(argv[3], &comm) || op_code(argv[2], &op) ||
		 array_take(&kept.in, argv[0], 0, NULL, "reduce_local: x") ||
		 array_take(&kept.out, argv[1], 1, NULL, "reduce_local: inout");
	if (!failed && (kept.in.dtype != kept.out.dtype || kept.in.count != kept.out.count)) {
		PyErr_SetString(core_invalid_argument,
				"reduce_local: x and inout have the same type and length");
		failed = 1;
	}
	if (!failed)
		WITHOUT_GIL(&outcome, coll_reduce_local(kept.in.data, kept.out.data, kept.in.count,
							kept.in.dtype, op, comm));
	kept_release(&kept);
	if (failed || op_check(argv[2]))
		return NULL;
	return outcome_none(&outcome, NULL);
}
