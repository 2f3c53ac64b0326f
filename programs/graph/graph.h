/*
 * Directed graphs: read from an edge list or generated, split into parts, and, per part, laid out
 * so that a vertex finds the sources of its incoming edges side by side.
 */
#ifndef GRAPH_H
#define GRAPH_H

#include <stdbool.h>
#include <stdint.h>

/* An error as one line for people. */
typedef struct graph_error {
    char text[512];
} graph_error;

/* Vertices are numbered from 0 in order of first appearance; `ids` are their names in the input. */
typedef struct graph {
    uint32_t vertices;
    uint32_t edges;
    uint64_t *ids;  /* vertices */
    uint32_t *from; /* edges, in the order of the input */
    uint32_t *to;
} graph;

/*
 * Reads "from to" lines, plain or gzip; '#' starts a comment line, ids are any 64-bit numbers.
 * Edges count as often as they are listed. If undirected, every line is an edge in both
 * directions (a loop is still one edge). Returns 0, or -1 with *error set and *g empty.
 */
int graph_read_edge_list(graph *g, const char *path, bool undirected, graph_error *error);

/*
 * The Kronecker graph of the Graph500 benchmark: 2^scale vertices, edge_factor * 2^scale edges,
 * initiator 0.57 0.19 0.19 0.05, vertices shuffled. The same arguments give the same graph.
 */
int graph_kronecker(graph *g, unsigned scale, unsigned edge_factor, uint64_t seed,
                    bool undirected, graph_error *error);

void graph_free(graph *g);

/*
 * A random split of the vertices into parts of equal size (give or take one). Vertex v lives in
 * slot[v] = part * stride + index, where the indices of a part count from 0. The stride is the
 * same for all parts and a multiple of 8, so that 8-byte values of a part fill whole lines.
 */
typedef struct graph_partition {
    uint32_t parts;
    uint32_t stride;
    uint32_t vertices;
    uint32_t *slot; /* vertices */
} graph_partition;

/* The same vertices, parts and seed give the same partition, on every node. */
int graph_partition_make(graph_partition *p, uint32_t vertices, uint32_t parts, uint64_t seed,
                         graph_error *error);
void graph_partition_free(graph_partition *p);

/* Distance of parts in slots, without making the partition. */
static inline uint64_t graph_stride(uint32_t vertices, uint32_t parts)
{
    uint64_t largest = ((uint64_t)vertices + parts - 1) / parts;
    return (largest + 7) / 8 * 8;
}

/* Number of vertices of a part. */
static inline uint32_t graph_part_size(const graph_partition *p, uint32_t part)
{
    return p->vertices / p->parts + (part < p->vertices % p->parts);
}

/* Incoming edges of one part: those of its vertex i come from the slots
 * source[start[i]] .. source[start[i + 1] - 1], in the order of the input. */
typedef struct graph_part {
    uint32_t vertices;
    uint32_t *start;      /* vertices + 1 */
    uint32_t *source;     /* start[vertices] */
    uint32_t *out_degree; /* vertices */
} graph_part;

int graph_part_make(graph_part *part, const graph *g, const graph_partition *p, uint32_t number,
                    graph_error *error);
void graph_part_free(graph_part *part);

#endif
