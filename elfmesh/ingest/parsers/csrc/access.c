/* Lines of web servers' access logs whose every field stands where an undisputed line has it.
 *
 *     host ident user [time] "method path protocol" status bytes "referer" "agent" any more
 *
 * Anything else, such as an escaped quote or a request that is not three words, is refused, not wrong: the
 * caller has a regular expression for it, which is the definition.
 */
#include "scan.h"
#include "wide.h"

enum { STATUS_DIGITS = 3, SIZE_DIGITS_MAX = 18 };

typedef struct {
    const uint8_t *from, *to;
} Span;

typedef struct {
    Span spans[ACCESS_FIELDS];
    int64_t status, size;
    bool sized, closed; /* bytes is a number; referer and agent are there */
} Fields;

static inline bool is_digit(uint8_t byte) { return (uint8_t)(byte - '0') <= 9; }

/* A word of at least one byte in [p, end) with a space behind it and no quote in it; the place of the space. */
static inline const uint8_t *word_end(const uint8_t *p, const Line *line) {
    const uint8_t *stop = find_either(p, line->end, line->limit, ' ', '"');
    return stop < line->end && stop > p && *stop == ' ' ? stop : NULL;
}

/* host, ident, user and [time], which has one space; the place of the quote that opens the request. */
static const uint8_t *read_head(const uint8_t *p, const Line *line, Fields *fields) {
    static const enum access_field order[] = {FIELD_HOST, FIELD_IDENT, FIELD_USER};
    for (int at = 0; at < 3; at++) {
        const uint8_t *space = word_end(p, line);
        if (!space) {
            return NULL;
        }
        fields->spans[order[at]] = (Span){p, space};
        p = space + 1;
    }
    if (p == line->end || *p != '[') {
        return NULL;
    }
    const uint8_t *middle = find_either(p, line->end, line->limit, ' ', '"');
    if (middle == line->end || *middle != ' ') {
        return NULL;
    }
    const uint8_t *last = find_either(middle + 1, line->end, line->limit, ' ', '"');
    if (last == line->end || *last != ' ' || last[-1] != ']' || last + 1 == line->end || last[1] != '"') {
        return NULL;
    }
    fields->spans[FIELD_TS] = (Span){p + 1, last - 1};
    return last + 1;
}

/* Three words between quotes; `p` is at the opening quote, the answer is behind the closing one. */
static const uint8_t *read_request(const uint8_t *p, const Line *line, Fields *fields) {
    const uint8_t *start = ++p, *first = word_end(p, line);
    if (!first) {
        return NULL;
    }
    const uint8_t *second = word_end(first + 1, line);
    if (!second) {
        return NULL;
    }
    const uint8_t *quote = find_either(second + 1, line->end, line->limit, ' ', '"');
    if (quote == line->end || *quote != '"' || quote == second + 1 || quote[-1] == '\\') {
        return NULL;
    }
    fields->spans[FIELD_METHOD] = (Span){start, first};
    fields->spans[FIELD_PATH] = (Span){first + 1, second};
    fields->spans[FIELD_PROTOCOL] = (Span){second + 1, quote};
    fields->spans[FIELD_REQUEST] = (Span){start, quote};
    return quote + 1;
}

/* ` 200 1234` or ` 200 -`; the place behind it, which is a space or the line's end. */
static const uint8_t *read_numbers(const uint8_t *p, const Line *line, Fields *fields) {
    if (line->end - p < STATUS_DIGITS + 3 || p[0] != ' ' || p[STATUS_DIGITS + 1] != ' ') {
        return NULL;
    }
    p++;
    fields->status = 0;
    for (int at = 0; at < STATUS_DIGITS; at++, p++) {
        if (!is_digit(*p)) {
            return NULL;
        }
        fields->status = fields->status * 10 + (*p - '0');
    }
    const uint8_t *digits = ++p;
    fields->size = 0;
    while (p < line->end && is_digit(*p) && p - digits < SIZE_DIGITS_MAX) {
        fields->size = fields->size * 10 + (*p++ - '0');
    }
    fields->sized = p > digits;
    if (!fields->sized && *p++ != '-') {
        return NULL;
    }
    return p == line->end || *p == ' ' ? p : NULL;
}

/* ` "referer" "agent"`, then a space or the line's end. `p` is at the space. */
static bool read_agents(const uint8_t *p, const Line *line, Fields *fields) {
    static const enum access_field order[] = {FIELD_REFERER, FIELD_AGENT};
    for (int at = 0; at < 2; at++) {
        if (line->end - p < 3 || p[0] != ' ' || p[1] != '"') {
            return false;
        }
        const uint8_t *start = p + 2, *quote = find_either(start, line->end, line->limit, '"', '"');
        if (quote == line->end || quote[-1] == '\\') {
            return false;
        }
        fields->spans[order[at]] = (Span){start, quote};
        p = quote + 1;
    }
    fields->closed = true;
    return p == line->end || *p == ' ';
}

static bool read_line(const uint8_t *p, const Line *line, bool combined, Fields *fields) {
    fields->closed = false;
    p = read_head(p, line, fields);
    if (p) {
        p = read_request(p, line, fields);
    }
    if (p) {
        p = read_numbers(p, line, fields);
    }
    return p && (!combined || p == line->end || read_agents(p, line, fields));
}

static void store_fields(const Fields *fields, const uint8_t *block, const uint8_t *wanted, Grid grid, size_t row) {
    for (size_t slot = 0; slot < grid.slots; slot++) {
        uint8_t *kind = &grid.kinds[slot * grid.lines + row];
        uint64_t *cell = &grid.cells[slot * grid.lines + row];
        switch (wanted[slot]) {
        case FIELD_STATUS:
            *kind = CELL_INT;
            *cell = (uint64_t)fields->status;
            break;
        case FIELD_BYTES:
            *kind = fields->sized ? CELL_INT : CELL_NULL;
            *cell = (uint64_t)fields->size;
            break;
        default: {
            bool agent = wanted[slot] == FIELD_REFERER || wanted[slot] == FIELD_AGENT;
            Span span = agent && !fields->closed ? (Span){block, block} : fields->spans[wanted[slot]];
            *kind = agent && !fields->closed ? CELL_NULL : CELL_TEXT;
            *cell = cell_of_span((size_t)(span.from - block), (size_t)(span.to - span.from));
        }
        }
    }
}

/* Each of `wanted` (one per slot) is an access_field. Refused lines are null in every slot. */
size_t access_lines(bool combined, Bytes block, Lines lines, const uint8_t *wanted, Grid grid, int64_t *refused) {
    size_t count = 0;
    Fields fields = {0};
    for (size_t row = 0; row < lines.count; row++) {
        Line line = {block.data + lines.ends[row], block.data + block.size};
        if (read_line(block.data + lines.starts[row], &line, combined, &fields)) {
            store_fields(&fields, block.data, wanted, grid, row);
            continue;
        }
        clear_row(&grid, row);
        refused[count++] = (int64_t)row;
    }
    return count;
}
