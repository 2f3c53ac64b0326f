/*
 * PageRank (soNUMA §7.5): a vertex's rank is 0.15/N plus 0.85 times what its in-neighbours give,
 * each its rank divided by its number of outgoing edges. Every superstep computes all ranks from
 * those of the superstep before; a barrier ends it. A vertex without outgoing edges gives nothing
 * while the ranks are computed, as in the paper; pagerank_normalise makes up for it at the end.
 *
 *   serial.c  one thread, the baseline
 *   shm.c     threads of one node
 *   bulk.c    nodes pull each other's results, one request per peer and superstep
 *   fine.c    nodes read single vertices as they need them, one request per edge
 *   rack.c    what bulk and fine have in common: segment, barrier, results
 *   team.c    what shm and fine have in common: threads that wait for each other
 *
 * Ranks are doubles: the listing in the paper has floats, whose rounding hides real differences.
 * All variants but `fine` add up a vertex's edges in the same order, so their ranks are equal to
 * the last bit, however many threads or nodes take part; `fine` adds as replies come in.
 */
#ifndef PAGERANK_H
#define PAGERANK_H

#include <rackmem.h>

#include "../graph/graph.h"

/* The same bits with and without fused multiply-add. GCC does so by itself in C11 mode. */
#ifdef __clang__
#pragma STDC FP_CONTRACT OFF
#endif

#define PAGERANK_NAME "pagerank"
#define PAGERANK_DAMPING 0.85

typedef struct pagerank_job {
    const graph *graph;
    unsigned supersteps;
    unsigned threads;      /* of shm */
    unsigned node_threads; /* of fine, in every node */
    uint64_t seed;         /* of the partition */
} pagerank_job;

/* Outcome of a variant, complete at node 0. Times cover the supersteps, not the loading. */
typedef struct pagerank_result {
    double seconds;
    uint64_t remote_operations;
    double *ranks; /* of graph->vertices vertices */
} pagerank_result;

/* Each returns 0, or 1 after saying on stderr what failed. */
int pagerank_serial(const pagerank_job *job, pagerank_result *result);
int pagerank_shm(const pagerank_job *job, pagerank_result *result);

/* The rack as a variant needs it. */
typedef struct pagerank_rack {
    rackmem_context *ctx;
    QP *qp;
    rackmem_barrier barrier;
    int nid;
    int nodes;
    graph_partition partition;
    graph_part part;
    struct vertex *vertices; /* this node's part, in its segment */
    double *shares[2];       /* likewise */
} pagerank_rack;

/* Joins the rack with a segment that fits the graph; on failure, nothing is left to close. Every
 * node of the rack has to call the same functions in the same order. */
int pagerank_rack_open(pagerank_rack *rack, const pagerank_job *job);
void pagerank_rack_close(pagerank_rack *rack);

int pagerank_bulk(pagerank_rack *rack, const pagerank_job *job, pagerank_result *result);
int pagerank_fine(pagerank_rack *rack, const pagerank_job *job, pagerank_result *result);

/* A vertex as its owner and its peers see it: as in Figure 4, and half a line, so that none lies
 * across two lines and a peer reads each in one piece. */
typedef struct vertex {
    double rank[2]; /* of even and of odd supersteps: one is read while the other is computed */
    uint32_t out_degree;
    uint32_t start; /* its incoming edges */
    uint32_t end;
} Vertex;

RACKMEM_STATIC_ASSERT(sizeof(Vertex) == RACKMEM_LINE_BYTES / 2, "two to a line");

/* Offsets in every segment, counted from its start. */
uint64_t pagerank_vertex_offset(const pagerank_rack *rack, uint32_t index);
uint64_t pagerank_share_offset(const pagerank_rack *rack, int parity, uint32_t index);

/* Waits for all nodes; 0, or 1 after saying what failed. */
int pagerank_barrier(pagerank_rack *rack);

/* To be called by all nodes after the last superstep: leaves the slowest node's time, all nodes'
 * operations and all ranks at node 0. Ranks are taken from the vertices. */
int pagerank_collect(pagerank_rack *rack, const pagerank_job *job, double seconds,
                     uint64_t remote_operations, pagerank_result *result);

/* The share of its rank that a vertex gives to each of its out-neighbours. */
static inline double pagerank_share(double rank, uint32_t out_degree)
{
    return out_degree == 0 ? 0 : PAGERANK_DAMPING * rank / out_degree;
}

/* One superstep of a part, when all shares are at hand: the loop that serial, shm and bulk have in
 * common. `shares` is indexed by slot; new ranks and shares by index within the part. */
static inline void pagerank_step(const graph_part *part, double base, const double *shares,
                                 double *new_ranks, double *new_shares)
{
    const uint32_t *source = part->source;
    uint32_t e = 0;
    for (uint32_t v = 0; v < part->vertices; v++) {
        uint32_t end = part->start[v + 1];
        double sum = base, other = 0; /* two, as an addition takes longer than the next load */
        for (; end - e >= 2; e += 2) {
            sum += shares[source[e]];
            other += shares[source[e + 1]];
        }
        if (e < end)
            sum += shares[source[e++]];
        sum += other;
        new_ranks[v] = sum;
        new_shares[v] = pagerank_share(sum, part->out_degree[v]);
    }
}

/* Scales ranks so that they add up to 1. That is the same, once the ranks have converged, as if each
 * vertex without outgoing edges had one to every vertex: what it gave then would go to all alike, as
 * the 0.15/N does, and what all get alike changes the scale only. */
static inline void pagerank_normalise(const graph *g, double *ranks)
{
    double sum = 0;
    for (uint32_t v = 0; v < g->vertices; v++)
        sum += ranks[v];
    for (uint32_t v = 0; v < g->vertices; v++)
        ranks[v] /= sum;
}

static inline double pagerank_base(const graph *g)
{
    return (1 - PAGERANK_DAMPING) / g->vertices;
}

#endif
