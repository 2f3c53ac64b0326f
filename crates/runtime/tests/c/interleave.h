/*
 * Every interleaving of small programs on a rack: a model checker for the headers on top of
 * access.h, which runs the deployed headers as they are.
 *
 * A process is a coroutine. It may be left before each remote operation and wherever it sleeps. No
 * other process sees its steps in between, on memory of its own, but for polling its own segment,
 * which it does where it sleeps (qp->spin_limit is 0). The whole state (segments, stacks, positions
 * of processes) is one structure: it is copied to return to it, and hashed to recognise it. So each
 * state is visited once, and the search ends although the programs poll and retry.
 *
 * Processes may be killed between any two steps, others may take their places (all but that of
 * process 0), and a sleep may be interrupted, as often as the test allows. Time passes for all
 * sleepers at once, when no process can do anything else: if they then fall asleep in a state in
 * which all had slept before, none will ever wake, and that is an error as well. So is a process
 * that goes round in circles while all others have ended or sleep for ever.
 */
#ifndef INTERLEAVE_H
#define INTERLEAVE_H

#include <rackmem.h>
#include <setjmp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <ucontext.h>

enum {
    MOST_PROCESSES = 3,
    SEGMENT_BYTES = 2048,
    ARENA_BYTES = 1024,
    HANDLE_BYTES = 512,
    STACK_BYTES = 12288,
    NOTES = 64,
    MOST_STEPS = 4000
};

