/*
 * Send and receive of a queue pair, beside its remote reads, writes and atomics: it is connected to
 * a queue pair of another node, as by RDMA's reliable connection. The functions live in librackmem.
 * Programs for the model have none of them: there RACKMEM_HAS_TWO_SIDED is 0, a call does not
 * compile, and messaging.h sends and receives.
 *
 *     size_t own = rackmem_connection_bytes();         // the first bytes of both segments
 *     int err = rackmem_qp_connect(ctx, qp, 0, rackmem_at(1, 0), 10000);   // and node 1 to {0, 0}
 *     err = rmc_post_recv(qp, own, 4096, 7);           // a buffer of the own segment
 *     err = rmc_send(qp, "hello", 5, 1000);            // from any memory
 *     err = rmc_wait_completion(qp, &completion, 1000);    // of the receive: id 7, length 5
 *
 * The n-th message goes into the n-th buffer that its receiver posted; until there is one it waits.
 * Each side may have 64 sends and 64 receives whose completions were not taken. Messages of up to
 * 224 bytes take one remote write, longer ones two. Completions of sends, and those of receives,
 * come in the order of their posts.
 */
#ifndef RACKMEM_TWO_SIDED_H
#define RACKMEM_TWO_SIDED_H

#include "abi.h"
#include "runtime.h"
#include "wait.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Whether queue pairs send and receive: on hosts they do, on the model they do not. */
#ifdef __riscv
#define RACKMEM_HAS_TWO_SIDED 0
#define RACKMEM_HOST_ONLY_                                                                       \
    __attribute__((error("not for programs of the model: see rackmem/two_sided.h")))
#else
#define RACKMEM_HAS_TWO_SIDED 1
#define RACKMEM_HOST_ONLY_
#endif

/* The end of a send or receive that was posted. */
typedef struct rmc_completion {
    uint64_t id;     /* of the post */
    uint64_t length; /* of the message in bytes, also of one that did not fit; 0 without one */
    int status;      /* 0; -EMSGSIZE it did not fit into the buffer, and was dropped;
                        -EPIPE the peer has closed the connection;
                        -EHOSTDOWN it is gone, or does not keep to the protocol */
    int is_receive;  /* 0: of a send */
} rmc_completion;

/* Bytes of the segments of both nodes that a connection takes. */
RACKMEM_HOST_ONLY_
size_t rackmem_connection_bytes(void);

/*
 * Connects a queue pair of this context to one of node peer.nid, which connects to this node at the
 * same time: each names `offset` of its own segment, a multiple of 64, and the place of the other.
 * Nothing else uses these bytes. A former connection of the queue pair is closed. A timeout below 0
 * waits for ever.
 *
 * -EINVAL misaligned offset, -ERANGE the bytes leave a segment, -EACCES joined with read_only,
 * -ENXIO no such node, -ETIMEDOUT the peer does not connect, -EHOSTDOWN it is gone.
 */
RACKMEM_HOST_ONLY_
int rackmem_qp_connect(rackmem_context *ctx, QP *qp, uint64_t offset, rackmem_address peer,
                       int timeout_ms);

/* Closes the connection, as rackmem_qp_destroy does. The peer's posts complete with -EPIPE; until
 * it has seen that, it may still write to buffers that were posted here. */
RACKMEM_HOST_ONLY_
void rackmem_qp_disconnect(QP *qp);

/* Posts a message, `length` bytes at `offset` of the own segment, which do not change until its
 * completion. One that waits for a receive leaves in a later rmc_poll_completion or
 * rmc_wait_completion. -EAGAIN 64 are posted, -ERANGE it leaves the segment, -ENOTCONN. */
RACKMEM_HOST_ONLY_
int rmc_post_send(QP *qp, uint64_t offset, size_t length, uint64_t id);

/* Posts a buffer for the next message, a piece of the own segment. Errors as rmc_post_send. */
RACKMEM_HOST_ONLY_
int rmc_post_recv(QP *qp, uint64_t offset, size_t size_bytes, uint64_t id);

/* Sends a message of any memory after those that were posted, without a completion, and waits until
 * its receiver has posted a buffer; then it is there. -EMSGSIZE it does not fit into that buffer,
 * -ETIMEDOUT no buffer was posted, -EPIPE, -EHOSTDOWN as rmc_completion, -ENOTCONN. */
RACKMEM_HOST_ONLY_
int rmc_send(QP *qp, const void *message, size_t length, int timeout_ms);

/* Takes the next completion, -EAGAIN if there is none. -ENOTCONN. */
RACKMEM_HOST_ONLY_
int rmc_poll_completion(QP *qp, rmc_completion *completion);

/* Waits for the next completion. -ETIMEDOUT, -ENOTCONN. */
RACKMEM_HOST_ONLY_
int rmc_wait_completion(QP *qp, rmc_completion *completion, int timeout_ms);

#undef RACKMEM_HOST_ONLY_

#ifdef __cplusplus
}
#endif
#endif
