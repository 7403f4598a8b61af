/* Functions on rows of several aggregates. */
#include "bind.h"

typedef struct {
    field fields[FIELDS_MAX];
    Py_buffer values[FIELDS_MAX];
    int count;
} field_list;

/* One (kind, place, lowest, values) of the list. False with an exception. */
static bool field_in(PyObject *source, field_list *list, int64_t rows, int64_t width)
{
    field *f = &list->fields[list->count];
    Py_buffer *values = &list->values[list->count];
    long long place, lowest;
    if (!source || !PyArg_ParseTuple(source, "iLLy*", &f->kind, &place, &lowest, values)) return false;
    list->count++;
    f->place = place;
    f->lowest = lowest;
    f->values = f->kind == FIELD_COUNT ? NULL : values->buf;
    int64_t words = f->kind == FIELD_FLOAT_SUM ? 2 : 1;
    if (f->kind < FIELD_COUNT || f->kind > FIELD_GREATEST_FLOAT || place < 0 || place > width - words ||
        lowest < -EXPONENT_MAX || lowest > EXPONENT_MAX) {
        PyErr_SetString(PyExc_ValueError, "no such field in a row");
        return false;
    }
    return f->kind == FIELD_COUNT || has_items(values, sizeof(int64_t), rows);
}

static bool fields_in(PyObject *source, field_list *list, int64_t rows, int64_t width)
{
    Py_ssize_t count = PyList_Size(source);
    if (count > FIELDS_MAX) {
        PyErr_SetString(PyExc_ValueError, "too many fields in a row");
        return false;
    }
    for (Py_ssize_t i = 0; i < count; i++)
        if (!field_in(PyList_GetItem(source, i), list, rows, width)) return false;
    return true;
}

/* ids, out, width, [(kind, place, lowest, values), ...] */
static PyObject *py_add_fields(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer ids, out;
    long long width;
    PyObject *source, *result = NULL;
    if (!PyArg_ParseTuple(args, "y*w*LO!", &ids, &out, &width, &PyList_Type, &source)) return NULL;
    field_list *list = calloc(1, sizeof *list);
    Py_ssize_t rows = items_in(&ids, sizeof(int64_t)), cells = items_in(&out, sizeof(int64_t));
    if (!list) {
        PyErr_NoMemory();
    } else if (rows >= 0 && cells >= 0) {
        if (width < 1 || cells % width) {
            PyErr_SetString(PyExc_ValueError, "rows that do not fill their array");
        } else if (fields_in(source, list, rows, width)) {
            fault wrong;
            Py_BEGIN_ALLOW_THREADS
            wrong = check_ids(ids.buf, rows, cells / width);
            if (!wrong) scatter_fields(ids.buf, rows, out.buf, width, list->fields, list->count);
            Py_END_ALLOW_THREADS
            if (wrong) PyErr_SetString(PyExc_IndexError, wrong);
            else result = Py_NewRef(Py_None);
        }
    }
    for (int i = 0; list && i < list->count; i++) PyBuffer_Release(&list->values[i]);
    free(list);
    PyBuffer_Release(&ids);
    PyBuffer_Release(&out);
    return result;
}

/* rows, from, width, out: width columns of the rows */
static PyObject *py_take_rows(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer rows, from, out;
    long long width;
    if (!PyArg_ParseTuple(args, "y*y*Lw*", &rows, &from, &width, &out)) return NULL;
    Py_ssize_t count = items_in(&rows, sizeof(int64_t)), cells = items_in(&from, sizeof(int64_t));
    fault wrong = width < 1 || width > INT32_MAX || cells % width ? "rows that do not fill their array" : NULL;
    bool fits = !wrong && count >= 0 && cells >= 0 && has_items(&out, sizeof(int64_t), count * width);
    if (fits) {
        Py_BEGIN_ALLOW_THREADS
        wrong = check_ids(rows.buf, count, cells / width);
        if (!wrong) take_rows(rows.buf, count, from.buf, width, out.buf);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&rows);
    PyBuffer_Release(&from);
    PyBuffer_Release(&out);
    if (wrong) return raise_fault(wrong);
    return fits ? Py_NewRef(Py_None) : NULL;
}

/* values -> (lowest, top), or None if all are 0 */
static PyObject *py_span_floats(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer values;
    if (!PyArg_ParseTuple(args, "y*", &values)) return NULL;
    Py_ssize_t rows = items_in(&values, sizeof(double));
    int64_t lowest, top;
    bool found = false;
    if (rows >= 0) {
        Py_BEGIN_ALLOW_THREADS
        found = span_floats(values.buf, rows, &lowest, &top);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&values);
    if (rows < 0) return NULL;
    return found ? Py_BuildValue("LL", (long long)lowest, (long long)top) : Py_NewRef(Py_None);
}

PyMethodDef field_functions[] = {
    {"add_fields", py_add_fields, METH_VARARGS, "add_fields(ids, out, width, [(kind, place, lowest, values), ...])"},
    {"take_rows", py_take_rows, METH_VARARGS, "take_rows(rows, from, width, out)"},
    {"span_floats", py_span_floats, METH_VARARGS, "span_floats(values) -> (lowest, top) or None"},
    {NULL, NULL, 0, NULL},
};