#define CHECK(condition) \
    do { \
        if (!(condition)) \
            interleave_fail(__FILE__, __LINE__, #condition); \
    } while (0)

enum status { READY, ASLEEP, DONE, DEAD };

struct rackmem_context {
    int nid;
};

typedef struct process {
    jmp_buf at;
    char *sp;
    enum status status;
    int (*ready)(void *);
    void *arg;
    int has_timeout;
    int is_timed_out;
    int is_interrupted;
    int is_successor; /* of one that died */
    QP qp;
    uint64_t operands[4];
    struct rackmem_context ctx;
    size_t arena_used;
    _Alignas(64) unsigned char arena[ARENA_BYTES];
    _Alignas(64) unsigned char handle[HANDLE_BYTES]; /* what the program opened */
    _Alignas(64) unsigned char stack[STACK_BYTES];
} process;

/* The whole state. Notes are the test's, for facts that no process could know. Not static:
 * compilers must not think that they see all code that changes it. */
struct world {
    process processes[MOST_PROCESSES];
    _Alignas(64) unsigned char segments[MOST_PROCESSES][SEGMENT_BYTES];
    uint64_t notes[NOTES];
    int kills_left, restarts_left, interrupts_left;
} world;

/* The programs of a test, and its checks. */
typedef struct interleaving {
    const char *name;
    int processes;
    int kills;                                                /* at most so many processes die */
    int restarts;                                             /* at most so many of them come back */
    int interrupts;                                           /* at most so many sleeps end so */
    void (*open)(rackmem_context *ctx, QP *qp, void *handle); /* before all, and by a successor */
    void (*run)(rackmem_context *ctx, QP *qp, void *handle);
    void (*look)(void);   /* in every state; may be NULL */
    void (*finish)(void); /* when all have ended */
    void (*stuck)(void);  /* when those who are left wait for ever; NULL: they must not */
    bool is_long;
    uint64_t ends; /* in how many ways all can have ended: a change must not go unnoticed */
} interleaving;

static const interleaving *subject;
static jmp_buf scheduler;
static int running;
static bool is_searching;
static unsigned char choices[MOST_STEPS];
static int depth;
static uint64_t states, ends;

__attribute__((noreturn)) static void interleave_fail(const char *file, int line, const char *what)
{
    printf("%s:%d: not true: %s\n%s, process %d, after", file, line, what, subject->name, running);
    static const char *const kinds[] = {"", "kill-", "interrupt-", "restart-"};
    for (int i = 0; i < depth; i++)
        printf(" %s%d", kinds[choices[i] / MOST_PROCESSES], choices[i] % MOST_PROCESSES);
    printf("\n");
    exit(1);
}

/* ---- Processes ---------------------------------------------------------------------------- */

/* Gives the others a chance. */
__attribute__((noinline)) static void leave(enum status status)
{
    process *self = &world.processes[running];
    self->status = status;
    self->sp = (char *)__builtin_frame_address(0) - 256;
    if (_setjmp(self->at) == 0)
        _longjmp(scheduler, 1);
}

static void begin(void)
{
    process *self = &world.processes[running];
    leave(READY);
    if (self->is_successor)
        subject->open(&self->ctx, &self->qp, self->handle);
    subject->run(&self->ctx, &self->qp, self->handle);
    leave(DONE);
    abort();
}

/* Lets a process make a step. */
static void step(int who)
{
    running = who;
    if (_setjmp(scheduler) == 0)
        _longjmp(world.processes[who].at, 1);
}

static uint32_t execute(QP *qp, uint32_t op, uint32_t nid, uint64_t offset, uint64_t buffer,
                        uint64_t length)
{
    uint64_t *local = (uint64_t *)(uintptr_t)buffer;
    (void)qp;
    if (is_searching)
        leave(READY);
    if (nid >= (uint32_t)subject->processes)
        return RACKMEM_NO_NODE;
    if (world.processes[nid].status == DEAD)
        return RACKMEM_NODE_LOST;
    if (offset > SEGMENT_BYTES || length > SEGMENT_BYTES - offset)
        return RACKMEM_OUT_OF_SEGMENT;
    unsigned char *remote = world.segments[nid] + offset;
    uint64_t old;
    memcpy(&old, remote, length < 8 ? length : 8);
    if (op == RACKMEM_OP_READ) {
        memcpy(local, remote, length);
    } else if (op == RACKMEM_OP_WRITE) {
        memcpy(remote, local, length);
    } else if (op == RACKMEM_OP_FETCH_ADD) {
        uint64_t sum = old + local[0];
        memcpy(remote, &sum, 8);
        local[0] = old;
    } else {
        if (old == local[0])
            memcpy(remote, &local[1], 8);
        local[0] = old;
    }
    return RACKMEM_OK;
}

static const rackmem_engine engine = {.execute = execute, .start = execute};

/* ---- runtime.h --------------------------------------------------------------------------- */

int rackmem_nid(const rackmem_context *ctx)
{
    return ctx->nid;
}

int rackmem_nodes(const rackmem_context *ctx)
{
    (void)ctx;
    return subject->processes;
}

uint64_t rackmem_losses(const rackmem_context *ctx)
{
    (void)ctx;
    return (uint64_t)(subject->kills - world.kills_left);
}

void *rackmem_segment(const rackmem_context *ctx)
{
    return world.segments[ctx->nid];
}

size_t rackmem_segment_bytes(const rackmem_context *ctx)
{
    (void)ctx;
    return SEGMENT_BYTES;
}

void *rackmem_alloc(rackmem_context *ctx, size_t size_bytes)
{
    process *self = &world.processes[ctx->nid];
    void *memory = self->arena + self->arena_used;
    self->arena_used += (size_bytes + 63) & ~(size_t)63;
    CHECK(self->arena_used <= ARENA_BYTES);
    return memory;
}

int rackmem_map(rackmem_context *ctx, int nid, rackmem_mapping *mapping)
{
    (void)ctx, (void)nid, (void)mapping;
    return -95; /* EOPNOTSUPP: every access is to be a step */
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

int rackmem_sleep_until(rackmem_context *ctx, int (*ready)(void *arg), void *arg, int watch_nid,
                        int timeout_ms)
{
    process *self = &world.processes[ctx->nid];
    if (timeout_ms == 0) { /* only to look who is there */
        leave(READY);
        return watch_nid >= 0 && world.processes[watch_nid].status == DEAD ? -112 : -110;
    }
    self->ready = ready;
    self->arg = arg;
    self->has_timeout = timeout_ms > 0;
    self->is_timed_out = self->is_interrupted = 0;
    leave(ASLEEP);
    if (self->is_interrupted)
        return -4; /* EINTR */
    return self->is_timed_out && !ready(arg) ? -110 : 0; /* ETIMEDOUT */
}

/* ---- The search -------------------------------------------------------------------------- */

static bool can_step(int who)
{
    process *p = &world.processes[who];
    return p->status == READY ||
           (p->status == ASLEEP && (p->is_timed_out || p->is_interrupted || p->ready(p->arg) != 0));
}

static uint64_t mix(uint64_t hash, const void *bytes, size_t length)
{
    const unsigned char *from = bytes;
    for (; length >= 8; from += 8, length -= 8) {
        uint64_t word;
        memcpy(&word, from, 8);
        hash = (hash ^ word) * UINT64_C(0x9e3779b97f4a7c15);
        hash ^= hash >> 29;
    }
    return hash;
}

/* Of everything that what follows depends on. */
static uint64_t hash_world(void)
{
    uint64_t hash = mix(1, world.segments, sizeof world.segments);
    hash = mix(hash, world.notes, sizeof world.notes);
    for (int i = 0; i < subject->processes; i++) {
        process *p = &world.processes[i];
        uint64_t state = (uint64_t)p->status << 32 | (uint64_t)p->is_timed_out << 16 |
                         (uint64_t)p->is_interrupted << 15 | (uint64_t)p->is_successor << 14 |
                         (uint64_t)world.interrupts_left << 8 | (uint64_t)world.restarts_left << 4 |
                         (uint64_t)world.kills_left;
        hash = mix(hash, &state, sizeof state);
        if (p->status == DONE || p->status == DEAD)
            continue;
        size_t used = (size_t)((char *)p->stack + STACK_BYTES - p->sp);
        CHECK(used <= STACK_BYTES);
        hash = mix(hash, p->sp, used & ~(size_t)7);
        hash = mix(hash, p->at, 64); /* registers */
        hash = mix(hash, p->arena, p->arena_used);
        hash = mix(hash, p->handle, sizeof p->handle);
        hash = mix(hash, p->operands, sizeof p->operands);
    }
    return hash;
}

/* A set of hashes; 0 stands for none. */
static uint64_t *seen;
static uint64_t seen_size, seen_count;

static bool insert(uint64_t hash)
{
    if (2 * seen_count >= seen_size) {
        uint64_t *old = seen, old_size = seen_size;
        seen_size = old_size ? 4 * old_size : 1 << 16;
        seen = calloc(seen_size, sizeof *seen);
        seen_count = 0;
        for (uint64_t i = 0; i < old_size; i++)
            if (old[i])
                insert(old[i]);
        free(old);
    }
    uint64_t at = hash & (seen_size - 1);
    for (; seen[at]; at = (at + 1) & (seen_size - 1))
        if (seen[at] == hash)
            return false;
    seen[at] = hash;
    seen_count++;
    return true;
}

/* The way here: hashes of the states, how often time had passed, and whether one process alone will
 * ever do anything there. */
static uint64_t trail[MOST_STEPS];
static int times[MOST_STEPS];
static bool is_alone[MOST_STEPS];

/* Whether the way has come back to a state although all slept in between, or by a process that is
 * alone. Each of them has had its look since, so it may go on like this for ever. */
static bool is_circle(uint64_t hash, int time)
{
    bool by_one = true;
    for (int i = depth - 1; i >= 0; i--) {
        by_one &= is_alone[i];
        if (trail[i] == hash)
            return by_one || times[i] < time;
    }
    return false;
}

/* Wakes all processes that do not sleep for ever. Returns whether there are any. */
static bool pass_time(void)
{
    bool any = false;
    for (int i = 0; i < subject->processes; i++) {
        process *p = &world.processes[i];
        if (p->status == ASLEEP && p->has_timeout)
            any = (p->is_timed_out = 1);
    }
    return any;
}

static void stuck(void)
{
    CHECK(subject->stuck && "nobody will ever wake those who sleep");
    subject->stuck();
}

static void start(int who);

/* Another process takes the place of a dead one. It has a segment of its own. */
static void restart(int who)
{
    process *p = &world.processes[who];
    memset(world.segments[who], 0, SEGMENT_BYTES);
    memset(p->arena, 0, sizeof p->arena);
    memset(p->handle, 0, sizeof p->handle);
    memset(p->operands, 0, sizeof p->operands);
    p->arena_used = 0;
    p->is_successor = 1;
    start(who);
}

static void search(int time);

/* Goes on from here with one choice, and comes back. */
static void try(int choice, const struct world *here, int time)
{
    int who = choice % MOST_PROCESSES;
    CHECK(depth < MOST_STEPS);
    choices[depth++] = (unsigned char)choice;
    if (choice >= 3 * MOST_PROCESSES) {
        world.restarts_left--;
        restart(who);
    } else if (choice >= 2 * MOST_PROCESSES) {
        world.processes[who].is_interrupted = 1;
        world.interrupts_left--;
        step(who);
    } else if (choice >= MOST_PROCESSES) {
        world.processes[who].status = DEAD;
        world.kills_left--;
    } else {
        step(who);
    }
    search(time);
    depth--;
    world = *here;
}

static void search(int time)
{
    int able = 0, ended = 0, waiting = 0;
    for (int i = 0; i < subject->processes; i++) {
        process *p = &world.processes[i];
        able += can_step(i);
        waiting += p->status == ASLEEP && p->has_timeout && !can_step(i);
        ended += world.processes[i].status >= DONE;
    }
    if (able == 0 && ended < subject->processes) {
        if (!pass_time())
            return stuck();
        time++;
    }
    uint64_t hash = hash_world() | 1;
    if (!insert(hash)) {
        if (is_circle(hash, time))
            stuck();
        return;
    }
    trail[depth] = hash;
    times[depth] = time;
    is_alone[depth] = able == 1 && waiting == 0;
    states++;
    if (subject->look)
        subject->look();
    if (ended == subject->processes) {
        ends++;
        subject->finish();
        return;
    }
    struct world *here = malloc(sizeof *here);
    *here = world;
    for (int i = 0; i < subject->processes; i++) {
        if (can_step(i))
            try(i, here, time);
        if (world.kills_left > 0 && world.processes[i].status < DONE)
            try(MOST_PROCESSES + i, here, time);
        if (world.interrupts_left > 0 && world.processes[i].status == ASLEEP)
            try(2 * MOST_PROCESSES + i, here, time);
        if (world.restarts_left > 0 && i != 0 && world.processes[i].status == DEAD)
            try(3 * MOST_PROCESSES + i, here, time);
    }
    free(here);
}

static void start(int who)
{
    static ucontext_t from, to;
    process *p = &world.processes[who];
    CHECK(getcontext(&to) == 0);
    to.uc_stack.ss_sp = p->stack;
    to.uc_stack.ss_size = sizeof p->stack;
    to.uc_link = NULL;
    makecontext(&to, begin, 0);
    running = who;
    if (_setjmp(scheduler) == 0)
        swapcontext(&from, &to);
}

static void open_all(void)
{
    for (int i = 0; i < subject->processes; i++) {
        process *p = &world.processes[i];
        p->ctx.nid = i;
        p->qp = (QP){.engine = &engine, .operands = p->operands, .size = 2};
        if (subject->open)
            subject->open(&p->ctx, &p->qp, p->handle);
    }
}

/* Tries all, and says how much that was. */
static void interleave(const interleaving *what)
{
    subject = what;
    memset(&world, 0, sizeof world);
    world.kills_left = what->kills;
    world.restarts_left = what->restarts;
    world.interrupts_left = what->interrupts;
    free(seen);
    seen = NULL;
    seen_size = seen_count = states = ends = 0;
    is_searching = false;
    open_all();
    is_searching = true;
    for (int i = 0; i < what->processes; i++)
        start(i);
    search(0);
    printf("%s: %llu states, %llu ends\n", what->name, (unsigned long long)states,
           (unsigned long long)ends);
    fflush(stdout);
    CHECK(ends == what->ends);
}

#endif
