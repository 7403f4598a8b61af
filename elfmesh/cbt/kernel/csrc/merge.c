/* Merging runs without unfolding them: a tournament of losers with offset-value codes.
 *
 * Keys are seen as words of 6 bytes, with zeros after their end. Every waiting key has a code that relates it to
 * the key written last: which word is the first that differs, and its value, in one integer that is the smaller
 * the later the keys differ, and for equal places the smaller the value. A game is one comparison of codes; the
 * loser's code also relates it to the winner, so it stays when the winner is written. Only keys of equal codes
 * are compared byte by byte, from the next word on, and the loser gets a new code: so every word of a key is
 * looked at about once on its way up. Two keys that differ by zeros at their end alone are ordered by length:
 * the code of a key that has no differing word is its length. (Offset-value coding: Conner 1977; Graefe 2023.)
 *
 * A code refers only to bytes behind what a key shares with its predecessor, which are those stored. Runs whose
 * keys do not ascend (they come neither from check_run nor from this kernel) are noticed when they are written,
 * or give wrong results; they lead to no byte outside. */
#include <stdlib.h>

#include "kernel.h"
#include "writer.h"

#define WORD 6
#define VALUE_BITS 48
#define PLACES (KEY_BYTES_MAX / WORD + 1) /* every place is below */
#define VALUE_MASK ((1ull << VALUE_BITS) - 1)
#define ENDED UINT64_MAX

typedef struct {
    const uint8_t *bytes; /* rest of the present key */
    const uint8_t *end;   /* of all rests */
    uint32_t shared, rest;
    int64_t row, rows;
    const run_view *run;
    int64_t *map;
} stream;

typedef struct {
    uint64_t code;
    uint32_t stream;
} player;

typedef struct {
    stream *streams;
    uint64_t *codes; /* of the losers, by node 1 .. width - 1 */
    uint32_t *losers;
    uint32_t width; /* a power of two */
    uint32_t last_size;
    uint64_t last[PLACES + 1]; /* the words of the key written last, read as soon as they are written */
} tournament;

static inline uint32_t size_of(const stream *s) { return s->shared + s->rest; }

/* The bytes of the present key from `place` on, which is not before what it shares; how many they are. */
static inline uint32_t tail(const stream *s, uint32_t place, const uint8_t **bytes)
{
    uint32_t skip = place - s->shared < s->rest ? place - s->shared : s->rest;
    *bytes = s->bytes + skip;
    return s->rest - skip;
}

static inline uint64_t code_of(uint32_t word, uint64_t value)
{
    return (uint64_t)(PLACES - word) << VALUE_BITS | value;
}

static inline uint32_t word_of(uint64_t code) { return PLACES - (uint32_t)(code >> VALUE_BITS); }

/* A word that begins behind what the key shares. */
static inline uint64_t value_of(const stream *s, uint32_t word)
{
    const uint8_t *bytes;
    uint32_t left = tail(s, word * WORD, &bytes);
    return load_ordered_of(bytes, left, s->end - bytes) >> (64 - VALUE_BITS);
}

/* The code of a key whose first word that differs has the byte at `place`, and begins behind what it shares. */
static uint64_t code_at(const stream *s, uint32_t place)
{
    return code_of(place / WORD, value_of(s, place / WORD));
}

/* The code of a key that from `place` on has nothing but zeros to compare with. */
static uint64_t code_after_end(const stream *s, uint32_t place)
{
    const uint8_t *bytes;
    uint32_t left = tail(s, place, &bytes), zeros = 0;
    while (zeros < left && bytes[zeros] == 0) zeros++;
    return zeros == left ? size_of(s) : code_at(s, place + zeros);
}

/* Equal codes: compare from the next word on. Whether a is at most b; the other one's code becomes *loser. */
static bool settle(const stream *a, const stream *b, uint64_t code, uint64_t *loser)
{
    *loser = code;
    uint32_t word = word_of(code);
    if (word == PLACES) return true; /* both are the last key and zeros, of one length */
    uint32_t place = (word + 1) * WORD;
    const uint8_t *p, *q;
    uint32_t left_a = tail(a, place, &p), left_b = tail(b, place, &q);
    uint32_t least = left_a < left_b ? left_a : left_b;
    int64_t readable = a->end - p < b->end - q ? a->end - p : b->end - q;
    uint32_t same = shared_bytes_of(p, q, least, readable);
    if (same < least) {
        bool a_first = p[same] < q[same];
        *loser = code_at(a_first ? b : a, place + same);
        return a_first;
    }
    /* The shorter one (or, if both end before this word, the one of fewer zeros) is first. */
    bool a_first = size_of(a) <= size_of(b);
    *loser = code_after_end(a_first ? b : a, place + same);
    return a_first;
}

/* The code of the stream's present key, the one before it in the stream being the key written last. */
static inline uint64_t code_after_last(const tournament *t, const stream *s)
{
    uint32_t word = s->shared / WORD, kept = 8 * (s->shared - word * WORD);
    uint64_t old = t->last[word] & ~(VALUE_MASK >> kept), rest = load_ordered_of(s->bytes, s->rest, s->end - s->bytes);
    uint64_t value = old | rest >> (64 - VALUE_BITS + kept);
    /* The last key goes on with a smaller byte, unless it ended here; then zeros are no difference yet. */
    return value == old ? code_after_end(s, s->shared) : code_of(word, value);
}

