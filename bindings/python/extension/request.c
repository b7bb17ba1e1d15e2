/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * request.c - requests, and memory that lives until its operation is complete.
 *
 * A Request holds the arrays of its operation.  If Python drops it earlier, the arrays move to a node, which libcoll's
 * callback puts on a stack when the operation is over; the next call frees what lies there.  The callback takes no GIL.
 */
#include "core.h"

#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct request {
	PyObject_HEAD coll_request_t handle;
	coll_comm_t comm;
	struct kept kept;
	PyObject *error;
	enum request_kind kind;
	char done; /* the operation is over, and this object knows */
	char idle; /* no operation can be under way */
};

/* An object for which a thread of libcoll, or a garbage collector inside a callback, has a message. */
struct node {
	struct node *next;
	PyObject *object;
	coll_request_t handle; /* in `deferred`: to be freed */
	int idle;              /* in `deferred`: no operation is under way */
	void *memory;          /* in `deferred`, instead of a handle: memory of coll_mem_alloc */
};

static _Atomic(struct node *) finished; /* operations that are over: their memory */
static _Atomic(struct node *) deferred; /* requests and memory dropped inside a callback */
static _Atomic(struct node *) watched;  /* operations that are over: their Requests */
static atomic_int wake_fd = -1;         /* becomes readable when `watched` is not empty */

static PyTypeObject *request_type;
PyObject *request_class;

/* ---- stacks ---- */

static void push(_Atomic(struct node *) *stack, struct node *node)
{
	node->next = atomic_load(stack);
	while (!atomic_compare_exchange_weak(stack, &node->next, node))
		;
}

/* Takes all nodes, the oldest first. */
static struct node *take_all(_Atomic(struct node *) *stack)
{
	struct node *node = atomic_exchange(stack, NULL), *first = NULL;

	while (node) {
		struct node *next = node->next;

		node->next = first;
		first = node;
		node = next;
	}
	return first;
}

static void node_finished(void *user, coll_result_t result)
{
	(void)result;
	push(&finished, user);
}

static void node_watched(void *user, coll_result_t result)
{
	const uint64_t one = 1;

	(void)result;
	push(&watched, user);
	while (write(atomic_load(&wake_fd), &one, sizeof(one)) < 0 && errno == EINTR)
		;
}

/* ---- memory ---- */

void kept_release(struct kept *kept)
{
	array_release(&kept->in);
	array_release(&kept->out);
	Py_CLEAR(kept->result);
	Py_CLEAR(kept->op);
}

static void capsule_release(PyObject *capsule)
{
	struct kept *kept = PyCapsule_GetPointer(capsule, NULL);

	kept_release(kept);
	free(kept);
}

/* Moves *kept to an object of its own.  Without memory the arrays stay for ever, which is safe. */
static struct node *node_make(struct kept *kept)
{
	struct node *node = calloc(1, sizeof(*node));
	struct kept *copy = malloc(sizeof(*copy));

	if (node && copy) {
		*copy = *kept;
		*kept = (struct kept){0};
		node->object = PyCapsule_New(copy, NULL, capsule_release);
		return node;
	}
	free(node);
	free(copy);
	*kept = (struct kept){0};
	return NULL;
}

/*
 * Frees a request.  The node, unless it is NULL, is finished when the operation is over.  If the library cannot report that
 * (no memory, or a thread keeps the connections), the arrays stay for ever, which is safe.
 */
static void node_settle(struct node *node, coll_request_t handle)
{
	PyThreadState *state = PyEval_SaveThread();
	coll_result_t code = COLL_SUCCESS;

	if (node)
		code = coll_request_set_callback(handle, node_finished, node);
	if (code == COLL_ERR_INVALID_ARGUMENT) /* the communicator has ended, and its requests */
		push(&finished, node);
	(void)coll_request_free(handle);
	PyEval_RestoreThread(state);
}

/* Frees a request inside a callback, where nothing may call libcoll: later. */
static void request_defer(coll_request_t handle, struct kept *kept, int idle)
{
	struct node *node = node_make(kept);

	if (!node)
		return;
	node->handle = handle;
	node->idle = idle;
	push(&deferred, node);
}

void request_abandon(coll_request_t handle, struct kept *kept)
{
	if (core_inside)
		request_defer(handle, kept, 0);
	else
		node_settle(node_make(kept), handle);
}

void request_free_memory(void *data)
{
	PyThreadState *state;
	struct node *node;

	if (!core_inside) {
		state = PyEval_SaveThread();
		(void)coll_mem_free(data); /* a child process has not the memory of its parent */
		PyEval_RestoreThread(state);
		return;
	}
	node = calloc(1, sizeof(*node));
	if (!node)
		return; /* the memory stays, which is safe */
	node->memory = data;
	push(&deferred, node);
}

