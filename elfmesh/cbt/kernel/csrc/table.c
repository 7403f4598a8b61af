/* The hot table: open addressing over an arena of key bytes.
 *
 * The index has 2**s slots of 32 bits. The low s bits of a slot are an id + 1 (0: empty), the others a tag of the
 * key's hash, whose low s bits say where the search begins: so the tag shrinks as ids grow, and any number of
 * ids fits that the key bytes allow. At most two thirds of the slots are taken, neighbours are tried in turn.
 *
 * A batch is worked in blocks, each in a few passes without a branch that is hard to guess: hash all keys and ask
 * for their slots; look at three slots each for the likely row, and ask for its bytes; compare. Rows of later keys are
 * on their way meanwhile, because for a table larger than the caches all time is waiting for memory. What is not
 * where it was looked for, 1 in 100 keys of a hot set, is searched for slot by slot, as are new keys. */
#include "kernel.h"

#include <stdlib.h>

#include "bytes.h"
#include "index_hash.h"

#define SLOTS_MIN 256u
#define BLOCK 512 /* keys worked at a time: what is asked for must still be there when it is needed */
#define APART __attribute__((noinline)) /* kept out of loops that it would take registers from */

struct table {
    uint32_t *slots;   /* mask + 1 of them */
    int32_t *offsets;  /* rows + 1 in use, rows_max + 2 there */
    uint32_t *hashes;  /* rows in use */
    uint8_t *arena;    /* key bytes, offsets[rows] in use */
    uint32_t mask;
    int64_t rows, rows_max, arena_max, key_bytes_max;
    int64_t rows_touched, arena_touched; /* the most there ever was, as of the last time there was less */
    uint64_t probes;
    secret key;
};

table *table_new(uint64_t seed, int64_t key_bytes_max)
{
    table *t = calloc(1, sizeof *t);
    if (!t) return NULL;
    t->slots = calloc(SLOTS_MIN, sizeof *t->slots);
    t->offsets = calloc(2, sizeof *t->offsets);
    if (!t->slots || !t->offsets) {
        table_free(t);
        return NULL;
    }
    t->mask = SLOTS_MIN - 1;
    t->key_bytes_max = key_bytes_max;
    t->key = secret_of(seed);
    return t;
}

void table_free(table *t)
{
    if (!t) return;
    free(t->slots);
    free(t->offsets);
    free(t->hashes);
    free(t->arena);
    free(t);
}

keys_view table_keys(const table *t) { return (keys_view){t->offsets, t->arena, t->rows}; }
int64_t table_key_bytes(const table *t) { return t->offsets[t->rows]; }
uint64_t table_probes(const table *t) { return t->probes; }

/* What was never written has an address and no memory: it is not counted. */
int64_t table_bytes(const table *t)
{
    int64_t rows = t->rows > t->rows_touched ? t->rows : t->rows_touched;
    int64_t arena = t->offsets[t->rows] > t->arena_touched ? t->offsets[t->rows] : t->arena_touched;
    return (int64_t)sizeof *t + ((int64_t)t->mask + 1) * 4 + (rows + 2) * 8 + arena;
}

static void note_touched(table *t)
{
    if (t->rows > t->rows_touched) t->rows_touched = t->rows;
    if (t->offsets[t->rows] > t->arena_touched) t->arena_touched = t->offsets[t->rows];
}

static void wipe_slots(table *t) { memset(t->slots, 0, ((size_t)t->mask + 1) * sizeof *t->slots); }

void table_clear(table *t)
{
    note_touched(t);
    t->rows = 0;
    wipe_slots(t);
}

/* Enter all rows into empty slots; every key is there once, so none has to be compared. */
static void index_rows(table *t)
{
    for (int64_t row = 0; row < t->rows; row++) {
        uint32_t hash = t->hashes[row], place = hash & t->mask;
        while (t->slots[place]) place = (place + 1) & t->mask;
        t->slots[place] = (hash & ~t->mask) | (uint32_t)(row + 1);
    }
}

/* Forget the rows from `rows` on. */
static void truncate_rows(table *t, int64_t rows)
{
    note_touched(t);
    t->rows = rows;
    wipe_slots(t);
    index_rows(t);
}

static bool index_full(const table *t) { return (uint64_t)t->rows * 3 >= ((uint64_t)t->mask + 1) * 2; }

static fault grow_index(table *t)
{
    uint64_t slots = ((uint64_t)t->mask + 1) * 2;
    uint32_t *grown = calloc(slots, sizeof *grown);
    if (!grown) return NO_MEMORY;
    free(t->slots);
    t->slots = grown;
    t->mask = (uint32_t)(slots - 1);
    index_rows(t);
    return NULL;
}

/* A half more than there is, and at least `needed`. */
static int64_t grown_size(int64_t have, int64_t needed)
{
    int64_t more = have + have / 2;
    return more > needed ? more : needed;
}

static fault grow_rows(table *t)
{
    int64_t rows_max = grown_size(t->rows_max, 128);
    int32_t *offsets = realloc(t->offsets, ((size_t)rows_max + 2) * sizeof *offsets);
    if (!offsets) return NO_MEMORY;
    t->offsets = offsets;
    uint32_t *hashes = realloc(t->hashes, (size_t)rows_max * sizeof *hashes);
    if (!hashes) return NO_MEMORY;
    t->hashes = hashes;
    t->rows_max = rows_max;
    return NULL;
}

static fault grow_arena(table *t, int64_t needed)
{
    int64_t arena_max = grown_size(t->arena_max, needed + SLACK + 1024);
    uint8_t *arena = realloc(t->arena, (size_t)arena_max);
    if (!arena) return NO_MEMORY;
    t->arena = arena;
    t->arena_max = arena_max;
    return NULL;
}

