/* SPDX-License-Identifier: BSD-3-Clause */
/* op.c - reductions of a Python program. */
#include "core.h"

static PyTypeObject *op_type;
PyObject *op_names;

int op_code(PyObject *object, coll_op_t *code)
{
	PyObject *number;

	if (PyObject_TypeCheck(object, op_type)) {
		*code = ((struct op *)object)->code;
		return 0;
	}
	number = PyLong_Check(object) ? object : PyDict_GetItemWithError(op_names, object);
	if (number) {
		*code = (coll_op_t)PyLong_AsLong(number);
		return PyErr_Occurred() ? -1 : 0;
	}
	PyErr_Clear();
	PyErr_Format(
		core_invalid_argument,
		"%R is no operation; there are 'sum', 'prod', 'max', 'min', 'avg', 'band', 'bor', "
		"'bxor', 'land', 'lor', 'lxor', 'minloc', 'maxloc', and those of comm.op()",
		object);
	return -1;
}

int op_check(PyObject *object)
{
	struct op *op = (struct op *)object;

	if (!object || !PyObject_TypeCheck(object, op_type) || !op->error)
		return 0;
	PyErr_SetObject((PyObject *)Py_TYPE(op->error), op->error);
	return -1;
}

/* Keeps the exception of the function, which has no other way to its caller. */
static void op_failed(struct op *op)
{
	PyObject *type, *error, *trace;

	PyErr_Fetch(&type, &error, &trace);
	PyErr_NormalizeException(&type, &error, &trace);
	if (op->error)
		Py_XDECREF(error);
	else
		op->error = error;
	Py_XDECREF(type);
	Py_XDECREF(trace);
}

/* Ends a memoryview of memory that goes; an array made from it may still be there. */
static void memory_end(PyObject *memory)
{
	PyObject *none = memory ? PyObject_CallMethod(memory, "release", NULL) : NULL;

	if (!none)
		PyErr_Clear();
	Py_XDECREF(none);
	Py_XDECREF(memory);
}

static void op_call(void *user, const void *left, void *inout, size_t count, coll_dtype_t dtype)
{
	const Py_ssize_t bytes = (Py_ssize_t)(count * coll_dtype_size(dtype));
	const PyGILState_STATE state = PyGILState_Ensure();
	struct op *op = user;
	PyObject *from, *to, *type, *none = NULL;

	core_inside++;
	from = PyMemoryView_FromMemory((char *)left, bytes, PyBUF_READ);
	to = PyMemoryView_FromMemory(inout, bytes, PyBUF_WRITE);
	type = PyLong_FromLong(dtype);
	/* Also after an exception: the other ranks need the data of later calls. */
	if (from && to && type)
		none = PyObject_CallFunctionObjArgs(op->function, from, to, type, NULL);
	if (!none && PyErr_Occurred())
		op_failed(op);
	Py_XDECREF(none);
	Py_XDECREF(type);
	memory_end(from);
	memory_end(to);
	core_inside--;
	PyGILState_Release(state);
}

/* op_create(op, function, commutative, comm): an operation of a function. */
static PyObject *core_op_create(PyObject *module, PyObject *args)
{
	PyObject *object, *function;
	struct outcome outcome;
	coll_comm_t comm;
	struct op *op;
	int commutative;

	(void)module;
	if (!PyArg_ParseTuple(args, "O!OiO&", op_type, &object, &function, &commutative, to_handle,
			      &comm))
		return NULL;
	op = (struct op *)object;
	op->comm = comm;
	Py_INCREF(function);
	op->function = function;
	WITHOUT_GIL(&outcome,
		    coll_red_op_create_user(&op->code, op_call, op, commutative, op->comm));
	return outcome_none(&outcome, op->comm);
}

/* op_create_premul(op, scalar, comm): "sum of scalar * x"; scalar is an array of one element. */
static PyObject *core_op_create_premul(PyObject *module, PyObject *args)
{
	struct outcome outcome = {.code = COLL_ERR_INVALID_ARGUMENT};
	PyObject *object, *scalar;
	struct array array = {0};
	coll_comm_t comm;
	struct op *op;

	(void)module;
	if (!PyArg_ParseTuple(args, "O!OO&", op_type, &object, &scalar, to_handle, &comm))
		return NULL;
	op = (struct op *)object;
	op->comm = comm;
	if (array_take(&array, scalar, 0, NULL, "premul_sum: scalar")) {
		array_release(&array);
		return NULL;
	}
	if (array.count == 1 && !array.on_device)
		WITHOUT_GIL(&outcome,
			    coll_red_op_create_pre_mul_sum(&op->code, array.data, array.dtype,
							   COLL_SCALAR_HOST_IMMEDIATE, op->comm));
	else
		PyErr_SetString(core_invalid_argument,
				"premul_sum: scalar is one element in host memory");
	array_release(&array);
	return PyErr_Occurred() ? NULL : outcome_none(&outcome, op->comm);
}

static PyObject *core_op_destroy(PyObject *module, PyObject *object)
{
	struct op *op = (struct op *)object;
	struct outcome outcome;

	(void)module;
	WITHOUT_GIL(&outcome, coll_red_op_destroy(op->code, op->comm));
	return outcome_none(&outcome, NULL);
}

PyMethodDef op_methods[] = {{"op_create", core_op_create, METH_VARARGS, NULL},
			    {"op_create_premul", core_op_create_premul, METH_VARARGS, NULL},
			    {"op_destroy", core_op_destroy, METH_O, NULL},
			    {0}};

/* For the garbage collector: the exception holds the frames in which it was raised. */
static int op_traverse(PyObject *self, visitproc visit, void *arg)
{
	Py_VISIT(Py_TYPE(self));
	Py_VISIT(((struct op *)self)->error);
	return 0;
}

static int op_clear(PyObject *self)
{
	Py_CLEAR(((struct op *)self)->error);
	return 0;
}

static void op_dealloc(PyObject *self)
{
	struct op *op = (struct op *)self;
	PyTypeObject *type = Py_TYPE(self);
	freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);

	PyObject_GC_UnTrack(self);
	Py_CLEAR(op->function);
	Py_CLEAR(op->error);
	free_object(self);
	Py_DECREF(type);
}

PyObject *op_type_make(void)
{
	static PyMemberDef members[] = {
		{"code", T_INT, offsetof(struct op, code), READONLY, "The number."}, {0}};
	static PyType_Slot slots[] = {{Py_tp_dealloc, (void *)op_dealloc},
				      {Py_tp_traverse, (void *)op_traverse},
				      {Py_tp_clear, (void *)op_clear},
				      {Py_tp_members, members},
				      {0, NULL}};
	static PyType_Spec spec = {"coll._core.Op", sizeof(struct op), 0,
				   Py_TPFLAGS_DEFAULT | Py_TPFLAGS_BASETYPE | Py_TPFLAGS_HAVE_GC,
				   slots};

	op_type = (PyTypeObject *)PyType_FromSpec(&spec);
	return (PyObject *)op_type;
}
