/* Sending of messages; programs include messaging.h. */
#ifndef RACKMEM_MESSAGING_SEND_H
#define RACKMEM_MESSAGING_SEND_H

#include "messaging_ring.h"

#ifdef __cplusplus
extern "C" {
#endif

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

#ifdef __cplusplus
}
#endif
#endif
