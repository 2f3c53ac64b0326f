/* Kronecker graphs after the Graph500 specification (https://graph500.org), section 3. */
#include <stdio.h>
#include <stdlib.h>

#include "graph.h"
#include "random.h"

/* Initiator probabilities A = 0.57, B = 0.19, C = 0.19, summed up as fractions of 2^32. */
static const uint32_t below_a = (uint32_t)(0.57 * 4294967296.0);
static const uint32_t below_ab = (uint32_t)(0.76 * 4294967296.0);
static const uint32_t below_abc = (uint32_t)(0.95 * 4294967296.0);

/* One edge: at each level, the quadrant of the adjacency matrix it falls into. */
static void draw_edge(uint64_t *state, unsigned scale, uint32_t *from, uint32_t *to)
{
    uint64_t bits = 0;
    uint32_t row = 0, column = 0;
    for (unsigned level = 0; level < scale; level++) {
        bits = level % 2 == 0 ? random_next(state) : bits >> 32;
        uint32_t draw = (uint32_t)bits;
        uint32_t down = draw >= below_ab;
        uint32_t right = (draw >= below_a && draw < below_ab) || draw >= below_abc;
        row = row << 1 | down;
        column = column << 1 | right;
    }
    *from = row;
    *to = column;
}

int graph_kronecker(graph *g, unsigned scale, unsigned edge_factor, uint64_t seed,
                    bool undirected, graph_error *error)
{
    *g = (graph){0};
    uint64_t drawn = (uint64_t)edge_factor << scale;
    if (scale < 1 || scale > 31 || edge_factor < 1 ||
        drawn > (UINT32_MAX - 1) / (undirected ? 2 : 1)) {
        snprintf(error->text, sizeof error->text,
                 "Kronecker graph %u:%u: expected a scale of 1 to 31, an edge factor of 1 or "
                 "more, and fewer than %lu edges",
                 scale, edge_factor, (unsigned long)UINT32_MAX);
        return -1;
    }
    uint32_t vertices = (uint32_t)1 << scale;
    size_t capacity = (size_t)drawn * (undirected ? 2 : 1);
    uint32_t *label = malloc(vertices * sizeof *label);
    g->ids = malloc(vertices * sizeof *g->ids);
    g->from = malloc(capacity * sizeof *g->from);
    g->to = malloc(capacity * sizeof *g->to);
    if (!label || !g->ids || !g->from || !g->to) {
        snprintf(error->text, sizeof error->text,
                 "Kronecker graph %u:%u: not enough memory for the graph", scale, edge_factor);
        free(label);
        graph_free(g);
        return -1;
    }

    /* Low numbers are likelier than high ones: shuffle, so that a number tells nothing. */
    uint64_t state = random_mix(seed ^ UINT64_C(0x4b726f6e65636b65));
    for (uint32_t v = 0; v < vertices; v++) {
        uint32_t other = random_below(&state, v + 1);
        label[v] = label[other];
        label[other] = v;
        g->ids[v] = v;
    }
    g->vertices = vertices;
    for (uint64_t i = 0; i < drawn; i++) {
        uint32_t from, to;
        draw_edge(&state, scale, &from, &to);
        from = label[from];
        to = label[to];
        g->from[g->edges] = from;
        g->to[g->edges++] = to;
        if (undirected && from != to) {
            g->from[g->edges] = to;
            g->to[g->edges++] = from;
        }
    }
    free(label);
    return 0;
}
