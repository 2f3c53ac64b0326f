/* PageRank in one thread: the baseline of every speed-up. */
#include <stdlib.h>

#include "../program.h"
#include "pagerank.h"

static void begin(const graph_part *part, double *shares, double *ranks)
{
    for (uint32_t v = 0; v < part->vertices; v++) {
        ranks[v] = 1.0 / part->vertices;
        shares[v] = pagerank_share(ranks[v], part->out_degree[v]);
    }
}

static void run(const pagerank_job *job, const graph_part *part, double *shares[2], double *ranks)
{
    double base = pagerank_base(job->graph);
    for (unsigned superstep = 0; superstep < job->supersteps; superstep++)
        pagerank_step(part, base, shares[superstep % 2], ranks, shares[(superstep + 1) % 2]);
}

int pagerank_serial(const pagerank_job *job, pagerank_result *result)
{
    const graph *g = job->graph;
    graph_partition whole = {0};
    graph_part part = {0};
    graph_error error;
    double *shares[2] = {calloc(g->vertices, sizeof(double)), calloc(g->vertices, sizeof(double))};
    double *ranks = calloc(g->vertices, sizeof *ranks);
    int status = PROGRAM_OK;

    if (!shares[0] || !shares[1] || !ranks)
        status = program_failed(PAGERANK_NAME, "not enough memory for the ranks");
    else if (graph_partition_make(&whole, g->vertices, 1, job->seed, &error) != 0 ||
             graph_part_make(&part, g, &whole, 0, &error) != 0)
        status = program_failed(PAGERANK_NAME, "%s", error.text);
    if (status == PROGRAM_OK) {
        /* The time is that of supersteps, as in the other variants. */
        begin(&part, shares[0], ranks);
        double start = program_seconds();
        run(job, &part, shares, ranks); /* with one part, slot, index and vertex are the same */
        *result = (pagerank_result){.seconds = program_seconds() - start, .ranks = ranks};
        ranks = NULL;
    }
    graph_part_free(&part);
    graph_partition_free(&whole);
    free(shares[0]);
    free(shares[1]);
    free(ranks);
    return status;
}
