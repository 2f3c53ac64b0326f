/*
 * The ring of a multiple-reader queue: its places, their changes, and the search for them.
 * mr_queue.h explains its purpose and its states; programs include that.
 */
#ifndef RACKMEM_RING_H
#define RACKMEM_RING_H

#include "queue.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Contents of a place. A place whose lap is not the expected one has been passed. */
enum rackmem_place_kind_ {
    RACKMEM_PLACE_EMPTY_ = 0,
    RACKMEM_PLACE_WRITING_ = 1, /* by who gets answers at the address */
    RACKMEM_PLACE_ITEM_ = 2,
    RACKMEM_PLACE_REQUEST_ = 3,  /* to be answered at the address */
    RACKMEM_PLACE_ANSWERING_ = 4 /* by who gets answers at the address */
};

/* Offsets of the words of a queue. Both numbers are hints, which lag behind. */
enum {
    RACKMEM_MR_QUEUE_HEAD_ = 0, /* all places before it have been passed */
    RACKMEM_MR_QUEUE_TAIL_ = 8, /* all places before it have been filled */
    RACKMEM_MR_QUEUE_SHAPE_ = 16,
    RACKMEM_MR_QUEUE_BODY_ = 64
};

/* An end of a queue, used by one thread at a time. Its members are private. */
typedef struct rackmem_mr_queue {
    rackmem_context *ctx;
    QP *qp;
    rackmem_address home;
    rackmem_address response; /* lines of an item in the own segment */
    uint32_t slots;
    uint32_t words;
    uint32_t lines;         /* of a place, and of an answer */
    unsigned char *scratch; /* local buffer: the lines of an item */
    uint64_t request;       /* number of the request under way, plus 1; 0: none */
} rackmem_mr_queue;

/* A place that was looked at. */
typedef struct rackmem_place_ {
    uint64_t number;
    uint64_t state;
} rackmem_place_;

/* A state: kind 3 | lap 15 | node 12 | offset / 64, 34. */
RACKMEM_INLINE uint64_t rackmem_place_state_(const rackmem_mr_queue *q, uint64_t number,
                                             uint64_t kind, rackmem_address at)
{
    uint64_t lap = number / q->slots & 0x7fff;
    return kind << 61 | lap << 46 | (uint64_t)at.nid << 34 | at.offset / RACKMEM_LINE_BYTES;
}

RACKMEM_INLINE uint64_t rackmem_place_kind_(uint64_t state)
{
    return state >> 61;
}

RACKMEM_INLINE rackmem_address rackmem_place_address_(uint64_t state)
{
    return rackmem_at((int)(state >> 34 & 0xfff),
                      (state & ((UINT64_C(1) << 34) - 1)) * RACKMEM_LINE_BYTES);
}

/* Laps by which the state is ahead of the place of this number. 0: the state is this place's;
 * above: the place has been passed; below: it is not free yet. */
RACKMEM_INLINE int rackmem_place_lead_(const rackmem_mr_queue *q, uint64_t state, uint64_t number)
{
    uint64_t laps = ((state >> 46) - number / q->slots) & 0x7fff;
    return laps < 0x4000 ? (int)laps : (int)laps - 0x8000;
}

/* Whether a place holds an item or one being written; else it is empty or holds a request. */
RACKMEM_INLINE int rackmem_place_is_item_(uint64_t kind)
{
    return kind == RACKMEM_PLACE_WRITING_ || kind == RACKMEM_PLACE_ITEM_;
}

RACKMEM_INLINE uint64_t rackmem_place_offset_(const rackmem_mr_queue *q, uint64_t number)
{
    return q->home.offset + RACKMEM_MR_QUEUE_BODY_ +
           (number & (q->slots - 1)) * q->lines * (uint64_t)RACKMEM_LINE_BYTES;
}

static inline int rackmem_place_look_(rackmem_mr_queue *q, uint64_t number, rackmem_place_ *place)
{
    place->number = number;
    return rackmem_gone_(rmc_read(q->qp, q->home.nid, rackmem_place_offset_(q, number),
                                  &place->state, sizeof place->state));
}

/* Changes a place to another kind. 1: done, 0: another end has changed it, else an error. */
static inline int rackmem_place_change_(rackmem_mr_queue *q, rackmem_place_ *place, uint64_t kind,
                                        rackmem_address at)
{
    uint64_t old, next = rackmem_place_state_(q, place->number, kind, at);
    int error = rmc_compare_and_swap(q->qp, q->home.nid, rackmem_place_offset_(q, place->number),
                                     place->state, next, &old);
    if (error != 0 || old != place->state)
        return rackmem_gone_(error);
    place->state = next;
    return 1;
}

