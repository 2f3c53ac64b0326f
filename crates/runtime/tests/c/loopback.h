/*
 * A rack within one process, for tests of what is built on access.h: nodes are threads, segments
 * are arrays, and the functions of runtime.h that the headers call are here. Remote writes keep
 * rackmem's guarantee (each line's first 8 bytes last, with release order) and no other: queued
 * operations run in any order, and so do their lines.
 */
#ifndef LOOPBACK_H
#define LOOPBACK_H

#include "message_data.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { LOOPBACK_MAX_NODES = 8, LOOPBACK_MAX_QPS = 4, LOOPBACK_MAX_ALLOCATIONS = 64 };

/* The thread that runs the operations. */
enum loopback_mode {
    LOOPBACK_INLINE,    /* the caller, at once */
    LOOPBACK_QUEUED,    /* the caller, when it waits, in any order */
    LOOPBACK_MIXED,     /* the caller, synchronous ones at once, others as in LOOPBACK_QUEUED */
    LOOPBACK_CONTROLLER /* a thread per queue pair, in any order */
};

typedef struct loopback_qp {
    QP qp; /* first: the engine finds the rest by it */
    rackmem_context *ctx;
    rackmem_wq_entry wq[MAX_WQ_SIZE];
    rackmem_cq_entry cq[MAX_WQ_SIZE];
    uint64_t operands[2 * MAX_WQ_SIZE];
    uint32_t seen;      /* entries taken off the WQ */
    uint32_t completed; /* entries written to the CQ */
    uint32_t waiting[MAX_WQ_SIZE];
    uint32_t waits;
    uint64_t random;
    uint32_t asleep;
    int stop;
    pthread_t controller;
} loopback_qp;

struct loopback_rack;

struct rackmem_context {
    struct loopback_rack *rack;
    int nid;
    unsigned char *segment;
    size_t segment_bytes;
    int lost;
    uint64_t writes;   /* remote writes to this node's segment, ever */
    uint64_t sent_to;  /* remote writes by this node */
    uint64_t sleeps;
    loopback_qp *qps[LOOPBACK_MAX_QPS];
    void *allocations[LOOPBACK_MAX_ALLOCATIONS];
    int qp_count, allocation_count;
};

typedef struct loopback_rack {
    int nodes;
    enum loopback_mode mode;
    uint32_t spin_limit;
    rackmem_context node[LOOPBACK_MAX_NODES];
} loopback_rack;

/* Copies part of a line; the first word of the line, if it is whole, comes last. */
static inline void loopback_write_piece(unsigned char *to, const unsigned char *from, size_t n)
{
    if ((uintptr_t)to % RACKMEM_LINE_BYTES == 0 && n >= 8) {
        uint64_t first;
        memcpy(&first, from, 8);
        memcpy(to + 8, from + 8, n - 8);
        __atomic_store_n((uint64_t *)(void *)to, first, __ATOMIC_RELEASE);
    } else {
        memcpy(to, from, n);
    }
}

/* Runs the lines of a copy in order, or from a random one on and round. */
static inline void loopback_copy(unsigned char *remote, unsigned char *local, size_t length,
                                 int is_write, uint64_t *random)
{
    size_t head = (RACKMEM_LINE_BYTES - (uintptr_t)remote % RACKMEM_LINE_BYTES) % RACKMEM_LINE_BYTES;
    size_t pieces = length <= head ? 1 : (head != 0) + (length - head + 63) / 64;
    size_t start = random && pieces > 1 ? next_random(random) % pieces : 0;
    for (size_t i = 0; i < pieces; i++) {
        size_t piece = (start + i) % pieces;
        size_t from = piece == 0 ? 0 : (head ? head + (piece - 1) * 64 : piece * 64);
        size_t to = piece == 0 && head ? head : from + 64;
        if (to > length)
            to = length;
        if (is_write)
            loopback_write_piece(remote + from, local + from, to - from);
        else
            memcpy(local + from, remote + from, to - from);
    }
}

