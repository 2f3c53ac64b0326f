/*
 * PageRank with fine-grain sharing: soNUMA(fine-grain), the listing of Figure 4. A vertex of the
 * same node is read where it is; any other is fetched by one asynchronous read per edge, whose
 * callback adds it up. Many reads are on their way at once, so their latency is hidden.
 */
#include <stdlib.h>

#include "../program.h"
#include "pagerank.h"

/* Where the rank at the other end of an incoming edge is: here, or in a peer's segment. */
typedef struct edge {
    union {
        const Vertex *v;
        uint64_t offset;
    };
    uint16_t nid;
    bool is_local;
} Edge;

/* What the callback needs; qp->callback_arg points here. */
typedef struct fetches {
    double *async_dest_addr[MAX_WQ_SIZE];
    Vertex *lbuf; /* MAX_WQ_SIZE, one per slot */
    unsigned superstep;
} fetches;

RACKMEM_INLINE void pagerank_async(int slot, void *arg)
{
    fetches *f = arg;
    const Vertex *v = &f->lbuf[slot];
    *f->async_dest_addr[slot] += PAGERANK_DAMPING * v->rank[f->superstep % 2] / v->out_degree;
}

/* Computes a superstep; returns how many vertices were fetched. */
static uint64_t pagerank_superstep(pagerank_rack *rack, const Edge *edges, double base,
                                   fetches *f)
{
    QP *qp = rack->qp;
    uint32_t count = rack->part.vertices;
    unsigned even_odd = (f->superstep + 1) % 2;
    uint64_t fetched = 0;
    for (uint32_t i = 0; i < count; i++) {
        Vertex *v = &rack->vertices[i];
        double *rank = &v->rank[even_odd];
        double local = base;
        *rank = 0;
        for (uint32_t e = v->start; e < v->end; e++) {
            const Edge *edge = &edges[e];
            if (edge->is_local) {
                const Vertex *v2 = edge->v; /* shared memory model */
                local += PAGERANK_DAMPING * v2->rank[f->superstep % 2] / v2->out_degree;
            } else {
                int slot = rmc_wait_for_slot(qp, pagerank_async); /* flow control */
                f->async_dest_addr[slot] = rank;
                rmc_read_async(qp, slot, edge->nid, edge->offset, &f->lbuf[slot],
                               sizeof(Vertex));
                fetched++;
            }
        }
        *rank += local; /* callbacks may have added to it */
    }
    return fetched;
}

/* Fills in the segment's vertices and the edges that lead to them. */
static void prepare(pagerank_rack *rack, const pagerank_job *job, Edge *edges)
{
    const graph_part *part = &rack->part;
    uint32_t stride = rack->partition.stride;
    for (uint32_t i = 0; i < part->vertices; i++)
        rack->vertices[i] = (Vertex){
            .rank = {1.0 / job->graph->vertices, 0},
            .out_degree = part->out_degree[i],
            .start = part->start[i],
            .end = part->start[i + 1],
        };
    for (uint32_t e = 0; e < part->start[part->vertices]; e++) {
        uint32_t index = part->source[e] % stride;
        Edge *edge = &edges[e];
        edge->nid = (uint16_t)(part->source[e] / stride);
        edge->is_local = edge->nid == rack->nid;
        if (edge->is_local)
            edge->v = &rack->vertices[index];
        else
            edge->offset = pagerank_vertex_offset(rack, index);
    }
}

int pagerank_fine(pagerank_rack *rack, const pagerank_job *job, pagerank_result *result)
{
    const graph_part *part = &rack->part;
    double base = pagerank_base(job->graph);
    uint64_t operations = 0;
    Edge *edges = malloc(((size_t)part->start[part->vertices] + 1) * sizeof *edges);
    fetches f = {.lbuf = rackmem_alloc(rack->ctx, MAX_WQ_SIZE * sizeof(Vertex))};
    if (!edges || !f.lbuf) {
        free(edges);
        return program_failed(PAGERANK_NAME, "not enough memory for the edges");
    }
    prepare(rack, job, edges);
    int status = pagerank_barrier(rack);

    rack->qp->callback_arg = &f;
    double start = program_seconds();
    while (f.superstep < job->supersteps && status == 0) {
        operations += pagerank_superstep(rack, edges, base, &f);
        int error = rmc_drain_cq(rack->qp, pagerank_async);
        f.superstep++;
        status = error ? program_operation_failed(PAGERANK_NAME, "cannot read a vertex", error)
                       : pagerank_barrier(rack);
    }
    double seconds = program_seconds() - start;

    rack->qp->callback_arg = NULL;
    free(edges);
    return status ? status : pagerank_collect(rack, job, seconds, operations, result);
}
