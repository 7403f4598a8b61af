/* Wanted pairs of logfmt lines: key=value, key="quoted \" value", a bare key.
 *
 * What a line means is what the regular expression in logfmt.py finds in it. Refused is a line without a pair, one
 * with white space beyond ASCII outside of quotes, and one whose wanted value has an escape that JSON has not.
 */
#include "plan.h"
#include "wide.h"

enum { BARE_LENGTH = 4 }; /* of "true" */

enum mark { PLAIN = 0, SPACE, EQUALS, QUOTE, WIDE }; /* WIDE: may begin white space beyond ASCII */

/* As Python's \s has it: the separators 0x1c to 0x1f too. */
static const uint8_t MARKS[256] = {
    ['\t'] = SPACE, ['\n'] = SPACE, ['\v'] = SPACE, ['\f'] = SPACE, ['\r'] = SPACE, [' '] = SPACE,
    [0x1c] = SPACE, [0x1d] = SPACE, [0x1e] = SPACE, [0x1f] = SPACE, ['='] = EQUALS, ['"'] = QUOTE,
    [0xc2] = WIDE,  [0xe1] = WIDE,  [0xe2] = WIDE,  [0xe3] = WIDE,
};

/* U+0085, U+00A0, U+1680, U+2000 to U+200A, U+2028, U+2029, U+202F, U+205F, U+3000. */
static bool is_wide_space(const uint8_t *p, const uint8_t *end) {
    if (p[0] == 0xc2) {
        return end - p >= 2 && (p[1] == 0x85 || p[1] == 0xa0);
    }
    if (end - p < 3) {
        return false;
    }
    switch (p[0]) {
    case 0xe1:
        return p[1] == 0x9a && p[2] == 0x80;
    case 0xe2:
        return (p[1] == 0x80 && (p[2] <= 0x8a || p[2] == 0xa8 || p[2] == 0xa9 || p[2] == 0xaf)) ||
               (p[1] == 0x81 && p[2] == 0x9f);
    default:
        return p[1] == 0x80 && p[2] == 0x80;
    }
}

/* Behind the plain bytes at p, `=` among them or not; NULL at white space beyond ASCII. */
static inline const uint8_t *plain_end(const uint8_t *p, const uint8_t *end, bool equals) {
    for (; p < end; p++) {
        enum mark mark = MARKS[*p];
        if (LIKELY(mark == PLAIN) || (equals && mark == EQUALS)) {
            continue;
        }
        if (mark != WIDE) {
            break;
        }
        if (is_wide_space(p, end)) {
            return NULL;
        }
    }
    return p;
}

/* The closing quote, or NULL where there is none; `p` is behind the opening one. */
static const uint8_t *quoted_end(const uint8_t *p, const Line *line, bool *escaped, bool *strange) {
    for (;;) {
        p = find_either(p, line->end, line->limit, '"', '\\');
        if (p == line->end) {
            return NULL;
        }
        if (*p == '"') {
            return p;
        }
        if (line->end - p < 2) {
            return NULL;
        }
        *escaped = true;
        *strange = *strange || !memchr("\"\\/nrt", p[1], 6);
        p += 2;
    }
}

static bool read_line(const Plan *plan, Bytes block, const uint8_t *p, const Line *line, const Grid *grid, size_t row) {
    bool paired = false;
    while (p < line->end) {
        if (MARKS[*p] != PLAIN && MARKS[*p] != WIDE) {
            p++;
            continue;
        }
        const uint8_t *key = p;
        p = plain_end(p, line->end, false);
        if (!p) {
            return false;
        }
        int32_t found = find_name(plan, plan->nodes, key, (size_t)(p - key), line->limit);
        const Node *node = found == NONE ? plan->nodes : &plan->nodes[found];
        if (p == line->end || *p != '=') {
            store(grid, node, row, CELL_TEXT, cell_of_span(block.size, BARE_LENGTH));
            continue;
        }
        paired = true;
        const uint8_t *value = ++p, *close = p;
        bool escaped = false, strange = false;
        if (p < line->end && *p == '"') {
            close = quoted_end(p + 1, line, &escaped, &strange);
            value = close ? p + 1 : p;
            p = close ? close + 1 : p; /* without a closing quote the value is empty, and the line goes on there */
            close = close ? close : p;
        } else {
            close = p = plain_end(p, line->end, true);
            if (!p) {
                return false;
            }
        }
        if (strange && node->slot != NONE) {
            return false;
        }
        uint64_t cell = cell_of_span((size_t)(value - block.data), (size_t)(close - value));
        store(grid, node, row, escaped ? CELL_ESCAPED : CELL_TEXT, cell);
    }
    return paired;
}

bool logfmt_lines(const Plan *plan, Bytes block, Lines lines, Grid grid, Refused *refused) {
    memset(grid.kinds, CELL_NULL, grid.slots * grid.lines);
    for (size_t row = 0; row < lines.count; row++) {
        Line line = {block.data + lines.ends[row], block.data + block.size};
        if (!read_line(plan, block, block.data + lines.starts[row], &line, &grid, row) &&
            !refuse_row(refused, &grid, row)) {
            break;
        }
    }
    return true;
}
