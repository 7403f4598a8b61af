/* Bytes of few values that are about as frequent as each other, in as many bits as it takes to tell them apart: such
 * keys as random letters, hexadecimal or base 64 gain next to nothing from an entropy coder, which takes ten times as
 * long.
 *
 * A run is three sections: what keys share, their rests' lengths, their text. The values of a section lie in up to four
 * ranges; a code is a value less the gaps below it, so both ways are comparisons and additions that a loop does for
 * many bytes at once. Eight codes of w bits take w bytes, the first code in the lowest bits.
 *
 *     size of the text u32 | per section: bits u8 | least value u8 | 3 * (code that a range begins with u8, gap u8)
 *     | per section: the codes */
#include <math.h>

#include "bytes.h"
#include "kernel.h"
#include "widest.h"

#define SECTIONS 3
#define RANGES 4
#define BITS_MAX 7
#define BLOCK 512
#define SAMPLES 1024
#define SECTION_HEAD (2 + 2 * (RANGES - 1))
#define HEAD (4 + SECTIONS * SECTION_HEAD)

typedef struct {
    int bits;
    uint8_t least, most; /* the least value, the last code */
    uint8_t begins[RANGES - 1], gaps[RANGES - 1]; /* codes from which a gap is below; unused ones have none */
} bit_code;

/* The codes of a block, and whether they are those of its values. */
WIDEST static bool encode_block(const bit_code *code, const uint8_t *values, uint8_t *codes)
{
    const bit_code c = *code;
    uint8_t wrong = 0;
    for (int i = 0; i < BLOCK; i++) {
        uint8_t own = (uint8_t)(values[i] - c.least);
        for (int r = 0; r < RANGES - 1; r++)
            own = (uint8_t)(own - (own >= (uint8_t)(c.begins[r] + c.gaps[r]) ? c.gaps[r] : 0));
        uint8_t back = (uint8_t)(own + c.least);
        for (int r = 0; r < RANGES - 1; r++) back = (uint8_t)(back + (own >= c.begins[r] ? c.gaps[r] : 0));
        wrong |= (uint8_t)((back ^ values[i]) | (own > c.most));
        codes[i] = own;
    }
    return !wrong;
}

WIDEST static void decode_block(const bit_code *code, const uint8_t *codes, uint8_t *values)
{
    const bit_code c = *code;
    for (int i = 0; i < BLOCK; i++) {
        uint8_t value = (uint8_t)(codes[i] + c.least);
        for (int r = 0; r < RANGES - 1; r++) value = (uint8_t)(value + (codes[i] >= c.begins[r] ? c.gaps[r] : 0));
        values[i] = value;
    }
}

/* Eight codes close together: two, four, eight of them. */
static inline uint64_t close_up(uint64_t x, int bits)
{
    x = (x & 0x00FF00FF00FF00FFull) | (x >> 8 & 0x00FF00FF00FF00FFull) << bits;
    x = (x & 0x0000FFFF0000FFFFull) | (x >> 16 & 0x0000FFFF0000FFFFull) << 2 * bits;
    return (x & 0xFFFFFFFFull) | x >> 32 << 4 * bits;
}

static inline uint64_t spread_out(uint64_t x, int bits)
{
    uint64_t two = 0x0001000100010001ull * ((1ull << bits) - 1);
    uint64_t four = 0x0000000100000001ull * ((1ull << 2 * bits) - 1), eight = (1ull << 4 * bits) - 1;
    x = (x & eight) | (x >> 4 * bits & eight) << 32;
    x = (x & four) | (x >> 2 * bits & four) << 16;
    return (x & two) | (x >> bits & two) << 8;
}

static inline int64_t coded_bytes(int64_t count, int bits) { return (count + 7) / 8 * bits; }

/* The code of a section by some of its values, all if `step` is 1; adds to the bits that it would take with and without
 * an entropy coder. False: too many values, or too far apart. */
static bool find_code(const uint8_t *values, int64_t count, int64_t step, bit_code *code, double *least, double *plain)
{
    uint32_t seen[256] = {0};
    int64_t samples = 0, distinct = 0, ranges = 0;
    for (int64_t i = 0; i < count; i += step, samples++) seen[values[i]]++;
    *code = (bit_code){count > 0, 0, 0, {255, 255, 255}, {0, 0, 0}};
    double entropy = 0;
    for (int value = 0, before = -1; value < 256; value++) {
        if (!seen[value]) continue;
        entropy += seen[value] * log2((double)samples / seen[value]);
        if (before < 0) code->least = (uint8_t)value;
        else if (value > before + 1) {
            if (ranges == RANGES - 1) return false;
            code->begins[ranges] = (uint8_t)distinct;
            code->gaps[ranges++] = (uint8_t)(value - before - 1);
        }
        before = value;
        code->most = (uint8_t)distinct++;
    }
    while (distinct > (int64_t)1 << code->bits) code->bits++;
    if (samples) *least += entropy * ((double)count / (double)samples);
    *plain += (double)count * code->bits;
    return code->bits <= BITS_MAX;
}

