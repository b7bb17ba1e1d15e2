/* SPDX-License-Identifier: BSD-3-Clause */
/* comm.c - communicators: making, asking, ending; the exchange function of a Python program. */
#include "core.h"

#include <stdlib.h>
#include <string.h>

PyTypeObject *comm_type;

/* ---- options ---- */

static const char *text_of(PyObject *bytes)
{
	return bytes == Py_None ? NULL : PyBytes_AsString(bytes);
}

int config_read(PyObject *tuple, coll_config_t *config, const char ***options)
{
	PyObject *backend, *path, *file, *interface, *list;
	long long timeout, init_timeout;
	int device;

	coll_config_init(config, sizeof(*config));
	*options = NULL;
	if (!PyArg_ParseTuple(tuple, "OOOOLLiO", &backend, &path, &file, &interface, &timeout,
			      &init_timeout, &device, &list))
		return -1;
	*options = calloc((size_t)PyList_Size(list) + 1, sizeof(**options));
	if (!*options) {
		PyErr_NoMemory();
		return -1;
	}
	for (Py_ssize_t i = 0; i < PyList_Size(list); i++)
		(*options)[i] = PyBytes_AsString(PyList_GetItem(list, i));
	config->backend = text_of(backend);
	config->plugin_path = text_of(path);
	config->config_file = text_of(file);
	config->interface_name = text_of(interface);
	config->timeout_ms = timeout;
	config->init_timeout_ms = init_timeout;
	config->device = device;
	config->options = *options;
	return 0;
}

/* ---- the exchange function of a Python program ---- */

struct exchange {
	PyObject *function; /* function(bytes, seconds) returns the bytes of all ranks in one */
	int nranks;
};

static int exchange_take(PyObject *all, void *out, size_t bytes)
{
	char *data;
	Py_ssize_t length;

	if (!all || PyBytes_AsStringAndSize(all, &data, &length))
		return 1;
	if ((size_t)length != bytes)
		return 1;
	memcpy(out, data, bytes);
	return 0;
}

/* The function keeps its exception itself, for the call that the library fails. */
static int32_t exchange_call(void *user, const void *in, void *out, size_t len, int64_t timeout_ms)
{
	const PyGILState_STATE state = PyGILState_Ensure();
	const struct exchange *exchange = user;
	PyObject *all;
	int failed;

	core_inside++;
	all = PyObject_CallFunction(exchange->function, "y#d", (const char *)in, (Py_ssize_t)len,
				    (double)timeout_ms / 1000);
	failed = exchange_take(all, out, len * (size_t)exchange->nranks);
	PyErr_Clear();
	Py_XDECREF(all);
	core_inside--;
	PyGILState_Release(state);
	return failed;
}

/* ---- making ---- */

/* Returns the handle as an integer, or raises. */
static PyObject *made(struct outcome *outcome, coll_comm_t comm)
{
	return outcome->code ? outcome_raise(outcome, NULL) : PyLong_FromVoidPtr((void *)comm);
}

/* The numbers of a list; the caller frees them.  NULL with an exception. */
static int32_t *ints_read(PyObject *list, int32_t *n)
{
	int32_t *ints = calloc((size_t)PyList_Size(list) + 1, sizeof(*ints));

	*n = (int32_t)PyList_Size(list);
	if (!ints)
		PyErr_NoMemory();
	for (int32_t i = 0; ints && i < *n; i++)
		ints[i] = (int32_t)PyLong_AsLong(PyList_GetItem(list, i));
	if (!PyErr_Occurred())
		return ints;
	free(ints);
	return NULL;
}

static PyObject *core_init_env(PyObject *module, PyObject *tuple)
{
	struct outcome outcome = {0};
	const char **options;
	coll_config_t config;
	coll_comm_t comm;
	PyObject *result = NULL;

	(void)module;
	if (!config_read(tuple, &config, &options)) {
		WITHOUT_GIL(&outcome, coll_comm_init_env(&comm, &config));
		result = made(&outcome, comm);
	}
	free(options);
	return result;
}

/* init_rank(size, id, rank, config) */
static PyObject *core_init_rank(PyObject *module, PyObject *args)
{
	struct outcome outcome = {0};
	const char **options = NULL;
	PyObject *tuple, *result = NULL;
	coll_config_t config;
	coll_comm_t comm;
	const char *id;
	int size, rank;

	(void)module;
	if (!PyArg_ParseTuple(args, "isiO", &size, &id, &rank, &tuple))
		return NULL;
	if (!config_read(tuple, &config, &options)) {
		WITHOUT_GIL(&outcome, coll_comm_init_rank(&comm, size, id, rank, &config));
		result = made(&outcome, comm);
	}
	free(options);
	return result;
}

