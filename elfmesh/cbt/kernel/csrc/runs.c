/* Front-coded runs: taking them apart, making sure of them, unfolding and writing them. */
#include "kernel.h"

#include <stdlib.h>

#include "bytes.h"

const char NO_MEMORY[] = "out of memory";

/* Sums of the lengths, and whether they fit each other. Called with a constant `wide`. */
static inline bool add_lengths(const run_view *run, bool wide, int64_t *rest_bytes, int64_t *key_bytes)
{
    uint64_t rests = 0, sizes = 0;
    uint32_t bad = 0, before = 0;
    for (int64_t i = 0; i < run->rows; i++) {
        uint32_t shared = length_at(run->shared, i, wide), rest = length_at(run->rest, i, wide);
        bad |= (uint32_t)(shared > before) | (uint32_t)(shared + rest > KEY_BYTES_MAX);
        before = shared + rest;
        rests += rest;
        sizes += before;
    }
    *rest_bytes = (int64_t)rests;
    *key_bytes = (int64_t)sizes;
    return !bad;
}

fault open_run(run_view *run, int64_t rows, bool wide, const uint8_t *data, int64_t data_bytes)
{
    int64_t width = wide ? 2 : 1;
    if (rows < 0 || rows > data_bytes / (2 * width)) return "not a run: fewer bytes than lengths";
    *run = (run_view){data, data + rows * width, data + 2 * rows * width, rows, 0, 0, wide};
    bool fits = wide ? add_lengths(run, true, &run->rest_bytes, &run->key_bytes)
                     : add_lengths(run, false, &run->rest_bytes, &run->key_bytes);
    if (!fits) return "not a run: lengths do not fit each other";
    if (run->rest_bytes != data_bytes - 2 * rows * width) return "not a run: lengths do not fit the bytes";
    return NULL;
}

fault check_run(const run_view *run)
{
    uint8_t before[KEY_BYTES_MAX + 1];
    uint32_t size_before = 0;
    const uint8_t *rest_bytes = run->bytes;
    for (int64_t i = 0; i < run->rows; i++) {
        uint32_t shared = length_at(run->shared, i, run->wide), rest = length_at(run->rest, i, run->wide);
        /* Open made sure of shared <= size_before. The first key may be empty; a later one must go on after
         * what it shares, and with a larger byte where the one before goes on too. */
        if (i > 0 && rest == 0) return "not a run: keys do not ascend";
        if (shared < size_before && *rest_bytes <= before[shared])
            return "not a run: keys do not ascend, or share more than they say";
        memcpy(before + shared, rest_bytes, rest);
        rest_bytes += rest;
        size_before = shared + rest;
    }
    return NULL;
}

static inline void decode(const run_view *run, bool wide, int32_t *offsets, uint8_t *data)
{
    const uint8_t *rests = run->bytes;
    uint8_t *to = data, *before = data;
    int64_t rests_left = run->rest_bytes, data_left = run->key_bytes;
    offsets[0] = 0;
    for (int64_t i = 0; i < run->rows; i++) {
        uint32_t shared = length_at(run->shared, i, wide), rest = length_at(run->rest, i, wide);
        uint32_t size = shared + rest;
        if (data_left >= size + SLACK) {
            copy_bytes(to, before, shared, to - before + data_left);
            copy_bytes(to + shared, rests, rest, rests_left);
        } else {
            memcpy(to, before, shared);
            memcpy(to + shared, rests, rest);
        }
        rests += rest;
        rests_left -= rest;
        before = to;
        to += size;
        data_left -= size;
        offsets[i + 1] = (int32_t)(to - data);
    }
}

void decode_run(const run_view *run, int32_t *offsets, uint8_t *data)
{
    if (run->wide) decode(run, true, offsets, data);
    else decode(run, false, offsets, data);
}

void writer_free(run_writer *w)
{
    free(w->shared);
    free(w->rest);
    free(w->bytes);
}

fault writer_start(run_writer *w, int64_t rows_max)
{
    w->rows = w->used = w->key_bytes = 0;
    w->longest = 0;
    if (rows_max <= w->rows_max) return NULL;
    uint16_t *shared = realloc(w->shared, (size_t)rows_max * sizeof *shared);
    if (!shared) return NO_MEMORY;
    w->shared = shared;
    uint16_t *rest = realloc(w->rest, (size_t)rows_max * sizeof *rest);
    if (!rest) return NO_MEMORY;
    w->rest = rest;
    w->rows_max = rows_max;
    return NULL;
}

fault writer_grow(run_writer *w, int64_t bytes)
{
    int64_t max = w->used_max + w->used_max / 2;
    if (max < w->used + bytes + SLACK) max = w->used + bytes + SLACK + 4096;
    uint8_t *grown = realloc(w->bytes, (size_t)max);
    if (!grown) return NO_MEMORY;
    w->bytes = grown;
    w->used_max = max;
    return NULL;
}

int64_t writer_size(const run_writer *w) { return w->rows * (writer_wide(w) ? 4 : 2) + w->used; }

static void narrow(const uint16_t *lengths, int64_t rows, uint8_t *out)
{
    for (int64_t i = 0; i < rows; i++) out[i] = (uint8_t)lengths[i];
}

void writer_finish(const run_writer *w, uint8_t *out)
{
    if (w->rows == 0) return;
    if (writer_wide(w)) {
        memcpy(out, w->shared, (size_t)w->rows * 2);
        memcpy(out + 2 * w->rows, w->rest, (size_t)w->rows * 2);
        out += 4 * w->rows;
    } else {
        narrow(w->shared, w->rows, out);
        narrow(w->rest, w->rows, out + w->rows);
        out += 2 * w->rows;
    }
    if (w->used) memcpy(out, w->bytes, (size_t)w->used);
}
