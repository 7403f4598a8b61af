/* Wanted names as a tree, read from the description that json_plan.py and logfmt.py make. */
#include "plan.h"

#include <stdlib.h>

enum { NODES_MAX = 1 << 16 };

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
