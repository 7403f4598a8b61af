/* The hot table: open addressing over an arena of key bytes.
 *
 * The index has 2**s slots of 32 bits. The low s bits of a slot are an id + 1 (0: empty), the others a tag of the
 * key's hash, whose low s bits say where the search begins: so the tag shrinks as ids grow, and any number of
 * ids fits that the key bytes allow. At most two thirds of the slots are taken, neighbours are tried in turn.
 *
 * A batch is worked in a pipeline, because for a table larger than the caches all time is waiting for memory:
 * slots, offsets and key bytes of later keys are on their way while the present one is compared. */
#include "kernel.h"

#include <stdlib.h>

#include "bytes.h"

#define SLOTS_MIN 256u
#define BLOCK 1024           /* keys hashed at a time */
#define AHEAD_SLOT 24        /* keys ahead of the present one whose slot is fetched */
#define AHEAD_OFFSET 14      /* ... whose offset is fetched: its slot has arrived */
#define AHEAD_KEY 6          /* ... whose bytes are fetched: its offset has arrived */

struct table {
    uint32_t *slots;   /* mask + 1 of them */
    int32_t *offsets;  /* rows + 1 in use, rows_max + 1 there */
    uint32_t *hashes;  /* rows in use */
    uint8_t *arena;    /* key bytes, offsets[rows] in use */
    uint32_t mask;
    int64_t rows, rows_max, arena_max, key_bytes_max;
    uint64_t probes;
    secret key;
};

table *table_new(uint64_t seed, int64_t key_bytes_max)
{
    table *t = calloc(1, sizeof *t);
    if (!t) return NULL;
    t->slots = calloc(SLOTS_MIN, sizeof *t->slots);
    t->offsets = calloc(1, sizeof *t->offsets);
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

int64_t table_bytes(const table *t)
{
    return (int64_t)sizeof *t + ((int64_t)t->mask + 1) * 4 + (t->rows_max + 1) * 4 + t->rows_max * 4 + t->arena_max;
}

static void wipe_slots(table *t) { memset(t->slots, 0, ((size_t)t->mask + 1) * sizeof *t->slots); }

void table_clear(table *t)
{
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
    int32_t *offsets = realloc(t->offsets, ((size_t)rows_max + 1) * sizeof *offsets);
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

static inline void fetch_slot(const table *t, uint32_t hash) { __builtin_prefetch(&t->slots[hash & t->mask]); }

static inline void fetch_offset(const table *t, uint32_t hash)
{
    uint32_t id = t->slots[hash & t->mask] & t->mask;
    if (id) __builtin_prefetch(&t->offsets[id - 1]);
}

static inline void fetch_key(const table *t, uint32_t hash)
{
    uint32_t id = t->slots[hash & t->mask] & t->mask;
    if (id) __builtin_prefetch(t->arena + t->offsets[id - 1]);
}

static fault upsert_block(table *t, const int32_t *offsets, const uint8_t *data, int count, int64_t *ids)
{
    uint32_t hashes[BLOCK + AHEAD_SLOT];
    uint64_t probes = 0;
    for (int i = 0; i < count; i++)
        hashes[i] = index_hash(data + offsets[i], (uint32_t)(offsets[i + 1] - offsets[i]), &t->key);
    for (int i = count; i < count + AHEAD_SLOT; i++) hashes[i] = hashes[count - 1];
    for (int i = 0; i < AHEAD_SLOT; i++) fetch_slot(t, hashes[i]);
    for (int i = 0; i < AHEAD_OFFSET; i++) fetch_offset(t, hashes[i]);
    for (int i = 0; i < count; i++) {
        fetch_slot(t, hashes[i + AHEAD_SLOT]);
        fetch_offset(t, hashes[i + AHEAD_OFFSET]);
        fetch_key(t, hashes[i + AHEAD_KEY]);
        const uint8_t *key = data + offsets[i];
        uint32_t size = (uint32_t)(offsets[i + 1] - offsets[i]), hash = hashes[i];
        for (uint32_t place = hash & t->mask;; place = (place + 1) & t->mask) {
            uint32_t slot = t->slots[place];
            if (!slot) {
                ids[i] = t->rows;
                fault wrong = insert(t, key, size, hash, place);
                if (wrong) return wrong;
                break;
            }
            if (((slot ^ hash) & ~t->mask) == 0) {
                uint32_t id = (slot & t->mask) - 1;
                const int32_t *at = t->offsets + id;
                if ((uint32_t)(at[1] - at[0]) == size && same_bytes(t->arena + at[0], key, size)) {
                    ids[i] = id;
                    break;
                }
            }
            probes++;
        }
    }
    t->probes += probes;
    return NULL;
}

fault table_upsert(table *t, const keys_view *keys, int64_t *ids)
{
    int64_t before = t->rows;
    for (int64_t at = 0; at < keys->count; at += BLOCK) {
        int count = keys->count - at < BLOCK ? (int)(keys->count - at) : BLOCK;
        fault wrong = upsert_block(t, keys->offsets + at, keys->data, count, ids + at);
        if (wrong) {
            truncate_rows(t, before);
            return wrong;
        }
    }
    return NULL;
}
