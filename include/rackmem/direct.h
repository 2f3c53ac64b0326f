/*
 * Operations without a call, where the segments of other nodes are mapped. Each function does a
 * short operation with all checks of the engine, and with the steps of a line lock of line_lock.rs.
 * It returns 0 for whatever is not common: a node that is lost or not mapped, a lock that is held,
 * a wrong operation. The engine then does it from the start. Programs include access.h.
 */
#ifndef RACKMEM_DIRECT_H
#define RACKMEM_DIRECT_H

#include "abi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Hints to the compiler. */
#define RACKMEM_LIKELY(x) __builtin_expect(!!(x), 1)
#define RACKMEM_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define RACKMEM_INLINE static inline __attribute__((always_inline))

#if RACKMEM_HAS_WINDOWS

/* The segment of node nid, if the bytes are there and both nodes are live. */
RACKMEM_INLINE unsigned char *rackmem_window_(const QP *qp, uint32_t nid, uint64_t offset,
                                              uint64_t length, int writes)
{
    if (RACKMEM_UNLIKELY(nid >= qp->window_count))
        return 0;
    const rackmem_window *window = &qp->windows[nid];
    uint64_t bytes = writes ? window->writable_bytes : window->readable_bytes;
    if (RACKMEM_UNLIKELY(offset >= bytes || length > bytes - offset))
        return 0;
    const rackmem_segment_head *head = (const rackmem_segment_head *)(void *)window->segment;
    if (RACKMEM_UNLIKELY(__atomic_load_n(&head->state, __ATOMIC_RELAXED) != RACKMEM_SEGMENT_LIVE ||
                         __atomic_load_n(qp->own_state, __ATOMIC_RELAXED) != RACKMEM_SEGMENT_LIVE))
        return 0;
    return window->segment;
}

/* Whether a transfer is one of whole words in one line, short enough to be done here. A length that
 * the compiler does not know is a word or a line, so that there are no loops. */
RACKMEM_INLINE int rackmem_is_short_(uint64_t offset, const volatile void *buffer, uint64_t length)
{
    int is_known = length == 8 || length == RACKMEM_LINE_BYTES;
#ifdef __OPTIMIZE__
    is_known |= __builtin_constant_p(length) && length % 8 == 0 && length - 1 < RACKMEM_LINE_BYTES;
#endif
    int is_in_line =
        offset % 8 == 0 &&
        (length == 8 || offset % RACKMEM_LINE_BYTES + length <= RACKMEM_LINE_BYTES);
    return is_known && is_in_line && (uintptr_t)buffer >= RACKMEM_LOWEST_ADDRESS;
}

RACKMEM_INLINE uint64_t *rackmem_word_(unsigned char *segment, uint64_t offset)
{
    return (uint64_t *)(void *)(segment + RACKMEM_SEGMENT_DATA + offset);
}

/* Locks of neighbouring blocks lie in different cache lines. */
RACKMEM_INLINE rackmem_line_lock *rackmem_lock_of_(unsigned char *segment, uint64_t offset)
{
    const uint64_t in_line = RACKMEM_LINE_BYTES / sizeof(rackmem_line_lock);
    const uint64_t lines = RACKMEM_LOCK_COUNT / in_line;
    uint64_t block = offset / RACKMEM_BLOCK_BYTES;
    rackmem_line_lock *locks = (rackmem_line_lock *)(void *)(segment + RACKMEM_SEGMENT_LOCKS);
    return &locks[block % lines * in_line + block / lines % in_line];
}

/* The word `taken` of a lock; whether no one holds it. */
RACKMEM_INLINE int rackmem_is_free_(rackmem_line_lock *lock, uint64_t *taken)
{
    *taken = __atomic_load_n(&lock->taken, __ATOMIC_ACQUIRE);
    return __atomic_load_n(&lock->done, __ATOMIC_ACQUIRE) == *taken >> RACKMEM_TICKET_SHIFT;
}

