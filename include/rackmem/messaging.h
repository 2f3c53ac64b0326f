/*
 * Send and receive (soNUMA §5.3), in software on remote reads and writes.
 *
 *     rackmem_messaging m;
 *     int err = rackmem_messaging_open(&m, ctx, qp, offset);
 *     err = rackmem_send(&m, 1, data, size);                             // node 0
 *     err = rackmem_recv(&m, 0, buffer, sizeof buffer, &size);           // node 1
 *
 * Messages have any size, from 0 up, and arrive in the order of each sender. For each pair of
 * nodes the receiver's segment holds a bounded ring of lines; senders write, receivers poll their
 * own memory. Below m.threshold_bytes a message is pushed: cut into packets of a line that carry
 * their own header. From there on it is pulled: the ring gets a descriptor, the receiver fetches
 * the data by remote read, straight from the sender's buffer if that lies in its segment, else
 * from a staging area, chunk by chunk.
 *
 * A send blocks while the ring (or the staging area) is full, until the receiver has received.
 * It goes on taking in credits and acknowledgements meanwhile, so two nodes may send to each other
 * at once; but if both send more than the ring holds and neither receives, both block for ever.
 *
 * Inline, without libc. A messaging endpoint is used by one thread at a time; its queue pair may
 * have other operations outstanding.
 */
#ifndef RACKMEM_MESSAGING_H
#define RACKMEM_MESSAGING_H

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

/* ---- Send -------------------------------------------------------------------------------- */

/* Copies up to 56 bytes without a call or a loop: two copies that overlap. */
RACKMEM_INLINE void rackmem_copy_packet_(unsigned char *to, const unsigned char *from, size_t n)
{
    if (n >= 32) {
        __builtin_memcpy(to, from, 32);
        if (n == RACKMEM_PACKET_BYTES)
            __builtin_memcpy(to + 32, from + 32, RACKMEM_PACKET_BYTES - 32);
        else
            __builtin_memcpy(to + n - 32, from + n - 32, 32);
    } else if (n >= 16) {
        __builtin_memcpy(to, from, 16);
        __builtin_memcpy(to + n - 16, from + n - 16, 16);
    } else if (n >= 8) {
        uint64_t last;
        __builtin_memcpy(&last, from + n - 8, 8);
        __builtin_memcpy(to, from, 8);
        __builtin_memcpy(to + n - 8, &last, 8);
    } else {
        for (size_t i = 0; i < n; i++)
            to[i] = from[i];
    }
}

/* Where the peer's ring has the next line but `ahead`. */
RACKMEM_INLINE uint64_t rackmem_slot_of_(const rackmem_messaging *m, const rackmem_peer_ *peer,
                                         uint32_t ahead)
{
    uint64_t slot = (peer->sent + ahead) & (RACKMEM_RING_LINES - 1);
    return m->ring_offset + slot * RACKMEM_LINE_BYTES;
}

/* Lines have been written to the peer's ring, with all credits in them. */
RACKMEM_INLINE void rackmem_sent_(rackmem_peer_ *peer, uint32_t lines)
{
    peer->sent += lines;
    peer->returned = peer->received;
}

/* Writes `lines` lines of scratch memory, which do not wrap, to the peer's ring. The last one may
 * be cut to `bytes`. */
RACKMEM_INLINE int rackmem_send_lines_(rackmem_messaging *m, rackmem_peer_ *peer, uint32_t lines,
                                       size_t bytes)
{
    int error = rmc_write(m->qp, (int)(peer - m->peers), rackmem_slot_of_(m, peer, 0), m->scratch,
                          bytes);
    if (RACKMEM_UNLIKELY(error != 0))
        return rackmem_peer_error_(peer, error);
    rackmem_sent_(peer, lines);
    return 0;
}

RACKMEM_INLINE int rackmem_push_one_(rackmem_messaging *m, rackmem_peer_ *peer,
                                     const unsigned char *data, size_t length)
{
    uint64_t header =
        rackmem_header_(peer->sent, RACKMEM_LINE_FIRST, peer->received, (uint64_t)length);
    if (rackmem_try_write_packet_(m->qp, (uint32_t)(peer - m->peers), rackmem_slot_of_(m, peer, 0),
                                  header, data, length)) {
        rackmem_sent_(peer, 1);
        return 0;
    }
    __builtin_memcpy(m->scratch, &header, sizeof header);
    rackmem_copy_packet_(m->scratch + sizeof header, data, length);
    return rackmem_send_lines_(m, peer, 1, sizeof header + length);
}

