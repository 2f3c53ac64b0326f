/*
 * librackmem for programs that are alone: a rack of one node, whose remote operations the calling
 * thread performs on the node's own segment. Needs libc and nothing else, so it goes with every
 * static program, for the executor of the model and for QEMU alike.
 */
#ifndef _POSIX_C_SOURCE
#define _POSIX_C_SOURCE 200809L
#endif
#include <rackmem.h>

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { PAGE_BYTES = 4096, MAX_BUFFERS = 64, DEFAULT_SEGMENT_BYTES = 1 << 20 };

/* A queue pair with its memory, in the list of its context. Nothing is ever posted, but programs
 * look at the completion queue. */
typedef struct owned_qp {
    QP qp;
    rackmem_wq_entry wq[MAX_WQ_SIZE];
    rackmem_cq_entry cq[MAX_WQ_SIZE];
    uint64_t operands[2 * MAX_WQ_SIZE];
    struct owned_qp *next;
} owned_qp;

struct rackmem_context {
    char *segment;
    size_t segment_bytes;
    uint64_t notifications;
    void *buffers[MAX_BUFFERS];
    owned_qp *qps;
    int read_only;
};

static _Thread_local char last_error[160];

__attribute__((format(printf, 2, 3))) static int failed(int error, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(last_error, sizeof last_error, format, arguments);
    va_end(arguments);
    return -error;
}

/* Zeroed whole pages. */
static void *pages(size_t size_bytes)
{
    size_t rounded = (size_bytes + PAGE_BYTES - 1) & ~(size_t)(PAGE_BYTES - 1);
    if (rounded < size_bytes)
        return NULL;
    void *memory = aligned_alloc(PAGE_BYTES, rounded);
    return memory ? memset(memory, 0, rounded) : NULL;
}

/* A number of the environment, or `otherwise`; -1 if it is none. */
static long from_environment(const char *name, long otherwise)
{
    const char *text = getenv(name);
    if (!text)
        return otherwise;
    char *end;
    long value = strtol(text, &end, 10);
    return *text && !*end && value >= 0 ? value : -1;
}

int rackmem_open(rackmem_context **ctx, const rackmem_open_args *args)
{
    if (!ctx || !args)
        return failed(EINVAL, "rackmem_open: an argument is NULL");
    *ctx = NULL;
    if (args->nid > 0)
        return failed(ENXIO, "no such node: %d; this program is alone, its rack has node 0",
                      args->nid);
    size_t size_bytes = args->segment_bytes ? args->segment_bytes : DEFAULT_SEGMENT_BYTES;
    rackmem_context *made = calloc(1, sizeof *made);
    char *segment = pages(size_bytes);
    if (!made || !segment) {
        free(segment);
        free(made);
        return failed(ENOMEM, "a segment of %zu bytes does not fit the machine", size_bytes);
    }
    made->segment = segment;
    made->segment_bytes = (size_bytes + PAGE_BYTES - 1) & ~(size_t)(PAGE_BYTES - 1);
    made->read_only = args->read_only;
    *ctx = made;
    return 0;
}

int rackmem_init(rackmem_context **ctx, size_t segment_bytes)
{
    long nid = from_environment("RACKMEM_NODE", 0), nodes = from_environment("RACKMEM_NODES", 1);
    long size_bytes = from_environment("RACKMEM_CONTEXT_SIZE", 0);
    if (nid != 0 || nodes != 1 || size_bytes < 0)
        return failed(ENOENT, "no rack: this program is alone, and RACKMEM_NODE, RACKMEM_NODES or "
                              "RACKMEM_CONTEXT_SIZE says otherwise");
    rackmem_open_args args = {
        .segment_bytes = segment_bytes ? segment_bytes : (size_t)size_bytes,
    };
    return rackmem_open(ctx, &args);
}

void rackmem_close(rackmem_context *ctx)
{
    if (!ctx)
        return;
    while (ctx->qps)
        rackmem_qp_destroy(&ctx->qps->qp);
    for (int i = 0; i < MAX_BUFFERS; i++)
        free(ctx->buffers[i]);
    free(ctx->segment);
    free(ctx);
}

int rackmem_nid(const rackmem_context *ctx)
{
    (void)ctx;
    return 0;
}

int rackmem_nodes(const rackmem_context *ctx)
{
    (void)ctx;
    return 1;
}

void *rackmem_segment(const rackmem_context *ctx)
{
    return ctx->segment;
}

size_t rackmem_segment_bytes(const rackmem_context *ctx)
{
    return ctx->segment_bytes;
}

int rackmem_wait_joined(rackmem_context *ctx, int nid, int timeout_ms)
{
    (void)ctx;
    (void)timeout_ms;
    return nid == 0 ? 0 : failed(ENXIO, "no such node: %d; the rack has node 0", nid);
}

/* Fetch-and-add or compare-and-swap. */
static uint32_t atomic(uint32_t op, char *at, uint64_t *operands)
{
    uint64_t old = operands[0];
    if (op == RACKMEM_OP_FETCH_ADD)
        old = __atomic_fetch_add((uint64_t *)at, operands[0], __ATOMIC_ACQ_REL);
    else
        __atomic_compare_exchange_n((uint64_t *)at, &old, operands[1], 0, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE);
    operands[0] = old;
    return RACKMEM_OK;
}

