/*
 * The other side of guest/driver.h, in software, so that what goes with RISC-V programs is tested
 * where there is no model: linked into a program together with guest/rackmem.c, it makes a rack of
 * RACK_NODES processes of it; without that variable, the program is alone.
 *
 * Segments lie in memory that all processes share. Each process has a thread that is its remote
 * memory controller: it polls the work queues and accesses the segments, line by line.
 */
#define _DEFAULT_SOURCE
#include "../../guest/driver.h"

#include <errno.h>
#include <pthread.h>
#include <rackmem.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

enum { MOST_NODES = 8, MOST_QPS = 8, PAGE = 4096, SEGMENT_ROOM = 16 << 20 };

/* Of a node, as all see it. */
typedef struct node {
    _Alignas(PAGE) uint64_t segment_bytes;
    uint64_t notifications;
    int has_joined;
    int has_left;
    int has_ended;
} node;

typedef struct shared {
    node node[MOST_NODES];
    _Alignas(PAGE) unsigned char segment[MOST_NODES][SEGMENT_ROOM];
} shared;

/* Of this process: its queue pairs, as the controller sees them. */
typedef struct queues {
    _Alignas(PAGE) rackmem_wq_entry wq[MAX_WQ_SIZE];
    _Alignas(PAGE) rackmem_cq_entry cq[MAX_WQ_SIZE];
    uint32_t size; /* 0: not in use */
    uint32_t taken;
    int read_only;
} queues;

static shared *rack;
static int nodes, own;
static queues pairs[MOST_QPS];
static pthread_mutex_t pairs_lock = PTHREAD_MUTEX_INITIALIZER;

/* ---- The controller ---------------------------------------------------------------------- */

/* A part of a line; the line's first word, if it is whole, comes last, as rackmem promises. */
static void write_line(unsigned char *to, const unsigned char *from, uint64_t length)
{
    uint64_t first;
    if ((uintptr_t)to % RACKMEM_LINE_BYTES != 0 || length < sizeof first) {
        memcpy(to, from, length);
        return;
    }
    memcpy(&first, from, sizeof first);
    memcpy(to + sizeof first, from + sizeof first, length - sizeof first);
    __atomic_store_n((uint64_t *)(void *)to, first, __ATOMIC_RELEASE);
}

static void copy_lines(unsigned char *remote, unsigned char *local, uint64_t length, int is_write)
{
    while (length > 0) {
        uint64_t part = RACKMEM_LINE_BYTES - (uintptr_t)remote % RACKMEM_LINE_BYTES;
        if (part > length)
            part = length;
        if (is_write)
            write_line(remote, local, part);
        else
            memcpy(local, remote, part);
        remote += part;
        local += part;
        length -= part;
    }
}

static void change_word(uint64_t op, unsigned char *remote, uint64_t *operands)
{
    uint64_t *word = (uint64_t *)(void *)remote;
    if (op == RACKMEM_OP_FETCH_ADD)
        operands[0] = __atomic_fetch_add(word, operands[0], __ATOMIC_ACQ_REL);
    else
        __atomic_compare_exchange_n(word, &operands[0], operands[1], 0, __ATOMIC_ACQ_REL,
                                    __ATOMIC_ACQUIRE);
}

/* Status of an operation before it reaches its node: the checks of the controller. */
static uint32_t check(const queues *pair, uint64_t op, uint64_t nid, uint64_t offset,
                      uint64_t length)
{
    int is_atomic = op == RACKMEM_OP_FETCH_ADD || op == RACKMEM_OP_COMPARE_SWAP;
    if (op > RACKMEM_OP_NOTIFY)
        return RACKMEM_BAD_OPERATION;
    if (nid >= (uint64_t)nodes)
        return RACKMEM_NO_NODE;
    if (pair->read_only && op != RACKMEM_OP_READ)
        return RACKMEM_NO_PERMISSION;
    return is_atomic && (length != 8 || offset % 8) ? RACKMEM_MISALIGNED_ATOMIC : RACKMEM_OK;
}

