/*
 * Access library (soNUMA §5.2): remote read, write, atomics and notify, synchronous and
 * asynchronous. Inline, without libc: a queue pair is two rings in memory.
 *
 *     for (...) {
 *         int slot = rmc_wait_for_slot(qp, callback);       // callback(slot, arg) per completion
 *         rmc_read_async(qp, slot, nid, offset, &buffer[slot], sizeof buffer[0]);
 *     }
 *     int err = rmc_drain_cq(qp, callback);                 // 0, or the first error
 *
 * Lines (64 bytes) are atomic; there is no order between the lines of a request or between
 * requests. A read of a line sees each atomic whole, but several on different words in no order.
 * A callback is passed inline, may read rmc_status(qp, slot), and must not post.
 */
#ifndef RACKMEM_ACCESS_H
#define RACKMEM_ACCESS_H

#include "abi.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A callback of rmc_wait_for_slot and rmc_drain_cq; `arg` is qp->callback_arg. */
typedef void (*rmc_callback)(int slot, void *arg);

/* Hints to the compiler. */
#define RACKMEM_LIKELY(x) __builtin_expect(!!(x), 1)
#define RACKMEM_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define RACKMEM_INLINE static inline __attribute__((always_inline))

/* Status of the operation that completed last in a slot, as a negative errno or 0. */
RACKMEM_INLINE int rmc_status(const QP *qp, int slot)
{
    return rackmem_status_errno(qp->slot_status[slot & (MAX_WQ_SIZE - 1)]);
}

/* Posted operations that have not completed yet, as far as this thread has looked. */
RACKMEM_INLINE uint32_t rmc_outstanding(const QP *qp)
{
    return qp->posted - qp->reaped;
}

/* A field too wide for the entry must not be cut to a valid one: the operation has to fail. */
RACKMEM_INLINE void rackmem_saturate_(uint64_t *nid, uint64_t *offset, uint64_t *length)
{
    if (RACKMEM_UNLIKELY((*nid >> 12) | (*offset >> 40) | (*length >> 24))) {
        if (*nid >> 12)
            *nid = RACKMEM_MAX_NODES - 1;
        if ((*offset >> 40) | (*length >> 24)) {
            *offset = RACKMEM_MAX_OFFSET;
            *length = RACKMEM_MAX_LENGTH;
        }
    }
}

/* Writes the entry of the next slot: word 0 carries the phase and publishes it, so it is stored
 * last; the controller's acquire load of word 0 pairs with this release store. */
RACKMEM_INLINE void rackmem_post_(QP *qp, uint64_t op, uint64_t nid, uint64_t offset,
                                  const volatile void *buffer, uint64_t length)
{
    rackmem_saturate_(&nid, &offset, &length);
    uint32_t slot = qp->posted & (qp->size - 1);
    uint64_t phase = (qp->posted & qp->size) == 0;
    rackmem_wq_entry *entry = &qp->wq[slot];
    uint64_t address = (uint64_t)(uintptr_t)buffer & RACKMEM_MAX_ADDRESS;
    __atomic_store_n(&entry->word[1], rackmem_wq_word1(address, length), __ATOMIC_RELAXED);
    __atomic_store_n(&entry->word[0], rackmem_wq_word0(phase, op, nid, offset, length),
                     __ATOMIC_RELEASE);
    qp->slot_state[slot] = RACKMEM_SLOT_BUSY;
    qp->posted++;
    /* No fence: before it sleeps, the controller makes every thread's store visible itself. */
    if (RACKMEM_UNLIKELY(__atomic_load_n(qp->rmc_asleep, __ATOMIC_RELAXED)))
        qp->engine->wake(qp);
}

/* ---- Operations without a call -------------------------------------------------------------- */

#if RACKMEM_HAS_WINDOWS

/* What follows does a short operation with all checks of the engine, and with the steps of a line
 * lock of line_lock.rs. Each function returns 0 for whatever is not common: a node that is lost or
 * not mapped, a lock that is held, a wrong operation. The engine then does it from the start. */

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