/* One operation on the node's own segment, with the checks of the remote memory controller. */
static uint32_t execute(QP *qp, uint32_t op, uint32_t nid, uint64_t offset, uint64_t buffer,
                        uint64_t length)
{
    rackmem_context *ctx = qp->engine_state;
    char *local = (char *)(uintptr_t)buffer;
    int is_atomic = op == RACKMEM_OP_FETCH_ADD || op == RACKMEM_OP_COMPARE_SWAP;
    if (op > RACKMEM_OP_NOTIFY)
        return RACKMEM_BAD_OPERATION;
    if (op == RACKMEM_OP_NOP)
        return RACKMEM_OK;
    if (nid != 0)
        return RACKMEM_NO_NODE;
    if (ctx->read_only && op != RACKMEM_OP_READ)
        return RACKMEM_NO_PERMISSION;
    if (op == RACKMEM_OP_NOTIFY) {
        __atomic_fetch_add(&ctx->notifications, 1, __ATOMIC_RELEASE);
        return RACKMEM_OK;
    }
    if (is_atomic && (offset % 8 || length != 8))
        return RACKMEM_MISALIGNED_ATOMIC;
    if (offset > ctx->segment_bytes || length > ctx->segment_bytes - offset)
        return RACKMEM_OUT_OF_SEGMENT;
    if (length && !local)
        return RACKMEM_BAD_LOCAL_BUFFER;
    if (is_atomic)
        return atomic(op, ctx->segment + offset, (uint64_t *)(void *)local);
    if (op == RACKMEM_OP_READ)
        memmove(local, ctx->segment + offset, length);
    else
        memmove(ctx->segment + offset, local, length);
    return RACKMEM_OK;
}

int rackmem_qp_create(rackmem_context *ctx, unsigned entries, QP **qp)
{
    static const rackmem_engine engine = {.execute = execute};
    static const uint32_t never_asleep;
    if (!ctx || !qp)
        return failed(EINVAL, "rackmem_qp_create: an argument is NULL");
    *qp = NULL;
    if (entries < 2 || entries > MAX_WQ_SIZE || (entries & (entries - 1)))
        return failed(EINVAL, "a queue pair of %u entries: a power of two from 2 to %d is needed",
                      entries, MAX_WQ_SIZE);
    owned_qp *made = calloc(1, sizeof *made);
    if (!made)
        return failed(ENOMEM, "no memory for a queue pair");
    made->qp = (QP){
        .wq = made->wq,
        .cq = made->cq,
        .operands = made->operands,
        .rmc_asleep = &never_asleep,
        .engine = &engine,
        .engine_state = ctx,
        .size = entries,
    };
    made->next = ctx->qps;
    ctx->qps = made;
    *qp = &made->qp;
    return 0;
}

void rackmem_qp_destroy(QP *qp)
{
    if (!qp)
        return;
    owned_qp **link = &((rackmem_context *)qp->engine_state)->qps;
    while (*link && &(*link)->qp != qp)
        link = &(*link)->next;
    owned_qp *found = *link;
    if (found) {
        *link = found->next;
        free(found);
    }
}

void *rackmem_alloc(rackmem_context *ctx, size_t size_bytes)
{
    for (int i = 0; ctx && size_bytes && i < MAX_BUFFERS; i++) {
        if (ctx->buffers[i])
            continue;
        ctx->buffers[i] = pages(size_bytes);
        if (!ctx->buffers[i])
            failed(ENOMEM, "a buffer of %zu bytes does not fit the machine", size_bytes);
        return ctx->buffers[i];
    }
    failed(ENOSPC, "rackmem_alloc: no context, no bytes, or %d buffers already", MAX_BUFFERS);
    return NULL;
}

int rackmem_register(rackmem_context *ctx, void *buffer, size_t size_bytes)
{
    (void)size_bytes;
    return ctx && buffer ? 0 : failed(EINVAL, "rackmem_register: an argument is NULL");
}

static int is_over(const struct timespec *end)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec > end->tv_sec || (now.tv_sec == end->tv_sec && now.tv_nsec >= end->tv_nsec);
}

int rackmem_sleep_until(rackmem_context *ctx, int (*ready)(void *arg), void *arg, int watch_nid,
                        int timeout_ms)
{
    const struct timespec pause = {.tv_nsec = 100 * 1000};
    struct timespec end;
    (void)ctx;
    (void)watch_nid;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += timeout_ms / 1000;
    end.tv_nsec += timeout_ms % 1000 * 1000000L;
    if (end.tv_nsec >= 1000000000L) {
        end.tv_sec++;
        end.tv_nsec -= 1000000000L;
    }
    while (!ready(arg)) {
        if (timeout_ms >= 0 && is_over(&end))
            return failed(ETIMEDOUT, "nothing has come within %d ms", timeout_ms);
        nanosleep(&pause, NULL);
    }
    return 0;
}

struct notified {
    rackmem_context *ctx;
    uint64_t *seen;
};

static int is_notified(void *arg)
{
    struct notified *wait = arg;
    return __atomic_load_n(&wait->ctx->notifications, __ATOMIC_ACQUIRE) != *wait->seen;
}

int rackmem_wait_notify(rackmem_context *ctx, uint64_t *seen, int timeout_ms)
{
    struct notified wait = {ctx, seen};
    int error = rackmem_sleep_until(ctx, is_notified, &wait, -1, timeout_ms);
    *seen = __atomic_load_n(&ctx->notifications, __ATOMIC_ACQUIRE);
    return error;
}

const char *rackmem_last_error(void)
{
    return last_error;
}

const char *rackmem_strerror(int error)
{
    static const char *const texts[RACKMEM_STATUS_COUNT] = {
        "ok",
        "offset plus length is outside the remote segment",
        "the remote node has not joined the context",
        "the context was opened without this right",
        "no such node in the rack",
        "the remote node or its process is gone",
        "the local buffer is not usable memory",
        "an atomic needs 8 bytes at a multiple of 8",
        "no such operation",
    };
    for (uint32_t status = 0; status < RACKMEM_STATUS_COUNT; status++)
        if (rackmem_status_errno(status) == error)
            return texts[status];
    return strerror(error < 0 ? -error : error);
}
