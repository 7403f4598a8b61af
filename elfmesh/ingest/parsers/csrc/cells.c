/* Cells into the buffers of Arrow columns. */
#include "scan.h"

#include <string.h>

/* One bit per kind that occurs. */
unsigned kinds_present(const uint8_t *kinds, size_t count) {
    unsigned present = 0;
    for (size_t at = 0; at < count; at++) {
        present |= 1u << (kinds[at] & 7);
    }
    return present;
}

/* An Arrow validity bitmap, whose unused bits are zero; returns the number of nulls. */
size_t valid_bits(const uint8_t *kinds, size_t count, uint8_t *bits) {
    size_t nulls = 0;
    memset(bits, 0, (count + 7) / 8);
    for (size_t at = 0; at < count; at++) {
        unsigned valid = kinds[at] != CELL_NULL;
        bits[at >> 3] = (uint8_t)(bits[at >> 3] | valid << (at & 7));
        nulls += !valid;
    }
    return nulls;
}

static inline bool is_text(uint8_t kind) { return kind == CELL_TEXT || kind == CELL_ESCAPED; }

/* Where each text begins if none had escapes, which only shorten. False if they do not fit 32-bit offsets. */
bool text_offsets(const Texts *texts, const uint8_t *kinds, const uint64_t *cells, size_t count, int32_t *offsets,
                  size_t *total) {
    size_t at = 0;
    for (size_t row = 0; row < count; row++) {
        offsets[row] = (int32_t)at;
        at += is_text(kinds[row]) ? text_of_cell(texts, cells[row]).size : 0;
        if (at > INT32_MAX) {
            return false;
        }
    }
    offsets[count] = (int32_t)at;
    *total = at;
    return true;
}

/* Short texts are copied in one step of fixed width where both sides have room for it. */
enum { STEP = 16 };

/* The bytes of all texts behind each other, in the `room` bytes at `out`, and where each begins. What
 * text_offsets said is room enough; false if there is less. */
bool text_copy(const Texts *texts, const uint8_t *kinds, const uint64_t *cells, size_t count, int32_t *offsets,
               uint8_t *out, size_t room, size_t *used) {
    size_t at = 0;
    for (size_t row = 0; row < count; row++) {
        offsets[row] = (int32_t)at;
        if (!is_text(kinds[row])) {
            continue;
        }
        Bytes text = text_of_cell(texts, cells[row]);
        if (text.size > room - at || at + text.size > INT32_MAX) {
            return false;
        }
        bool inside = (size_t)(cells[row] >> 32) + 2 * STEP <= texts->block.size;
        if (kinds[row] == CELL_ESCAPED) {
            at += unescape(text, out + at);
        } else if (text.size <= 2 * STEP && inside && room - at >= 2 * STEP) {
            memcpy(out + at, text.data, STEP);
            memcpy(out + at + STEP, text.data + STEP, STEP);
            at += text.size;
        } else {
            memcpy(out + at, text.data, text.size);
            at += text.size;
        }
    }
    offsets[count] = (int32_t)at;
    *used = at;
    return true;
}

void floats_of(const uint8_t *kinds, const uint64_t *cells, size_t count, double *out) {
    for (size_t at = 0; at < count; at++) {
        if (kinds[at] == CELL_FLOAT) {
            memcpy(&out[at], &cells[at], sizeof *out);
        } else {
            out[at] = kinds[at] == CELL_INT ? (double)(int64_t)cells[at] : 0.0;
        }
    }
}

void ints_of(const uint8_t *kinds, const uint64_t *cells, size_t count, int64_t *out) {
    for (size_t at = 0; at < count; at++) {
        out[at] = kinds[at] == CELL_INT ? (int64_t)cells[at] : 0;
    }
}

void bools_of(const uint8_t *kinds, const uint64_t *cells, size_t count, uint8_t *bits) {
    memset(bits, 0, (count + 7) / 8);
    for (size_t at = 0; at < count; at++) {
        unsigned value = kinds[at] == CELL_BOOL && cells[at];
        bits[at >> 3] = (uint8_t)(bits[at >> 3] | value << (at & 7));
    }
}
