/* Columns of integers as byte planes, decimals among floats, and exact sums in short.
 *
 * Planes are written and read some rows at a time, so that the rows between the passes stay in the first cache.
 * How a sum is put in short is told in elfmesh/cbt/codec/nearsum.py; all arithmetic on floats here is that of its twin
 * in numpy, operation by operation, so that both give the same bits. */
#include "kernel.h"
#include "widest.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define BLOCK 512
#define LIMB_BITS 32
#define MANTISSA_BITS 52
#define LOWEST_BIT 1075 /* a biased exponent less this is the exponent of the lowest bit of the mantissa */
#define SAMPLE_DECIMALS 32
#define SAMPLE_SUMS 128

static const double POWERS[DIGITS_MAX + 1] = {1e0, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6};

/* ---- byte planes */

static int bytes_of(uint64_t number)
{
    return number ? (71 - __builtin_clzll(number)) / 8 : 0;
}

WIDEST int_code code_ints(const int64_t *values, int64_t rows)
{
    int_code code = {0, 0};
    if (rows == 0) return code;
    int64_t low = values[0], high = values[0];
    for (int64_t i = 1; i < rows; i++) {
        low = values[i] < low ? values[i] : low;
        high = values[i] > high ? values[i] : high;
    }
    uint64_t span = (uint64_t)high - (uint64_t)low;
    code.base = low;
    code.width = bytes_of(span);
    /* Where zero will do as a base, it is zero. */
    if (span && low >= 0 && bytes_of((uint64_t)high) == code.width) code.base = 0;
    if (code.width == 8) code.base = 0;
    return code;
}

WIDEST void write_planes(const int64_t *values, const int64_t *order, int64_t rows, int_code code, uint8_t *out)
{
    uint64_t block[BLOCK], base = (uint64_t)code.base;
    for (int64_t start = 0; start < rows && code.width; start += BLOCK) {
        int64_t count = rows - start < BLOCK ? rows - start : BLOCK;
        if (order) for (int64_t i = 0; i < count; i++) block[i] = (uint64_t)values[order[start + i]] - base;
        else for (int64_t i = 0; i < count; i++) block[i] = (uint64_t)values[start + i] - base;
        for (int place = 0; place < code.width; place++) {
            uint8_t *plane = out + place * rows + start;
            for (int64_t i = 0; i < count; i++) plane[i] = (uint8_t)(block[i] >> (8 * place));
        }
    }
}

WIDEST void read_planes(const uint8_t *planes, int64_t rows, int_code code, int64_t *out)
{
    uint64_t block[BLOCK];
    for (int64_t start = 0; start < rows; start += BLOCK) {
        int64_t count = rows - start < BLOCK ? rows - start : BLOCK;
        for (int64_t i = 0; i < count; i++) block[i] = (uint64_t)code.base;
        for (int place = 0; place < code.width; place++) {
            const uint8_t *plane = planes + place * rows + start;
            for (int64_t i = 0; i < count; i++) block[i] += (uint64_t)plane[i] << (8 * place);
        }
        memcpy(out + start, block, (size_t)count * sizeof *out);
    }
}

/* ---- decimals */

/* As rint does by default, ties to even, without a call: beyond 2**52 there is nothing to round. */
static inline double round_even(double value)
{
    double magnitude = fabs(value);
    return copysign(magnitude < 0x1p52 ? magnitude + 0x1p52 - 0x1p52 : magnitude, value);
}

static bool matches(double value, int digits)
{
    return round_even(value * POWERS[digits]) / POWERS[digits] == value;
}

/* Whether all values are decimals of so many digits; *fits says whether they then are integers too. */
WIDEST static bool scale(const double *values, int64_t rows, int digits, int64_t *out, bool *fits)
{
    double power = POWERS[digits], largest = 0;
    bool zeros = true;
    for (int64_t start = 0; start < rows; start += BLOCK) {
        int64_t count = rows - start < BLOCK ? rows - start : BLOCK;
        double block[BLOCK];
        bool equal = true;
        for (int64_t i = 0; i < count; i++) {
            block[i] = round_even(values[start + i] * power);
            equal &= block[i] / power == values[start + i];
        }
        if (!equal) return false;
        for (int64_t i = 0; i < count; i++) {
            double magnitude = fabs(block[i]);
            largest = magnitude > largest ? magnitude : largest;
            zeros &= block[i] != 0 || !signbit(block[i]); /* -0.0 would come back as 0.0 */
            out[start + i] = magnitude < 0x1p53 ? (int64_t)block[i] : 0;
        }
    }
    *fits = zeros && largest < 0x1p53;
    return true;
}

