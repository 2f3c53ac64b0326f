/* The loops that sync_bench times: included where the library is part of the program, and where its
 * functions are called. */
#ifndef CACHE_INTEGRATED_SYNC_BENCH_H
#define CACHE_INTEGRATED_SYNC_BENCH_H

#include <scratchpad.h>

typedef enum kind {
    LOCK_MRQ,
    LOCK_MRQ_REQUEST,
    LOCK_BOX,
    LOCK_MCS,
    BARRIER_COUNTER,
    BARRIER_MUTEX,
    BARRIER_TREE,
    REMOTE_STORE,
    KINDS
} kind;

/* Sums of one core's episodes, in cycles, the clock's own included. Of locks, `first` is taking and
 * `second` releasing; of remote stores, round trips and one-way. */
typedef struct sums {
    __attribute__((aligned(SCR_LINE_BYTES))) uint64_t first;
    uint64_t second;
} sums;

/* A word of anybody's scratchpad, as programs name it: a local address and whose (CINI §5.1). */
typedef struct global {
    scr_word *local;
    uint64_t core;
} global;

static inline global global_of(const sys_member *self, scr_word *word)
{
    return (global){(scr_word *)scr_remote(word, self->pad.core), scr_core_of(word)};
}

/* All that a core needs for any of them: its handles. */
typedef struct primitive {
    global lock;       /* a multiple-reader queue */
    uint64_t box_lock; /* number */
    scr_word *command;
    scr_word *token;
    sys_mcs_lock *mcs_lock;
    sys_mcs_node *mcs_node;
    sys_tree_node *tree_node;
    global counter;    /* of a barrier, and its flag */
    scr_word *flag;
    sys_mutex_barrier mutex_barrier;
} primitive;

/* The step of a kind: of a lock, taking or releasing. */
typedef void (*step)(const primitive *p);

SCR_INLINE scr_word *word_of(global g)
{
    return (scr_word *)scr_remote(g.local, (unsigned)g.core);
}

SCR_INLINE scr_word *box_lock_of(const primitive *p)
{
    return sys_box_lock_of((unsigned)p->box_lock);
}

SCR_INLINE void mrq_lock(const primitive *p) { sys_mrq_lock(word_of(p->lock)); }
SCR_INLINE void mrq_unlock(const primitive *p) { sys_mrq_unlock(word_of(p->lock)); }
SCR_INLINE void box_lock(const primitive *p) { sys_box_lock(box_lock_of(p)); }
SCR_INLINE void box_unlock(const primitive *p) { sys_box_unlock(box_lock_of(p)); }
SCR_INLINE void mcs_lock(const primitive *p) { sys_mcs_acquire(p->mcs_lock, p->mcs_node); }
SCR_INLINE void mcs_unlock(const primitive *p) { sys_mcs_release(p->mcs_lock, p->mcs_node); }
SCR_INLINE void counter_wait(const primitive *p)
{
    sys_counter_barrier_wait((sys_counter_barrier){word_of(p->counter), p->flag});
}
SCR_INLINE void mutex_wait(const primitive *p) { sys_mutex_barrier_wait(p->mutex_barrier); }
SCR_INLINE void tree_wait(const primitive *p) { sys_tree_barrier_wait(p->tree_node); }

SCR_INLINE void mrq_lock_request(const primitive *p)
{
    sys_mrq_lock_request(word_of(p->lock), p->command, p->token);
}

SCR_INLINE void nothing(const primitive *p) { (void)p; }

/* Two steps, timed apart. */
SCR_INLINE sums time_steps(const primitive *p, uint64_t episodes, step first, step second)
{
    sums s = {0, 0};
    for (uint64_t i = 0; i < episodes; i++) {
        uint64_t begin = sys_cycles();
        first(p);
        uint64_t between = sys_cycles();
        second(p);
        uint64_t end = sys_cycles();
        s.first += between - begin;
        s.second += end - between;
    }
    return s;
}

/* As a program calls them: handles are in memory, or where all is in line in registers. */
SCR_INLINE sums time_of(kind what, const primitive *p, uint64_t episodes)
{
    switch (what) {
    case LOCK_MRQ:
        return time_steps(p, episodes, mrq_lock, mrq_unlock);
    case LOCK_MRQ_REQUEST:
        return time_steps(p, episodes, mrq_lock_request, mrq_unlock);
    case LOCK_BOX:
        return time_steps(p, episodes, box_lock, box_unlock);
    case LOCK_MCS:
        return time_steps(p, episodes, mcs_lock, mcs_unlock);
    case BARRIER_COUNTER:
        return time_steps(p, episodes, counter_wait, nothing);
    case BARRIER_MUTEX:
        return time_steps(p, episodes, mutex_wait, nothing);
    default:
        return time_steps(p, episodes, tree_wait, nothing);
    }
}

/* With the library's functions called (sync_called.c). */
sums time_called(kind what, const primitive *p, uint64_t episodes);

#endif
