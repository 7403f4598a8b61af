/* Short keys as four words: how the index of a hot table hashes and compares them.
 *
 * Lengths of keys are mixed, so a branch on the length of each costs more than the work it saves. A key of up to
 * NEAR bytes is therefore taken in two windows of 16 bytes, its first and its last (the same one if it has at most
 * 16), and what a window has beyond a shorter key is masked out: the same few instructions for all.
 *
 * A window of a shorter key reads up to 16 bytes from the key's first on, so these must be readable. */
#ifndef ELFMESH_INDEX_HASH_H
#define ELFMESH_INDEX_HASH_H

#include "bytes.h"

#define WINDOW 16u
#define NEAR 32u

/* By length: which bits of a window are the key's, and where its second window begins. */
typedef struct {
    uint64_t low, high;
    uint64_t second;
} shape;

#define BITS_OF(bytes) ((bytes) >= 8 ? ~0ull : (1ull << 8 * ((bytes) & 7)) - 1)
#define SHAPE(n) {BITS_OF(n), (n) > 8 ? BITS_OF((n) - 8) : 0, (n) > 16 ? (n) - 16 : 0}
#define SHAPES(n) SHAPE(n), SHAPE((n) + 1), SHAPE((n) + 2), SHAPE((n) + 3)

static const shape SHAPE_OF[NEAR + 1] = {
    SHAPES(0), SHAPES(4), SHAPES(8), SHAPES(12), SHAPES(16), SHAPES(20), SHAPES(24), SHAPES(28), SHAPE(32),
};

/* What the index of a hot table is keyed by; all of it is secret, so that no operand of a product can be
 * forced to zero from outside. */
typedef struct {
    uint64_t word[4];
} secret;

static inline secret secret_of(uint64_t seed)
{
    secret s;
    for (uint64_t i = 0; i < 4; i++) s.word[i] = mix(seed + (i + 1) * GOLDEN) | 1;
    return s;
}

/* Both halves of the 128-bit product, folded. */
static inline uint64_t fold(uint64_t a, uint64_t b)
{
    __extension__ typedef unsigned __int128 wide;
    wide product = (wide)a * b;
    return (uint64_t)product ^ (uint64_t)(product >> 64);
}

static inline uint32_t finish_hash(uint64_t hash)
{
    hash = (hash ^ (hash >> 32)) * GOLDEN;
    return (uint32_t)(hash ^ (hash >> 32));
}

/* The hash of the index for a key of up to NEAR bytes. It withstands keys chosen without knowing the secret; it is
 * no cryptographic hash. Only where a key lies in the index depends on it, no result does. */
static inline uint32_t hash_near(const uint8_t *key, uint32_t size, const secret *s)
{
    const shape *is = &SHAPE_OF[size];
    const uint8_t *last = key + is->second;
    uint64_t a = load64(key) & is->low, b = load64(key + 8) & is->high;
    uint64_t c = load64(last) & is->low, d = load64(last + 8) & is->high;
    return finish_hash(fold(a ^ s->word[0] ^ size, b ^ s->word[1]) + fold(c ^ s->word[2], d ^ s->word[3]));
}

/* The same for longer keys: 16 bytes per product, one after the other. */
static inline uint32_t hash_far(const uint8_t *key, uint32_t size, const secret *s)
{
    uint64_t hash = s->word[0] ^ size;
    for (uint32_t i = 0; i + WINDOW < size; i += WINDOW)
        hash = fold(load64(key + i) ^ s->word[1], load64(key + i + 8) ^ hash);
    hash = fold(load64(key + size - 16) ^ s->word[2], load64(key + size - 8) ^ hash);
    return finish_hash(hash);
}

/* Whether two strings of one length of up to NEAR bytes are equal. */
static inline int same_near(const uint8_t *a, const uint8_t *b, uint32_t size)
{
    const shape *is = &SHAPE_OF[size];
    uint64_t second = is->second;
    uint64_t low = (load64(a) ^ load64(b)) | (load64(a + second) ^ load64(b + second));
    uint64_t high = (load64(a + 8) ^ load64(b + 8)) | (load64(a + second + 8) ^ load64(b + second + 8));
    return ((low & is->low) | (high & is->high)) == 0;
}

#endif
