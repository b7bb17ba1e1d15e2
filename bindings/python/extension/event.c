/* SPDX-License-Identifier: BSD-3-Clause */
/* event.c - events, groups and registered memory. */
#include "core.h"

#include <stdlib.h>

/* ---- events ---- */

static PyObject *core_event_create(PyObject *module, PyObject *handle)
{
	struct outcome outcome;
	coll_event_t event;
	coll_comm_t comm;

	(void)module;
	if (!to_handle(handle, &comm))
		return NULL;
	WITHOUT_GIL(&outcome, coll_event_create(comm, &event));
	if (outcome.code)
		return outcome_raise(&outcome, comm);
	return PyLong_FromVoidPtr((void *)event);
}

static PyObject *core_event_destroy(PyObject *module, PyObject *handle)
{
	struct outcome outcome;
	coll_event_t event;

	(void)module;
	if (!to_handle(handle, &event))
		return NULL;
	WITHOUT_GIL(&outcome, coll_event_destroy(event));
	return outcome_none(&outcome, NULL);
}

/* Reads (event, comm, stream); the stream is NULL if it is None. */
static int event_arguments(PyObject *args, coll_event_t *event, coll_comm_t *comm,
			   coll_stream_t *stream)
{
	return PyArg_ParseTuple(args, "O&O&O&", to_handle, event, to_handle, comm, to_stream,
				stream);
}

/* event_record(event, comm, stream): at the end of the communicator's own stream if it is None. */
static PyObject *core_event_record(PyObject *module, PyObject *args)
{
	struct outcome outcome;
	coll_stream_t stream;
	coll_event_t event;
	coll_comm_t comm;

	(void)module;
	if (!event_arguments(args, &event, &comm, &stream))
		return NULL;
	if (stream)
		WITHOUT_GIL(&outcome, coll_event_record_on_stream(event, comm, stream));
	else
		WITHOUT_GIL(&outcome, coll_event_record(event, comm));
	return outcome_none(&outcome, comm);
}

/* event_wait(event, comm, stream): later work of the communicator's stream (None) or of another begins after it. */
static PyObject *core_event_wait(PyObject *module, PyObject *args)
{
	struct outcome outcome;
	coll_stream_t stream;
	coll_event_t event;
	coll_comm_t comm;

	(void)module;
	if (!event_arguments(args, &event, &comm, &stream))
		return NULL;
	if (stream)
		WITHOUT_GIL(&outcome, coll_stream_wait_event(comm, stream, event));
	else
		WITHOUT_GIL(&outcome, coll_comm_wait_event(comm, event));
	return outcome_none(&outcome, comm);
}

static PyObject *core_event_query(PyObject *module, PyObject *handle)
{
	struct outcome outcome;
	coll_event_t event;

	(void)module;
	if (!to_handle(handle, &event))
		return NULL;
	WITHOUT_GIL(&outcome, coll_event_query(event));
	if (outcome.code && outcome.code != COLL_IN_PROGRESS)
		return outcome_raise(&outcome, NULL);
	return PyBool_FromLong(outcome.code == COLL_SUCCESS);
}

static PyObject *core_event_synchronize(PyObject *module, PyObject *handle)
{
	struct outcome outcome;
	coll_event_t event;

	(void)module;
	if (!to_handle(handle, &event))
		return NULL;
	WITHOUT_GIL(&outcome, coll_event_synchronize(event));
	return outcome_none(&outcome, NULL);
}

/* ---- groups ---- */

static _Thread_local int group_depth;

static PyObject *core_group_start(PyObject *module, PyObject *none)
{
	struct outcome outcome;

	(void)module;
	(void)none;
	WITHOUT_GIL(&outcome, coll_group_start());
	if (!outcome.code && !group_depth++) {
		group_requests = PyList_New(0);
		if (!group_requests)
			return NULL;
	}
	return outcome_none(&outcome, NULL);
}

/* group_end(): the requests of the calls in the group; an empty list if a group is open around it. */
static PyObject *core_group_end(PyObject *module, PyObject *none)
{
	PyObject *requests = NULL;
	struct outcome outcome;

	(void)module;
	(void)none;
	WITHOUT_GIL(&outcome, coll_group_end());
	if (group_depth && !--group_depth) {
		requests = group_requests;
		group_requests = NULL;
	}
	if (!outcome.code)
		return requests ? requests : PyList_New(0);
	Py_XDECREF(requests);
	return outcome_raise(&outcome, NULL);
}

static PyObject *core_in_group(PyObject *module, PyObject *none)
{
	(void)module;
	(void)none;
	return PyBool_FromLong(group_depth > 0);
}

/* ---- registered memory ---- */

static void memory_release(PyObject *capsule)
{
	struct array *array = PyCapsule_GetPointer(capsule, NULL);

	array_release(array);
	free(array);
}

/* register(comm, x): (handle, what keeps the memory) */
static PyObject *core_register(PyObject *module, PyObject *args)
{
	struct array *array = calloc(1, sizeof(*array));
	PyObject *object, *memory;
	struct outcome outcome;
	void *registration;
	coll_comm_t comm;

	(void)module;
	if (!array)
		return PyErr_NoMemory();
	if (!PyArg_ParseTuple(args, "O&O", to_handle, &comm, &object) ||
	    array_take(array, object, 0, NULL, "register: x")) {
		array_release(array);
		free(array);
		return NULL;
	}
	memory = PyCapsule_New(array, NULL, memory_release);
	WITHOUT_GIL(&outcome, coll_comm_register(comm, array->data,
						 array->count * coll_dtype_size(array->dtype),
						 &registration));
	if (!outcome.code)
		return Py_BuildValue("NN", PyLong_FromVoidPtr(registration), memory);
	Py_XDECREF(memory);
	return outcome_raise(&outcome, comm);
}

static PyObject *core_deregister(PyObject *module, PyObject *args)
{
	struct outcome outcome;
	void *registration;
	coll_comm_t comm;

	(void)module;
	if (!PyArg_ParseTuple(args, "O&O&", to_handle, &comm, to_handle, &registration))
		return NULL;
	WITHOUT_GIL(&outcome, coll_comm_deregister(comm, registration));
	return outcome_none(&outcome, comm);
}

PyMethodDef event_methods[] = {{"event_create", core_event_create, METH_O, NULL},
			       {"event_destroy", core_event_destroy, METH_O, NULL},
			       {"event_record", core_event_record, METH_VARARGS, NULL},
			       {"event_wait", core_event_wait, METH_VARARGS, NULL},
			       {"event_query", core_event_query, METH_O, NULL},
			       {"event_synchronize", core_event_synchronize, METH_O, NULL},
			       {"group_start", core_group_start, METH_NOARGS, NULL},
			       {"group_end", core_group_end, METH_NOARGS, NULL},
			       {"in_group", core_in_group, METH_NOARGS, NULL},
			       {"register", core_register, METH_VARARGS, NULL},
			       {"deregister", core_deregister, METH_VARARGS, NULL},
			       {0}};
