/*
 * Copies between any two places of the rack, with acknowledgements (CINI §3.3, RDMA-copy, and
 * §2.5).
 *
 *     rackmem_copier c;
 *     int err = rackmem_copier_open(&c, ctx, qp);
 *     err = rackmem_copy(&c, rackmem_at(1, to), rackmem_at(2, from), bytes, rackmem_at(3,
 * counter));
 *     ...
 *     err = rackmem_copier_flush(&c);
 *
 * A copy is in flight when rackmem_copy returns. Once a part of it is in place, its size in bytes
 * is added to the acknowledgement counter, a rackmem_counter anywhere in the rack. So the owner of
 * that counter (issuer, receiver, a third node) can wait for a set of transfers of any size: it
 * loads the counter with minus the sum of the sizes. The parts may arrive in any order.
 *
 * There is no network interface that works by itself: copies progress, and acknowledge, within
 * calls of the copier's functions. Source and destination have any size and alignment, and must not
 * overlap.
 */
#ifndef RACKMEM_COPY_H
#define RACKMEM_COPY_H

#include "counter.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Bytes that one operation moves. Between two other nodes they pass through a buffer here. */
#define RACKMEM_COPY_CHUNK_BYTES 8192

/* What a part of a copy waits for. */
enum rackmem_copy_stage {
    RACKMEM_COPY_IDLE = 0,
    RACKMEM_COPY_FETCHING = 1, /* from another node into the buffer; to be written then */
    RACKMEM_COPY_PLACING = 2   /* to where it belongs; to be acknowledged then */
};

/* A part of a copy, in a slot of the queue pair. */
typedef struct rackmem_copy_part_ {
    rackmem_address to;
    rackmem_address acknowledged;
    uint32_t bytes;
    uint8_t stage; /* enum rackmem_copy_stage */
    uint8_t is_done;
} rackmem_copy_part_;

/* An issuer of copies, used by one thread at a time. Its queue pair is used for nothing else
 * meanwhile. Its members are private. */
typedef struct rackmem_copier {
    rackmem_context *ctx;
    QP *qp;
    unsigned char *buffer; /* a chunk for each slot */
    uint32_t busy;         /* parts that are not idle */
    int error;             /* the first since the last flush */
    rackmem_copy_part_ parts[MAX_WQ_SIZE];
} rackmem_copier;

/* Opens a copier on a queue pair without outstanding operations; it uses qp->callback_arg. -ENOMEM.
 */
static inline int rackmem_copier_open(rackmem_copier *c, rackmem_context *ctx, QP *qp)
{
    c->ctx = ctx;
    c->qp = qp;
    c->busy = 0;
    c->error = 0;
    for (int slot = 0; slot < MAX_WQ_SIZE; slot++)
        c->parts[slot].stage = RACKMEM_COPY_IDLE;
    c->buffer = (unsigned char *)rackmem_alloc(ctx, (size_t)qp->size * RACKMEM_COPY_CHUNK_BYTES);
    qp->callback_arg = c;
    return c->buffer ? 0 : -12; /* ENOMEM */
}

/* A callback must not post: rackmem_copy_advance_ takes the next step. */
static inline void rackmem_copy_done_(int slot, void *arg)
{
    ((rackmem_copier *)arg)->parts[slot].is_done = 1;
}

static inline void rackmem_copy_note_(rackmem_copier *c, int error)
{
    if (error != 0 && c->error == 0)
        c->error = error;
}

RACKMEM_INLINE unsigned char *rackmem_copy_buffer_(const rackmem_copier *c, int slot)
{
    return c->buffer + (size_t)slot * RACKMEM_COPY_CHUNK_BYTES;
}

/* Posts a part in the next slot, which is free and idle. */
static inline void rackmem_copy_post_(rackmem_copier *c, int slot, const rackmem_copy_part_ *part,
                                      rackmem_address from)
{
    unsigned char *segment = (unsigned char *)rackmem_segment(c->ctx);
    int own = rackmem_nid(c->ctx);
    rackmem_copy_part_ *mine = &c->parts[slot];
    *mine = *part;
    mine->is_done = 0;
    mine->stage = RACKMEM_COPY_PLACING;
    c->busy++;
    if (from.nid == own) {
        rmc_write_async(c->qp, slot, part->to.nid, part->to.offset, segment + from.offset,
                        part->bytes);
    } else if (part->to.nid == own) {
        rmc_read_async(c->qp, slot, from.nid, from.offset, segment + part->to.offset, part->bytes);
    } else {
        mine->stage = RACKMEM_COPY_FETCHING;
        rmc_read_async(c->qp, slot, from.nid, from.offset, rackmem_copy_buffer_(c, slot),
                       part->bytes);
    }
}