/* init_exchange(size, rank, function, config): the library may call the function until the process ends. */
static PyObject *core_init_exchange(PyObject *module, PyObject *args)
{
	struct outcome outcome = {0};
	const char **options = NULL;
	PyObject *tuple, *function, *result = NULL;
	struct exchange *exchange;
	coll_config_t config;
	coll_comm_t comm;
	int size, rank;

	(void)module;
	if (!PyArg_ParseTuple(args, "iiOO", &size, &rank, &function, &tuple))
		return NULL;
	exchange = malloc(sizeof(*exchange));
	if (!exchange)
		return PyErr_NoMemory();
	*exchange = (struct exchange){.function = function, .nranks = size};
	Py_INCREF(function);
	if (!config_read(tuple, &config, &options)) {
		WITHOUT_GIL(&outcome, coll_comm_init_exchange(&comm, size, rank, exchange_call,
							      exchange, &config));
		result = made(&outcome, comm);
	}
	free(options);
	if (!result) {
		Py_DECREF(function);
		free(exchange);
	}
	return result;
}

/* A list of n handles. */
static PyObject *handles_list(const coll_comm_t *comms, int n)
{
	PyObject *list = PyList_New(0);

	for (int i = 0; list && i < n; i++) {
		PyObject *handle = PyLong_FromVoidPtr((void *)comms[i]);

		(void)PyList_Append(list, handle);
		Py_XDECREF(handle);
	}
	return list;
}

/* init_all(size, list of devices, config): without devices the list is empty. */
static PyObject *core_init_all(PyObject *module, PyObject *args)
{
	PyObject *list, *tuple, *result = NULL;
	const char **options = NULL;
	struct outcome outcome;
	coll_config_t config;
	coll_comm_t *comms;
	int32_t *devices, n;
	int size;

	(void)module;
	if (!PyArg_ParseTuple(args, "iOO", &size, &list, &tuple))
		return NULL;
	devices = ints_read(list, &n);
	comms = calloc(size > 0 ? (size_t)size : 1, sizeof(*comms));
	if (devices && comms && !config_read(tuple, &config, &options)) {
		WITHOUT_GIL(&outcome, coll_comm_init_all(comms, size, n ? devices : NULL, &config));
		result = outcome.code ? outcome_raise(&outcome, NULL) : handles_list(comms, size);
	}
	free(options);
	free(devices);
	free(comms);
	return result || PyErr_Occurred() ? result : PyErr_NoMemory();
}

static PyObject *core_unique_id(PyObject *module, PyObject *none)
{
	char id[COLL_UNIQUE_ID_SIZE];
	struct outcome outcome;

	(void)module;
	(void)none;
	WITHOUT_GIL(&outcome, coll_get_unique_id(id, sizeof(id)));
	return outcome.code ? outcome_raise(&outcome, NULL) : PyUnicode_FromString(id);
}

static PyObject *core_launch_info(PyObject *module, PyObject *none)
{
	int32_t rank, size, local_rank, local_size;
	struct outcome outcome;

	(void)module;
	(void)none;
	WITHOUT_GIL(&outcome, coll_get_launch_info(&rank, &size, &local_rank, &local_size));
	if (outcome.code)
		return outcome_raise(&outcome, NULL);
	return Py_BuildValue("iiii", rank, size, local_rank, local_size);
}

/* ---- derived communicators ---- */

/* split(comm, color, key, timeout_ms) */
static PyObject *core_split(PyObject *module, PyObject *args)
{
	coll_config_t config;
	struct outcome outcome;
	coll_comm_t comm, part;
	long long timeout;
	int color, key;

	(void)module;
	coll_config_init(&config, sizeof(config));
	if (!PyArg_ParseTuple(args, "O&iiL", to_handle, &comm, &color, &key, &timeout))
		return NULL;
	config.timeout_ms = timeout;
	WITHOUT_GIL(&outcome, coll_comm_split(comm, color, key, &part, &config));
	return outcome.code ? outcome_raise(&outcome, comm) : made(&outcome, part);
}

static PyObject *core_dup(PyObject *module, PyObject *handle)
{
	struct outcome outcome;
	coll_comm_t comm, made_comm;

	(void)module;
	if (!to_handle(handle, &comm))
		return NULL;
	WITHOUT_GIL(&outcome, coll_comm_dup(comm, &made_comm));
	return outcome.code ? outcome_raise(&outcome, comm) : made(&outcome, made_comm);
}

