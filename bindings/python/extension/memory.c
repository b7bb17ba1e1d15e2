/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory.c - memory of coll_mem_alloc.
 *
 * A Memory is bytes with the buffer protocol, or on a device with __cuda_array_interface__.  What shows its bytes (numpy, CuPy,
 * memoryview, a call under way) holds the Memory, so the last of these frees it, also after the communicator's end.
 */
#include "core.h"

/* coll._core.Memory */
struct memory {
	PyObject_HEAD void *data; /* NULL if there are no bytes */
	Py_ssize_t bytes;
	int on_device;
};

/* Memory(comm, bytes, on_device) */
static PyObject *memory_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
	allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
	struct memory *memory;
	struct outcome outcome;
	coll_comm_t comm;
	Py_ssize_t bytes;
	int on_device;

	(void)keywords;
	if (!PyArg_ParseTuple(args, "O&np", to_handle, &comm, &bytes, &on_device))
		return NULL;
	request_reap();
	memory = (struct memory *)alloc(type, 0);
	if (!memory)
		return NULL;
	WITHOUT_GIL(&outcome, coll_mem_alloc(comm, (size_t)bytes, &memory->data));
	if (outcome.code) {
		Py_DECREF(memory);
		return outcome_raise(&outcome, comm);
	}
	memory->bytes = bytes;
	memory->on_device = on_device;
	return (PyObject *)memory;
}

static void memory_dealloc(PyObject *self)
{
	void *data = ((struct memory *)self)->data;
	PyTypeObject *type = Py_TYPE(self);
	freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);

	if (data)
		request_free_memory(data);
	free_object(self);
	Py_DECREF(type);
}

static int memory_buffer(PyObject *self, Py_buffer *view, int flags)
{
	const struct memory *memory = (struct memory *)self;
	static char none;

	if (!memory->on_device)
		return PyBuffer_FillInfo(view, self, memory->data ? memory->data : &none,
					 memory->bytes, 0, flags);
	view->obj = NULL;
	PyErr_SetString(PyExc_BufferError, "the memory lies on a device");
	return -1;
}

static PyObject *memory_interface(PyObject *self, void *closure)
{
	const struct memory *memory = (struct memory *)self;

	(void)closure;
	if (memory->on_device)
		return Py_BuildValue("{s(n)sss(NO)sisO}", "shape", memory->bytes, "typestr", "|u1",
				     "data", PyLong_FromVoidPtr(memory->data), Py_False, "version",
				     3, "stream", Py_None);
	PyErr_SetString(PyExc_AttributeError, "the memory lies on the host");
	return NULL;
}

PyObject *memory_type_make(void)
{
	static PyGetSetDef getters[] = {
		{"__cuda_array_interface__", memory_interface, NULL, NULL, NULL}, {0}};
	static PyType_Slot slots[] = {{Py_tp_doc, "Memory that libcoll has allocated."},
				      {Py_tp_new, (void *)memory_new},
				      {Py_tp_dealloc, (void *)memory_dealloc},
				      {Py_bf_getbuffer, (void *)memory_buffer},
				      {Py_tp_getset, getters},
				      {0, NULL}};
	static PyType_Spec spec = {"coll._core.Memory", sizeof(struct memory), 0,
				   Py_TPFLAGS_DEFAULT, slots};

	return PyType_FromSpec(&spec);
}