/* ---- Asynchronous operations ---------------------------------------------------------------- */

/* Has the engine start the next slot's operation. One that is done at once has its callback due
 * like any other. */
RACKMEM_INLINE void rackmem_execute_(QP *qp, uint32_t op, uint32_t nid, uint64_t offset,
                                     const volatile void *buffer, uint64_t length)
{
    uint32_t slot = qp->posted & (qp->size - 1);
    uint32_t status = RACKMEM_OK;
    if (!rackmem_try_(qp, op, nid, offset, buffer, length))
        status = qp->engine->start(qp, op, nid, offset, (uint64_t)(uintptr_t)buffer, length);
    if (RACKMEM_UNLIKELY(status != RACKMEM_OK)) {
        if (status == RACKMEM_POSTED) {
            qp->slot_state[slot] = RACKMEM_SLOT_BUSY;
            qp->posted++;
            return;
        }
        if (qp->first_error == 0)
            qp->first_error = rackmem_status_errno(status);
    }
    qp->slot_state[slot] = RACKMEM_SLOT_DONE;
    qp->slot_status[slot] = (uint8_t)status;
    qp->done++;
    qp->posted++;
    qp->reaped++;
}

/* Starts an operation in the next slot. */
RACKMEM_INLINE void rackmem_start_(QP *qp, uint32_t op, int nid, uint64_t offset,
                                   const volatile void *buffer, uint64_t length)
{
    if (qp->engine->start)
        rackmem_execute_(qp, op, (uint32_t)nid, offset, buffer, length);
    else
        rackmem_post_(qp, op, (uint32_t)nid, offset, buffer, length);
}

/* A spin_limit: never sleep. For cores on which polling delays no other thread, as in the model. */
#define RACKMEM_SPIN_FOREVER UINT32_MAX

/* Count of a poll in vain against spin_limit: 1, or 0 if that is RACKMEM_SPIN_FOREVER, so that a
 * polling loop changes nothing until the polled word does. */
RACKMEM_INLINE uint32_t rackmem_poll_step_(const QP *qp)
{
    return qp->spin_limit != RACKMEM_SPIN_FOREVER;
}

/* Takes the next completion off the CQ, if there is one. */
RACKMEM_INLINE int rackmem_reap_(QP *qp)
{
    uint32_t phase = (qp->reaped & qp->size) == 0;
    rackmem_cq_entry entry =
        __atomic_load_n(&qp->cq[qp->reaped & (qp->size - 1)], __ATOMIC_ACQUIRE);
    if (rackmem_cq_phase(entry) != phase || qp->reaped == qp->posted)
        return -1;
    qp->reaped++;
    uint32_t slot = rackmem_cq_slot(entry) & (qp->size - 1);
    uint32_t status = rackmem_cq_status(entry);
    qp->slot_status[slot] = (uint8_t)status;
    if (RACKMEM_UNLIKELY(status != RACKMEM_OK) && qp->first_error == 0)
        qp->first_error = rackmem_status_errno(status);
    return (int)slot;
}

/* Sleeps after spin_limit polls in vain, if there is a way to. */
RACKMEM_INLINE void rackmem_doze_(QP *qp, uint32_t *polls)
{
    if (qp->engine->sleep && ++*polls > qp->spin_limit) {
        qp->engine->sleep(qp);
        *polls = 0;
    }
}

/* Waits a little for the controller: runs it here, polls, and sleeps. Where there is nothing to run
 * and no way to sleep, it changes nothing, so that a core can tell that it only waits. */
RACKMEM_INLINE void rackmem_relax_(QP *qp, uint32_t *polls)
{
    if (RACKMEM_UNLIKELY(qp->engine->progress != 0)) {
        qp->engine->progress(qp);
        rackmem_doze_(qp, polls);
    } else {
        rackmem_doze_(qp, polls);
    }
}

