/* What the files of the kernel share. Below this line of declarations nothing knows Python: the binding files
 * take buffers apart, let go of the GIL and call these functions.
 *
 * A function that can fail returns a fault: NULL, NO_MEMORY, or what is wrong with the input. */
#ifndef ELFMESH_KERNEL_H
#define ELFMESH_KERNEL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KEY_BYTES_MAX 65535
#define ALL_BYTES_MAX INT32_MAX /* of the keys of one table, run or batch: offsets are int32 */
#define RUNS_MAX 4096
#define PLACE_BITS_MAX 16

typedef const char *fault;
extern const char NO_MEMORY[];

/* Byte strings: key i is data[offsets[i] : offsets[i + 1]]. */
typedef struct {
    const int32_t *offsets;
    const uint8_t *data;
    int64_t count;
} keys_view;

/* Offsets ascend and stay inside `data_bytes`. */
fault check_offsets(const keys_view *keys, int64_t data_bytes);
/* And no key is longer than KEY_BYTES_MAX. */
fault check_keys(const keys_view *keys, int64_t data_bytes);
void hash_keys(const keys_view *keys, uint64_t *out);

/* ---- table.c: from key bytes to dense ids */

typedef struct table table;

table *table_new(uint64_t seed, int64_t key_bytes_max); /* at most ALL_BYTES_MAX */
void table_free(table *t);
void table_clear(table *t);
keys_view table_keys(const table *t);
int64_t table_key_bytes(const table *t);
int64_t table_bytes(const table *t);
uint64_t table_probes(const table *t); /* slots looked at, beyond one per key */
/* ids[i] is the id of key i. A table that cannot take all keys is left as it was. */
fault table_upsert(table *t, const keys_view *keys, int64_t *ids);

/* ---- sort.c: order by (top bits of the placement hash, key bytes) */

/* cuts: (1 << bits) + 1. */
fault sort_keys(const keys_view *keys, unsigned bits, int64_t *order, int64_t *cuts);

/* ---- runs.c: front-coded runs */

typedef struct {
    const uint8_t *shared, *rest, *bytes; /* lengths (1 or 2 bytes each), then the rests of the keys */
    int64_t rows, key_bytes, rest_bytes;
    bool wide;
} run_view;

static inline uint32_t length_at(const uint8_t *lengths, int64_t row, bool wide)
{
    return wide ? lengths[2 * row] | (uint32_t)lengths[2 * row + 1] << 8 : lengths[row];
}

/* Take a run apart and make sure of its lengths; that its keys ascend is left to check_run. */
fault open_run(run_view *run, int64_t rows, bool wide, const uint8_t *data, int64_t data_bytes);
/* Make sure of all the rest: keys ascend strictly, shared lengths are exact. */
fault check_run(const run_view *run);
/* offsets: rows + 1; data: key_bytes. */
void decode_run(const run_view *run, int32_t *offsets, uint8_t *data);

/* A run that is being written, in memory that grows and is used again for the next one. */
typedef struct {
    uint16_t *shared, *rest;
    uint8_t *bytes;
    int64_t rows, rows_max, used, used_max, key_bytes;
    uint32_t longest; /* of all shared and rest lengths */
} run_writer;

void writer_free(run_writer *w);
fault writer_start(run_writer *w, int64_t rows_max); /* forget what was written, make room for that many */
fault writer_grow(run_writer *w, int64_t bytes);
int64_t writer_size(const run_writer *w);
void writer_finish(const run_writer *w, uint8_t *out); /* writer_size(w) bytes */
static inline bool writer_wide(const run_writer *w) { return w->longest > 255; }

/* ---- parts.c: runs from keys, parts of runs */

/* Write keys order[0..rows), which must ascend. Room for them was made by writer_start. */
fault front_code(run_writer *w, const keys_view *keys, const int64_t *order, int64_t rows);
/* Rows of decoded keys, stably ordered by bits [skip, skip + bits) of their placement hash. */
fault place_rows(const keys_view *keys, unsigned skip, unsigned bits, int64_t *order, int64_t *cuts);

/* ---- bits.c: runs of few, evenly used bytes in few bits */

int64_t bits_room(int64_t bytes); /* for pack_bits of so many */
/* How many bytes were written; 0 if an entropy coder would take a ninth less, or there are too many values. The run is
 * not wide. */
int64_t pack_bits(const uint8_t *run, int64_t rows, int64_t bytes, uint8_t *out);
/* What it unpacks to; -1 if it was not packed so. */
int64_t packed_bytes(const uint8_t *packed, int64_t bytes, int64_t rows);
void unpack_bits(const uint8_t *packed, int64_t bytes, int64_t rows, uint8_t *run);

/* ---- merge.c */

/* maps[r][i] is the row of key i of run r in what is written. */
fault merge_runs(run_writer *w, const run_view *runs, int count, int64_t *const *maps);