/* Pushes a message of two lines where writes run at once: the second first, as the receiver waits
 * for the first. If it is not done, nothing that counts has changed. */
RACKMEM_INLINE int rackmem_try_push_two_(rackmem_messaging *m, rackmem_peer_ *peer,
                                         const unsigned char *data, size_t length)
{
    uint32_t nid = (uint32_t)(peer - m->peers);
    uint64_t first =
        rackmem_header_(peer->sent, RACKMEM_LINE_FIRST, peer->received, (uint64_t)length);
    uint64_t next = rackmem_header_(peer->sent + 1, RACKMEM_LINE_NEXT, peer->received, 0);
    if (!rackmem_try_write_packet_(m->qp, nid, rackmem_slot_of_(m, peer, 1), next,
                                   data + RACKMEM_PACKET_BYTES, length - RACKMEM_PACKET_BYTES) ||
        !rackmem_try_write_packet_(m->qp, nid, rackmem_slot_of_(m, peer, 0), first, data,
                                   RACKMEM_PACKET_BYTES))
        return 0;
    rackmem_sent_(peer, 2);
    return 1;
}

/* Most lines of the next remote write of a message with `left` lines to go. */
RACKMEM_INLINE uint32_t rackmem_run_(const rackmem_messaging *m, const rackmem_peer_ *peer,
                                     uint64_t left)
{
    uint32_t run = RACKMEM_RING_LINES - (peer->sent & (RACKMEM_RING_LINES - 1));
    uint32_t room = rackmem_room_(peer);
    if (run > room)
        run = room;
    if (m->qp->engine->execute && run > RACKMEM_PUSH_LINES)
        run = RACKMEM_PUSH_LINES;
    return run < left ? run : (uint32_t)left;
}

/* Pushes a message of several lines. */
static inline int rackmem_push_(rackmem_messaging *m, rackmem_peer_ *peer,
                                const unsigned char *data, size_t length)
{
    uint64_t left = (length + RACKMEM_PACKET_BYTES - 1) / RACKMEM_PACKET_BYTES;
    uint64_t kind = RACKMEM_LINE_FIRST;
    uint64_t total = length;
    if (left == 2 && rackmem_room_(peer) >= 2 && rackmem_try_push_two_(m, peer, data, length))
        return 0;
    while (left > 0) {
        uint32_t wanted = left < RACKMEM_RING_LINES / 4 ? (uint32_t)left : RACKMEM_RING_LINES / 4;
        if (rackmem_room_(peer) < wanted) {
            int error = rackmem_wait_room_(m, peer, wanted);
            if (error != 0)
                return error;
        }
        uint32_t lines = rackmem_run_(m, peer, left);
        unsigned char *to = m->scratch;
        size_t bytes = 0;
        for (uint32_t i = 0; i < lines; i++, to += RACKMEM_LINE_BYTES) {
            uint64_t header = rackmem_header_(peer->sent + i, kind, peer->received, total);
            __builtin_memcpy(to, &header, sizeof header);
            size_t n = length < RACKMEM_PACKET_BYTES ? length : RACKMEM_PACKET_BYTES;
            rackmem_copy_packet_(to + sizeof header, data, n);
            data += n;
            length -= n;
            bytes = (size_t)i * RACKMEM_LINE_BYTES + sizeof header + n;
            kind = RACKMEM_LINE_NEXT;
            total = 0;
        }
        int error = rackmem_send_lines_(m, peer, lines, bytes);
        if (error != 0)
            return error;
        left -= lines;
    }
    return 0;
}

/* Asks the peer to pull `bytes` bytes of a message of `total` at `offset` of the own segment. */
static inline int rackmem_describe_(rackmem_messaging *m, rackmem_peer_ *peer, uint64_t offset,
                                    uint64_t bytes, uint64_t total)
{
    uint64_t line[4];
    int error = rackmem_wait_room_(m, peer, 1);
    if (error != 0)
        return error;
    line[0] = rackmem_header_(peer->sent, RACKMEM_LINE_PULL, peer->received, 0);
    line[1] = offset;
    line[2] = bytes;
    line[3] = total;
    __builtin_memcpy(m->scratch, line, sizeof line);
    error = rackmem_send_lines_(m, peer, 1, sizeof line);
    peer->described = peer->sent;
    return error;
}

