/* Functions on columns of states: byte planes, decimals, sums in short; and one on the heap. */
#include "bind.h"

#ifdef __GLIBC__
#include <malloc.h>
#endif

/* One part after the other, each a bytes object of its own. */
static PyObject *written_parts(const int64_t *values, const int64_t *order, const int64_t *cuts, Py_ssize_t parts,
                               int_code code)
{
    PyObject *list = PyList_New(parts);
    for (Py_ssize_t p = 0; list && p < parts; p++) {
        int64_t rows = cuts[p + 1] - cuts[p];
        PyObject *bytes = PyBytes_FromStringAndSize(NULL, rows * code.width);
        if (!bytes || PyList_SetItem(list, p, bytes)) {
            Py_DECREF(list);
            return NULL;
        }
    }
    if (!list) return NULL;
    for (Py_ssize_t p = 0; p < parts; p++) {
        uint8_t *out = (uint8_t *)PyBytes_AsString(PyList_GetItem(list, p)); /* nobody else knows of it yet */
        const int64_t *from = order ? values : values + cuts[p];
        Py_BEGIN_ALLOW_THREADS
        write_planes(from, order ? order + cuts[p] : NULL, cuts[p + 1] - cuts[p], code, out);
        Py_END_ALLOW_THREADS
    }
    return list;
}

/* values, order (empty: as they stand), cuts -> (width, base, [bytes]) */
static PyObject *py_pack_ints(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer values, order, cuts;
    PyObject *result = NULL;
    int ordered;
    if (!PyArg_ParseTuple(args, "y*py*y*", &values, &ordered, &order, &cuts)) return NULL;
    Py_ssize_t rows = items_in(&values, sizeof(int64_t)), bounds = items_in(&cuts, sizeof(int64_t));
    bool fits = rows >= 0 && bounds > 0;
    if (rows >= 0 && bounds == 0) PyErr_SetString(PyExc_ValueError, "no cuts");
    if (fits && ordered) {
        fits = parts_in(&order, &cuts, rows);
    } else if (fits) {
        const int64_t *cut = cuts.buf;
        bool ascend = cut[0] >= 0 && cut[bounds - 1] <= rows;
        for (Py_ssize_t i = 0; i + 1 < bounds; i++) ascend = ascend && cut[i] <= cut[i + 1];
        if (!ascend) PyErr_SetString(PyExc_ValueError, "cuts do not ascend inside the column");
        fits = ascend;
    }
    if (fits) {
        int_code code;
        Py_BEGIN_ALLOW_THREADS
        code = code_ints(values.buf, rows);
        Py_END_ALLOW_THREADS
        PyObject *parts = written_parts(values.buf, ordered ? order.buf : NULL, cuts.buf, bounds - 1, code);
        if (parts) result = Py_BuildValue("iLN", code.width, (long long)code.base, parts);
    }
    PyBuffer_Release(&values);
    PyBuffer_Release(&order);
    PyBuffer_Release(&cuts);
    return result;
}

/* [(rows, width, base, planes), ...], out: the parts one behind the other */
static PyObject *py_unpack_ints(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer out;
    PyObject *parts;
    if (!PyArg_ParseTuple(args, "O!w*", &PyList_Type, &parts, &out)) return NULL;
    Py_ssize_t left = items_in(&out, sizeof(int64_t)), count = PyList_Size(parts);
    int64_t *to = out.buf;
    bool fits = left >= 0;
    for (Py_ssize_t p = 0; fits && p < count; p++) {
        long long rows, base;
        int_code code;
        Py_buffer planes;
        PyObject *part = PyList_GetItem(parts, p);
        if (!part || !PyArg_ParseTuple(part, "LiLy*", &rows, &code.width, &base, &planes)) {
            fits = false;
            break;
        }
        code.base = base;
        fits = rows >= 0 && rows <= left && code.width >= 0 && code.width <= 8 && planes.len == rows * code.width;
        if (fits) {
            Py_BEGIN_ALLOW_THREADS
            read_planes(planes.buf, rows, code, to);
            Py_END_ALLOW_THREADS
            to += rows;
            left -= (Py_ssize_t)rows;
        } else {
            PyErr_SetString(PyExc_ValueError, "planes that do not fit their rows");
        }
        PyBuffer_Release(&planes);
    }
    if (fits && left) PyErr_SetString(PyExc_ValueError, "more room than rows");
    fits = fits && !left;
    PyBuffer_Release(&out);
    return fits ? Py_NewRef(Py_None) : NULL;
}

static PyObject *py_scale_floats(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer values, out;
    if (!PyArg_ParseTuple(args, "y*w*", &values, &out)) return NULL;
    Py_ssize_t rows = items_in(&values, sizeof(double));
    bool fits = rows >= 0 && has_items(&out, sizeof(int64_t), rows);
    int digits = ANY_FLOAT;
    if (fits) {
        Py_BEGIN_ALLOW_THREADS
        digits = scale_floats(values.buf, rows, out.buf);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&values);
    PyBuffer_Release(&out);
    return fits ? PyLong_FromLong(digits) : NULL;
}

