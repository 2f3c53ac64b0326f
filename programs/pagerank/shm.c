/* PageRank by threads in the coherent memory of one node: SHM(pthreads). */
#define _POSIX_C_SOURCE 200809L
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../program.h"
#include "pagerank.h"

typedef struct team {
    const pagerank_job *job;
    graph_partition partition;
    double *shares[2]; /* by slot */
    double *ranks;     /* by slot */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool go, cancelled;
    pthread_barrier_t barrier;
} team;

typedef struct worker {
    team *team;
    pthread_t thread;
    graph_part part;
    uint32_t number;
} worker;

static void run(worker *w)
{
    team *t = w->team;
    size_t first = (size_t)w->number * t->partition.stride;
    double base = pagerank_base(t->job->graph);
    for (unsigned superstep = 0; superstep < t->job->supersteps; superstep++) {
        pagerank_step(&w->part, base, t->shares[superstep % 2], t->ranks + first,
                      t->shares[(superstep + 1) % 2] + first);
        pthread_barrier_wait(&t->barrier);
    }
}

/* Threads wait until all exist: the barrier needs every one of them. */
static void *worker_main(void *argument)
{
    worker *w = argument;
    team *t = w->team;
    pthread_mutex_lock(&t->lock);
    while (!t->go && !t->cancelled)
        pthread_cond_wait(&t->changed, &t->lock);
    bool go = t->go;
    pthread_mutex_unlock(&t->lock);
    if (go) {
        pthread_barrier_wait(&t->barrier);
        run(w);
    }
    return NULL;
}

/* Starts the other threads, works as the first one, and returns the seconds of the supersteps. */
static int run_team(team *t, worker *workers, uint32_t count, double *seconds)
{
    uint32_t started = 1;
    int error = 0;
    while (started < count && error == 0) {
        error = pthread_create(&workers[started].thread, NULL, worker_main, &workers[started]);
        started += error == 0;
    }
    pthread_mutex_lock(&t->lock);
    t->go = error == 0;
    t->cancelled = error != 0;
    pthread_cond_broadcast(&t->changed);
    pthread_mutex_unlock(&t->lock);
    if (error == 0) {
        pthread_barrier_wait(&t->barrier);
        double start = program_seconds();
        run(&workers[0]);
        *seconds = program_seconds() - start;
    }
    for (uint32_t i = 1; i < started; i++)
        pthread_join(workers[i].thread, NULL);
    return error == 0 ? PROGRAM_OK
                      : program_failed(PAGERANK_NAME, "cannot start thread %u: %s", started,
                                       strerror(error));
}

/* Gives the vertices their first ranks and every thread its edges. */
static int prepare(team *t, worker *workers, uint32_t count)
{
    const graph *g = t->job->graph;
    graph_error error;
    for (uint32_t i = 0; i < count; i++) {
        worker *w = &workers[i];
        w->team = t;
        w->number = i;
        if (graph_part_make(&w->part, g, &t->partition, i, &error) != 0)
            return program_failed(PAGERANK_NAME, "%s", error.text);
        size_t first = (size_t)i * t->partition.stride;
        for (uint32_t v = 0; v < w->part.vertices; v++) {
            double rank = 1.0 / g->vertices;
            t->ranks[first + v] = rank;
            t->shares[0][first + v] = pagerank_share(rank, w->part.out_degree[v]);
        }
    }
    return PROGRAM_OK;
}

int pagerank_shm(const pagerank_job *job, pagerank_result *result)
{
    const graph *g = job->graph;
    uint32_t count = job->threads;
    team t = {.job = job};
    graph_error error;
    if (graph_partition_make(&t.partition, g->vertices, count, job->seed, &error) != 0)
        return program_failed(PAGERANK_NAME, "%s", error.text);

    size_t slots = (size_t)t.partition.stride * count;
    worker *workers = calloc(count, sizeof *workers);
    *result = (pagerank_result){.ranks = malloc(g->vertices * sizeof(double))};
    t.shares[0] = calloc(slots, sizeof(double));
    t.shares[1] = calloc(slots, sizeof(double));
    t.ranks = calloc(slots, sizeof(double));
    pthread_mutex_init(&t.lock, NULL);
    pthread_cond_init(&t.changed, NULL);
    int status = PROGRAM_OK;
    if (!workers || !result->ranks || !t.shares[0] || !t.shares[1] || !t.ranks ||
        pthread_barrier_init(&t.barrier, NULL, count) != 0) {
        status = program_failed(PAGERANK_NAME, "not enough memory for the ranks");
    } else {
        status = prepare(&t, workers, count);
        if (status == PROGRAM_OK)
            status = run_team(&t, workers, count, &result->seconds);
        pthread_barrier_destroy(&t.barrier);
    }
    if (status == PROGRAM_OK)
        for (uint32_t v = 0; v < g->vertices; v++)
            result->ranks[v] = t.ranks[t.partition.slot[v]];

    pthread_cond_destroy(&t.changed);
    pthread_mutex_destroy(&t.lock);
    for (uint32_t i = 0; workers && i < count; i++)
        graph_part_free(&workers[i].part);
    free(workers);
    free(t.ranks);
    free(t.shares[0]);
    free(t.shares[1]);
    graph_partition_free(&t.partition);
    return status;
}
