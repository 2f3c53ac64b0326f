/*
 * PageRank with fine-grain sharing: soNUMA(fine-grain), the listing of Figure 4. A vertex of the
 * same node is read where it is; any other is fetched by one asynchronous read per edge, whose
 * callback adds it up. Many reads are on their way at once, so their latency is hidden.
 *
 * A node may have several threads, each with a queue pair and as many of the node's edges as the
 * others: where a few vertices have a large part of them, equal numbers of vertices would leave
 * most threads waiting. So a vertex whose edges go beyond the share of its thread gets the sum of
 * the rest from the threads that come next, at the end of the superstep.
 */
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "../program.h"
#include "pagerank.h"
#include "team.h"

/* The place of the rank at the other end of an incoming edge: here, or in a peer's segment. */
typedef struct edge {
    union {
        const Vertex *v;
        uint64_t offset;
    };
    uint16_t nid;
    bool is_local;
} Edge;

/* State of a thread and of its callbacks: qp->callback_arg points here. */
typedef struct worker {
    _Alignas(RACKMEM_LINE_BYTES) double *async_dest_addr[MAX_WQ_SIZE];
    Vertex *lbuf; /* MAX_WQ_SIZE, one per slot */
    unsigned superstep;
    QP *qp;
    uint32_t first_edge, end_edge;
    uint32_t first, end; /* vertices, of which the edges begin there */
    double carry;        /* what edges before those of its vertices add up to ... */
    double *carried_to;  /* ... and the rank that this is a part of; NULL: there are none */
    uint64_t operations;
    int status;
} worker;

/* The shared state of a node's threads. */
typedef struct node {
    pagerank_rack *rack;
    const pagerank_job *job;
    Edge *edges;
    worker *workers;
    double seconds;
    int status; /* changes only while the threads are gathered */
    atomic_flag has_failed;
} node;

RACKMEM_INLINE void pagerank_async(int slot, void *arg)
{
    worker *w = arg;
    const Vertex *v = &w->lbuf[slot];
    *w->async_dest_addr[slot] += PAGERANK_DAMPING * v->rank[w->superstep % 2] / v->out_degree;
}