RACKMEM_INLINE int rackmem_hold_(const QP *qp, rackmem_line_lock *lock, uint64_t *held)
{
    uint64_t taken;
    if (RACKMEM_UNLIKELY(!rackmem_is_free_(lock, &taken)))
        return 0;
    /* The next ticket, with this owner: a carry out of the owner's bits. */
    *held = (taken | RACKMEM_OWNER_MASK) + 1 + qp->owner;
    int won = __atomic_compare_exchange_n(&lock->taken, &taken, *held, 0, __ATOMIC_ACQUIRE,
                                          __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE); /* no store of the change is seen before the lock */
    return won;
}

/* Unless the lock was taken from this process meanwhile. */
RACKMEM_INLINE void rackmem_let_go_(rackmem_line_lock *lock, uint64_t held)
{
    if (RACKMEM_LIKELY(__atomic_load_n(&lock->taken, __ATOMIC_RELAXED) == held))
        __atomic_store_n(&lock->done, held >> RACKMEM_TICKET_SHIFT, __ATOMIC_RELEASE);
}

/* Counts an operation. This thread alone writes the counters. */
RACKMEM_INLINE void rackmem_count_(const QP *qp, uint64_t length)
{
    uint64_t *counters = qp->counters;
    uint64_t ops = __atomic_load_n(&counters[0], __ATOMIC_RELAXED);
    uint64_t bytes = __atomic_load_n(&counters[1], __ATOMIC_RELAXED);
    __atomic_store_n(&counters[0], ops + 1, __ATOMIC_RELAXED);
    __atomic_store_n(&counters[1], bytes + length, __ATOMIC_RELAXED);
}

/* A change has been made: wakes who sleeps until there is one, and counts it. */
RACKMEM_INLINE int rackmem_changed_(QP *qp, uint32_t nid, unsigned char *segment, uint64_t length)
{
    const rackmem_segment_head *head = (const rackmem_segment_head *)(void *)segment;
    /* No fence: a sleeper makes every thread's store visible before its last look. */
    if (RACKMEM_UNLIKELY(__atomic_load_n(&head->sleepers, __ATOMIC_RELAXED)))
        qp->rouse(qp, nid);
    rackmem_count_(qp, length);
    return 1;
}

#ifdef __x86_64__
/* Defined where a line is copied by vector moves. */
#define RACKMEM_HAS_LINE_COPY 1

/* Copies a line by four moves, its first 16 bytes last; stores are seen in this order. In machine
 * code, as other processes change one side at the same time. */
RACKMEM_INLINE void rackmem_copy_line_(void *to, const void *from)
{
    __asm__ volatile("movups (%1), %%xmm0\n\t"
                     "movups 16(%1), %%xmm1\n\t"
                     "movups 32(%1), %%xmm2\n\t"
                     "movups 48(%1), %%xmm3\n\t"
                     "movups %%xmm3, 48(%0)\n\t"
                     "movups %%xmm2, 32(%0)\n\t"
                     "movups %%xmm1, 16(%0)\n\t"
                     "movups %%xmm0, (%0)"
                     :
                     : "r"(to), "r"(from)
                     : "memory", "xmm0", "xmm1", "xmm2", "xmm3");
}
#else
#define RACKMEM_HAS_LINE_COPY 0
#endif

RACKMEM_INLINE void rackmem_load_words_(volatile void *buffer, const uint64_t *from, uint64_t count)
{
    char *to = (char *)(uintptr_t)buffer;
#if RACKMEM_HAS_LINE_COPY
    if (count == 8) {
        rackmem_copy_line_(to, from);
        return;
    }
#endif
#pragma GCC unroll 8
    for (uint64_t i = 0; i < count; i++) {
        uint64_t word = __atomic_load_n(&from[i], __ATOMIC_RELAXED);
        __builtin_memcpy(to + 8 * i, &word, 8);
    }
}