static PyObject *py_short_units(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer near, out;
    int digits;
    long long unit;
    if (!PyArg_ParseTuple(args, "y*iLw*", &near, &digits, &unit, &out)) return NULL;
    Py_ssize_t rows = items_in(&near, sizeof(int64_t));
    bool fits = rows >= 0 && has_items(&out, sizeof(int64_t), rows);
    if (fits && (digits < ANY_FLOAT || digits > DIGITS_MAX || unit < -4096 || unit > 4096)) {
        PyErr_SetString(PyExc_ValueError, "no such digits or unit");
        fits = false;
    }
    if (fits) {
        Py_BEGIN_ALLOW_THREADS
        short_units(near.buf, rows, digits, unit, out.buf);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&near);
    PyBuffer_Release(&out);
    return fits ? Py_NewRef(Py_None) : NULL;
}

/* The limbs of a list of (number, values), ascending; how many buffers are held, with an exception if not all. */
static Py_ssize_t limbs_in(PyObject *list, limb_columns *limbs, Py_buffer *held)
{
    limbs->count = (int)PyList_Size(list);
    for (Py_ssize_t i = 0; i < limbs->count; i++) {
        PyObject *item = PyList_GetItem(list, i);
        if (!item || !PyArg_ParseTuple(item, "iy*", &limbs->numbers[i], &held[i])) return i;
        bool ascend = limbs->numbers[i] >= LIMB_LEAST && limbs->numbers[i] <= LIMB_MOST &&
                      (i == 0 || limbs->numbers[i] > limbs->numbers[i - 1]);
        if (!ascend) PyErr_SetString(PyExc_ValueError, "no such limbs");
        if (!ascend || !has_items(&held[i], sizeof(int64_t), limbs->rows)) return i + 1;
        limbs->values[i] = held[i].buf;
    }
    return limbs->count;
}

/* [(number, values), ...], near, rest -> (digits, unit), or None if there is no such form */
static PyObject *py_short_sums(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer near, rest, held[LIMBS_MAX];
    PyObject *list, *result = NULL;
    limb_columns limbs;
    if (!PyArg_ParseTuple(args, "O!w*w*", &PyList_Type, &list, &near, &rest)) return NULL;
    Py_ssize_t rows = items_in(&near, sizeof(int64_t)), count = 0;
    bool fits = rows >= 0 && has_items(&rest, sizeof(int64_t), rows);
    if (fits && (PyList_Size(list) < 1 || PyList_Size(list) > LIMBS_MAX)) {
        PyErr_SetString(PyExc_ValueError, "1 to 12 limbs");
        fits = false;
    }
    if (fits) {
        limbs.rows = rows;
        count = limbs_in(list, &limbs, held);
    }
    if (fits && !PyErr_Occurred()) {
        short_form form;
        Py_BEGIN_ALLOW_THREADS
        short_sums(&limbs, &form, near.buf, rest.buf);
        Py_END_ALLOW_THREADS
        result = form.found ? Py_BuildValue("iL", form.digits, (long long)form.unit) : Py_NewRef(Py_None);
    }
    for (Py_ssize_t i = 0; i < count; i++) PyBuffer_Release(&held[i]);
    PyBuffer_Release(&near);
    PyBuffer_Release(&rest);
    return result;
}

/* Let the C library return what is free in its heap; True if it can. */
static PyObject *py_give_back(PyObject *Py_UNUSED(module), PyObject *Py_UNUSED(none))
{
#ifdef __GLIBC__
    Py_BEGIN_ALLOW_THREADS
    malloc_trim(0);
    Py_END_ALLOW_THREADS
    Py_RETURN_TRUE;
#else
    Py_RETURN_FALSE;
#endif
}

PyMethodDef column_functions[] = {
    {"give_back", py_give_back, METH_NOARGS, "give_back() -> whether that is possible here"},
    {"pack_ints", py_pack_ints, METH_VARARGS, "pack_ints(values, ordered, order, cuts) -> (width, base, parts)"},
    {"unpack_ints", py_unpack_ints, METH_VARARGS, "unpack_ints([(rows, width, base, planes), ...], out)"},
    {"scale_floats", py_scale_floats, METH_VARARGS, "scale_floats(values, out) -> digits"},
    {"short_units", py_short_units, METH_VARARGS, "short_units(near, digits, unit, out)"},
    {"short_sums", py_short_sums, METH_VARARGS, "short_sums([(number, limbs), ...], near, rest) -> (digits, unit)"},
    {NULL, NULL, 0, NULL},
};
