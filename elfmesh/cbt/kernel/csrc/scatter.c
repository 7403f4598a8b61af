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
    uint64_t largest = 0; /* as unsigned, a negative id is huge */
    for (int64_t i = 0; i < count; i++) largest = (uint64_t)ids[i] > largest ? (uint64_t)ids[i] : largest;
    return count && largest >= (uint64_t)groups ? "an id is outside the groups" : NULL;
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

void scatter_least(const int64_t *ids, const int64_t *values, int64_t count, int64_t *out, int64_t groups)
{
    (void)groups;
    for (int64_t i = 0; i < count; i++) {
        LOOK_AHEAD(1);
        if (values[i] < out[ids[i]]) out[ids[i]] = values[i];
    }
}

void scatter_greatest(const int64_t *ids, const int64_t *values, int64_t count, int64_t *out, int64_t groups)
{
    (void)groups;
    for (int64_t i = 0; i < count; i++) {
        LOOK_AHEAD(1);
        if (values[i] > out[ids[i]]) out[ids[i]] = values[i];
    }
}

#define LIMB_MASK 0xFFFFFFFFull
#define LIMB_MIN (-34)

int64_t scatter_floats(const int64_t *ids, const double *values, int64_t count, int64_t *out, int64_t limbs,
                       int64_t lowest)
{
    for (int64_t i = 0; i < count; i++) {
        LOOK_AHEAD(limbs);
        uint64_t bits;
        memcpy(&bits, &values[i], 8);
        uint64_t biased = bits >> 52 & 0x7FF;
        uint64_t mantissa = (bits & 0xFFFFFFFFFFFFFull) | (uint64_t)(biased > 0) << 52;
        if (mantissa == 0) continue;
        /* Where the lowest bit of the mantissa lies, counted from the bottom of limb LIMB_MIN. */
        int64_t place = (int64_t)(biased ? biased : 1) - 1075 - 32 * LIMB_MIN;
        unsigned offset = (unsigned)place & 31;
        int64_t limb = (place >> 5) + LIMB_MIN - lowest;
        uint64_t pieces[3] = {
            mantissa << offset & LIMB_MASK,
            mantissa >> (32 - offset) & LIMB_MASK,
            mantissa >> 32 >> (32 - offset),
        };
        if (limb < 0 || limb + 2 >= limbs) {
            for (int k = 0; k < 3; k++)
                if (pieces[k] && (limb + k < 0 || limb + k >= limbs)) return i;
            for (int k = 0; k < 3; k++) {
                if (!pieces[k]) continue;
                int64_t *to = &out[ids[i] * limbs + limb + k];
                *to = wrapping_sum(*to, bits >> 63 ? -(int64_t)pieces[k] : (int64_t)pieces[k]);
            }
            continue;
        }
        int64_t *to = out + ids[i] * limbs + limb;
        int64_t sign = bits >> 63 ? -1 : 1;
        for (int k = 0; k < 3; k++) to[k] = wrapping_sum(to[k], sign * (int64_t)pieces[k]);
    }
    return count;
}
