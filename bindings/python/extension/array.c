/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * array.c - any array of Python: memory, type and number of elements.
 *
 * An object is asked in this order: the buffer protocol (numpy, array.array, bytearray, memoryview),
 * __cuda_array_interface__ (CuPy, Numba, PyTorch on a device), __array_interface__ (numpy for types that the buffer protocol
 * cannot name: bfloat16), __dlpack__ (PyTorch on the host, JAX).
 */
#include "core.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

/* The parts of DLPack's ABI (version 0.x capsules, "dltensor") that are read here. */
struct dl_tensor {
	void *data;
	int32_t device_type, device_id;
	int32_t ndim;
	uint8_t code, bits;
	uint16_t lanes;
	int64_t *shape, *strides;
	uint64_t byte_offset;
};

enum { DL_CPU = 1, DL_CUDA = 2, DL_CUDA_HOST = 3, DL_CUDA_MANAGED = 13 };

/* coll._core.View */
struct view {
	PyObject_HEAD PyObject *object;
	coll_dtype_t dtype;
};

static PyTypeObject *view_type;

/* ---- types of elements ---- */

static coll_dtype_t pick(size_t size, coll_dtype_t one, coll_dtype_t two, coll_dtype_t four,
			 coll_dtype_t eight)
{
	switch (size) {
	case 1: return one;
	case 2: return two;
	case 4: return four;
	case 8: return eight;
	}
	return COLL_DTYPE_NONE;
}

/* The type of a kind of __array_interface__ and DLPack: 'i', 'u', 'f', 'c', 'b'. */
static coll_dtype_t dtype_of_kind(char kind, size_t size)
{
	switch (kind) {
	case 'i': return pick(size, COLL_INT8, COLL_INT16, COLL_INT32, COLL_INT64);
	case 'u': return pick(size, COLL_UINT8, COLL_UINT16, COLL_UINT32, COLL_UINT64);
	case 'f': return pick(size, COLL_DTYPE_NONE, COLL_FLOAT16, COLL_FLOAT32, COLL_FLOAT64);
	case 'c': return pick(size / 2, -1, -1, COLL_COMPLEX64, COLL_COMPLEX128);
	case 'b': return size == 1 ? COLL_BOOL : COLL_DTYPE_NONE;
	}
	return COLL_DTYPE_NONE;
}

/* The kind of a letter of the struct module. */
static char kind_of_letter(char letter)
{
	if (letter == '?')
		return 'b';
	if (letter && strchr("bhilqn", letter))
		return 'i';
	if (letter && strchr("BHILQNc", letter))
		return 'u';
	if (letter && strchr("efd", letter))
		return 'f';
	return 0;
}

/* Reads the two letters of a struct of a value and an index: "T{d:value:i:index:4x}" is "di". */
static int pair_letters(const char *format, char letters[3])
{
	int n = 0;

	for (const char *c = format + 2; *c && *c != '}'; c++) {
		if (*c == ':') {
			c = strchr(c + 1, ':');
			if (!c)
				return 0;
		} else if (isalpha((unsigned char)*c) && *c != 'x') {
			if (n == 2)
				return 0;
			letters[n++] = *c;
		} else if (strchr("<@=^x0123456789", *c) == NULL) {
			return 0;
		}
	}
	letters[n] = 0;
	return n == 2;
}

/* Has the format a letter of a reference or an address?  Those between colons are names of fields. */
static int has_address(const char *format)
{
	for (const char *c = format; *c; c++) {
		if (*c == ':')
			c = strchr(c + 1, ':');
		if (!c)
			return 1; /* a name without an end */
		if (strchr("O&PX", *c))
			return 1;
	}
	return 0;
}

/* A struct: a pair of coll.h, or opaque. */
static coll_dtype_t dtype_of_struct(const char *format, size_t size)
{
	char letters[3];

	if (!strncmp(format, "T{", 2) && pair_letters(format, letters)) {
		if (!strcmp(letters, "fi") && size == 8)
			return COLL_FLOAT32_INT32;
		if (!strcmp(letters, "di") && size == 16)
			return COLL_FLOAT64_INT32;
		if (!strcmp(letters, "ii") && size == 8)
			return COLL_INT32_INT32;
		if ((!strcmp(letters, "li") || !strcmp(letters, "qi")) && size == 16)
			return COLL_INT64_INT32;
	}
	return has_address(format) ? COLL_DTYPE_NONE : coll_dtype_opaque(size);
}

