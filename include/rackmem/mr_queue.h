/*
 * Multiple-reader queue (CINI §3.3): any node enqueues items, any node takes them out. A reader
 * that finds none leaves a request, which the next item answers.
 *
 *     rackmem_mr_queue q;                            // 64 items of 4 words, at node 0
 *     int err = rackmem_mr_queue_open(&q, ctx, qp, rackmem_at(0, offset), 64, 4, response_offset);
 *     err = rackmem_mr_queue_put(&q, item);          // any node
 *     err = rackmem_mr_queue_get(&q, item);          // any node
 *
 * The queue is one ring that holds either items or requests, first in, first out; never both:
 *
 *     it holds    an item arrives                      a request arrives
 *     nothing     it is stored                         it is stored
 *     items       it is stored behind them             takes the first item
 *     requests    answers the first, at the address    it is stored behind them
 *                 in its segment that it names
 *
 * A place in the ring has a number, counted without end, and a state of one word that changes by
 * compare-and-swap only:
 *
 *     empty -> writing -> item -> passed                passed is empty of the next lap
 *     empty -> request -> answering -> passed
 *
 * Places are filled one after the other: a node that fills one has seen that all before it are
 * filled, and wins it from all others, so items and requests cannot be mixed. The state names the
 * node that writes, asks or answers. So if its process is gone, the others know what it left: an
 * unfinished item is passed over, a request that was being answered is made again by its reader, an
 * answer to a dead reader goes to the next request. Only items already delivered to a dead process
 * are lost.
 *
 * The area starts zeroed and serves one queue only; there is nothing to initialise.
 */
#ifndef RACKMEM_MR_QUEUE_H
#define RACKMEM_MR_QUEUE_H

#include "ring.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Looks at an item that is being written before its reader rests. */
#ifndef RACKMEM_MR_QUEUE_POLLS
#define RACKMEM_MR_QUEUE_POLLS 100
#endif

/* Size of the area of a queue, in bytes; 0 if there can be no such queue. */
static inline size_t rackmem_mr_queue_bytes(uint32_t slots, uint32_t words)
{
    size_t body = rackmem_queue_bytes(slots, words);
    return body == 0 || slots < 2 ? 0 : body - RACKMEM_QUEUE_BODY_ + RACKMEM_MR_QUEUE_BODY_;
}

/* Bytes at response_offset of the own segment that receive answers. */
static inline size_t rackmem_mr_queue_response_bytes(uint32_t words)
{
    return (size_t)rackmem_queue_lines_(words) * RACKMEM_LINE_BYTES;
}

/* ---- Opening ----------------------------------------------------------------------------- */

/* Passes over the unfinished places of a dead end with this response address. */
static inline int rackmem_mr_queue_inherit_(rackmem_mr_queue *q)
{
    for (uint64_t slot = 0; slot < q->slots; slot++) {
        rackmem_place_ place;
        int error = rackmem_place_look_(q, slot, &place);
        if (error != 0)
            return error;
        /* The number of its lap, as far as the state tells, is enough to pass it. */
        place.number += (place.state >> 46 & 0x7fff) * q->slots;
        uint64_t kind = rackmem_place_kind_(place.state);
        rackmem_address of = rackmem_place_address_(place.state);
        if (kind == RACKMEM_PLACE_EMPTY_ || kind == RACKMEM_PLACE_ITEM_ ||
            of.nid != q->response.nid || of.offset != q->response.offset)
            continue;
        int passed = rackmem_place_pass_(q, &place);
        if (passed < 0)
            return passed;
    }
    return 0;
}

/*
 * Opens an end of the queue at `home`, of `slots` (2 or more) items of `words` words: powers of two
 * up to RACKMEM_QUEUE_MAX_SLOTS and _WORDS, the same for all ends. Answers come to
 * `response_offset` of the own segment, in zeroed lines that no other end uses. A process that
 * takes the place of one that died opens the same ends, which clears up its unfinished places.
 *
 * -EINVAL size or an offset, or others have opened it with another size, -ERANGE area or response
 * leave the segment, -ENOMEM, and errors of operations on the home.
 */
static inline int rackmem_mr_queue_open(rackmem_mr_queue *q, rackmem_context *ctx, QP *qp,
                                        rackmem_address home, uint32_t slots, uint32_t words,
                                        uint64_t response_offset)
{
    size_t size_bytes = rackmem_mr_queue_bytes(slots, words);
    if (size_bytes == 0)
        return rackmem_set_last_error(-22,
                                      "a multiple-reader queue has a power of two of items, 2 to "
                                      "65536, of a power of two of words, up to 64");
    size_t response_bytes = rackmem_mr_queue_response_bytes(words);
    if (response_offset % RACKMEM_LINE_BYTES)
        return rackmem_set_last_error(-22, "a queue's answers come to a multiple of 64");
    if (!rackmem_is_in_segment_(ctx, response_offset, response_bytes))
        return rackmem_set_last_error(-34, "the queue's answers leave the segment"); /* ERANGE */
    int error = rackmem_check_area_(qp, home, size_bytes);
    if (error == 0)
        error = rackmem_agree_(qp, rackmem_at(home.nid, home.offset + RACKMEM_MR_QUEUE_SHAPE_),
                               UINT64_C(1) << 63 | (uint64_t)slots << 32 | words);
    if (error != 0)
        return error;
    q->ctx = ctx;
    q->qp = qp;
    q->home = home;
    q->response = rackmem_at(rackmem_nid(ctx), response_offset);
    q->slots = slots;
    q->words = words;
    q->lines = rackmem_queue_lines_(words);
    q->request = 0;
    q->scratch = (unsigned char *)rackmem_alloc(ctx, response_bytes);
    if (!q->scratch)
        return -12; /* ENOMEM, of which rackmem_alloc has told */
    return rackmem_explain(rackmem_mr_queue_inherit_(q), "the queue cannot be read at its home");
}