/* Waits until the stage has been pulled. A stage for a lost peer is free as well. */
static inline void rackmem_free_stage_(rackmem_messaging *m, rackmem_stage_ *stage)
{
    if (stage->peer)
        (void)rackmem_wait_freed_(m, stage->peer, stage->line);
    stage->peer = 0;
}

/* Offers data that lies outside the segment: one chunk is copied while the last is pulled. */
static inline int rackmem_offer_staged_(rackmem_messaging *m, rackmem_peer_ *peer,
                                        const unsigned char *data, size_t length)
{
    for (size_t done = 0; done < length;) {
        rackmem_stage_ *stage = &m->stages[m->next_stage];
        uint64_t offset = m->staging_offset + (uint64_t)m->next_stage * RACKMEM_STAGE_BYTES;
        size_t bytes = length - done < RACKMEM_STAGE_BYTES ? length - done : RACKMEM_STAGE_BYTES;
        rackmem_free_stage_(m, stage);
        __builtin_memcpy(m->segment + offset, data + done, bytes);
        int error = rackmem_describe_(m, peer, offset, bytes, length);
        if (error != 0)
            return error;
        stage->peer = peer;
        stage->line = peer->sent;
        m->next_stage = (m->next_stage + 1) % RACKMEM_STAGES;
        done += bytes;
    }
    return 0;
}

static inline int rackmem_offer_(rackmem_messaging *m, rackmem_peer_ *peer,
                                 const unsigned char *data, size_t length)
{
    uintptr_t offset = (uintptr_t)data - (uintptr_t)m->segment;
    if (length == 0)
        return rackmem_describe_(m, peer, 0, 0, 0);
    if (offset < m->segment_bytes && length <= m->segment_bytes - offset)
        return rackmem_describe_(m, peer, offset, length, length);
    return rackmem_offer_staged_(m, peer, data, length);
}

/* All but the common case of a send. */
static inline int rackmem_send_long_(rackmem_messaging *m, rackmem_peer_ *peer,
                                     const unsigned char *data, size_t length)
{
    if (peer->error)
        return peer->error;
    if (length >= m->threshold_bytes || (uint64_t)length >> 32)
        return rackmem_offer_(m, peer, data, length);
    if (length > RACKMEM_PACKET_BYTES)
        return rackmem_push_(m, peer, data, length);
    int error = rackmem_wait_room_(m, peer, 1);
    return error == 0 ? rackmem_push_one_(m, peer, data, length) : error;
}

/*
 * Sends as rackmem_send, but does not wait until a pulled message has been received: the data may
 * change, and the node may leave the context, after rackmem_flush only. (Pushed data may change
 * at once.)
 */
static inline int rackmem_send_async(rackmem_messaging *m, int nid, const void *data,
                                     size_t length)
{
    rackmem_peer_ *peer;
    int error = rackmem_peer_of_(m, nid, &peer);
    if (RACKMEM_UNLIKELY(error != 0))
        return error;
    if (RACKMEM_LIKELY(length <= RACKMEM_PACKET_BYTES && length < m->threshold_bytes &&
                       rackmem_room_(peer) > 0))
        return rackmem_push_one_(m, peer, (const unsigned char *)data, length);
    return rackmem_send_long_(m, peer, (const unsigned char *)data, length);
}

/*
 * Sends `length` bytes to node nid. Returns when the data may change and this node might leave:
 * a pushed message is in the receiver's memory then, a pulled one has been received.
 *
 * -EINVAL nid is this node, -ENXIO no such node, -ENOENT it has not joined, -EHOSTDOWN it is lost
 * or has left. After an error nothing more can be sent to the node.
 */
static inline int rackmem_send(rackmem_messaging *m, int nid, const void *data, size_t length)
{
    int error = rackmem_send_async(m, nid, data, length);
    if (RACKMEM_LIKELY(length < m->threshold_bytes && !((uint64_t)length >> 32)) || error != 0)
        return error;
    return rackmem_wait_freed_(m, &m->peers[nid], m->peers[nid].described);
}

/* Waits until no message sent so far needs this node any more. Returns the first error, having
 * waited for all other peers. */
static inline int rackmem_flush(rackmem_messaging *m)
{
    int first_error = 0;
    for (int nid = 0; nid < m->nodes; nid++) {
        rackmem_peer_ *peer = &m->peers[nid];
        int error = rackmem_wait_freed_(m, peer, peer->described);
        if (error != 0 && first_error == 0)
            first_error = error;
    }
    return first_error;
}