/* A byte order in which this machine does not compute. */
static int is_foreign(char order)
{
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	return order == '>' || order == '!';
#else
	return order == '<';
#endif
}

/* The type of a format of the buffer protocol. */
static coll_dtype_t dtype_of_format(const char *format, size_t size)
{
	coll_dtype_t dtype;

	if (!format)
		return size == 1 ? COLL_UINT8 : coll_dtype_opaque(size);
	if (is_foreign(*format))
		return COLL_DTYPE_NONE;
	if (*format && strchr("<>!=@^", *format))
		format++;
	if (*format == 'Z' && format[1] && !format[2])
		dtype = dtype_of_kind('c', size);
	else
		dtype = format[0] && !format[1] ? dtype_of_kind(kind_of_letter(*format), size)
						: COLL_DTYPE_NONE;
	return dtype == COLL_DTYPE_NONE ? dtype_of_struct(format, size) : dtype;
}

/* The types that have names in ml_dtypes and PyTorch and no letter. */
static coll_dtype_t dtype_of_name(const char *name)
{
	static const struct {
		const char *name;
		coll_dtype_t dtype;
	} names[] = {{"bfloat16", COLL_BFLOAT16},
		     {"float8_e4m3fn", COLL_FLOAT8E4M3},
		     {"float8_e5m2", COLL_FLOAT8E5M2}};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(name, names[i].name))
			return names[i].dtype;
	return COLL_DTYPE_NONE;
}

/* The type of a typestr of __array_interface__ ("<f4"); of "V" and "f1" by the name of object.dtype. */
static coll_dtype_t dtype_of_typestr(PyObject *object, const char *typestr)
{
	const size_t size = typestr[0] && typestr[1] ? strtoul(typestr + 2, NULL, 10) : 0;
	coll_dtype_t dtype = COLL_DTYPE_NONE;
	PyObject *type, *text, *bytes;

	if (!size || is_foreign(*typestr) || typestr[1] == 'O')
		return COLL_DTYPE_NONE;
	if (typestr[1] != 'V' && !(typestr[1] == 'f' && size == 1)) {
		dtype = dtype_of_kind(typestr[1], size);
		return dtype == COLL_DTYPE_NONE ? coll_dtype_opaque(size) : dtype;
	}
	type = PyObject_GetAttrString(object, "dtype");
	text = type ? PyObject_Str(type) : NULL;
	bytes = text ? PyUnicode_AsUTF8String(text) : NULL;
	if (bytes)
		dtype = dtype_of_name(PyBytes_AsString(bytes));
	PyErr_Clear();
	Py_XDECREF(bytes);
	Py_XDECREF(text);
	Py_XDECREF(type);
	return dtype == COLL_DTYPE_NONE ? coll_dtype_opaque(size) : dtype;
}

static coll_dtype_t dtype_of_dlpack(const struct dl_tensor *t)
{
	static const char kinds[] = {'i', 'u', 'f', 0, 0, 'c', 'b'};

	if (t->lanes != 1 || t->bits % 8)
		return COLL_DTYPE_NONE;
	switch (t->code) {
	case 4: return t->bits == 16 ? COLL_BFLOAT16 : COLL_DTYPE_NONE;
	case 10: return COLL_FLOAT8E4M3;
	case 12: return COLL_FLOAT8E5M2;
	}
	return t->code < sizeof(kinds) ? dtype_of_kind(kinds[t->code], t->bits / 8)
				       : COLL_DTYPE_NONE;
}

/* ---- sentences ---- */

static int refuse_type(const char *what, const char *type)
{
	PyErr_Format(
		core_invalid_argument,
		"%s has elements of type '%s', which libcoll does not have; coll.view(x, dtype) "
		"gives a type to memory",
		what, type);
	return -1;
}

static int refuse_layout(const char *what)
{
	PyErr_Format(core_invalid_argument,
		     "%s is not contiguous (in C's order); pass a contiguous copy, as "
		     "numpy.ascontiguousarray(x) makes it, or a contiguous part",
		     what);
	return -1;
}

static int refuse_write(const char *what)
{
	PyErr_Format(core_invalid_argument, "%s is read-only, and the call writes it", what);
	return -1;
}

