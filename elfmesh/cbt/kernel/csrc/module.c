/* The module `elfmesh.cbt.kernel._native`: names and start-up checks; the work is in the other files. */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

static PyMethodDef functions[] = {{NULL, NULL, 0, NULL}};

static PyModuleDef_Slot slots[] = {{0, NULL}};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT, "elfmesh.cbt.kernel._native", "The hot operations in C.", 0, functions, slots, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__native(void) { return PyModuleDef_Init(&module); }