/* Performs an operation; its lines come in order, or, given a source of chance, in any. */
static inline uint32_t loopback_run(loopback_qp *l, uint32_t op, uint32_t nid, uint64_t offset,
                                    uint64_t buffer, uint64_t length, uint64_t *random)
{
    rackmem_context *from = l->ctx;
    unsigned char *local = (unsigned char *)(uintptr_t)buffer;
    if (nid >= (uint32_t)from->rack->nodes)
        return RACKMEM_NO_NODE;
    rackmem_context *to = &from->rack->node[nid];
    if (__atomic_load_n(&to->lost, __ATOMIC_ACQUIRE))
        return RACKMEM_NODE_LOST;
    if (offset > to->segment_bytes || length > to->segment_bytes - offset)
        return RACKMEM_OUT_OF_SEGMENT;
    if (op != RACKMEM_OP_READ && op != RACKMEM_OP_WRITE)
        return RACKMEM_BAD_OPERATION;
    if (length > 0)
        loopback_copy(to->segment + offset, local, length, op == RACKMEM_OP_WRITE, random);
    if (op == RACKMEM_OP_WRITE) {
        from->sent_to++;
        __atomic_add_fetch(&to->writes, 1, __ATOMIC_SEQ_CST);
    }
    return RACKMEM_OK;
}

static inline uint32_t loopback_execute(QP *qp, uint32_t op, uint32_t nid, uint64_t offset,
                                        uint64_t buffer, uint64_t length)
{
    return loopback_run((loopback_qp *)(void *)qp, op, nid, offset, buffer, length, NULL);
}

static inline uint32_t loopback_run_entry(loopback_qp *l, const rackmem_wq_entry *entry)
{
    uint64_t word0 = entry->word[0], word1 = entry->word[1];
    return loopback_run(l, word0 >> 1 & 7, word0 >> 4 & 0xfff, word0 >> 16 & RACKMEM_MAX_OFFSET,
                        word1 & RACKMEM_MAX_ADDRESS, word0 >> 56 << 16 | word1 >> 48, &l->random);
}

/* Takes posted entries, and runs some of those taken, the order being random. */
static inline void loopback_progress(QP *qp)
{
    loopback_qp *l = (loopback_qp *)(void *)qp;
    for (;;) {
        uint64_t word0 = __atomic_load_n(&qp->wq[l->seen & (qp->size - 1)].word[0], __ATOMIC_ACQUIRE);
        if ((word0 & 1) != ((l->seen & qp->size) == 0) || l->waits == qp->size)
            break;
        l->waiting[l->waits++] = l->seen++ & (qp->size - 1);
    }
    uint64_t runs = next_random(&l->random) % 4;
    while (l->waits > 0 && runs-- > 0) {
        uint32_t pick = (uint32_t)(next_random(&l->random) % l->waits);
        uint32_t slot = l->waiting[pick];
        l->waiting[pick] = l->waiting[--l->waits];
        uint32_t status = loopback_run_entry(l, &qp->wq[slot]);
        uint32_t phase = (l->completed & qp->size) == 0;
        __atomic_store_n(&qp->cq[l->completed++ & (qp->size - 1)], slot | status << 16 | phase << 31,
                         __ATOMIC_RELEASE);
    }
}

/* A thread that only yields waits for a whole slice of the busy ones. One that sleeps is back at
 * once. */
static inline void loopback_rest(void)
{
    const struct timespec moment = {0, 20000};
    nanosleep(&moment, NULL);
}

static inline void *loopback_controller(void *arg)
{
    loopback_qp *l = (loopback_qp *)arg;
    while (!__atomic_load_n(&l->stop, __ATOMIC_ACQUIRE)) {
        loopback_progress(&l->qp);
        if (l->waits == 0)
            loopback_rest();
    }
    return NULL;
}

static inline void loopback_yield(QP *qp)
{
    (void)qp;
    loopback_rest();
}

