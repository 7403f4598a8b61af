/* Between Python and the kernel: buffers in, faults out. */
#ifndef ELFMESH_BIND_H
#define ELFMESH_BIND_H

#define PY_SSIZE_T_CLEAN
#include <Python.h>
#include <stdlib.h>
#include <string.h>

#include "kernel.h"

/* Set the exception of a fault; always NULL. */
PyObject *raise_fault(fault wrong);
PyObject *none_or_fault(fault wrong);

/* Items of `size` bytes in a buffer, or -1 with an exception: bytes left over, or not aligned to items. */
Py_ssize_t items_in(const Py_buffer *view, size_t size);
/* As items_in, but exactly that many. */
bool has_items(const Py_buffer *view, size_t size, int64_t count);

/* Take keys apart and make sure of them. False with an exception. */
bool keys_in(keys_view *keys, const Py_buffer *offsets, const Py_buffer *data);
/* order: rows of the keys; cuts: ascending places in it. False with an exception. */
bool parts_in(const Py_buffer *order, const Py_buffer *cuts, int64_t rows);
/* order, cuts: room for the rows and for the places between 2**bits parts. False with an exception. */
bool room_for_parts(const Py_buffer *order, const Py_buffer *cuts, int64_t rows, unsigned bits);

/* What was written, as (rows, key_bytes, wide, bytes). */
PyObject *written_run(const run_writer *w);
/* One run per part, as a list of those. */
PyObject *coded_parts(const keys_view *keys, const int64_t *order, const int64_t *cuts, int64_t parts);

extern PyType_Spec table_spec;
extern PyMethodDef run_functions[], array_functions[], field_functions[], column_functions[];

#endif
