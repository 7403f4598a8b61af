/* JSON numbers: grammar, int64, and doubles that are the nearest to what is written. */
#if !defined(_GNU_SOURCE)
#define _GNU_SOURCE 1 /* strtod_l */
#endif
#include "scan.h"

#include <float.h>
#include <locale.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#if defined(__APPLE__)
#include <xlocale.h>
#endif

static inline bool is_digit(uint8_t byte) { return (uint8_t)(byte - '0') <= 9; }

static const double POWERS[] = {1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
enum { POWER_MAX = 22, MANTISSA_BITS = 53, DIGITS_MAX = 19, TEXT_MAX = 63, EXPONENT_MAX = 9999 };

static locale_t plain_locale;

/* Called once, by one thread, before anything is scanned. */
bool numbers_ready(void) {
    if (!plain_locale) {
        plain_locale = newlocale(LC_ALL_MASK, "C", (locale_t)0);
    }
    return plain_locale != (locale_t)0;
}

static inline const uint8_t *skip_digits(const uint8_t *p, const uint8_t *end) {
    while (p < end && is_digit(*p)) {
        p++;
    }
    return p;
}

const uint8_t *skip_number(const uint8_t *p, const uint8_t *end) {
    if (p < end && *p == '-') {
        p++;
    }
    const uint8_t *digits = p;
    p = skip_digits(p, end);
    if (p == digits || (*digits == '0' && p > digits + 1)) {
        return NULL;
    }
    if (p < end && *p == '.') {
        digits = ++p;
        p = skip_digits(p, end);
        if (p == digits) {
            return NULL;
        }
    }
    if (p < end && (*p == 'e' || *p == 'E')) {
        p++;
        if (p < end && (*p == '+' || *p == '-')) {
            p++;
        }
        digits = p;
        p = skip_digits(p, end);
        if (p == digits) {
            return NULL;
        }
    }
    return p;
}

/* The C library's own reading, which is correctly rounded. What overflows or is tiny is not vouched for. */
static bool read_long_double(const uint8_t *start, const uint8_t *end, double *value) {
    char text[TEXT_MAX + 1];
    size_t length = (size_t)(end - start);
    if (length > TEXT_MAX) {
        return false;
    }
    memcpy(text, start, length);
    text[length] = 0;
    char *stop;
    *value = strtod_l(text, &stop, plain_locale);
    return stop == text + length && isfinite(*value) && fabs(*value) >= DBL_MIN;
}

static bool small_double(uint64_t mantissa, int64_t exponent, double *value) {
    if (FLT_EVAL_METHOD != 0 || mantissa >> MANTISSA_BITS || exponent > POWER_MAX || exponent < -POWER_MAX) {
        return false;
    }
    /* Both factors are exact, so one operation rounds once (Clinger 1990). */
    *value = exponent < 0 ? (double)mantissa / POWERS[-exponent] : (double)mantissa * POWERS[exponent];
    return true;
}

static bool store_int(uint64_t magnitude, bool negative, uint64_t *cell) {
    uint64_t most = negative ? (uint64_t)1 << 63 : ((uint64_t)1 << 63) - 1;
    *cell = negative ? 0 - magnitude : magnitude;
    return magnitude <= most;
}

const uint8_t *read_number(const uint8_t *p, const uint8_t *end, enum cell_kind *kind, uint64_t *cell) {
    const uint8_t *start = p;
    bool negative = p < end && *p == '-';
    p += negative;
    const uint8_t *digits = p;
    uint64_t mantissa = 0;
    for (; p < end && is_digit(*p); p++) {
        mantissa = mantissa * 10 + (uint64_t)(*p - '0'); /* may wrap: then there are too many digits */
    }
    int64_t count = p - digits, exponent = 0;
    if (count == 0 || (*digits == '0' && count > 1)) {
        return NULL;
    }
    if (p == end || (*p != '.' && *p != 'e' && *p != 'E')) {
        *kind = CELL_INT;
        return count <= DIGITS_MAX && store_int(mantissa, negative, cell) ? p : NULL;
    }
    if (*p == '.') {
        digits = ++p;
        for (; p < end && is_digit(*p); p++) {
            mantissa = mantissa * 10 + (uint64_t)(*p - '0');
        }
        if (p == digits) {
            return NULL;
        }
        exponent = digits - p;
        count -= exponent;
    }
    if (p < end && (*p == 'e' || *p == 'E')) {
        p++;
        bool down = p < end && *p == '-';
        p += p < end && (*p == '-' || *p == '+');
        digits = p;
        int64_t power = 0;
        for (; p < end && is_digit(*p); p++) {
            power = power > EXPONENT_MAX ? power : power * 10 + (*p - '0');
        }
        if (p == digits) {
            return NULL;
        }
        exponent += down ? -power : power;
    }
    double value;
    bool exact = count <= DIGITS_MAX && small_double(mantissa, exponent, &value);
    if (exact) {
        value = negative ? -value : value;
    } else if (!read_long_double(start, p, &value)) {
        return NULL;
    }
    *kind = CELL_FLOAT;
    memcpy(cell, &value, sizeof value);
    return p;
}
