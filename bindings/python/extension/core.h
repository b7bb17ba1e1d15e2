/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * core.h - the module coll._core: what the Python package needs of libcoll in C.
 *
 *   module.c    the table of the module's functions, and its constants
 *   error.c     a failed call becomes a Python exception
 *   array.c     any array of Python: memory, type and number of elements
 *   call.c      one collective or message, from Python's arguments to its request
 *   request.c   requests, and memory that lives until its operation is complete
 *   comm.c      communicators: making, asking, ending; the exchange function of a Python program
 *   op.c        reductions of a Python program
 *   memory.c    memory of coll_mem_alloc
 *   event.c     events, groups and registered memory
 *   info.c      the picture of backends, options and rules
 *
 * Two laws hold for every function here.
 *
 * GIL        A call into libcoll is made without the GIL, but for calls that only look at a table.  A thread of the library
 *            may hold a lock of the library while it takes the GIL for a reduction of the program; a thread that waits for
 *            that lock must not have the GIL.
 * Callbacks  Inside a function that libcoll calls (core_inside is not 0) nothing calls libcoll.  The garbage collector may
 *            run there and free a request or memory: that then waits in a list until the next call.
 */
#ifndef COLL_PYTHON_CORE_H
#define COLL_PYTHON_CORE_H

#include "abi.h"

#include <coll/coll.h>

/* ---- error.c ---- */

/* The result of a call into libcoll, with the text that the library keeps until the thread's next call. */
struct outcome {
	coll_result_t code;
	char *text; /* malloc; NULL if there is none */
};

/* The classes of coll/_errors.py: coll.InvalidArgument, and the function that makes an exception of a code. */
extern PyObject *core_invalid_argument, *core_make_error;

/* A text of the library, which may name files and options in any encoding; NULL becomes None. */
PyObject *core_text(const char *text);

/* Copies the text of the call that has just failed; COLL_IN_PROGRESS is no failure. */
void outcome_set(struct outcome *outcome, coll_result_t code);

/* Raises the outcome's error, which names the lost ranks of `comm` unless it is NULL.  Frees the text.  Returns NULL. */
PyObject *outcome_raise(struct outcome *outcome, coll_comm_t comm);

/* Returns None, or raises. */
PyObject *outcome_none(struct outcome *outcome, coll_comm_t comm);

/* Makes `call` without the GIL. */
#define WITHOUT_GIL(outcome, call)                                                                 \
	do {                                                                                       \
		PyThreadState *state = PyEval_SaveThread();                                        \
		outcome_set((outcome), (call));                                                    \
		PyEval_RestoreThread(state);                                                       \
	} while (0)

/* How many functions of the program are running that libcoll has called on this thread. */
extern _Thread_local int core_inside;

/*
 * Converters for PyArg_ParseTuple's "O&": *place becomes a pointer.  They return 1, or 0 with an exception.
 *
 * to_handle   Handles travel through Python as integers.
 * to_stream   A stream: None, an address, or an object of PyTorch (cuda_stream) or CuPy (ptr).
 */
int to_handle(PyObject *object, void *place);
int to_stream(PyObject *object, void *place);

/* ---- array.c ---- */

struct array {
	void *data;
	size_t count; /* elements */
	coll_dtype_t dtype;
	int on_device;
	coll_stream_t ready; /* on_device: work of this stream fills the memory; NULL: none does */
	Py_buffer view;      /* view.obj is NULL if the memory came another way */
	PyObject *owner;     /* keeps the memory then */
};

/*
 * Takes the memory of `object`.  `what` begins the sentences: "allreduce: x".  `stream` is the stream on which the caller
 * wants the memory ready, or NULL.  Returns 0, or -1 with an exception.
 */
int array_take(struct array *array, PyObject *object, int writable, coll_stream_t stream,
	       const char *what);

/* Gives the memory back.  May be called again. */
void array_release(struct array *array);

/* coll._core.View: the memory of an object as elements of a type that its own type cannot say. */
PyObject *view_type_make(void);

/* dtype_of(object): the type of the elements as a number.  nbytes_of(object). */
PyObject *core_array_info(PyObject *module, PyObject *object);

/* ---- comm.c ---- */