static uint32_t perform(uint64_t op, uint64_t nid, uint64_t offset, uint64_t buffer,
                        uint64_t length)
{
    node *target = &rack->node[nid];
    unsigned char *remote = rack->segment[nid] + offset;
    void *local = (void *)(uintptr_t)buffer;
    if (__atomic_load_n(&target->has_ended, __ATOMIC_ACQUIRE))
        return RACKMEM_NODE_LOST;
    if (!__atomic_load_n(&target->has_joined, __ATOMIC_ACQUIRE) ||
        __atomic_load_n(&target->has_left, __ATOMIC_ACQUIRE))
        return RACKMEM_NO_CONTEXT;
    if (op == RACKMEM_OP_NOTIFY)
        __atomic_fetch_add(&target->notifications, 1, __ATOMIC_RELEASE);
    if (op == RACKMEM_OP_NOTIFY || op == RACKMEM_OP_NOP)
        return RACKMEM_OK;
    if (offset > target->segment_bytes || length > target->segment_bytes - offset)
        return RACKMEM_OUT_OF_SEGMENT;
    if (length > 0 && buffer < PAGE)
        return RACKMEM_BAD_LOCAL_BUFFER;
    if (op == RACKMEM_OP_READ || op == RACKMEM_OP_WRITE)
        copy_lines(remote, local, length, op == RACKMEM_OP_WRITE);
    else
        change_word(op, remote, local);
    return RACKMEM_OK;
}

/* Completes the next entry of a queue pair, if there is one. */
static int serve(queues *pair)
{
    uint32_t slot = pair->taken & (pair->size - 1);
    uint32_t phase = (pair->taken & pair->size) == 0;
    uint64_t word0 = __atomic_load_n(&pair->wq[slot].word[0], __ATOMIC_ACQUIRE);
    uint64_t word1 = pair->wq[slot].word[1];
    if ((word0 & 1) != phase)
        return 0;
    uint64_t op = word0 >> 1 & 7, nid = word0 >> 4 & 0xfff;
    uint64_t offset = word0 >> 16 & RACKMEM_MAX_OFFSET, buffer = word1 & RACKMEM_MAX_ADDRESS;
    uint64_t length = word0 >> 56 << 16 | word1 >> 48;
    uint32_t status = check(pair, op, nid, offset, length);
    if (status == RACKMEM_OK)
        status = perform(op, nid, offset, buffer, length);
    pair->taken++;
    __atomic_store_n(&pair->cq[slot], slot | status << 16 | phase << 31, __ATOMIC_RELEASE);
    return 1;
}

static void *run_controller(void *arg)
{
    const struct timespec nap = {.tv_nsec = 1000};
    for (;;) {
        int served = 0;
        pthread_mutex_lock(&pairs_lock);
        for (int i = 0; i < MOST_QPS; i++)
            while (pairs[i].size && serve(&pairs[i]))
                served = 1;
        pthread_mutex_unlock(&pairs_lock);
        if (!served)
            nanosleep(&nap, NULL);
    }
    return arg;
}

/* ---- The calls --------------------------------------------------------------------------- */

static int64_t open_context(uint64_t ctx_id, uint64_t bytes, uint64_t flags,
                            rackmem_driver_segment *out)
{
    node *self = &rack->node[own];
    pthread_t controller;
    if (ctx_id != 0 || flags & ~(uint64_t)RACKMEM_DRIVER_READ_ONLY || bytes == 0)
        return -EINVAL;
    if (self->has_joined)
        return -EEXIST;
    if (bytes > SEGMENT_ROOM)
        return -ENOMEM;
    self->segment_bytes = (bytes + PAGE - 1) / PAGE * PAGE;
    *out = (rackmem_driver_segment){(uintptr_t)rack->segment[own], self->segment_bytes};
    CHECK(pthread_create(&controller, NULL, run_controller, NULL) == 0);
    CHECK(pthread_detach(controller) == 0);
    __atomic_store_n(&self->has_joined, 1, __ATOMIC_RELEASE);
    return 0;
}

static int64_t close_context(void)
{
    __atomic_store_n(&rack->node[own].has_left, 1, __ATOMIC_RELEASE);
    return 0;
}