/* Runs the callback of every completion that has come. */
RACKMEM_INLINE void rackmem_process_cq_(QP *qp, rmc_callback callback)
{
    if (RACKMEM_UNLIKELY(qp->done)) { /* reaped by a synchronous operation in between */
        for (uint32_t slot = 0; slot < qp->size; slot++) {
            if (qp->slot_state[slot] != RACKMEM_SLOT_DONE)
                continue;
            qp->slot_state[slot] = RACKMEM_SLOT_FREE;
            qp->done--;
            if (callback)
                callback((int)slot, qp->callback_arg);
        }
    }
    for (int slot; (slot = rackmem_reap_(qp)) >= 0;) {
        qp->slot_state[slot] = RACKMEM_SLOT_FREE;
        if (callback)
            callback(slot, qp->callback_arg);
    }
}

/*
 * Processes CQ events, calling `callback` for each completed slot, until the slot at the WQ's
 * head is free, and returns it. The callback may be NULL.
 */
RACKMEM_INLINE int rmc_wait_for_slot(QP *qp, rmc_callback callback)
{
    uint32_t slot = qp->posted & (qp->size - 1);
    uint32_t polls = 0;
    while (RACKMEM_UNLIKELY(qp->slot_state[slot] != RACKMEM_SLOT_FREE)) {
        rackmem_process_cq_(qp, callback);
        if (qp->slot_state[slot] != RACKMEM_SLOT_FREE)
            rackmem_relax_(qp, &polls);
    }
    return (int)slot;
}

/* Waits until all outstanding operations have completed, running the remaining callbacks.
 * Returns the first error of any operation of this queue pair since the last call, or 0. */
RACKMEM_INLINE int rmc_drain_cq(QP *qp, rmc_callback callback)
{
    uint32_t polls = 0;
    for (;;) {
        rackmem_process_cq_(qp, callback);
        if (qp->posted == qp->reaped)
            break;
        rackmem_relax_(qp, &polls);
    }
    int error = qp->first_error;
    qp->first_error = 0;
    return error;
}

/* Whether `slot` is the one that rmc_wait_for_slot gave out; if not, nothing may be posted. */
RACKMEM_INLINE int rackmem_owns_slot_(QP *qp, int slot)
{
    if (RACKMEM_LIKELY((uint32_t)slot == (qp->posted & (qp->size - 1)) &&
                       qp->slot_state[slot] == RACKMEM_SLOT_FREE))
        return 1;
    if (qp->first_error == 0)
        qp->first_error = -22; /* EINVAL */
    return 0;
}

/* Schedules a copy of `length` bytes at <nid, offset> into `buffer` and returns at once. The slot
 * comes from rmc_wait_for_slot; another slot is an error that rmc_drain_cq reports. */
RACKMEM_INLINE void rmc_read_async(QP *qp, int slot, int nid, uint64_t offset, void *buffer,
                                   size_t length)
{
    if (rackmem_owns_slot_(qp, slot))
        rackmem_start_(qp, RACKMEM_OP_READ, nid, offset, buffer, length);
}

/* Schedules a copy of `length` bytes of `buffer` to <nid, offset>; the buffer may change again
 * once the slot has completed. */
RACKMEM_INLINE void rmc_write_async(QP *qp, int slot, int nid, uint64_t offset, const void *buffer,
                                    size_t length)
{
    if (rackmem_owns_slot_(qp, slot))
        rackmem_start_(qp, RACKMEM_OP_WRITE, nid, offset, buffer, length);
}

/* Schedules an addition to the 8 bytes at <nid, offset>: *operand is the addend, then the old
 * value. */
RACKMEM_INLINE void rmc_fetch_and_add_async(QP *qp, int slot, int nid, uint64_t offset,
                                            uint64_t *operand)
{
    if (rackmem_owns_slot_(qp, slot))
        rackmem_start_(qp, RACKMEM_OP_FETCH_ADD, nid, offset, operand, 8);
}

/* Schedules a swap of the 8 bytes at <nid, offset>: operands are {expected, desired}; the old
 * value then replaces operands[0]. */
