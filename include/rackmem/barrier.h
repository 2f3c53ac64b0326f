/*
 * Barrier over any nodes of a context (soNUMA §5.3): each member announces its arrival by one
 * 8-byte write to every other member, then polls its own memory until all have arrived.
 *
 *     rackmem_barrier b;
 *     int err = rackmem_barrier_open(&b, ctx, qp, offset, NULL, 0);   // all nodes of the run
 *     for (...) {
 *         ...
 *         err = rackmem_barrier_wait(&b);
 *     }
 *
 * Inline, without libc. A member's own operations that others are to see after the barrier must
 * have completed before it (rmc_drain_cq); unrelated ones may be outstanding.
 */
#ifndef RACKMEM_BARRIER_H
#define RACKMEM_BARRIER_H

#include "abi.h"
#include "runtime.h"
#include "access.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Time for which one member is watched before the next when several are late, in ms. */
#define RACKMEM_BARRIER_WATCH_MS 20

/* A member's end of a barrier, used by one thread at a time. Its members are private. */
typedef struct rackmem_barrier {
    rackmem_context *ctx;
    QP *qp;
    const unsigned char *area; /* one line per member, written by that member */
    uint64_t *arrival;         /* source of the writes: the epoch */
    uint16_t *members;         /* ascending, without this node */
    uint64_t line_offset;      /* of this node's line in every member's segment */
    uint64_t epoch;            /* of the latest wait */
    int others;                /* entries of `members` */
    int rank;                  /* this node's place among all members */
} rackmem_barrier;

/* Size of the area that every member's segment provides, at the same 64-byte aligned offset, for
 * a barrier of `nodes` members. The area starts zeroed and serves one barrier only. */
static inline size_t rackmem_barrier_bytes(int nodes)
{
    return nodes > 0 ? (size_t)nodes * RACKMEM_LINE_BYTES : 0;
}

/* Inserts `nid` in the ascending list; -1 if it is there already. */
static inline int rackmem_barrier_insert_(uint16_t *list, int count, uint16_t nid)
{
    int place = count;
    while (place > 0 && list[place - 1] > nid)
        place--;
    if (place > 0 && list[place - 1] == nid)
        return -1;
    for (int i = count; i > place; i--)
        list[i] = list[i - 1];
    list[place] = nid;
    return 0;
}

/* Fills b->members and b->rank: the order is by node number, whatever the caller's order. */
static inline int rackmem_barrier_members_(rackmem_barrier *b, const uint16_t *members, int count)
{
    int nid = rackmem_nid(b->ctx);
    int nodes = rackmem_nodes(b->ctx);
    b->rank = -1;
    for (int i = 0; i < count; i++) {
        uint16_t member = members ? members[i] : (uint16_t)i;
        if (member >= nodes || rackmem_barrier_insert_(b->members, i, member) != 0)
            return rackmem_set_last_error(
                -22, "a barrier's members are nodes of the run, each named once"); /* EINVAL */
    }
    for (int i = 0; i < count; i++)
        if (b->members[i] == nid)
            b->rank = i;
    if (b->rank < 0)
        return rackmem_set_last_error(-22, "a barrier is opened by its members only"); /* EINVAL */
    for (int i = b->rank; i + 1 < count; i++)
        b->members[i] = b->members[i + 1];
    b->others = count - 1;
    return 0;
}

/*
 * Opens this node's end of a barrier between the nodes in `members` (NULL or none: all nodes of
 * the run), whose area lies at `area_offset` of each one's segment. All members name the same
 * nodes, in any order. Opening sends nothing: it may happen before or after others wait.
 *
 * -EINVAL members or offset, -ERANGE the area leaves the segment, -ENOMEM.
 */