/* Writes 7 bytes more than the codes take. */
static bool write_section(const bit_code *code, const uint8_t *values, int64_t count, uint8_t *out)
{
    uint8_t some[BLOCK], codes[BLOCK];
    for (int64_t start = 0; start < count; start += BLOCK) {
        int64_t left = count - start < BLOCK ? count - start : BLOCK;
        const uint8_t *from = values + start;
        if (left < BLOCK) {
            memset(some, code->least, BLOCK);
            memcpy(some, from, (size_t)left);
            from = some;
        }
        if (!encode_block(code, from, codes)) return false;
        for (int64_t i = 0; i < left; i += 8, out += code->bits) store64(out, close_up(load64(codes + i), code->bits));
    }
    return true;
}

static void read_section(const bit_code *code, const uint8_t *in, const uint8_t *end, int64_t count, uint8_t *values)
{
    uint8_t some[BLOCK], codes[BLOCK];
    memset(codes, 0, sizeof codes);
    for (int64_t start = 0; start < count; start += BLOCK) {
        int64_t left = count - start < BLOCK ? count - start : BLOCK;
        for (int64_t i = 0; i < left; i += 8, in += code->bits) {
            uint64_t x = end - in >= 8 ? load64(in) : load_short(in, (uint32_t)(end - in));
            store64(codes + i, spread_out(x, code->bits));
        }
        decode_block(code, codes, left < BLOCK ? some : values + start);
        if (left < BLOCK) memcpy(values + start, some, (size_t)left);
    }
}

int64_t bits_room(int64_t bytes) { return HEAD + bytes + 8 * (SECTIONS + 1); }

int64_t pack_bits(const uint8_t *run, int64_t rows, int64_t bytes, uint8_t *out)
{
    const int64_t sizes[SECTIONS] = {rows, rows, bytes - 2 * rows};
    if (bytes > UINT32_MAX) return 0;
    for (int exact = 0; exact < 2; exact++) {
        bit_code codes[SECTIONS];
        double least = 0, plain = 0;
        bool done = true;
        uint8_t *head = out + 4, *to = out + HEAD;
        const uint8_t *from = run;
        for (int s = 0; done && s < SECTIONS; from += sizes[s++])
            done = find_code(from, sizes[s], exact ? 1 : sizes[s] / SAMPLES + 1, &codes[s], &least, &plain);
        if (!done || plain > least * 1.125) return 0;
        from = run;
        for (int s = 0; done && s < SECTIONS; from += sizes[s++]) {
            head[0] = (uint8_t)codes[s].bits;
            head[1] = codes[s].least;
            memcpy(head + 2, codes[s].begins, RANGES - 1);
            memcpy(head + 1 + RANGES, codes[s].gaps, RANGES - 1);
            head += SECTION_HEAD;
            done = write_section(&codes[s], from, sizes[s], to);
            to += coded_bytes(sizes[s], codes[s].bits);
        }
        uint32_t text = (uint32_t)sizes[SECTIONS - 1];
        memcpy(out, &text, sizeof text);
        if (done) return to - out;
        /* A value that the samples do not have: look at all. */
    }
    return 0;
}

int64_t packed_bytes(const uint8_t *packed, int64_t bytes, int64_t rows)
{
    if (bytes < HEAD || rows < 0 || rows > INT32_MAX) return -1;
    const int64_t sizes[SECTIONS] = {rows, rows, load32(packed)};
    int64_t needed = HEAD;
    for (int s = 0; s < SECTIONS; s++) {
        int bits = packed[4 + s * SECTION_HEAD];
        if (bits > BITS_MAX || (bits == 0 && sizes[s])) return -1;
        needed += coded_bytes(sizes[s], bits);
    }
    return needed == bytes ? 2 * rows + sizes[SECTIONS - 1] : -1;
}

void unpack_bits(const uint8_t *packed, int64_t bytes, int64_t rows, uint8_t *run)
{
    const int64_t sizes[SECTIONS] = {rows, rows, load32(packed)};
    const uint8_t *head = packed + 4, *from = packed + HEAD;
    for (int s = 0; s < SECTIONS; s++, head += SECTION_HEAD) {
        bit_code code = {head[0], head[1], 0, {0}, {0}};
        memcpy(code.begins, head + 2, RANGES - 1);
        memcpy(code.gaps, head + 1 + RANGES, RANGES - 1);
        read_section(&code, from, packed + bytes, sizes[s], run);
        from += coded_bytes(sizes[s], code.bits);
        run += sizes[s];
    }
}