/* Leaves a place to the next lap. As rackmem_place_change_. */
static inline int rackmem_place_pass_(rackmem_mr_queue *q, rackmem_place_ *place)
{
    rackmem_place_ of_next = *place;
    uint64_t old;
    of_next.number += q->slots;
    uint64_t next = rackmem_place_state_(q, of_next.number, RACKMEM_PLACE_EMPTY_, rackmem_at(0, 0));
    int error = rmc_compare_and_swap(q->qp, q->home.nid, rackmem_place_offset_(q, place->number),
                                     place->state, next, &old);
    return error != 0 ? rackmem_gone_(error) : old == place->state;
}

/* Moves a hint on, unless another end has. A hint that lags costs time only. */
static inline int rackmem_place_hint_(rackmem_mr_queue *q, uint64_t which, uint64_t from,
                                      uint64_t to)
{
    if (from == to)
        return 0;
    return rackmem_gone_(
        rmc_compare_and_swap(q->qp, q->home.nid, q->home.offset + which, from, to, 0));
}

/* Finds the first place that holds an item or a request, or is empty; places that are being
 * answered are skipped. Gives the hint of the tail, too. -EAGAIN the whole ring is being
 * answered. */
static inline int rackmem_place_first_(rackmem_mr_queue *q, rackmem_place_ *first, uint64_t *tail)
{
    uint64_t hints[2];
    int error = rackmem_gone_(rmc_read(q->qp, q->home.nid, q->home.offset, hints, sizeof hints));
    uint64_t passed = hints[0], number = hints[0];
    for (; error == 0; number++) {
        error = rackmem_place_look_(q, number, first);
        int lead = rackmem_place_lead_(q, first->state, number);
        if (error == 0 && lead < 0)
            return -11; /* EAGAIN */
        if (lead == 0 && rackmem_place_kind_(first->state) != RACKMEM_PLACE_ANSWERING_)
            break;
        if (lead > 0 && passed == number)
            passed++;
    }
    *tail = hints[1];
    return error != 0 ? error : rackmem_place_hint_(q, RACKMEM_MR_QUEUE_HEAD_, hints[0], passed);
}

/* Whether a place that was looked at has been passed since. */
static inline int rackmem_place_is_passed_(rackmem_mr_queue *q, uint64_t number)
{
    rackmem_place_ place;
    int error = rackmem_place_look_(q, number, &place);
    return error != 0 ? error : rackmem_place_lead_(q, place.state, number) > 0;
}

/* Fills the first empty place behind the contents of the queue, from `tail` on, a hint. Places in
 * between may have been passed, such as that of an end that died. 1: done, 0: look again, -EAGAIN:
 * the ring is full. */
static inline int rackmem_place_append_(rackmem_mr_queue *q, rackmem_place_ *place, uint64_t tail,
                                        uint64_t kind, rackmem_address at)
{
    uint64_t held = rackmem_place_kind_(place->state);
    uint64_t first = place->number;
    uint64_t number = held == RACKMEM_PLACE_EMPTY_ || tail < first ? first : tail;
    for (; number - first < q->slots; number++) {
        int error = rackmem_place_look_(q, number, place);
        if (error != 0)
            return error;
        int lead = rackmem_place_lead_(q, place->state, number);
        uint64_t holds = rackmem_place_kind_(place->state);
        if (lead < 0)
            return -11; /* EAGAIN */
        if (lead > 0)
            continue;
        if (holds != RACKMEM_PLACE_EMPTY_ &&
            rackmem_place_is_item_(holds) != rackmem_place_is_item_(kind))
            return 0; /* all has been passed since, and the other kind has come */
        if (holds == RACKMEM_PLACE_EMPTY_) {
            int changed = rackmem_place_change_(q, place, kind, at);
            if (changed == 1)
                error = rackmem_place_hint_(q, RACKMEM_MR_QUEUE_TAIL_, tail, number + 1);
            return error != 0 ? error : changed;
        }
    }
    int is_passed = rackmem_place_is_passed_(q, first);
    return is_passed == 0 ? -11 : is_passed < 0 ? is_passed : 0; /* EAGAIN */
}

#ifdef __cplusplus
}
#endif
#endif