static void reap_deferred(void)
{
	struct node *node = take_all(&deferred);

	while (node) {
		struct node *next = node->next;

		if (node->memory)
			request_free_memory(node->memory);
		else
			node_settle(node->idle ? NULL : node, node->handle);
		if (node->memory || node->idle)
			push(&finished, node);
		node = next;
	}
}

void request_reap(void)
{
	struct node *node;

	if (core_inside)
		return;
	if (atomic_load(&deferred))
		reap_deferred();
	node = atomic_load(&finished) ? take_all(&finished) : NULL;
	while (node) {
		struct node *next = node->next;

		Py_XDECREF(node->object);
		free(node);
		node = next;
	}
}

/* ---- waiting ---- */

int request_wait(coll_request_t handle, int64_t limit_ms, int message, struct outcome *outcome)
{
	/* coll_wait_for of limited time never ends a message's wait after `timeout`: such a wait is one slice. */
	const int64_t whole = message && limit_ms < 0 ? -1 : WAIT_SLICE_MS;
	int64_t left = limit_ms, slice;

	for (;;) {
		slice = left >= 0 && left < whole ? left : whole;
		WITHOUT_GIL(outcome, coll_wait_for(handle, slice));
		if (outcome->code != COLL_IN_PROGRESS)
			return 0;
		if (PyErr_CheckSignals())
			return -1;
		if (left >= 0 && (left -= slice) <= 0)
			return 0;
	}
}

/* ---- Request ---- */

PyObject *request_make(PyObject *kind, coll_request_t handle, coll_comm_t comm, struct kept *kept,
		       enum request_kind request_kind)
{
	PyObject *object = PyObject_CallObject(kind, NULL);
	struct request *r = (struct request *)object;

	if (!object) {
		request_abandon(handle, kept);
		return NULL;
	}
	r->handle = handle;
	r->comm = comm;
	r->kept = *kept;
	*kept = (struct kept){0};
	r->kind = request_kind;
	r->idle = request_kind == REQUEST_PERSISTENT;
	return object;
}

static PyObject *request_raise(const struct request *r)
{
	PyErr_SetObject((PyObject *)Py_TYPE(r->error), r->error);
	return NULL;
}

/*
 * Is the operation over, after a call that has returned an error?  The library also refuses calls: a wait in an open group,
 * every call inside a function that the library runs, or a call while another thread keeps the connections.
 */
static int operation_is_over(coll_request_t handle, coll_comm_t comm)
{
	coll_result_t failure = COLL_SUCCESS, code;
	int32_t done = 0;

	if (core_inside)
		return 0;
	code = coll_test(handle, &done);
	/* The handle is not valid any more once the communicator has ended. */
	if (done || code == COLL_ERR_INVALID_ARGUMENT)
		return 1;
	return !coll_comm_get_async_error(comm, &failure) && failure;
}

/*
 * The operation is over: keeps its error, and gives the arrays back.  Returns -1 with the error raised.  After an error the
 * operation may also go on: then the request stays as it is.
 */
static int request_settle(struct request *r, struct outcome *outcome)
{
	PyObject *type, *error, *trace;
	PyThreadState *state;
	int over = 1;

	if (!r->done && outcome->code) {
		state = PyEval_SaveThread();
		over = operation_is_over(r->handle, r->comm);
		PyEval_RestoreThread(state);
	}
	if (!over) {
		outcome_raise(outcome, r->comm);
		return -1;
	}
	if (!r->done) {
		r->done = r->idle = 1;
		Py_CLEAR(r->error);
		if (outcome->code)
			outcome_raise(outcome, r->comm);
		if (outcome->code || op_check(r->kept.op)) {
			PyErr_Fetch(&type, &error, &trace);
			PyErr_NormalizeException(&type, &error, &trace);
			r->error = error;
			Py_XDECREF(type);
			Py_XDECREF(trace);
		}
		if (r->kind != REQUEST_PERSISTENT) {
			array_release(&r->kept.in);
			array_release(&r->kept.out);
			Py_CLEAR(r->kept.op);
		}
	}
	free(outcome->text);
	if (!r->error)
		return 0;
	request_raise(r);
	return -1;
}

static PyObject *request_wait_method(PyObject *self, PyObject *limit)
{
	struct request *r = (struct request *)self;
	const int64_t limit_ms = PyLong_AsLongLong(limit);
	struct outcome outcome = {0};

	if (limit_ms == -1 && PyErr_Occurred())
		return NULL;
	request_reap();
	if (r->done)
		return r->error ? request_raise(r) : PyBool_FromLong(1);
	if (request_wait(r->handle, limit_ms, r->kind == REQUEST_MESSAGE, &outcome))
		return NULL;
	if (outcome.code == COLL_IN_PROGRESS)
		return PyBool_FromLong(0);
	return request_settle(r, &outcome) ? NULL : PyBool_FromLong(1);
}

