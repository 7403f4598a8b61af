/* Functions on columns: sums by group, and key columns. */
#include "bind.h"

/* ids, values, out -> checked pointers; `size` of values 0 if there are none. False with an exception. */
static bool groups_in(const Py_buffer *ids, const Py_buffer *values, const Py_buffer *out, int64_t limbs,
                      int64_t *count, int64_t *groups)
{
    Py_ssize_t rows = items_in(ids, sizeof(int64_t)), cells = items_in(out, sizeof(int64_t));
    if (rows < 0 || cells < 0 || (values && !has_items(values, sizeof(int64_t), rows))) return false;
    *count = rows;
    *groups = cells / limbs;
    fault wrong;
    Py_BEGIN_ALLOW_THREADS
    wrong = check_ids(ids->buf, rows, *groups);
    Py_END_ALLOW_THREADS
    if (wrong) PyErr_SetString(PyExc_IndexError, wrong);
    return !wrong;
}

static PyObject *py_count(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer ids, out;
    int64_t count, groups;
    if (!PyArg_ParseTuple(args, "y*w*", &ids, &out)) return NULL;
    bool fits = groups_in(&ids, NULL, &out, 1, &count, &groups);
    if (fits) {
        Py_BEGIN_ALLOW_THREADS
        scatter_count(ids.buf, count, out.buf, groups);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&ids);
    PyBuffer_Release(&out);
    return fits ? Py_NewRef(Py_None) : NULL;
}

typedef void (*scatter)(const int64_t *ids, const int64_t *values, int64_t count, int64_t *out, int64_t groups);

static PyObject *scatter_values(PyObject *args, scatter work)
{
    Py_buffer ids, values, out;
    int64_t count, groups;
    if (!PyArg_ParseTuple(args, "y*y*w*", &ids, &values, &out)) return NULL;
    bool fits = groups_in(&ids, &values, &out, 1, &count, &groups);
    if (fits) {
        Py_BEGIN_ALLOW_THREADS
        work(ids.buf, values.buf, count, out.buf, groups);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&ids);
    PyBuffer_Release(&values);
    PyBuffer_Release(&out);
    return fits ? Py_NewRef(Py_None) : NULL;
}

static PyObject *py_add(PyObject *Py_UNUSED(module), PyObject *args) { return scatter_values(args, scatter_add); }
static PyObject *py_least(PyObject *Py_UNUSED(module), PyObject *args) { return scatter_values(args, scatter_least); }

static PyObject *py_greatest(PyObject *Py_UNUSED(module), PyObject *args)
{
    return scatter_values(args, scatter_greatest);
}

static PyObject *py_least_floats(PyObject *Py_UNUSED(module), PyObject *args)
{
    return scatter_values(args, scatter_least_floats);
}

static PyObject *py_greatest_floats(PyObject *Py_UNUSED(module), PyObject *args)
{
    return scatter_values(args, scatter_greatest_floats);
}

static PyObject *py_add_floats(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer ids, values, out;
    long long limbs, lowest;
    int64_t count, groups, added = 0;
    if (!PyArg_ParseTuple(args, "y*y*w*LL", &ids, &values, &out, &limbs, &lowest)) return NULL;
    bool fits = limbs > 0 && limbs < 1000 && lowest > -1000 && lowest < 1000;
    if (!fits) PyErr_SetString(PyExc_ValueError, "no such limbs");
    fits = fits && groups_in(&ids, &values, &out, 1 + limbs, &count, &groups);
    if (fits) {
        Py_BEGIN_ALLOW_THREADS
        added = scatter_floats(ids.buf, values.buf, count, out.buf, limbs, lowest);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&ids);
    PyBuffer_Release(&values);
    PyBuffer_Release(&out);
    return fits ? PyLong_FromLongLong(added) : NULL;
}

/* The buffers of one key column: values, offsets, data, valid; those it does not have are empty. */
typedef struct {
    Py_buffer parts[4];
} column_buffers;

typedef struct {
    key_column *columns;
    column_buffers *buffers;
    Py_ssize_t count, held;
} column_list;

static void release_columns(column_list *list)
{
    for (Py_ssize_t i = 0; i < list->held; i++)
        for (int part = 0; part < 4; part++) PyBuffer_Release(&list->buffers[i].parts[part]);
    free(list->columns);
    free(list->buffers);
}

/* Whether a column has what its width says, for that many rows. `bytes` is how long its strings may get if they
 * are to be written, -1 if they are there. */
static bool column_in(key_column *c, const column_buffers *b, int64_t rows, int64_t bytes)
{
    const Py_buffer *values = &b->parts[0], *offsets = &b->parts[1], *data = &b->parts[2], *valid = &b->parts[3];
    bool known = c->width == -1 || c->width == 0 || c->width == 1 || c->width == 4 || c->width == 8 || c->width == 16;
    if (!known) {
        PyErr_Format(PyExc_ValueError, "a key column of %d bytes", c->width);
        return false;
    }
    c->values = values->buf;
    c->offsets = offsets->buf;
    c->data = data->buf;
    c->valid = valid->len || bytes >= 0 ? valid->buf : NULL;
    if (c->width > 0 && !has_items(values, 1, rows * c->width)) return false;
    if (c->nullable && c->valid && !has_items(valid, 1, rows)) return false;
    if (c->width != -1) return true;
    if (bytes >= 0) return has_items(offsets, sizeof(int32_t), rows + 1) && has_items(data, 1, bytes);
    if (!has_items(offsets, sizeof(int32_t), rows + 1)) return false;
    keys_view strings = {c->offsets, c->data, rows};
    fault wrong = check_offsets(&strings, data->len);
    if (wrong) raise_fault(wrong);
    return !wrong;
}

