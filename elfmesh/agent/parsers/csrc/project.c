/* Wanted fields of JSON lines. The wanted paths are a tree of names; a line is walked once along it, and
 * whatever is not in the tree is checked and skipped.
 *
 * A line is refused when it is not certainly good, and when what it holds needs more than a cell: an escape in
 * the name of a field where names matter, a wanted object or array, an object that comes twice.
 */
#include "scan.h"
#include "wide.h"

#include <stdlib.h>
#include <string.h>

enum { BUCKETS = 16, NONE = -1, NODES_MAX = 1 << 16 };

typedef struct {
    const uint8_t *name;
    size_t length;
    int32_t node, next; /* what the name leads to; the next name in this bucket */
    uint64_t head;      /* its first bytes, then zeros */
} Name;

typedef struct {
    int32_t slot; /* where its value goes, or NONE */
    bool inner;   /* names below it are wanted */
    int32_t buckets[BUCKETS];
} Node;

struct Plan {
    uint8_t *text; /* the description, which the names point into */
    Node *nodes;
    Name *names;
    size_t node_count, name_count, slots;
};

typedef struct {
    const Plan *plan;
    const uint8_t *block;
    Grid grid;
    int64_t *seen; /* by node: the last line in which it was met, plus one */
    size_t row;
} Walk;

static inline unsigned bucket_of(const uint8_t *name, size_t length) {
    unsigned first = length ? name[0] : 0, last = length ? name[length - 1] : 0;
    return (first ^ last << 1 ^ (unsigned)length << 2) % BUCKETS;
}

static inline uint64_t word_at(const uint8_t *p) {
    uint64_t word;
    memcpy(&word, p, sizeof word);
    return word;
}

/* A word whose first `length` bytes (at most 8) are ones. */
static inline uint64_t head_mask(size_t length) {
    static const uint8_t edge[16] = {0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff};
    return word_at(edge + 8 - length);
}

static bool take_number(Bytes *from, uint32_t *value) {
    if (from->size < sizeof *value) {
        return false;
    }
    memcpy(value, from->data, sizeof *value);
    from->data += sizeof *value;
    from->size -= sizeof *value;
    return true;
}

/* One node: its slot plus one, how many names, and for each the node it leads to, its length and bytes. */
static bool read_node(Plan *plan, Bytes *from, Node *node, bool root) {
    uint32_t slot, names;
    if (!take_number(from, &slot) || !take_number(from, &names) || slot > plan->slots) {
        return false;
    }
    node->slot = (int32_t)slot - 1;
    node->inner = names > 0;
    memset(node->buckets, 0xff, sizeof node->buckets);
    for (; names; names--) {
        uint32_t target, length;
        if (!take_number(from, &target) || !take_number(from, &length) || length > from->size) {
            return false;
        }
        if (plan->name_count + 1 >= plan->node_count || target >= plan->node_count ||
            target <= (size_t)(node - plan->nodes)) {
            return false;
        }
        Name *name = &plan->names[plan->name_count];
        int32_t *bucket = &node->buckets[bucket_of(from->data, length)];
        *name = (Name){from->data, length, (int32_t)target, *bucket, 0};
        memcpy(&name->head, from->data, length < 8 ? length : 8);
        *bucket = (int32_t)plan->name_count++;
        from->data += length;
        from->size -= length;
    }
    return root || node->inner || node->slot != NONE;
}

static bool read_plan(Plan *plan, Bytes from) {
    uint32_t nodes, slots;
    if (!take_number(&from, &nodes) || !take_number(&from, &slots) || !nodes || nodes > NODES_MAX || slots > nodes) {
        return false;
    }
    plan->node_count = nodes;
    plan->slots = slots;
    plan->nodes = calloc(nodes, sizeof *plan->nodes);
    plan->names = calloc(nodes, sizeof *plan->names);
    if (!plan->nodes || !plan->names) {
        return false;
    }
    for (size_t at = 0; at < nodes; at++) {
        if (!read_node(plan, &from, &plan->nodes[at], at == 0)) {
            return false;
        }
    }
    return from.size == 0 && plan->name_count + 1 == nodes;
}

void plan_free(Plan *plan) {
    if (plan) {
        free(plan->text);
        free(plan->nodes);
        free(plan->names);
        free(plan);
    }
}