/* isplit(comm, color, key, timeout_ms, class): a request of the class; its result is a place, for place_take(). */
static PyObject *core_isplit(PyObject *module, PyObject *args)
{
	PyObject *kind = NULL;
	struct kept kept = {0};
	coll_config_t config;
	struct outcome outcome;
	coll_request_t request;
	coll_comm_t comm, *place;
	long long timeout;
	int color, key;

	(void)module;
	coll_config_init(&config, sizeof(config));
	if (!PyArg_ParseTuple(args, "O&iiLO", to_handle, &comm, &color, &key, &timeout, &kind))
		return NULL;
	/* A request that Python drops writes its place later: such a place is never freed. */
	place = calloc(1, sizeof(*place));
	if (!place)
		return PyErr_NoMemory();
	config.timeout_ms = timeout;
	WITHOUT_GIL(&outcome, coll_comm_isplit(comm, color, key, place, &config, &request));
	if (outcome.code) {
		free(place); /* there is no request that could write it */
		return outcome_raise(&outcome, comm);
	}
	kept.result = PyLong_FromVoidPtr(place);
	return request_make(kind, request, comm, &kept, REQUEST_OPERATION);
}

/* place_take(place): the communicator's handle, 0 if the rank has no colour.  Frees the place. */
static PyObject *core_place_take(PyObject *module, PyObject *place)
{
	coll_comm_t *at, comm;

	(void)module;
	if (!to_handle(place, &at))
		return NULL;
	comm = *at;
	free(at);
	return PyLong_FromVoidPtr((void *)comm);
}

/* shrink(comm, list of ranks, timeout_ms) */
static PyObject *core_shrink(PyObject *module, PyObject *args)
{
	coll_comm_t comm, rest;
	struct outcome outcome;
	coll_config_t config;
	long long timeout;
	int32_t *ranks, n;
	PyObject *list;

	(void)module;
	coll_config_init(&config, sizeof(config));
	if (!PyArg_ParseTuple(args, "O&OL", to_handle, &comm, &list, &timeout))
		return NULL;
	config.timeout_ms = timeout;
	ranks = ints_read(list, &n);
	if (!ranks)
		return NULL;
	WITHOUT_GIL(&outcome, coll_comm_shrink(comm, ranks, n, &rest, &config, 0));
	free(ranks);
	return made(&outcome, rest);
}

/* ---- asking and ending ---- */

static PyObject *core_destroy(PyObject *module, PyObject *handle)
{
	struct outcome outcome;
	coll_comm_t comm;

	(void)module;
	if (!to_handle(handle, &comm))
		return NULL;
	WITHOUT_GIL(&outcome, coll_comm_destroy(comm));
	request_reap();
	return outcome_none(&outcome, NULL);
}

static PyObject *core_abort(PyObject *module, PyObject *handle)
{
	struct outcome outcome;
	coll_comm_t comm;

	(void)module;
	if (!to_handle(handle, &comm))
		return NULL;
	WITHOUT_GIL(&outcome, coll_comm_abort(comm));
	return outcome_none(&outcome, NULL);
}

static PyObject *core_sync(PyObject *module, PyObject *handle)
{
	struct outcome outcome;
	coll_comm_t comm;

	(void)module;
	if (!to_handle(handle, &comm))
		return NULL;
	WITHOUT_GIL(&outcome, coll_sync(comm));
	request_reap();
	return outcome_none(&outcome, comm);
}

static coll_result_t async_error(coll_comm_t comm, coll_result_t *error, char **text)
{
	const coll_result_t code = coll_comm_get_async_error(comm, error);

	*text = code ? NULL : strdup(coll_get_last_error(comm));
	return code;
}

/* async_error(comm): (code, text) */
static PyObject *core_async_error(PyObject *module, PyObject *handle)
{
	coll_result_t error = COLL_SUCCESS;
	struct outcome outcome;
	coll_comm_t comm;
	PyObject *result;
	char *text;

	(void)module;
	if (!to_handle(handle, &comm))
		return NULL;
	WITHOUT_GIL(&outcome, async_error(comm, &error, &text));
	if (outcome.code)
		return outcome_raise(&outcome, NULL);
	result = Py_BuildValue("iN", error, core_text(text ? text : ""));
	free(text);
	return result;
}

/* failed(comm): the list of lost ranks; empty if the handle is not valid. */
static PyObject *core_failed(PyObject *module, PyObject *handle)
{
	int32_t ranks[1024], count = 0;
	struct outcome outcome;
	coll_comm_t comm;
	PyObject *list;

	(void)module;
	if (!to_handle(handle, &comm))
		return NULL;
	WITHOUT_GIL(&outcome, coll_comm_get_failed(comm, ranks, 1024, &count));
	free(outcome.text);
	list = PyList_New(0);
	for (int i = 0; list && !outcome.code && i < count && i < 1024; i++) {
		PyObject *rank = PyLong_FromLong(ranks[i]);

		(void)PyList_Append(list, rank);
		Py_XDECREF(rank);
	}
	return list;
}