static PyObject *request_test_method(PyObject *self, PyObject *none)
{
	struct request *r = (struct request *)self;
	struct outcome outcome = {0};
	int32_t done = 0;

	(void)none;
	request_reap();
	if (r->done)
		return r->error ? request_raise(r) : PyBool_FromLong(1);
	WITHOUT_GIL(&outcome, coll_test(r->handle, &done));
	if (!outcome.code && !done)
		return PyBool_FromLong(0);
	return request_settle(r, &outcome) ? NULL : PyBool_FromLong(1);
}

static PyObject *request_start_method(PyObject *self, PyObject *none)
{
	struct request *r = (struct request *)self;
	struct outcome outcome;

	(void)none;
	request_reap();
	if (array_await(&r->kept.in, r->comm, 0) || array_await(&r->kept.out, r->comm, 0))
		return NULL;
	WITHOUT_GIL(&outcome, coll_request_start(r->handle));
	if (outcome.code)
		return outcome_raise(&outcome, r->comm);
	r->done = r->idle = 0;
	Py_RETURN_NONE;
}

static PyObject *request_cancel_method(PyObject *self, PyObject *none)
{
	struct request *r = (struct request *)self;
	struct outcome outcome;

	(void)none;
	WITHOUT_GIL(&outcome, coll_request_cancel(r->handle));
	return outcome_none(&outcome, NULL);
}

static PyObject *request_set_timeout_method(PyObject *self, PyObject *limit)
{
	struct request *r = (struct request *)self;
	const int64_t limit_ms = PyLong_AsLongLong(limit);
	struct outcome outcome;

	if (limit_ms == -1 && PyErr_Occurred())
		return NULL;
	WITHOUT_GIL(&outcome, coll_request_set_timeout(r->handle, limit_ms));
	return outcome_none(&outcome, NULL);
}

static PyObject *request_status_method(PyObject *self, PyObject *none)
{
	struct request *r = (struct request *)self;
	coll_status_t s = {.size = sizeof(s)};
	struct outcome outcome;

	(void)none;
	WITHOUT_GIL(&outcome, coll_request_get_status(r->handle, &s));
	if (outcome.code)
		return outcome_raise(&outcome, NULL);
	return Py_BuildValue("iiKi", s.source, s.tag, (unsigned long long)s.bytes, s.dtype);
}

/* Has completed() return this request when its operation is over. */
static PyObject *request_watch_method(PyObject *self, PyObject *none)
{
	struct request *r = (struct request *)self;
	struct node *node = calloc(1, sizeof(*node));
	struct outcome outcome;

	(void)none;
	if (!node)
		return PyErr_NoMemory();
	Py_INCREF(self);
	node->object = self;
	WITHOUT_GIL(&outcome, coll_request_set_callback(r->handle, node_watched, node));
	if (outcome.code) {
		Py_DECREF(self);
		free(node);
	}
	return outcome_none(&outcome, NULL);
}

/*
 * For the garbage collector: an error holds the frames in which it was raised, and these hold the request.  The arrays of
 * the operation are no part of a circle: the library uses them.
 */
static int request_traverse(PyObject *self, visitproc visit, void *arg)
{
	Py_VISIT(Py_TYPE(self));
	Py_VISIT(((struct request *)self)->error);
	return 0;
}

static int request_clear(PyObject *self)
{
	Py_CLEAR(((struct request *)self)->error);
	return 0;
}

static void request_dealloc(PyObject *self)
{
	struct request *r = (struct request *)self;
	PyTypeObject *type = Py_TYPE(self);
	freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);

	PyObject_GC_UnTrack(self);
	if (r->handle && core_inside)
		request_defer(r->handle, &r->kept, r->idle);
	else if (r->handle && r->idle)
		node_settle(NULL, r->handle);
	else if (r->handle)
		request_abandon(r->handle, &r->kept);
	kept_release(&r->kept);
	Py_CLEAR(r->error);
	free_object(self);
	Py_DECREF(type);
}

static PyObject *request_comm(PyObject *self, void *closure)
{
	(void)closure;
	return PyLong_FromVoidPtr((void *)((struct request *)self)->comm);
}