/* Sets *rank to `local` and what comes along these edges, once the queue pair is drained. */
RACKMEM_INLINE void add_up(worker *w, const Edge *edge, const Edge *end, double local, double *rank)
{
    QP *qp = w->qp;
    *rank = 0;
    for (; edge < end; edge++) {
        if (edge->is_local) {
            const Vertex *v2 = edge->v; /* shared memory model */
            local += PAGERANK_DAMPING * v2->rank[w->superstep % 2] / v2->out_degree;
        } else {
            int slot = rmc_wait_for_slot(qp, pagerank_async); /* flow control */
            w->async_dest_addr[slot] = rank;
            rmc_read_async(qp, slot, edge->nid, edge->offset, &w->lbuf[slot], sizeof(Vertex));
            w->operations++;
        }
    }
    *rank += local; /* callbacks may have added to it */
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Computes the thread's share of a superstep; its last reads are on their way when it returns. */
static void pagerank_superstep(const node *n, worker *w, double base)
{
    const uint32_t *start = n->rack->part.start;
    unsigned even_odd = (w->superstep + 1) % 2;
    uint32_t before = least(start[w->first], w->end_edge);
    if (w->first_edge < before) {
        w->carried_to = &n->rack->vertices[w->first - 1].rank[even_odd];
        add_up(w, &n->edges[w->first_edge], &n->edges[before], 0, &w->carry);
    }
    for (uint32_t i = w->first; i < w->end; i++) {
        Vertex *v = &n->rack->vertices[i];
        uint32_t end = least(v->end, w->end_edge);
        add_up(w, &n->edges[v->start], &n->edges[end], base, &v->rank[even_odd]);
    }
}

/* The first vertex whose edges begin with this one or after it. */
static uint32_t vertex_from(const graph_part *part, uint32_t edge)
{
    uint32_t low = 0, high = part->vertices;
    while (low < high) {
        uint32_t middle = low + (high - low) / 2;
        if (part->start[middle] < edge)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

/* Gives a thread its share. The last one also has the vertices that have no edges at the end. */
static void set_share(const node *n, worker *w, uint32_t number)
{
    const graph_part *part = &n->rack->part;
    uint64_t edges = part->start[part->vertices];
    uint32_t threads = n->job->node_threads;
    w->first_edge = (uint32_t)(edges * number / threads);
    w->end_edge = (uint32_t)(edges * (number + UINT64_C(1)) / threads);
    w->first = vertex_from(part, w->first_edge);
    w->end = number + 1 < threads ? vertex_from(part, w->end_edge) : part->vertices;
}

/* Fills in the share's vertices in the segment and the edges. */
static void prepare(const node *n, const worker *w)
{
    const pagerank_rack *rack = n->rack;
    const graph_part *part = &rack->part;
    uint32_t stride = rack->partition.stride;
    for (uint32_t i = w->first; i < w->end; i++)
        rack->vertices[i] = (Vertex){
            .rank = {1.0 / n->job->graph->vertices, 0},
            .out_degree = part->out_degree[i],
            .start = part->start[i],
            .end = part->start[i + 1],
        };
    for (uint32_t e = w->first_edge; e < w->end_edge; e++) {
        uint32_t index = part->source[e] % stride;
        Edge *edge = &n->edges[e];
        edge->nid = (uint16_t)(part->source[e] / stride);
        edge->is_local = edge->nid == rack->nid;
        if (edge->is_local)
            edge->v = &rack->vertices[index];
        else
            edge->offset = pagerank_vertex_offset(rack, index);
    }
}

/* If a call fails in one thread, it often fails in the others: one of them says so for all. */
static int call_failed(node *n, const char *doing)
{
    return atomic_flag_test_and_set(&n->has_failed) ? PROGRAM_FAILED
                                                    : program_call_failed(PAGERANK_NAME, doing);
}

/* The first thread has the rack's queue pair, every other one makes its own. */
static int open_worker(node *n, worker *w, uint32_t number)
{
    rackmem_context *ctx = n->rack->ctx;
    w->qp = n->rack->qp;
    if (number > 0 && rackmem_qp_create(ctx, MAX_WQ_SIZE, &w->qp) != 0)
        return call_failed(n, "cannot make a queue pair for every thread");
    w->lbuf = rackmem_alloc(ctx, MAX_WQ_SIZE * sizeof(Vertex));
    if (!w->lbuf)
        return call_failed(n, "cannot make room for every thread's reads");
    w->qp->callback_arg = w;
    set_share(n, w, number);
    prepare(n, w);
    return PROGRAM_OK;
}

static void close_worker(const node *n, worker *w)
{
    if (w->qp == n->rack->qp)
        w->qp->callback_arg = NULL;
    else
        rackmem_qp_destroy(w->qp);
}

/* While the threads are gathered: puts sums together and waits for the other nodes. */
static int meet_nodes(const node *n)
{
    int status = PROGRAM_OK;
    for (uint32_t i = 0; i < n->job->node_threads; i++) {
        worker *w = &n->workers[i];
        if (w->status != PROGRAM_OK)
            status = w->status;
        if (w->carried_to)
            *w->carried_to += w->carry;
        w->carried_to = NULL;
    }
    return status == PROGRAM_OK ? pagerank_barrier(n->rack) : status;
}

/* The barrier of all threads of all nodes. */
static void meet(node *n, team *t, uint32_t number)
{
    team_gather(t, number);
    if (number == 0) {
        n->status = meet_nodes(n);
        team_release(t);
    }
}

static void work(team *t, uint32_t number, void *argument)
{
    node *n = argument;
    worker *w = &n->workers[number];
    double base = pagerank_base(n->job->graph);
    w->status = open_worker(n, w, number);
    meet(n, t, number);

    double start = number == 0 ? program_seconds() : 0;
    while (w->superstep < n->job->supersteps && n->status == PROGRAM_OK) {
        pagerank_superstep(n, w, base);
        int error = rmc_drain_cq(w->qp, pagerank_async);
        if (error != 0)
            w->status = program_operation_failed(PAGERANK_NAME, "cannot read a vertex", error);
        w->superstep++;
        meet(n, t, number);
    }
    if (number == 0)
        n->seconds = program_seconds() - start;
    close_worker(n, w);
}

static int run_team(node *n)
{
    uint32_t threads = n->job->node_threads;
    int error = team_run(threads, work, n);
    return error == 0 ? n->status
                      : program_failed(PAGERANK_NAME, "cannot start %u threads: %s", threads,
                                       strerror(error));
}

int pagerank_fine(pagerank_rack *rack, const pagerank_job *job, pagerank_result *result)
{
    const graph_part *part = &rack->part;
    size_t threads = job->node_threads;
    node n = {.rack = rack, .job = job, .has_failed = ATOMIC_FLAG_INIT};
    n.edges = malloc(((size_t)part->start[part->vertices] + 1) * sizeof *n.edges);
    n.workers = aligned_alloc(RACKMEM_LINE_BYTES, threads * sizeof *n.workers);
    int status = PROGRAM_OK;
    uint64_t operations = 0;
    if (!n.edges || !n.workers) {
        status = program_failed(PAGERANK_NAME, "not enough memory for the edges");
    } else {
        memset(n.workers, 0, threads * sizeof *n.workers);
        status = run_team(&n);
        for (size_t i = 0; i < threads; i++)
            operations += n.workers[i].operations;
    }
    free(n.edges);
    free(n.workers);
    return status ? status : pagerank_collect(rack, job, n.seconds, operations, result);
}