static inline int rackmem_barrier_open(rackmem_barrier *b, rackmem_context *ctx, QP *qp,
                                       uint64_t area_offset, const uint16_t *members, int count)
{
    b->ctx = ctx;
    b->qp = qp;
    if (!members || count <= 0) {
        members = 0;
        count = rackmem_nodes(ctx);
    }
    if (area_offset % RACKMEM_LINE_BYTES || count > RACKMEM_MAX_NODES)
        return rackmem_set_last_error(-22 /* EINVAL */, "a barrier's area begins at a multiple of "
                                                        "64, and has at most 4096 members");
    size_t size = rackmem_segment_bytes(ctx);
    if (area_offset > size || rackmem_barrier_bytes(count) > size - area_offset)
        return rackmem_set_last_error(-34, "the barrier's area leaves the segment"); /* ERANGE */
    unsigned char *memory = (unsigned char *)rackmem_alloc(
        ctx, RACKMEM_LINE_BYTES + (size_t)count * sizeof b->members[0]);
    if (!memory)
        return -12; /* ENOMEM, of which rackmem_alloc has told */
    b->arrival = (uint64_t *)(void *)memory;
    b->members = (uint16_t *)(void *)(memory + RACKMEM_LINE_BYTES);
    int error = rackmem_barrier_members_(b, members, count);
    if (error != 0)
        return error;
    b->area = (const unsigned char *)rackmem_segment(ctx) + area_offset;
    b->line_offset = area_offset + (uint64_t)b->rank * RACKMEM_LINE_BYTES;
    b->epoch = 0;
    return 0;
}

/* Whether the i-th other member has arrived; it may be one epoch ahead already. */
RACKMEM_INLINE int rackmem_barrier_arrived_(const rackmem_barrier *b, int i)
{
    int line = i < b->rank ? i : i + 1;
    const unsigned char *word = b->area + (size_t)line * RACKMEM_LINE_BYTES;
    uint64_t seen = __atomic_load_n((const uint64_t *)(const void *)word, __ATOMIC_ACQUIRE);
    return (int64_t)(seen - b->epoch) >= 0;
}

/* The error of a failed announcement to the i-th member: none if that member had arrived before it
 * left, because then it waited for no announcement any more. */
static inline int rackmem_barrier_failed_(const rackmem_barrier *b, int i, int error)
{
    if (error == 0 || rackmem_barrier_arrived_(b, i))
        return 0;
    return error == -2 ? -112 : error; /* ENOENT, it has left: EHOSTDOWN like a lost one */
}

/* Announcements under way on a queue pair whose other operations keep their callbacks: each
 * borrows a slot and gives it back as it was. */
typedef struct rackmem_barrier_posts_ {
    uint8_t state[MAX_WQ_SIZE];
    uint8_t status[MAX_WQ_SIZE];
    int32_t member[MAX_WQ_SIZE]; /* who is written to, or -1: not one of ours */
    int pending;
    int error;
} rackmem_barrier_posts_;

/* Takes one completion, if there is one: one of ours, or one that is due to the program later. */
static inline int rackmem_barrier_reap_(rackmem_barrier *b, rackmem_barrier_posts_ *posts)
{
    QP *qp = b->qp;
    int32_t first_error = qp->first_error;
    int slot = rackmem_reap_(qp);
    if (slot < 0)
        return 0;
    if (posts->member[slot] < 0) {
        qp->slot_state[slot] = RACKMEM_SLOT_DONE;
        qp->done++;
        return 1;
    }
    int error = rackmem_barrier_failed_(b, posts->member[slot], rmc_status(qp, slot));
    if (error != 0)
        posts->error = error;
    qp->first_error = first_error;
    qp->slot_state[slot] = posts->state[slot];
    qp->slot_status[slot] = posts->status[slot];
    posts->member[slot] = -1;
    posts->pending--;
    return 1;
}

/* Announces to all others with as many writes in flight as the queue pair holds; `has_engine`, a
 * constant, says whether an engine posts them. */