PyObject *request_type_make(void)
{
	static PyMethodDef methods[] = {{"_wait", request_wait_method, METH_O, NULL},
					{"_test", request_test_method, METH_NOARGS, NULL},
					{"_start", request_start_method, METH_NOARGS, NULL},
					{"_cancel", request_cancel_method, METH_NOARGS, NULL},
					{"_set_timeout", request_set_timeout_method, METH_O, NULL},
					{"_status", request_status_method, METH_NOARGS, NULL},
					{"_watch", request_watch_method, METH_NOARGS, NULL},
					{0}};
	static PyMemberDef members[] = {
		{"_result", T_OBJECT, offsetof(struct request, kept.result), READONLY, NULL},
		{"_done", T_BOOL, offsetof(struct request, done), READONLY, NULL},
		{0}};
	static PyGetSetDef getters[] = {{"_comm", request_comm, NULL, NULL, NULL}, {0}};
	static PyType_Slot slots[] = {{Py_tp_dealloc, (void *)request_dealloc},
				      {Py_tp_traverse, (void *)request_traverse},
				      {Py_tp_clear, (void *)request_clear},
				      {Py_tp_getset, getters},
				      {Py_tp_methods, methods},
				      {Py_tp_members, members},
				      {0, NULL}};
	static PyType_Spec spec = {"coll._core.Request", sizeof(struct request), 0,
				   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
				   slots};

	request_type = (PyTypeObject *)PyType_FromSpec(&spec);
	return (PyObject *)request_type;
}

/* ---- functions of the module ---- */

/* wake_descriptor(): a new eventfd, which becomes readable when completed() has something to return. */
static PyObject *core_wake_descriptor(PyObject *module, PyObject *none)
{
	const int fd = eventfd(0, EFD_CLOEXEC);

	(void)module;
	(void)none;
	if (fd < 0)
		return PyErr_SetFromErrno(PyExc_OSError);
	atomic_store(&wake_fd, fd);
	return PyLong_FromLong(fd);
}

/* completed(): the watched requests whose operations are over since the last call. */
static PyObject *core_completed(PyObject *module, PyObject *none)
{
	PyObject *list = PyList_New(0);
	struct node *node = list ? take_all(&watched) : NULL;

	(void)module;
	(void)none;
	while (node) {
		struct node *next = node->next;

		(void)PyList_Append(list, node->object);
		Py_DECREF(node->object);
		free(node);
		node = next;
	}
	return list;
}

/* Reads a list of n Requests.  Returns 0, or -1 with an exception. */
static int handles_read(PyObject *list, coll_request_t *handles, Py_ssize_t n)
{
	for (Py_ssize_t i = 0; i < n; i++) {
		PyObject *item = PyList_GetItem(list, i);
		struct request *r = (struct request *)item;

		if (!item || !PyObject_TypeCheck(item, request_type)) {
			PyErr_Format(PyExc_TypeError, "wait_some: requests[%zd] is no Request", i);
			return -1;
		}
		handles[i] = r->done ? NULL : r->handle;
	}
	return 0;
}

/* The first `count` of the indices as a list. */
static PyObject *indices_list(const int32_t *indices, int32_t count)
{
	PyObject *list = PyList_New(0);

	for (int32_t i = 0; list && i < count; i++) {
		PyObject *index = PyLong_FromLong(indices[i]);

		(void)PyList_Append(list, index);
		Py_XDECREF(index);
	}
	return list;
}

/*
 * wait_some(requests, limit_ms): indices of requests that are over; empty if the time is over.  Raises the error of a wait
 * that the library refuses, and no error of a request: each request tells its own.
 */
static PyObject *core_wait_some(PyObject *module, PyObject *args)
{
	struct outcome outcome = {0};
	PyObject *list, *result = NULL;
	int32_t *indices, count = 0;
	coll_request_t *handles;
	long long limit_ms;
	Py_ssize_t n;

	(void)module;
	if (!PyArg_ParseTuple(args, "OL", &list, &limit_ms))
		return NULL;
	n = PyList_Size(list);
	handles = calloc((size_t)n + 1, sizeof(*handles));
	indices = calloc((size_t)n + 1, sizeof(*indices));
	if (!handles || !indices) {
		PyErr_NoMemory();
	} else if (!handles_read(list, handles, n)) {
		WITHOUT_GIL(&outcome,
			    coll_wait_some((int32_t)n, handles, limit_ms, indices, &count));
		if (count || !outcome.code || outcome.code == COLL_IN_PROGRESS)
			result = indices_list(indices, count);
		else
			outcome_raise(&outcome, NULL);
		free(outcome.text);
	}
	free(handles);
	free(indices);
	return result;
}

PyMethodDef request_methods[] = {{"wake_descriptor", core_wake_descriptor, METH_NOARGS, NULL},
				 {"completed", core_completed, METH_NOARGS, NULL},
				 {"wait_some", core_wait_some, METH_VARARGS, NULL},
				 {0}};