static int64_t create_qp(uint64_t entries, uint64_t flags, rackmem_driver_qp *out)
{
    int free = 0;
    pthread_mutex_lock(&pairs_lock);
    while (free < MOST_QPS && pairs[free].size)
        free++;
    if (free < MOST_QPS) {
        queues *pair = &pairs[free];
        memset(pair, 0, sizeof *pair);
        pair->read_only = flags & RACKMEM_DRIVER_READ_ONLY;
        pair->size = (uint32_t)entries;
        *out = (rackmem_driver_qp){(uintptr_t)pair->wq, (uintptr_t)pair->cq, (uint64_t)free};
    }
    pthread_mutex_unlock(&pairs_lock);
    return free < MOST_QPS ? 0 : -ENOSPC;
}

static int64_t destroy_qp(uint64_t handle)
{
    pthread_mutex_lock(&pairs_lock);
    CHECK(handle < MOST_QPS && pairs[handle].size);
    pairs[handle].size = 0;
    pthread_mutex_unlock(&pairs_lock);
    return 0;
}

static int64_t ask_joined(uint64_t nid)
{
    if (nid >= (uint64_t)nodes)
        return -ENXIO;
    if (__atomic_load_n(&rack->node[nid].has_ended, __ATOMIC_ACQUIRE))
        return -EPIPE;
    return __atomic_load_n(&rack->node[nid].has_joined, __ATOMIC_ACQUIRE);
}

int64_t rackmem_driver_call(enum rackmem_driver_number number, uint64_t first, uint64_t second,
                            uint64_t third, uint64_t fourth)
{
    if (!rack)
        return -ENOSYS;
    switch (number) {
    case RACKMEM_DRIVER_RACK:
        return nodes << 16 | own;
    case RACKMEM_DRIVER_OPEN:
        return open_context(first, second, third, (void *)(uintptr_t)fourth);
    case RACKMEM_DRIVER_CLOSE:
        return close_context();
    case RACKMEM_DRIVER_QP_CREATE:
        return create_qp(second, third, (void *)(uintptr_t)fourth);
    case RACKMEM_DRIVER_QP_DESTROY:
        return destroy_qp(first);
    case RACKMEM_DRIVER_JOINED:
        return ask_joined(second);
    case RACKMEM_DRIVER_NOTIFIED:
        return (int64_t)__atomic_load_n(&rack->node[own].notifications, __ATOMIC_ACQUIRE);
    case RACKMEM_DRIVER_WAIT:
        break;
    }
    return -ENOSYS;
}

/* ---- The rack ---------------------------------------------------------------------------- */

/* Waits for all; the first that fails ends the others, and the run. */
static void look_after(const pid_t *processes)
{
    for (int left = nodes; left > 0; left--) {
        int status, nid = 0;
        pid_t ended = wait(&status);
        while (nid < nodes && processes[nid] != ended)
            nid++;
        CHECK(nid < nodes);
        __atomic_store_n(&rack->node[nid].has_ended, 1, __ATOMIC_RELEASE);
        if (status == 0)
            continue;
        fprintf(stderr, "node %d ended with status %#x\n", nid, (unsigned)status);
        for (int i = 0; i < nodes; i++)
            if (!rack->node[i].has_ended)
                kill(processes[i], SIGKILL);
        exit(1);
    }
    exit(0);
}

/* Before main: the process becomes those of the rack, and one that looks after them. */
__attribute__((constructor)) static void start(void)
{
    pid_t processes[MOST_NODES];
    char text[16];
    const char *wanted = getenv("RACK_NODES");
    nodes = wanted ? atoi(wanted) : 0;
    if (nodes < 1 || nodes > MOST_NODES)
        return;
    setenv("RACKMEM_NODES", wanted, 1);
    void *memory =
        mmap(NULL, sizeof *rack, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    rack = memory;
    for (own = 0; own < nodes; own++) {
        processes[own] = fork();
        CHECK(processes[own] >= 0);
        if (processes[own] > 0)
            continue;
        snprintf(text, sizeof text, "%d", own);
        setenv("RACKMEM_NODE", text, 1);
        return;
    }
    look_after(processes);
}
