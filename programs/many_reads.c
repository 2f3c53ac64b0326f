/*
 * many_reads: remote reads of many threads at once, each with a queue pair of its own (Manycore NI,
 * section 5). Every thread reads random places of the peer's segment into its local buffers: one
 * read after the other, or as many as its queue takes.
 *
 * Nodes 0 and 1 do the same. Neither writes to the other but at the end, so that the peer may as well
 * be a mirror image, as it is of a single chip of the model.
 */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include <inttypes.h>
#include <pthread.h>
#include <rackmem.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"
#include "program.h"

#define NAME "many_reads"

static const char about[] =
    "Reads random places of another node's memory, by many threads with a queue pair each, and\n"
    "prints the latency or the bandwidth.\n"
    "\n"
    "  rackmem run -n 2 -- build/many_reads --threads 2 --async --bytes 4096\n"
    "  rackmem sim exec manycore-ni -- many_reads.rv64 --threads 64 --async --bytes 512\n";

enum { MOST_THREADS = 256 };

typedef struct job {
    rackmem_context *ctx;
    int nid;
    int peer;
    uint64_t region_bytes;
    uint64_t region_offset;
    uint64_t done_offset;
    uint64_t bytes;
    uint64_t reads;
    uint64_t warm_up;
    uint64_t buffer_bytes;
    bool async;
    pthread_barrier_t start;
} job;

typedef struct worker {
    job *job;
    QP *qp;
    unsigned char *buffer;
    uint64_t random;
    uint64_t next_buffer;
    double begin, end; /* seconds */
    int error;
    pthread_t thread;
} worker;

/* xorshift64*: what matters is that it is the same every time and cheap. */
static inline uint64_t next_random(worker *w)
{
    w->random ^= w->random >> 12;
    w->random ^= w->random << 25;
    w->random ^= w->random >> 27;
    return w->random * UINT64_C(0x2545f4914f6cdd1d);
}

/* A random place for a whole read, at a multiple of a line. */
static inline uint64_t next_offset(worker *w)
{
    const job *j = w->job;
    uint64_t places = (j->region_bytes - j->bytes) / RACKMEM_LINE_BYTES + 1;
    uint64_t place = (uint64_t)(((unsigned __int128)next_random(w) * places) >> 64);
    return j->region_offset + place * RACKMEM_LINE_BYTES;
}

static inline unsigned char *next_buffer(worker *w)
{
    const job *j = w->job;
    uint64_t at = w->next_buffer;
    w->next_buffer = at + 2 * j->bytes <= j->buffer_bytes ? at + j->bytes : 0;
    return w->buffer + at;
}

static int read_sync(worker *w, uint64_t reads)
{
    const job *j = w->job;
    for (uint64_t i = 0; i < reads; i++) {
        int error = rmc_read(w->qp, j->peer, next_offset(w), next_buffer(w), j->bytes);
        if (error != 0)
            return error;
    }
    return 0;
}

/* The queue is filled; completions are looked at now and then, as each look costs. */
static int read_async(worker *w, uint64_t reads)
{
    const job *j = w->job;
    for (uint64_t i = 0; i < reads; i++) {
        int slot = rmc_wait_for_slot(w->qp, NULL);
        rmc_read_async(w->qp, slot, j->peer, next_offset(w), next_buffer(w), j->bytes);
    }
    return rmc_drain_cq(w->qp, NULL);
}

static void *work(void *argument)
{
    worker *w = argument;
    job *j = w->job;
    if (rackmem_qp_create(j->ctx, MAX_WQ_SIZE, &w->qp) != 0) {
        w->error = program_call_failed(NAME, "cannot make a queue pair");
        pthread_barrier_wait(&j->start);
        return NULL;
    }
    int error = (j->async ? read_async : read_sync)(w, j->warm_up);
    pthread_barrier_wait(&j->start);
    w->begin = program_seconds();
    if (error == 0)
        error = (j->async ? read_async : read_sync)(w, j->reads);
    w->end = program_seconds();
    if (error != 0)
        w->error = program_operation_failed(NAME, "remote read", error);
    return NULL;
}

/* Tells the peer that nothing more comes from here, and waits for the same from there. */
static int finish(job *j, QP *qp)
{
    int error = rmc_fetch_and_add(qp, j->peer, j->done_offset, 1, NULL);
    if (error != 0)
        return program_operation_failed(NAME, "telling the peer", error);
    const uint64_t *done = (const uint64_t *)(const void *)
        ((const char *)rackmem_segment(j->ctx) + j->done_offset);
    while (__atomic_load_n(done, __ATOMIC_ACQUIRE) == 0)
        ;
    return 0;
}

