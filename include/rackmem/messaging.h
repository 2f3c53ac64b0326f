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

#include "messaging_send.h"

#ifdef __cplusplus
extern "C" {
#endif

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
