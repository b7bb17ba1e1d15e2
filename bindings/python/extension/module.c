/* SPDX-License-Identifier: BSD-3-Clause */
/* module.c - the table of the module's functions, and its constants. */
#include "core.h"

/* setup(InvalidArgument, make_error, operations, Request, caller_line): what the C functions need of the Python ones. */
static PyObject *core_setup(PyObject *module, PyObject *args)
{
	(void)module;
	if (!PyArg_ParseTuple(args, "OOOOO", &core_invalid_argument, &core_make_error, &op_names,
			      &request_class, &core_caller_line))
		return NULL;
	Py_INCREF(core_invalid_argument);
	Py_INCREF(core_make_error);
	Py_INCREF(op_names);
	Py_INCREF(request_class);
	Py_INCREF(core_caller_line);
	Py_RETURN_NONE;
}

static PyMethodDef call_methods[] = {
	{"setup", core_setup, METH_VARARGS, NULL},
	{"run", (PyCFunction)(void (*)(void))core_run, METH_FASTCALL, NULL},
	{"message", (PyCFunction)(void (*)(void))core_message, METH_FASTCALL, NULL},
	{"reduce_local", (PyCFunction)(void (*)(void))core_reduce_local, METH_FASTCALL, NULL},
	{"array_info", core_array_info, METH_O, NULL},
	{0}};

static const struct {
	const char *name;
	long value;
} constants[] = {{"WAY_WAIT", WAY_WAIT},
		 {"WAY_START", WAY_START},
		 {"WAY_PREPARE", WAY_PREPARE},
		 {"COUNT_ALL", COLL_COUNT_ALL},
		 {"COUNT_ISEND", COLL_COUNT_ISEND},
		 {"COUNT_IRECV", COLL_COUNT_IRECV},
		 {"COUNT_OTHER", COLL_COUNT_OTHER},
		 {"ERR_DEVICE", COLL_ERR_DEVICE},
		 {"ERR_SYSTEM", COLL_ERR_SYSTEM},
		 {"ERR_INTERNAL", COLL_ERR_INTERNAL},
		 {"ERR_INVALID_ARGUMENT", COLL_ERR_INVALID_ARGUMENT},
		 {"ERR_INVALID_USAGE", COLL_ERR_INVALID_USAGE},
		 {"ERR_REMOTE", COLL_ERR_REMOTE},
		 {"ERR_TIMEOUT", COLL_ERR_TIMEOUT},
		 {"ERR_UNSUPPORTED", COLL_ERR_UNSUPPORTED},
		 {"ERR_NO_MEMORY", COLL_ERR_NO_MEMORY},
		 {"ERR_CONFIG", COLL_ERR_CONFIG},
		 {"ERR_NOT_FOUND", COLL_ERR_NOT_FOUND},
		 {"ERR_PLUGIN", COLL_ERR_PLUGIN},
		 {"ERR_ABI", COLL_ERR_ABI},
		 {"ERR_MISMATCH", COLL_ERR_MISMATCH},
		 {"ERR_PEER_LOST", COLL_ERR_PEER_LOST},
		 {"ERR_ABORTED", COLL_ERR_ABORTED},
		 {"ERR_VERSION", COLL_ERR_VERSION},
		 {"ERR_PERMISSION", COLL_ERR_PERMISSION}};

static int add(PyObject *module, const char *name, PyObject *object)
{
	if (object && !PyModule_AddObject(module, name, object))
		return 0;
	Py_XDECREF(object);
	return -1;
}

static int fill(PyObject *module)
{
	PyMethodDef *tables[] = {comm_methods,  request_methods, op_methods,
				 event_methods, info_methods,    call_methods};

	for (size_t i = 0; i < sizeof(tables) / sizeof(*tables); i++)
		if (PyModule_AddFunctions(module, tables[i]))
			return -1;
	for (size_t i = 0; i < sizeof(constants) / sizeof(*constants); i++)
		if (PyModule_AddIntConstant(module, constants[i].name, constants[i].value))
			return -1;
	return add(module, "Comm", comm_type_make()) || add(module, "Op", op_type_make()) ||
			       add(module, "Request", request_type_make()) ||
			       add(module, "View", view_type_make()) ||
			       add(module, "Memory", memory_type_make())
		       ? -1
		       : 0;
}

PyMODINIT_FUNC PyInit__core(void)
{
	static PyModuleDef definition = {PyModuleDef_HEAD_INIT, .m_name = "coll._core",
					 .m_size = -1};
	PyObject *module = PyModule_Create(&definition);

	if (module && fill(module))
		Py_CLEAR(module);
	return module;
}
