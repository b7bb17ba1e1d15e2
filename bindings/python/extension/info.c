/* SPDX-License-Identifier: BSD-3-Clause */
/* info.c - the picture of backends and options (introspect.h), and the tables of names. */
#include "core.h"

#include <stdlib.h>

/* Appends and drops the object; NULL is an error that stands. */
static void append(PyObject *list, PyObject *object)
{
	if (list && object)
		(void)PyList_Append(list, object);
	Py_XDECREF(object);
}

static PyObject *backends_of(coll_info_t info)
{
	PyObject *list = PyList_New(0);

	for (int32_t i = 0; i < coll_info_backend_count(info); i++) {
		coll_backend_info_t b = {.size = sizeof(b)};

		if (!coll_info_backend(info, i, &b))
			append(list,
			       Py_BuildValue("(NNNNNiNN)", core_text(b.name), core_text(b.version),
					     core_text(b.path), core_text(b.reason),
					     core_text(b.choice), b.priority,
					     PyBool_FromLong(b.usable), PyBool_FromLong(b.chosen)));
	}
	return list;
}

static PyObject *options_of(coll_info_t info)
{
	PyObject *list = PyList_New(0);

	for (int32_t i = 0; i < coll_info_option_count(info); i++) {
		coll_option_info_t o = {.size = sizeof(o)};

		if (!coll_info_option(info, i, &o))
			append(list,
			       Py_BuildValue("(NNNNNN)", core_text(o.name), core_text(o.value),
					     core_text(o.fallback), core_text(o.unit),
					     core_text(o.source), core_text(o.help)));
	}
	return list;
}

static PyObject *rules_of(coll_info_t info)
{
	PyObject *list = PyList_New(0);

	for (int32_t i = 0; i < coll_info_rule_count(info); i++) {
		coll_rule_info_t r = {.size = sizeof(r)};

		if (!coll_info_rule(info, i, &r))
			append(list,
			       Py_BuildValue("(sNNKKii)", coll_kind_name(r.kind), core_text(r.name),
					     core_text(r.source), (unsigned long long)r.bytes_min,
					     (unsigned long long)r.bytes_max, r.ranks_min,
					     r.ranks_max));
	}
	return list;
}

static PyObject *notes_of(coll_info_t info)
{
	PyObject *list = PyList_New(0);

	for (int32_t i = 0; i < coll_info_note_count(info); i++)
		append(list, core_text(coll_info_note(info, i)));
	return list;
}

/* info(config): (backends, options, rules, notes, code, verdict) */
static PyObject *core_info(PyObject *module, PyObject *tuple)
{
	const char *sentence = "";
	struct outcome outcome;
	PyThreadState *state;
	coll_result_t code;
	PyObject *result;
	const char **options;
	coll_config_t config;
	coll_info_t info;

	(void)module;
	if (config_read(tuple, &config, &options)) {
		free(options);
		return NULL;
	}
	WITHOUT_GIL(&outcome, coll_info_create(&config, &info));
	free(options);
	if (outcome.code)
		return outcome_raise(&outcome, NULL);
	code = coll_info_verdict(info, &sentence);
	result = Py_BuildValue("NNNNiN", backends_of(info), options_of(info), rules_of(info),
			       notes_of(info), code, core_text(sentence));
	state = PyEval_SaveThread();
	coll_info_destroy(info);
	PyEval_RestoreThread(state);
	return result;
}

/* backend_available(name): (usable, reason) */
static PyObject *core_backend_available(PyObject *module, PyObject *name)
{
	PyObject *bytes = PyUnicode_AsUTF8String(name), *result;
	char reason[1024] = "", *text;
	struct outcome outcome;

	(void)module;
	if (!bytes)
		return NULL;
	text = PyBytes_AsString(bytes);
	WITHOUT_GIL(&outcome, coll_backend_available(text, reason, sizeof(reason)));
	Py_DECREF(bytes);
	result = Py_BuildValue("NN", PyBool_FromLong(outcome.code == COLL_SUCCESS),
			       core_text(reason));
	free(outcome.text);
	return result;
}

/* Names as keys of numbers from 0 to `end`; "?" is no name. */
static PyObject *names_of(const char *(*name_of)(int32_t), int32_t end)
{
	PyObject *names = PyDict_New();

	for (int32_t i = 0; names && i < end; i++) {
		PyObject *number = PyLong_FromLong(i);

		if (number && *name_of(i) != '?')
			(void)PyDict_SetItemString(names, name_of(i), number);
		Py_XDECREF(number);
	}
	return names;
}

/* names(): (types, operations, kinds) */
static PyObject *core_names(PyObject *module, PyObject *none)
{
	(void)module;
	(void)none;
	return Py_BuildValue("NNN", names_of(coll_dtype_name, 256), names_of(coll_op_name, 256),
			     names_of(coll_kind_name, 256));
}

/* dtype_size(dtype): bytes of an element; dtype_opaque(bytes): the type of elements of these bytes. */
static PyObject *core_dtype_size(PyObject *module, PyObject *dtype)
{
	(void)module;
	return PyLong_FromSize_t(coll_dtype_size((coll_dtype_t)PyLong_AsLong(dtype)));
}

static PyObject *core_dtype_opaque(PyObject *module, PyObject *size)
{
	(void)module;
	return PyLong_FromLong(coll_dtype_opaque(PyLong_AsSize_t(size)));
}

static PyObject *core_dtype_name(PyObject *module, PyObject *dtype)
{
	(void)module;
	return PyUnicode_FromString(coll_dtype_name((coll_dtype_t)PyLong_AsLong(dtype)));
}

static PyObject *core_version(PyObject *module, PyObject *none)
{
	(void)module;
	(void)none;
	return PyUnicode_FromString(coll_version_string());
}

PyMethodDef info_methods[] = {{"info", core_info, METH_O, NULL},
			      {"backend_available", core_backend_available, METH_O, NULL},
			      {"names", core_names, METH_NOARGS, NULL},
			      {"dtype_size", core_dtype_size, METH_O, NULL},
			      {"dtype_opaque", core_dtype_opaque, METH_O, NULL},
			      {"dtype_name", core_dtype_name, METH_O, NULL},
			      {"version", core_version, METH_NOARGS, NULL},
			      {0}};
