/* Order of keys by (top bits of the placement hash, key bytes).
 *
 * Rows are first scattered by the hash bits, then the entries of each part are sorted by 8 bytes of the keys at a
 * time: those that agree in 8 bytes are sorted by their next 8, until they differ or end. Groups wait on a stack of
 * our own, because keys that share long prefixes would nest thousands deep. Sorting by one chunk is a radix sort by
 * the 32 bits from the first that differs, and where these agree or entries are few or very many, a quicksort without
 * branches on the data, which turns into a heapsort where pivots go wrong too often: no order of keys makes it
 * quadratic. (Of 1,000 keys the quicksort alone took three times as long.) */
#include <stdlib.h>

#include "bytes.h"
#include "kernel.h"

#define INSERTION_MAX 20
#define AHEAD 12
#define PART_AHEAD 40
#define RADIX_MIN 96
#define RADIX_MAX 65536 /* more would not stay in the caches, and take memory */
#define DIGITS 4

typedef struct {
    uint64_t chunk; /* the 8 bytes at the present depth */
    uint32_t row;
    uint32_t size; /* of the whole key */
} entry;

typedef struct {
    int64_t start, count;
    uint32_t depth; /* bytes in which all entries agree */
} group;

typedef struct {
    group *groups;
    int64_t count, max;
} stack;

/* The entries of one part. Room to sort up to `rows` of them by their digits: twice the digits with the places of the
 * entries, the entries. One part at a time, because what is freed goes back to the system: entries of all keys would
 * be half of all memory that a push down asks for again. */
typedef struct {
    entry *part;
    uint64_t *digits, *other;
    entry *entries;
    int64_t rows;
} scratch;

static void insertion_sort(entry *e, int64_t n)
{
    for (int64_t i = 1; i < n; i++) {
        entry moved = e[i];
        int64_t j = i;
        for (; j > 0 && e[j - 1].chunk > moved.chunk; j--) e[j] = e[j - 1];
        e[j] = moved;
    }
}

static void sift_down(entry *e, int64_t root, int64_t n)
{
    entry moved = e[root];
    for (int64_t child; (child = 2 * root + 1) < n; root = child) {
        if (child + 1 < n && e[child + 1].chunk > e[child].chunk) child++;
        if (e[child].chunk <= moved.chunk) break;
        e[root] = e[child];
    }
    e[root] = moved;
}

static void heap_sort(entry *e, int64_t n)
{
    for (int64_t i = n / 2 - 1; i >= 0; i--) sift_down(e, i, n);
    for (int64_t last = n - 1; last > 0; last--) {
        entry top = e[0];
        e[0] = e[last];
        e[last] = top;
        sift_down(e, 0, last);
    }
}

static uint64_t median(uint64_t a, uint64_t b, uint64_t c)
{
    if (a > b) { uint64_t t = a; a = b; b = t; }
    return c < a ? a : c > b ? b : c;
}

static uint64_t pivot_of(const entry *e, int64_t n)
{
    int64_t s = n / 8;
    if (n < 128) return median(e[0].chunk, e[n / 2].chunk, e[n - 1].chunk);
    return median(median(e[0].chunk, e[s].chunk, e[2 * s].chunk),
                  median(e[3 * s].chunk, e[4 * s].chunk, e[5 * s].chunk),
                  median(e[6 * s].chunk, e[7 * s].chunk, e[n - 1].chunk));
}

/* Entries below `bound` (or equal to it, if `equal`) to the front; how many they are. */
static int64_t partition(entry *e, int64_t n, uint64_t bound, bool equal)
{
    int64_t front = 0;
    for (int64_t i = 0; i < n; i++) {
        entry moved = e[i];
        e[i] = e[front];
        e[front] = moved;
        front += moved.chunk < bound || (equal && moved.chunk == bound);
    }
    return front;
}

