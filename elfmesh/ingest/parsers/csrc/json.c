/* JSON as RFC 8259 and msgspec have it: strings, values that nobody asked for, escapes. */
#include "scan.h"
#include "wide.h"

#include <string.h>

static int hex_digit(uint8_t byte) {
    if (byte >= '0' && byte <= '9') {
        return byte - '0';
    }
    byte |= 0x20;
    return byte >= 'a' && byte <= 'f' ? byte - 'a' + 10 : -1;
}

/* The code unit of four hex digits, or -1. */
static int32_t code_unit(const uint8_t *p, const uint8_t *end) {
    if (end - p < 4) {
        return -1;
    }
    int32_t unit = 0;
    for (int at = 0; at < 4; at++) {
        int digit = hex_digit(p[at]);
        if (digit < 0) {
            return -1;
        }
        unit = unit << 4 | digit;
    }
    return unit;
}

/* The code point written at p, just behind `\u`; *next is the place behind it. -1: half a surrogate pair. */
static int32_t code_point(const uint8_t *p, const uint8_t *end, const uint8_t **next) {
    int32_t unit = code_unit(p, end);
    *next = p + 4;
    if (unit < 0xd800 || unit > 0xdfff) {
        return unit;
    }
    if (unit > 0xdbff || end - p < 10 || p[4] != '\\' || p[5] != 'u') {
        return -1;
    }
    int32_t low = code_unit(p + 6, end);
    *next = p + 10;
    return low < 0xdc00 || low > 0xdfff ? -1 : 0x10000 + ((unit - 0xd800) << 10 | (low - 0xdc00));
}

/* The place behind the escape whose backslash is at p, or NULL. */
static const uint8_t *skip_escape(const uint8_t *p, const uint8_t *end) {
    if (end - p < 2) {
        return NULL;
    }
    switch (p[1]) {
    case '"': case '\\': case '/': case 'b': case 'f': case 'n': case 'r': case 't':
        return p + 2;
    case 'u': {
        const uint8_t *next;
        return code_point(p + 2, end, &next) < 0 ? NULL : next;
    }
    default:
        return NULL;
    }
}

/* `p` is behind the opening quote; the answer is behind the closing one. */
const uint8_t *skip_string(const uint8_t *p, const Line *line, bool *escaped) {
    *escaped = false;
    for (;;) {
        p = find_string_mark(p, line->end, line->limit);
        if (UNLIKELY(p == line->end)) {
            return NULL;
        }
        if (LIKELY(*p == '"')) {
            return p + 1;
        }
        if (*p != '\\') {
            return NULL;
        }
        *escaped = true;
        p = skip_escape(p, line->end);
        if (!p) {
            return NULL;
        }
    }
}

static const uint8_t *skip_word(const uint8_t *p, const uint8_t *end, const char *word, size_t length) {
    return (size_t)(end - p) >= length && memcmp(p, word, length) == 0 ? p + length : NULL;
}

static const uint8_t *skip_array(const uint8_t *p, const Line *line, int depth) {
    bool last;
    p = skip_space(p + 1, line->end);
    if (p < line->end && *p == ']') {
        return p + 1;
    }
    for (;;) {
        p = skip_value(p, line, depth + 1);
        p = p ? next_member(p, line->end, ']', &last) : NULL;
        if (!p || last) {
            return p;
        }
    }
}

static const uint8_t *skip_object(const uint8_t *p, const Line *line, int depth) {
    bool escaped, last;
    p = skip_space(p + 1, line->end);
    if (p < line->end && *p == '}') {
        return p + 1;
    }
    for (;;) {
        if (p == line->end || *p != '"' || !(p = skip_string(p + 1, line, &escaped))) {
            return NULL;
        }
        p = skip_space(p, line->end);
        if (p == line->end || *p != ':') {
            return NULL;
        }
        p = skip_value(skip_space(p + 1, line->end), line, depth + 1);
        p = p ? next_member(p, line->end, '}', &last) : NULL;
        if (!p || last) {
            return p;
        }
    }
}

