/* The module `elfmesh.cbt.kernel._native`: what it offers, and whether this machine is one it was written for. */
#include "bind.h"

/* Raised whenever a function takes other arguments, so that a stale build is noticed instead of crashing. */
#define INTERFACE 5

static int fill_module(PyObject *module)
{
    const uint16_t one = 1;
    uint8_t first;
    memcpy(&first, &one, 1);
    if (first != 1) {
        PyErr_SetString(PyExc_ImportError, "the native kernel needs a little-endian machine");
        return -1;
    }
    if (PyModule_AddFunctions(module, run_functions) || PyModule_AddFunctions(module, array_functions)) return -1;
    if (PyModule_AddFunctions(module, field_functions) || PyModule_AddFunctions(module, column_functions)) return -1;
    if (PyModule_AddIntConstant(module, "INTERFACE", INTERFACE)) return -1;
    PyObject *type = PyType_FromModuleAndSpec(module, &table_spec, NULL);
    int failed = !type || PyModule_AddObjectRef(module, "Table", type);
    Py_XDECREF(type);
    return failed ? -1 : 0;
}

static PyModuleDef_Slot slots[] = {{Py_mod_exec, fill_module}, {0, NULL}};

static struct PyModuleDef module = {
    PyModuleDef_HEAD_INIT,
    "elfmesh.cbt.kernel._native",
    "The hot operations in C. Call them through elfmesh.cbt.kernel.native, which allocates what they fill.",
    0,
    NULL,
    slots,
    NULL,
    NULL,
    NULL,
};

PyMODINIT_FUNC PyInit__native(void) { return PyModuleDef_Init(&module); }