/* ---- keys.c: typed columns to key bytes and back */

typedef struct {
    int width; /* 1, 4, 8, 16; 0: null everywhere; -1: byte strings */
    bool nullable;
    uint8_t *values;  /* fixed widths */
    int32_t *offsets; /* byte strings */
    uint8_t *data;
    uint8_t *valid; /* bytes 0 or 1; NULL: nothing is null */
} key_column;

void encoded_sizes(const key_column *columns, int count, int64_t rows, int64_t *sizes);
/* offsets: the sizes added up. */
fault encode_keys(const key_column *columns, int count, int64_t rows, const int32_t *offsets, uint8_t *out);
/* Fills valid, and values or offsets and data; data has room for as many bytes as the keys have. */
fault decode_keys(const keys_view *keys, const key_column *columns, int count);

/* ---- scatter.c: columns by group; ids were checked by check_ids */

fault check_ids(const int64_t *ids, int64_t count, int64_t groups);
void scatter_count(const int64_t *ids, int64_t count, int64_t *out, int64_t groups);
void scatter_add(const int64_t *ids, const int64_t *values, int64_t count, int64_t *out, int64_t groups);
void scatter_least(const int64_t *ids, const int64_t *values, int64_t count, int64_t *out, int64_t groups);
void scatter_greatest(const int64_t *ids, const int64_t *values, int64_t count, int64_t *out, int64_t groups);
/* Of the bits of floats; `out` has their ranks: the bits, the lower 63 of them inverted if the float is below zero. */
void scatter_least_floats(const int64_t *ids, const int64_t *values, int64_t count, int64_t *out, int64_t groups);
void scatter_greatest_floats(const int64_t *ids, const int64_t *values, int64_t count, int64_t *out, int64_t groups);
/* Rows of a counter of what was added and `limbs` limbs. How many values were added: all, or up to the first that is
 * not finite or needs a limb that is not there. */
int64_t scatter_floats(const int64_t *ids, const double *values, int64_t count, int64_t *out, int64_t limbs,
                       int64_t lowest);

/* ---- fields.c: several aggregates of one row, side by side; ids were checked by check_ids */

#define FIELDS_MAX 256
#define EXPONENT_MAX 1100 /* of a unit, in magnitude */

typedef enum {
    FIELD_COUNT,
    FIELD_SUM,
    FIELD_FLOAT_SUM, /* two words, the lower one first, in units of 2**lowest */
    FIELD_LEAST,
    FIELD_GREATEST,
    FIELD_LEAST_FLOAT,
    FIELD_GREATEST_FLOAT
} field_kind;

typedef struct {
    int kind;
    int64_t place; /* of its first word in a row */
    int64_t lowest;
    const int64_t *values; /* integers, or the bits of floats; NULL to count */
} field;

void scatter_fields(const int64_t *ids, int64_t count, int64_t *out, int64_t width, const field *fields, int kinds);
/* Words of some rows, column by column. */
void take_rows(const int64_t *rows, int64_t count, const int64_t *from, int64_t width, int64_t *out);

/* ---- columns.c: integers as byte planes, decimals, exact sums in short */

#define DIGITS_MAX 6
#define ANY_FLOAT (-1)
#define LIMBS_MAX 12
#define LIMB_LEAST (-34)
#define LIMB_MOST 40

/* Each integer less `base`, in `width` bytes; 0: all are `base`. */
typedef struct {
    int width;
    int64_t base;
} int_code;

int_code code_ints(const int64_t *values, int64_t rows);
/* Rows order[0..rows) of the values, or the first ones if order is NULL, into width * rows bytes. */
void write_planes(const int64_t *values, const int64_t *order, int64_t rows, int_code code, uint8_t *out);
void read_planes(const uint8_t *planes, int64_t rows, int_code code, int64_t *out);

/* All values are multiples of 2**lowest and below 2**top in magnitude (1025: some are not finite). False: all are 0. */
bool span_floats(const int64_t *bits, int64_t rows, int64_t *lowest, int64_t *top);

/* How many digits after the point all values have, and they as integers; ANY_FLOAT if they are no decimals. */
int scale_floats(const double *values, int64_t rows, int64_t *out);

/* Limbs of exact sums, by ascending numbers from LIMB_LEAST to LIMB_MOST; LIMBS_MAX at most. */
typedef struct {
    const int64_t *values[LIMBS_MAX];
    int numbers[LIMBS_MAX], count;
    int64_t rows;
} limb_columns;

typedef struct {
    int digits;
    int64_t unit;
    bool found; /* whether the sums have this form at all */
} short_form;

void short_sums(const limb_columns *limbs, short_form *form, int64_t *near, int64_t *rest);
void short_units(const int64_t *near, int64_t rows, int digits, int64_t unit, int64_t *out);

#endif
