/*
 * Barrier of any number of threads on all nodes of a run, made of counters (CINI §5.3).
 *
 *     rackmem_counter_barrier b;
 *     int err = rackmem_counter_barrier_open(&b, ctx, qp, offset, threads, thread);
 *     err = rackmem_barrier_wait(&opened);           // all threads of all nodes have opened
 *     for (...) {
 *         ...
 *         err = rackmem_counter_barrier_wait(&b);
 *     }
 *
 * rackmem_barrier (barrier.h) is the barrier to begin with. One thread of each node writes to all
 * other nodes: one step, so it is faster among few nodes. It needs no set-up by others, takes any
 * subset, and members may leave as soon as they have passed. This one is for several threads of a
 * node, and for many nodes: n participants do some 3 n operations instead of n (n - 1), each of
 * them a handful, in log4 n steps up and as many down.
 *
 * Up: four participants share a counter, which notifies that of four such groups, up to a root.
 * With four participants or fewer there is only the root, and its notifications are their flags.
 * Down: the root raises the flags of the first participants of its groups, and a participant that
 * finds its flag raised raises those below it. In software no other thread could, so the flags
 * stand for the paper's broadcast counters.
 *
 * The counters are in the memory of the participants: none may leave the context before all have
 * passed for the last time (a rackmem_barrier can ensure that).
 */
#ifndef RACKMEM_COUNTER_BARRIER_H
#define RACKMEM_COUNTER_BARRIER_H

#include "counter.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Arrivals at a counter: as many as the addresses that it can notify. */
#define RACKMEM_COUNTER_BARRIER_FAN RACKMEM_COUNTER_NOTIFICATIONS

/* A participant, used by one thread at a time. Its members are private. */
typedef struct rackmem_counter_barrier {
    rackmem_context *ctx;
    QP *qp;
    uint64_t area_offset;
    uint32_t threads;      /* of each node */
    uint32_t participants; /* of all nodes */
    uint32_t me;           /* node * threads + thread */
    uint32_t levels;       /* of counters */
} rackmem_counter_barrier;

/* Levels of counters above so many participants. */
static inline uint32_t rackmem_counter_barrier_levels_(uint32_t participants)
{
    uint32_t levels = 0;
    for (uint64_t reach = 1; reach < participants; reach *= RACKMEM_COUNTER_BARRIER_FAN)
        levels++;
    return levels;
}

/* Size of the area that every node's segment provides, at the same 64-byte aligned offset, for
 * `threads` participants of each of `nodes` nodes, in bytes. The area starts zeroed and serves one
 * barrier only. */
static inline size_t rackmem_counter_barrier_bytes(int nodes, int threads)
{
    if (nodes <= 0 || threads <= 0)
        return 0;
    uint32_t levels = rackmem_counter_barrier_levels_((uint32_t)nodes * (uint32_t)threads);
    return (size_t)threads * (1 + levels) * RACKMEM_LINE_BYTES;
}

/* Distance between two participants of a level. */
RACKMEM_INLINE uint32_t rackmem_counter_barrier_stride_(uint32_t level)
{
    return 1u << (2 * level);
}

RACKMEM_STATIC_ASSERT(RACKMEM_COUNTER_BARRIER_FAN == 4, "a stride is a power of four");

/* The i-th line of a participant: its flag, then its counter of each level. */
RACKMEM_INLINE rackmem_address rackmem_counter_barrier_line_(const rackmem_counter_barrier *b,
                                                             uint32_t participant, uint32_t line)
{
    uint64_t place = (uint64_t)(participant % b->threads) * (1 + b->levels) + line;
    return rackmem_at((int)(participant / b->threads), b->area_offset + place * RACKMEM_LINE_BYTES);
}

