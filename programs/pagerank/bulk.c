/*
 * PageRank with exchange in bulk: soNUMA(bulk). After each barrier a node pulls all that its peers
 * computed, one long request per peer, and then works on local memory only.
 *
 * A node pulls only the shares, 8 bytes per vertex: rank and out_degree are needed for nothing
 * else. A node computes into one half of shares[2] while its peers still pull the other.
 */
#include <stdlib.h>
#include <string.h>

#include "../program.h"
#include "pagerank.h"

/* Not above RACKMEM_MAX_LENGTH, and whole lines. */
#define PULL_BYTES (RACKMEM_MAX_LENGTH & ~(size_t)(RACKMEM_LINE_BYTES - 1))

/* Fetches all peers' shares of a superstep into `shares`; adds to *operations. */
static int pull(pagerank_rack *rack, int parity, double *shares, uint64_t *operations)
{
    uint32_t stride = rack->partition.stride;
    for (int i = 1; i < rack->nodes; i++) {
        int peer = (rack->nid + i) % rack->nodes; /* each node starts at another peer */
        size_t left = graph_part_size(&rack->partition, (uint32_t)peer) * sizeof *shares;
        uint64_t offset = pagerank_share_offset(rack, parity, 0);
        char *to = (char *)(shares + (size_t)peer * stride);
        while (left > 0) {
            size_t length = left < PULL_BYTES ? left : PULL_BYTES;
            int slot = rmc_wait_for_slot(rack->qp, NULL);
            rmc_read_async(rack->qp, slot, peer, offset, to, length);
            ++*operations;
            offset += length;
            to += length;
            left -= length;
        }
    }
    /* Meanwhile, the node's own. */
    memcpy(shares + (size_t)rack->nid * stride, rack->shares[parity],
           rack->part.vertices * sizeof *shares);
    int error = rmc_drain_cq(rack->qp, NULL);
    return error ? program_operation_failed(PAGERANK_NAME, "cannot pull ranks", error) : 0;
}

int pagerank_bulk(pagerank_rack *rack, const pagerank_job *job, pagerank_result *result)
{
    const graph_part *part = &rack->part;
    double base = pagerank_base(job->graph);
    uint64_t operations = 0;
    size_t slots = (size_t)rack->partition.stride * (size_t)rack->nodes;
    double *shares = rackmem_alloc(rack->ctx, slots * sizeof *shares);
    double *ranks = malloc((part->vertices + (size_t)1) * sizeof *ranks);
    if (!shares || !ranks) {
        free(ranks);
        return program_failed(PAGERANK_NAME, "not enough memory for the ranks");
    }
    for (uint32_t v = 0; v < part->vertices; v++) {
        ranks[v] = 1.0 / job->graph->vertices;
        rack->shares[0][v] = pagerank_share(ranks[v], part->out_degree[v]);
    }
    int status = pagerank_barrier(rack);

    double start = program_seconds();
    for (unsigned superstep = 0; superstep < job->supersteps && status == 0; superstep++) {
        int parity = superstep % 2;
        status = pull(rack, parity, shares, &operations);
        if (status == 0) {
            pagerank_step(part, base, shares, ranks, rack->shares[1 - parity]);
            status = pagerank_barrier(rack);
        }
    }
    double seconds = program_seconds() - start;

    for (uint32_t v = 0; v < part->vertices; v++)
        rack->vertices[v].rank[job->supersteps % 2] = ranks[v];
    free(ranks);
    return status ? status : pagerank_collect(rack, job, seconds, operations, result);
}