/* Goes on with a part whose operation has completed. */
static inline void rackmem_copy_advance_(rackmem_copier *c, int slot)
{
    rackmem_copy_part_ *part = &c->parts[slot];
    int error = rmc_status(c->qp, slot);
    if (error == 0 && part->stage == RACKMEM_COPY_FETCHING)
        error = rmc_write(c->qp, part->to.nid, part->to.offset, rackmem_copy_buffer_(c, slot),
                          part->bytes);
    if (error == 0 && part->acknowledged.nid >= 0)
        error = rackmem_counter_add(c->qp, part->acknowledged, (int64_t)part->bytes);
    rackmem_copy_note_(c, error);
    part->stage = RACKMEM_COPY_IDLE;
    c->busy--;
}

/* Lets copies go on as far as their operations have completed, without waiting. */
static inline void rackmem_copier_progress(rackmem_copier *c)
{
    if (c->qp->engine->progress)
        c->qp->engine->progress(c->qp);
    rackmem_process_cq_(c->qp, rackmem_copy_done_);
    for (int slot = 0; slot < (int)c->qp->size && c->busy != 0; slot++)
        if (c->parts[slot].stage != RACKMEM_COPY_IDLE && c->parts[slot].is_done)
            rackmem_copy_advance_(c, slot);
}

/* The next slot, once its part is idle. */
static inline int rackmem_copy_slot_(rackmem_copier *c)
{
    for (;;) {
        int slot = rmc_wait_for_slot(c->qp, rackmem_copy_done_);
        if (c->parts[slot].stage == RACKMEM_COPY_IDLE)
            return slot;
        rackmem_copy_advance_(c, slot); /* which may have used other slots in between */
    }
}

static inline int rackmem_check_copy_(const rackmem_copier *c, rackmem_address to,
                                      rackmem_address from, uint64_t bytes,
                                      rackmem_address acknowledged)
{
    int own = rackmem_nid(c->ctx);
    if (!rackmem_is_packable_(to) || !rackmem_is_packable_(from))
        return rackmem_set_last_error(-22, "a copy goes from a node's segment to a node's segment");
    if (acknowledged.nid >= 0 && acknowledged.offset % RACKMEM_LINE_BYTES)
        return rackmem_set_last_error(-22,
                                      "a copy is acknowledged to a counter, at a multiple of 64");
    if ((to.nid == own && !rackmem_is_in_segment_(c->ctx, to.offset, bytes)) ||
        (from.nid == own && !rackmem_is_in_segment_(c->ctx, from.offset, bytes)))
        return rackmem_set_last_error(-34, "a copy leaves the own segment"); /* ERANGE */
    if (to.nid == from.nid && to.offset < from.offset + bytes && from.offset < to.offset + bytes)
        return rackmem_set_last_error(-22, "a copy's source and destination overlap");
    return 0;
}

/*
 * Starts copying `bytes` bytes from one address of the rack to another, and adds, part by part, the
 * bytes that are in place to the counter `acknowledged` (rackmem_nowhere: no counter). Waits only
 * while the queue pair is full.
 *
 * -EINVAL an address, or an overlap, -ERANGE the own segment is left. rackmem_copier_flush returns
 * later errors (a node is lost, its segment is left); parts that fail are not acknowledged.
 */
static inline int rackmem_copy(rackmem_copier *c, rackmem_address to, rackmem_address from,
                               uint64_t bytes, rackmem_address acknowledged)
{
    int error = rackmem_check_copy_(c, to, from, bytes, acknowledged);
    rackmem_copy_part_ part;
    part.acknowledged = acknowledged;
    while (error == 0 && bytes != 0) {
        /* Lines of the destination are not cut in two. */
        uint64_t most = RACKMEM_COPY_CHUNK_BYTES - to.offset % RACKMEM_LINE_BYTES;
        part.to = to;
        part.bytes = (uint32_t)(bytes < most ? bytes : most);
        rackmem_copy_post_(c, rackmem_copy_slot_(c), &part, from);
        to.offset += part.bytes;
        from.offset += part.bytes;
        bytes -= part.bytes;
    }
    rackmem_copier_progress(c);
    return error;
}

/* Waits until all copies are in place and acknowledged. Returns the first error since the last
 * time. */
static inline int rackmem_copier_flush(rackmem_copier *c)
{
    while (c->busy != 0) {
        (void)rmc_drain_cq(c->qp, rackmem_copy_done_); /* each part has its own status */
        rackmem_copier_progress(c);
    }
    int error = c->error;
    c->error = 0;
    return error;
}

#ifdef __cplusplus
}
#endif
#endif
