/*
 * Addresses within the rack, and waiting for writes of other nodes: the base of counter.h, copy.h,
 * queue.h, mr_queue.h, lock.h and counter_barrier.h.
 *
 * A waiter polls its own memory up to qp->spin_limit times, and sleeps after that, woken by remote
 * writes. Every RACKMEM_WATCH_MS it checks that the nodes for which it waits still live.
 */
#ifndef RACKMEM_WAIT_H
#define RACKMEM_WAIT_H

#include "abi.h"
#include "runtime.h"
#include "access.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Interval at which a sleeper checks that its peers live, in ms. */
#define RACKMEM_WATCH_MS 20

/* For rare paths: as calls, they do not make the common path save registers for them. */
#define RACKMEM_COLD static __attribute__((noinline, cold, unused))

/* A place in a node's segment. */
typedef struct rackmem_address {
    int nid; /* below 0: nowhere */
    uint64_t offset;
} rackmem_address;

/* The address that means none. */
#define RACKMEM_NOWHERE_NID (-1)

/* The address `offset` bytes into the segment of node nid. */
static inline rackmem_address rackmem_at(int nid, uint64_t offset)
{
    rackmem_address at;
    at.nid = nid;
    at.offset = offset;
    return at;
}

/* An address that means none. */
static inline rackmem_address rackmem_nowhere(void)
{
    return rackmem_at(RACKMEM_NOWHERE_NID, 0);
}

/* Whether an address fits the packed form below. */
static inline int rackmem_is_packable_(rackmem_address at)
{
    return at.nid >= 0 && at.nid < RACKMEM_MAX_NODES && at.offset <= RACKMEM_MAX_OFFSET;
}

/* An address in 52 bits: node 12, offset 40. */
RACKMEM_INLINE uint64_t rackmem_pack_(rackmem_address at)
{
    return (uint64_t)at.nid << 40 | at.offset;
}

RACKMEM_INLINE rackmem_address rackmem_unpack_(uint64_t packed)
{
    return rackmem_at((int)(packed >> 40 & (RACKMEM_MAX_NODES - 1)), packed & RACKMEM_MAX_OFFSET);
}

/* Whether `size_bytes` at `offset` lie in this node's segment. */
static inline int rackmem_is_in_segment_(const rackmem_context *ctx, uint64_t offset,
                                         uint64_t size_bytes)
{
    uint64_t segment_bytes = rackmem_segment_bytes(ctx);
    return offset <= segment_bytes && size_bytes <= segment_bytes - offset;
}

/* A word of this node's own segment. */
RACKMEM_INLINE uint64_t *rackmem_own_word_(const rackmem_context *ctx, uint64_t offset)
{
    return (uint64_t *)(void *)((unsigned char *)rackmem_segment(ctx) + offset);
}

/* Leaves the core to others for a moment, as far as it can. */
RACKMEM_INLINE void rackmem_pause_(void)
{
#if defined(__x86_64__) || defined(__i386__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ volatile("yield");
#else
    __asm__ volatile("" ::: "memory");
#endif
}

/* Writes one word, from the queue pair's own memory. */
RACKMEM_INLINE int rackmem_put_word_(QP *qp, rackmem_address at, uint64_t word)
{
    uint64_t *operands = rackmem_operands_(qp);
    operands[0] = word;
    return rackmem_sync_(qp, RACKMEM_OP_WRITE, (uint32_t)at.nid, at.offset, operands, sizeof word);
}

/* ENOENT is a node that has left: to its waiters it is gone like a lost one. */
RACKMEM_INLINE int rackmem_gone_(int error)
{
    return error == -2 ? -112 : error; /* EHOSTDOWN */
}

/* Whether operations on node nid fail because its process is gone. Unlike rackmem_sleep_until, this
 * sees a node that has come back. */
static inline int rackmem_is_unreachable_(QP *qp, int nid)
{
    uint64_t word;
    return rackmem_gone_(rmc_read(qp, nid, 0, &word, sizeof word)) == -112; /* EHOSTDOWN */
}

static inline int rackmem_never_(void *arg)
{
    (void)arg;
    return 0;
}

/* Whether node nid is lost or has left, without waiting. */
static inline int rackmem_is_gone_(rackmem_context *ctx, int nid)
{
    return rackmem_sleep_until(ctx, rackmem_never_, 0, nid, 0) == -112; /* EHOSTDOWN */
}

/* Whether any other node is. */
static inline int rackmem_is_any_gone_(rackmem_context *ctx)
{
    int own = rackmem_nid(ctx);
    for (int nid = 0; nid < rackmem_nodes(ctx); nid++)
        if (nid != own && rackmem_is_gone_(ctx, nid))
            return 1;
    return 0;
}

/* Whether there were other nodes, and all of them are. */
static inline int rackmem_is_left_alone_(rackmem_context *ctx)
{
    int own = rackmem_nid(ctx);
    for (int nid = 0; nid < rackmem_nodes(ctx); nid++)
        if (nid != own && !rackmem_is_gone_(ctx, nid))
            return 0;
    return rackmem_nodes(ctx) > 1;
}

/*
 * Spins, then sleeps for at most RACKMEM_WATCH_MS. Returns 0 once `ready(arg)`, -ETIMEDOUT when it
 * is time for the caller to check that its peers live.
 */
RACKMEM_INLINE int rackmem_await_(rackmem_context *ctx, QP *qp, int (*ready)(void *), void *arg)
{
    const uint32_t step = rackmem_poll_step_(qp);
    for (uint32_t polls = 0; polls <= qp->spin_limit; polls += step)
        if (ready(arg))
            return 0;
    if (qp->engine->progress && rmc_outstanding(qp) != 0)
        qp->engine->progress(qp); /* the program's own operations go on meanwhile */
    return rackmem_sleep_until(ctx, ready, arg, -1, RACKMEM_WATCH_MS);
}

/* ---- Flags ------------------------------------------------------------------------------- */

static inline int rackmem_is_raised_(void *flag)
{
    return __atomic_load_n((const uint64_t *)flag, __ATOMIC_ACQUIRE) != 0;
}

/*
 * Waits until the word at `offset` of this node's segment is not zero, gives it, and zeroes it: the
 * other end of a counter's notification.
 *
 * -EINVAL the offset is no multiple of 8 or outside of the segment. -EHOSTDOWN node `watch_nid` is
 * lost or has left, or, if that is below 0, any node of the run; the flag may be raised later.
 */
static inline int rackmem_flag_wait(rackmem_context *ctx, QP *qp, uint64_t offset, int watch_nid,
                                    uint64_t *word)
{
    if (offset % 8 || !rackmem_is_in_segment_(ctx, offset, 8))
        return rackmem_set_last_error(-22, "a flag is 8 aligned bytes of the own segment");
    uint64_t *flag = rackmem_own_word_(ctx, offset);
    for (;;) {
        int error = rackmem_await_(ctx, qp, rackmem_is_raised_, flag);
        if (error == 0)
            break;
        if (error != -110) /* ETIMEDOUT */
            return error;
        int is_gone = watch_nid >= 0 ? rackmem_is_gone_(ctx, watch_nid) : rackmem_is_any_gone_(ctx);
        if (is_gone && !rackmem_is_raised_(flag))
            return -112; /* EHOSTDOWN */
    }
    uint64_t raised = __atomic_exchange_n(flag, 0, __ATOMIC_ACQ_REL);
    if (word)
        *word = raised;
    return 0;
}

#ifdef __cplusplus
}
#endif
#endif
