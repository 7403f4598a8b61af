/* Lines and UTF-8: what a block must be before any format looks at it. */
#include "scan.h"
#include "wide.h"

#include <string.h>

static inline bool is_tail(uint8_t byte) { return (byte & 0xc0) == 0x80; }

/* Length of the well-formed sequence at p (RFC 3629: no surrogates, nothing over-long), or 0. */
static size_t sequence_length(const uint8_t *p, size_t left) {
    uint8_t lead = p[0];
    if (lead < 0x80) {
        return 1;
    }
    if (lead >= 0xc2 && lead <= 0xdf) {
        return left >= 2 && is_tail(p[1]) ? 2 : 0;
    }
    if (lead >= 0xe0 && lead <= 0xef) {
        if (left < 3 || !is_tail(p[1]) || !is_tail(p[2])) {
            return 0;
        }
        bool overlong = lead == 0xe0 && p[1] < 0xa0, surrogate = lead == 0xed && p[1] > 0x9f;
        return overlong || surrogate ? 0 : 3;
    }
    if (lead >= 0xf0 && lead <= 0xf4) {
        if (left < 4 || !is_tail(p[1]) || !is_tail(p[2]) || !is_tail(p[3])) {
            return 0;
        }
        bool overlong = lead == 0xf0 && p[1] < 0x90, beyond = lead == 0xf4 && p[1] > 0x8f;
        return overlong || beyond ? 0 : 4;
    }
    return 0;
}

bool utf8_is_valid(Bytes text) {
    const uint8_t *p = text.data, *end = p + text.size;
    while ((p = skip_ascii(p, end)) < end) {
        do {
            size_t length = sequence_length(p, (size_t)(end - p));
            if (!length) {
                return false;
            }
            p += length;
        } while (p < end && *p >= 0x80);
    }
    return true;
}

size_t count_newlines(Bytes block) {
    enum { STEP = 240 }; /* whole wide registers, and no more than a byte can count */
    size_t count = 0;
    const uint8_t *p = block.data, *end = p + block.size;
    while (end - p >= STEP) {
        uint8_t few = 0;
        for (int at = 0; at < STEP; at++) {
            few = (uint8_t)(few + (p[at] == '\n'));
        }
        count += few;
        p += STEP;
    }
    for (; p < end; p++) {
        count += *p == '\n';
    }
    return count;
}

static bool is_blank(const uint8_t *p, const uint8_t *end) {
    while (p < end && (*p == ' ' || *p == '\t')) {
        p++;
    }
    return p == end;
}

/* The non-blank lines without their ends; SIZE_MAX when there are more than `room`. */
size_t split_lines(Bytes block, int64_t *starts, int64_t *ends, size_t room) {
    size_t count = 0;
    const uint8_t *data = block.data, *start = data, *past = data + block.size;
    while (start < past) {
        const uint8_t *newline = memchr(start, '\n', (size_t)(past - start));
        const uint8_t *end = newline ? newline : past, *next = newline ? newline + 1 : past;
        if (end > start && end[-1] == '\r') {
            end--;
        }
        if (!is_blank(start, end)) {
            if (count == room) {
                return SIZE_MAX;
            }
            starts[count] = start - data;
            ends[count++] = end - data;
        }
        start = next;
    }
    return count;
}
