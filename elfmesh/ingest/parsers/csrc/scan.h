/* What the parts of the scanner share. Plain C11, no Python: only module.c knows the interpreter.
 *
 * A block is a buffer of whole lines in valid UTF-8. A scan turns each field of each line into a cell: a kind
 * (one byte) and 64 bits whose meaning the kind says. Cells are copied into Arrow columns only when somebody
 * asks for the column. A line the scanner does not vouch for is refused; the caller then asks the slow path.
 */
#ifndef ELFMESH_SCAN_H
#define ELFMESH_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum cell_kind {
    CELL_NULL = 0,
    CELL_BOOL = 1,    /* 0 or 1 */
    CELL_INT = 2,     /* int64 */
    CELL_FLOAT = 3,   /* the bits of a double */
    CELL_TEXT = 4,    /* start << 32 | length, in the block or, from its size on, in the side buffer */
    CELL_ESCAPED = 5, /* the same, with JSON escapes that were checked */
    CELL_OTHER = 6,   /* a number that only the caller knows the meaning of */
};

typedef struct {
    const uint8_t *data;
    size_t size;
} Bytes;

/* The text a cell points at: the block, and behind it what the slow path added. */
typedef struct {
    Bytes block, side;
} Texts;

static inline uint64_t cell_of_span(size_t start, size_t length) {
    return (uint64_t)start << 32 | (uint64_t)length;
}

/* Where a text cell's bytes are; a cell that points outside of both buffers is empty. */
static inline Bytes text_of_cell(const Texts *texts, uint64_t cell) {
    size_t start = (size_t)(cell >> 32), length = (size_t)(cell & UINT32_MAX);
    Bytes from = texts->block;
    if (start >= from.size) {
        start -= from.size;
        from = texts->side;
    }
    if (start > from.size || length > from.size - start) {
        return (Bytes){from.data, 0};
    }
    return (Bytes){from.data + start, length};
}

/* lines.c */
bool utf8_is_valid(Bytes text);
size_t count_newlines(Bytes block);
size_t split_lines(Bytes block, int64_t *starts, int64_t *ends, size_t room);

/* number.c: reads a JSON number at `p`; the place behind it, or NULL if it is none or not surely the double or
 * int64 that the slow path would make of it. */
const uint8_t *read_number(const uint8_t *p, const uint8_t *end, enum cell_kind *kind, uint64_t *cell);
const uint8_t *skip_number(const uint8_t *p, const uint8_t *end);
bool numbers_ready(void);

/* json.c: each returns the place behind what it read, or NULL if that is no JSON or nested too deeply.
 * `limit` is the end of readable memory, at or behind `end`. */
typedef struct {
    const uint8_t *end, *limit;
} Line;

enum { DEPTH_MAX = 64 };

const uint8_t *skip_string(const uint8_t *p, const Line *line, bool *escaped);
const uint8_t *skip_value(const uint8_t *p, const Line *line, int depth);
size_t unescape(Bytes text, uint8_t *out);

/* plan.c */
typedef struct Plan Plan;

/* NULL when the description is not sound or memory ran out. */
Plan *plan_new(Bytes description);
void plan_free(Plan *plan);
size_t plan_slots(const Plan *plan);

typedef struct {
    const int64_t *starts, *ends;
    size_t count;
} Lines;

/* Cells of `slots` fields, field by field: field f of line l is at [f * lines + l]. */
typedef struct {
    uint8_t *kinds;
    uint64_t *cells;
    size_t slots, lines;
} Grid;

static inline void clear_row(const Grid *grid, size_t row) {
    for (size_t slot = 0; slot < grid->slots; slot++) {
        grid->kinds[slot * grid->lines + row] = CELL_NULL;
    }
}

/* Rows that are left to the caller, ascending, up to `capacity`. */
typedef struct {
    int64_t *rows;
    size_t count, capacity;
} Refused;

/* Leave a row to the caller. False when that is one too many, which ends the scan. */
static inline bool refuse_row(Refused *refused, const Grid *grid, size_t row) {
    clear_row(grid, row);
    if (refused->count < refused->capacity) {
        refused->rows[refused->count] = (int64_t)row;
    }
    return ++refused->count <= refused->capacity;
}

/* project.c and logfmt.c: the lines of a format, by a plan. False if memory ran out.
 * A bare key of logfmt has the text of four bytes that the caller puts behind the block. */
typedef bool plan_scan(const Plan *plan, Bytes block, Lines lines, Grid grid, Refused *refused);
plan_scan project_lines, logfmt_lines;

/* access.c */
enum access_field {
    FIELD_HOST, FIELD_IDENT, FIELD_USER, FIELD_TS, FIELD_METHOD, FIELD_PATH, FIELD_PROTOCOL, FIELD_STATUS,
    FIELD_BYTES, FIELD_REFERER, FIELD_AGENT, FIELD_REQUEST, ACCESS_FIELDS
};

size_t access_lines(bool combined, Bytes block, Lines lines, const uint8_t *wanted, Grid grid, int64_t *refused);

/* times.c: fills `times` and sets each kind to CELL_INT (read), CELL_NULL (certainly no time) or CELL_OTHER
 * (the slow path must look). Returns how many the slow path must look at. */
size_t read_times(const Texts *texts, const uint8_t *kinds, const uint64_t *cells, size_t count, int64_t *times,
                  uint8_t *outcome);

/* cells.c */
unsigned kinds_present(const uint8_t *kinds, size_t count);
size_t valid_bits(const uint8_t *kinds, size_t count, uint8_t *bits);
bool text_offsets(const Texts *texts, const uint8_t *kinds, const uint64_t *cells, size_t count, int32_t *offsets,
                  size_t *total);
bool text_copy(const Texts *texts, const uint8_t *kinds, const uint64_t *cells, size_t count, int32_t *offsets,
               uint8_t *out, size_t room, size_t *used);
void floats_of(const uint8_t *kinds, const uint64_t *cells, size_t count, double *out);
void ints_of(const uint8_t *kinds, const uint64_t *cells, size_t count, int64_t *out);
void bools_of(const uint8_t *kinds, const uint64_t *cells, size_t count, uint8_t *bits);

#endif
