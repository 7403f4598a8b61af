/* Typed columns to key bytes and back; the format stands in `elfmesh.cbt.keys`: fixed widths big-endian with the
 * sign bit flipped, so that bytes order as values do; of byte strings, the last column as it is, any earlier one
 * with 0x00 as 0x00 0xFF and 0x00 0x00 at its end; before each value of a nullable column a byte 0 (null) or 1.
 *
 * Both ways go column by column, with a cursor per row, so that each inner loop knows its width. */
#include "kernel.h"

#include <stdlib.h>

#include "bytes.h"

static inline bool is_null(const key_column *c, int64_t row)
{
    return c->nullable && (c->width == 0 || (c->valid && !c->valid[row]));
}

static uint32_t zeros_in(const uint8_t *bytes, uint32_t size)
{
    uint32_t zeros = 0;
    for (uint32_t i = 0; i < size; i++) zeros += bytes[i] == 0;
    return zeros;
}

static void add_sizes(const key_column *c, bool last, int64_t rows, int64_t *sizes)
{
    for (int64_t row = 0; row < rows; row++) {
        sizes[row] += c->nullable;
        if (is_null(c, row)) continue;
        if (c->width >= 0) {
            sizes[row] += c->width;
            continue;
        }
        uint32_t size = (uint32_t)(c->offsets[row + 1] - c->offsets[row]);
        sizes[row] += size;
        if (!last) sizes[row] += 2 + (int64_t)zeros_in(c->data + c->offsets[row], size);
    }
}

void encoded_sizes(const key_column *columns, int count, int64_t rows, int64_t *sizes)
{
    memset(sizes, 0, (size_t)rows * sizeof *sizes);
    for (int i = 0; i < count; i++) add_sizes(&columns[i], i == count - 1, rows, sizes);
}

static inline void put_fixed(uint8_t *to, const uint8_t *values, int width, int64_t row)
{
    if (width == 1) {
        *to = values[row];
    } else if (width == 4) {
        uint32_t value = __builtin_bswap32(load32(values + 4 * row) ^ 0x80000000u);
        memcpy(to, &value, 4);
    } else if (width == 8) {
        store64(to, __builtin_bswap64(load64(values + 8 * row) ^ 1ull << 63));
    } else {
        store64(to, __builtin_bswap64(load64(values + 16 * row + 8) ^ 1ull << 63));
        store64(to + 8, __builtin_bswap64(load64(values + 16 * row)));
    }
}

static inline void get_fixed(uint8_t *values, const uint8_t *from, int width, int64_t row)
{
    if (width == 1) {
        values[row] = *from;
    } else if (width == 4) {
        uint32_t value = __builtin_bswap32(load32(from)) ^ 0x80000000u;
        memcpy(values + 4 * row, &value, 4);
    } else if (width == 8) {
        store64(values + 8 * row, __builtin_bswap64(load64(from)) ^ 1ull << 63);
    } else {
        store64(values + 16 * row + 8, __builtin_bswap64(load64(from)) ^ 1ull << 63);
        store64(values + 16 * row, __builtin_bswap64(load64(from + 8)));
    }
}

/* Called with a constant width, 0 among them. */
static inline void encode_fixed(const key_column *c, int width, int64_t rows, int32_t *cursors, uint8_t *out)
{
    for (int64_t row = 0; row < rows; row++) {
        uint8_t *to = out + cursors[row];
        bool null = is_null(c, row);
        if (c->nullable) *to++ = !null;
        if (!null && width) {
            put_fixed(to, c->values, width, row);
            to += width;
        }
        cursors[row] = (int32_t)(to - out);
    }
}

static uint8_t *put_escaped(uint8_t *to, const uint8_t *bytes, uint32_t size)
{
    for (uint32_t i = 0; i < size; i++) {
        *to++ = bytes[i];
        if (bytes[i] == 0) *to++ = 0xFF;
    }
    *to++ = 0;
    *to++ = 0;
    return to;
}

static void encode_strings(const key_column *c, bool last, int64_t rows, int32_t *cursors, uint8_t *out)
{
    for (int64_t row = 0; row < rows; row++) {
        uint8_t *to = out + cursors[row];
        bool null = is_null(c, row);
        if (c->nullable) *to++ = !null;
        if (!null) {
            const uint8_t *bytes = c->data + c->offsets[row];
            uint32_t size = (uint32_t)(c->offsets[row + 1] - c->offsets[row]);
            if (last) {
                if (size) memcpy(to, bytes, size);
                to += size;
            } else {
                to = put_escaped(to, bytes, size);
            }
        }
        cursors[row] = (int32_t)(to - out);
    }
}