int scale_floats(const double *values, int64_t rows, int64_t *out)
{
    bool match[DIGITS_MAX + 1];
    int64_t step = (rows + SAMPLE_DECIMALS - 1) / SAMPLE_DECIMALS;
    int first = DIGITS_MAX + 1;
    for (int digits = DIGITS_MAX; rows && digits >= 0; digits--) {
        match[digits] = true;
        for (int64_t i = 0; i < rows && match[digits]; i += step) match[digits] = matches(values[i], digits);
        if (match[digits]) first = digits;
    }
    for (int digits = first; digits <= DIGITS_MAX && match[digits]; digits++) {
        bool fits;
        if (scale(values, rows, digits, out, &fits)) return fits ? digits : ANY_FLOAT;
    }
    return ANY_FLOAT;
}

/* ---- sums in short */

static uint64_t bits_of(double value)
{
    uint64_t bits;
    memcpy(&bits, &value, sizeof bits);
    return bits;
}

static double float_of(uint64_t bits)
{
    double value;
    memcpy(&value, &bits, sizeof value);
    return value;
}

/* A multiple of 2**unit in these units, mod 2**64. Zeros have no lowest bit and may be shifted anywhere; what is
 * shifted out is a multiple of 2**64. */
static inline uint64_t float_units(double value, int64_t unit)
{
    uint64_t bits = bits_of(value), biased = bits >> MANTISSA_BITS & 0x7FF;
    uint64_t mantissa = (bits & ((1ull << MANTISSA_BITS) - 1)) | (uint64_t)(biased > 0) << MANTISSA_BITS;
    int64_t shift = (int64_t)(biased ? biased : 1) - LOWEST_BIT - unit;
    uint64_t units = (uint64_t)shift < 64 ? mantissa << (shift & 63) : 0;
    return bits >> 63 ? 0 - units : units;
}

static inline double near_of(int64_t near, int digits)
{
    return digits >= 0 ? (double)near / POWERS[digits] : float_of((uint64_t)near);
}

WIDEST void short_units(const int64_t *near, int64_t rows, int digits, int64_t unit, int64_t *out)
{
    for (int64_t i = 0; i < rows; i++) out[i] = (int64_t)float_units(near_of(near[i], digits), unit);
}

/* Magnitudes compare as their bits do, and those in any order, which is what lets a loop take several at once. */
static inline uint64_t larger(uint64_t bits, double magnitude)
{
    return bits_of(magnitude) > bits ? bits_of(magnitude) : bits;
}

/* The bits of the sums as floats, and of the magnitudes that went into them; the largest of these, infinite if not
 * all are finite. */
WIDEST static double add_roughly(const limb_columns *limbs, int64_t *rough, int64_t *magnitudes)
{
    uint64_t largest = 0;
    for (int64_t start = 0; start < limbs->rows; start += BLOCK) {
        int64_t count = limbs->rows - start < BLOCK ? limbs->rows - start : BLOCK;
        double sum[BLOCK] = {0}, magnitude[BLOCK] = {0};
        for (int limb = limbs->count - 1; limb >= 0; limb--) {
            double weight = ldexp(1.0, LIMB_BITS * limbs->numbers[limb]);
            const int64_t *values = limbs->values[limb] + start;
            for (int64_t i = 0; i < count; i++) {
                double part = (double)values[i] * weight;
                sum[i] += part;
                magnitude[i] += fabs(part);
            }
        }
        for (int64_t i = 0; i < count; i++) largest = larger(largest, fabs(magnitude[i]));
        memcpy(rough + start, sum, (size_t)count * sizeof *sum);
        memcpy(magnitudes + start, magnitude, (size_t)count * sizeof *magnitude);
    }
    return largest > bits_of(DBL_MAX) ? INFINITY : float_of(largest);
}

/* Of the decimals that the sums are close to; ANY_FLOAT if they are not. */
static int digits_of(const int64_t *rough, int64_t rows, double largest)
{
    double noise = largest * 0x1p-42;
    int64_t step = rows / SAMPLE_SUMS > 1 ? rows / SAMPLE_SUMS : 1;
    for (int digits = 0; digits <= DIGITS_MAX; digits++) {
        double power = POWERS[digits];
        bool close = noise * power < 1.0 / 64 && largest * power < 0x1p52;
        for (int64_t i = 0; close && i < rows; i += step) {
            double sum = float_of((uint64_t)rough[i]);
            close = fabs(round_even(sum * power) / power - sum) <= noise;
        }
        if (close) return digits;
    }
    return ANY_FLOAT;
}

