/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * abi.h - Python's limited API of 3.9, and the functions that 3.9 has and that became part of the limited API later.
 *
 * The buffer protocol entered it with 3.11 and METH_FASTCALL with 3.10.  CPython has had both since 3.3 and 3.7 in the
 * form that this header declares, so one extension serves every Python from 3.9 on.
 */
#ifndef COLL_PYTHON_ABI_H
#define COLL_PYTHON_ABI_H

#define PY_SSIZE_T_CLEAN
#ifndef Py_LIMITED_API
#define Py_LIMITED_API 0x03090000
#endif
#include <Python.h>
#include <structmember.h>

#if Py_LIMITED_API + 0 < 0x030b0000
typedef struct {
	void *buf;
	PyObject *obj;
	Py_ssize_t len;
	Py_ssize_t itemsize;
	int readonly;
	int ndim;
	char *format;
	Py_ssize_t *shape;
	Py_ssize_t *strides;
	Py_ssize_t *suboffsets;
	void *internal;
} Py_buffer;

PyAPI_FUNC(int) PyObject_GetBuffer(PyObject *object, Py_buffer *view, int flags);
PyAPI_FUNC(void) PyBuffer_Release(Py_buffer *view);
PyAPI_FUNC(int) PyBuffer_FillInfo(Py_buffer *view, PyObject *object, void *data, Py_ssize_t bytes,
				  int readonly, int flags);

enum {
	PyBUF_WRITABLE = 0x1,
	PyBUF_FORMAT = 0x4,
	PyBUF_STRIDES = 0x10 | 0x8,
	PyBUF_C_CONTIGUOUS = 0x20 | PyBUF_STRIDES
};
#endif

#ifndef PyBUF_READ
#define PyBUF_READ  0x100
#define PyBUF_WRITE 0x200
#endif
#ifndef Py_bf_getbuffer
#define Py_bf_getbuffer 1 /* a slot of PyType_FromSpec */
#endif
#ifndef METH_FASTCALL
#define METH_FASTCALL 0x80
#endif

#endif
