/* What all bindings share. */
#include "bind.h"

PyObject *raise_fault(fault wrong)
{
    if (wrong == NO_MEMORY) return PyErr_NoMemory();
    PyErr_SetString(PyExc_ValueError, wrong);
    return NULL;
}

PyObject *none_or_fault(fault wrong)
{
    if (wrong) return raise_fault(wrong);
    Py_RETURN_NONE;
}

Py_ssize_t items_in(const Py_buffer *view, size_t size)
{
    if ((size_t)view->len % size || (uintptr_t)view->buf % size) {
        PyErr_SetString(PyExc_ValueError, "an array has the wrong type, or is not aligned");
        return -1;
    }
    return view->len / (Py_ssize_t)size;
}

bool has_items(const Py_buffer *view, size_t size, int64_t count)
{
    Py_ssize_t items = items_in(view, size);
    if (items >= 0 && items != count) PyErr_SetString(PyExc_ValueError, "an array has the wrong length");
    return items >= 0 && items == count;
}

bool keys_in(keys_view *keys, const Py_buffer *offsets, const Py_buffer *data)
{
    Py_ssize_t count = items_in(offsets, sizeof(int32_t));
    if (count < 0) return false;
    if (count == 0) {
        PyErr_SetString(PyExc_ValueError, "keys need one offset more than there are keys");
        return false;
    }
    *keys = (keys_view){offsets->buf, data->buf, count - 1};
    fault wrong;
    Py_BEGIN_ALLOW_THREADS
    wrong = check_keys(keys, data->len);
    Py_END_ALLOW_THREADS
    if (wrong) raise_fault(wrong);
    return !wrong;
}

bool parts_in(const Py_buffer *order, const Py_buffer *cuts, int64_t rows)
{
    Py_ssize_t ordered = items_in(order, sizeof(int64_t)), bounds = items_in(cuts, sizeof(int64_t));
    if (ordered < 0 || bounds < 0) return false;
    const int64_t *cut = cuts->buf;
    bool ascend = bounds > 0 && cut[0] >= 0 && cut[bounds - 1] <= ordered;
    for (Py_ssize_t i = 0; i + 1 < bounds; i++) ascend = ascend && cut[i] <= cut[i + 1];
    fault wrong = ascend ? check_ids(order->buf, ordered, rows) : "cuts do not ascend inside the order";
    if (wrong) raise_fault(wrong);
    return !wrong;
}

bool room_for_parts(const Py_buffer *order, const Py_buffer *cuts, int64_t rows, unsigned bits)
{
    if (bits > PLACE_BITS_MAX) {
        PyErr_SetString(PyExc_ValueError, "at most 16 bits place a key");
        return false;
    }
    return has_items(order, sizeof(int64_t), rows) && has_items(cuts, sizeof(int64_t), ((int64_t)1 << bits) + 1);
}

PyObject *written_run(const run_writer *w)
{
    PyObject *bytes = PyBytes_FromStringAndSize(NULL, writer_size(w));
    if (!bytes) return NULL;
    uint8_t *out = (uint8_t *)PyBytes_AsString(bytes); /* nobody else knows of it yet */
    Py_BEGIN_ALLOW_THREADS
    writer_finish(w, out);
    Py_END_ALLOW_THREADS
    return Py_BuildValue("LLNN", (long long)w->rows, (long long)w->key_bytes, PyBool_FromLong(writer_wide(w)), bytes);
}

PyObject *coded_parts(const keys_view *keys, const int64_t *order, const int64_t *cuts, int64_t parts)
{
    PyObject *runs = PyList_New(0);
    run_writer w = {0};
    for (int64_t p = 0; runs && p < parts; p++) {
        fault wrong;
        int64_t rows = cuts[p + 1] - cuts[p];
        Py_BEGIN_ALLOW_THREADS
        wrong = writer_start(&w, rows);
        if (!wrong) wrong = front_code(&w, keys, order + cuts[p], rows);
        Py_END_ALLOW_THREADS
        if (!wrong && w.key_bytes > ALL_BYTES_MAX) wrong = "the keys of a run would pass 2**31 - 1 bytes";
        PyObject *run = wrong ? raise_fault(wrong) : written_run(&w);
        if (!run || PyList_Append(runs, run)) Py_CLEAR(runs);
        Py_XDECREF(run);
    }
    writer_free(&w);
    return runs;
}
