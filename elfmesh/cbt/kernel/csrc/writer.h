/* Appending to a run that is being written; inline, because it runs once per key. */
#ifndef ELFMESH_WRITER_H
#define ELFMESH_WRITER_H

#include "bytes.h"
#include "kernel.h"

/* The next key: it shares `shared` bytes with the one before and goes on with `rest` bytes, which are the first
 * of `readable`. Room for the row is there; room for its bytes is made. */
static inline fault writer_append(run_writer *w, uint32_t shared, const uint8_t *bytes, uint32_t rest,
                                  int64_t readable)
{
    if (w->used + rest + SLACK > w->used_max) {
        fault wrong = writer_grow(w, rest);
        if (wrong) return wrong;
    }
    copy_bytes(w->bytes + w->used, bytes, rest, readable);
    w->used += rest;
    w->key_bytes += shared + rest;
    w->shared[w->rows] = (uint16_t)shared;
    w->rest[w->rows++] = (uint16_t)rest;
    uint32_t longer = shared > rest ? shared : rest;
    if (longer > w->longest) w->longest = longer;
    return NULL;
}

#endif
