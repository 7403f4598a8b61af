/* elfmesh.ingest.parsers._scan: the scanner for Python, against the stable ABI. Every buffer is the caller's;
 * sizes are checked here, once a call, and the interpreter is free for other threads while a block is scanned.
 */
#define PY_SSIZE_T_CLEAN
#include <Python.h>

#include "scan.h"

static Bytes bytes_of(const Py_buffer *view) { return (Bytes){view->buf, (size_t)view->len}; }

static void release(Py_buffer *views, int count) {
    for (int at = 0; at < count; at++) {
        if (views[at].obj) {
            PyBuffer_Release(&views[at]);
        }
    }
}

/* Whether a buffer holds exactly `count` items. */
static bool holds(const Py_buffer *view, size_t count, size_t width) {
    return (size_t)view->len / width == count && (size_t)view->len % width == 0;
}

static PyObject *refuse(Py_buffer *views, int count, const char *why) {
    release(views, count);
    PyErr_SetString(PyExc_ValueError, why);
    return NULL;
}

static bool lines_of(const Py_buffer *starts, const Py_buffer *ends, size_t size, Lines *lines) {
    *lines = (Lines){starts->buf, ends->buf, (size_t)starts->len / sizeof(int64_t)};
    if (!holds(starts, lines->count, sizeof(int64_t)) || !holds(ends, lines->count, sizeof(int64_t)) ||
        size > INT32_MAX) {
        return false;
    }
    for (size_t at = 0; at < lines->count; at++) {
        if (lines->starts[at] < 0 || lines->starts[at] > lines->ends[at] || lines->ends[at] > (int64_t)size) {
            return false;
        }
    }
    return true;
}

static bool grid_of(const Py_buffer *kinds, const Py_buffer *cells, size_t slots, size_t lines, Grid *grid) {
    *grid = (Grid){kinds->buf, cells->buf, slots, lines};
    return holds(kinds, slots * lines, 1) && holds(cells, slots * lines, sizeof(uint64_t));
}

static PyObject *scan_valid(PyObject *self, PyObject *args) {
    Py_buffer view;
    (void)self;
    if (!PyArg_ParseTuple(args, "y*", &view)) {
        return NULL;
    }
    bool valid;
    Py_BEGIN_ALLOW_THREADS
    valid = utf8_is_valid(bytes_of(&view));
    Py_END_ALLOW_THREADS
    release(&view, 1);
    return PyBool_FromLong(valid);
}

static PyObject *scan_newlines(PyObject *self, PyObject *args) {
    Py_buffer view;
    (void)self;
    if (!PyArg_ParseTuple(args, "y*", &view)) {
        return NULL;
    }
    size_t count;
    Py_BEGIN_ALLOW_THREADS
    count = count_newlines(bytes_of(&view));
    Py_END_ALLOW_THREADS
    release(&view, 1);
    return PyLong_FromSize_t(count);
}

static PyObject *scan_split(PyObject *self, PyObject *args) {
    Py_buffer views[3] = {{0}};
    (void)self;
    if (!PyArg_ParseTuple(args, "y*w*w*", &views[0], &views[1], &views[2])) {
        return NULL;
    }
    size_t count, room = (size_t)(views[1].len < views[2].len ? views[1].len : views[2].len) / sizeof(int64_t);
    Py_BEGIN_ALLOW_THREADS
    count = split_lines(bytes_of(&views[0]), views[1].buf, views[2].buf, room);
    Py_END_ALLOW_THREADS
    if (count == SIZE_MAX) {
        return refuse(views, 3, "more lines than starts and ends have room for");
    }
    release(views, 3);
    return PyLong_FromSize_t(count);
}

static const char PLAN_NAME[] = "elfmesh.ingest.parsers._scan.plan";

static void drop_plan(PyObject *capsule) { plan_free(PyCapsule_GetPointer(capsule, PLAN_NAME)); }

static PyObject *scan_plan(PyObject *self, PyObject *args) {
    Py_buffer view;
    (void)self;
    if (!PyArg_ParseTuple(args, "y*", &view)) {
        return NULL;
    }
    Plan *plan = plan_new(bytes_of(&view));
    release(&view, 1);
    if (!plan) {
        PyErr_SetString(PyExc_ValueError, "not the description of a plan");
        return NULL;
    }
    PyObject *capsule = PyCapsule_New(plan, PLAN_NAME, drop_plan);
    if (!capsule) {
        plan_free(plan);
    }
    return capsule;
}