/* Append a key that is not there, at the empty slot `place`. */
static fault insert(table *t, const uint8_t *key, uint32_t size, uint32_t hash, uint32_t place)
{
    fault wrong;
    int64_t end = t->offsets[t->rows] + (int64_t)size;
    if (end > t->key_bytes_max) return "the key bytes of a table would pass its limit";
    if (t->rows == t->rows_max && (wrong = grow_rows(t))) return wrong;
    if (end + SLACK > t->arena_max && (wrong = grow_arena(t, end))) return wrong;
    memcpy(t->arena + t->offsets[t->rows], key, size);
    t->hashes[t->rows] = hash;
    t->slots[place] = (hash & ~t->mask) | (uint32_t)(t->rows + 1);
    t->rows++;
    t->offsets[t->rows] = (int32_t)end;
    return index_full(t) ? grow_index(t) : NULL;
}

static inline uint32_t size_at(const int32_t *offsets, int64_t row)
{
    return (uint32_t)(offsets[row + 1] - offsets[row]);
}

/* Search slot by slot; insert a key that is not there. */
static APART fault find(table *t, const uint8_t *key, uint32_t size, uint32_t hash, int64_t *row)
{
    for (uint32_t place = hash & t->mask;; place = (place + 1) & t->mask) {
        uint32_t slot = t->slots[place];
        if (!slot) {
            *row = t->rows;
            return insert(t, key, size, hash, place);
        }
        if (((slot ^ hash) & ~t->mask) == 0) {
            *row = (int64_t)(slot & t->mask) - 1;
            if (size_at(t->offsets, *row) == size && same_bytes(t->arena + t->offsets[*row], key, size)) return NULL;
        }
        t->probes++;
    }
}

static APART uint32_t hash_apart(const uint8_t *key, uint32_t size, const secret *s)
{
    return hash_far(key, size, s);
}

/* One key, of which no byte beyond its own may be read. */
static fault upsert_one(table *t, const uint8_t *key, uint32_t size, int64_t *row)
{
    uint8_t padded[NEAR] = {0};
    if (size > NEAR) return find(t, key, size, hash_far(key, size, &t->key), row);
    if (size) memcpy(padded, key, size);
    return find(t, key, size, hash_near(padded, size, &t->key), row);
}

static void hash_block(const table *t, const int32_t *offsets, const uint8_t *data, int count, uint32_t *hashes)
{
    const secret key = t->key;
    for (int i = 0; i < count; i++) {
        uint32_t size = size_at(offsets, i);
        const uint8_t *bytes = data + offsets[i];
        hashes[i] = size <= NEAR ? hash_near(bytes, size, &key) : hash_apart(bytes, size, &t->key);
        __builtin_prefetch(&t->slots[hashes[i] & t->mask]);
    }
}

/* The row in the slot of each hash or in one of the two behind it, by their tags; the first row if there is none. */
static void guess_rows(table *t, const uint32_t *hashes, int count, uint32_t *rows)
{
    const uint32_t mask = t->mask, *slots = t->slots;
    uint64_t probes = 0;
    for (int i = 0; i < count; i++) {
        uint32_t place = hashes[i] & mask, slot = slots[place];
        uint32_t next = slots[(place + 1) & mask], third = slots[(place + 2) & mask];
        bool other = (slot ^ hashes[i]) & ~mask, another = (next ^ hashes[i]) & ~mask;
        uint32_t id = (other ? another ? third : next : slot) & mask;
        probes += other;
        rows[i] = id - (id != 0);
        __builtin_prefetch(&t->offsets[rows[i]]);
    }
    t->probes += probes;
    for (int i = 0; i < count; i++) {
        const int32_t *at = t->offsets + rows[i];
        __builtin_prefetch(t->arena + at[0]);
        __builtin_prefetch(t->arena + at[1]);
    }
}

/* There must be a row to compare with, and WINDOW readable bytes from the start of each key. */
static fault upsert_block(table *t, const int32_t *offsets, const uint8_t *data, int count, int64_t *ids)
{
    uint32_t hashes[BLOCK], rows[BLOCK];
    hash_block(t, offsets, data, count, hashes);
    guess_rows(t, hashes, count, rows);
    for (int i = 0; i < count; i++) {
        const uint8_t *key = data + offsets[i];
        uint32_t size = size_at(offsets, i);
        ids[i] = rows[i];
        if (size_at(t->offsets, rows[i]) == size) {
            const uint8_t *there = t->arena + t->offsets[rows[i]];
            if (size <= NEAR ? same_near(there, key, size) : same_bytes(there, key, size)) continue;
        }
        fault wrong = find(t, key, size, hashes[i], &ids[i]);
        if (wrong) return wrong;
    }
    return NULL;
}

static fault upsert_all(table *t, const keys_view *keys, int64_t *ids)
{
    const int32_t *offsets = keys->offsets;
    int64_t at = 0, whole = keys->count; /* up to where a window may be read */
    while (whole && offsets[keys->count] - offsets[whole - 1] < (int32_t)WINDOW) whole--;
    fault wrong = NULL;
    while (!wrong && at < keys->count) {
        if (t->rows == 0 || at >= whole) {
            wrong = upsert_one(t, keys->data + offsets[at], size_at(offsets, at), ids + at);
            at++;
        } else {
            int count = whole - at < BLOCK ? (int)(whole - at) : BLOCK;
            wrong = upsert_block(t, offsets + at, keys->data, count, ids + at);
            at += count;
        }
    }
    return wrong;
}

fault table_upsert(table *t, const keys_view *keys, int64_t *ids)
{
    int64_t before = t->rows;
    fault wrong = upsert_all(t, keys, ids);
    if (wrong) truncate_rows(t, before);
    return wrong;
}
