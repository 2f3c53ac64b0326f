/* Splits a graph into parts and gathers the incoming edges of one. */
#include <stdio.h>
#include <stdlib.h>

#include "graph.h"
#include "random.h"

static int out_of_memory(graph_error *error)
{
    snprintf(error->text, sizeof error->text, "not enough memory to partition the graph");
    return -1;
}

int graph_partition_make(graph_partition *p, uint32_t vertices, uint32_t parts, uint64_t seed,
                         graph_error *error)
{
    uint64_t stride = graph_stride(vertices, parts);
    *p = (graph_partition){.parts = parts, .stride = (uint32_t)stride, .vertices = vertices};
    if (stride * parts > UINT32_MAX) {
        snprintf(error->text, sizeof error->text, "%u vertices are too many for %u parts",
                 vertices, parts);
        return -1;
    }
    p->slot = malloc(vertices * sizeof *p->slot);
    uint32_t *next = malloc(parts * sizeof *next);
    if (!p->slot || !next) {
        free(next);
        graph_partition_free(p);
        return out_of_memory(error);
    }

    /* Deal the parts round, shuffle who got which, and number each part's vertices in order, which
     * keeps what locality the input has; one part is the input itself. */
    uint64_t state = random_mix(seed ^ UINT64_C(0x706172746974696f));
    for (uint32_t v = 0; v < vertices; v++)
        p->slot[v] = v % parts;
    for (uint32_t v = vertices; v > 1; v--) {
        uint32_t other = random_below(&state, v);
        uint32_t part = p->slot[v - 1];
        p->slot[v - 1] = p->slot[other];
        p->slot[other] = part;
    }
    for (uint32_t part = 0; part < parts; part++)
        next[part] = part * p->stride;
    for (uint32_t v = 0; v < vertices; v++)
        p->slot[v] = next[p->slot[v]]++;
    free(next);
    return 0;
}

void graph_partition_free(graph_partition *p)
{
    free(p->slot);
    *p = (graph_partition){0};
}

int graph_part_make(graph_part *part, const graph *g, const graph_partition *p, uint32_t number,
                    graph_error *error)
{
    const uint32_t *slot = p->slot;
    uint32_t first = number * p->stride;
    uint32_t size = graph_part_size(p, number);
    *part = (graph_part){.vertices = size};
    part->start = calloc((size_t)size + 2, sizeof *part->start);
    part->out_degree = calloc((size_t)size + 1, sizeof *part->out_degree);
    if (!part->start || !part->out_degree) {
        graph_part_free(part);
        return out_of_memory(error);
    }

    /* Count into start[i + 2]; summed up, start[i + 1] is where vertex i begins, and filling moves
     * it to where i ends. The subtraction wraps round for slots before this part's. */
    uint32_t *count = part->start + 2, *next = part->start + 1;
    for (uint32_t e = 0; e < g->edges; e++) {
        uint32_t to = slot[g->to[e]] - first;
        uint32_t from = slot[g->from[e]] - first;
        if (to < size)
            count[to]++;
        if (from < size)
            part->out_degree[from]++;
    }
    for (uint32_t i = 0; i < size; i++)
        next[i + 1] += next[i];

    part->source = malloc(((size_t)next[size] + 1) * sizeof *part->source);
    if (!part->source) {
        graph_part_free(part);
        return out_of_memory(error);
    }
    for (uint32_t e = 0; e < g->edges; e++) {
        uint32_t to = slot[g->to[e]] - first;
        if (to < size)
            part->source[next[to]++] = slot[g->from[e]];
    }
    return 0;
}

void graph_part_free(graph_part *part)
{
    free(part->start);
    free(part->source);
    free(part->out_degree);
    *part = (graph_part){0};
}