static int refuse_object(const char *what, PyObject *object)
{
	PyObject *type = PyObject_GetAttrString((PyObject *)Py_TYPE(object), "__name__");

	if (type)
		PyErr_Format(
			core_invalid_argument,
			"%s is of type %U, which is no array: it has neither the buffer protocol "
			"nor __cuda_array_interface__, __array_interface__ or __dlpack__",
			what, type);
	Py_XDECREF(type);
	return -1;
}

/* ---- the buffer protocol ---- */

/* Says why object has no buffer as the call needs it; there is a Python error, which this replaces. */
static int buffer_refuse(PyObject *object, int writable, const char *what)
{
	Py_buffer view;

	PyErr_Clear();
	if (writable && !PyObject_GetBuffer(object, &view, PyBUF_FORMAT | PyBUF_C_CONTIGUOUS)) {
		PyBuffer_Release(&view);
		return refuse_write(what);
	}
	PyErr_Clear();
	return refuse_layout(what);
}

/* Returns 1 if it took the memory, 0 if there is no such buffer, -1 with an exception. */
static int buffer_take(struct array *a, PyObject *object, int writable, const char *what)
{
	const int flags = PyBUF_FORMAT | PyBUF_C_CONTIGUOUS | (writable ? PyBUF_WRITABLE : 0);
	Py_buffer any;

	if (PyObject_GetBuffer(object, &a->view, flags)) {
		a->view.obj = NULL;
		PyErr_Clear();
		/* Its strides alone: not the layout, but the object or its type is the reason then. */
		if (PyObject_GetBuffer(object, &any, PyBUF_FORMAT | PyBUF_STRIDES)) {
			PyErr_Clear();
			return 0;
		}
		PyBuffer_Release(&any);
		return buffer_refuse(object, writable, what);
	}
	a->dtype = dtype_of_format(a->view.format, (size_t)a->view.itemsize);
	if (a->dtype == COLL_DTYPE_NONE) {
		refuse_type(what, a->view.format ? a->view.format : "");
		return -1;
	}
	a->data = a->view.buf;
	a->count = a->view.itemsize ? (size_t)(a->view.len / a->view.itemsize) : 0;
	return 1;
}

/* ---- __cuda_array_interface__ and __array_interface__ ---- */

/* Returns a new reference; NULL without an exception if there is no such attribute. */
static PyObject *attribute(PyObject *object, const char *name)
{
	PyObject *value = PyObject_GetAttrString(object, name);

	if (!value && PyErr_ExceptionMatches(PyExc_AttributeError))
		PyErr_Clear();
	return value;
}

/* Reads the shape: the number of elements, and whether the strides are C's. */
static int shape_read(PyObject *shape, PyObject *strides, size_t size, size_t *count)
{
	size_t expected = size;
	int contiguous = 1;

	*count = 1;
	for (Py_ssize_t i = PyTuple_Size(shape) - 1; i >= 0; i--) {
		const size_t n = PyLong_AsSize_t(PyTuple_GetItem(shape, i));
		const Py_ssize_t stride = strides && strides != Py_None
						  ? PyLong_AsSsize_t(PyTuple_GetItem(strides, i))
						  : (Py_ssize_t)expected;

		contiguous = contiguous && (n == 1 || (size_t)stride == expected);
		expected *= n;
		*count *= n;
	}
	return contiguous || *count == 0;
}

/* Reads (address, read-only). */
static int data_read(struct array *a, PyObject *data, int writable, const char *what)
{
	if (!data || !PyTuple_Check(data) || PyTuple_Size(data) != 2) {
		PyErr_Format(core_invalid_argument, "%s: its array interface has no address", what);
		return -1;
	}
	a->data = PyLong_AsVoidPtr(PyTuple_GetItem(data, 0));
	if (PyErr_Occurred())
		return -1;
	return writable && PyObject_IsTrue(PyTuple_GetItem(data, 1)) ? refuse_write(what) : 0;
}

/* The stream after which the memory is ready.  Version 2 has none: the legacy default stream (1). */
static coll_stream_t ready_read(PyObject *interface)
{
	PyObject *stream = PyDict_GetItemString(interface, "stream");

	if (!stream)
		return (coll_stream_t)1;
	return stream == Py_None ? NULL : PyLong_AsVoidPtr(stream);
}

