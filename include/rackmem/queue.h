/*
 * Single-reader queue (CINI §3.3): any node enqueues items, the node that holds it takes them out.
 *
 *     rackmem_queue q;                                              // 64 items of one word, node 0
 *     int err = rackmem_queue_open(&q, ctx, qp, rackmem_at(0, offset), 64, 1);
 *     err = rackmem_queue_put(&q, &word);                           // any node
 *     err = rackmem_queue_get(&q, &word);                           // node 0
 *
 * A producer reserves room, gets its place by fetch-and-add of the tail, and writes the item in one
 * go; each line of it begins with the number of the place, and arrives with it (a remote write
 * stores the head of a line last). So the reader needs nothing but its own memory. The paper leaves
 * overflow to software; here the producer gets -EAGAIN if the queue is full, and nothing is
 * overwritten.
 *
 * A producer that dies before it has a place takes the room of an item with it. One that dies
 * before it has written leaves a gap, for which the reader gets -EHOSTDOWN, even if another process
 * has taken its place.
 *
 * The area starts zeroed and serves one queue only; there is nothing to initialise.
 */
#ifndef RACKMEM_QUEUE_H
#define RACKMEM_QUEUE_H

#include "wait.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Most items that a queue holds, and most words of an item. */
#define RACKMEM_QUEUE_MAX_SLOTS 65536
#define RACKMEM_QUEUE_MAX_WORDS 64

/* Words of an item that go into a line, beside the number of its place. */
#define RACKMEM_QUEUE_LINE_WORDS_ 7

/* Offsets of the words of a queue: producers' line, reader's line, body. */
enum {
    RACKMEM_QUEUE_TAIL_ = 0, /* places given out, ever */
    RACKMEM_QUEUE_USED_ = 8, /* room reserved and not given back */
    RACKMEM_QUEUE_SHAPE_ = 16,
    RACKMEM_QUEUE_HEAD_ = 64, /* items taken out, ever */
    RACKMEM_QUEUE_BODY_ = 128
};

/* An end of a queue, used by one thread at a time. Its members are private. */
typedef struct rackmem_queue {
    rackmem_context *ctx;
    QP *qp;
    rackmem_address home;
    uint32_t slots;
    uint32_t words;         /* of an item */
    uint32_t lines;         /* of an item */
    uint64_t losses;        /* rackmem_losses when there was no gap */
    unsigned char *scratch; /* local buffer: the lines of an item about to be written */
} rackmem_queue;

static inline int rackmem_is_power_of_two_(uint64_t n)
{
    return n != 0 && (n & (n - 1)) == 0;
}

static inline uint32_t rackmem_queue_lines_(uint32_t words)
{
    return (words + RACKMEM_QUEUE_LINE_WORDS_ - 1) / RACKMEM_QUEUE_LINE_WORDS_;
}

/* Size of the area of a queue, in bytes; 0 if there can be no such queue. */
static inline size_t rackmem_queue_bytes(uint32_t slots, uint32_t words)
{
    if (!rackmem_is_power_of_two_(slots) || slots > RACKMEM_QUEUE_MAX_SLOTS ||
        !rackmem_is_power_of_two_(words) || words > RACKMEM_QUEUE_MAX_WORDS)
        return 0;
    return RACKMEM_QUEUE_BODY_ + (size_t)slots * rackmem_queue_lines_(words) * RACKMEM_LINE_BYTES;
}

/* Makes all ends of a structure agree on its shape: the first one stores it, the others compare. */
static inline int rackmem_agree_(QP *qp, rackmem_address at, uint64_t shape)
{
    uint64_t known;
    int error = rmc_compare_and_swap(qp, at.nid, at.offset, 0, shape, &known);
    if (error == 0 && known != 0 && known != shape)
        return rackmem_set_last_error(-22, "others have opened it with another size");
    return rackmem_explain(error, "the area cannot be written at its home");
}

/* Checks that an area begins at a line and lies in its node's segment, by a read of its end. */
static inline int rackmem_check_area_(QP *qp, rackmem_address at, size_t size_bytes)
{
    uint64_t last;
    if (!rackmem_is_packable_(at) || at.offset % RACKMEM_LINE_BYTES)
        return rackmem_set_last_error(-22, "an area begins at a multiple of 64 bytes of a node");
    int error = rmc_read(qp, at.nid, at.offset + size_bytes - sizeof last, &last, sizeof last);
    if (error == -34) /* ERANGE */
        return rackmem_set_last_error(error, "the area leaves the node's segment");
    return rackmem_explain(error, "the area cannot be read at its home");
}

/*
 * Opens an end of the queue at `home`, of `slots` items of `words` words: powers of two up to
 * RACKMEM_QUEUE_MAX_SLOTS and _WORDS, the same for all ends. The home takes items out.
 *
 * -EINVAL size or offset, or others have opened it with another size, -ERANGE the area leaves the
 * segment, -ENOMEM, and errors of operations on the home.
 */
