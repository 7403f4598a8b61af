/* Functions on keys and runs. A run comes as rows, wide, data. */
#include "bind.h"

static PyObject *py_hash_keys(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer offsets, data, out;
    keys_view keys;
    PyObject *result = NULL;
    if (!PyArg_ParseTuple(args, "y*y*w*", &offsets, &data, &out)) return NULL;
    if (keys_in(&keys, &offsets, &data) && has_items(&out, sizeof(uint64_t), keys.count)) {
        Py_BEGIN_ALLOW_THREADS
        hash_keys(&keys, out.buf);
        Py_END_ALLOW_THREADS
        result = Py_NewRef(Py_None);
    }
    PyBuffer_Release(&offsets);
    PyBuffer_Release(&data);
    PyBuffer_Release(&out);
    return result;
}

static PyObject *py_sort_keys(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer offsets, data, order, cuts;
    unsigned bits;
    keys_view keys;
    PyObject *result = NULL;
    if (!PyArg_ParseTuple(args, "y*y*Iw*w*", &offsets, &data, &bits, &order, &cuts)) return NULL;
    if (keys_in(&keys, &offsets, &data) && room_for_parts(&order, &cuts, keys.count, bits)) {
        fault wrong;
        Py_BEGIN_ALLOW_THREADS
        wrong = sort_keys(&keys, bits, order.buf, cuts.buf);
        Py_END_ALLOW_THREADS
        result = none_or_fault(wrong);
    }
    PyBuffer_Release(&offsets);
    PyBuffer_Release(&data);
    PyBuffer_Release(&order);
    PyBuffer_Release(&cuts);
    return result;
}

static PyObject *py_front_code(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer offsets, data, order, cuts;
    keys_view keys;
    PyObject *result = NULL;
    if (!PyArg_ParseTuple(args, "y*y*y*y*", &offsets, &data, &order, &cuts)) return NULL;
    if (keys_in(&keys, &offsets, &data) && parts_in(&order, &cuts, keys.count))
        result = coded_parts(&keys, order.buf, cuts.buf, cuts.len / (Py_ssize_t)sizeof(int64_t) - 1);
    PyBuffer_Release(&offsets);
    PyBuffer_Release(&data);
    PyBuffer_Release(&order);
    PyBuffer_Release(&cuts);
    return result;
}

/* Without the GIL: a run from its parts, small enough to be unfolded. */
static fault run_in(run_view *run, long long rows, int wide, const Py_buffer *data)
{
    fault wrong;
    Py_BEGIN_ALLOW_THREADS
    wrong = open_run(run, rows, wide, data->buf, data->len);
    Py_END_ALLOW_THREADS
    if (!wrong && run->key_bytes > ALL_BYTES_MAX) wrong = "a run unfolds to more than 2**31 - 1 bytes";
    return wrong;
}

static PyObject *py_decode_run(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer data, offsets, out;
    long long rows;
    int wide;
    run_view run;
    PyObject *result = NULL;
    if (!PyArg_ParseTuple(args, "Lpy*w*w*", &rows, &wide, &data, &offsets, &out)) return NULL;
    fault wrong = run_in(&run, rows, wide, &data);
    if (wrong) {
        raise_fault(wrong);
    } else if (has_items(&offsets, sizeof(int32_t), rows + 1) && has_items(&out, 1, run.key_bytes)) {
        Py_BEGIN_ALLOW_THREADS
        decode_run(&run, offsets.buf, out.buf);
        Py_END_ALLOW_THREADS
        result = Py_NewRef(Py_None);
    }
    PyBuffer_Release(&data);
    PyBuffer_Release(&offsets);
    PyBuffer_Release(&out);
    return result;
}

/* Returns the bytes its keys unfold to. */
static PyObject *py_check_run(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer data;
    long long rows, key_bytes_max;
    int wide;
    run_view run;
    if (!PyArg_ParseTuple(args, "Lpy*L", &rows, &wide, &data, &key_bytes_max)) return NULL;
    fault wrong = run_in(&run, rows, wide, &data);
    if (!wrong && run.key_bytes > key_bytes_max) wrong = "a run unfolds to more bytes than allowed";
    if (!wrong) {
        Py_BEGIN_ALLOW_THREADS
        wrong = check_run(&run);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&data);
    return wrong ? raise_fault(wrong) : PyLong_FromLongLong(run.key_bytes);
}

/* Fills the rows, part by part, and the cuts between parts. */
static PyObject *py_place_rows(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer offsets, data, order, cuts;
    unsigned skip, bits;
    keys_view keys;
    PyObject *result = NULL;
    if (!PyArg_ParseTuple(args, "y*y*IIw*w*", &offsets, &data, &skip, &bits, &order, &cuts)) return NULL;
    if (keys_in(&keys, &offsets, &data) && room_for_parts(&order, &cuts, keys.count, bits)) {
        fault wrong = skip > 63 || skip > 64 - bits ? "a key is placed by bits of 64" : NULL;
        Py_BEGIN_ALLOW_THREADS
        if (!wrong) wrong = place_rows(&keys, skip, bits, order.buf, cuts.buf);
        Py_END_ALLOW_THREADS
        result = none_or_fault(wrong);
    }
    PyBuffer_Release(&offsets);
    PyBuffer_Release(&data);
    PyBuffer_Release(&order);
    PyBuffer_Release(&cuts);
    return result;
}

