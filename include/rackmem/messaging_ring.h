/*
 * An endpoint of messages: its rings, opening, waits, and credits. messaging.h explains them;
 * programs include that.
 */
#ifndef RACKMEM_MESSAGING_RING_H
#define RACKMEM_MESSAGING_RING_H

#include "abi.h"
#include "runtime.h"
#include "access.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Smallest message that is pulled, in bytes: 0 pulls all, SIZE_MAX pushes all that are below 4 GiB.
 * From the default on, pulling is faster than pushing with inline progress between two cores. */
#ifndef RACKMEM_PULL_THRESHOLD
#define RACKMEM_PULL_THRESHOLD 4096
#endif
/* Lines of the ring of an ordered pair; the same in all programs of a run. */
#ifndef RACKMEM_RING_LINES
#define RACKMEM_RING_LINES 128
#endif
/* Chunks of the staging area, and bytes of a chunk. */
#ifndef RACKMEM_STAGES
#define RACKMEM_STAGES 8
#endif
#ifndef RACKMEM_STAGE_BYTES
#define RACKMEM_STAGE_BYTES 16384
#endif
/* Most lines that one remote write carries where writes run at once: the receiver copies the
 * lines of one write while the next is written. */
#ifndef RACKMEM_PUSH_LINES
#define RACKMEM_PUSH_LINES 16
#endif
/* Time for which one sender is watched before the next when any may send, in ms. */
#define RACKMEM_MESSAGING_WATCH_MS 20
/* Bytes of payload in a packet of one line, beside its header. */
#define RACKMEM_PACKET_BYTES 56

RACKMEM_STATIC_ASSERT(RACKMEM_RING_LINES >= 4 && RACKMEM_RING_LINES <= 65536 &&
                          (RACKMEM_RING_LINES & (RACKMEM_RING_LINES - 1)) == 0,
                      "a ring is a power of two of lines, few enough for the credit field");
RACKMEM_STATIC_ASSERT(RACKMEM_STAGES >= 2 && RACKMEM_STAGE_BYTES % RACKMEM_LINE_BYTES == 0,
                      "one stage is filled while another is pulled");

/*
 * A line of a ring: header and 56 bytes of payload. The header is the line's first word, which a
 * remote write stores last, so a reader that sees it sees the payload:
 *   lap 8 | kind 4 | credit 20 | length 32
 * lap: how often the ring has been filled, from 1; a slot holds the previous lap or zero until its
 *      line comes, so lines may come in any order.
 * credit: lines that the writer has freed in its own ring, ever (flow-control acknowledgement).
 * length: of the message, in the first packet of a pushed one.
 */
enum rackmem_line_kind {
    RACKMEM_LINE_FIRST = 1, /* the message's first 56 bytes */
    RACKMEM_LINE_NEXT = 2,  /* the following 56 bytes */
    RACKMEM_LINE_PULL = 3   /* payload {offset in the writer's segment, bytes, message length} */
};

#define RACKMEM_CREDIT_MASK_ 0xfffffu

static inline uint64_t rackmem_header_(uint32_t line, uint64_t kind, uint32_t credit,
                                       uint64_t length)
{
    uint64_t lap = line / RACKMEM_RING_LINES + 1;
    return (lap & 0xff) | kind << 8 | (uint64_t)(credit & RACKMEM_CREDIT_MASK_) << 12 |
           length << 32;
}

/* One end of a pair. Lines are counted from the beginning of time, modulo 2^32. */
typedef struct rackmem_peer_ {
    const unsigned char *ring;    /* which the peer writes */
    const unsigned char *control; /* line where the peer counts the lines it has freed */
    uint32_t sent;                /* lines written to the peer */
    uint32_t freed;               /* of these: freed by the peer, as far as known */
    uint32_t received;            /* lines freed in `ring` */
    uint32_t returned;            /* of these: told to the peer */
    uint32_t peeked;              /* lines of `ring` whose credit has been taken */
    uint32_t described;           /* lines sent when the last descriptor had been */
    int32_t error;                /* the peer is lost */
    uint32_t unused[3];
} rackmem_peer_;

/* A chunk of the staging area is free once `peer` has freed the line before `line`. */
typedef struct rackmem_stage_ {
    rackmem_peer_ *peer;
    uint32_t line;
} rackmem_stage_;

/* An endpoint. Programs may change threshold_bytes; the rest is private. */
typedef struct rackmem_messaging {
    size_t threshold_bytes;
    rackmem_context *ctx;
    QP *qp;
    rackmem_peer_ *peers;
    unsigned char *scratch;       /* local buffer of writes: lines about to be sent */
    unsigned char *segment;
    uint64_t segment_bytes;
    uint64_t ring_offset;         /* of this node's ring in every peer's segment */
    uint64_t control_offset;      /* of this node's control line there */
    uint64_t staging_offset;      /* of the staging area in the own segment */
    int nid;
    int nodes;
    int next;                     /* peer to be looked at first */
    uint32_t next_stage;
    rackmem_stage_ stages[RACKMEM_STAGES];
} rackmem_messaging;