/* A number at p. Where one load shows all of it, its digits are counted in the mask of the load. */
static inline const uint8_t *skip_digits_and_point(const uint8_t *p, const Line *line) {
#if ELFMESH_WIDE
    if (LIKELY(line->limit - p >= 16)) {
        unsigned sign = *p == '-', others = find_no_digits(p) >> sign;
        unsigned whole = others ? (unsigned)__builtin_ctz(others) : 0;
        const uint8_t *digits = p + sign, *stop = digits + whole;
        if (whole && (*digits != '0' || whole == 1) && stop <= line->end) {
            if (stop == line->end || (*stop != '.' && (*stop | 0x20) != 'e')) {
                return stop;
            }
            others >>= whole + 1;
            unsigned part = *stop == '.' && others ? (unsigned)__builtin_ctz(others) : 0;
            stop += 1 + part;
            if (part && stop <= line->end && (stop == line->end || (*stop | 0x20) != 'e')) {
                return stop;
            }
        }
    }
#endif
    return skip_number(p, line->end);
}

/* Any value at p (no space before it). */
const uint8_t *skip_value(const uint8_t *p, const Line *line, int depth) {
    bool escaped;
    if (p == line->end || depth > DEPTH_MAX) {
        return NULL;
    }
    switch (*p) {
    case '"': return skip_string(p + 1, line, &escaped);
    case '{': return skip_object(p, line, depth);
    case '[': return skip_array(p, line, depth);
    case 't': return skip_word(p, line->end, "true", 4);
    case 'f': return skip_word(p, line->end, "false", 5);
    case 'n': return skip_word(p, line->end, "null", 4);
    default: return skip_digits_and_point(p, line);
    }
}

static size_t put_code_point(int32_t point, uint8_t *out) {
    if (point < 0x80) {
        out[0] = (uint8_t)point;
        return 1;
    }
    if (point < 0x800) {
        out[0] = (uint8_t)(0xc0 | point >> 6);
        out[1] = (uint8_t)(0x80 | (point & 0x3f));
        return 2;
    }
    if (point < 0x10000) {
        out[0] = (uint8_t)(0xe0 | point >> 12);
        out[1] = (uint8_t)(0x80 | (point >> 6 & 0x3f));
        out[2] = (uint8_t)(0x80 | (point & 0x3f));
        return 3;
    }
    out[0] = (uint8_t)(0xf0 | point >> 18);
    out[1] = (uint8_t)(0x80 | (point >> 12 & 0x3f));
    out[2] = (uint8_t)(0x80 | (point >> 6 & 0x3f));
    out[3] = (uint8_t)(0x80 | (point & 0x3f));
    return 4;
}

/* A checked string without its escapes; never longer than it was. Returns the length. What is no escape after
 * all (a caller's own cell) is copied as it stands. */
size_t unescape(Bytes text, uint8_t *out) {
    const uint8_t *p = text.data, *end = p + text.size;
    uint8_t *to = out;
    while (p < end) {
        const uint8_t *slash = memchr(p, '\\', (size_t)(end - p));
        const uint8_t *stop = slash ? slash : end;
        memcpy(to, p, (size_t)(stop - p));
        to += stop - p;
        p = stop;
        if (!slash) {
            break;
        }
        const uint8_t *next = skip_escape(p, end);
        if (!next) {
            *to++ = *p++;
            continue;
        }
        switch (p[1]) {
        case 'b': *to++ = '\b'; break;
        case 'f': *to++ = '\f'; break;
        case 'n': *to++ = '\n'; break;
        case 'r': *to++ = '\r'; break;
        case 't': *to++ = '\t'; break;
        case 'u': to += put_code_point(code_point(p + 2, end, &next), to); break;
        default: *to++ = p[1];
        }
        p = next;
    }
    return (size_t)(to - out);
}
