/* PageRank by threads in the coherent memory of one node: SHM(pthreads). */
#include <stdlib.h>
#include <string.h>

#include "../program.h"
#include "pagerank.h"
#include "team.h"

typedef struct shared {
    const pagerank_job *job;
    graph_partition partition;
    graph_part *parts; /* one per thread */
    double *shares[2]; /* by slot */
    double *ranks;     /* by slot */
    double seconds;
} shared;

static void run(shared *s, team *t, uint32_t number)
{
    const graph_part *part = &s->parts[number];
    size_t first = (size_t)number * s->partition.stride;
    double base = pagerank_base(s->job->graph);
    for (unsigned superstep = 0; superstep < s->job->supersteps; superstep++) {
        pagerank_step(part, base, s->shares[superstep % 2], s->ranks + first,
                      s->shares[(superstep + 1) % 2] + first);
        team_barrier(t, number);
    }
}

static void work(team *t, uint32_t number, void *argument)
{
    shared *s = argument;
    team_barrier(t, number);
    double start = number == 0 ? program_seconds() : 0;
    run(s, t, number);
    if (number == 0)
        s->seconds = program_seconds() - start;
}

/* Gives the vertices their first ranks and every thread its edges. */
static int prepare(shared *s)
{
    const graph *g = s->job->graph;
    graph_error error;
    for (uint32_t i = 0; i < s->job->threads; i++) {
        graph_part *part = &s->parts[i];
        if (graph_part_make(part, g, &s->partition, i, &error) != 0)
            return program_failed(PAGERANK_NAME, "%s", error.text);
        size_t first = (size_t)i * s->partition.stride;
        for (uint32_t v = 0; v < part->vertices; v++) {
            double rank = 1.0 / g->vertices;
            s->ranks[first + v] = rank;
            s->shares[0][first + v] = pagerank_share(rank, part->out_degree[v]);
        }
    }
    return PROGRAM_OK;
}

static int run_team(shared *s)
{
    int error = team_run(s->job->threads, work, s);
    return error == 0 ? PROGRAM_OK
                      : program_failed(PAGERANK_NAME, "cannot start %u threads: %s",
                                       s->job->threads, strerror(error));
}

int pagerank_shm(const pagerank_job *job, pagerank_result *result)
{
    const graph *g = job->graph;
    uint32_t count = job->threads;
    shared s = {.job = job};
    graph_error error;
    if (graph_partition_make(&s.partition, g->vertices, count, job->seed, &error) != 0)
        return program_failed(PAGERANK_NAME, "%s", error.text);

    size_t slots = (size_t)s.partition.stride * count;
    *result = (pagerank_result){.ranks = malloc(g->vertices * sizeof(double))};
    s.parts = calloc(count, sizeof *s.parts);
    s.shares[0] = calloc(slots, sizeof(double));
    s.shares[1] = calloc(slots, sizeof(double));
    s.ranks = calloc(slots, sizeof(double));
    int status = PROGRAM_OK;
    if (!result->ranks || !s.parts || !s.shares[0] || !s.shares[1] || !s.ranks)
        status = program_failed(PAGERANK_NAME, "not enough memory for the ranks");
    else
        status = prepare(&s);
    if (status == PROGRAM_OK)
        status = run_team(&s);
    if (status == PROGRAM_OK) {
        result->seconds = s.seconds;
        for (uint32_t v = 0; v < g->vertices; v++)
            result->ranks[v] = s.ranks[s.partition.slot[v]];
    }

    for (uint32_t i = 0; s.parts && i < count; i++)
        graph_part_free(&s.parts[i]);
    free(s.parts);
    free(s.ranks);
    free(s.shares[0]);
    free(s.shares[1]);
    graph_partition_free(&s.partition);
    return status;
}