static int interface_read(struct array *a, PyObject *object, PyObject *interface, int writable,
			  const char *what)
{
	PyObject *shape = PyDict_GetItemString(interface, "shape");
	PyObject *typestr = PyDict_GetItemString(interface, "typestr");
	PyObject *bytes = typestr ? PyUnicode_AsUTF8String(typestr) : NULL;
	int code = -1;

	if (!bytes || !shape || !PyTuple_Check(shape)) {
		PyErr_Format(core_invalid_argument, "%s: its array interface is not complete",
			     what);
	} else if ((a->dtype = dtype_of_typestr(object, PyBytes_AsString(bytes))) ==
		   COLL_DTYPE_NONE) {
		refuse_type(what, PyBytes_AsString(bytes));
	} else if (!shape_read(shape, PyDict_GetItemString(interface, "strides"),
			       coll_dtype_size(a->dtype), &a->count)) {
		refuse_layout(what);
	} else {
		code = data_read(a, PyDict_GetItemString(interface, "data"), writable, what);
	}
	Py_XDECREF(bytes);
	return code || PyErr_Occurred() ? -1 : 0;
}

/* Returns as buffer_take. */
static int interface_take(struct array *a, PyObject *object, const char *name, int on_device,
			  int writable, const char *what)
{
	PyObject *interface = attribute(object, name);
	int code;

	if (!interface || !PyDict_Check(interface)) {
		Py_XDECREF(interface);
		return PyErr_Occurred() ? -1 : 0;
	}
	code = interface_read(a, object, interface, writable, what);
	if (!code) {
		a->on_device = on_device;
		a->ready = on_device ? ready_read(interface) : NULL;
		a->owner = object;
		Py_INCREF(object);
	}
	Py_DECREF(interface);
	return code ? -1 : 1;
}

/* ---- DLPack ---- */

static int dlpack_is_contiguous(const struct dl_tensor *t, size_t count)
{
	int64_t expected = 1;

	if (!t->strides || !count)
		return 1;
	for (int i = t->ndim - 1; i >= 0; i--) {
		if (t->shape[i] != 1 && t->strides[i] != expected)
			return 0;
		expected *= t->shape[i];
	}
	return 1;
}

static int dlpack_read(struct array *a, const struct dl_tensor *t, const char *what)
{
	char type[32];

	a->count = 1;
	for (int i = 0; i < t->ndim; i++)
		a->count *= (size_t)t->shape[i];
	a->dtype = dtype_of_dlpack(t);
	if (a->dtype == COLL_DTYPE_NONE) {
		PyOS_snprintf(type, sizeof(type), "DLPack %d of %d bits", t->code, t->bits);
		return refuse_type(what, type);
	}
	if (!dlpack_is_contiguous(t, a->count))
		return refuse_layout(what);
	a->data = (char *)t->data + t->byte_offset;
	return 0;
}

/* The capsule of object for `stream`; the exporter orders its work before it. */
static PyObject *dlpack_export(PyObject *object, int on_device, coll_stream_t stream)
{
	PyObject *method, *none, *keys, *capsule = NULL;

	if (!on_device)
		return PyObject_CallMethod(object, "__dlpack__", NULL);
	method = PyObject_GetAttrString(object, "__dlpack__");
	none = PyTuple_New(0);
	keys = Py_BuildValue("{sN}", "stream", PyLong_FromVoidPtr(stream));
	if (method && none && keys)
		capsule = PyObject_Call(method, none, keys);
	Py_XDECREF(keys);
	Py_XDECREF(none);
	Py_XDECREF(method);
	return capsule;
}

/* Returns as buffer_take. */
static int dlpack_take(struct array *a, PyObject *object, coll_stream_t stream, const char *what)
{
	PyObject *method = attribute(object, "__dlpack_device__"), *device, *capsule;
	const struct dl_tensor *tensor;
	int type = 0, id;

	if (!method)
		return PyErr_Occurred() ? -1 : 0;
	device = PyObject_CallObject(method, NULL);
	Py_DECREF(method);
	if (!device || !PyArg_ParseTuple(device, "ii", &type, &id)) {
		Py_XDECREF(device);
		return -1;
	}
	Py_DECREF(device);
	if (type != DL_CPU && type != DL_CUDA && type != DL_CUDA_HOST && type != DL_CUDA_MANAGED) {
		PyErr_Format(core_invalid_argument,
			     "%s lies on a device of DLPack's kind %d; libcoll takes memory of the "
			     "host and of CUDA devices",
			     what, type);
		return -1;
	}
	a->on_device = type == DL_CUDA || type == DL_CUDA_MANAGED;
	a->ready = a->on_device ? (stream ? stream : (coll_stream_t)1) : NULL;
	capsule = dlpack_export(object, a->on_device, a->ready);
	tensor = capsule ? PyCapsule_GetPointer(capsule, "dltensor") : NULL;
	a->owner = capsule;
	return !tensor || dlpack_read(a, tensor, what) ? -1 : 1;
}

