/* The inline functions of the headers as real symbols, for programs in Rust: one implementation
 * of messaging and barrier serves both languages and, later, every engine. */
#include "rackmem.h"

int rackmem_inline_write(QP *qp, int nid, uint64_t offset, const void *buffer, size_t length)
{
    /* Lengths that the compiler knows are written without a call. */
    if (length == 16)
        return rmc_write(qp, nid, offset, buffer, 16);
    if (length == 2 * RACKMEM_LINE_BYTES && qp->window_count != 0) {
        int error = rmc_write(qp, nid, offset, buffer, RACKMEM_LINE_BYTES);
        buffer = (const char *)buffer + RACKMEM_LINE_BYTES;
        offset += RACKMEM_LINE_BYTES;
        return error ? error : rmc_write(qp, nid, offset, buffer, RACKMEM_LINE_BYTES);
    }
    return rmc_write(qp, nid, offset, buffer, length);
}

int rackmem_inline_compare_swap(QP *qp, int nid, uint64_t offset, uint64_t expected,
                                uint64_t desired)
{
    return rmc_compare_and_swap(qp, nid, offset, expected, desired, NULL);
}

size_t rackmem_inline_messaging_size(void)
{
    return sizeof(rackmem_messaging);
}

size_t rackmem_inline_messaging_bytes(int nodes)
{
    return rackmem_messaging_bytes(nodes);
}

int rackmem_inline_messaging_open(rackmem_messaging *m, rackmem_context *ctx, QP *qp,
                                  uint64_t area_offset)
{
    return rackmem_messaging_open(m, ctx, qp, area_offset);
}

void rackmem_inline_set_threshold(rackmem_messaging *m, size_t bytes)
{
    rackmem_messaging_set_threshold(m, bytes);
}

int rackmem_inline_send(rackmem_messaging *m, int nid, const void *data, size_t length)
{
    return rackmem_send(m, nid, data, length);
}

int rackmem_inline_recv(rackmem_messaging *m, int nid, void *buffer, size_t capacity,
                        size_t *length)
{
    return rackmem_recv(m, nid, buffer, capacity, length);
}

int rackmem_inline_try_recv(rackmem_messaging *m, int nid, void *buffer, size_t capacity,
                            size_t *length)
{
    return rackmem_try_recv(m, nid, buffer, capacity, length);
}

int rackmem_inline_recv_any(rackmem_messaging *m, int *nid, void *buffer, size_t capacity,
                            size_t *length)
{
    return rackmem_recv_any(m, nid, buffer, capacity, length);
}

size_t rackmem_inline_barrier_size(void)
{
    return sizeof(rackmem_barrier);
}

size_t rackmem_inline_barrier_bytes(int nodes)
{
    return rackmem_barrier_bytes(nodes);
}

int rackmem_inline_barrier_open(rackmem_barrier *b, rackmem_context *ctx, QP *qp,
                                uint64_t area_offset, const uint16_t *members, int count)
{
    return rackmem_barrier_open(b, ctx, qp, area_offset, members, count);
}

int rackmem_inline_barrier_wait(rackmem_barrier *b)
{
    return rackmem_barrier_wait(b);
}
