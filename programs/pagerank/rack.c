/*
 * PageRank across nodes: the segment, the barrier, and the way results come together at node 0.
 *
 * Every node's segment looks alike, so that a peer's vertex is found without asking:
 *
 *     barrier area | report of each node (used at node 0) | vertices | shares[0] | shares[1]
 */
#include <stdlib.h>
#include <string.h>

#include "../program.h"
#include "pagerank.h"

/* The report of a node to node 0 when it is done: one line. */
typedef struct report {
    double seconds;
    uint64_t remote_operations;
    uint64_t unused[6];
} report;

RACKMEM_STATIC_ASSERT(sizeof(report) == RACKMEM_LINE_BYTES, "one line");

static uint64_t whole_lines(uint64_t bytes)
{
    return (bytes + RACKMEM_LINE_BYTES - 1) / RACKMEM_LINE_BYTES * RACKMEM_LINE_BYTES;
}

static uint64_t reports_offset(int nodes)
{
    return whole_lines(rackmem_barrier_bytes(nodes));
}

static uint64_t vertices_offset(int nodes)
{
    return reports_offset(nodes) + (uint64_t)nodes * sizeof(report);
}

uint64_t pagerank_vertex_offset(const pagerank_rack *rack, uint32_t index)
{
    return vertices_offset(rack->nodes) + (uint64_t)index * sizeof(Vertex);
}

uint64_t pagerank_share_offset(const pagerank_rack *rack, int parity, uint32_t index)
{
    uint64_t stride = rack->partition.stride;
    return pagerank_vertex_offset(rack, rack->partition.stride) +
           ((uint64_t)parity * stride + index) * sizeof(double);
}

static int open_rack(pagerank_rack *rack, const pagerank_job *job)
{
    /* The size of the segment has to be known before the rack is. */
    int nodes = program_nodes();
    uint64_t stride = graph_stride(job->graph->vertices, (uint32_t)nodes);
    uint64_t bytes = vertices_offset(nodes) + stride * (sizeof(Vertex) + 2 * sizeof(double));
    if (rackmem_init(&rack->ctx, (size_t)bytes) != 0)
        return program_call_failed(PAGERANK_NAME, "cannot join the rack");
    rack->nid = rackmem_nid(rack->ctx);
    rack->nodes = rackmem_nodes(rack->ctx);
    if (rack->nodes != nodes)
        return program_failed(PAGERANK_NAME, "the rack has %d nodes, RACKMEM_NODES says %d",
                              rack->nodes, nodes);
    if (rackmem_qp_create(rack->ctx, MAX_WQ_SIZE, &rack->qp) != 0)
        return program_call_failed(PAGERANK_NAME, "cannot make a queue pair");
    int error = rackmem_barrier_open(&rack->barrier, rack->ctx, rack->qp, 0, NULL, 0);
    if (error != 0)
        return program_operation_failed(PAGERANK_NAME, "cannot make a barrier", error);

    graph_error why;
    if (graph_partition_make(&rack->partition, job->graph->vertices, (uint32_t)nodes, job->seed,
                             &why) != 0 ||
        graph_part_make(&rack->part, job->graph, &rack->partition, (uint32_t)rack->nid, &why) != 0)
        return program_failed(PAGERANK_NAME, "%s", why.text);

    char *segment = rackmem_segment(rack->ctx);
    rack->vertices = (Vertex *)(segment + pagerank_vertex_offset(rack, 0));
    rack->shares[0] = (double *)(segment + pagerank_share_offset(rack, 0, 0));
    rack->shares[1] = (double *)(segment + pagerank_share_offset(rack, 1, 0));
    return PROGRAM_OK;
}

int pagerank_rack_open(pagerank_rack *rack, const pagerank_job *job)
{
    memset(rack, 0, sizeof *rack);
    int status = open_rack(rack, job);
    if (status != PROGRAM_OK)
        pagerank_rack_close(rack);
    return status;
}

void pagerank_rack_close(pagerank_rack *rack)
{
    graph_part_free(&rack->part);
    graph_partition_free(&rack->partition);
    rackmem_close(rack->ctx);
    rack->ctx = NULL;
}

int pagerank_barrier(pagerank_rack *rack)
{
    int error = rackmem_barrier_wait(&rack->barrier);
    return error ? program_operation_failed(PAGERANK_NAME, "barrier", error) : PROGRAM_OK;
}

/* Node 0: takes the final ranks of one part out of its vertices, by slot. */
static int read_part(pagerank_rack *rack, int nid, unsigned parity, Vertex *buffer, double *ranks)
{
    uint32_t count = graph_part_size(&rack->partition, (uint32_t)nid);
    int error = rmc_read(rack->qp, nid, pagerank_vertex_offset(rack, 0), buffer,
                         count * sizeof *buffer);
    if (error != 0)
        return program_operation_failed(PAGERANK_NAME, "cannot read a part's ranks", error);
    double *to = ranks + (size_t)nid * rack->partition.stride;
    for (uint32_t i = 0; i < count; i++)
        to[i] = buffer[i].rank[parity];
    return PROGRAM_OK;
}

static int read_all_ranks(pagerank_rack *rack, const pagerank_job *job, double *ranks)
{
    uint32_t stride = rack->partition.stride;
    Vertex *buffer = rackmem_alloc(rack->ctx, stride * sizeof *buffer);
    double *by_slot = calloc((size_t)stride * (size_t)rack->nodes, sizeof *by_slot);
    int status = PROGRAM_OK;
    if (!buffer || !by_slot)
        status = program_failed(PAGERANK_NAME, "not enough memory for the ranks");
    for (int nid = 0; nid < rack->nodes && status == PROGRAM_OK; nid++)
        status = read_part(rack, nid, job->supersteps % 2, buffer, by_slot);
    if (status == PROGRAM_OK)
        for (uint32_t v = 0; v < job->graph->vertices; v++)
            ranks[v] = by_slot[rack->partition.slot[v]];
    free(by_slot);
    return status;
}

int pagerank_collect(pagerank_rack *rack, const pagerank_job *job, double seconds,
                     uint64_t remote_operations, pagerank_result *result)
{
    report mine = {.seconds = seconds, .remote_operations = remote_operations};
    uint64_t reports = reports_offset(rack->nodes);
    int error = rmc_write(rack->qp, 0, reports + (uint64_t)rack->nid * sizeof mine, &mine,
                          sizeof mine);
    if (error != 0)
        return program_operation_failed(PAGERANK_NAME, "cannot report to node 0", error);
    int status = pagerank_barrier(rack);
    if (status == PROGRAM_OK && rack->nid == 0) {
        const report *all = (const report *)((char *)rackmem_segment(rack->ctx) + reports);
        *result = (pagerank_result){.ranks = malloc(job->graph->vertices * sizeof(double))};
        for (int nid = 0; nid < rack->nodes; nid++) {
            if (all[nid].seconds > result->seconds)
                result->seconds = all[nid].seconds;
            result->remote_operations += all[nid].remote_operations;
        }
        status = result->ranks ? read_all_ranks(rack, job, result->ranks)
                               : program_failed(PAGERANK_NAME, "not enough memory for the ranks");
    }
    /* Nobody changes or leaves its segment before node 0 has read it. */
    return status == PROGRAM_OK ? pagerank_barrier(rack) : status;
}
