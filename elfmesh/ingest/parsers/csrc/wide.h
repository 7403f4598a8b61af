/* Looking at 16 bytes at a time where the machine surely can, byte by byte elsewhere; same answers.
 *
 * SSE2 is part of every x86-64. ELFMESH_PORTABLE forces the plain way, so that tests run both on one machine.
 */
#ifndef ELFMESH_WIDE_H
#define ELFMESH_WIDE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#if defined(__SSE2__) && defined(__GNUC__) && !defined(ELFMESH_PORTABLE)
#include <emmintrin.h>
#define ELFMESH_WIDE 1
#else
#define ELFMESH_WIDE 0
#endif

#define LIKELY(x) __builtin_expect(!!(x), 1)
#define UNLIKELY(x) __builtin_expect(!!(x), 0)
#if !defined(__GNUC__)
#undef LIKELY
#undef UNLIKELY
#define LIKELY(x) (x)
#define UNLIKELY(x) (x)
#endif

/* The first quote, backslash or control character in [p, end), else end. */
static inline const uint8_t *find_string_mark(const uint8_t *p, const uint8_t *end, const uint8_t *limit) {
#if ELFMESH_WIDE
    const __m128i quote = _mm_set1_epi8('"'), slash = _mm_set1_epi8('\\'), control = _mm_set1_epi8(0x1f);
    while (p < end && limit - p >= 16) {
        __m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
        __m128i hit = _mm_or_si128(_mm_cmpeq_epi8(v, quote), _mm_cmpeq_epi8(v, slash));
        hit = _mm_or_si128(hit, _mm_cmpeq_epi8(_mm_min_epu8(v, control), v));
        unsigned mask = (unsigned)_mm_movemask_epi8(hit);
        if (mask) {
            p += __builtin_ctz(mask);
            return p < end ? p : end;
        }
        p += 16;
    }
    if (p > end) {
        return end;
    }
#else
    (void)limit;
#endif
    while (p < end && *p != '"' && *p != '\\' && *p >= 0x20) {
        p++;
    }
    return p;
}

/* The first of two bytes in [p, end), else end. */
static inline const uint8_t *find_either(const uint8_t *p, const uint8_t *end, const uint8_t *limit, uint8_t a,
                                         uint8_t b) {
#if ELFMESH_WIDE
    const __m128i first = _mm_set1_epi8((char)a), second = _mm_set1_epi8((char)b);
    while (p < end && limit - p >= 16) {
        __m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
        unsigned mask =
            (unsigned)_mm_movemask_epi8(_mm_or_si128(_mm_cmpeq_epi8(v, first), _mm_cmpeq_epi8(v, second)));
        if (mask) {
            p += __builtin_ctz(mask);
            return p < end ? p : end;
        }
        p += 16;
    }
    if (p > end) {
        return end;
    }
#else
    (void)limit;
#endif
    while (p < end && *p != a && *p != b) {
        p++;
    }
    return p;
}

#if ELFMESH_WIDE
/* A bit for each of the 16 bytes at p that is no digit. */
static inline unsigned find_no_digits(const uint8_t *p) {
    __m128i v = _mm_sub_epi8(_mm_loadu_si128((const __m128i *)(const void *)p), _mm_set1_epi8('0'));
    return 0xffffu & ~(unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_min_epu8(v, _mm_set1_epi8(9)), v));
}
#endif

/* Behind the space JSON allows inside a line. */
static inline const uint8_t *skip_space(const uint8_t *p, const uint8_t *end) {
    while (p < end && UNLIKELY(*p <= ' ') && (*p == ' ' || *p == '\t' || *p == '\r')) {
        p++;
    }
    return p;
}

/* Behind a member of an array or object that ends with `close`: at the next member, or behind the whole with *last
 * set; NULL where neither may follow. */
static inline const uint8_t *next_member(const uint8_t *p, const uint8_t *end, uint8_t close, bool *last) {
    p = skip_space(p, end);
    if (p == end || (*p != ',' && *p != close)) {
        return NULL;
    }
    *last = *p == close;
    return *last ? p + 1 : skip_space(p + 1, end);
}

/* The first byte that is not ASCII, else end. */
static inline const uint8_t *skip_ascii(const uint8_t *p, const uint8_t *end) {
#if ELFMESH_WIDE
    while (end - p >= 64) {
        __m128i v = _mm_loadu_si128((const __m128i *)(const void *)p);
        for (int at = 16; at < 64; at += 16) {
            v = _mm_or_si128(v, _mm_loadu_si128((const __m128i *)(const void *)(p + at)));
        }
        if (_mm_movemask_epi8(v)) {
            break;
        }
        p += 64;
    }
#endif
    while (p < end && *p < 0x80) {
        p++;
    }
    return p;
}

#endif
