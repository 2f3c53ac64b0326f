/*
 * Lock for any threads of any nodes; waiters are served in turn (CINI §5.3).
 *
 *     rackmem_lock l;
 *     int err = rackmem_lock_open(&l, ctx, qp, rackmem_at(0, offset), 16, flag_offset);
 *     err = rackmem_lock_acquire(&l);
 *     if (err == RACKMEM_OWNER_DIED)
 *         ...                                   // repair the guarded data; the lock is ours
 *     err = rackmem_lock_release(&l);
 *
 * The paper's lock is a multiple-reader queue that holds one token. To acquire is to read the
 * queue, and to wait in it as a request with a response address; to release is to write the token
 * back, to the first request. This is that queue for the one case of a token, which carries no
 * data: the queue's state and the token's holder are one word. So one compare-and-swap acquires a
 * free lock and one releases it, and the same step records the holder. Requests stand in a table,
 * each participant's in a place of its own, with a ticket that gives the order: a waiter that dies
 * leaves no hole in a ring for others to pass.
 *
 * Where the home's segment is mapped, the processor changes the word. A participant that finds the
 * lock taken looks again for some microseconds before it makes its request: a lock that is held for
 * less time than a hand-over takes then goes to the first that looks. No request is overtaken: once
 * one stands in the table, the lock goes from hand to hand.
 *
 * The word alone names the holder. A waiter that finds the holder gone (it looks every
 * RACKMEM_WATCH_MS) hands the lock to the next in turn by a compare-and-swap in the holder's place.
 * The next holder gets RACKMEM_OWNER_DIED. The flag that wakes a waiter is a hint.
 */
#ifndef RACKMEM_LOCK_H
#define RACKMEM_LOCK_H

#include "lock_table.h"
#include "queue.h"

