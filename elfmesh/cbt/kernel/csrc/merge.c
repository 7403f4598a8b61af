/* Merging runs without unfolding them: a tournament of losers over front-coded streams.
 *
 * Every stream stands at one key. With it we keep how many bytes it shares with the key written last ("agrees").
 * Of two keys, neither below the last one, the one that agrees longer is smaller; only where they agree equally
 * long are bytes compared, and only from there on. So every byte of a key is compared about once in its way up.
 * The losers of each game wait at its node with what they share with the winner, which, once the winner is
 * written, is what they share with the key written last.
 *
 * Streams whose lengths are wrong about their bytes (they cannot come from check_run, nor from this kernel) are
 * noticed where an agreement lies outside the stored rest, before anything is read. */
#include <stdlib.h>

#include "kernel.h"
#include "writer.h"

#define ENDED (-1)

typedef struct {
    const uint8_t *bytes; /* rest of the present key */
    uint32_t shared, rest;
    int64_t row, rows;
    const run_view *run;
    int64_t *map;
} stream;

typedef struct {
    stream *streams;
    int *loser;      /* by node 1 .. width - 1 */
    int32_t *agrees; /* of that loser with the last key, or ENDED */
    int width;       /* a power of two */
    bool broken;
} tournament;

static inline void load_lengths(stream *s)
{
    s->shared = length_at(s->run->shared, s->row, s->run->wide);
    s->rest = length_at(s->run->rest, s->row, s->run->wide);
}

/* Whether stream a is at most stream b, both agreeing `depth` bytes with the last key; what they share. */
static inline bool not_above(tournament *t, int a, int b, uint32_t depth, int32_t *shared)
{
    const stream *x = &t->streams[a], *y = &t->streams[b];
    uint32_t skip_x = depth - x->shared, skip_y = depth - y->shared;
    if (skip_x > x->rest || skip_y > y->rest) {
        t->broken = true;
        *shared = ENDED;
        return true;
    }
    const uint8_t *p = x->bytes + skip_x, *q = y->bytes + skip_y;
    uint32_t left_x = x->rest - skip_x, left_y = y->rest - skip_y;
    uint32_t least = left_x < left_y ? left_x : left_y;
    uint32_t same = shared_bytes(p, q, least);
    *shared = (int32_t)(depth + same);
    return same == least ? left_x <= left_y : p[same] < q[same];
}

/* Play all games below a node; its winner. */
static int play(tournament *t, int node)
{
    if (node >= t->width) return node - t->width;
    int a = play(t, 2 * node), b = play(t, 2 * node + 1);
    bool a_ended = t->streams[a].rows == 0, b_ended = t->streams[b].rows == 0;
    int32_t shared = ENDED;
    bool a_wins = b_ended || (!a_ended && not_above(t, a, b, 0, &shared));
    t->loser[node] = a_wins ? b : a;
    t->agrees[node] = shared;
    return a_wins ? a : b;
}

/* Write the keys, each once, in order. */
static fault write_all(tournament *t, run_writer *w, int winner)
{
    int32_t agrees = t->streams[winner].rows ? 0 : ENDED;
    int64_t last_size = -1;
    while (agrees != ENDED && !t->broken) {
        stream *s = &t->streams[winner];
        uint32_t skip = (uint32_t)agrees - s->shared, size = s->shared + s->rest;
        if (skip > s->rest) return "not a run: lengths do not fit the keys";
        if ((int64_t)size == last_size && (uint32_t)agrees == size) {
            s->map[s->row] = w->rows - 1; /* the very key written last */
        } else {
            int64_t readable = s->run->bytes + s->run->rest_bytes - (s->bytes + skip);
            fault wrong = writer_append(w, (uint32_t)agrees, s->bytes + skip, s->rest - skip, readable);
            if (wrong) return wrong;
            s->map[s->row] = w->rows - 1;
            last_size = size;
        }
        s->bytes += s->rest;
        s->row++;
        agrees = ENDED;
        if (s->row < s->rows) {
            load_lengths(s);
            agrees = (int32_t)s->shared;
        }
        for (int node = (t->width + winner) >> 1; node >= 1; node >>= 1) {
            int32_t other = t->agrees[node], shared;
            bool swap = other > agrees;
            if (other == agrees && agrees != ENDED) {
                bool below = not_above(t, winner, t->loser[node], (uint32_t)agrees, &shared);
                t->agrees[node] = shared;
                if (below) continue;
                int challenger = t->loser[node];
                t->loser[node] = winner;
                winner = challenger; /* and agrees stays what both had */
            } else if (swap) {
                int challenger = t->loser[node];
                t->loser[node] = winner;
                t->agrees[node] = agrees;
                winner = challenger;
                agrees = other;
            }
        }
    }
    return t->broken ? "not a run: lengths do not fit the keys" : NULL;
}

fault merge_runs(run_writer *w, const run_view *runs, int count, int64_t *const *maps)
{
    tournament t = {.width = 1};
    int64_t rows = 0;
    while (t.width < count) t.width *= 2;
    t.streams = calloc((size_t)t.width, sizeof *t.streams);
    t.loser = calloc((size_t)t.width, sizeof *t.loser);
    t.agrees = calloc((size_t)t.width, sizeof *t.agrees);
    fault wrong = t.streams && t.loser && t.agrees ? NULL : NO_MEMORY;
    for (int i = 0; !wrong && i < count; i++) {
        t.streams[i] = (stream){.bytes = runs[i].bytes, .rows = runs[i].rows, .run = &runs[i], .map = maps[i]};
        if (runs[i].rows) load_lengths(&t.streams[i]);
        rows += runs[i].rows;
    }
    if (!wrong) wrong = writer_start(w, rows);
    if (!wrong) wrong = write_all(&t, w, play(&t, 1));
    if (!wrong && w->key_bytes > ALL_BYTES_MAX) wrong = "the merged keys would pass 2**31 - 1 bytes";
    free(t.streams);
    free(t.loser);
    free(t.agrees);
    return wrong;
}