static inline void loopback_wake(QP *qp)
{
    (void)qp;
}

/* Posts an entry as a program would that has no engine to start operations. */
static inline uint32_t loopback_post(QP *qp, uint32_t op, uint32_t nid, uint64_t offset,
                                     uint64_t buffer, uint64_t length)
{
    rackmem_wq_entry *entry = &qp->wq[qp->posted & (qp->size - 1)];
    uint64_t phase = (qp->posted & qp->size) == 0;
    entry->word[1] = rackmem_wq_word1(buffer, length);
    entry->word[0] = rackmem_wq_word0(phase, op, nid, offset, length);
    return RACKMEM_POSTED;
}

static const rackmem_engine loopback_engines[] = {
    {loopback_execute, loopback_progress, loopback_wake, NULL, loopback_execute, 0},
    {NULL, loopback_progress, loopback_wake, NULL, NULL, 0},
    {loopback_execute, loopback_progress, loopback_wake, NULL, loopback_post, 1},
    {NULL, NULL, loopback_wake, loopback_yield, NULL, 0},
};

/* ---- runtime.h --------------------------------------------------------------------------- */

int rackmem_nid(const rackmem_context *ctx)
{
    return ctx->nid;
}

int rackmem_nodes(const rackmem_context *ctx)
{
    return ctx->rack->nodes;
}

uint64_t rackmem_losses(const rackmem_context *c)
{
    (void)c;
    return 0;
}

void *rackmem_segment(const rackmem_context *ctx)
{
    return ctx->segment;
}

size_t rackmem_segment_bytes(const rackmem_context *ctx)
{
    return ctx->segment_bytes;
}

int rackmem_map(rackmem_context *ctx, int nid, rackmem_mapping *mapping)
{
    (void)ctx, (void)nid, (void)mapping;
    return -95; /* EOPNOTSUPP */
}

int rackmem_explain(int error, const char *what)
{
    (void)what;
    return error;
}

int rackmem_set_last_error(int error, const char *text)
{
    (void)text;
    return error;
}

void *rackmem_alloc(rackmem_context *ctx, size_t size_bytes)
{
    size_t pages = (size_bytes + 4095) / 4096;
    CHECK(ctx->allocation_count < LOOPBACK_MAX_ALLOCATIONS);
    void *memory = aligned_alloc(4096, pages * 4096);
    CHECK(memory);
    memset(memory, 0, pages * 4096);
    ctx->allocations[ctx->allocation_count++] = memory;
    return memory;
}

int rackmem_qp_create(rackmem_context *ctx, unsigned entries, QP **qp)
{
    loopback_qp *l = (loopback_qp *)calloc(1, sizeof *l);
    CHECK(l && ctx->qp_count < LOOPBACK_MAX_QPS);
    l->ctx = ctx;
    l->random = 88172645463325252u + (uint64_t)ctx->nid;
    l->qp.wq = l->wq;
    l->qp.cq = l->cq;
    l->qp.operands = l->operands;
    l->qp.rmc_asleep = &l->asleep;
    l->qp.engine = &loopback_engines[ctx->rack->mode];
    l->qp.size = entries;
    l->qp.spin_limit = ctx->rack->spin_limit;
    if (ctx->rack->mode == LOOPBACK_CONTROLLER)
        CHECK(pthread_create(&l->controller, NULL, loopback_controller, l) == 0);
    ctx->qps[ctx->qp_count++] = l;
    *qp = &l->qp;
    return 0;
}

static inline double loopback_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + 1e-9 * (double)now.tv_nsec;
}

/* Longer than any wait of a test that goes well. */
#define LOOPBACK_HANG_SECONDS 120