fault encode_keys(const key_column *columns, int count, int64_t rows, const int32_t *offsets, uint8_t *out)
{
    int32_t *cursors = malloc((size_t)rows * sizeof *cursors + 1);
    if (!cursors) return NO_MEMORY;
    memcpy(cursors, offsets, (size_t)rows * sizeof *cursors);
    for (int i = 0; i < count; i++) {
        const key_column *c = &columns[i];
        switch (c->width) {
        case 0: encode_fixed(c, 0, rows, cursors, out); break;
        case 1: encode_fixed(c, 1, rows, cursors, out); break;
        case 4: encode_fixed(c, 4, rows, cursors, out); break;
        case 8: encode_fixed(c, 8, rows, cursors, out); break;
        case 16: encode_fixed(c, 16, rows, cursors, out); break;
        default: encode_strings(c, i == count - 1, rows, cursors, out);
        }
    }
    free(cursors);
    return NULL;
}

/* Read the marker of a nullable column; whether there is a value. */
static inline fault take_marker(const key_column *c, int64_t row, const uint8_t *data, int32_t *at, int32_t end,
                                bool *present)
{
    *present = true;
    if (!c->nullable) return NULL;
    if (*at >= end) return "a key ends before a column";
    uint8_t marker = data[(*at)++];
    if (marker > (c->width != 0)) return "a key has a wrong marker of nulls";
    c->valid[row] = marker;
    *present = marker;
    return NULL;
}

static inline fault decode_fixed(const keys_view *keys, const key_column *c, int width, int32_t *cursors)
{
    for (int64_t row = 0; row < keys->count; row++) {
        int32_t end = keys->offsets[row + 1];
        bool present;
        fault wrong = take_marker(c, row, keys->data, &cursors[row], end, &present);
        if (wrong) return wrong;
        if (!width) continue;
        if (!present) {
            memset(c->values + width * row, 0, (size_t)width);
        } else if (end - cursors[row] < width) {
            return "a key ends inside a column";
        } else {
            get_fixed(c->values, keys->data + cursors[row], width, row);
            cursors[row] += width;
        }
    }
    return NULL;
}

/* Undo put_escaped for the string at `*at`; its bytes go to `to`, which moves on. */
static fault take_escaped(const uint8_t *data, int32_t *at, int32_t end, uint8_t **to)
{
    for (int32_t i = *at; i < end; i++) {
        if (data[i]) {
            *(*to)++ = data[i];
            continue;
        }
        if (++i >= end) break;
        if (data[i] == 0) {
            *at = i + 1;
            return NULL;
        }
        if (data[i] != 0xFF) return "a string of a key has a zero that is not escaped";
        *(*to)++ = 0;
    }
    return "a string of a key has no end";
}

static fault decode_strings(const keys_view *keys, const key_column *c, bool last, int32_t *cursors)
{
    uint8_t *to = c->data;
    c->offsets[0] = 0;
    for (int64_t row = 0; row < keys->count; row++) {
        int32_t end = keys->offsets[row + 1];
        bool present;
        fault wrong = take_marker(c, row, keys->data, &cursors[row], end, &present);
        if (!wrong && present && last) {
            size_t size = (size_t)(end - cursors[row]);
            if (size) memcpy(to, keys->data + cursors[row], size);
            to += size;
            cursors[row] = end;
        } else if (!wrong && present) {
            wrong = take_escaped(keys->data, &cursors[row], end, &to);
        }
        if (wrong) return wrong;
        c->offsets[row + 1] = (int32_t)(to - c->data);
    }
    return NULL;
}

static fault decode_column(const keys_view *keys, const key_column *c, bool last, int32_t *cursors)
{
    switch (c->width) {
    case 0: return decode_fixed(keys, c, 0, cursors);
    case 1: return decode_fixed(keys, c, 1, cursors);
    case 4: return decode_fixed(keys, c, 4, cursors);
    case 8: return decode_fixed(keys, c, 8, cursors);
    case 16: return decode_fixed(keys, c, 16, cursors);
    default: return decode_strings(keys, c, last, cursors);
    }
}

fault decode_keys(const keys_view *keys, const key_column *columns, int count)
{
    int32_t *cursors = malloc((size_t)keys->count * sizeof *cursors + 1);
    if (!cursors) return NO_MEMORY;
    memcpy(cursors, keys->offsets, (size_t)keys->count * sizeof *cursors);
    fault wrong = NULL;
    for (int i = 0; !wrong && i < count; i++) wrong = decode_column(keys, &columns[i], i == count - 1, cursors);
    for (int64_t row = 0; !wrong && row < keys->count; row++)
        if (cursors[row] != keys->offsets[row + 1]) wrong = "a key goes on after its last column";
    free(cursors);
    return wrong;
}
