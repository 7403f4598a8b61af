/* Wanted fields of JSON lines. The wanted paths are a tree of names; a line is walked once along it, and
 * whatever is not in the tree is checked and skipped.
 *
 * A line is refused when it is not certainly good, and when what it holds needs more than a cell: an escape in
 * the name of a field where names matter, a wanted object or array, an object that comes twice.
 */
#include "plan.h"
#include "wide.h"

#include <stdlib.h>
#include <string.h>

enum { GUESS_BYTES = 16, GUESSES = 16, GUESSED_NODES = 8 };

/* What stood before a value of an earlier line, from the quote of the name to the value, and the node it led to.
 * Lines of one log mostly have the same names in the same order, so the bytes are compared before they are read. */
typedef struct {
    uint8_t text[GUESS_BYTES];
    uint32_t length; /* 0: none */
    int32_t child;
} Guess;

typedef struct {
    const Plan *plan;
    const uint8_t *block;
    Grid grid;
    int64_t *seen; /* by node: the last line in which it was met, plus one */
    size_t row;
    Guess guesses[GUESSED_NODES][GUESSES]; /* by node and place of the member; for the first nodes */
} Walk;

static const uint8_t *walk_object(Walk *walk, const Node *node, const uint8_t *p, const Line *line, int depth);

static inline const uint8_t *walk_string(Walk *walk, const Node *node, const uint8_t *p, const Line *line) {
    bool escaped;
    const uint8_t *start = p + 1, *next = skip_string(start, line, &escaped);
    if (next) {
        uint64_t cell = cell_of_span((size_t)(start - walk->block), (size_t)(next - 1 - start));
        store(&walk->grid, node, walk->row, escaped ? CELL_ESCAPED : CELL_TEXT, cell);
    }
    return next;
}

/* The value of a name in the tree. */
static const uint8_t *walk_value(Walk *walk, int32_t which, const uint8_t *p, const Line *line, int depth) {
    const Node *node = &walk->plan->nodes[which];
    if (node->inner) {
        if (walk->seen[which] == (int64_t)walk->row + 1) {
            return NULL; /* the second one replaces the first whole */
        }
        walk->seen[which] = (int64_t)walk->row + 1;
    }
    if (p == line->end) {
        return NULL;
    }
    switch (*p) {
    case '"':
        return walk_string(walk, node, p, line);
    case '{':
        return node->slot == NONE ? walk_object(walk, node, p + 1, line, depth + 1) : NULL;
    case '[':
        return NULL;
    case 't':
        store(&walk->grid, node, walk->row, CELL_BOOL, 1);
        return skip_value(p, line, depth);
    case 'f':
        store(&walk->grid, node, walk->row, CELL_BOOL, 0);
        return skip_value(p, line, depth);
    case 'n':
        store(&walk->grid, node, walk->row, CELL_NULL, 0);
        return skip_value(p, line, depth);
    default: {
        enum cell_kind kind;
        uint64_t cell;
        p = read_number(p, line->end, &kind, &cell);
        if (p) {
            store(&walk->grid, node, walk->row, kind, cell);
        }
        return p;
    }
    }
}

static inline bool is_guessed(const Guess *guess, const uint8_t *p, const Line *line) {
    if (!guess->length || (size_t)(line->end - p) < guess->length) {
        return false;
    }
#if ELFMESH_WIDE
    if (LIKELY(line->limit - p >= GUESS_BYTES)) {
        __m128i there = _mm_loadu_si128((const __m128i *)(const void *)p);
        __m128i known = _mm_loadu_si128((const __m128i *)(const void *)guess->text);
        unsigned differ = ~(unsigned)_mm_movemask_epi8(_mm_cmpeq_epi8(there, known));
        return !(differ & ((1u << guess->length) - 1));
    }
#endif
    return memcmp(p, guess->text, guess->length) == 0;
}

/* Behind the name at p and its colon, with what it leads to; NULL if that is no name, or one with an escape: what
 * it is then takes more than a look. */
static const uint8_t *read_name(const Walk *walk, const Node *node, const uint8_t *p, const Line *line,
                                int32_t *child) {
    if (p == line->end || *p != '"') {
        return NULL;
    }
    const uint8_t *name = p + 1;
    p = find_string_mark(name, line->end, line->limit);
    if (p == line->end || *p != '"') {
        return NULL;
    }
    *child = find_name(walk->plan, node, name, (size_t)(p - name), line->limit);
    p = skip_space(p + 1, line->end);
    return p == line->end || *p != ':' ? NULL : p + 1;
}

/* As read_name, for the member at this place of the object. */
static inline const uint8_t *next_name(Walk *walk, const Node *node, size_t place, const uint8_t *p, const Line *line,
                                       int32_t *child) {
    size_t which = (size_t)(node - walk->plan->nodes);
    if (UNLIKELY(which >= GUESSED_NODES || place >= GUESSES)) {
        return read_name(walk, node, p, line, child);
    }
    Guess *guess = &walk->guesses[which][place];
    if (LIKELY(is_guessed(guess, p, line))) {
        *child = guess->child;
        return p + guess->length;
    }
    const uint8_t *next = read_name(walk, node, p, line, child);
    guess->length = 0;
    if (next && next - p <= GUESS_BYTES) {
        guess->length = (uint32_t)(next - p);
        guess->child = *child;
        memcpy(guess->text, p, guess->length);
    }
    return next;
}

/* `p` is behind the opening brace. */
static const uint8_t *walk_object(Walk *walk, const Node *node, const uint8_t *p, const Line *line, int depth) {
    if (depth > DEPTH_MAX) {
        return NULL;
    }
    bool last;
    p = skip_space(p, line->end);
    if (p < line->end && *p == '}') {
        return p + 1;
    }
    for (size_t place = 0;; place++) {
        int32_t child = NONE;
        p = next_name(walk, node, place, p, line, &child);
        if (!p) {
            return NULL;
        }
        p = skip_space(p, line->end);
        p = child == NONE ? skip_value(p, line, depth) : walk_value(walk, child, p, line, depth);
        p = p ? next_member(p, line->end, '}', &last) : NULL;
        if (!p || last) {
            return p;
        }
    }
}

static bool walk_line(Walk *walk, const uint8_t *p, const Line *line) {
    p = skip_space(p, line->end);
    if (p == line->end || *p != '{') {
        return false;
    }
    p = walk_object(walk, walk->plan->nodes, p + 1, line, 1);
    return p && skip_space(p, line->end) == line->end;
}

bool project_lines(const Plan *plan, Bytes block, Lines lines, Grid grid, Refused *refused) {
    Walk walk = {.plan = plan, .block = block.data, .grid = grid};
    walk.seen = calloc(plan->node_count, sizeof *walk.seen);
    if (!walk.seen) {
        return false;
    }
    memset(grid.kinds, CELL_NULL, grid.slots * grid.lines);
    for (size_t row = 0; row < lines.count; row++) {
        Line line = {block.data + lines.ends[row], block.data + block.size};
        walk.row = row;
        if (!walk_line(&walk, block.data + lines.starts[row], &line) && !refuse_row(refused, &grid, row)) {
            break;
        }
    }
    free(walk.seen);
    return true;
}
