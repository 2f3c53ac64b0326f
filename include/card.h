/*
 * A driver for the network interface card of another node (DEOI, HPCC 2016, section III), in user
 * space: registers are reached by loads and stores that cross the link, descriptors and buffers are
 * in this node's memory, where the card reads and writes them, and its interrupts wake the program.
 *
 *     card_driver card;
 *     card_open(&card, 64);
 *     unsigned char *frame = card_begin(&card);   // fill it
 *     if (card_post(&card, bytes) < 0)
 *         return "the frame is longer than card.mtu";
 *     card_send(&card);
 *     while (card_received(&card) == 0)
 *         if (!card_wait(&card, CARD_RECEIVED))
 *             return "no frame came";
 *     const unsigned char *answer = card_take(&card, &bytes);
 *     card_give(&card);
 *
 * The other end of the model's wire answers a frame, after nic.peer_ns, with as many copies of it
 * as its first four bytes say, of which 4096 may be on their way.
 */
#ifndef RACKMEM_CARD_H
#define RACKMEM_CARD_H

#include <stdbool.h>
#include <stddef.h>
#include <window.h>

/* How long card_wait waits for an interrupt. */
#define CARD_PATIENCE_NS UINT64_C(1000000000)

/* Interrupt lines. */
enum { CARD_SENT = 0, CARD_RECEIVED = 1 };

/* Offsets of registers; sizes of a descriptor and of a buffer. */
enum {
    CARD_SEND_TAIL = 0,
    CARD_SEND_STATUS = 8,
    CARD_RECEIVE_STATUS = 16,
    CARD_RECEIVE_TAIL = 24,
    CARD_SEND_RING = 32,
    CARD_RECEIVE_RING = 40,
    CARD_BUFFERS = 48,
    CARD_ENTRIES = 56,
    CARD_MTU = 64,
    CARD_DESCRIPTOR_BYTES = 64,
    CARD_BUFFER_BYTES = 2048
};

/* A descriptor: the card sets `done`, and `bytes` of a received frame. */
typedef struct card_descriptor {
    uint64_t address; /* of the frame, as the card sees it */
    uint64_t bytes;
    uint64_t done;
    uint64_t unused[5];
} card_descriptor;

/* An open card. Send descriptors, receive descriptors, send buffers and receive buffers follow each
 * other in its memory. */
typedef struct card_driver {
    window_card hardware;
    uint32_t entries; /* of either ring */
    uint32_t mtu;     /* bytes of the longest frame */
    uint32_t posted;  /* frames, so far */
    uint32_t sent;    /* of them, as far as is known */
    uint32_t there;   /* frames received, as far as is known */
    uint32_t taken;   /* of them */
    uint64_t seen[2]; /* interrupts of each line */
} card_driver;

static inline uint32_t card_load_(const card_driver *card, unsigned offset)
{
    return *(volatile uint32_t *)(uintptr_t)(card->hardware.registers + offset);
}

static inline void card_store_(const card_driver *card, unsigned offset, uint32_t value)
{
    *(volatile uint32_t *)(uintptr_t)(card->hardware.registers + offset) = value;
}

static inline void card_store_address_(const card_driver *card, unsigned offset, uint64_t in_memory)
{
    *(volatile uint64_t *)(uintptr_t)(card->hardware.registers + offset) =
        card->hardware.seen_at + in_memory;
}

/* Where something begins in the card's memory: entry `number` of part 0 to 3. */
static inline uint64_t card_place_(const card_driver *card, unsigned part, uint32_t number)
{
    uint64_t entries = card->entries, at = number % card->entries;
    if (part < 2)
        return (part * entries + at) * CARD_DESCRIPTOR_BYTES;
    return 2 * entries * CARD_DESCRIPTOR_BYTES + ((part - 2) * entries + at) * CARD_BUFFER_BYTES;
}