/* ---- Receive ----------------------------------------------------------------------------- */

/* Waiting for a line of the ring. */
typedef struct rackmem_coming_ {
    const rackmem_peer_ *peer;
    uint32_t line;
} rackmem_coming_;

static inline int rackmem_has_come_(void *arg)
{
    const rackmem_coming_ *wait = (const rackmem_coming_ *)arg;
    /* Both lines of a message of two are fetched at once. */
    __builtin_prefetch(rackmem_ring_line_(wait->peer, wait->line + 1));
    return rackmem_arrived_(wait->peer, wait->line) != 0;
}

/* Waits for the line at the ring's head and gives its header. */
RACKMEM_INLINE int rackmem_wait_line_(rackmem_messaging *m, rackmem_peer_ *peer, uint64_t *header)
{
    rackmem_coming_ wait;
    wait.peer = peer;
    wait.line = peer->received;
    *header = rackmem_arrived_(peer, peer->received);
    if (*header == 0) {
        int error = rackmem_wait_(m, rackmem_has_come_, &wait, (int)(peer - m->peers));
        if (RACKMEM_UNLIKELY(error != 0))
            return rackmem_peer_error_(peer, error);
        *header = rackmem_arrived_(peer, peer->received);
    }
    return 0;
}

/* Takes a pushed message whose first line has come. */
static inline int rackmem_take_pushed_(rackmem_messaging *m, rackmem_peer_ *peer,
                                       uint64_t header, unsigned char *buffer, size_t length)
{
    for (;;) {
        const unsigned char *line = rackmem_ring_line_(peer, peer->received);
        size_t n = length < RACKMEM_PACKET_BYTES ? length : RACKMEM_PACKET_BYTES;
        rackmem_copy_packet_(buffer, line + sizeof header, n);
        rackmem_take_header_(peer, peer->received, header);
        rackmem_free_line_(m, peer);
        buffer += n;
        length -= n;
        if (length == 0)
            return 0;
        int error = rackmem_wait_line_(m, peer, &header);
        if (RACKMEM_UNLIKELY(error != 0))
            return error;
    }
}

/* Takes a message of `length` bytes that is to be pulled, and whose first descriptor has come. */
static inline int rackmem_take_pulled_(rackmem_messaging *m, rackmem_peer_ *peer,
                                       uint64_t header, unsigned char *buffer, uint64_t length)
{
    for (uint64_t done = 0;;) {
        uint64_t line[4];
        __builtin_memcpy(line, rackmem_ring_line_(peer, peer->received), sizeof line);
        if (line[2] > length - done)
            return -71; /* EPROTO: never write beyond the buffer */
        if (line[2] > 0) {
            int error = rmc_read(m->qp, (int)(peer - m->peers), line[1], buffer + done,
                                 (size_t)line[2]);
            if (RACKMEM_UNLIKELY(error != 0))
                return rackmem_peer_error_(peer, error);
        }
        done += line[2];
        rackmem_take_header_(peer, peer->received, header);
        peer->received++;
        rackmem_return_credits_(m, peer); /* at once: the sender waits for it */
        if (done == length)
            return 0;
        int error = rackmem_wait_line_(m, peer, &header);
        if (RACKMEM_UNLIKELY(error != 0))
            return error;
    }
}

/* Takes the message whose first line, with this header, has come. */
RACKMEM_INLINE int rackmem_take_(rackmem_messaging *m, rackmem_peer_ *peer, uint64_t header,
                                 void *buffer, size_t capacity, size_t *length)
{
    const unsigned char *line = rackmem_ring_line_(peer, peer->received);
    uint64_t total = header >> 32;
    int pulled = (header >> 8 & 0xf) == RACKMEM_LINE_PULL;
    if (pulled)
        __builtin_memcpy(&total, line + 24, sizeof total);
    if (length)
        *length = (size_t)total;
    if (RACKMEM_UNLIKELY(total > capacity))
        return -90; /* EMSGSIZE */
    if (RACKMEM_UNLIKELY(pulled))
        return rackmem_take_pulled_(m, peer, header, (unsigned char *)buffer, total);
    if (RACKMEM_UNLIKELY(total > RACKMEM_PACKET_BYTES))
        return rackmem_take_pushed_(m, peer, header, (unsigned char *)buffer, (size_t)total);
    rackmem_copy_packet_((unsigned char *)buffer, line + sizeof header, (size_t)total);
    rackmem_take_header_(peer, peer->received, header);
    rackmem_free_line_(m, peer);
    return 0;
}