/* Makes the counter of a level that this participant is the first one below. */
static inline int rackmem_counter_barrier_counter_(const rackmem_counter_barrier *b, uint32_t level)
{
    rackmem_notification notifications[RACKMEM_COUNTER_BARRIER_FAN];
    rackmem_counter_config config = {0, 0, 1, notifications, 0};
    uint32_t stride = rackmem_counter_barrier_stride_(level), below = 0;
    int is_root = level + 1 == b->levels;
    for (uint32_t p = b->me; below < RACKMEM_COUNTER_BARRIER_FAN && p < b->participants;
         p += stride) {
        notifications[below].kind = RACKMEM_NOTIFY_FLAG;
        notifications[below++].at = rackmem_counter_barrier_line_(b, p, 0);
    }
    config.value = config.reset = -(int64_t)below;
    config.count = is_root ? (int)below : 1;
    if (!is_root) {
        uint32_t parent = b->me - b->me % rackmem_counter_barrier_stride_(level + 2);
        notifications[0].kind = RACKMEM_NOTIFY_COUNTER;
        notifications[0].at = rackmem_counter_barrier_line_(b, parent, level + 2);
    }
    return rackmem_counter_open(b->ctx, rackmem_counter_barrier_line_(b, b->me, level + 1).offset,
                                &config);
}

/*
 * Opens the barrier of `threads` participants on each node of the run as the `thread`-th of this
 * node, from 0. No participant may wait before all have opened.
 *
 * -EINVAL threads, thread or offset, -ERANGE the area leaves the segment.
 */
static inline int rackmem_counter_barrier_open(rackmem_counter_barrier *b, rackmem_context *ctx,
                                               QP *qp, uint64_t area_offset, int threads,
                                               int thread)
{
    int nodes = rackmem_nodes(ctx);
    b->ctx = ctx;
    b->qp = qp;
    b->area_offset = area_offset;
    b->threads = (uint32_t)threads;
    b->participants = (uint32_t)nodes * b->threads;
    b->me = (uint32_t)rackmem_nid(ctx) * b->threads + (uint32_t)thread;
    b->levels = rackmem_counter_barrier_levels_(b->participants);
    if (threads <= 0 || threads > 65536 || thread < 0 || thread >= threads)
        return rackmem_set_last_error(-22, "a barrier has 1 to 65536 threads a node, named from 0");
    if (area_offset % RACKMEM_LINE_BYTES)
        return rackmem_set_last_error(-22, "a barrier's area begins at a multiple of 64");
    if (!rackmem_is_in_segment_(ctx, area_offset, rackmem_counter_barrier_bytes(nodes, threads)))
        return rackmem_set_last_error(-34, "the barrier's area leaves the segment"); /* ERANGE */
    for (uint32_t level = 0; level < b->levels; level++) {
        if (b->me % rackmem_counter_barrier_stride_(level + 1) != 0)
            break;
        int error = rackmem_counter_barrier_counter_(b, level);
        if (error != 0)
            return error;
    }
    return 0;
}

/* Raises the flags of the participants below this one, the farthest first. */
static inline int rackmem_counter_barrier_release_(rackmem_counter_barrier *b)
{
    uint32_t level = 0;
    int first_error = 0;
    while (level + 1 < b->levels && b->me % rackmem_counter_barrier_stride_(level + 1) == 0)
        level++;
    while (level-- > 0) {
        uint32_t stride = rackmem_counter_barrier_stride_(level), p = b->me + stride;
        for (int i = 1; i < RACKMEM_COUNTER_BARRIER_FAN && p < b->participants; i++, p += stride) {
            int error = rackmem_put_word_(b->qp, rackmem_counter_barrier_line_(b, p, 0), 1);
            if (first_error == 0)
                first_error = rackmem_gone_(error);
        }
    }
    return first_error;
}

/*
 * Returns when all participants have called it as often as this one. 0, or -EHOSTDOWN once a node
 * is lost or has left; whether others passed is then unknown.
 */
static inline int rackmem_counter_barrier_wait(rackmem_counter_barrier *b)
{
    if (b->participants == 1)
        return 0;
    uint32_t group = b->me - b->me % RACKMEM_COUNTER_BARRIER_FAN;
    int error = rackmem_counter_add(b->qp, rackmem_counter_barrier_line_(b, group, 1), 1);
    if (RACKMEM_UNLIKELY(error != 0))
        return rackmem_gone_(error);
    uint64_t own_flag = rackmem_counter_barrier_line_(b, b->me, 0).offset;
    error = rackmem_flag_wait(b->ctx, b->qp, own_flag, -1, 0);
    return RACKMEM_LIKELY(error == 0) ? rackmem_counter_barrier_release_(b) : error;
}

#ifdef __cplusplus
}
#endif
#endif