/* The first 16 bytes last: who polls a line's first word sees the line complete. */
RACKMEM_INLINE void rackmem_store_words_(uint64_t *to, const volatile void *buffer, uint64_t count)
{
    const char *from = (const char *)(uintptr_t)buffer;
#if RACKMEM_HAS_LINE_COPY
    if (count == 8) {
        rackmem_copy_line_(to, from);
        return;
    }
#endif
#pragma GCC unroll 8
    for (uint64_t i = count; i-- > 0;) {
        uint64_t word;
        __builtin_memcpy(&word, from + 8 * i, 8);
        __atomic_store_n(&to[i], word, i < 2 ? __ATOMIC_RELEASE : __ATOMIC_RELAXED);
    }
}

RACKMEM_INLINE int rackmem_try_read_(QP *qp, uint32_t nid, uint64_t offset, volatile void *buffer,
                                     uint64_t length)
{
    unsigned char *segment;
    uint64_t version;
    if (!rackmem_is_short_(offset, buffer, length) ||
        !(segment = rackmem_window_(qp, nid, offset, length, 0)))
        return 0;
    rackmem_line_lock *lock = rackmem_lock_of_(segment, offset);
    if (RACKMEM_UNLIKELY(!rackmem_is_free_(lock, &version)))
        return 0;
    const uint64_t *from = rackmem_word_(segment, offset);
    if (length == 8)
        rackmem_load_words_(buffer, from, 1);
    else if (length == RACKMEM_LINE_BYTES)
        rackmem_load_words_(buffer, from, 8);
    else
        rackmem_load_words_(buffer, from, length / 8);
    __atomic_thread_fence(__ATOMIC_ACQUIRE);
    if (RACKMEM_UNLIKELY(__atomic_load_n(&lock->taken, __ATOMIC_RELAXED) != version))
        return 0;
    rackmem_count_(qp, length);
    return 1;
}

RACKMEM_INLINE int rackmem_try_write_(QP *qp, uint32_t nid, uint64_t offset,
                                      const volatile void *buffer, uint64_t length)
{
    unsigned char *segment;
    uint64_t held;
    if (!rackmem_is_short_(offset, buffer, length) ||
        !(segment = rackmem_window_(qp, nid, offset, length, 1)))
        return 0;
    rackmem_line_lock *lock = rackmem_lock_of_(segment, offset);
    if (RACKMEM_UNLIKELY(!rackmem_hold_(qp, lock, &held)))
        return 0;
    uint64_t *to = rackmem_word_(segment, offset);
    if (length == 8)
        rackmem_store_words_(to, buffer, 1);
    else if (length == RACKMEM_LINE_BYTES)
        rackmem_store_words_(to, buffer, 8);
    else
        rackmem_store_words_(to, buffer, length / 8);
    rackmem_let_go_(lock, held);
    return rackmem_changed_(qp, nid, segment, length);
}

/* Up to 7 bytes as the lowest of a word. */
RACKMEM_INLINE uint64_t rackmem_part_of_word_(const unsigned char *from, size_t bytes)
{
    uint64_t word = 0;
    for (size_t i = 0; i < bytes; i++)
        word |= (uint64_t)from[i] << 8 * i;
    return word;
}

/* Stores `length` bytes, up to 56, as words, the first of them last. */
RACKMEM_INLINE void rackmem_store_packet_(uint64_t *to, const unsigned char *data, size_t length)
{
    size_t words = length / 8;
    size_t rest = length % 8;
    uint64_t word;
    if (rest != 0 && words == 0) {
        __atomic_store_n(to, rackmem_part_of_word_(data, rest), __ATOMIC_RELAXED);
    } else if (rest != 0) {
        __builtin_memcpy(&word, data + length - 8, 8);
        __atomic_store_n(&to[words], word >> 8 * (8 - rest), __ATOMIC_RELAXED);
    }
    while (words-- > 0) {
        __builtin_memcpy(&word, data + 8 * words, 8);
        __atomic_store_n(&to[words], word, __ATOMIC_RELAXED);
    }
}

/* Writes a line of up to 56 bytes behind `header`, which whoever polls the line sees last, without
 * a copy in between. The last word is filled up with zeros. */
