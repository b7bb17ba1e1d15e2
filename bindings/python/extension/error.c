/* SPDX-License-Identifier: BSD-3-Clause */
/* error.c - a failed call becomes a Python exception. */
#include "core.h"

#include <stdlib.h>
#include <string.h>

PyObject *core_invalid_argument, *core_make_error;
_Thread_local int core_inside;

void outcome_set(struct outcome *outcome, coll_result_t code)
{
	outcome->code = code;
	outcome->text = NULL;
	if (code != COLL_SUCCESS && code != COLL_IN_PROGRESS)
		outcome->text = strdup(coll_get_last_error(NULL));
}

PyObject *core_text(const char *text)
{
	if (!text)
		Py_RETURN_NONE;
	return PyUnicode_DecodeUTF8(text, (Py_ssize_t)strlen(text), "replace");
}

PyObject *outcome_raise(struct outcome *outcome, coll_comm_t comm)
{
	const char *text = outcome->text ? outcome->text : coll_error_string(outcome->code);
	PyObject *error = PyObject_CallFunction(core_make_error, "iNN", (int)outcome->code,
						core_text(text), PyLong_FromVoidPtr((void *)comm));

	free(outcome->text);
	outcome->text = NULL;
	if (error)
		PyErr_SetObject((PyObject *)Py_TYPE(error), error);
	Py_XDECREF(error);
	return NULL;
}

PyObject *outcome_none(struct outcome *outcome, coll_comm_t comm)
{
	if (outcome->code != COLL_SUCCESS)
		return outcome_raise(outcome, comm);
	Py_RETURN_NONE;
}

int to_handle(PyObject *object, void *place)
{
	void **handle = place;

	*handle = PyLong_AsVoidPtr(object);
	return !PyErr_Occurred();
}

int to_stream(PyObject *object, void *place)
{
	PyObject *number;
	int code;

	*(void **)place = NULL;
	if (object == Py_None)
		return 1;
	if (PyLong_Check(object))
		return to_handle(object, place);
	number = PyObject_GetAttrString(object, "cuda_stream");
	if (!number) {
		PyErr_Clear();
		number = PyObject_GetAttrString(object, "ptr");
	}
	code = number ? to_handle(number, place) : 0;
	Py_XDECREF(number);
	return code;
}
