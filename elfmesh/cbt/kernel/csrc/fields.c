/* Several aggregates of one row side by side: a value touches one place in memory, whatever is made of it.
 *
 * Rows are worked in blocks: the rows of the next block are asked for, then each field of this one has a loop of its
 * own, which finds its rows in the first cache. Every field is zero before anything was added, so that new rows are
 * fresh memory: sums are in two's complement, and an extreme is the greatest of unsigned numbers in the order (or in
 * the inverted order) of the values. */
#include "kernel.h"
#include "widest.h"

#define BLOCK 64
#define AHEAD 32

#if defined(__GNUC__)
#define PREFETCH(place) __builtin_prefetch((place), 1)
#else
#define PREFETCH(place) ((void)(place))
#endif

static void ask_for(const int64_t *ids, int64_t count, const int64_t *out, int64_t width)
{
    for (int64_t i = 0; i < count; i++) {
        const int64_t *row = out + ids[i] * width;
        PREFETCH(row);
        if (width > 1) PREFETCH(row + width - 1); /* it may lie across two cache lines */
    }
}

/* `out` is the field in the first row. */
static void count_rows(const int64_t *ids, int64_t count, int64_t *out, int64_t width)
{
    for (int64_t i = 0; i < count; i++) out[ids[i] * width]++;
}

static void add_ints(const int64_t *ids, const int64_t *values, int64_t count, int64_t *out, int64_t width)
{
    for (int64_t i = 0; i < count; i++) {
        int64_t *sum = out + ids[i] * width;
        *sum = (int64_t)((uint64_t)*sum + (uint64_t)values[i]);
    }
}

/* 128 bits of fixed point in two fields. The caller has looked at the values: none reaches over either end. */
static void add_floats(const int64_t *ids, const int64_t *values, int64_t count, int64_t *out, int64_t width,
                       int64_t lowest)
{
    for (int64_t i = 0; i < count; i++) {
        uint64_t *sum = (uint64_t *)out + ids[i] * width, bits = (uint64_t)values[i];
        uint64_t biased = bits >> 52 & 0x7FF;
        uint64_t mantissa = (bits & 0xFFFFFFFFFFFFFull) | (uint64_t)(biased > 0) << 52;
        uint64_t place = (biased ? biased : 1) - (uint64_t)(1075 + lowest);
        __extension__ typedef unsigned __int128 wide;
        wide piece = (wide)mantissa << (place & 127), minus = 0 - (wide)(bits >> 63);
        wide total = ((wide)sum[1] << 64 | sum[0]) + ((piece ^ minus) - minus);
        sum[0] = (uint64_t)total;
        sum[1] = (uint64_t)(total >> 64);
    }
}

/* Called with constants. Ranks of floats: the bits, the lower 63 of them inverted if the float is below zero. */
static inline void keep_top(const int64_t *ids, const int64_t *values, int64_t count, int64_t *out, int64_t width,
                            bool floats, uint64_t flip)
{
    for (int64_t i = 0; i < count; i++) {
        int64_t rank = floats ? values[i] ^ ((values[i] >> 63) & INT64_MAX) : values[i];
        uint64_t *best = (uint64_t *)out + ids[i] * width, own = (uint64_t)rank ^ flip;
        if (own > *best) *best = own;
    }
}

static void scatter_block(const int64_t *ids, int64_t start, int64_t count, int64_t *out, int64_t width,
                          const field *f)
{
    const uint64_t sign = (uint64_t)1 << 63;
    const int64_t *values = f->values ? f->values + start : NULL;
    out += f->place;
    switch (f->kind) {
    case FIELD_COUNT: count_rows(ids, count, out, width); break;
    case FIELD_SUM: add_ints(ids, values, count, out, width); break;
    case FIELD_FLOAT_SUM: add_floats(ids, values, count, out, width, f->lowest); break;
    case FIELD_LEAST: keep_top(ids, values, count, out, width, false, ~sign); break;
    case FIELD_GREATEST: keep_top(ids, values, count, out, width, false, sign); break;
    case FIELD_LEAST_FLOAT: keep_top(ids, values, count, out, width, true, ~sign); break;
    case FIELD_GREATEST_FLOAT: keep_top(ids, values, count, out, width, true, sign); break;
    }
}

void scatter_fields(const int64_t *ids, int64_t count, int64_t *out, int64_t width, const field *fields, int kinds)
{
    if (width == 1 && kinds == 1 && fields->kind == FIELD_COUNT) {
        scatter_count(ids, count, out, INT64_MAX);
        return;
    }
    ask_for(ids, count < BLOCK ? count : BLOCK, out, width);
    for (int64_t start = 0; start < count; start += BLOCK) {
        int64_t left = count - start, own = left < BLOCK ? left : BLOCK, next = left - own;
        ask_for(ids + start + own, next < BLOCK ? next : BLOCK, out, width);
        for (int f = 0; f < kinds; f++) scatter_block(ids + start, start, own, out, width, &fields[f]);
    }
}

void take_rows(const int64_t *rows, int64_t count, const int64_t *from, int64_t width, int64_t *out)
{
    int64_t asked = 0;
    for (int64_t i = 0; i < count; i++) {
        for (; asked < count && asked < i + AHEAD; asked++) {
            __builtin_prefetch(from + rows[asked] * width);
            __builtin_prefetch(from + rows[asked] * width + width - 1);
        }
        const int64_t *row = from + rows[i] * width;
        for (int64_t word = 0; word < width; word++) out[word * count + i] = row[word];
    }
}

WIDEST bool span_floats(const int64_t *bits, int64_t rows, int64_t *lowest, int64_t *top)
{
    uint64_t least = 0x7FF, greatest = 0;
    for (int64_t i = 0; i < rows; i++) {
        uint64_t magnitude = (uint64_t)bits[i] << 1, biased = magnitude >> 53;
        uint64_t own = magnitude ? biased : 0x7FF;
        least = own < least ? own : least;
        greatest = biased > greatest ? biased : greatest;
    }
    if (least == 0x7FF && greatest == 0) return false;
    *lowest = (int64_t)(least ? least : 1) - 1075;
    *top = (int64_t)(greatest ? greatest : 1) - 1022;
    return true;
}