static PyObject *core_set_timeout(PyObject *module, PyObject *args)
{
	struct outcome outcome;
	coll_comm_t comm;
	long long timeout;

	(void)module;
	if (!PyArg_ParseTuple(args, "O&L", to_handle, &comm, &timeout))
		return NULL;
	WITHOUT_GIL(&outcome, coll_comm_set_timeout(comm, timeout));
	return outcome_none(&outcome, NULL);
}

static PyObject *core_members(PyObject *module, PyObject *object)
{
	const struct comm *comm = (const struct comm *)object;
	int32_t *ranks = calloc((size_t)comm->size, sizeof(*ranks));
	struct outcome outcome = {.code = COLL_ERR_NO_MEMORY};
	PyObject *list = NULL;

	(void)module;
	if (ranks)
		WITHOUT_GIL(&outcome, coll_comm_members(comm->handle, ranks));
	if (!outcome.code)
		list = PyList_New(0);
	for (int i = 0; list && i < comm->size; i++) {
		PyObject *rank = PyLong_FromLong(ranks[i]);

		(void)PyList_Append(list, rank);
		Py_XDECREF(rank);
	}
	free(ranks);
	return outcome.code ? outcome_raise(&outcome, NULL) : list;
}

/* describe(comm): (backend, device, native handle or None) */
static PyObject *core_describe(PyObject *module, PyObject *handle)
{
	coll_comm_t comm;
	struct outcome outcome, native;
	const char *backend = "";
	int32_t device = -1;
	void *object = NULL;

	(void)module;
	if (!to_handle(handle, &comm))
		return NULL;
	WITHOUT_GIL(&outcome, coll_comm_backend(comm, &backend));
	if (!outcome.code)
		WITHOUT_GIL(&outcome, coll_comm_device(comm, &device));
	if (outcome.code)
		return outcome_raise(&outcome, NULL);
	WITHOUT_GIL(&native, coll_comm_native_handle(comm, &object));
	free(native.text);
	if (native.code)
		return Py_BuildValue("siO", backend, device, Py_None);
	return Py_BuildValue("siN", backend, device, PyLong_FromVoidPtr(object));
}

/* probe(comm, peer, tag, blocking): (source, tag, bytes, dtype), or None. */
static PyObject *core_probe(PyObject *module, PyObject *args)
{
	coll_status_t s = {.size = sizeof(s)};
	struct outcome outcome;
	int peer, blocking, tag;
	int32_t found = 1;
	coll_comm_t comm;

	(void)module;
	if (!PyArg_ParseTuple(args, "O&iii", to_handle, &comm, &peer, &tag, &blocking))
		return NULL;
	if (blocking)
		WITHOUT_GIL(&outcome, coll_probe(peer, tag, comm, &s));
	else
		WITHOUT_GIL(&outcome, coll_iprobe(peer, tag, comm, &found, &s));
	if (outcome.code)
		return outcome_raise(&outcome, comm);
	if (!found)
		Py_RETURN_NONE;
	return Py_BuildValue("iiKi", s.source, s.tag, (unsigned long long)s.bytes, s.dtype);
}

static PyObject *buckets_tuple(const coll_counters_t *counters)
{
	PyObject *tuple = PyTuple_New(COLL_COUNTER_BUCKETS);

	for (int i = 0; tuple && i < COLL_COUNTER_BUCKETS; i++) {
		PyObject *calls = PyLong_FromUnsignedLongLong(counters->bucket[i]);

		if (!calls || PyTuple_SetItem(tuple, i, calls))
			Py_CLEAR(tuple);
	}
	return tuple;
}

