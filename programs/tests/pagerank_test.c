/* PageRank in one process: against known values, a plain formula, and between the variants. */
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "../pagerank/pagerank.h"
#include "check.h"

/* One superstep after the other, straight from the definition. What vertices without outgoing edges
 * have goes to all, or is dropped. */
static void plain(const graph *g, unsigned supersteps, bool shares_dangling, double *rank)
{
    double *next = malloc(g->vertices * sizeof *next);
    uint32_t *degree = calloc(g->vertices, sizeof *degree);
    CHECK(next && degree);
    for (uint32_t e = 0; e < g->edges; e++)
        degree[g->from[e]]++;
    for (uint32_t v = 0; v < g->vertices; v++)
        rank[v] = 1.0 / g->vertices;
    while (supersteps-- > 0) {
        double dangling = 0;
        for (uint32_t v = 0; v < g->vertices; v++)
            dangling += shares_dangling && degree[v] == 0 ? rank[v] : 0;
        for (uint32_t v = 0; v < g->vertices; v++)
            next[v] = (0.15 + 0.85 * dangling) / g->vertices;
        for (uint32_t e = 0; e < g->edges; e++)
            next[g->to[e]] += 0.85 * rank[g->from[e]] / degree[g->from[e]];
        memcpy(rank, next, g->vertices * sizeof *rank);
    }
    free(next);
    free(degree);
}

static void compare(const graph *g, unsigned supersteps)
{
    pagerank_job job = {.graph = g, .supersteps = supersteps, .seed = 9};
    pagerank_result serial, shm;
    double *expected = malloc(g->vertices * sizeof *expected);
    CHECK(expected);
    plain(g, supersteps, false, expected);
    CHECK(pagerank_serial(&job, &serial) == 0);
    for (uint32_t v = 0; v < g->vertices; v++)
        CHECK(fabs(serial.ranks[v] - expected[v]) <= 1e-12 * expected[v]);
    for (job.threads = 1; job.threads <= 5; job.threads++) {
        CHECK(pagerank_shm(&job, &shm) == 0);
        CHECK(memcmp(serial.ranks, shm.ranks, g->vertices * sizeof(double)) == 0);
        free(shm.ranks);
    }
    free(serial.ranks);
    free(expected);
}

static void normalised(const graph *g)
{
    pagerank_job job = {.graph = g, .supersteps = 200, .threads = 1, .seed = 9};
    pagerank_result result;
    double *expected = malloc(g->vertices * sizeof *expected);
    CHECK(expected);
    plain(g, job.supersteps, true, expected);
    CHECK(pagerank_serial(&job, &result) == 0);
    pagerank_normalise(g, result.ranks);
    for (uint32_t v = 0; v < g->vertices; v++)
        CHECK(fabs(result.ranks[v] - expected[v]) <= 1e-10 * expected[v]);
    free(result.ranks);
    free(expected);
}

int main(void)
{
    /* 0 -> 1 -> 2, 0 -> 2; 2 has no outgoing edge: by hand after one superstep. */
    uint32_t from[] = {0, 1, 0}, to[] = {1, 2, 2};
    uint64_t ids[] = {0, 1, 2};
    graph tiny = {.vertices = 3, .edges = 3, .ids = ids, .from = from, .to = to};
    pagerank_job job = {.graph = &tiny, .supersteps = 1, .threads = 1};
    pagerank_result r;
    CHECK(pagerank_serial(&job, &r) == 0);
    CHECK(fabs(r.ranks[0] - 0.05) < 1e-15);
    CHECK(fabs(r.ranks[1] - (0.05 + 0.85 / 6)) < 1e-15);
    CHECK(fabs(r.ranks[2] - (0.05 + 0.85 / 6 + 0.85 / 3)) < 1e-15);
    free(r.ranks);
    compare(&tiny, 30);
    normalised(&tiny);

    graph g;
    graph_error error;
    CHECK(graph_kronecker(&g, 12, 8, 4, false, &error) == 0);
    compare(&g, 1);
    compare(&g, 30);
    normalised(&g);
    graph_free(&g);
    puts("pagerank: ok");
    return 0;
}