/* Shared by the formats whose wanted names are a plan. */
static PyObject *scan_by_plan(plan_scan *scan, PyObject *args) {
    PyObject *capsule;
    Py_buffer v[6] = {{0}};
    Lines lines;
    Grid grid;
    if (!PyArg_ParseTuple(args, "Oy*y*y*w*w*w*", &capsule, &v[0], &v[1], &v[2], &v[3], &v[4], &v[5])) {
        return NULL;
    }
    Plan *plan = PyCapsule_GetPointer(capsule, PLAN_NAME);
    if (!plan) {
        release(v, 6);
        return NULL;
    }
    Bytes block = bytes_of(&v[0]);
    if (!lines_of(&v[1], &v[2], block.size, &lines)) {
        return refuse(v, 6, "starts and ends are not lines of the block, or it is too large");
    }
    if (!grid_of(&v[3], &v[4], plan_slots(plan), lines.count, &grid)) {
        return refuse(v, 6, "kinds and cells must have a row per slot and a column per line");
    }
    Refused refused = {v[5].buf, 0, (size_t)v[5].len / sizeof(int64_t)};
    bool done;
    Py_BEGIN_ALLOW_THREADS
    done = scan(plan, block, lines, grid, &refused);
    Py_END_ALLOW_THREADS
    release(v, 6);
    return done ? PyLong_FromSize_t(refused.count) : PyErr_NoMemory();
}

static PyObject *scan_project(PyObject *self, PyObject *args) {
    (void)self;
    return scan_by_plan(project_lines, args);
}

static PyObject *scan_logfmt(PyObject *self, PyObject *args) {
    (void)self;
    return scan_by_plan(logfmt_lines, args);
}

static PyObject *scan_access(PyObject *self, PyObject *args) {
    int combined;
    Py_buffer v[7] = {{0}};
    Lines lines;
    Grid grid;
    (void)self;
    if (!PyArg_ParseTuple(args, "py*y*y*y*w*w*w*", &combined, &v[0], &v[1], &v[2], &v[3], &v[4], &v[5], &v[6])) {
        return NULL;
    }
    Bytes block = bytes_of(&v[0]), wanted = bytes_of(&v[3]);
    if (!lines_of(&v[1], &v[2], block.size, &lines) || !holds(&v[6], lines.count, sizeof(int64_t))) {
        return refuse(v, 7, "starts, ends and refused are not lines of the block, or it is too large");
    }
    for (size_t slot = 0; slot < wanted.size; slot++) {
        if (wanted.data[slot] >= ACCESS_FIELDS) {
            return refuse(v, 7, "no such field");
        }
    }
    if (!grid_of(&v[4], &v[5], wanted.size, lines.count, &grid)) {
        return refuse(v, 7, "kinds and cells must have a row per slot and a column per line");
    }
    size_t refused;
    Py_BEGIN_ALLOW_THREADS
    refused = access_lines(combined != 0, block, lines, wanted.data, grid, v[6].buf);
    Py_END_ALLOW_THREADS
    release(v, 7);
    return PyLong_FromSize_t(refused);
}

static PyObject *scan_times(PyObject *self, PyObject *args) {
    Py_buffer v[6] = {{0}};
    (void)self;
    if (!PyArg_ParseTuple(args, "y*y*y*y*w*w*", &v[0], &v[1], &v[2], &v[3], &v[4], &v[5])) {
        return NULL;
    }
    Texts texts = {bytes_of(&v[0]), bytes_of(&v[1])};
    size_t count = (size_t)v[2].len, open;
    if (!holds(&v[3], count, 8) || !holds(&v[4], count, 8) || !holds(&v[5], count, 1)) {
        return refuse(v, 6, "kinds, cells, times and outcome differ in length");
    }
    Py_BEGIN_ALLOW_THREADS
    open = read_times(&texts, v[2].buf, v[3].buf, count, v[4].buf, v[5].buf);
    Py_END_ALLOW_THREADS
    release(v, 6);
    return PyLong_FromSize_t(open);
}

static PyObject *scan_offsets(PyObject *self, PyObject *args) {
    Py_buffer v[5] = {{0}};
    (void)self;
    if (!PyArg_ParseTuple(args, "y*y*y*y*w*", &v[0], &v[1], &v[2], &v[3], &v[4])) {
        return NULL;
    }
    Texts texts = {bytes_of(&v[0]), bytes_of(&v[1])};
    size_t count = (size_t)v[2].len, total = 0;
    if (!holds(&v[3], count, 8) || !holds(&v[4], count + 1, sizeof(int32_t))) {
        return refuse(v, 5, "kinds, cells and offsets do not fit together");
    }
    bool fits;
    Py_BEGIN_ALLOW_THREADS
    fits = text_offsets(&texts, v[2].buf, v[3].buf, count, v[4].buf, &total);
    Py_END_ALLOW_THREADS
    if (!fits) {
        return refuse(v, 5, "more text than a string column holds");
    }
    release(v, 5);
    return PyLong_FromSize_t(total);
}

static PyObject *scan_texts(PyObject *self, PyObject *args) {
    Py_buffer v[6] = {{0}};
    (void)self;
    if (!PyArg_ParseTuple(args, "y*y*y*y*w*w*", &v[0], &v[1], &v[2], &v[3], &v[4], &v[5])) {
        return NULL;
    }
    Texts texts = {bytes_of(&v[0]), bytes_of(&v[1])};
    size_t count = (size_t)v[2].len, used = 0, room = (size_t)v[5].len;
    if (!holds(&v[3], count, 8) || !holds(&v[4], count + 1, sizeof(int32_t))) {
        return refuse(v, 6, "kinds, cells and offsets do not fit together");
    }
    bool fits;
    Py_BEGIN_ALLOW_THREADS
    fits = text_copy(&texts, v[2].buf, v[3].buf, count, v[4].buf, v[5].buf, room, &used);
    Py_END_ALLOW_THREADS
    if (!fits) {
        return refuse(v, 6, "the texts need more room than they were given");
    }
    release(v, 6);
    return PyLong_FromSize_t(used);
}