/* NULL when the description is not sound or memory ran out. */
Plan *plan_new(Bytes description) {
    Plan *plan = calloc(1, sizeof *plan);
    if (!plan) {
        return NULL;
    }
    plan->text = malloc(description.size + 1);
    if (plan->text) {
        memcpy(plan->text, description.data, description.size);
    }
    if (!plan->text || !read_plan(plan, (Bytes){plan->text, description.size})) {
        plan_free(plan);
        return NULL;
    }
    return plan;
}

size_t plan_slots(const Plan *plan) { return plan->slots; }

static inline bool is_name(const Name *known, const uint8_t *name, size_t length, const uint8_t *limit) {
    if (known->length != length) {
        return false;
    }
    if (length <= 8 && limit - name >= 8) {
        return (word_at(name) & head_mask(length)) == known->head;
    }
    return memcmp(known->name, name, length) == 0;
}

static inline int32_t find_name(const Plan *plan, const Node *node, const uint8_t *name, size_t length,
                                const uint8_t *limit) {
    int32_t at = node->buckets[bucket_of(name, length)];
    while (at != NONE && !is_name(&plan->names[at], name, length, limit)) {
        at = plan->names[at].next;
    }
    return at == NONE ? NONE : plan->names[at].node;
}

static const uint8_t *walk_object(Walk *walk, const Node *node, const uint8_t *p, const Line *line, int depth);

static inline void store(Walk *walk, const Node *node, enum cell_kind kind, uint64_t cell) {
    if (node->slot != NONE) {
        size_t at = (size_t)node->slot * walk->grid.lines + walk->row;
        walk->grid.kinds[at] = (uint8_t)kind;
        walk->grid.cells[at] = cell;
    }
}

static inline const uint8_t *walk_string(Walk *walk, const Node *node, const uint8_t *p, const Line *line) {
    bool escaped;
    const uint8_t *start = p + 1, *next = skip_string(start, line, &escaped);
    if (next) {
        uint64_t cell = cell_of_span((size_t)(start - walk->block), (size_t)(next - 1 - start));
        store(walk, node, escaped ? CELL_ESCAPED : CELL_TEXT, cell);
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
        store(walk, node, CELL_BOOL, 1);
        return skip_value(p, line, depth);
    case 'f':
        store(walk, node, CELL_BOOL, 0);
        return skip_value(p, line, depth);
    case 'n':
        store(walk, node, CELL_NULL, 0);
        return skip_value(p, line, depth);
    default: {
        enum cell_kind kind;
        uint64_t cell;
        p = read_number(p, line->end, &kind, &cell);
        if (p) {
            store(walk, node, kind, cell);
        }
        return p;
    }
    }
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
    for (;;) {
        if (p == line->end || *p != '"') {
            return NULL;
        }
        const uint8_t *name = p + 1;
        p = find_string_mark(name, line->end, line->limit);
        if (p == line->end || *p != '"') {
            return NULL; /* also for an escape: what the name is then takes more than a look */
        }
        int32_t child = find_name(walk->plan, node, name, (size_t)(p - name), line->limit);
        p = skip_space(p + 1, line->end);
        if (p == line->end || *p != ':') {
            return NULL;
        }
        p = skip_space(p + 1, line->end);
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

size_t project_lines(const Plan *plan, Bytes block, Lines lines, Grid grid, int64_t *refused, size_t capacity) {
    Walk walk = {.plan = plan, .block = block.data, .grid = grid};
    walk.seen = calloc(plan->node_count, sizeof *walk.seen);
    if (!walk.seen) {
        return SIZE_MAX;
    }
    size_t count = 0;
    memset(grid.kinds, CELL_NULL, grid.slots * grid.lines);
    for (size_t row = 0; row < lines.count; row++) {
        Line line = {block.data + lines.ends[row], block.data + block.size};
        walk.row = row;
        if (walk_line(&walk, block.data + lines.starts[row], &line)) {
            continue;
        }
        for (size_t slot = 0; slot < grid.slots; slot++) {
            grid.kinds[slot * grid.lines + row] = CELL_NULL;
        }
        if (count == capacity) {
            count++;
            break;
        }
        refused[count++] = (int64_t)row;
    }
    free(walk.seen);
    return count;
}