/* ---- Put --------------------------------------------------------------------------------- */

/* Stores an item in a place that is ours to write. */
static inline int rackmem_mr_queue_fill_(rackmem_mr_queue *q, rackmem_place_ *place)
{
    /* The state stays: it is the first word, and the item stands behind it in each line. */
    for (uint32_t line = 0, left = q->words; line < q->lines; line++) {
        uint32_t n = left < RACKMEM_QUEUE_LINE_WORDS_ ? left : RACKMEM_QUEUE_LINE_WORDS_;
        uint64_t at = (uint64_t)line * RACKMEM_LINE_BYTES + 8;
        int error = rmc_write(q->qp, q->home.nid, rackmem_place_offset_(q, place->number) + at,
                              q->scratch + at, (size_t)n * 8);
        if (error != 0)
            return rackmem_gone_(error);
        left -= n;
    }
    int changed = rackmem_place_change_(q, place, RACKMEM_PLACE_ITEM_, rackmem_at(0, 0));
    return changed == 1 ? 0 : changed < 0 ? changed : -112; /* EHOSTDOWN: taken for lost */
}

/* Answers the request in `place`. 1: done, 0: another end did, or the reader is gone. */
static inline int rackmem_mr_queue_answer_(rackmem_mr_queue *q, rackmem_place_ *place,
                                           const void *item)
{
    rackmem_address to = rackmem_place_address_(place->state);
    int changed = rackmem_place_change_(q, place, RACKMEM_PLACE_ANSWERING_, q->response);
    if (changed != 1)
        return changed;
    size_t bytes = rackmem_queue_pack_(q->scratch, item, q->words, place->number + 1);
    int answered = rackmem_gone_(rmc_write(q->qp, to.nid, to.offset, q->scratch, bytes));
    changed = rackmem_place_pass_(q, place);
    if (changed < 0)
        return changed;
    return answered == 0 ? 1 : answered == -112 ? 0 : answered; /* EHOSTDOWN: who asked is gone */
}

/*
 * Enqueues an item, or answers the first request with it.
 *
 * -EAGAIN the queue is full of items. -EHOSTDOWN its home is lost or has left, or the others took
 * this node for lost.
 */
static inline int rackmem_mr_queue_put(rackmem_mr_queue *q, const void *item)
{
    for (;;) {
        rackmem_place_ place;
        uint64_t tail;
        int done = rackmem_place_first_(q, &place, &tail);
        if (done != 0)
            return done;
        if (rackmem_place_kind_(place.state) == RACKMEM_PLACE_REQUEST_) {
            done = rackmem_mr_queue_answer_(q, &place, item);
            if (done != 0)
                return done == 1 ? 0 : done;
            continue;
        }
        done = rackmem_place_append_(q, &place, tail, RACKMEM_PLACE_WRITING_, q->response);
        if (done < 0)
            return done;
        if (done == 1) {
            (void)rackmem_queue_pack_(q->scratch, item, q->words, 0);
            return rackmem_mr_queue_fill_(q, &place);
        }
    }
}

/* ---- Get --------------------------------------------------------------------------------- */

/* Takes an item out of lines like those of a place. */
static inline void rackmem_mr_queue_unpack_(const rackmem_mr_queue *q, const unsigned char *lines,
                                            void *item)
{
    unsigned char *to = (unsigned char *)item;
    for (uint32_t left = q->words; left > 0; lines += RACKMEM_LINE_BYTES) {
        uint32_t n = left < RACKMEM_QUEUE_LINE_WORDS_ ? left : RACKMEM_QUEUE_LINE_WORDS_;
        __builtin_memcpy(to, lines + 8, (size_t)n * 8);
        to += (size_t)n * 8;
        left -= n;
    }
}

/* Takes the item in `place`. 1: done, 0: another end has it. */
static inline int rackmem_mr_queue_take_(rackmem_mr_queue *q, rackmem_place_ *place, void *item)
{
    int error = rmc_read(q->qp, q->home.nid, rackmem_place_offset_(q, place->number), q->scratch,
                         (size_t)q->lines * RACKMEM_LINE_BYTES);
    if (error != 0)
        return rackmem_gone_(error);
    /* No end writes a place before it was passed: if it is ours now, so is the item read. */
    int passed = rackmem_place_pass_(q, place);
    if (passed == 1)
        rackmem_mr_queue_unpack_(q, q->scratch, item);
    return passed;
}