/*
 * Receives the next message of node nid into `buffer`; *length, if not NULL, gets its size.
 *
 * -EMSGSIZE it is larger than `capacity`: it stays, *length tells. -EHOSTDOWN the node is lost or
 * has left, and all it sent before has been received or cannot be any more.
 */
static inline int rackmem_recv(rackmem_messaging *m, int nid, void *buffer, size_t capacity,
                               size_t *length)
{
    rackmem_peer_ *peer;
    uint64_t header;
    int error = rackmem_peer_of_(m, nid, &peer);
    if (RACKMEM_LIKELY(error == 0))
        error = rackmem_wait_line_(m, peer, &header);
    if (RACKMEM_UNLIKELY(error != 0))
        return error;
    return rackmem_take_(m, peer, header, buffer, capacity, length);
}

/* Receives as rackmem_recv if a message of node nid has begun to arrive, else -EAGAIN at once. */
static inline int rackmem_try_recv(rackmem_messaging *m, int nid, void *buffer, size_t capacity,
                                   size_t *length)
{
    rackmem_peer_ *peer;
    int error = rackmem_peer_of_(m, nid, &peer);
    if (RACKMEM_UNLIKELY(error != 0))
        return error;
    uint64_t header = rackmem_arrived_(peer, peer->received);
    if (header == 0) {
        rackmem_poll_(m->qp);
        return -11; /* EAGAIN */
    }
    return rackmem_take_(m, peer, header, buffer, capacity, length);
}

/* The next peer, in turn, from which a message has begun to arrive; -1: none. */
static inline int rackmem_sender_(const rackmem_messaging *m)
{
    for (int n = 0, nid = m->next; n < m->nodes; n++, nid++) {
        if (nid >= m->nodes)
            nid = 0;
        if (nid != m->nid && rackmem_arrived_(&m->peers[nid], m->peers[nid].received))
            return nid;
    }
    return -1;
}

static inline int rackmem_has_sender_(void *arg)
{
    return rackmem_sender_((const rackmem_messaging *)arg) >= 0;
}

/* Sleeps until a message comes, watching the peers in turn. Returns an error once for each lost
 * peer, and when none is left. */
static inline int rackmem_sleep_any_(rackmem_messaging *m, int *nid)
{
    int watched = m->next;
    for (int lost = 0; lost < m->nodes; watched++) {
        if (watched >= m->nodes)
            watched = 0;
        if (watched == m->nid || m->peers[watched].error) {
            lost++;
            continue;
        }
        lost = 0;
        int error = rackmem_sleep_until(m->ctx, rackmem_has_sender_, m, watched,
                                        m->nodes == 2 ? -1 : RACKMEM_MESSAGING_WATCH_MS);
        if (rackmem_has_sender_(m))
            return 0;
        if (error != 0 && error != -110) { /* ETIMEDOUT */
            *nid = watched;
            return rackmem_peer_error_(&m->peers[watched], error);
        }
    }
    *nid = -1;
    return -112; /* EHOSTDOWN */
}

/*
 * Receives the next message of any node, in turn; *nid gets the sender. -EMSGSIZE as
 * rackmem_recv. -EHOSTDOWN: node *nid is lost (once per node, while no message waits), or,
 * if *nid is -1, all are.
 */
static inline int rackmem_recv_any(rackmem_messaging *m, int *nid, void *buffer, size_t capacity,
                                   size_t *length)
{
    int sender = rackmem_sender_(m);
    const uint32_t step = rackmem_poll_step_(m->qp);
    for (uint32_t polls = 0; RACKMEM_UNLIKELY(sender < 0); polls += step) {
        if (polls > m->qp->spin_limit) {
            rackmem_poll_(m->qp);
            int error = rackmem_sleep_any_(m, nid);
            if (error != 0)
                return error;
        }
        sender = rackmem_sender_(m);
    }
    rackmem_peer_ *peer = &m->peers[sender];
    *nid = sender;
    int error = rackmem_take_(m, peer, rackmem_arrived_(peer, peer->received), buffer, capacity,
                              length);
    if (error != -90) /* EMSGSIZE: the same message is meant next time */
        m->next = sender + 1 < m->nodes ? sender + 1 : 0;
    else
        m->next = sender;
    return error;
}

#ifdef __cplusplus
}
#endif
#endif