RACKMEM_INLINE void rmc_compare_and_swap_async(QP *qp, int slot, int nid, uint64_t offset,
                                               uint64_t operands[2])
{
    if (rackmem_owns_slot_(qp, slot))
        rackmem_start_(qp, RACKMEM_OP_COMPARE_SWAP, nid, offset, operands, 8);
}

/* Schedules a remote interrupt: rackmem_wait_notify at node nid returns. */
RACKMEM_INLINE void rmc_notify_async(QP *qp, int slot, int nid)
{
    if (rackmem_owns_slot_(qp, slot))
        rackmem_start_(qp, RACKMEM_OP_NOTIFY, nid, 0, 0, 0);
}

/* The next slot, once no operation uses it; callbacks that fall due are left for later. */
RACKMEM_INLINE int rackmem_slot_sync_(QP *qp)
{
    uint32_t polls = 0;
    uint32_t first = qp->posted & (qp->size - 1);
    while (RACKMEM_UNLIKELY(qp->slot_state[first] == RACKMEM_SLOT_BUSY)) {
        int slot = rackmem_reap_(qp);
        if (slot < 0) {
            rackmem_relax_(qp, &polls);
        } else {
            qp->slot_state[slot] = RACKMEM_SLOT_DONE;
            qp->done++;
        }
    }
    return (int)first;
}

/* Waits for one slot, leaving the callbacks of others for rmc_wait_for_slot or rmc_drain_cq. */
RACKMEM_INLINE int rackmem_wait_sync_(QP *qp, int wanted)
{
    uint32_t polls = 0;
    for (;;) {
        int slot = rackmem_reap_(qp);
        if (slot == wanted)
            break;
        if (slot < 0) {
            rackmem_relax_(qp, &polls);
        } else {
            qp->slot_state[slot] = RACKMEM_SLOT_DONE;
            qp->done++;
        }
    }
    int error = rmc_status(qp, wanted);
    if (error != 0 && error == qp->first_error)
        qp->first_error = 0; /* the caller learns of it now */
    return error;
}

/* An operation by the engine, or by the controller that serves the WQ. */
RACKMEM_INLINE int rackmem_sync_engine_(QP *qp, uint32_t op, uint32_t nid, uint64_t offset,
                                        const volatile void *buffer, uint64_t length)
{
    if (qp->engine->execute) {
        uint32_t status =
            qp->engine->execute(qp, op, nid, offset, (uint64_t)(uintptr_t)buffer, length);
        return RACKMEM_LIKELY(status == RACKMEM_OK) ? 0 : rackmem_status_errno(status);
    }
    int slot = rackmem_slot_sync_(qp);
    /* A callback may still be due for the slot's previous operation: borrow it, give it back. */
    uint8_t state = qp->slot_state[slot];
    uint8_t status = qp->slot_status[slot];
    rackmem_post_(qp, op, nid, offset, buffer, length);
    int error = rackmem_wait_sync_(qp, slot);
    qp->slot_state[slot] = state;
    qp->slot_status[slot] = status;
    return error;
}

RACKMEM_INLINE int rackmem_sync_(QP *qp, uint32_t op, uint32_t nid, uint64_t offset,
                                 const volatile void *buffer, uint64_t length)
{
    if (rackmem_try_(qp, op, nid, offset, buffer, length))
        return 0;
    return rackmem_sync_engine_(qp, op, nid, offset, buffer, length);
}

/* One entry moves up to RACKMEM_MAX_LENGTH bytes; longer transfers take several. None of them is
 * done before the last byte of the whole is known to lie in the segment. */