/* A list of (width, nullable, values, offsets, data, valid). False with an exception. */
static bool columns_in(PyObject *source, column_list *list, const char *format, int64_t rows, int64_t bytes)
{
    *list = (column_list){NULL, NULL, PyList_Size(source), 0};
    if (list->count < 0) return false;
    list->columns = calloc((size_t)list->count + 1, sizeof *list->columns);
    list->buffers = calloc((size_t)list->count + 1, sizeof *list->buffers);
    if (!list->columns || !list->buffers) {
        PyErr_NoMemory();
        return false;
    }
    for (Py_ssize_t i = 0; i < list->count; i++) {
        key_column *c = &list->columns[i];
        Py_buffer *parts = list->buffers[i].parts;
        int nullable;
        if (!PyArg_ParseTuple(PyList_GetItem(source, i), format, &c->width, &nullable, &parts[0], &parts[1],
                              &parts[2], &parts[3]))
            return false;
        list->held++;
        c->nullable = nullable;
        if (!column_in(c, &list->buffers[i], rows, bytes)) return false;
    }
    return true;
}

static PyObject *py_encoded_sizes(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *source;
    Py_buffer sizes;
    column_list list;
    if (!PyArg_ParseTuple(args, "O!w*", &PyList_Type, &source, &sizes)) return NULL;
    Py_ssize_t rows = items_in(&sizes, sizeof(int64_t));
    bool fits = rows >= 0;
    if (fits) {
        fits = columns_in(source, &list, "ipy*y*y*y*", rows, -1);
        if (fits) {
            Py_BEGIN_ALLOW_THREADS
            encoded_sizes(list.columns, (int)list.count, rows, sizes.buf);
            Py_END_ALLOW_THREADS
        }
        release_columns(&list);
    }
    PyBuffer_Release(&sizes);
    return fits ? Py_NewRef(Py_None) : NULL;
}

/* The offsets are the sizes that encoded_sizes gave for the same columns, added up: the adapter's duty. */
static PyObject *py_encode_keys(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *source, *result = NULL;
    Py_buffer offsets, out;
    keys_view keys;
    column_list list;
    if (!PyArg_ParseTuple(args, "O!y*w*", &PyList_Type, &source, &offsets, &out)) return NULL;
    if (keys_in(&keys, &offsets, &out)) {
        if (columns_in(source, &list, "ipy*y*y*y*", keys.count, -1)) {
            fault wrong;
            Py_BEGIN_ALLOW_THREADS
            wrong = encode_keys(list.columns, (int)list.count, keys.count, offsets.buf, out.buf);
            Py_END_ALLOW_THREADS
            result = none_or_fault(wrong);
        }
        release_columns(&list);
    }
    PyBuffer_Release(&offsets);
    PyBuffer_Release(&out);
    return result;
}

static PyObject *py_decode_keys(PyObject *Py_UNUSED(module), PyObject *args)
{
    PyObject *source, *result = NULL;
    Py_buffer offsets, data;
    keys_view keys;
    column_list list;
    if (!PyArg_ParseTuple(args, "y*y*O!", &offsets, &data, &PyList_Type, &source)) return NULL;
    if (keys_in(&keys, &offsets, &data)) {
        int64_t bytes = keys.offsets[keys.count] - keys.offsets[0];
        if (columns_in(source, &list, "ipw*w*w*w*", keys.count, bytes)) {
            fault wrong;
            Py_BEGIN_ALLOW_THREADS
            wrong = decode_keys(&keys, list.columns, (int)list.count);
            Py_END_ALLOW_THREADS
            result = none_or_fault(wrong);
        }
        release_columns(&list);
    }
    PyBuffer_Release(&offsets);
    PyBuffer_Release(&data);
    return result;
}

PyMethodDef array_functions[] = {
    {"count", py_count, METH_VARARGS, "count(ids, out)"},
    {"add", py_add, METH_VARARGS, "add(ids, values, out)"},
    {"least", py_least, METH_VARARGS, "least(ids, values, out)"},
    {"greatest", py_greatest, METH_VARARGS, "greatest(ids, values, out)"},
    {"least_floats", py_least_floats, METH_VARARGS, "least_floats(ids, values, out)"},
    {"greatest_floats", py_greatest_floats, METH_VARARGS, "greatest_floats(ids, values, out)"},
    {"add_floats", py_add_floats, METH_VARARGS, "add_floats(ids, values, out, limbs, lowest) -> added"},
    {"encoded_sizes", py_encoded_sizes, METH_VARARGS, "encoded_sizes(columns, sizes)"},
    {"encode_keys", py_encode_keys, METH_VARARGS, "encode_keys(columns, offsets, out)"},
    {"decode_keys", py_decode_keys, METH_VARARGS, "decode_keys(offsets, data, columns)"},
    {NULL, NULL, 0, NULL},
};
