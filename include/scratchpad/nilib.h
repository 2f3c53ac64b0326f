/*
 * nilib: operations of scratchpad lines on the network interface (CINI §3.3, §3.4, §5.1).
 *
 * Transfers are asynchronous. One that names an acknowledgement address adds its bytes there as
 * they are written: with a counter that begins at minus the bytes to come, completion of any number
 * of transfers is one notification, whatever order the network delivers in:
 *
 *     scr_word *flag = scr_alloc(&pad, 8, 8);
 *     scr_word *arrived = scr_alloc_counter(&pad, -2 * 1024, flag);
 *     ni_copy(command, a, remote_a, 1024, arrived);
 *     ni_copy(other_command, b, remote_b, 1024, arrived);
 *     ni_wait(flag);
 *
 * Between transfers, there is no order but by waiting.
 */
#ifndef SCRATCHPAD_NILIB_H
#define SCRATCHPAD_NILIB_H

#include "scrlib.h"

/* Longest copy of one command, in bytes, and longest message, in words. */
#define NI_MOST_COPY_BYTES 65536
#define NI_MOST_MESSAGE_WORDS 5

/* Commands of a network interface: a message of some words, or a copy. */
enum ni_opcode { NI_MESSAGE = 1, NI_COPY = 2 };

/* Words of a command buffer (CINI §3.3): source of a copy, or data of a message. */
enum { NI_OPERATION = 0, NI_DESTINATION = 1, NI_ACKNOWLEDGEMENT = 2, NI_SOURCE = 3, NI_DATA = 3 };

/* The word with opcode and length of a command, in bytes. */
SCR_INLINE uint64_t ni_operation(enum ni_opcode opcode, uint64_t bytes)
{
    return (uint64_t)opcode | bytes << 8;
}

/* ---- Transfers --------------------------------------------------------------------------- */

/*
 * RDMA-copy: four stores start it, and it goes on by itself. Source and destination are scratchpad,
 * of any core, or SCR_DRAM. Local stores to the source have to be followed by scr_release().
 * `acknowledgement` may be NULL.
 *
 * Stores wait for a buffer whose previous command has not been taken up yet.
 */
SCR_FUNCTION void ni_copy(scr_word *command, volatile void *destination,
                          const volatile void *source, uint64_t bytes, scr_word *acknowledgement)
{
    command[NI_OPERATION] = ni_operation(NI_COPY, bytes);
    command[NI_DESTINATION] = (uint64_t)(uintptr_t)destination;
    command[NI_ACKNOWLEDGEMENT] = (uint64_t)(uintptr_t)acknowledgement;
    command[NI_SOURCE] = (uint64_t)(uintptr_t)source;
}

/* A message of up to NI_MOST_MESSAGE_WORDS words: to memory, a counter, or a queue whose items are
 * that long. */
SCR_FUNCTION void ni_message(scr_word *command, volatile void *destination, const uint64_t *data,
                           unsigned words, scr_word *acknowledgement)
{
    command[NI_OPERATION] = ni_operation(NI_MESSAGE, words * SCR_WORD_BYTES);
    command[NI_DESTINATION] = (uint64_t)(uintptr_t)destination;
    command[NI_ACKNOWLEDGEMENT] = (uint64_t)(uintptr_t)acknowledgement;
    for (unsigned i = 0; i < words; i++)
        command[NI_DATA + i] = data[i];
}

/* Remote stores are stores. They may wait in the core for others of the same line to join them;
 * this sends the waiting ones. */
SCR_INLINE void ni_push(void)
{
    scr_release();
}

/* A store that goes at once, behind all before: a signal. */
SCR_FUNCTION void ni_signal(scr_word *to, uint64_t value)
{
    scr_release();
    *to = value;
    ni_push();
}

/* ---- Notifications ----------------------------------------------------------------------- */

/* Waits for a notification: see scr_wait(). */
SCR_FUNCTION uint64_t ni_wait(scr_word *flag)
{
    return scr_wait(flag);
}

