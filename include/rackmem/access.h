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
#include "direct.h"

#ifdef __cplusplus
extern "C" {
#endif

/* A callback of rmc_wait_for_slot and rmc_drain_cq; `arg` is qp->callback_arg. */
typedef void (*rmc_callback)(int slot, void *arg);

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
    int32_t first_error = qp->first_error;
    for (;;) {
        int slot = rackmem_reap_(qp);
        if (slot == wanted)
            break;
        if (slot < 0) {
            rackmem_relax_(qp, &polls);
        } else {
            qp->slot_state[slot] = RACKMEM_SLOT_DONE;
            qp->done++;
            first_error = qp->first_error;
        }
    }
    int error = rmc_status(qp, wanted);
    if (error != 0)
        qp->first_error = first_error; /* the caller learns of its own now */
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