/* The first item is being written: wait a little, or pass it over if its writer is gone. */
static inline int rackmem_mr_queue_linger_(rackmem_mr_queue *q, rackmem_place_ *place)
{
    int writer = rackmem_place_address_(place->state).nid;
    int error = rackmem_sleep_until(q->ctx, rackmem_never_, 0, -1, 1);
    if (error != -110) /* ETIMEDOUT */
        return error;
    if (!rackmem_is_unreachable_(q->qp, writer))
        return 0;
    int passed = rackmem_place_pass_(q, place);
    return passed < 0 ? passed : 0;
}

/* Takes an item if there is one. 1: done; 0: a request was left, or, unless `leaves_request`,
 * nothing. */
static inline int rackmem_mr_queue_ask_(rackmem_mr_queue *q, void *item, int leaves_request)
{
    for (uint32_t polls = 0;;) {
        rackmem_place_ place;
        uint64_t tail;
        int done = rackmem_place_first_(q, &place, &tail);
        if (done != 0)
            return done;
        switch (rackmem_place_kind_(place.state)) {
        case RACKMEM_PLACE_ITEM_:
            done = rackmem_mr_queue_take_(q, &place, item);
            break;
        case RACKMEM_PLACE_WRITING_:
            done = polls++ < RACKMEM_MR_QUEUE_POLLS ? 0 : rackmem_mr_queue_linger_(q, &place);
            break;
        default:
            if (!leaves_request)
                return 0;
            done = rackmem_place_append_(q, &place, tail, RACKMEM_PLACE_REQUEST_, q->response);
            if (done == 1) {
                q->request = place.number + 1;
                return 0;
            }
        }
        if (done != 0)
            return done;
    }
}

/* Takes an item if there is one. -EAGAIN there is none. -EHOSTDOWN as rackmem_mr_queue_get. */
static inline int rackmem_mr_queue_try_get(rackmem_mr_queue *q, void *item)
{
    int done = rackmem_mr_queue_ask_(q, item, 0);
    return done == 1 ? 0 : done == 0 ? -11 : done; /* EAGAIN */
}

static inline int rackmem_mr_queue_is_answered_(void *queue)
{
    const rackmem_mr_queue *q = (const rackmem_mr_queue *)queue;
    for (uint32_t line = 0; line < q->lines; line++) {
        uint64_t at = q->response.offset + (uint64_t)line * RACKMEM_LINE_BYTES;
        if (__atomic_load_n(rackmem_own_word_(q->ctx, at), __ATOMIC_ACQUIRE) != q->request)
            return 0;
    }
    return 1;
}

/* Looks after the request under way. 0: wait on; 1: it is to be made again; else an error, and it
 * has been taken back. */
static inline int rackmem_mr_queue_watch_(rackmem_mr_queue *q)
{
    rackmem_place_ place;
    int error = rackmem_place_look_(q, q->request - 1, &place);
    if (error != 0)
        return error;
    int is_passed = rackmem_place_lead_(q, place.state, place.number) != 0;
    if (is_passed) /* the answer has come before; or none, if its sender took this node for lost */
        return !rackmem_mr_queue_is_answered_(q);
    int by = rackmem_place_address_(place.state).nid;
    if (rackmem_place_kind_(place.state) == RACKMEM_PLACE_ANSWERING_) {
        if (!rackmem_is_unreachable_(q->qp, by) || rackmem_mr_queue_is_answered_(q))
            return 0;
        return rackmem_place_pass_(q, &place);
    }
    if (!rackmem_is_left_alone_(q->ctx))
        return 0;
    int passed = rackmem_place_pass_(q, &place);
    return passed == 1 ? -112 : passed; /* EHOSTDOWN */
}

/*
 * Takes the next item, and waits for it, in turn with others that wait.
 *
 * -EAGAIN the queue is full of requests, or needs a place that is still being answered (which is
 * rare in a queue of more items than it has ends). -EHOSTDOWN the queue's home is lost or has left,
 * or all other nodes are gone while there is no item.
 */
static inline int rackmem_mr_queue_get(rackmem_mr_queue *q, void *item)
{
    for (;;) {
        int done = rackmem_mr_queue_ask_(q, item, 1);
        if (done != 0)
            return done == 1 ? 0 : done;
        for (int look = 0; look == 0;) {
            int waited = rackmem_await_(q->ctx, q->qp, rackmem_mr_queue_is_answered_, q);
            if (waited == 0) {
                rackmem_mr_queue_unpack_(
                    q, (const unsigned char *)rackmem_own_word_(q->ctx, q->response.offset), item);
                return 0;
            }
            look = waited == -110 ? rackmem_mr_queue_watch_(q) : waited; /* ETIMEDOUT */
            if (look < 0)
                return look;
        }
    }
}

#ifdef __cplusplus
}
#endif
#endif