RACKMEM_INLINE int rackmem_try_write_packet_(QP *qp, uint32_t nid, uint64_t offset, uint64_t header,
                                             const unsigned char *data, size_t length)
{
    uint64_t held;
    unsigned char *segment = rackmem_window_(qp, nid, offset, RACKMEM_LINE_BYTES, 1);
    if (!segment)
        return 0;
    rackmem_line_lock *lock = rackmem_lock_of_(segment, offset);
    if (RACKMEM_UNLIKELY(!rackmem_hold_(qp, lock, &held)))
        return 0;
    uint64_t *to = rackmem_word_(segment, offset);
    rackmem_store_packet_(to + 1, data, length);
    __atomic_store_n(to, header, __ATOMIC_RELEASE);
    rackmem_let_go_(lock, held);
    return rackmem_changed_(qp, nid, segment, sizeof header + length);
}

/* An atomic, without the lock but not beside a writer that holds it; operands are {addend} or
 * {expected, desired}, of which the old value replaces the first. */
RACKMEM_INLINE int rackmem_try_atomic_(QP *qp, uint32_t op, uint32_t nid, uint64_t offset,
                                       uint64_t operands[2])
{
    unsigned char *segment;
    uint64_t taken;
    if (RACKMEM_UNLIKELY(offset % 8 != 0) || !(segment = rackmem_window_(qp, nid, offset, 8, 1)))
        return 0;
    rackmem_line_lock *lock = rackmem_lock_of_(segment, offset);
    if (RACKMEM_UNLIKELY(!rackmem_is_free_(lock, &taken)))
        return 0;
    uint64_t *word = rackmem_word_(segment, offset);
    if (op == RACKMEM_OP_COMPARE_SWAP)
        (void)__atomic_compare_exchange_n(word, &operands[0], operands[1], 0, __ATOMIC_SEQ_CST,
                                          __ATOMIC_SEQ_CST);
    else
        operands[0] = __atomic_fetch_add(word, operands[0], __ATOMIC_SEQ_CST);
    return rackmem_changed_(qp, nid, segment, 8);
}

/* The same on a local buffer, of any alignment. */
RACKMEM_INLINE int rackmem_try_atomic_at_(QP *qp, uint32_t op, uint32_t nid, uint64_t offset,
                                          const volatile void *buffer, uint64_t length)
{
    uint64_t operands[2] = {0, 0};
    char *local = (char *)(uintptr_t)buffer;
    if (length != 8 || (uintptr_t)buffer < RACKMEM_LOWEST_ADDRESS)
        return 0;
    __builtin_memcpy(operands, local, op == RACKMEM_OP_COMPARE_SWAP ? 16 : 8);
    if (!rackmem_try_atomic_(qp, op, nid, offset, operands))
        return 0;
    __builtin_memcpy(local, operands, 8);
    return 1;
}

/* Does an operation if it is a common one. */
RACKMEM_INLINE int rackmem_try_(QP *qp, uint32_t op, uint32_t nid, uint64_t offset,
                                const volatile void *buffer, uint64_t length)
{
    if (op == RACKMEM_OP_READ)
        return rackmem_try_read_(qp, nid, offset, (volatile void *)(uintptr_t)buffer, length);
    if (op == RACKMEM_OP_WRITE)
        return rackmem_try_write_(qp, nid, offset, buffer, length);
    if (op == RACKMEM_OP_FETCH_ADD || op == RACKMEM_OP_COMPARE_SWAP)
        return rackmem_try_atomic_at_(qp, op, nid, offset, buffer, length);
    return 0;
}

#else

RACKMEM_INLINE int rackmem_try_(QP *qp, uint32_t op, uint32_t nid, uint64_t offset,
                                const volatile void *buffer, uint64_t length)
{
    (void)qp, (void)op, (void)nid, (void)offset, (void)buffer, (void)length;
    return 0;
}

RACKMEM_INLINE int rackmem_try_write_packet_(QP *qp, uint32_t nid, uint64_t offset, uint64_t header,
                                             const unsigned char *data, size_t length)
{
    (void)qp, (void)nid, (void)offset, (void)header, (void)data, (void)length;
    return 0;
}

#endif

#ifdef __cplusplus
}
#endif
#endif