static PyObject *scan_present(PyObject *self, PyObject *args) {
    Py_buffer view;
    (void)self;
    if (!PyArg_ParseTuple(args, "y*", &view)) {
        return NULL;
    }
    unsigned present = kinds_present(view.buf, (size_t)view.len);
    release(&view, 1);
    return PyLong_FromUnsignedLong(present);
}

static PyObject *scan_validity(PyObject *self, PyObject *args) {
    Py_buffer v[2] = {{0}};
    (void)self;
    if (!PyArg_ParseTuple(args, "y*w*", &v[0], &v[1])) {
        return NULL;
    }
    size_t count = (size_t)v[0].len;
    if (!holds(&v[1], (count + 7) / 8, 1)) {
        return refuse(v, 2, "one bit per kind is needed");
    }
    size_t nulls = valid_bits(v[0].buf, count, v[1].buf);
    release(v, 2);
    return PyLong_FromSize_t(nulls);
}

/* Shared by the kinds of fixed width: 'i', 'f' or 'b' and the column's own buffer. */
static PyObject *scan_values(PyObject *self, PyObject *args) {
    int what;
    Py_buffer v[3] = {{0}};
    (void)self;
    if (!PyArg_ParseTuple(args, "Cy*y*w*", &what, &v[0], &v[1], &v[2])) {
        return NULL;
    }
    size_t count = (size_t)v[0].len;
    bool bits = what == 'b';
    if (!holds(&v[1], count, 8) || !holds(&v[2], bits ? (count + 7) / 8 : count, bits ? 1 : 8)) {
        return refuse(v, 3, "kinds, cells and values do not fit together");
    }
    if (bits) {
        bools_of(v[0].buf, v[1].buf, count, v[2].buf);
    } else if (what == 'f') {
        floats_of(v[0].buf, v[1].buf, count, v[2].buf);
    } else {
        ints_of(v[0].buf, v[1].buf, count, v[2].buf);
    }
    release(v, 3);
    Py_RETURN_NONE;
}

static PyMethodDef METHODS[] = {
    {"valid", scan_valid, METH_VARARGS, "valid(block) -> bool: whether it is UTF-8."},
    {"newlines", scan_newlines, METH_VARARGS, "newlines(block) -> int"},
    {"split", scan_split, METH_VARARGS, "split(block, starts, ends) -> int: the non-blank lines, how many."},
    {"plan", scan_plan, METH_VARARGS, "plan(description) -> capsule"},
    {"project", scan_project, METH_VARARGS, "project(plan, block, starts, ends, kinds, cells, refused) -> int"},
    {"logfmt", scan_logfmt, METH_VARARGS, "logfmt(plan, block, starts, ends, kinds, cells, refused) -> int"},
    {"access", scan_access, METH_VARARGS, "access(combined, block, starts, ends, wanted, kinds, cells, refused)"},
    {"times", scan_times, METH_VARARGS, "times(block, side, kinds, cells, times, outcome) -> int: still open"},
    {"offsets", scan_offsets, METH_VARARGS, "offsets(block, side, kinds, cells, offsets) -> int: room needed"},
    {"texts", scan_texts, METH_VARARGS, "texts(block, side, kinds, cells, offsets, out) -> int: bytes used"},
    {"present", scan_present, METH_VARARGS, "present(kinds) -> int: a bit per kind"},
    {"validity", scan_validity, METH_VARARGS, "validity(kinds, bits) -> int: nulls"},
    {"values", scan_values, METH_VARARGS, "values('i'|'f'|'b', kinds, cells, out)"},
    {NULL, NULL, 0, NULL},
};

/* What scanner.py expects; grows with every change of what a function takes or gives. */
enum { INTERFACE = 2 };

static int prepare(PyObject *module) {
    if (!numbers_ready()) {
        PyErr_SetString(PyExc_ImportError, "the C library has no plain locale to read numbers in");
        return -1;
    }
    return PyModule_AddIntConstant(module, "INTERFACE", INTERFACE);
}

static PyModuleDef_Slot SLOTS[] = {{Py_mod_exec, (void *)prepare}, {0, NULL}};

static struct PyModuleDef DEFINITION = {
    PyModuleDef_HEAD_INIT, "_scan", "Lines of logs into cells (see scan.h).", 0, METHODS, SLOTS, NULL, NULL, NULL,
};

PyMODINIT_FUNC PyInit__scan(void);

PyMODINIT_FUNC PyInit__scan(void) { return PyModuleDef_Init(&DEFINITION); }