/* ---- any array ---- */

/* The memory as elements of the view's type. */
static int view_take(struct array *a, const struct view *view, int writable, coll_stream_t stream,
		     const char *what)
{
	const size_t size = coll_dtype_size(view->dtype);
	size_t bytes;

	if (array_take(a, view->object, writable, stream, what))
		return -1;
	bytes = a->count * coll_dtype_size(a->dtype);
	if (bytes % size) {
		PyErr_Format(core_invalid_argument,
			     "%s has %zu bytes, which are no whole elements of %s", what, bytes,
			     coll_dtype_name(view->dtype));
		return -1;
	}
	a->dtype = view->dtype;
	a->count = bytes / size;
	return 0;
}

int array_take(struct array *a, PyObject *object, int writable, coll_stream_t stream,
	       const char *what)
{
	int took;

	if (Py_TYPE(object) == view_type)
		return view_take(a, (struct view *)object, writable, stream, what);
	took = buffer_take(a, object, writable, what);
	if (!took)
		took = interface_take(a, object, "__cuda_array_interface__", 1, writable, what);
	if (!took)
		took = interface_take(a, object, "__array_interface__", 0, writable, what);
	if (!took)
		took = dlpack_take(a, object, stream, what);
	if (!took)
		return refuse_object(what, object);
	return took < 0 ? -1 : 0;
}

void array_release(struct array *a)
{
	if (a->view.obj)
		PyBuffer_Release(&a->view);
	a->view.obj = NULL;
	Py_CLEAR(a->owner);
}

PyObject *core_array_info(PyObject *module, PyObject *object)
{
	struct array a = {0};
	PyObject *info = NULL;

	(void)module;
	if (!array_take(&a, object, 0, NULL, "x"))
		info = Py_BuildValue("isKi", a.dtype, coll_dtype_name(a.dtype),
				     (unsigned long long)a.count, a.on_device);
	array_release(&a);
	return info;
}

/* ---- View ---- */

static PyObject *view_new(PyTypeObject *type, PyObject *args, PyObject *keywords)
{
	allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
	struct view *view;
	PyObject *object;
	int dtype;

	(void)keywords;
	if (!PyArg_ParseTuple(args, "Oi", &object, &dtype))
		return NULL;
	if (!coll_dtype_size(dtype)) {
		PyErr_Format(core_invalid_argument, "%d is no type of elements", dtype);
		return NULL;
	}
	view = (struct view *)alloc(type, 0);
	if (!view)
		return NULL;
	Py_INCREF(object);
	view->object = object;
	view->dtype = dtype;
	return (PyObject *)view;
}

static void view_dealloc(PyObject *self)
{
	PyTypeObject *type = Py_TYPE(self);
	freefunc free_object = (freefunc)PyType_GetSlot(type, Py_tp_free);

	Py_CLEAR(((struct view *)self)->object);
	free_object(self);
	Py_DECREF(type);
}

PyObject *view_type_make(void)
{
	static PyMemberDef members[] = {
		{"object", T_OBJECT, offsetof(struct view, object), READONLY, "The array."},
		{"dtype", T_INT, offsetof(struct view, dtype), READONLY, "The type's number."},
		{0}};
	static PyType_Slot slots[] = {
		{Py_tp_doc, "An array with a type of elements that its own type cannot say."},
		{Py_tp_new, (void *)view_new},
		{Py_tp_dealloc, (void *)view_dealloc},
		{Py_tp_members, members},
		{0, NULL}};
	static PyType_Spec spec = {"coll._core.View", sizeof(struct view), 0, Py_TPFLAGS_DEFAULT,
				   slots};

	view_type = (PyTypeObject *)PyType_FromSpec(&spec);
	return (PyObject *)view_type;
}
