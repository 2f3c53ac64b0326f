/*
 * Queue pairs in hardware (Thunder; TSM, section 4.2): connections between processes of two nodes.
 * A program writes descriptors of its own addresses and tells the channel by an uncached store; the
 * channel moves the data; completions appear in memory, where the program looks for them.
 *
 *     pair_connection pair;
 *     pair_open(&pair, peer_node, peer_number, memory, bytes);
 *     pair_receive(&pair, buffer, bytes, 1);
 *     pair_send(&pair, message, length, 2);
 *     pair_completion done = pair_wait(&pair);
 *
 * A connection reaches memory of its own region, and exchanges messages with the one that it was
 * opened with and no other. The n-th message goes into the n-th buffer that was posted for it, and
 * waits if there is none yet. No more than `entries` of either kind are without a completion that
 * was taken; pair_send and pair_receive refuse more.
 */
#ifndef RACKMEM_PAIR_H
#define RACKMEM_PAIR_H

#include <stdbool.h>
#include <window.h>

/* Ends of descriptors. */
typedef enum pair_status {
    PAIR_DONE = 0,
    PAIR_TOO_LONG = 1, /* the message did not fit into the buffer */
    PAIR_REFUSED = 3,  /* the other end has no such connection, or it is not with this one */
    PAIR_NO_ACCESS = 4, /* not in the connection's region, or no bytes */
    PAIR_FULL = 5
} pair_status;

/* A message to be sent, or a buffer for one, in a ring. */
typedef struct pair_descriptor {
    uint64_t address;
    uint64_t bytes;
    uint64_t id;
    uint64_t unused;
} pair_descriptor;

/* A completion as it is in its ring; pair_poll() reads it. */
typedef struct pair_entry {
    uint64_t id;
    uint64_t bytes;
    uint64_t what;   /* status, and above 32 bits the kind */
    uint64_t number; /* from 1 on: the entry is there */
} pair_entry;

/* The end of a message or of a buffer, with the id that it was posted with. */
typedef struct pair_completion {
    uint64_t id;
    uint64_t bytes; /* of the message */
    pair_status status;
    bool is_receive;
} pair_completion;

/* A connection. */
typedef struct pair_connection {
    window_pair hardware;
    uint32_t posted[2]; /* sends, receives */
    uint32_t open[2];   /* of them without a completion that was taken */
    uint64_t taken;     /* completions */
} pair_connection;

/* Opens a connection with number `peer` of a node, for buffers in so many bytes of memory.
 * hardware.number is its own number. A negative errno as window_open_pair. */
static inline int64_t pair_open(pair_connection *pair, uint32_t node, uint32_t peer,
                                const void *memory, uint64_t bytes)
{
    pair->posted[0] = pair->posted[1] = pair->open[0] = pair->open[1] = 0;
    pair->taken = 0;
    return window_open_pair(node, peer, memory, bytes, &pair->hardware);
}

/* Posts a descriptor of a kind, and tells the channel of it. False without room. */
static inline bool pair_post_(pair_connection *pair, unsigned kind, const void *memory,
                              uint64_t bytes, uint64_t id)
{
    uint64_t entries = pair->hardware.entries;
    if (pair->open[kind] == entries)
        return false;
    uint64_t ring = kind == 0 ? pair->hardware.sends : pair->hardware.receives;
    volatile pair_descriptor *at = (volatile pair_descriptor *)(uintptr_t)ring;
    at += pair->posted[kind] % entries;
    at->address = (uint64_t)(uintptr_t)memory;
    at->bytes = bytes;
    at->id = id;
    pair->posted[kind]++;
    pair->open[kind]++;
    window_fence();
    *(volatile uint32_t *)(uintptr_t)(pair->hardware.registers + 8 * kind) = pair->posted[kind];
    return true;
}

/* Posts a message. False if `entries` messages are without a completion that was taken. */
static inline bool pair_send(pair_connection *pair, const void *message, uint64_t bytes,
                             uint64_t id)
{
    return pair_post_(pair, 0, message, bytes, id);
}

/* Posts a buffer for the next message. False as pair_send(). */
static inline bool pair_receive(pair_connection *pair, void *buffer, uint64_t bytes,
                                uint64_t id)
{
    return pair_post_(pair, 1, buffer, bytes, id);
}

/* Takes the next completion, if it is there. */
static inline bool pair_poll(pair_connection *pair, pair_completion *out)
{
    uint64_t at = pair->taken % (2 * pair->hardware.entries);
    volatile pair_entry *entry = (volatile pair_entry *)(uintptr_t)pair->hardware.completions;
    entry += at;
    if (entry->number != pair->taken + 1)
        return false;
    window_fence();
    out->id = entry->id;
    out->bytes = entry->bytes;
    out->status = (pair_status)(entry->what & UINT32_MAX);
    out->is_receive = entry->what >> 32 != 0;
    pair->taken++;
    pair->open[out->is_receive]--;
    return true;
}

/* Waits for the next completion. */
static inline pair_completion pair_wait(pair_connection *pair)
{
    pair_completion completion;
    while (!pair_poll(pair, &completion))
        ;
    return completion;
}

#endif
