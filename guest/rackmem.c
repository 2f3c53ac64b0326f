/*
 * librackmem for RISC-V programs. On the model it reaches the remote memory controller of its node
 * by the calls of driver.h, and operations go through the queues of access.h. Elsewhere, and
 * without a rack, the program is alone: a rack of one node, whose remote operations the calling
 * thread performs on the node's own segment. Needs libc and nothing else, so it goes with every
 * static program, for the model and for QEMU alike.
 */
#define _DEFAULT_SOURCE
#include <rackmem.h>

#include "driver.h"

#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

enum {
    PAGE_BYTES = 4096,
    DEFAULT_SEGMENT_BYTES = 1 << 20,
    /* Memory below is never a buffer, so that null pointers get an error. */
    LOWEST_ADDRESS = 4096,
    /* For rackmem_init. On the model this is an age. */
    JOIN_TIMEOUT_MS = 1000,
    /* Between two looks at what nobody wakes us for. A core that sleeps costs the model nothing. */
    NAP_NS = 1000
};

#define NO_DEADLINE UINT64_MAX

/* A queue pair in the list of its context. The queues here are those of a program that is alone:
 * nothing is ever posted to them, but programs look at the completion queue. */
typedef struct owned_qp {
    _Alignas(RACKMEM_LINE_BYTES) uint64_t operands[2 * MAX_WQ_SIZE];
    rackmem_wq_entry wq[MAX_WQ_SIZE];
    rackmem_cq_entry cq[MAX_WQ_SIZE];
    uint64_t handle; /* for the driver */
    QP qp;
    struct owned_qp *next;
} owned_qp;

/* A buffer that rackmem_alloc gave out. */
typedef struct owned_buffer {
    void *memory;
    size_t size_bytes;
    struct owned_buffer *next;
} owned_buffer;

/* The place of this process in the rack. */
typedef struct place {
    int is_alone; /* no driver answers */
    int nid;
    int nodes; /* of the rack */
} place;