/* What a merge holds on to while it runs. */
typedef struct {
    Py_buffer data, map;
} held;

/* The runs of a list of (rows, wide, data, map); how many were opened, with an exception if not all. */
static Py_ssize_t runs_in(PyObject *list, run_view *runs, int64_t **maps, held *holds, Py_ssize_t count)
{
    for (Py_ssize_t i = 0; i < count; i++) {
        long long rows;
        int wide;
        PyObject *item = PyList_GetItem(list, i);
        if (!item || !PyArg_ParseTuple(item, "Lpy*w*", &rows, &wide, &holds[i].data, &holds[i].map)) return i;
        fault wrong = run_in(&runs[i], rows, wide, &holds[i].data);
        if (wrong) raise_fault(wrong);
        if (wrong || !has_items(&holds[i].map, sizeof(int64_t), rows)) return i + 1;
        maps[i] = holds[i].map.buf;
    }
    return count;
}

static PyObject *py_merge_runs(PyObject *Py_UNUSED(module), PyObject *list)
{
    if (!PyList_Check(list) || PyList_Size(list) < 1 || PyList_Size(list) > RUNS_MAX) {
        PyErr_SetString(PyExc_ValueError, "a merge takes a list of 1 to 4096 runs");
        return NULL;
    }
    Py_ssize_t count = PyList_Size(list), opened = 0;
    run_view *runs = calloc((size_t)count, sizeof *runs);
    int64_t **maps = calloc((size_t)count, sizeof *maps);
    held *holds = calloc((size_t)count, sizeof *holds);
    run_writer w = {0};
    PyObject *result = NULL;
    if (!runs || !maps || !holds) {
        PyErr_NoMemory();
    } else {
        opened = runs_in(list, runs, maps, holds, count);
        if (!PyErr_Occurred()) {
            fault wrong;
            Py_BEGIN_ALLOW_THREADS
            wrong = merge_runs(&w, runs, (int)count, maps);
            Py_END_ALLOW_THREADS
            result = wrong ? raise_fault(wrong) : written_run(&w);
        }
    }
    for (Py_ssize_t i = 0; i < opened; i++) {
        PyBuffer_Release(&holds[i].data);
        PyBuffer_Release(&holds[i].map);
    }
    writer_free(&w);
    free(runs);
    free(maps);
    free(holds);
    return result;
}

/* rows, run -> bytes, or None if that does not pay */
static PyObject *py_pack_bits(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer data;
    long long rows;
    if (!PyArg_ParseTuple(args, "Ly*", &rows, &data)) return NULL;
    PyObject *result = NULL;
    if (rows < 0 || rows > data.len / 2) {
        PyErr_SetString(PyExc_ValueError, "not a run: fewer bytes than lengths");
    } else {
        uint8_t *out = malloc((size_t)bits_room(data.len));
        int64_t bytes = 0;
        Py_BEGIN_ALLOW_THREADS
        if (out) bytes = pack_bits(data.buf, rows, data.len, out);
        Py_END_ALLOW_THREADS
        if (!out) PyErr_NoMemory();
        else result = bytes ? PyBytes_FromStringAndSize((const char *)out, bytes) : Py_NewRef(Py_None);
        free(out);
    }
    PyBuffer_Release(&data);
    return result;
}

static PyObject *py_unpack_bits(PyObject *Py_UNUSED(module), PyObject *args)
{
    Py_buffer data;
    long long rows;
    if (!PyArg_ParseTuple(args, "Ly*", &rows, &data)) return NULL;
    int64_t bytes = packed_bytes(data.buf, data.len, rows);
    PyObject *result = NULL;
    if (bytes < 0) {
        PyErr_SetString(PyExc_ValueError, "not a run in bits: lengths do not fit the bytes");
    } else if ((result = PyBytes_FromStringAndSize(NULL, bytes))) {
        uint8_t *out = (uint8_t *)PyBytes_AsString(result); /* nobody else knows of it yet */
        Py_BEGIN_ALLOW_THREADS
        unpack_bits(data.buf, data.len, rows, out);
        Py_END_ALLOW_THREADS
    }
    PyBuffer_Release(&data);
    return result;
}

PyMethodDef run_functions[] = {
    {"pack_bits", py_pack_bits, METH_VARARGS, "pack_bits(rows, run) -> bytes or None"},
    {"unpack_bits", py_unpack_bits, METH_VARARGS, "unpack_bits(rows, packed) -> run"},
    {"hash_keys", py_hash_keys, METH_VARARGS, "hash_keys(offsets, data, out)"},
    {"sort_keys", py_sort_keys, METH_VARARGS, "sort_keys(offsets, data, bits, order, cuts)"},
    {"front_code", py_front_code, METH_VARARGS, "front_code(offsets, data, order, cuts) -> runs"},
    {"decode_run", py_decode_run, METH_VARARGS, "decode_run(rows, wide, data, offsets, out)"},
    {"check_run", py_check_run, METH_VARARGS, "check_run(rows, wide, data, key_bytes_max) -> key_bytes"},
    {"place_rows", py_place_rows, METH_VARARGS, "place_rows(offsets, data, skip, bits, order, cuts)"},
    {"merge_runs", py_merge_runs, METH_O, "merge_runs([(rows, wide, data, map), ...]) -> run"},
    {NULL, NULL, 0, NULL},
};