static inline int rackmem_queue_open(rackmem_queue *q, rackmem_context *ctx, QP *qp,
                                     rackmem_address home, uint32_t slots, uint32_t words)
{
    size_t size_bytes = rackmem_queue_bytes(slots, words);
    if (size_bytes == 0)
        return rackmem_set_last_error(-22, "a queue has a power of two of items, up to 65536, of a "
                                           "power of two of words, up to 64");
    int error = rackmem_check_area_(qp, home, size_bytes);
    if (error == 0)
        error = rackmem_agree_(qp, rackmem_at(home.nid, home.offset + RACKMEM_QUEUE_SHAPE_),
                               (uint64_t)slots << 32 | words);
    if (error != 0)
        return error;
    q->ctx = ctx;
    q->qp = qp;
    q->home = home;
    q->slots = slots;
    q->words = words;
    q->lines = rackmem_queue_lines_(words);
    q->losses = 0;
    q->scratch = (unsigned char *)rackmem_alloc(ctx, (size_t)q->lines * RACKMEM_LINE_BYTES);
    return q->scratch ? 0 : -12; /* ENOMEM */
}

/* ---- Producers --------------------------------------------------------------------------- */

/* Reserves room for an item and gives its place. */
static inline int rackmem_queue_reserve_(QP *qp, rackmem_address home, uint32_t slots,
                                         uint64_t *place)
{
    uint64_t used;
    int error = rmc_fetch_and_add(qp, home.nid, home.offset + RACKMEM_QUEUE_USED_, 1, &used);
    if (error != 0)
        return error;
    if (RACKMEM_UNLIKELY(used >= slots)) {
        error = rmc_fetch_and_add(qp, home.nid, home.offset + RACKMEM_QUEUE_USED_, UINT64_MAX, 0);
        return error != 0 ? error : -11; /* EAGAIN */
    }
    return rmc_fetch_and_add(qp, home.nid, home.offset + RACKMEM_QUEUE_TAIL_, 1, place);
}

RACKMEM_INLINE uint64_t rackmem_queue_slot_offset_(rackmem_address home, uint32_t slots,
                                                   uint32_t lines, uint64_t place)
{
    return home.offset + RACKMEM_QUEUE_BODY_ +
           (place & (slots - 1)) * lines * (uint64_t)RACKMEM_LINE_BYTES;
}

/* Lays an item of `words` words out in lines, each with its number first. Returns the bytes. */
static inline size_t rackmem_queue_pack_(unsigned char *lines, const void *item, uint32_t words,
                                         uint64_t number)
{
    const unsigned char *from = (const unsigned char *)item;
    unsigned char *to = lines;
    for (uint32_t left = words;;) {
        uint32_t n = left < RACKMEM_QUEUE_LINE_WORDS_ ? left : RACKMEM_QUEUE_LINE_WORDS_;
        __builtin_memcpy(to, &number, sizeof number);
        __builtin_memcpy(to + sizeof number, from, (size_t)n * 8);
        left -= n;
        if (left == 0)
            return (size_t)(to - lines) + sizeof number + (size_t)n * 8;
        from += (size_t)n * 8;
        to += RACKMEM_LINE_BYTES;
    }
}

/*
 * Enqueues an item, of as many words as the queue was opened for.
 *
 * -EAGAIN the queue is full: nothing has been enqueued. (It counts as full also while another
 * producer has reserved room in vain.) -EHOSTDOWN the home is lost, -ENOENT it has left.
 */
static inline int rackmem_queue_put(rackmem_queue *q, const void *item)
{
    uint64_t place;
    int error = rackmem_queue_reserve_(q->qp, q->home, q->slots, &place);
    if (RACKMEM_UNLIKELY(error != 0))
        return error;
    size_t bytes = rackmem_queue_pack_(q->scratch, item, q->words, place + 1);
    return rmc_write(q->qp, q->home.nid,
                     rackmem_queue_slot_offset_(q->home, q->slots, q->lines, place), q->scratch,
                     bytes);
}

/* Enqueues a word by the queue's address alone, for notifications of counters. */
static inline int rackmem_queue_put_word_(QP *qp, rackmem_address home, uint64_t word)
{
    uint64_t shape, place;
    int error = rmc_read(qp, home.nid, home.offset + RACKMEM_QUEUE_SHAPE_, &shape, sizeof shape);
    if (error != 0)
        return error;
    if ((uint32_t)shape != 1)
        return rackmem_set_last_error(-22, "no queue of words has been opened at that address");
    error = rackmem_queue_reserve_(qp, home, (uint32_t)(shape >> 32), &place);
    if (error != 0)
        return error;
    uint64_t *operands = rackmem_operands_(qp);
    operands[0] = place + 1;
    operands[1] = word;
    return rackmem_sync_(qp, RACKMEM_OP_WRITE, (uint32_t)home.nid,
                         rackmem_queue_slot_offset_(home, (uint32_t)(shape >> 32), 1, place),
                         operands, 16);
}