RACKMEM_INLINE int rackmem_sync_long_(QP *qp, uint32_t op, uint32_t nid, uint64_t offset,
                                      const volatile char *buffer, size_t length)
{
    const size_t step = RACKMEM_MAX_LENGTH & ~(size_t)(RACKMEM_LINE_BYTES - 1);
    if (RACKMEM_UNLIKELY(length > RACKMEM_MAX_LENGTH)) {
        uint64_t last = offset + length < offset ? UINT64_MAX : offset + length - 1;
        uint64_t *byte = &qp->operands[2 * (size_t)(qp->posted & (qp->size - 1))];
        int error = rackmem_sync_(qp, RACKMEM_OP_READ, nid, last, byte, 1);
        if (error != 0)
            return error;
    }
    while (RACKMEM_UNLIKELY(length > RACKMEM_MAX_LENGTH)) {
        int error = rackmem_sync_(qp, op, nid, offset, buffer, step);
        if (error != 0)
            return error;
        offset += step;
        buffer += step;
        length -= step;
    }
    return rackmem_sync_(qp, op, nid, offset, buffer, length);
}

/* Copies `length` bytes at <nid, offset> into `buffer`; returns when they are there. */
RACKMEM_INLINE int rmc_read(QP *qp, int nid, uint64_t offset, void *buffer, size_t length)
{
    return rackmem_sync_long_(qp, RACKMEM_OP_READ, (uint32_t)nid, offset,
                              (const volatile char *)buffer, length);
}

/* Copies `length` bytes of `buffer` to <nid, offset>; returns when acknowledged. */
RACKMEM_INLINE int rmc_write(QP *qp, int nid, uint64_t offset, const void *buffer, size_t length)
{
    return rackmem_sync_long_(qp, RACKMEM_OP_WRITE, (uint32_t)nid, offset,
                              (const volatile char *)buffer, length);
}

/* Words of the queue pair that may be operands. A slot's operands are free: a busy slot is never
 * the next one. */
RACKMEM_INLINE uint64_t *rackmem_operands_(QP *qp)
{
    return &qp->operands[2 * (size_t)(qp->posted & (qp->size - 1))];
}

/* Adds to the 8 bytes at <nid, offset>; *old, if not NULL, gets the value before. */
RACKMEM_INLINE int rmc_fetch_and_add(QP *qp, int nid, uint64_t offset, uint64_t addend,
                                     uint64_t *old)
{
#if RACKMEM_HAS_WINDOWS
    uint64_t words[2] = {addend, 0};
    if (rackmem_try_atomic_(qp, RACKMEM_OP_FETCH_ADD, (uint32_t)nid, offset, words)) {
        if (old)
            *old = words[0];
        return 0;
    }
#endif
    uint64_t *operands = rackmem_operands_(qp);
    operands[0] = addend;
    int error = rackmem_sync_engine_(qp, RACKMEM_OP_FETCH_ADD, (uint32_t)nid, offset, operands, 8);
    if (old)
        *old = operands[0];
    return error;
}

/* Stores `desired` in the 8 bytes at <nid, offset> if they equal `expected`; *old, if not NULL,
 * gets the value before, which tells whether it happened. */
RACKMEM_INLINE int rmc_compare_and_swap(QP *qp, int nid, uint64_t offset, uint64_t expected,
                                        uint64_t desired, uint64_t *old)
{
#if RACKMEM_HAS_WINDOWS
    uint64_t words[2] = {expected, desired};
    if (rackmem_try_atomic_(qp, RACKMEM_OP_COMPARE_SWAP, (uint32_t)nid, offset, words)) {
        if (old)
            *old = words[0];
        return 0;
    }
#endif
    uint64_t *operands = rackmem_operands_(qp);
    operands[0] = expected;
    operands[1] = desired;
    int error =
        rackmem_sync_engine_(qp, RACKMEM_OP_COMPARE_SWAP, (uint32_t)nid, offset, operands, 8);
    if (old)
        *old = operands[0];
    return error;
}

/* Interrupts node nid: its rackmem_wait_notify returns. */
RACKMEM_INLINE int rmc_notify(QP *qp, int nid)
{
    return rackmem_sync_(qp, RACKMEM_OP_NOTIFY, (uint32_t)nid, 0, 0, 0);
}

#ifdef __cplusplus
}
#endif
#endif
