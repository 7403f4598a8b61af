/* The names that are wanted of each line, and where their values go. */
#ifndef ELFMESH_PLAN_H
#define ELFMESH_PLAN_H

#include "scan.h"

#include <string.h>

enum { BUCKETS = 16, NONE = -1 };

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

static inline bool is_name(const Name *known, const uint8_t *name, size_t length, const uint8_t *limit) {
    if (known->length != length) {
        return false;
    }
    if (length <= 8 && limit - name >= 8) {
        return (word_at(name) & head_mask(length)) == known->head;
    }
    return memcmp(known->name, name, length) == 0;
}

/* The node that a name below `node` leads to, or NONE. */
static inline int32_t find_name(const Plan *plan, const Node *node, const uint8_t *name, size_t length,
                                const uint8_t *limit) {
    int32_t at = node->buckets[bucket_of(name, length)];
    while (at != NONE && !is_name(&plan->names[at], name, length, limit)) {
        at = plan->names[at].next;
    }
    return at == NONE ? NONE : plan->names[at].node;
}

/* Put a value into the cell of a node, if it has one. */
static inline void store(const Grid *grid, const Node *node, size_t row, enum cell_kind kind, uint64_t cell) {
    if (node->slot != NONE) {
        size_t at = (size_t)node->slot * grid->lines + row;
        grid->kinds[at] = (uint8_t)kind;
        grid->cells[at] = cell;
    }
}

#endif
