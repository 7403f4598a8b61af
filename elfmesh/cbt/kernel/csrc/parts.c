/* Runs out of keys, and parts of keys. */
#include "kernel.h"

#include <stdlib.h>

#include "bytes.h"
#include "writer.h"

#define AHEAD 40 /* rows: a key of a full root is far away */

/* The longest step between offsets that ascend, at least 0; -1 if they do not. */
static int64_t longest_key(const keys_view *keys)
{
    const int32_t *offsets = keys->offsets;
    uint32_t longest = 0, negative = offsets[0] < 0;
    for (int64_t i = 0; i < keys->count; i++) {
        /* As unsigned, a step back is a huge length. */
        uint32_t size = (uint32_t)offsets[i + 1] - (uint32_t)offsets[i];
        longest = size > longest ? size : longest;
        negative |= offsets[i + 1] < 0;
    }
    return negative || longest > INT32_MAX ? -1 : (int64_t)longest;
}

static fault check_lengths(const keys_view *keys, int64_t data_bytes, int64_t longest_max)
{
    int64_t longest = longest_key(keys);
    if (longest < 0) return "offsets of keys do not ascend";
    if (keys->offsets[keys->count] > data_bytes) return "offsets of keys reach beyond their bytes";
    return longest > longest_max ? "a key is longer than 65535 bytes" : NULL;
}

fault check_offsets(const keys_view *keys, int64_t data_bytes) { return check_lengths(keys, data_bytes, INT32_MAX); }
fault check_keys(const keys_view *keys, int64_t data_bytes) { return check_lengths(keys, data_bytes, KEY_BYTES_MAX); }

static inline uint32_t key_size(const keys_view *keys, int64_t row)
{
    return (uint32_t)(keys->offsets[row + 1] - keys->offsets[row]);
}

void hash_keys(const keys_view *keys, uint64_t *out)
{
    int64_t end = keys->offsets[keys->count];
    for (int64_t i = 0; i < keys->count; i++)
        out[i] = place_hash(keys->data + keys->offsets[i], key_size(keys, i), end - keys->offsets[i]);
}

fault front_code(run_writer *w, const keys_view *keys, const int64_t *order, int64_t rows)
{
    const uint8_t *before = NULL;
    uint32_t size_before = 0;
    int64_t end = keys->offsets[keys->count], readable_before = 0;
    for (int64_t i = 0; i < rows; i++) {
        if (i + AHEAD < rows) __builtin_prefetch(&keys->offsets[order[i + AHEAD]]);
        if (i + AHEAD / 2 < rows) __builtin_prefetch(keys->data + keys->offsets[order[i + AHEAD / 2]]);
        int32_t at = keys->offsets[order[i]];
        const uint8_t *key = keys->data + at;
        uint32_t size = key_size(keys, order[i]);
        uint32_t least = size < size_before ? size : size_before;
        int64_t readable = end - at < readable_before ? end - at : readable_before;
        uint32_t shared = shared_bytes_of(before, key, least, readable);
        if (i > 0 && (shared == least ? size <= size_before : key[shared] < before[shared]))
            return "keys of a part do not ascend";
        fault wrong = writer_append(w, shared, key + shared, size - shared, end - at - shared);
        if (wrong) return wrong;
        before = key;
        size_before = size;
        readable_before = end - at;
    }
    return NULL;
}

fault place_rows(const keys_view *keys, unsigned skip, unsigned bits, int64_t *order, int64_t *cuts)
{
    int64_t parts = (int64_t)1 << bits;
    uint16_t *part = malloc((size_t)keys->count * sizeof *part + 1);
    int64_t *next = malloc((size_t)parts * sizeof *next);
    int64_t end = keys->offsets[keys->count];
    if (part && next) {
        memset(cuts, 0, ((size_t)parts + 1) * sizeof *cuts);
        for (int64_t i = 0; i < keys->count; i++) {
            int32_t at = keys->offsets[i];
            uint64_t hash = bits ? place_hash(keys->data + at, key_size(keys, i), end - at) : 0;
            part[i] = bits ? (uint16_t)((hash << skip) >> (64 - bits)) : 0;
            cuts[part[i] + 1]++;
        }
        for (int64_t p = 0; p < parts; p++) {
            next[p] = cuts[p];
            cuts[p + 1] += cuts[p];
        }
        for (int64_t i = 0; i < keys->count; i++) order[next[part[i]]++] = i;
    }
    bool done = part && next;
    free(part);
    free(next);
    return done ? NULL : NO_MEMORY;
}