/* Likewise if it is not zero yet; returns whether it was. */
SCR_FUNCTION int ni_test(scr_word *flag)
{
    if (*flag == 0)
        return 0;
    *flag = 0;
    scr_acquire();
    return 1;
}

/* ---- Counters ---------------------------------------------------------------------------- */

/* Adds to a counter, from any core; at zero it sends its notifications. */
SCR_FUNCTION void ni_counter_add(scr_word *counter, int64_t value)
{
    counter[SCR_COUNTER_VALUE] = (uint64_t)value;
}

/* A counter's value: usually minus the sum that has still to arrive. */
SCR_FUNCTION int64_t ni_counter_value(const scr_word *counter)
{
    return (int64_t)counter[SCR_COUNTER_VALUE];
}

/* ---- Single-reader queues ---------------------------------------------------------------- */

enum { NI_SR_ENQUEUE = 0, NI_SR_TAIL = 1, NI_SR_HEAD = 2 }; /* words of the descriptor */

/* The consumer's side of a queue of its own core. */
typedef struct ni_sr_reader {
    scr_word *queue;
    uint64_t head;       /* items taken so far */
    uint64_t index_mask; /* items that fit, less one */
    unsigned item_words;
} ni_sr_reader;

/* The reader of a queue that scr_alloc_sr_queue() made; one core may have it. */
static inline ni_sr_reader ni_sr_reader_of(scr_word *queue)
{
    uint64_t state = *scr_tag(queue);
    ni_sr_reader reader;
    reader.queue = queue;
    reader.head = queue[NI_SR_HEAD];
    reader.item_words = state >> 8 & 0xff;
    reader.index_mask = (state >> 16 & 0xffffffff) / SCR_WORD_BYTES / reader.item_words - 1;
    return reader;
}

/* Any core: an item of one word. Longer ones are messages, or copies. */
SCR_FUNCTION void ni_sr_enqueue(scr_word *queue, uint64_t item)
{
    queue[NI_SR_ENQUEUE] = item;
}

/* The oldest item, once there is one. It stays where it is until ni_sr_free(). */
SCR_FUNCTION const scr_word *ni_sr_wait(const ni_sr_reader *reader)
{
    while (reader->queue[NI_SR_TAIL] == reader->head)
        ;
    scr_acquire();
    uint64_t index = reader->head & reader->index_mask;
    return reader->queue + SCR_LINE_WORDS + index * reader->item_words;
}

/* Gives the place of the oldest item back to the queue. */
SCR_FUNCTION void ni_sr_free(ni_sr_reader *reader)
{
    reader->queue[NI_SR_HEAD] = ++reader->head;
}

/* Takes an item of one word. */
SCR_FUNCTION uint64_t ni_sr_dequeue(ni_sr_reader *reader)
{
    uint64_t item = *ni_sr_wait(reader);
    ni_sr_free(reader);
    return item;
}

/* ---- Multiple-reader queues -------------------------------------------------------------- */

/* Any core: a datum of one word. Longer ones are messages, or copies. */
SCR_FUNCTION void ni_mr_put(scr_word *queue, uint64_t datum)
{
    *queue = datum;
}

/* Any core: the oldest datum, of one word, once it is this request's turn; the core waits. */
SCR_FUNCTION uint64_t ni_mr_get(const scr_word *queue)
{
    uint64_t datum = *queue;
    __asm__ volatile("" : : "r"(datum)); /* a load of nothing into no register waits for nothing */
    scr_acquire();
    return datum;
}

/* Any core: a datum is wanted at `destination`, and the core goes on. */
SCR_FUNCTION void ni_mr_request(scr_word *command, scr_word *destination, const scr_word *queue,
                              uint64_t bytes, scr_word *acknowledgement)
{
    ni_copy(command, destination, queue, bytes, acknowledgement);
}

#endif