/* How the calls of a struct comm end. */
enum { WAY_WAIT, WAY_START, WAY_PREPARE };

/* coll._core.Comm, the base of coll.Comm, and of comm.start, comm.prepare and comm.using(). */
struct comm {
	PyObject_HEAD coll_comm_t handle;
	int rank, size, way;
	const char *algorithm; /* of comm.using(): of `algorithm_name`; NULL: the rules choose */
	PyObject *algorithm_name;
	unsigned int tag; /* of collectives, for the record */
};

/*
 * Reads (backend, plugin_path, config_file, interface, timeout_ms, init_timeout_ms, device, options): bytes or None, numbers,
 * and a list of bytes.  The caller frees *options, also after an error.
 */
int config_read(PyObject *tuple, coll_config_t *config, const char ***options);

extern PyTypeObject *comm_type;
PyObject *comm_type_make(void);
extern PyMethodDef comm_methods[];

/* ---- op.c ---- */

/* coll._core.Op, the base of coll.Op. */
struct op {
	PyObject_HEAD coll_op_t code;
	coll_comm_t comm;   /* NULL: valid on all communicators */
	PyObject *function; /* function(left, inout, dtype); NULL: none */
	PyObject *error;    /* the first exception of the function: every later wait raises it */
};

PyObject *op_type_make(void);
extern PyMethodDef op_methods[];

/* The operation of a number, a name or an Op; -1 with an exception. */
int op_code(PyObject *object, coll_op_t *code);

/*
 * Raises the exception that the function of `object` left, if it is an Op that has one.  Nobody knows which of the calls under
 * way has lost its data, so the exception stays.
 */
int op_check(PyObject *object);

/* The names of operations: set by core_setup. */
extern PyObject *op_names;

/* ---- request.c ---- */

enum request_kind {
	REQUEST_OPERATION,
	REQUEST_PERSISTENT, /* of coll_request_init */
	REQUEST_MESSAGE,    /* of coll_isend and coll_irecv */
};

/* Memory and objects that live until an operation is complete. */
struct kept {
	struct array in, out;
	PyObject *result; /* what wait() returns */
	PyObject *op;     /* an Op, or NULL */
};

void kept_release(struct kept *kept);

/* Frees a request whose operation may still be under way; the memory lives until it is complete.  *kept becomes empty. */
void request_abandon(coll_request_t handle, struct kept *kept);

/* Makes a request of a class; *kept moves there. */
PyObject *request_make(PyObject *kind, coll_request_t handle, coll_comm_t comm, struct kept *kept,
		       enum request_kind request_kind);

/* Waits for a request in slices, so that signals are handled.  Returns -1 with an exception if a handler raised. */
int request_wait(coll_request_t handle, int64_t limit_ms, int message, struct outcome *outcome);

/* Frees the memory of abandoned operations that are complete. */
void request_reap(void);

enum { WAIT_SLICE_MS = 100 };

PyObject *request_type_make(void);
extern PyObject *request_class; /* coll.Request */
extern PyMethodDef request_methods[];

/* Frees memory of coll_mem_alloc; inside a callback, where nothing may call libcoll, later. */
void request_free_memory(void *data);

/* ---- memory.c ---- */

/* coll._core.Memory: memory of coll_mem_alloc, which is freed with the object. */
PyObject *memory_type_make(void);

/* ---- call.c, event.c, info.c ---- */

/*
 * After the work that fills device memory comes the communicator's next call, or, if `now` is 1, the end of this function.
 * Returns 0, or -1 with an exception.
 */
int array_await(const struct array *array, coll_comm_t comm, int now);

PyObject *core_run(PyObject *module, PyObject *const *argv, Py_ssize_t argc);
PyObject *core_message(PyObject *module, PyObject *const *argv, Py_ssize_t argc);
PyObject *core_reduce_local(PyObject *module, PyObject *const *argv, Py_ssize_t argc);

/* caller_line() of coll/_arrays.py. */
extern PyObject *core_caller_line;

/* The list that collects the requests of this thread's open group, or NULL. */
extern _Thread_local PyObject *group_requests;

extern PyMethodDef event_methods[], info_methods[];

#endif