RACKMEM_INLINE int rackmem_barrier_post_all_(rackmem_barrier *b, int has_engine)
{
    rackmem_barrier_posts_ posts;
    QP *qp = b->qp;
    uint32_t polls = 0;
    posts.pending = 0;
    posts.error = 0;
    for (uint32_t slot = 0; slot < qp->size; slot++)
        posts.member[slot] = -1;
    for (int i = 0; i < b->others || posts.pending > 0;) {
        uint32_t slot = qp->posted & (qp->size - 1);
        if (i < b->others && posts.member[slot] < 0 && qp->slot_state[slot] != RACKMEM_SLOT_BUSY) {
            posts.state[slot] = qp->slot_state[slot];
            posts.status[slot] = qp->slot_status[slot];
            posts.member[slot] = i;
            posts.pending++;
            uint32_t nid = (uint32_t)b->members[i++];
            if (has_engine)
                rackmem_execute_(qp, RACKMEM_OP_WRITE, nid, b->line_offset, b->arrival,
                                 sizeof *b->arrival);
            else
                rackmem_post_(qp, RACKMEM_OP_WRITE, nid, b->line_offset, b->arrival,
                              sizeof *b->arrival);
        } else if (!rackmem_barrier_reap_(b, &posts)) {
            rackmem_relax_(qp, &polls);
        }
    }
    return posts.error;
}

static inline int rackmem_barrier_post_(rackmem_barrier *b)
{
    return rackmem_barrier_post_all_(b, 0);
}

static inline int rackmem_barrier_start_(rackmem_barrier *b)
{
    return rackmem_barrier_post_all_(b, 1);
}

/* Announces this node's arrival to all others, even if one is lost: the rest wait for it. */
RACKMEM_INLINE int rackmem_barrier_announce_(rackmem_barrier *b)
{
    int first_error = 0;
    *b->arrival = b->epoch;
    if (!b->qp->engine->execute && b->others > 1)
        return rackmem_barrier_post_(b);
    if (b->qp->engine->posts && b->others > 1)
        return rackmem_barrier_start_(b);
    for (int i = 0; i < b->others; i++) {
        int error =
            rmc_write(b->qp, b->members[i], b->line_offset, b->arrival, sizeof *b->arrival);
        if (RACKMEM_UNLIKELY(error != 0) && first_error == 0)
            first_error = rackmem_barrier_failed_(b, i, error);
    }
    return first_error;
}

/* The next member that is missing, from the i-th on and round; -1 if all have arrived. */
static inline int rackmem_barrier_missing_(const rackmem_barrier *b, int i)
{
    for (int n = 0; n < b->others; n++, i++) {
        if (i >= b->others)
            i = 0;
        if (!rackmem_barrier_arrived_(b, i))
            return i;
    }
    return -1;
}

static inline int rackmem_barrier_complete_(void *barrier)
{
    return rackmem_barrier_missing_((const rackmem_barrier *)barrier, 0) < 0;
}

/* Sleeps until all have arrived, watching the missing members in turn: one that is alive may
 * have given up because of one that is lost. */
static inline int rackmem_barrier_sleep_(rackmem_barrier *b)
{
    int i = 0;
    for (;;) {
        i = rackmem_barrier_missing_(b, i);
        if (i < 0)
            return 0;
        int alone = rackmem_barrier_missing_(b, i + 1) == i;
        int error = rackmem_sleep_until(b->ctx, rackmem_barrier_complete_, b, b->members[i],
                                        alone ? -1 : RACKMEM_BARRIER_WATCH_MS);
        if (error != 0 && error != -110 && !rackmem_barrier_arrived_(b, i)) /* not ETIMEDOUT */
            return error;
        i++;
    }
}

/*
 * Returns when all members have called it as often as this one. 0, or -EHOSTDOWN once a member
 * is lost or has left without arriving; whether others passed is then unknown.
 */
static inline int rackmem_barrier_wait(rackmem_barrier *b)
{
    b->epoch++;
    int error = rackmem_barrier_announce_(b);
    if (RACKMEM_UNLIKELY(error != 0))
        return error;
    uint32_t polls = 0;
    const uint32_t step = rackmem_poll_step_(b->qp);
    for (int i = 0; i < b->others; i++) {
        while (RACKMEM_UNLIKELY(!rackmem_barrier_arrived_(b, i))) {
            if (RACKMEM_UNLIKELY((polls += step) > b->qp->spin_limit))
                return rackmem_barrier_sleep_(b);
        }
    }
    return 0;
}

#ifdef __cplusplus
}
#endif
#endif