/* counters(comm, kind, rank): the counters of coll_counters_t in their order, the buckets as a tuple. */
static PyObject *core_counters(PyObject *module, PyObject *args)
{
	coll_counters_t c = {.size = sizeof(c)};
	struct outcome outcome;
	coll_comm_t comm;

	(void)module;
	if (!PyArg_ParseTuple(args, "O&ii", to_handle, &comm, &c.kind, &c.rank))
		return NULL;
	WITHOUT_GIL(&outcome, coll_get_counters(comm, &c));
	if (outcome.code)
		return outcome_raise(&outcome, NULL);
	return Py_BuildValue(
		"(KKKKKNKKKKKKKKKKK)", (unsigned long long)c.calls, (unsigned long long)c.bytes,
		(unsigned long long)c.ended, (unsigned long long)c.latency_ns,
		(unsigned long long)c.waited_ns, buckets_tuple(&c), (unsigned long long)c.stalls,
		(unsigned long long)c.staged, (unsigned long long)c.unexpected,
		(unsigned long long)c.unexpected_bytes, (unsigned long long)c.unexpected_now,
		(unsigned long long)c.unexpected_memory,
		(unsigned long long)c.unexpected_memory_most, (unsigned long long)c.staged_bytes,
		(unsigned long long)c.last_waits, (unsigned long long)c.last_ns,
		(unsigned long long)c.behind);
}

PyMethodDef comm_methods[] = {{"init_env", core_init_env, METH_O, NULL},
			      {"init_rank", core_init_rank, METH_VARARGS, NULL},
			      {"init_exchange", core_init_exchange, METH_VARARGS, NULL},
			      {"init_all", core_init_all, METH_VARARGS, NULL},
			      {"unique_id", core_unique_id, METH_NOARGS, NULL},
			      {"launch_info", core_launch_info, METH_NOARGS, NULL},
			      {"split", core_split, METH_VARARGS, NULL},
			      {"dup", core_dup, METH_O, NULL},
			      {"isplit", core_isplit, METH_VARARGS, NULL},
			      {"place_take", core_place_take, METH_O, NULL},
			      {"shrink", core_shrink, METH_VARARGS, NULL},
			      {"destroy", core_destroy, METH_O, NULL},
			      {"abort", core_abort, METH_O, NULL},
			      {"sync", core_sync, METH_O, NULL},
			      {"async_error", core_async_error, METH_O, NULL},
			      {"failed", core_failed, METH_O, NULL},
			      {"set_timeout", core_set_timeout, METH_VARARGS, NULL},
			      {"members", core_members, METH_O, NULL},
			      {"describe", core_describe, METH_O, NULL},
			      {"counters", core_counters, METH_VARARGS, NULL},
			      {"probe", core_probe, METH_VARARGS, NULL},
			      {0}};

/* ---- the type ---- */

static PyObject *comm_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
	allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
	struct outcome outcome;
	coll_comm_t handle;
	struct comm *comm;
	int32_t rank = 0, size = 0;
	PyObject *name = NULL;
	unsigned int tag = 0;
	int way = WAY_WAIT;

	(void)keywords;
	if (!PyArg_ParseTuple(args, "O&|iSI", to_handle, &handle, &way, &name, &tag))
		return NULL;
	WITHOUT_GIL(&outcome, coll_comm_user_rank(handle, &rank));
	if (!outcome.code)
		WITHOUT_GIL(&outcome, coll_comm_count(handle, &size));
	if (outcome.code)
		return outcome_raise(&outcome, NULL);
	comm = (struct comm *)alloc(type, 0);
	if (!comm)
		return NULL;
	comm->handle = handle;
	comm->rank = rank;
	comm->size = size;
	comm->way = way;
	comm->tag = tag;
	comm->algorithm_name = name;
	Py_XINCREF(name);
	if (name && PyBytes_Size(name))
		comm->algorithm = PyBytes_AsString(name);
	return (PyObject *)comm;
}

static PyObject *comm_handle(PyObject *self, void *closure)
{
	(void)closure;
	return PyLong_FromVoidPtr((void *)((struct comm *)self)->handle);
}

static void comm_dealloc(PyObject *self)
{
	PyTypeObject *type = Py_TYPE(self);
	freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);

	Py_CLEAR(((struct comm *)self)->algorithm_name);
	free_object(self);
	Py_DECREF(type);
}

PyObject *comm_type_make(void)
{
	static PyMemberDef members[] = {
		{"rank", T_INT, offsetof(struct comm, rank), READONLY, "This rank, from 0."},
		{"size", T_INT, offsetof(struct comm, size), READONLY, "The number of ranks."},
		{0}};
	static PyGetSetDef getters[] = {{"handle", comm_handle, NULL, "The coll_comm_t.", NULL},
					{0}};
	static PyType_Slot slots[] = {{Py_tp_new, (void *)comm_new},
				      {Py_tp_dealloc, (void *)comm_dealloc},
				      {Py_tp_members, members},
				      {Py_tp_getset, getters},
				      {0, NULL}};
	static PyType_Spec spec = {"coll._core.Comm", sizeof(struct comm), 0,
				   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE, slots};

	comm_type = (PyTypeObject *)PyType_FromSpec(&spec);
	return (PyObject *)comm_type;
}