/* Make the rough sums the nearest decimals, if they are to be; the least biased exponent among what is near, and how
 * far off a sum may be. */
WIDEST static void go_near(int64_t *near, const int64_t *magnitudes, int64_t rows, int digits, int64_t *exponent,
                           double *off)
{
    uint64_t least = 0x7FF, farthest = 0;
    double power = digits >= 0 ? POWERS[digits] : 1;
    for (int64_t start = 0; start < rows; start += BLOCK) {
        int64_t count = rows - start < BLOCK ? rows - start : BLOCK;
        double sum[BLOCK], value[BLOCK], magnitude[BLOCK];
        memcpy(sum, near + start, (size_t)count * sizeof *sum);
        memcpy(value, sum, (size_t)count * sizeof *value);
        memcpy(magnitude, magnitudes + start, (size_t)count * sizeof *magnitude);
        if (digits >= 0) {
            for (int64_t i = 0; i < count; i++) {
                double scaled = round_even(sum[i] * power);
                near[start + i] = (int64_t)scaled;
                value[i] = scaled / power;
            }
        }
        for (int64_t i = 0; i < count; i++) {
            uint64_t biased = bits_of(value[i]) >> MANTISSA_BITS & 0x7FF;
            biased = value[i] == 0 ? 0x7FF : biased ? biased : 1;
            least = biased < least ? biased : least;
            farthest = larger(farthest, fabs(sum[i] - value[i]) + magnitude[i] * 0x1p-49);
        }
    }
    *exponent = (int64_t)least;
    *off = float_of(farthest);
}

static int trailing_zeros(uint64_t used) { return used ? __builtin_ctzll(used) : 0; }

static int64_t unit_of(const limb_columns *limbs, int64_t exponent)
{
    uint64_t used = 0;
    for (int64_t i = 0; i < limbs->rows; i++) used |= (uint64_t)limbs->values[0][i];
    int zeros = trailing_zeros(used);
    int64_t unit = LIMB_BITS * limbs->numbers[0] + (zeros < LIMB_BITS ? zeros : LIMB_BITS);
    return exponent - LOWEST_BIT < unit ? exponent - LOWEST_BIT : unit;
}

/* What is left of the sums beside `near`, in units of 2**unit; all bits that are used. */
WIDEST static uint64_t leave(const limb_columns *limbs, const int64_t *near, int digits, int64_t unit, int64_t *rest)
{
    uint64_t used = 0;
    for (int64_t start = 0; start < limbs->rows; start += BLOCK) {
        int64_t count = limbs->rows - start < BLOCK ? limbs->rows - start : BLOCK;
        uint64_t left[BLOCK];
        short_units(near + start, count, digits, unit, (int64_t *)left);
        for (int64_t i = 0; i < count; i++) left[i] = 0 - left[i];
        for (int limb = 0; limb < limbs->count; limb++) {
            const int64_t *values = limbs->values[limb] + start;
            int64_t shift = LIMB_BITS * limbs->numbers[limb] - unit;
            if (shift < 0) for (int64_t i = 0; i < count; i++) left[i] += (uint64_t)(values[i] >> -shift);
            else if (shift < 64) for (int64_t i = 0; i < count; i++) left[i] += (uint64_t)values[i] << shift;
        }
        for (int64_t i = 0; i < count; i++) used |= left[i];
        memcpy(rest + start, left, (size_t)count * sizeof *rest);
    }
    return used;
}

void short_sums(const limb_columns *limbs, short_form *form, int64_t *near, int64_t *rest)
{
    int64_t exponent;
    double off, largest = add_roughly(limbs, near, rest);
    form->found = false;
    if (!(largest <= DBL_MAX)) return;
    form->digits = digits_of(near, limbs->rows, largest);
    go_near(near, rest, limbs->rows, form->digits, &exponent, &off);
    form->unit = unit_of(limbs, exponent);
    form->found = off < ldexp(1.0, 62 + (int)form->unit);
    if (!form->found) return;
    int spare = trailing_zeros(leave(limbs, near, form->digits, form->unit, rest));
    for (int64_t i = 0; spare && i < limbs->rows; i++) rest[i] >>= spare;
    form->unit += spare;
}