static void sort_chunks(entry *e, int64_t n, int pivots_left)
{
    while (n > INSERTION_MAX) {
        if (pivots_left-- == 0) {
            heap_sort(e, n);
            return;
        }
        uint64_t pivot = pivot_of(e, n);
        int64_t below = partition(e, n, pivot, false);
        /* Few below: perhaps there are many equal to the pivot, which are done once they stand together. */
        int64_t equal = below < n / 8 ? partition(e + below, n - below, pivot, true) : 0;
        sort_chunks(e, below, pivots_left);
        e += below + equal;
        n -= below + equal;
    }
    insertion_sort(e, n);
}

static void quick_sort(entry *e, int64_t n)
{
    int pivots = 4;
    for (int64_t left = n; left > 1; left /= 2) pivots += 2;
    sort_chunks(e, n, pivots);
}

/* Order digits (the upper half of each number) and bring along the places (the lower half), byte by byte. */
static uint64_t *sort_digits(uint64_t *from, uint64_t *to, int64_t n)
{
    uint32_t counts[DIGITS][256] = {{0}};
    for (int64_t i = 0; i < n; i++)
        for (int digit = 0; digit < DIGITS; digit++) counts[digit][from[i] >> (32 + 8 * digit) & 255]++;
    for (int digit = 0; digit < DIGITS; digit++) {
        uint32_t *next = counts[digit], start = 0;
        unsigned shift = 32 + 8 * (unsigned)digit;
        if (next[from[0] >> shift & 255] == n) continue;
        for (int value = 0; value < 256; value++) {
            uint32_t count = next[value];
            next[value] = start;
            start += count;
        }
        for (int64_t i = 0; i < n; i++) to[next[from[i] >> shift & 255]++] = from[i];
        uint64_t *sorted = to;
        to = from;
        from = sorted;
    }
    return from;
}

static void sort_entries(entry *e, int64_t n, const scratch *room)
{
    uint64_t differs = 0;
    for (int64_t i = 0; i < n; i++) differs |= e[i].chunk ^ e[0].chunk;
    if (!differs) return;
    if (n < RADIX_MIN || n > room->rows) {
        quick_sort(e, n);
        return;
    }
    int lead = __builtin_clzll(differs);
    for (int64_t i = 0; i < n; i++) room->digits[i] = (e[i].chunk << lead >> 32 << 32) | (uint64_t)i;
    const uint64_t *sorted = sort_digits(room->digits, room->other, n);
    memcpy(room->entries, e, (size_t)n * sizeof *e);
    for (int64_t i = 0; i < n; i++) e[i] = room->entries[(uint32_t)sorted[i]];
    for (int64_t i = 0, next; i < n; i = next) {
        for (next = i + 1; next < n && sorted[next] >> 32 == sorted[i] >> 32;) next++;
        if (next - i > 1) quick_sort(e + i, next - i);
    }
}

static fault push(stack *s, group g)
{
    if (s->count == s->max) {
        int64_t max = s->max ? 2 * s->max : 64;
        group *groups = realloc(s->groups, (size_t)max * sizeof *groups);
        if (!groups) return NO_MEMORY;
        s->groups = groups;
        s->max = max;
    }
    s->groups[s->count++] = g;
    return NULL;
}

/* Read the chunks at `depth`, past the end of some keys; whether all are equal. */
static bool load_chunks(entry *e, int64_t n, uint32_t depth, const keys_view *keys)
{
    uint64_t differs = 0;
    int64_t end = keys->offsets[keys->count];
    for (int64_t i = 0; i < n; i++) {
        if (i + AHEAD < n) __builtin_prefetch(&keys->offsets[e[i + AHEAD].row]);
        if (i + AHEAD / 2 < n) __builtin_prefetch(keys->data + keys->offsets[e[i + AHEAD / 2].row] + depth);
        int64_t at = (int64_t)keys->offsets[e[i].row] + depth;
        e[i].chunk = load_ordered_of(keys->data + at, e[i].size - depth, end - at);
        differs |= e[i].chunk ^ e[0].chunk;
    }
    return differs == 0;
}