/* Size of the area that every node's segment provides, at the same 64-byte aligned offset. The
 * area starts zeroed and serves one endpoint per node only. */
static inline size_t rackmem_messaging_bytes(int nodes)
{
    size_t pairs = nodes > 0 ? (size_t)nodes : 0;
    return pairs * (RACKMEM_RING_LINES + 1) * RACKMEM_LINE_BYTES +
           (size_t)RACKMEM_STAGES * RACKMEM_STAGE_BYTES;
}

/* Messages of `bytes` and more are pulled: 0 always, SIZE_MAX never. Each sender decides alone. */
static inline void rackmem_messaging_set_threshold(rackmem_messaging *m, size_t bytes)
{
    m->threshold_bytes = bytes;
}

/*
 * Opens this node's endpoint, whose area lies at `area_offset` of every node's segment. Opening
 * sends nothing: peers may have sent already.
 *
 * -EINVAL misaligned offset, -ERANGE the area leaves the segment, -ENOMEM.
 */
static inline int rackmem_messaging_open(rackmem_messaging *m, rackmem_context *ctx, QP *qp,
                                         uint64_t area_offset)
{
    int nodes = rackmem_nodes(ctx);
    int nid = rackmem_nid(ctx);
    uint64_t ring_bytes = (uint64_t)RACKMEM_RING_LINES * RACKMEM_LINE_BYTES;
    uint64_t rings = area_offset + (uint64_t)nodes * RACKMEM_LINE_BYTES;
    m->ctx = ctx;
    m->qp = qp;
    m->threshold_bytes = RACKMEM_PULL_THRESHOLD;
    m->segment = (unsigned char *)rackmem_segment(ctx);
    m->segment_bytes = rackmem_segment_bytes(ctx);
    if (area_offset % RACKMEM_LINE_BYTES)
        return rackmem_set_last_error(-22,
                                      "messaging's area begins at a multiple of 64"); /* EINVAL */
    if (area_offset > m->segment_bytes ||
        rackmem_messaging_bytes(nodes) > m->segment_bytes - area_offset)
        return rackmem_set_last_error(-34, "messaging's area leaves the segment"); /* ERANGE */
    m->control_offset = area_offset + (uint64_t)nid * RACKMEM_LINE_BYTES;
    m->ring_offset = rings + (uint64_t)nid * ring_bytes;
    m->staging_offset = rings + (uint64_t)nodes * ring_bytes;
    m->nid = nid;
    m->nodes = nodes;
    m->next = 0;
    m->next_stage = 0;
    for (int i = 0; i < RACKMEM_STAGES; i++)
        m->stages[i].peer = 0;
    m->scratch = (unsigned char *)rackmem_alloc(ctx, ring_bytes + RACKMEM_LINE_BYTES);
    m->peers = (rackmem_peer_ *)rackmem_alloc(ctx, (size_t)nodes * sizeof m->peers[0]);
    if (!m->scratch || !m->peers)
        return -12; /* ENOMEM, of which rackmem_alloc has told */
    for (int i = 0; i < nodes; i++) {
        m->peers[i].control = m->segment + area_offset + (size_t)i * RACKMEM_LINE_BYTES;
        m->peers[i].ring = m->segment + rings + (size_t)i * ring_bytes;
    }
    return 0;
}

RACKMEM_INLINE uint64_t rackmem_load_(const unsigned char *word)
{
    return __atomic_load_n((const uint64_t *)(const void *)word, __ATOMIC_ACQUIRE);
}

RACKMEM_INLINE const unsigned char *rackmem_ring_line_(const rackmem_peer_ *peer, uint32_t line)
{
    return peer->ring + (size_t)(line & (RACKMEM_RING_LINES - 1)) * RACKMEM_LINE_BYTES;
}

/* The header of a line of the ring, or 0 while it has not come. */
RACKMEM_INLINE uint64_t rackmem_arrived_(const rackmem_peer_ *peer, uint32_t line)
{
    uint64_t header = rackmem_load_(rackmem_ring_line_(peer, line));
    return (uint8_t)header == (uint8_t)(line / RACKMEM_RING_LINES + 1) ? header : 0;
}

RACKMEM_INLINE int rackmem_peer_of_(const rackmem_messaging *m, int nid, rackmem_peer_ **peer)
{
    if (RACKMEM_UNLIKELY((uint32_t)nid >= (uint32_t)m->nodes || nid == m->nid))
        return nid == m->nid ? -22 : -6; /* EINVAL: to itself, ENXIO */
    *peer = &m->peers[nid];
    return 0;
}

/* A peer that had taken part and has no context any more is lost too. */
static inline int rackmem_peer_error_(rackmem_peer_ *peer, int error)
{
    if (error == -2 && (peer->sent | peer->received))
        error = -112; /* EHOSTDOWN */
    if (error == -112)
        peer->error = error;
    return error;
}

