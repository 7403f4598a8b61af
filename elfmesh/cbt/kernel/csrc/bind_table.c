/* The type Table: one hot table, used by one thread at a time. */
#include "bind.h"

typedef struct {
    PyObject_HEAD
    table *table;
    bool busy; /* set and cleared with the GIL, so two threads that come at once cannot both pass */
} Table;

static bool begin(Table *self)
{
    if (self->busy) PyErr_SetString(PyExc_RuntimeError, "another thread is using this hot table");
    bool free = !self->busy;
    self->busy = true;
    return free;
}

static PyObject *table_create(PyTypeObject *type, PyObject *args, PyObject *Py_UNUSED(kwargs))
{
    unsigned long long seed;
    long long key_bytes_max;
    if (!PyArg_ParseTuple(args, "KL", &seed, &key_bytes_max)) return NULL;
    if (key_bytes_max > ALL_BYTES_MAX) key_bytes_max = ALL_BYTES_MAX;
    allocfunc alloc = (allocfunc)PyType_GetSlot(type, Py_tp_alloc);
    Table *self = (Table *)alloc(type, 0);
    if (self && !(self->table = table_new(seed, key_bytes_max))) {
        Py_CLEAR(self);
        PyErr_NoMemory();
    }
    return (PyObject *)self;
}

static void table_destroy(PyObject *object)
{
    PyTypeObject *type = Py_TYPE(object);
    table_free(((Table *)object)->table);
    freefunc release = (freefunc)PyType_GetSlot(type, Py_tp_free);
    release(object);
    Py_DECREF(type);
}

static PyObject *upsert(PyObject *object, PyObject *args)
{
    Table *self = (Table *)object;
    Py_buffer offsets, data, ids;
    if (!PyArg_ParseTuple(args, "y*y*w*", &offsets, &data, &ids)) return NULL;
    PyObject *result = NULL;
    if (begin(self)) {
        keys_view keys;
        if (keys_in(&keys, &offsets, &data) && has_items(&ids, sizeof(int64_t), keys.count)) {
            fault wrong;
            Py_BEGIN_ALLOW_THREADS
            wrong = table_upsert(self->table, &keys, ids.buf);
            Py_END_ALLOW_THREADS
            result = none_or_fault(wrong);
        }
        self->busy = false;
    }
    PyBuffer_Release(&offsets);
    PyBuffer_Release(&data);
    PyBuffer_Release(&ids);
    return result;
}

static PyObject *copy_keys(PyObject *object, PyObject *args)
{
    Table *self = (Table *)object;
    Py_buffer offsets, data;
    if (!PyArg_ParseTuple(args, "w*w*", &offsets, &data)) return NULL;
    PyObject *result = NULL;
    if (begin(self)) {
        keys_view keys = table_keys(self->table);
        int64_t key_bytes = table_key_bytes(self->table);
        if (has_items(&offsets, sizeof(int32_t), keys.count + 1) && has_items(&data, 1, key_bytes)) {
            Py_BEGIN_ALLOW_THREADS
            memcpy(offsets.buf, keys.offsets, ((size_t)keys.count + 1) * sizeof(int32_t));
            if (key_bytes) memcpy(data.buf, keys.data, (size_t)key_bytes);
            Py_END_ALLOW_THREADS
            result = Py_NewRef(Py_None);
        }
        self->busy = false;
    }
    PyBuffer_Release(&offsets);
    PyBuffer_Release(&data);
    return result;
}

static PyObject *order(PyObject *object, PyObject *args)
{
    Table *self = (Table *)object;
    unsigned bits;
    Py_buffer order, cuts;
    if (!PyArg_ParseTuple(args, "Iw*w*", &bits, &order, &cuts)) return NULL;
    PyObject *result = NULL;
    if (begin(self)) {
        keys_view keys = table_keys(self->table);
        if (room_for_parts(&order, &cuts, keys.count, bits)) {
            fault wrong;
            Py_BEGIN_ALLOW_THREADS
            wrong = sort_keys(&keys, bits, order.buf, cuts.buf);
            Py_END_ALLOW_THREADS
            result = none_or_fault(wrong);
        }
        self->busy = false;
    }
    PyBuffer_Release(&order);
    PyBuffer_Release(&cuts);
    return result;
}

static PyObject *runs(PyObject *object, PyObject *args)
{
    Table *self = (Table *)object;
    Py_buffer order, cuts;
    if (!PyArg_ParseTuple(args, "y*y*", &order, &cuts)) return NULL;
    PyObject *result = NULL;
    if (begin(self)) {
        keys_view keys = table_keys(self->table);
        if (parts_in(&order, &cuts, keys.count))
            result = coded_parts(&keys, order.buf, cuts.buf, cuts.len / (Py_ssize_t)sizeof(int64_t) - 1);
        self->busy = false;
    }
    PyBuffer_Release(&order);
    PyBuffer_Release(&cuts);
    return result;
}

static PyObject *clear(PyObject *object, PyObject *Py_UNUSED(ignored))
{
    Table *self = (Table *)object;
    if (!begin(self)) return NULL;
    table_clear(self->table);
    self->busy = false;
    Py_RETURN_NONE;
}

/* One of the numbers below, by its letter. */
static PyObject *number(PyObject *object, void *letter)
{
    Table *self = (Table *)object;
    if (!begin(self)) return NULL;
    self->busy = false;
    switch (*(const char *)letter) {
    case 'r': return PyLong_FromLongLong(table_keys(self->table).count);
    case 'k': return PyLong_FromLongLong(table_key_bytes(self->table));
    case 'b': return PyLong_FromLongLong(table_bytes(self->table));
    default: return PyLong_FromUnsignedLongLong(table_probes(self->table));
    }
}

static PyMethodDef methods[] = {
    {"upsert", upsert, METH_VARARGS, "upsert(offsets, data, ids): fill ids."},
    {"copy_keys", copy_keys, METH_VARARGS, "copy_keys(offsets, data): fill both."},
    {"order", order, METH_VARARGS, "order(bits, order, cuts): fill both."},
    {"runs", runs, METH_VARARGS, "runs(order, cuts): a list of (rows, key_bytes, wide, bytes)."},
    {"clear", clear, METH_NOARGS, "Forget all keys."},
    {NULL, NULL, 0, NULL},
};

static PyGetSetDef numbers[] = {
    {"rows", number, NULL, "Keys in it.", "r"},
    {"key_bytes", number, NULL, "Sum of their lengths.", "k"},
    {"nbytes", number, NULL, "Bytes held.", "b"},
    {"probes", number, NULL, "Slots looked at so far, beyond one per key.", "p"},
    {NULL, NULL, NULL, NULL, NULL},
};

static PyType_Slot table_slots[] = {
    {Py_tp_new, table_create},
    {Py_tp_dealloc, table_destroy},
    {Py_tp_methods, methods},
    {Py_tp_getset, numbers},
    {0, NULL},
};

PyType_Spec table_spec = {
    "elfmesh.cbt.kernel._native.Table", sizeof(Table), 0, Py_TPFLAGS_DEFAULT, table_slots,
};