/* Entries with equal chunks: keys that end within the chunk come first, by length; the number of them. */
static int64_t settle_ended(entry *e, int64_t n, uint32_t depth, const scratch *room)
{
    int64_t ended = 0;
    for (int64_t i = 0; i < n; i++) {
        if (e[i].size > depth + 8) continue;
        entry moved = e[i];
        e[i] = e[ended];
        e[ended++] = moved;
    }
    for (int64_t i = 0; i < ended; i++) e[i].chunk = e[i].size;
    if (ended > 1) sort_entries(e, ended, room);
    return ended;
}

/* Sort one part, whose chunks at depth 0 are loaded. */
static fault sort_part(entry *e, int64_t n, const keys_view *keys, stack *waiting, const scratch *room)
{
    fault wrong = push(waiting, (group){0, n, 0});
    while (!wrong && waiting->count) {
        group g = waiting->groups[--waiting->count];
        entry *own = e + g.start;
        bool equal = g.depth > 0 && load_chunks(own, g.count, g.depth, keys);
        if (!equal) sort_entries(own, g.count, room);
        for (int64_t i = 0, next; !wrong && i < g.count; i = next) {
            uint64_t chunk = own[i].chunk;
            for (next = i + 1; next < g.count && own[next].chunk == chunk;) next++;
            if (next - i < 2) continue;
            int64_t ended = settle_ended(own + i, next - i, g.depth, room);
            if (next - i - ended > 1)
                wrong = push(waiting, (group){g.start + i + ended, next - i - ended, g.depth + 8});
        }
    }
    return wrong;
}

/* The entries of some rows, which ascend. */
static void load_part(entry *e, const int64_t *rows, int64_t n, const keys_view *keys)
{
    int64_t end = keys->offsets[keys->count];
    for (int64_t i = 0; i < n; i++) {
        if (i + PART_AHEAD < n) __builtin_prefetch(&keys->offsets[rows[i + PART_AHEAD]]);
        if (i + PART_AHEAD / 2 < n) __builtin_prefetch(keys->data + keys->offsets[rows[i + PART_AHEAD / 2]]);
        const int32_t *at = keys->offsets + rows[i];
        uint32_t size = (uint32_t)(at[1] - at[0]);
        e[i] = (entry){load_ordered_of(keys->data + at[0], size, end - at[0]), (uint32_t)rows[i], size};
    }
}

/* Room for the largest part, and to sort it by its digits. */
static fault make_room(scratch *room, const int64_t *cuts, int64_t parts)
{
    int64_t largest = 0;
    for (int64_t p = 0; p < parts; p++)
        if (cuts[p + 1] - cuts[p] > largest) largest = cuts[p + 1] - cuts[p];
    room->rows = largest < RADIX_MAX ? largest : RADIX_MAX;
    room->part = malloc((size_t)largest * sizeof *room->part + 1);
    room->digits = malloc((size_t)room->rows * 2 * sizeof *room->digits + 1);
    room->entries = malloc((size_t)room->rows * sizeof *room->entries + 1);
    room->other = room->digits + room->rows;
    return room->part && room->digits && room->entries ? NULL : NO_MEMORY;
}

fault sort_keys(const keys_view *keys, unsigned bits, int64_t *order, int64_t *cuts)
{
    stack waiting = {NULL, 0, 0};
    scratch room = {NULL, NULL, NULL, NULL, 0};
    int64_t parts = (int64_t)1 << bits;
    fault wrong = place_rows(keys, 0, bits, order, cuts);
    if (!wrong) wrong = make_room(&room, cuts, parts);
    for (int64_t p = 0; !wrong && p < parts; p++) {
        int64_t *rows = order + cuts[p], n = cuts[p + 1] - cuts[p];
        load_part(room.part, rows, n, keys);
        wrong = sort_part(room.part, n, keys, &waiting, &room);
        for (int64_t i = 0; !wrong && i < n; i++) rows[i] = room.part[i].row;
    }
    free(waiting.groups);
    free(room.part);
    free(room.digits);
    free(room.entries);
    return wrong;
}