#ifdef __cplusplus
extern "C" {
#endif

/* EOWNERDEAD: the caller has the lock, and its last holder died with it. */
#define RACKMEM_OWNER_DIED (-130)

/* Looks at the lock's word before a request is made, where it is mapped, and pauses between two
 * looks: some microseconds in all. */
#ifndef RACKMEM_LOCK_TRIES
#define RACKMEM_LOCK_TRIES 50
#endif
#ifndef RACKMEM_LOCK_PAUSES
#define RACKMEM_LOCK_PAUSES 8
#endif

/* Bytes of a participant's flag: the raised word, and behind it the participant's number, which
 * distinguishes it from a process that has taken its node's place. */
#define RACKMEM_LOCK_FLAG_BYTES 16

/* Most participants of a lock. */
#define RACKMEM_LOCK_MAX_PARTICIPANTS 1024

/* Size of the area of a lock of at most so many participants, in bytes; 0: too many, or none. */
static inline size_t rackmem_lock_bytes(uint32_t participants)
{
    if (participants == 0 || participants > RACKMEM_LOCK_MAX_PARTICIPANTS)
        return 0;
    return (size_t)(rackmem_lock_flags_offset_(participants) + 8 * (uint64_t)participants + 63) &
           ~(size_t)63;
}

/* ---- Opening ------------------------------------------------------------------------------ */

static inline int rackmem_lock_join_(rackmem_lock *l, uint64_t flag_offset)
{
    uint64_t place;
    int error = rackmem_agree_(l->qp, rackmem_at(l->home.nid, l->home.offset + RACKMEM_LOCK_SHAPE_),
                               l->participants);
    if (error == 0)
        error = rackmem_explain(rackmem_lock_add_(l, RACKMEM_LOCK_OPENED_, &place),
                                "the lock cannot be written at its home");
    if (error != 0)
        return error;
    if (place >= l->participants)
        return rackmem_set_last_error(-28,
                                      "the lock has all its participants already"); /* ENOSPC */
    l->me = (uint32_t)place + 1;
    __atomic_store_n(&l->flag[1], l->me, __ATOMIC_RELEASE);
    error = rackmem_lock_store_(l, rackmem_lock_flags_offset_(l->participants) + 8 * place,
                                rackmem_pack_(rackmem_at(rackmem_nid(l->ctx), flag_offset)));
    return rackmem_explain(error, "the lock cannot be written at its home");
}

/*
 * Joins the lock at `home` as one of at most `participants`, of which every open counts, for good.
 * `flag_offset` is of RACKMEM_LOCK_FLAG_BYTES in this node's segment, for this participant alone.
 * The area (rackmem_lock_bytes) and the flag start zeroed and are used for nothing else. A lock can
 * be used before others have opened it.
 *
 * -EINVAL participants or an offset, or others have opened it for another number, -ERANGE area or
 * flag leave the segment, -ENOSPC it has its participants, -ENOMEM, or errors of operations on the
 * home.
 */
static inline int rackmem_lock_open(rackmem_lock *l, rackmem_context *ctx, QP *qp,
                                    rackmem_address home, uint32_t participants,
                                    uint64_t flag_offset)
{
    rackmem_mapping mapping;
    size_t size_bytes = rackmem_lock_bytes(participants);
    if (size_bytes == 0)
        return rackmem_set_last_error(-22, "a lock has 1 to 1024 participants");
    if (flag_offset % 8)
        return rackmem_set_last_error(-22, "a lock's flag is 16 bytes, 8 aligned");
    if (!rackmem_is_in_segment_(ctx, flag_offset, RACKMEM_LOCK_FLAG_BYTES))
        return rackmem_set_last_error(-34, "the lock's flag leaves the segment"); /* ERANGE */
    int error = rackmem_check_area_(qp, home, size_bytes);
    if (error != 0)
        return error;
    l->ctx = ctx;
    l->qp = qp;
    l->home = home;
    l->memory = 0;
    if (rackmem_map(ctx, home.nid, &mapping) == 0 && home.offset <= mapping.size_bytes &&
        size_bytes <= mapping.size_bytes - home.offset) {
        l->memory = (unsigned char *)mapping.memory + home.offset;
        l->memory_state = mapping.state;
    }
    l->requests = (uint64_t *)rackmem_alloc(ctx, 8 * (size_t)participants);
    l->flag = rackmem_own_word_(ctx, flag_offset);
    l->known = 0;
    l->ticket = 0;
    l->participants = participants;
    return l->requests ? rackmem_lock_join_(l, flag_offset) : -12; /* ENOMEM */
}

/* ---- Acquire -------------------------------------------------------------------------------- */

RACKMEM_INLINE int rackmem_lock_is_held_(const rackmem_lock *l)
{
    return (l->known & RACKMEM_LOCK_HOLDER_) == l->me;
}

/* Result of acquiring: RACKMEM_OWNER_DIED if the last holder died, else 0. */
RACKMEM_INLINE int rackmem_lock_found_(const rackmem_lock *l)
{
    return l->known & RACKMEM_LOCK_ORPHANED_ ? RACKMEM_OWNER_DIED : 0;
}

/* Takes the lock if it is free: 1, 0 if not, else an error. */
RACKMEM_INLINE int rackmem_lock_try_(rackmem_lock *l)
{
    /* A guess that holds unless there has been a waiter since; the second try has the real word. */
    uint64_t word = l->known & RACKMEM_LOCK_ARRIVALS_;
    do {
        uint64_t taken = word | l->me;
        int swapped = rackmem_lock_swap_(l, &word, taken);
        if (RACKMEM_LIKELY(swapped != 0)) {
            l->known = swapped == 1 ? taken : 0;
            return swapped;
        }
    } while ((word & RACKMEM_LOCK_HOLDER_) == 0);
    l->known = word;
    return 0;
}

/* Tries again for a moment, as looks at mapped memory cost next to nothing. Waiters in the table
 * come first. */
static inline int rackmem_lock_spin_(rackmem_lock *l)
{
    for (int look = 0; look < RACKMEM_LOCK_TRIES; look++) {
        for (int pause = 0; pause < RACKMEM_LOCK_PAUSES; pause++)
            rackmem_pause_();
        l->known = __atomic_load_n(rackmem_lock_mapped_(l, RACKMEM_LOCK_WORD_), __ATOMIC_RELAXED);
        if (l->known & RACKMEM_LOCK_CONTENDED_)
            return 0;
        if (l->known & RACKMEM_LOCK_HOLDER_)
            continue;
        int had = rackmem_lock_try_(l);
        if (had != 0)
            return had;
    }
    return 0;
}

/* Joins the table, then counts as an arrival in the word. 1: the lock is ours meanwhile, 0: wait,
 * else an error. */
static inline int rackmem_lock_request_(rackmem_lock *l)
{
    int error = rackmem_lock_add_(l, RACKMEM_LOCK_TICKETS_, &l->ticket);
    l->ticket++; /* none is zero */
    if (error == 0)
        error = rackmem_lock_store_(l, rackmem_lock_request_of_(l->me), l->ticket);
    while (error == 0) {
        uint64_t holder = l->known & RACKMEM_LOCK_HOLDER_;
        if (holder == l->me)
            return 1; /* found in the table before the word said so */
        uint64_t next = holder == 0 ? l->known | l->me
                                    : (l->known + RACKMEM_LOCK_ARRIVAL_) | RACKMEM_LOCK_CONTENDED_;
        int swapped = rackmem_lock_swap_(l, &l->known, next);
        if (swapped < 0)
            return swapped;
        if (swapped == 1) {
            l->known = next;
            return holder == 0;
        }
    }
    return error;
}

static inline int rackmem_lock_is_called_(void *lock)
{
    const rackmem_lock *l = (const rackmem_lock *)lock;
    return __atomic_load_n(l->flag, __ATOMIC_ACQUIRE) >> 1 == l->ticket;
}

/* Waits until this participant holds the lock; takes it from one that is gone. */
static inline int rackmem_lock_wait_(rackmem_lock *l)
{
    for (;;) {
        int waited = rackmem_await_(l->ctx, l->qp, rackmem_lock_is_called_, l);
        if (waited != 0 && waited != -110) /* ETIMEDOUT */
            return waited;
        int error = rackmem_lock_load_(l, &l->known);
        if (error != 0)
            return error;
        uint32_t holder = (uint32_t)(l->known & RACKMEM_LOCK_HOLDER_);
        if (holder == l->me)
            return 0;
        if (waited == 0)
            return -112; /* EHOSTDOWN: it was ours, but the others took this node for lost */
        int is_orphaned = 0;
        error = holder ? rackmem_lock_is_orphaned_(l, holder, &is_orphaned) : 0;
        if (error == 0 && is_orphaned)
            error = rackmem_lock_hand_on_(l, holder, 1);
        if (error != 0)
            return error;
        if ((l->known & RACKMEM_LOCK_HOLDER_) == l->me)
            return 0;
    }
}

/*
 * Takes a request back whose wait was interrupted. It counts as an arrival: no participant that has
 * read the table before can hand the lock to this one any more. A lock that is ours by now goes to
 * the next in turn. Returns -EINTR, or another error.
 */
static inline int rackmem_lock_withdraw_(rackmem_lock *l)
{
    int error = rackmem_lock_store_(l, rackmem_lock_request_of_(l->me), 0);
    while (error == 0) {
        if (rackmem_lock_is_held_(l)) {
            error = rackmem_lock_hand_on_(l, l->me, rackmem_lock_found_(l) != 0);
            break;
        }
        uint64_t next = l->known + RACKMEM_LOCK_ARRIVAL_;
        int swapped = rackmem_lock_swap_(l, &l->known, next);
        if (swapped == 1)
            l->known = next;
        if (swapped != 0) {
            error = swapped < 0 ? swapped : 0;
            break;
        }
    }
    return error != 0 ? error : -4; /* EINTR */
}

/* The lock was not free. */
RACKMEM_COLD int rackmem_lock_acquire_slow_(rackmem_lock *l)
{
    int had = 0;
    if (l->memory && !(l->known & RACKMEM_LOCK_CONTENDED_))
        had = rackmem_lock_spin_(l);
    if (had == 1)
        return rackmem_lock_found_(l);
    if (had == 0)
        had = rackmem_lock_request_(l);
    int error = had < 0 ? had : had == 1 ? 0 : rackmem_lock_wait_(l);
    if (error == -4) /* EINTR */
        return rackmem_lock_withdraw_(l);
    if (error == 0)
        error = rackmem_lock_store_(l, rackmem_lock_request_of_(l->me), 0);
    return error != 0 ? error : rackmem_lock_found_(l);
}

/*
 * Acquires the lock, after all whose requests stood before.
 *
 * RACKMEM_OWNER_DIED (-EOWNERDEAD) the caller has the lock, and its last holder died with it (or
 * just before it would have had it), so the data it guards may be half changed; returned once.
 * -EDEADLK this participant has it already. -EHOSTDOWN the lock's home is lost or has left. A
 * holder or waiter that dies delays others by some RACKMEM_WATCH_MS and the time after which the
 * rack takes notice. The end of a thread whose process lives on goes unnoticed.
 */
RACKMEM_INLINE int rackmem_lock_acquire(rackmem_lock *l)
{
    if (RACKMEM_UNLIKELY(rackmem_lock_is_held_(l)))
        return rackmem_set_last_error(-35, "this participant holds the lock already"); /* EDEADLK */
    int had = rackmem_lock_try_(l);
    if (RACKMEM_LIKELY(had == 1))
        return rackmem_lock_found_(l);
    return had < 0 ? had : rackmem_lock_acquire_slow_(l);
}

/* Acquires the lock if it is free, or if its holder is gone (RACKMEM_OWNER_DIED) and there is no
 * waiter. -EBUSY another participant has it. Else as rackmem_lock_acquire. */
static inline int rackmem_lock_try_acquire(rackmem_lock *l)
{
    if (RACKMEM_UNLIKELY(rackmem_lock_is_held_(l)))
        return rackmem_set_last_error(-35, "this participant holds the lock already"); /* EDEADLK */
    int had = rackmem_lock_try_(l), is_orphaned;
    if (had == 1)
        return rackmem_lock_found_(l);
    uint64_t taken = (l->known & RACKMEM_LOCK_ARRIVALS_) | RACKMEM_LOCK_ORPHANED_ | l->me;
    if (had == 0 && !(l->known & RACKMEM_LOCK_CONTENDED_)) {
        had =
            rackmem_lock_is_orphaned_(l, (uint32_t)(l->known & RACKMEM_LOCK_HOLDER_), &is_orphaned);
        if (had == 0 && is_orphaned)
            had = rackmem_lock_swap_(l, &l->known, taken);
        if (had == 1) {
            l->known = taken;
            return rackmem_lock_found_(l);
        }
    }
    return had < 0 ? had : -16; /* EBUSY */
}

/* ---- Release -------------------------------------------------------------------------------- */

/* The word has changed: there is a waiter, or another participant has taken the lock away. */
RACKMEM_COLD int rackmem_lock_release_slow_(rackmem_lock *l)
{
    if ((l->known & RACKMEM_LOCK_HOLDER_) != l->me)
        return -112; /* EHOSTDOWN */
    int error = rackmem_lock_hand_on_(l, l->me, 0);
    if (error != 0)
        l->known = 0; /* with its home, the lock is gone */
    return error;
}

/*
 * Releases the lock, to the first waiter if there is one.
 *
 * -EPERM this participant does not hold it. -EHOSTDOWN the home is lost or has left, or the others
 * took this node for lost, and the lock away.
 */
RACKMEM_INLINE int rackmem_lock_release(rackmem_lock *l)
{
    if (RACKMEM_UNLIKELY(!rackmem_lock_is_held_(l)))
        return rackmem_set_last_error(-1, "this participant does not hold the lock"); /* EPERM */
    if (RACKMEM_LIKELY(!(l->known & RACKMEM_LOCK_CONTENDED_))) {
        uint64_t word = l->known, free_word = word & RACKMEM_LOCK_ARRIVALS_;
        int swapped = rackmem_lock_swap_(l, &word, free_word);
        l->known = swapped == 0 ? word : free_word;
        if (RACKMEM_LIKELY(swapped != 0))
            return swapped == 1 ? 0 : swapped;
    }
    return rackmem_lock_release_slow_(l);
}

#ifdef __cplusplus
}
#endif
#endif