/* ---- The reader -------------------------------------------------------------------------- */

RACKMEM_INLINE uint64_t *rackmem_queue_word_(const rackmem_queue *q, uint64_t which)
{
    return rackmem_own_word_(q->ctx, q->home.offset + which);
}

/* The first word of the i-th line of the item at the head. */
RACKMEM_INLINE const uint64_t *rackmem_queue_line_(const rackmem_queue *q, uint64_t head,
                                                   uint32_t line)
{
    return rackmem_own_word_(q->ctx, rackmem_queue_slot_offset_(q->home, q->slots, q->lines, head) +
                                         (uint64_t)line * RACKMEM_LINE_BYTES);
}

/* Whether all lines of the item at the head have come. */
static inline int rackmem_queue_has_item_(void *queue)
{
    const rackmem_queue *q = (const rackmem_queue *)queue;
    uint64_t head = *rackmem_queue_word_(q, RACKMEM_QUEUE_HEAD_);
    for (uint32_t line = 0; line < q->lines; line++)
        if (__atomic_load_n(rackmem_queue_line_(q, head, line), __ATOMIC_ACQUIRE) != head + 1)
            return 0;
    return 1;
}

/* Gives the place at the head back. */
static inline void rackmem_queue_free_(rackmem_queue *q)
{
    ++*rackmem_queue_word_(q, RACKMEM_QUEUE_HEAD_);
    __atomic_fetch_sub(rackmem_queue_word_(q, RACKMEM_QUEUE_USED_), 1, __ATOMIC_RELEASE);
}

/* Takes the item at the head, which has come. */
static inline void rackmem_queue_take_(rackmem_queue *q, void *item)
{
    uint64_t head = *rackmem_queue_word_(q, RACKMEM_QUEUE_HEAD_);
    unsigned char *to = (unsigned char *)item;
    uint32_t left = q->words;
    for (uint32_t line = 0; line < q->lines; line++) {
        uint32_t n = left < RACKMEM_QUEUE_LINE_WORDS_ ? left : RACKMEM_QUEUE_LINE_WORDS_;
        __builtin_memcpy(to, rackmem_queue_line_(q, head, line) + 1, (size_t)n * 8);
        to += (size_t)n * 8;
        left -= n;
    }
    rackmem_queue_free_(q);
}

/* Takes the next item. -EAGAIN there is none, -EPERM the queue is another node's. */
static inline int rackmem_queue_try_get(rackmem_queue *q, void *item)
{
    if (q->home.nid != rackmem_nid(q->ctx))
        return rackmem_set_last_error(-1, "only the node that holds the queue takes items out");
    if (!rackmem_queue_has_item_(q))
        return -11; /* EAGAIN */
    rackmem_queue_take_(q, item);
    return 0;
}

/* Checks a wait. -EHOSTDOWN if an item that was begun has not come by the second check while a node
 * is gone, or since a process was lost; or if no other node is left to enqueue; else 0. */
static inline int rackmem_queue_watch_(rackmem_queue *q, int *misses)
{
    uint64_t losses = rackmem_losses(q->ctx);
    uint64_t tail = __atomic_load_n(rackmem_queue_word_(q, RACKMEM_QUEUE_TAIL_), __ATOMIC_ACQUIRE);
    if (tail != *rackmem_queue_word_(q, RACKMEM_QUEUE_HEAD_)) {
        int is_any_lost = losses != q->losses || rackmem_is_any_gone_(q->ctx);
        return is_any_lost && ++*misses > 1 ? -112 : 0; /* EHOSTDOWN */
    }
    *misses = 0;
    q->losses = losses;
    return rackmem_is_left_alone_(q->ctx) ? -112 : 0; /* EHOSTDOWN */
}

/*
 * Takes the next item, and waits for it.
 *
 * -EHOSTDOWN a process was lost and an item that was begun does not come (rackmem_queue_skip goes
 * on without it), or all other nodes are gone and none is left. -EPERM the queue is another node's.
 */
static inline int rackmem_queue_get(rackmem_queue *q, void *item)
{
    int misses = 0;
    for (;;) {
        int error = rackmem_queue_try_get(q, item);
        if (error != -11) /* EAGAIN */
            return error;
        error = rackmem_await_(q->ctx, q->qp, rackmem_queue_has_item_, q);
        if (error == -110) /* ETIMEDOUT */
            error = rackmem_queue_watch_(q, &misses);
        if (error != 0 && !rackmem_queue_has_item_(q))
            return error;
    }
}

/* Gives up the item at the head, whose producer was lost before it came: after -EHOSTDOWN of
 * rackmem_queue_get, and if no other producer is stopped between reserving and writing. */
static inline void rackmem_queue_skip(rackmem_queue *q)
{
    rackmem_queue_free_(q);
}

#ifdef __cplusplus
}
#endif
#endif