static inline void load_lengths(stream *s)
{
    s->shared = length_at(s->run->shared, s->row, s->run->wide);
    s->rest = length_at(s->run->rest, s->row, s->run->wide);
}

/* Play all games below a node; its winner. */
static player play(tournament *t, uint32_t node)
{
    if (node >= t->width) {
        player own = {ENDED, node - t->width};
        stream *s = &t->streams[own.stream];
        if (s->rows) {
            load_lengths(s);
            own.code = code_after_last(t, s);
        }
        return own;
    }
    player a = play(t, 2 * node), b = play(t, 2 * node + 1);
    bool a_wins = a.code < b.code;
    if (a.code == b.code && a.code != ENDED) {
        uint64_t loser;
        a_wins = settle(&t->streams[a.stream], &t->streams[b.stream], a.code, &loser);
        *(a_wins ? &b.code : &a.code) = loser;
    }
    t->codes[node] = a_wins ? b.code : a.code;
    t->losers[node] = a_wins ? b.stream : a.stream;
    return a_wins ? a : b;
}

/* Let a stream that has a new key play against those that wait on its way up; the winner. */
static inline player replay(tournament *t, player up)
{
    for (uint32_t node = (t->width + up.stream) >> 1; node >= 1; node >>= 1) {
        uint64_t code = t->codes[node];
        uint32_t other = t->losers[node];
        if (code == up.code) {
            if (code == ENDED) continue;
            bool stays = settle(&t->streams[up.stream], &t->streams[other], code, &t->codes[node]);
            t->losers[node] = stays ? other : up.stream;
            up.stream = stays ? up.stream : other;
        } else {
            /* Swap if the waiting one is smaller; by masks, because no processor guesses who wins. */
            uint64_t swap = 0 - (uint64_t)(code < up.code), codes = (code ^ up.code) & swap;
            uint32_t streams = (other ^ up.stream) & (uint32_t)swap;
            t->codes[node] = code ^ codes;
            t->losers[node] = other ^ streams;
            up.code ^= codes;
            up.stream ^= streams;
        }
    }
    return up;
}

/* How many bytes a key of this code shares with the key written last. */
static inline uint32_t shared_with_last(const tournament *t, uint64_t code)
{
    uint32_t word = word_of(code), start = word * WORD;
    if (start >= t->last_size) return t->last_size;
    uint64_t differs = (code ^ t->last[word]) & VALUE_MASK;
    uint32_t shared = start + (differs ? ((uint32_t)__builtin_clzll(differs) >> 3) - (8 - WORD) : WORD);
    return shared < t->last_size ? shared : t->last_size;
}

/* Remember the key of this code as the one written last. */
static inline void remember(tournament *t, const stream *s, uint64_t code)
{
    uint32_t size = size_of(s), word = word_of(code), next = (t->last_size + WORD - 1) / WORD;
    if (word == PLACES) {
        word = next; /* the last key and some zeros */
    } else {
        while (next < word) t->last[next++] = 0; /* it differs only after some zeros */
        t->last[word++] = code & VALUE_MASK;
    }
    for (; word * WORD < size; word++) t->last[word] = value_of(s, word);
    t->last_size = size;
}

/* Write the keys, each once, in order. */
static fault write_all(tournament *t, run_writer *w, player winner)
{
    while (winner.code != ENDED) {
        stream *s = &t->streams[winner.stream];
        uint32_t size = size_of(s), shared = shared_with_last(t, winner.code);
        if (shared < s->shared || shared > size) return "not a run: lengths do not fit the keys";
        if (winner.code != t->last_size || size != t->last_size || w->rows == 0) {
            const uint8_t *bytes = s->bytes + (shared - s->shared);
            fault wrong = writer_append(w, shared, bytes, size - shared, s->end - bytes);
            if (wrong) return wrong;
            remember(t, s, winner.code);
        }
        s->map[s->row] = w->rows - 1;
        s->bytes += s->rest;
        s->row++;
        winner.code = ENDED;
        if (s->row < s->rows) {
            load_lengths(s);
            winner.code = code_after_last(t, s);
        }
        winner = replay(t, winner);
    }
    return NULL;
}

fault merge_runs(run_writer *w, const run_view *runs, int count, int64_t *const *maps)
{
    int64_t rows = 0;
    uint32_t width = 1;
    while (width < (uint32_t)count) width *= 2;
    tournament *t = calloc(1, sizeof *t);
    stream *streams = calloc(width, sizeof *streams);
    uint64_t *codes = calloc(width, sizeof *codes);
    uint32_t *losers = calloc(width, sizeof *losers);
    fault wrong = t && streams && codes && losers ? NULL : NO_MEMORY;
    for (int i = 0; !wrong && i < count; i++) {
        const uint8_t *bytes = runs[i].bytes;
        streams[i] = (stream){bytes, bytes + runs[i].rest_bytes, 0, 0, 0, runs[i].rows, &runs[i], maps[i]};
        rows += runs[i].rows;
    }
    if (!wrong) wrong = writer_start(w, rows);
    if (!wrong) {
        t->streams = streams;
        t->codes = codes;
        t->losers = losers;
        t->width = width;
        wrong = write_all(t, w, play(t, 1));
    }
    if (!wrong && w->key_bytes > ALL_BYTES_MAX) wrong = "the merged keys would pass 2**31 - 1 bytes";
    free(t);
    free(streams);
    free(codes);
    free(losers);
    return wrong;
}
