/*
 * The parts of a lock at its home: a word, and a table of requests. lock.h explains their purpose;
 * programs include that.
 */
#ifndef RACKMEM_LOCK_TABLE_H
#define RACKMEM_LOCK_TABLE_H

#include "wait.h"

#ifdef __cplusplus
extern "C" {
#endif

/*
 * The word of a lock: holder 16 (participant + 1; 0: free) | is contended 1 | has been orphaned 1 |
 * arrivals 46. Every request that joins the table counts as an arrival afterwards, so that no
 * participant that has read the table before can change the word any more.
 */
#define RACKMEM_LOCK_HOLDER_ UINT64_C(0xffff)
#define RACKMEM_LOCK_CONTENDED_ (UINT64_C(1) << 16)
#define RACKMEM_LOCK_ORPHANED_ (UINT64_C(1) << 17)
#define RACKMEM_LOCK_ARRIVAL_ (UINT64_C(1) << 18)
#define RACKMEM_LOCK_ARRIVALS_ (~(RACKMEM_LOCK_ARRIVAL_ - 1))

/* Offsets of a lock's words. The table follows, and then the addresses of participants' flags. */
enum {
    RACKMEM_LOCK_WORD_ = 0,
    RACKMEM_LOCK_TICKETS_ = 8, /* given out, ever */
    RACKMEM_LOCK_OPENED_ = 16, /* participants, ever */
    RACKMEM_LOCK_SHAPE_ = 24,
    RACKMEM_LOCK_REQUESTS_ = 32 /* ticket of each participant that waits, else 0 */
};

/* A participant, used by one thread at a time. Its members are private. */
typedef struct rackmem_lock {
    rackmem_context *ctx;
    QP *qp;
    rackmem_address home;
    unsigned char
        *memory; /* the home's, if this process has it mapped: for atomics without an engine */
    const uint32_t *memory_state;
    uint64_t *requests; /* local buffer: a copy of the table */
    uint64_t *flag;     /* ticket * 2 + is orphaned: raised for this participant; its number */
    uint64_t known;  /* the word as it was last: names this participant while it holds the lock */
    uint64_t ticket; /* of this participant's request */
    uint32_t participants;
    uint32_t me; /* participant + 1 */
} rackmem_lock;

RACKMEM_INLINE uint64_t rackmem_lock_flags_offset_(uint32_t participants)
{
    return (RACKMEM_LOCK_REQUESTS_ + 8 * (uint64_t)participants + 63) & ~UINT64_C(63);
}

/* ---- Words at home: by the processor where they are mapped, else by operations -----------------
 */

RACKMEM_INLINE uint64_t *rackmem_lock_mapped_(const rackmem_lock *l, uint64_t which)
{
    return (uint64_t *)(void *)(l->memory + which);
}

RACKMEM_INLINE int rackmem_lock_is_lost_(const rackmem_lock *l)
{
    return __atomic_load_n(l->memory_state, __ATOMIC_RELAXED) != RACKMEM_MAPPING_LIVE;
}

/* Compare-and-swap of the lock's word against *expected, which gets the old value. 1: swapped, 0:
 * not, else an error. */
RACKMEM_INLINE int rackmem_lock_swap_(rackmem_lock *l, uint64_t *expected, uint64_t desired)
{
    uint64_t old = *expected;
    if (RACKMEM_LIKELY(l->memory != 0)) {
        if (RACKMEM_UNLIKELY(rackmem_lock_is_lost_(l)))
            return -112; /* EHOSTDOWN */
        return __atomic_compare_exchange_n(rackmem_lock_mapped_(l, RACKMEM_LOCK_WORD_), expected,
                                           desired, 0, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE);
    }
    int error = rmc_compare_and_swap(l->qp, l->home.nid, l->home.offset + RACKMEM_LOCK_WORD_, old,
                                     desired, expected);
    return error != 0 ? rackmem_gone_(error) : *expected == old;
}

static inline int rackmem_lock_load_(rackmem_lock *l, uint64_t *word)
{
    if (l->memory == 0)
        return rackmem_gone_(rmc_read(l->qp, l->home.nid, l->home.offset, word, sizeof *word));
    *word = __atomic_load_n(rackmem_lock_mapped_(l, RACKMEM_LOCK_WORD_), __ATOMIC_ACQUIRE);
    return rackmem_lock_is_lost_(l) ? -112 : 0; /* EHOSTDOWN */
}

static inline int rackmem_lock_add_(rackmem_lock *l, uint64_t which, uint64_t *old)
{
    if (l->memory == 0)
        return rackmem_gone_(rmc_fetch_and_add(l->qp, l->home.nid, l->home.offset + which, 1, old));
    *old = __atomic_fetch_add(rackmem_lock_mapped_(l, which), 1, __ATOMIC_RELAXED);
    return 0;
}

static inline int rackmem_lock_store_(rackmem_lock *l, uint64_t which, uint64_t word)
{
    if (l->memory == 0)
        return rackmem_gone_(
            rackmem_put_word_(l->qp, rackmem_at(l->home.nid, l->home.offset + which), word));
    __atomic_store_n(rackmem_lock_mapped_(l, which), word, __ATOMIC_RELEASE);
    return 0;
}

/* Copies the table of requests. */
static inline int rackmem_lock_look_(rackmem_lock *l)
{
    if (l->memory == 0)
        return rackmem_gone_(rmc_read(l->qp, l->home.nid, l->home.offset + RACKMEM_LOCK_REQUESTS_,
                                      l->requests, 8 * (size_t)l->participants));
    const uint64_t *table = rackmem_lock_mapped_(l, RACKMEM_LOCK_REQUESTS_);
    for (uint32_t i = 0; i < l->participants; i++)
        l->requests[i] = __atomic_load_n(&table[i], __ATOMIC_ACQUIRE);
    return 0;
}

RACKMEM_INLINE uint64_t rackmem_lock_request_of_(uint32_t participant)
{
    return RACKMEM_LOCK_REQUESTS_ + 8 * (uint64_t)(participant - 1);
}

/* Reads the address of a participant's flag from the lock's home. */
static inline int rackmem_lock_flag_of_(rackmem_lock *l, uint32_t participant,
                                        rackmem_address *flag)
{
    uint64_t packed = 0;
    uint64_t which = rackmem_lock_flags_offset_(l->participants) + 8 * (uint64_t)(participant - 1);
    int error = 0;
    if (l->memory)
        packed = __atomic_load_n(rackmem_lock_mapped_(l, which), __ATOMIC_ACQUIRE);
    else
        error = rmc_read(l->qp, l->home.nid, l->home.offset + which, &packed, sizeof packed);
    *flag = rackmem_unpack_(packed);
    return rackmem_gone_(error);
}

/* ---- Handing over --------------------------------------------------------------------------- */

/* The participant among the requests whose ticket is the lowest, but for `except`; 0: none. *more:
 * whether there are others. */
static inline uint32_t rackmem_lock_first_(const uint64_t *requests, uint32_t participants,
                                           uint32_t except, int *more)
{
    uint32_t first = 0, count = 0;
    for (uint32_t i = 0; i < participants; i++) {
        if (requests[i] == 0 || i + 1 == except)
            continue;
        count++;
        if (first == 0 || requests[i] < requests[first - 1])
            first = i + 1;
    }
    *more = count > 1;
    return first;
}

/* The word once `holder` has lost the lock to `next`. */
RACKMEM_INLINE uint64_t rackmem_lock_handed_(uint64_t word, uint32_t next, int more,
                                             int is_orphaned)
{
    return (word & RACKMEM_LOCK_ARRIVALS_) | next | (more ? RACKMEM_LOCK_CONTENDED_ : 0) |
           (is_orphaned ? RACKMEM_LOCK_ORPHANED_ : 0);
}

/* Wakes the new holder, which otherwise learns later from the word that it holds the lock. */
static inline int rackmem_lock_wake_(rackmem_lock *l, uint32_t next, uint64_t ticket,
                                     int is_orphaned)
{
    rackmem_address flag;
    int error = rackmem_lock_flag_of_(l, next, &flag);
    if (error != 0)
        return error;
    return rackmem_gone_(rackmem_put_word_(l->qp, flag, ticket << 1 | (is_orphaned ? 1 : 0)));
}

/*
 * Hands the lock on from `holder`, which is this participant or is gone, to the request that came
 * first. One that is found to be gone is passed over, as if it had held the lock. Returns 0 also
 * when the holder is not `holder` any more.
 */
RACKMEM_COLD int rackmem_lock_hand_on_(rackmem_lock *l, uint32_t holder, int is_orphaned)
{
    for (;;) {
        int more;
        uint64_t word = l->known;
        if ((word & RACKMEM_LOCK_HOLDER_) != holder)
            return 0;
        int error = rackmem_lock_look_(l);
        if (error != 0)
            return error;
        uint32_t next = rackmem_lock_first_(l->requests, l->participants, holder, &more);
        uint64_t handed = rackmem_lock_handed_(word, next, more, is_orphaned);
        error = rackmem_lock_swap_(l, &l->known, handed);
        if (error < 0)
            return error;
        if (error == 0)
            continue; /* there was an arrival */
        l->known = handed;
        if (holder != l->me && rackmem_lock_store_(l, rackmem_lock_request_of_(holder), 0) != 0)
            return -112; /* EHOSTDOWN */
        if (next == 0 || next == l->me ||
            rackmem_lock_wake_(l, next, l->requests[next - 1], is_orphaned) != -112)
            return 0;
        holder = next; /* which may have learnt from the word that it had the lock before it died */
        is_orphaned = 1;
    }
}

/* Whether the holder is gone, or another process is in its place. */
static inline int rackmem_lock_is_orphaned_(rackmem_lock *l, uint32_t holder, int *is_orphaned)
{
    rackmem_address flag;
    uint64_t number = 0;
    int error = rackmem_lock_flag_of_(l, holder, &flag);
    if (error != 0)
        return error;
    error = rackmem_gone_(rmc_read(l->qp, flag.nid, flag.offset + 8, &number, sizeof number));
    *is_orphaned = error == -112 || (error == 0 && number != holder); /* EHOSTDOWN */
    return 0;
}

#ifdef __cplusplus
}
#endif
#endif
