/*
 * PageRank by the listing of Figure 4 of "Scale-Out NUMA" (ASPLOS 2014), as printed: figure4_listing.h
 * is the listing and nothing else. What it takes for granted is here: types, globals, and a graph
 * that every node builds alike, of which each owns an equal part.
 */
#include "rackmem.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct Vertex {
    float rank[2];  /* of even and of odd supersteps */
    int out_degree;
    int start, end; /* edges that lead here */
} Vertex;

typedef struct Edge {
    int is_local;
    void *v;         /* where the edge comes from, if that is local, */
    int nid;         /* or where that is */
    uint64_t offset;
} Edge;

static Vertex *vertices; /* of this node, in its segment */
static Edge *edges;      /* to these */
static int first_vertex, last_vertex, total_num_vertices;
static int superstep;

#ifdef __cplusplus
extern "C" {
#endif
#include "figure4_listing.h"
#ifdef __cplusplus
}
#else
/* C99 makes `inline` a promise that the function is defined somewhere: here. */
extern void pagerank_async(int slot, void *arg);
#endif

enum { PER_NODE = 200, EDGES_PER_VERTEX = 8, SUPERSTEPS = 12, VERTICES_AT = 4096, NODES_MOST = 8 };

static void check(int condition, const char *text)
{
    if (!condition) {
        fprintf(stderr, "%s: %s\n", text, rackmem_last_error());
        exit(1);
    }
}

#define CHECK(condition) check((condition) != 0, #condition)

/* Source of the i-th edge to a vertex. */
static int source_of(int vertex, int i)
{
    uint32_t x = (uint32_t)(vertex * EDGES_PER_VERTEX + i) * 2654435761u;
    x ^= x >> 15;
    /* The first edges form a cycle, so that every vertex has an edge that leaves. */
    return i == 0 ? (vertex + 1) % total_num_vertices : (int)(x % (uint32_t)total_num_vertices);
}

static void build(rackmem_context *ctx)
{
    int nid = rackmem_nid(ctx);
    int *out_degree = (int *)calloc((size_t)total_num_vertices, sizeof *out_degree);
    edges = (Edge *)calloc((size_t)PER_NODE * EDGES_PER_VERTEX, sizeof *edges);
    CHECK(out_degree && edges);
    for (int v = 0; v < total_num_vertices; v++)
        for (int i = 0; i < EDGES_PER_VERTEX; i++)
            out_degree[source_of(v, i)]++;
    for (int v = 0; v < PER_NODE; v++) {
        Vertex *vertex = &vertices[v];
        vertex->rank[0] = 1.0f / (float)total_num_vertices;
        vertex->out_degree = out_degree[nid * PER_NODE + v];
        vertex->start = v * EDGES_PER_VERTEX;
        vertex->end = vertex->start + EDGES_PER_VERTEX;
        for (int i = 0; i < EDGES_PER_VERTEX; i++) {
            Edge *edge = &edges[vertex->start + i];
            int source = source_of(nid * PER_NODE + v, i);
            edge->nid = source / PER_NODE;
            edge->is_local = edge->nid == nid;
            edge->v = edge->is_local ? &vertices[source % PER_NODE] : NULL;
            edge->offset = VERTICES_AT + (uint64_t)(source % PER_NODE) * sizeof(Vertex);
        }
    }
    free(out_degree);
}

/* The same on one processor, in double precision. */
static double *serial(void)
{
    size_t count = (size_t)total_num_vertices;
    double *rank = (double *)calloc(count, sizeof *rank);
    double *next = (double *)calloc(count, sizeof *next);
    int *out_degree = (int *)calloc(count, sizeof *out_degree);
    CHECK(rank && next && out_degree);
    for (int v = 0; v < total_num_vertices; v++) {
        rank[v] = 1.0 / total_num_vertices;
        for (int i = 0; i < EDGES_PER_VERTEX; i++)
            out_degree[source_of(v, i)]++;
    }
    for (int step = 0; step < SUPERSTEPS; step++) {
        for (int v = 0; v < total_num_vertices; v++) {
            next[v] = 0.15 / total_num_vertices;
            for (int i = 0; i < EDGES_PER_VERTEX; i++)
                next[v] += 0.85 * rank[source_of(v, i)] / out_degree[source_of(v, i)];
        }
        memcpy(rank, next, count * sizeof *rank);
    }
    free(next);
    free(out_degree);
    return rank;
}

/* With an argument, the landing buffers stay ordinary memory. */
int main(int argc, char **argv)
{
    rackmem_context *ctx;
    QP *qp;
    rackmem_barrier barrier;
    (void)argv;
    CHECK(rackmem_init(&ctx, VERTICES_AT + PER_NODE * sizeof(Vertex)) == 0);
    CHECK(rackmem_nodes(ctx) <= NODES_MOST);
    CHECK(rackmem_qp_create(ctx, 32, &qp) == 0);
    CHECK(rackmem_barrier_open(&barrier, ctx, qp, 0, NULL, 0) == 0);
    if (argc == 1)
        CHECK(rackmem_register(ctx, lbuf, sizeof lbuf) == 0);

    total_num_vertices = rackmem_nodes(ctx) * PER_NODE;
    first_vertex = 0;
    last_vertex = PER_NODE - 1;
    vertices = (Vertex *)(void *)((char *)rackmem_segment(ctx) + VERTICES_AT);
    build(ctx);
    CHECK(rackmem_barrier_wait(&barrier) == 0);
    for (int step = 0; step < SUPERSTEPS; step++) {
        pagerank_superstep(qp);
        CHECK(rackmem_barrier_wait(&barrier) == 0);
    }

    double *expected = serial();
    for (int v = 0; v < PER_NODE; v++) {
        double rank = vertices[v].rank[SUPERSTEPS % 2];
        double right = expected[rackmem_nid(ctx) * PER_NODE + v];
        if (!(fabs(rank - right) <= 1e-5 * right)) {
            fprintf(stderr, "vertex %d: %.9g instead of %.9g\n", v, rank, right);
            return 1;
        }
    }
    free(expected);
    free(edges);
    rackmem_close(ctx);
    return 0;
}
