/*
 * many_reads: remote reads of many threads at once, each with a queue pair of its own (Manycore NI,
 * section 5). Every thread reads random places of the peer's segment into its local buffers: one
 * read after the other, or as many as its queue takes. The region of interest is what is measured.
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
#include <rackmem/region.h>
#include <semaphore.h>
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

enum {
    MOST_THREADS = 256,
    /* Entries that are posted between two looks at the CQ: a block of the WQ. */
    POSTS_PER_LOOK = 4
};

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
    uint64_t threads;
    bool async;
    bool bare;
    bool in_turn;
    pthread_barrier_t start;
    struct worker *workers;
} job;

typedef struct worker {
    job *job;
    QP *qp;
    unsigned char *buffer;
    uint64_t random;
    uint64_t next_buffer;
    double begin, end; /* seconds */
    int error;
    sem_t turn;
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

/* A random place in a thread's buffer, to begin at: threads that went through theirs in step would all
 * write to the same bank and set of a cache at once, as buffers are a power of two apart. */
static uint64_t first_buffer(const job *j, uint64_t thread)
{
    return (thread + 1) * UINT64_C(0xd1342543de82ef95) % (j->buffer_bytes / j->bytes) * j->bytes;
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

/* A queue pair without the library, in registers: the instructions are about those that the paper
 * counts (section 3.1), an entry by a dozen and two stores, and a look by four. There are no fences:
 * cores of the model, as of the paper, keep stores in order, and nobody looks at the data. */
typedef struct bare_queues {
    uint64_t *wq;
    const volatile rackmem_cq_entry *cq;
    uint32_t size, posted, reaped;
    uint32_t failed; /* a status that is not 0, or 0 */
    uint64_t fields; /* of the first word of all entries */
    uint64_t random, offset_mask;
    uint64_t buffer, first_buffer, end_of_buffers, bytes;
} bare_queues;

static inline bare_queues bare_queues_of(const worker *w)
{
    const job *j = w->job;
    uint64_t buffer = (uint64_t)(uintptr_t)w->buffer;
    /* Places are multiples of the bytes of a read, and both are powers of two. */
    return (bare_queues){
        .wq = w->qp->wq->word, .cq = w->qp->cq, .size = w->qp->size, .posted = w->qp->posted,
        .reaped = w->qp->reaped, .random = w->random,
        .fields = rackmem_wq_word0(0, RACKMEM_OP_READ, (uint64_t)j->peer, j->region_offset,
                                   j->bytes),
        .offset_mask = (j->region_bytes - 1) & -j->bytes, .bytes = j->bytes,
        .buffer = buffer + w->next_buffer, .first_buffer = buffer,
        .end_of_buffers = buffer + j->buffer_bytes / j->bytes * j->bytes};
}

static inline void post_bare(bare_queues *q)
{
    q->random ^= q->random << 13;
    q->random ^= q->random >> 7;
    q->random ^= q->random << 17;
    uint64_t offset = q->random & q->offset_mask;
    uint64_t phase = (q->posted & q->size) == 0;
    volatile uint64_t *word = &q->wq[2 * (q->posted & (q->size - 1))];
    q->posted++;
    word[1] = rackmem_wq_word1(q->buffer, q->bytes);
    word[0] = (q->fields + (offset << 16)) | phase;
    q->buffer += q->bytes;
    if (q->buffer == q->end_of_buffers)
        q->buffer = q->first_buffer;
}

/* The slot that has completed, or -1. */
static inline int64_t look_bare(bare_queues *q)
{
    rackmem_cq_entry entry = q->cq[q->reaped & (q->size - 1)];
    if (rackmem_cq_phase(entry) != ((q->reaped & q->size) == 0))
        return -1;
    q->reaped++;
    if (q->failed == 0)
        q->failed = rackmem_cq_status(entry);
    return rackmem_cq_slot(entry);
}

static void read_bare_sync(bare_queues *q, uint64_t reads)
{
    for (uint64_t i = 0; i < reads; i++) {
        post_bare(q);
        while (look_bare(q) < 0)
            ;
    }
}

static void read_bare_async(bare_queues *q, uint64_t reads)
{
    bool is_busy[MAX_WQ_SIZE] = {0};
    const uint32_t last = q->size - 1;
    for (uint64_t i = 0; i < reads || q->reaped != q->posted;) {
        int64_t slot;
        const bool may_post = i < reads && !is_busy[q->posted & last];
        if (!may_post || i % POSTS_PER_LOOK == 0)
            while ((slot = look_bare(q)) >= 0)
                is_busy[slot] = false;
        if (may_post) {
            is_busy[q->posted & last] = true;
            post_bare(q);
            i++;
        }
    }
}

static int read_bare(worker *w, uint64_t reads)
{
    bare_queues q = bare_queues_of(w);
    if (w->job->async)
        read_bare_async(&q, reads);
    else
        read_bare_sync(&q, reads);
    w->random = q.random;
    w->next_buffer = q.buffer - q.first_buffer;
    w->qp->posted = q.posted;
    w->qp->reaped = q.reaped;
    return rackmem_status_errno(q.failed);
}

static int read_some(worker *w, uint64_t reads)
{
    const job *j = w->job;
    if (reads == 0)
        return 0;
    return (j->bare ? read_bare : j->async ? read_async : read_sync)(w, reads);
}

static int read_all(worker *w, uint64_t reads)
{
    const job *j = w->job;
    if (!j->in_turn)
        return read_some(w, reads);
    while (sem_wait(&w->turn) != 0)
        ;
    int error = read_some(w, reads);
    uint64_t next = (uint64_t)(w - j->workers) + 1;
    sem_post(&j->workers[next < j->threads ? next : 0].turn);
    return error;
}

static void *work(void *argument)
{
    worker *w = argument;
    job *j = w->job;
    if (rackmem_qp_create(j->ctx, MAX_WQ_SIZE, &w->qp) != 0)
        w->error = program_call_failed(NAME, "cannot make a queue pair");
    int error = read_all(w, w->error == 0 ? j->warm_up : 0);
    if (error != 0)
        w->error = program_operation_failed(NAME, "remote read", error);
    pthread_barrier_wait(&j->start);
    for (uint64_t t = 0; t < j->threads; t++)
        if (j->workers[t].error != 0)
            return NULL;
    w->begin = program_seconds();
    rackmem_region_begin();
    error = read_all(w, j->reads);
    rackmem_region_end();
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

static void print(const job *j, bool json)
{
    const worker *workers = j->workers;
    const uint64_t threads = j->threads;
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

static int run(job *j, bool json)
{
    static worker workers[MOST_THREADS];
    const uint64_t threads = j->threads;
    unsigned char *buffers = rackmem_alloc(j->ctx, threads * j->buffer_bytes);
    if (!buffers)
        return program_call_failed(NAME, "no memory for local buffers");
    pthread_barrier_init(&j->start, NULL, (unsigned)threads);
    j->workers = workers;
    for (uint64_t t = 0; t < threads; t++) {
        workers[t] = (worker){.job = j, .buffer = buffers + t * j->buffer_bytes,
                              .random = (t + 1) * UINT64_C(0x9e3779b97f4a7c15),
                              .next_buffer = first_buffer(j, t)};
        sem_init(&workers[t].turn, 0, t == 0);
    }
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
        print(j, json);
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
    job j = {.threads = 1, .bytes = 64, .reads = 1000, .warm_up = 136, .region_bytes = 64 << 20,
             .buffer_bytes = 1 << 20};
    bool json = false;
    const option options[] = {
        {"threads", OPTION_NUMBER, &j.threads, "N", "threads of each node (1)", 1, MOST_THREADS},
        {"async", OPTION_FLAG, &j.async, NULL, "as many reads at once as the queue takes", 0, 0},
        {"bare", OPTION_FLAG, &j.bare, NULL, "by the queues themselves, on the model only", 0, 0},
        {"in-turn", OPTION_FLAG, &j.in_turn, NULL, "a thread reads when the one before it is done", 0,
         0},
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
    if (j.bare && RACKMEM_HAS_WINDOWS)
        return program_failed(NAME, "--bare needs a controller that is a device, as on the model");
    if (j.bare && (j.bytes & (j.bytes - 1) || j.region_bytes & (j.region_bytes - 1)))
        return program_failed(NAME, "with --bare, --bytes and --region have to be powers of two");
    if (j.async && j.in_turn)
        return program_failed(NAME, "--in-turn is of one read after the other, not of --async");
    status = open_rack(&j);
    if (status == 0)
        status = run(&j, json);
    rackmem_close(j.ctx);
    return status == 0 ? program_flush(NAME) : status;
}