/* Borrows the card, with so many entries of either ring. A negative errno as window_open_card. */
static inline int64_t card_open(card_driver *card, uint32_t entries)
{
    uint64_t each = CARD_DESCRIPTOR_BYTES + CARD_BUFFER_BYTES;
    int64_t error = window_open_card(2 * entries * each, &card->hardware);
    if (error < 0)
        return error;
    card->entries = entries;
    card->posted = card->sent = card->there = card->taken = 0;
    card->seen[0] = card->seen[1] = 0;
    card_store_address_(card, CARD_SEND_RING, card_place_(card, 0, 0));
    card_store_address_(card, CARD_RECEIVE_RING, card_place_(card, 1, 0));
    card_store_address_(card, CARD_BUFFERS, card_place_(card, 3, 0));
    card_store_(card, CARD_ENTRIES, entries);
    card_store_(card, CARD_RECEIVE_TAIL, entries);
    card->mtu = card_load_(card, CARD_MTU);
    return 0;
}

/* Sleeps until a line is asserted that was not when this returned last. False after
 * CARD_PATIENCE_NS: a frame was dropped, for want of a buffer or on the wire. */
static inline bool card_wait(card_driver *card, unsigned line)
{
    uint64_t address = card->hardware.interrupts + line * sizeof(uint64_t);
    bool is_asserted = window_wait_for(address, card->seen[line], CARD_PATIENCE_NS) == 0;
    card->seen[line] = *(volatile uint64_t *)(uintptr_t)address;
    return is_asserted;
}

/* How many frames of those posted are not known to be sent; asks the card. */
static inline uint32_t card_unsent(card_driver *card)
{
    card->sent = card_load_(card, CARD_SEND_STATUS);
    card_store_(card, CARD_SEND_STATUS, 0);
    return card->posted - card->sent;
}

/* The buffer of the next frame to be sent: waits while the ring is full. NULL if card_wait returns
 * false. */
static inline unsigned char *card_begin(card_driver *card)
{
    while (card->posted - card->sent == card->entries && card_unsent(card) == card->entries)
        if (!card_wait(card, CARD_SENT))
            return NULL;
    return (unsigned char *)(uintptr_t)(card->hardware.memory + card_place_(card, 2, card->posted));
}

/* Makes the descriptor of the frame that is in that buffer. Returns 0, or -90 (EMSGSIZE) for a
 * frame longer than card->mtu, which is not sent. */
static inline int64_t card_post(card_driver *card, uint32_t bytes)
{
    if (bytes > card->mtu)
        return -90;
    uint64_t at = card->hardware.memory + card_place_(card, 0, card->posted);
    volatile card_descriptor *descriptor = (volatile card_descriptor *)(uintptr_t)at;
    descriptor->address = card->hardware.seen_at + card_place_(card, 2, card->posted);
    descriptor->bytes = bytes;
    descriptor->done = 0;
    card->posted++;
    return 0;
}

/* Tells the card of all that was posted. */
static inline void card_send(card_driver *card)
{
    window_fence();
    card_store_(card, CARD_SEND_TAIL, card->posted);
}

/* How many received frames can be taken; asks the card. */
static inline uint32_t card_received(card_driver *card)
{
    card->there = card_load_(card, CARD_RECEIVE_STATUS);
    window_fence();
    return card->there - card->taken;
}

/* Takes the next of them. Its buffer is the program's until card_give. */
static inline const unsigned char *card_take(card_driver *card, uint32_t *bytes)
{
    uint64_t at = card->hardware.memory + card_place_(card, 1, card->taken);
    *bytes = (uint32_t)((const volatile card_descriptor *)(uintptr_t)at)->bytes;
    at = card->hardware.memory + card_place_(card, 3, card->taken);
    card->taken++;
    return (const unsigned char *)(uintptr_t)at;
}

/* Takes the interrupt back, and gives the card the buffers of all frames that were taken. */
static inline void card_give(card_driver *card)
{
    card_store_(card, CARD_RECEIVE_STATUS, 0);
    card_store_(card, CARD_RECEIVE_TAIL, card->taken + card->entries);
}

#endif
