/*
 * rackmem: remote memory at rack scale.
 *
 * A program joins a context, which gives every node one segment of memory that all members may
 * read, write and update atomically, and posts operations to queue pairs:
 *
 *     rackmem_context *ctx;
 *     QP *qp;
 *     uint64_t value;
 *     if (rackmem_init(&ctx, 1 << 20) != 0 || rackmem_qp_create(ctx, 64, &qp) != 0)
 *         return 1;                                  // rackmem_last_error() says why
 *     int err = rmc_read(qp, 1, 0, &value, sizeof value);   // 8 bytes at offset 0 of node 1
 *
 *   rackmem/abi.h        layouts of queue entries, codes
 *   rackmem/runtime.h    contexts, segments, queue pairs, local buffers (set-up: calls librackmem)
 *   rackmem/access.h     remote read, write, atomics, notify (data path: inline, no libc)
 *   rackmem/two_sided.h  send and receive of a queue pair that is connected (calls librackmem)
 *   rackmem/messaging.h  messages between all nodes (inline, on the operations of access.h)
 *   rackmem/barrier.h    barrier over any nodes of a context (inline, likewise)
 *   rackmem/counter.h    counters that notify at zero: completion of any set of arrivals (likewise)
 *   rackmem/copy.h       copies between any two nodes, acknowledged to counters (likewise)
 *   rackmem/queue.h      queue of one reader; rackmem/mr_queue.h: of any readers (likewise)
 *   rackmem/lock.h       lock, in turn; survives its holder (likewise)
 *   rackmem/counter_barrier.h  barrier of any threads of any nodes, as trees (likewise)
 *
 * C11 or C++17, GCC or Clang. Functions return 0 or a negative errno unless they say otherwise.
 */
#ifndef RACKMEM_H
#define RACKMEM_H

#include "rackmem/abi.h"
#include "rackmem/runtime.h"
#include "rackmem/access.h"
#include "rackmem/two_sided.h"
#include "rackmem/messaging.h"
#include "rackmem/barrier.h"
#include "rackmem/counter.h"
#include "rackmem/copy.h"
#include "rackmem/queue.h"
#include "rackmem/mr_queue.h"
#include "rackmem/lock.h"
#include "rackmem/counter_barrier.h"

#endif
