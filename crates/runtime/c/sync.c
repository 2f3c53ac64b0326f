/* As inline.c, for counters, copies, queues, lock and counter barrier. */
#include "rackmem.h"

int rackmem_inline_counter_open(rackmem_context *ctx, uint64_t offset,
                                const rackmem_counter_config *config)
{
    return rackmem_counter_open(ctx, offset, config);
}

int rackmem_inline_counter_add(QP *qp, rackmem_address at, int64_t amount)
{
    return rackmem_counter_add(qp, at, amount);
}

int rackmem_inline_flag_wait(rackmem_context *ctx, QP *qp, uint64_t offset, int watch_nid,
                             uint64_t *word)
{
    return rackmem_flag_wait(ctx, qp, offset, watch_nid, word);
}

size_t rackmem_inline_copier_size(void)
{
    return sizeof(rackmem_copier);
}

int rackmem_inline_copier_open(rackmem_copier *c, rackmem_context *ctx, QP *qp)
{
    return rackmem_copier_open(c, ctx, qp);
}

int rackmem_inline_copy(rackmem_copier *c, rackmem_address to, rackmem_address from, uint64_t bytes,
                        rackmem_address acknowledged)
{
    return rackmem_copy(c, to, from, bytes, acknowledged);
}

int rackmem_inline_copier_flush(rackmem_copier *c)
{
    return rackmem_copier_flush(c);
}

size_t rackmem_inline_queue_size(void)
{
    return sizeof(rackmem_queue);
}

size_t rackmem_inline_queue_bytes(uint32_t slots, uint32_t words)
{
    return rackmem_queue_bytes(slots, words);
}

int rackmem_inline_queue_open(rackmem_queue *q, rackmem_context *ctx, QP *qp, rackmem_address home,
                              uint32_t slots, uint32_t words)
{
    return rackmem_queue_open(q, ctx, qp, home, slots, words);
}

int rackmem_inline_queue_put(rackmem_queue *q, const uint64_t *item)
{
    return rackmem_queue_put(q, item);
}

int rackmem_inline_queue_get(rackmem_queue *q, uint64_t *item)
{
    return rackmem_queue_get(q, item);
}

int rackmem_inline_queue_try_get(rackmem_queue *q, uint64_t *item)
{
    return rackmem_queue_try_get(q, item);
}

void rackmem_inline_queue_skip(rackmem_queue *q)
{
    rackmem_queue_skip(q);
}

size_t rackmem_inline_mr_queue_size(void)
{
    return sizeof(rackmem_mr_queue);
}

size_t rackmem_inline_mr_queue_bytes(uint32_t slots, uint32_t words)
{
    return rackmem_mr_queue_bytes(slots, words);
}

size_t rackmem_inline_mr_queue_response_bytes(uint32_t words)
{
    return rackmem_mr_queue_response_bytes(words);
}

int rackmem_inline_mr_queue_open(rackmem_mr_queue *q, rackmem_context *ctx, QP *qp,
                                 rackmem_address home, uint32_t slots, uint32_t words,
                                 uint64_t response_offset)
{
    return rackmem_mr_queue_open(q, ctx, qp, home, slots, words, response_offset);
}

int rackmem_inline_mr_queue_put(rackmem_mr_queue *q, const uint64_t *item)
{
    return rackmem_mr_queue_put(q, item);
}

int rackmem_inline_mr_queue_get(rackmem_mr_queue *q, uint64_t *item)
{
    return rackmem_mr_queue_get(q, item);
}

int rackmem_inline_mr_queue_try_get(rackmem_mr_queue *q, uint64_t *item)
{
    return rackmem_mr_queue_try_get(q, item);
}

size_t rackmem_inline_lock_size(void)
{
    return sizeof(rackmem_lock);
}

size_t rackmem_inline_lock_bytes(uint32_t participants)
{
    return rackmem_lock_bytes(participants);
}

int rackmem_inline_lock_open(rackmem_lock *l, rackmem_context *ctx, QP *qp, rackmem_address home,
                             uint32_t participants, uint64_t flag_offset)
{
    return rackmem_lock_open(l, ctx, qp, home, participants, flag_offset);
}

int rackmem_inline_lock_acquire(rackmem_lock *l)
{
    return rackmem_lock_acquire(l);
}

int rackmem_inline_lock_try_acquire(rackmem_lock *l)
{
    return rackmem_lock_try_acquire(l);
}

int rackmem_inline_lock_release(rackmem_lock *l)
{
    return rackmem_lock_release(l);
}

size_t rackmem_inline_counter_barrier_size(void)
{
    return sizeof(rackmem_counter_barrier);
}

size_t rackmem_inline_counter_barrier_bytes(int nodes, int threads)
{
    return rackmem_counter_barrier_bytes(nodes, threads);
}

int rackmem_inline_counter_barrier_open(rackmem_counter_barrier *b, rackmem_context *ctx, QP *qp,
                                        uint64_t area_offset, int threads, int thread)
{
    return rackmem_counter_barrier_open(b, ctx, qp, area_offset, threads, thread);
}

int rackmem_inline_counter_barrier_wait(rackmem_counter_barrier *b)
{
    return rackmem_counter_barrier_wait(b);
}