struct rackmem_context {
    place place;
    int nodes; /* that take part */
    int ctx_id;
    int read_only;
    char *segment;
    size_t segment_bytes;
    uint64_t notifications; /* of a program that is alone */
    pthread_mutex_t lock;   /* of the lists: threads share a context */
    owned_buffer *buffers;
    owned_qp *qps;
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

/* ---- Time -------------------------------------------------------------------------------- */

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

static uint64_t deadline_after(int timeout_ms)
{
    return timeout_ms < 0 ? NO_DEADLINE : now_ns() + (uint64_t)timeout_ms * 1000000u;
}

/* Rests a little; whether the deadline has not come yet. */
static int rest(uint64_t deadline)
{
    const struct timespec nap = {.tv_nsec = NAP_NS};
    if (deadline != NO_DEADLINE && now_ns() >= deadline)
        return 0;
    nanosleep(&nap, NULL);
    return 1;
}

/* ---- Memory ------------------------------------------------------------------------------ */

static size_t round_up_to_page(size_t size_bytes)
{
    return (size_bytes + PAGE_BYTES - 1) & ~(size_t)(PAGE_BYTES - 1);
}

/* Zeroed pages, which cost no time until they are used; the size is whole pages. */
static void *map_pages(size_t size_bytes)
{
    if (size_bytes == 0)
        return NULL; /* it was rounded up beyond the largest number */
    void *memory =
        mmap(NULL, size_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

/* ---- The environment, as `rackmem run` sets it ------------------------------------------- */

/* Sets *value if there is a variable of this name, and it is a number from 0 to `most`. */
static int read_variable(const char *name, long most, long *value)
{
    const char *text = getenv(name);
    if (!text)
        return 0;
    char *end;
    errno = 0;
    long number = strtol(text, &end, 10);
    if (!*text || *end || errno != 0 || number < 0 || number > most)
        return failed(EINVAL, "%s='%s' is not a number in range", name, text);
    *value = number;
    return 0;
}

/* Completes what the caller leaves open: from the environment, else from the driver. */
static int complete_args(rackmem_open_args *args, const place *here, int *nodes)
{
    long nid = here->nid, taking_part = here->nodes, ctx_id = 0, size_bytes = 0;
    int error = read_variable("RACKMEM_NODE", RACKMEM_MAX_NODES - 1, &nid);
    if (error == 0)
        error = read_variable("RACKMEM_NODES", RACKMEM_MAX_NODES, &taking_part);
    if (error == 0)
        error = read_variable("RACKMEM_CONTEXT", INT_MAX, &ctx_id);
    if (error == 0)
        error = read_variable("RACKMEM_CONTEXT_SIZE", LONG_MAX, &size_bytes);
    if (args->nid < 0)
        args->nid = (int)nid;
    if (args->ctx_id < 0)
        args->ctx_id = (int)ctx_id;
    if (args->segment_bytes == 0)
        args->segment_bytes = size_bytes ? (size_t)size_bytes : DEFAULT_SEGMENT_BYTES;
    *nodes = (int)taking_part;
    return error;
}

/* ---- Contexts ---------------------------------------------------------------------------- */

static place find_place(void)
{
    int64_t answer = rackmem_driver_call(RACKMEM_DRIVER_RACK, 0, 0, 0, 0);
    if (answer < 0)
        return (place){.is_alone = 1, .nid = 0, .nodes = 1};
    return (place){.nid = (int)(answer & 0xffff), .nodes = (int)(answer >> 16)};
}

/* Whether this process can be node `nid` of so many: the driver knows which one it is. */
static int check_place(const place *here, int nid, int nodes)
{
    if (here->is_alone && (nid != 0 || nodes != 1))
        return failed(ENOENT, "node %d of %d: there is no rack; this program is alone, node 0 of 1",
                      nid, nodes);
    if (nid != here->nid)
        return failed(ENXIO, "node %d: this process runs on node %d of the rack's %d", nid,
                      here->nid, here->nodes);
    if (nodes > here->nodes || nid >= nodes)
        return failed(EINVAL, "node %d of %d: the rack has %d nodes", nid, nodes, here->nodes);
    return 0;
}

static int map_segment_alone(rackmem_context *ctx, size_t size_bytes)
{
    ctx->segment_bytes = round_up_to_page(size_bytes);
    ctx->segment = map_pages(ctx->segment_bytes);
    return ctx->segment ? 0
                        : failed(ENOMEM, "a segment of %zu bytes does not fit the machine",
                                 size_bytes);
}

static int map_segment(rackmem_context *ctx, size_t size_bytes)
{
    rackmem_driver_segment segment = {0};
    uint64_t flags = ctx->read_only ? RACKMEM_DRIVER_READ_ONLY : 0;
    int64_t answer = rackmem_driver_call(RACKMEM_DRIVER_OPEN, (uint64_t)ctx->ctx_id, size_bytes,
                                         flags, (uint64_t)(uintptr_t)&segment);
    if (answer == -EEXIST)
        return failed(EEXIST, "this process has joined context %d already", ctx->ctx_id);
    if (answer < 0)
        return failed((int)-answer, "cannot join context %d with a segment of %zu bytes: %s",
                      ctx->ctx_id, size_bytes, strerror((int)-answer));
    ctx->segment = (char *)(uintptr_t)segment.address;
    ctx->segment_bytes = (size_t)segment.bytes;
    return 0;
}

int rackmem_version(void)
{
    return RACKMEM_VERSION;
}

/* It is compiled with the program, so both are of one version. */
int rackmem_open_version(rackmem_context **ctx, const rackmem_open_args *args, int version)
{
    (void)version;
    if (!ctx || !args)
        return failed(EINVAL, "rackmem_open: an argument is NULL");
    *ctx = NULL;
    if (args->progress < 0 || args->progress > RACKMEM_PROGRESS_PACKET)
        return failed(EINVAL, "%d is no rackmem_progress", args->progress);
    rackmem_open_args wanted = *args;
    place here = find_place();
    int nodes;
    int error = complete_args(&wanted, &here, &nodes);
    if (error == 0)
        error = check_place(&here, wanted.nid, nodes);
    if (error != 0)
        return error;
    rackmem_context *made = malloc(sizeof *made);
    if (!made)
        return failed(ENOMEM, "no memory for a context");
    *made = (rackmem_context){
        .place = here,
        .nodes = nodes,
        .ctx_id = wanted.ctx_id,
        .read_only = wanted.read_only != 0,
        .lock = PTHREAD_MUTEX_INITIALIZER,
    };
    error = here.is_alone ? map_segment_alone(made, wanted.segment_bytes)
                          : map_segment(made, wanted.segment_bytes);
    if (error != 0) {
        free(made);
        return error;
    }
    *ctx = made;
    return 0;
}

int rackmem_init_version(rackmem_context **ctx, size_t segment_bytes, int version)
{
    rackmem_open_args args = {.nid = -1, .ctx_id = -1, .segment_bytes = segment_bytes};
    int error = rackmem_open_version(ctx, &args, version);
    for (int nid = 0; error == 0 && nid < (*ctx)->nodes; nid++)
        error = rackmem_wait_joined(*ctx, nid, JOIN_TIMEOUT_MS);
    if (error != 0 && ctx) {
        rackmem_close(*ctx);
        *ctx = NULL;
    }
    return error;
}

static void free_buffers(rackmem_context *ctx)
{
    while (ctx->buffers) {
        owned_buffer *buffer = ctx->buffers;
        ctx->buffers = buffer->next;
        munmap(buffer->memory, buffer->size_bytes);
        free(buffer);
    }
}

void rackmem_close(rackmem_context *ctx)
{
    if (!ctx)
        return;
    while (ctx->qps)
        rackmem_qp_destroy(&ctx->qps->qp);
    if (ctx->place.is_alone)
        munmap(ctx->segment, ctx->segment_bytes);
    else
        rackmem_driver_call(RACKMEM_DRIVER_CLOSE, (uint64_t)ctx->ctx_id, 0, 0, 0);
    free_buffers(ctx);
    pthread_mutex_destroy(&ctx->lock);
    free(ctx);
}

int rackmem_nid(const rackmem_context *ctx)
{
    return ctx->place.nid;
}

int rackmem_nodes(const rackmem_context *ctx)
{
    return ctx->nodes;
}

/* No process takes the place of another, neither alone nor on the model. */
uint64_t rackmem_losses(const rackmem_context *ctx)
{
    (void)ctx;
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
    static const uint32_t live = RACKMEM_MAPPING_LIVE;
    if (!ctx || !mapping)
        return failed(EINVAL, "rackmem_map: an argument is NULL");
    if (nid < 0 || nid >= ctx->place.nodes)
        return failed(ENXIO, "no such node: %d; the rack has nodes 0 to %d", nid,
                      ctx->place.nodes - 1);
    if (nid != ctx->place.nid || ctx->read_only)
        return failed(EOPNOTSUPP, "the segment of node %d is reached by queue pairs only", nid);
    *mapping = (rackmem_mapping){ctx->segment, ctx->segment_bytes, &live};
    return 0;
}

/* ---- Queue pairs ------------------------------------------------------------------------- */

/* Status of an operation of a program that is alone: the checks of the controller. */
static uint32_t check(const rackmem_context *ctx, uint32_t op, uint32_t nid, uint64_t offset,
                      uint64_t buffer, uint64_t length)
{
    int is_atomic = op == RACKMEM_OP_FETCH_ADD || op == RACKMEM_OP_COMPARE_SWAP;
    if (op > RACKMEM_OP_NOTIFY)
        return RACKMEM_BAD_OPERATION;
    if (nid != 0)
        return RACKMEM_NO_NODE;
    if (op == RACKMEM_OP_NOP)
        return RACKMEM_OK;
    if (ctx->read_only && op != RACKMEM_OP_READ)
        return RACKMEM_NO_PERMISSION;
    if (op == RACKMEM_OP_NOTIFY)
        return RACKMEM_OK;
    if (is_atomic && (offset % 8 || length != 8))
        return RACKMEM_MISALIGNED_ATOMIC;
    if (length > RACKMEM_MAX_LENGTH || offset > ctx->segment_bytes ||
        length > ctx->segment_bytes - offset)
        return RACKMEM_OUT_OF_SEGMENT;
    return length && buffer < LOWEST_ADDRESS ? RACKMEM_BAD_LOCAL_BUFFER : RACKMEM_OK;
}

/* An operation that the thread performs itself. */
static uint32_t execute(QP *qp, uint32_t op, uint32_t nid, uint64_t offset, uint64_t buffer,
                        uint64_t length)
{
    rackmem_context *ctx = qp->engine_state;
    uint32_t status = check(ctx, op, nid, offset, buffer, length);
    if (status != RACKMEM_OK)
        return status;
    char *remote = ctx->segment + offset;
    uint64_t *word = (uint64_t *)(void *)remote;
    void *local = (void *)(uintptr_t)buffer;
    uint64_t *operands = local;
    if (op == RACKMEM_OP_NOTIFY)
        __atomic_fetch_add(&ctx->notifications, 1, __ATOMIC_RELEASE);
    else if (op == RACKMEM_OP_FETCH_ADD)
        operands[0] = __atomic_fetch_add(word, operands[0], __ATOMIC_ACQ_REL);
    else if (op == RACKMEM_OP_COMPARE_SWAP)
        __atomic_compare_exchange_n(word, &operands[0], operands[1], 0, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE);
    else if (op == RACKMEM_OP_READ && length > 0)
        memmove(local, remote, length);
    else if (op == RACKMEM_OP_WRITE && length > 0)
        memmove(remote, local, length);
    return RACKMEM_OK;
}

/* A program that is alone does its operations itself. */
static int queues_alone(owned_qp *made)
{
    static const rackmem_engine alone = {.execute = execute, .start = execute};
    made->qp.wq = made->wq;
    made->qp.cq = made->cq;
    made->qp.engine = &alone;
    return 0;
}

static void ignore(QP *qp)
{
    (void)qp;
}

/* The controller is a device: nothing has to be run, and waiting is polling for as long as it
 * takes, for a core that polls in vain costs the model nothing. */
static int queues_of_device(owned_qp *made, const rackmem_context *ctx)
{
    static const rackmem_engine device = {.wake = ignore};
    rackmem_driver_qp queues = {0};
    uint64_t flags = ctx->read_only ? RACKMEM_DRIVER_READ_ONLY : 0;
    int64_t answer = rackmem_driver_call(RACKMEM_DRIVER_QP_CREATE, (uint64_t)ctx->ctx_id,
                                         made->qp.size, flags, (uint64_t)(uintptr_t)&queues);
    if (answer < 0)
        return failed((int)-answer, "no queue pair of %u entries: %s", (unsigned)made->qp.size,
                      strerror((int)-answer));
    made->qp.wq = (rackmem_wq_entry *)(uintptr_t)queues.wq;
    made->qp.cq = (rackmem_cq_entry *)(uintptr_t)queues.cq;
    made->qp.engine = &device;
    made->qp.spin_limit = RACKMEM_SPIN_FOREVER;
    made->handle = queues.handle;
    return 0;
}

/* Without its queues. */
static owned_qp *new_qp(rackmem_context *ctx, uint32_t entries)
{
    static const uint32_t never_asleep;
    owned_qp *made = aligned_alloc(RACKMEM_LINE_BYTES, sizeof *made);
    if (!made)
        return NULL;
    memset(made, 0, sizeof *made);
    made->qp.size = entries;
    made->qp.operands = made->operands;
    made->qp.rmc_asleep = &never_asleep;
    made->qp.engine_state = ctx;
    return made;
}

int rackmem_qp_create(rackmem_context *ctx, unsigned entries, QP **qp)
{
    if (!ctx || !qp)
        return failed(EINVAL, "rackmem_qp_create: an argument is NULL");
    *qp = NULL;
    if (entries < 2 || entries > MAX_WQ_SIZE || (entries & (entries - 1)))
        return failed(EINVAL, "a queue pair of %u entries: a power of two from 2 to %d is needed",
                      entries, MAX_WQ_SIZE);
    owned_qp *made = new_qp(ctx, entries);
    if (!made)
        return failed(ENOMEM, "no memory for a queue pair");
    int error = ctx->place.is_alone ? queues_alone(made) : queues_of_device(made, ctx);
    if (error != 0) {
        free(made);
        return error;
    }
    pthread_mutex_lock(&ctx->lock);
    made->next = ctx->qps;
    ctx->qps = made;
    pthread_mutex_unlock(&ctx->lock);
    *qp = &made->qp;
    return 0;
}

/* Takes a queue pair off its context's list; NULL if it is not there. */
static owned_qp *unlink_qp(rackmem_context *ctx, const QP *qp)
{
    pthread_mutex_lock(&ctx->lock);
    owned_qp **link = &ctx->qps;
    while (*link && &(*link)->qp != qp)
        link = &(*link)->next;
    owned_qp *found = *link;
    if (found)
        *link = found->next;
    pthread_mutex_unlock(&ctx->lock);
    return found;
}

void rackmem_qp_destroy(QP *qp)
{
    if (!qp)
        return;
    rackmem_context *ctx = qp->engine_state;
    owned_qp *found = unlink_qp(ctx, qp);
    if (!found)
        return;
    if (!ctx->place.is_alone)
        rackmem_driver_call(RACKMEM_DRIVER_QP_DESTROY, found->handle, 0, 0, 0);
    free(found);
}

/* ---- Local buffers ----------------------------------------------------------------------- */

void *rackmem_alloc(rackmem_context *ctx, size_t size_bytes)
{
    if (!ctx) {
        failed(EINVAL, "rackmem_alloc: the context is NULL");
        return NULL;
    }
    owned_buffer *made = malloc(sizeof *made);
    size_t rounded = round_up_to_page(size_bytes ? size_bytes : 1);
    void *memory = made ? map_pages(rounded) : NULL;
    if (!memory) {
        free(made);
        failed(ENOMEM, "a buffer of %zu bytes does not fit the machine", size_bytes);
        return NULL;
    }
    pthread_mutex_lock(&ctx->lock);
    *made = (owned_buffer){.memory = memory, .size_bytes = rounded, .next = ctx->buffers};
    ctx->buffers = made;
    pthread_mutex_unlock(&ctx->lock);
    return memory;
}

/* All memory is reached at full speed. */
int rackmem_register(rackmem_context *ctx, void *buffer, size_t size_bytes)
{
    if (!ctx)
        return failed(EINVAL, "rackmem_register: the context is NULL");
    return buffer && size_bytes ? 0 : failed(EINVAL, "nothing to register");
}

/* ---- Waiting ----------------------------------------------------------------------------- */

/* Whether the process of node `nid` has ended; -1: nobody. */
static int is_gone(const rackmem_context *ctx, int nid)
{
    if (nid < 0 || ctx->place.is_alone)
        return 0;
    int64_t answer = rackmem_driver_call(RACKMEM_DRIVER_JOINED, (uint64_t)ctx->ctx_id,
                                         (uint64_t)nid, 0, 0);
    return answer == -EPIPE || answer == -ENXIO;
}

/* Looks now and then whether `ready(arg)`. */
static int look_until(const rackmem_context *ctx, int (*ready)(void *arg), void *arg,
                      int watch_nid, int timeout_ms)
{
    uint64_t deadline = deadline_after(timeout_ms);
    while (!ready(arg)) {
        if (is_gone(ctx, watch_nid)) /* what it wrote before still counts */
            return ready(arg) ? 0
                              : failed(EHOSTDOWN, "node %d is gone while it was waited for",
                                       watch_nid);
        if (!rest(deadline))
            return failed(ETIMEDOUT, "nothing has come within %d ms", timeout_ms);
    }
    return 0;
}

/* On the model, a core that does nothing but poll is woken at the very moment. */
int rackmem_sleep_until(rackmem_context *ctx, int (*ready)(void *arg), void *arg, int watch_nid,
                        int timeout_ms)
{
    if (!ctx || !ready)
        return failed(EINVAL, "rackmem_sleep_until: an argument is NULL");
    if (ctx->place.is_alone || watch_nid >= 0 || timeout_ms >= 0)
        return look_until(ctx, ready, arg, watch_nid, timeout_ms);
    while (!ready(arg))
        ;
    return 0;
}

struct membership {
    const rackmem_context *ctx;
    int nid;
};

/* A node that was quick may be gone again. One that never came will be missed by the first
 * operation on it. */
static int has_joined(void *arg)
{
    const struct membership *wait = arg;
    int64_t answer = rackmem_driver_call(RACKMEM_DRIVER_JOINED, (uint64_t)wait->ctx->ctx_id,
                                         (uint64_t)wait->nid, 0, 0);
    return answer == 1 || answer == -EPIPE;
}

int rackmem_wait_joined(rackmem_context *ctx, int nid, int timeout_ms)
{
    if (!ctx)
        return failed(EINVAL, "rackmem_wait_joined: the context is NULL");
    if (nid < 0 || nid >= ctx->place.nodes)
        return failed(ENXIO, "no such node: %d; the rack has nodes 0 to %d", nid,
                      ctx->place.nodes - 1);
    struct membership wait = {ctx, nid};
    if (ctx->place.is_alone || look_until(ctx, has_joined, &wait, -1, timeout_ms) == 0)
        return 0;
    return failed(ETIMEDOUT, "node %d did not join context %d in time", nid, ctx->ctx_id);
}

static uint64_t notifications(const rackmem_context *ctx)
{
    if (ctx->place.is_alone)
        return __atomic_load_n(&ctx->notifications, __ATOMIC_ACQUIRE);
    return (uint64_t)rackmem_driver_call(RACKMEM_DRIVER_NOTIFIED, (uint64_t)ctx->ctx_id, 0, 0, 0);
}

struct notified {
    const rackmem_context *ctx;
    uint64_t seen;
    uint64_t now;
};

static int is_notified(void *arg)
{
    struct notified *wait = arg;
    wait->now = notifications(wait->ctx);
    return wait->now != wait->seen;
}

int rackmem_wait_notify(rackmem_context *ctx, uint64_t *seen, int timeout_ms)
{
    if (!ctx || !seen)
        return failed(EINVAL, "rackmem_wait_notify: an argument is NULL");
    struct notified wait = {.ctx = ctx, .seen = *seen};
    int error = look_until(ctx, is_notified, &wait, -1, timeout_ms);
    *seen = wait.now;
    return error;
}

/* ---- Errors ------------------------------------------------------------------------------ */

int rackmem_set_last_error(int error, const char *text)
{
    return -failed(error, "%s", text);
}

int rackmem_explain(int error, const char *what)
{
    return error == 0 ? 0 : -failed(error, "%s: %s", what, rackmem_strerror(error));
}

const char *rackmem_last_error(void)
{
    return last_error;
}

const char *rackmem_strerror(int error)
{
    switch (-error) {
    case 0:
        return "success";
    case EINVAL:
        return "invalid argument";
    case ENOENT:
        return "no such rack or context, or the node has not joined the context";
    case ENXIO:
        return "no such node";
    case EACCES:
        return "no permission for this context or operation";
    case ERANGE:
        return "out of the segment's range";
    case EFAULT:
        return "bad local buffer";
    case EHOSTDOWN:
        return "the node, its process or its daemon is gone";
    case ETIMEDOUT:
        return "timed out";
    case ELIBBAD:
        return "library and headers are of different versions";
    default:
        return strerror(error < 0 ? -error : error);
    }
}