/* Operations of the program on the same queue pair go on while this thread waits. */
RACKMEM_INLINE void rackmem_poll_(QP *qp)
{
    if (RACKMEM_UNLIKELY(qp->engine->progress != 0) && rmc_outstanding(qp) != 0)
        qp->engine->progress(qp);
}

/* Spins, then sleeps, until `ready` or until the peer is lost. */
RACKMEM_INLINE int rackmem_wait_(rackmem_messaging *m, int (*ready)(void *), void *arg, int nid)
{
    const uint32_t step = rackmem_poll_step_(m->qp);
    for (uint32_t polls = 0; polls <= m->qp->spin_limit; polls += step)
        if (RACKMEM_LIKELY(ready(arg)))
            return 0;
    rackmem_poll_(m->qp);
    int error = rackmem_sleep_until(m->ctx, ready, arg, nid, -1);
    return error == 0 || ready(arg) ? 0 : error;
}

/* ---- Credits ---------------------------------------------------------------------------- */

/* Takes in the peer's count of freed lines. A count older than the newest is not within what is
 * under way, and changes nothing; nor does one that is known, so that polling writes nothing. */
RACKMEM_INLINE void rackmem_take_credit_(rackmem_peer_ *peer, uint32_t count)
{
    uint32_t more = (count - peer->freed) & RACKMEM_CREDIT_MASK_;
    if (more != 0 && more <= peer->sent - peer->freed)
        peer->freed += more;
}

RACKMEM_INLINE void rackmem_take_header_(rackmem_peer_ *peer, uint32_t line, uint64_t header)
{
    if ((int32_t)(line - peer->peeked) >= 0) {
        rackmem_take_credit_(peer, (uint32_t)header >> 12);
        peer->peeked = line + 1;
    }
}

/* Looks for credits in the two places to which the peer writes them: its control line, and the
 * headers of messages not received yet. */
static inline void rackmem_refresh_credits_(rackmem_peer_ *peer)
{
    rackmem_take_credit_(peer, (uint32_t)rackmem_load_(peer->control));
    uint32_t line = peer->peeked;
    if ((int32_t)(peer->received - line) > 0)
        line = peer->received;
    for (uint64_t header; line - peer->received < RACKMEM_RING_LINES &&
                          (header = rackmem_arrived_(peer, line)) != 0;
         line++)
        rackmem_take_header_(peer, line, header);
}

/* Waiting for the peer to free the lines below `line`. */
typedef struct rackmem_freed_ {
    rackmem_peer_ *peer;
    uint32_t line;
} rackmem_freed_;

static inline int rackmem_is_freed_(void *arg)
{
    rackmem_freed_ *wait = (rackmem_freed_ *)arg;
    if ((int32_t)(wait->peer->freed - wait->line) < 0)
        rackmem_refresh_credits_(wait->peer);
    return (int32_t)(wait->peer->freed - wait->line) >= 0;
}

static inline int rackmem_wait_freed_(rackmem_messaging *m, rackmem_peer_ *peer, uint32_t line)
{
    rackmem_freed_ wait;
    wait.peer = peer;
    wait.line = line;
    if ((int32_t)(peer->freed - line) >= 0)
        return 0;
    if (peer->error)
        return peer->error;
    int error = rackmem_wait_(m, rackmem_is_freed_, &wait, (int)(peer - m->peers));
    return error == 0 ? 0 : rackmem_peer_error_(peer, error);
}

/* Waits until `lines` more lines may be sent. No more than half a ring: a receiver may keep that
 * many to itself. */
static inline int rackmem_wait_room_(rackmem_messaging *m, rackmem_peer_ *peer, uint32_t lines)
{
    return rackmem_wait_freed_(m, peer, peer->sent + lines - RACKMEM_RING_LINES);
}

RACKMEM_INLINE uint32_t rackmem_room_(const rackmem_peer_ *peer)
{
    return RACKMEM_RING_LINES - (peer->sent - peer->freed);
}

/* Returns credits by a message without payload or length. It has a line of its own, which needs
 * no credit: so credits flow however full the rings are. */
static inline void rackmem_return_credits_(rackmem_messaging *m, rackmem_peer_ *peer)
{
    uint64_t *word = (uint64_t *)(void *)(m->scratch +
                                          (size_t)RACKMEM_RING_LINES * RACKMEM_LINE_BYTES);
    *word = peer->received;
    peer->returned = peer->received;
    /* A lost peer needs no credits, and the next send to it will fail. */
    (void)rmc_write(m->qp, (int)(peer - m->peers), m->control_offset, word, sizeof *word);
}

/* Frees the next line of the ring. Without messages the other way, it returns credits every half
 * ring. */
RACKMEM_INLINE void rackmem_free_line_(rackmem_messaging *m, rackmem_peer_ *peer)
{
    peer->received++;
    if (RACKMEM_UNLIKELY(peer->received - peer->returned >= RACKMEM_RING_LINES / 2))
        rackmem_return_credits_(m, peer);
}

#ifdef __cplusplus
}
#endif
#endif
