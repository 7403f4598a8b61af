/* Bytes as machine words: loads, comparison, copying, hashing. Nothing here reads outside [p, p + n).
 *
 * Little-endian machines only, which the module checks when it is imported. */
#ifndef ELFMESH_BYTES_H
#define ELFMESH_BYTES_H

#include <stdint.h>
#include <string.h>

#define GOLDEN 0x9E3779B97F4A7C15ull
#define SLACK 16 /* bytes past the end of our own buffers that a short copy may write over */

static inline uint16_t load16(const uint8_t *p) { uint16_t x; memcpy(&x, p, 2); return x; }
static inline uint32_t load32(const uint8_t *p) { uint32_t x; memcpy(&x, p, 4); return x; }
static inline uint64_t load64(const uint8_t *p) { uint64_t x; memcpy(&x, p, 8); return x; }
static inline void store64(uint8_t *p, uint64_t x) { memcpy(p, &x, 8); }

/* The first n < 8 bytes as a zero-padded little-endian word. */
static inline uint64_t load_short(const uint8_t *p, uint32_t n)
{
    if (n >= 4) return load32(p) | (uint64_t)load32(p + n - 4) << (8 * (n - 4));
    if (n >= 2) return load16(p) | (uint64_t)load16(p + n - 2) << (8 * (n - 2));
    return n ? *p : 0;
}

/* The first 8 bytes (of n, zero-padded) as a number that compares as the bytes do. */
static inline uint64_t load_ordered(const uint8_t *p, uint32_t n)
{
    return __builtin_bswap64(n >= 8 ? load64(p) : load_short(p, n));
}

/* The same without a branch on the length, which of short keys is guessed wrong a third of the time; `readable` bytes
 * may be read from p, at least n. */
static inline uint64_t load_ordered_of(const uint8_t *p, uint32_t n, int64_t readable)
{
    if (readable < 8) return load_ordered(p, n);
    uint64_t beyond = n >= 8 ? 0 : ~0ull >> (8 * (n & 7));
    return __builtin_bswap64(load64(p)) & ~beyond;
}

/* Whether two strings of one length are equal. */
static inline int same_bytes(const uint8_t *a, const uint8_t *b, uint32_t n)
{
    if (n < 8) return load_short(a, n) == load_short(b, n);
    for (uint32_t i = 0; i + 8 <= n; i += 8)
        if (load64(a + i) != load64(b + i)) return 0;
    return load64(a + n - 8) == load64(b + n - 8);
}

/* How many leading bytes are equal, at most n. */
static inline uint32_t shared_bytes(const uint8_t *a, const uint8_t *b, uint32_t n)
{
    uint32_t i = 0;
    for (; i + 8 <= n; i += 8) {
        uint64_t differs = load64(a + i) ^ load64(b + i);
        if (differs) return i + (uint32_t)(__builtin_ctzll(differs) >> 3);
    }
    while (i < n && a[i] == b[i]) i++;
    return i;
}

/* The same, where `readable` bytes may be read from each, at least n. */
static inline uint32_t shared_bytes_of(const uint8_t *a, const uint8_t *b, uint32_t n, int64_t readable)
{
    for (uint32_t i = 0; i < n; i += 8) {
        if (readable - i < 8) return i + shared_bytes(a + i, b + i, n - i);
        uint64_t differs = load64(a + i) ^ load64(b + i);
        if (differs) {
            uint32_t same = i + (uint32_t)(__builtin_ctzll(differs) >> 3);
            return same < n ? same : n;
        }
    }
    return n;
}

/* Copy n bytes, most often few; `from` has `readable` >= n bytes, `to` has SLACK bytes more than n, and both may
 * be neighbours in one buffer: 16 bytes at a time go through registers, so that what is copied beyond n may
 * overlap. */
static inline void copy_bytes(uint8_t *to, const uint8_t *from, uint32_t n, int64_t readable)
{
    if (n > 64 || readable < 64) {
        if (n) memcpy(to, from, n);
        return;
    }
    uint32_t i = 0;
    do {
        uint64_t low = load64(from + i), high = load64(from + i + 8);
        store64(to + i, low);
        store64(to + i + 8, high);
        i += 16;
    } while (i < n);
}

/* The finaliser of splitmix64: every input bit reaches every output bit. */
static inline uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ull;
    x = (x ^ (x >> 27)) * 0x94D049BB133111EBull;
    return x ^ (x >> 31);
}

/* The placement hash: a part of the wire format, the same on every machine and in the numpy twin. Of the key `readable`
 * bytes may be read, at least `size`. */
static inline uint64_t place_hash(const uint8_t *key, uint32_t size, int64_t readable)
{
    uint64_t hash = mix((uint64_t)size + GOLDEN);
    uint32_t i = 0;
    for (; i + 8 <= size; i += 8) hash = mix((hash * GOLDEN) ^ load64(key + i));
    if (i < size) {
        uint32_t left = size - i;
        uint64_t word = readable - i < 8 ? load_short(key + i, left) : load64(key + i) & (~0ull >> (64 - 8 * left));
        hash = mix((hash * GOLDEN) ^ word);
    }
    return mix(hash ^ (hash >> 32));
}

#endif