int rackmem_sleep_until(rackmem_context *ctx, int (*ready)(void *arg), void *arg, int watch_nid,
                        int timeout_ms)
{
    double start = loopback_now();
    ctx->sleeps++;
    for (;;) {
        uint64_t writes = __atomic_load_n(&ctx->writes, __ATOMIC_SEQ_CST);
        if (ready(arg))
            return 0;
        if (watch_nid >= 0 && __atomic_load_n(&ctx->rack->node[watch_nid].lost, __ATOMIC_ACQUIRE))
            return -112;
        /* Only a remote write wakes: nothing else may make `ready` true. */
        while (__atomic_load_n(&ctx->writes, __ATOMIC_SEQ_CST) == writes) {
            double waited = loopback_now() - start;
            if (timeout_ms >= 0 && waited * 1e3 > timeout_ms)
                return -110;
            if (watch_nid >= 0 &&
                __atomic_load_n(&ctx->rack->node[watch_nid].lost, __ATOMIC_ACQUIRE))
                break;
            CHECK(waited < LOOPBACK_HANG_SECONDS);
            loopback_rest();
        }
    }
}

/* ---- A rack and its programs ------------------------------------------------------------- */

typedef struct loopback_thread {
    pthread_t thread;
    rackmem_context *ctx;
    void (*program)(rackmem_context *ctx, void *arg);
    void *arg;
} loopback_thread;

static inline void *loopback_start(void *arg)
{
    loopback_thread *t = (loopback_thread *)arg;
    t->program(t->ctx, t->arg);
    return NULL;
}

static inline void loopback_open(loopback_rack *rack, int nodes, enum loopback_mode mode,
                                 uint32_t spin_limit, size_t segment_bytes)
{
    memset(rack, 0, sizeof *rack);
    rack->nodes = nodes;
    rack->mode = mode;
    rack->spin_limit = spin_limit;
    for (int nid = 0; nid < nodes; nid++) {
        rackmem_context *ctx = &rack->node[nid];
        ctx->rack = rack;
        ctx->nid = nid;
        ctx->segment_bytes = (segment_bytes + 4095) / 4096 * 4096;
        ctx->segment = (unsigned char *)aligned_alloc(4096, ctx->segment_bytes);
        CHECK(ctx->segment);
        memset(ctx->segment, 0, ctx->segment_bytes);
    }
}

static inline void loopback_close(loopback_rack *rack)
{
    for (int nid = 0; nid < rack->nodes; nid++) {
        rackmem_context *ctx = &rack->node[nid];
        for (int i = 0; i < ctx->qp_count; i++) {
            __atomic_store_n(&ctx->qps[i]->stop, 1, __ATOMIC_RELEASE);
            if (rack->mode == LOOPBACK_CONTROLLER)
                pthread_join(ctx->qps[i]->controller, NULL);
            free(ctx->qps[i]);
        }
        for (int i = 0; i < ctx->allocation_count; i++)
            free(ctx->allocations[i]);
        free(ctx->segment);
    }
}

/* Runs `program` on every node of a new rack, one thread each. */
static inline void loopback_rack_run(int nodes, enum loopback_mode mode, uint32_t spin_limit,
                                     size_t segment_bytes,
                                     void (*program)(rackmem_context *ctx, void *arg), void *arg)
{
    loopback_rack rack;
    loopback_thread threads[LOOPBACK_MAX_NODES];
    loopback_open(&rack, nodes, mode, spin_limit, segment_bytes);
    for (int nid = 0; nid < nodes; nid++) {
        threads[nid].ctx = &rack.node[nid];
        threads[nid].program = program;
        threads[nid].arg = arg;
        CHECK(pthread_create(&threads[nid].thread, NULL, loopback_start, &threads[nid]) == 0);
    }
    for (int nid = 0; nid < nodes; nid++)
        pthread_join(threads[nid].thread, NULL);
    loopback_close(&rack);
    putchar('.'); /* tells who waits for the program that it gets on */
    fflush(stdout);
}

static inline void loopback_lose(rackmem_context *ctx)
{
    __atomic_store_n(&ctx->lost, 1, __ATOMIC_RELEASE);
}

#endif