static void print(const job *j, const worker *workers, uint64_t threads, bool json)
{
    double begin = workers[0].begin, end = workers[0].end, sum = 0;
    for (uint64_t t = 0; t < threads; t++) {
        begin = workers[t].begin < begin ? workers[t].begin : begin;
        end = workers[t].end > end ? workers[t].end : end;
        sum += workers[t].end - workers[t].begin;
    }
    double reads = (double)(j->reads * threads);
    double per_second = reads / (end - begin);
    double mean_us = sum / reads * 1e6;
    if (json)
        printf("{\"program\":\"many_reads\",\"threads\":%" PRIu64 ",\"async\":%s,\"bytes\":%" PRIu64
               ",\"reads\":%.0f,\"mean_us\":%.5f,\"operations_per_second\":%.0f"
               ",\"bytes_per_second\":%.0f}\n",
               threads, j->async ? "true" : "false", j->bytes, reads, mean_us, per_second,
               per_second * (double)j->bytes);
    else
        printf("%" PRIu64 " threads, %" PRIu64 " bytes: %.3f us a read, %.3f Mops/s, %.3f GB/s\n",
               threads, j->bytes, mean_us, per_second * 1e-6,
               per_second * (double)j->bytes * 1e-9);
}

static int run(job *j, uint64_t threads, bool json)
{
    static worker workers[MOST_THREADS];
    unsigned char *buffers = rackmem_alloc(j->ctx, threads * j->buffer_bytes);
    if (!buffers)
        return program_call_failed(NAME, "no memory for local buffers");
    pthread_barrier_init(&j->start, NULL, (unsigned)threads);
    for (uint64_t t = 0; t < threads; t++)
        workers[t] = (worker){.job = j, .buffer = buffers + t * j->buffer_bytes,
                              .random = (t + 1) * UINT64_C(0x9e3779b97f4a7c15)};
    /* The main thread works as well: on the model there is a core for each. */
    for (uint64_t t = 1; t < threads; t++)
        if (pthread_create(&workers[t].thread, NULL, work, &workers[t]) != 0)
            return program_failed(NAME, "cannot start thread %" PRIu64, t);
    work(&workers[0]);
    int status = workers[0].error;
    for (uint64_t t = 1; t < threads; t++) {
        pthread_join(workers[t].thread, NULL);
        status = status ? status : workers[t].error;
    }
    if (status == 0 && j->nid == 0)
        print(j, workers, threads, json);
    return status == 0 ? finish(j, workers[0].qp) : status;
}

static int open_rack(job *j)
{
    j->done_offset = 0;
    j->region_offset = RACKMEM_LINE_BYTES;
    if (rackmem_init(&j->ctx, j->region_offset + j->region_bytes) != 0)
        return program_call_failed(NAME, "cannot join the rack");
    j->nid = rackmem_nid(j->ctx);
    j->peer = 1 - j->nid;
    if (rackmem_nodes(j->ctx) != 2)
        return program_failed(NAME, "needs two nodes: rackmem run -n 2 -- build/many_reads");
    if (rackmem_wait_joined(j->ctx, j->peer, 60000) != 0)
        return program_call_failed(NAME, "the other node is missing");
    return 0;
}

int main(int argc, char **argv)
{
    job j = {.bytes = 64, .reads = 1000, .warm_up = 136, .region_bytes = 64 << 20,
             .buffer_bytes = 1 << 20};
    uint64_t threads = 1;
    bool json = false;
    const option options[] = {
        {"threads", OPTION_NUMBER, &threads, "N", "threads of each node (1)", 1, MOST_THREADS},
        {"async", OPTION_FLAG, &j.async, NULL, "as many reads at once as the queue takes", 0, 0},
        {"bytes", OPTION_BYTES, &j.bytes, "SIZE", "of a read (64)", 1, 1 << 20},
        {"reads", OPTION_NUMBER, &j.reads, "N", "of each thread that are measured (1000)", 1,
         UINT64_C(1) << 40},
        {"warm-up", OPTION_NUMBER, &j.warm_up, "N", "reads before that (136: more than a queue)", 0,
         UINT64_C(1) << 40},
        {"region", OPTION_BYTES, &j.region_bytes, "SIZE", "memory that reads go to (64M)", 1 << 20,
         UINT64_C(1) << 36},
        {"buffers", OPTION_BYTES, &j.buffer_bytes, "SIZE", "local memory of each thread (1M)",
         1 << 12, UINT64_C(1) << 32},
        {"json", OPTION_FLAG, &json, NULL, "print one line of JSON", 0, 0},
        {0},
    };
    const command_line line = {NAME, "[OPTIONS]", about, options, NULL};
    int status = options_parse(&line, argc, argv);
    if (status != OPTIONS_GO_ON)
        return status;
    if (j.bytes > j.buffer_bytes)
        return program_failed(NAME, "--buffers has to be --bytes at least");
    status = open_rack(&j);
    if (status == 0)
        status = run(&j, threads, json);
    rackmem_close(j.ctx);
    return status == 0 ? program_flush(NAME) : status;
}
