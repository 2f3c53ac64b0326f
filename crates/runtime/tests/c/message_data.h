/* Message contents that tell sender and number, in memory of exactly their size. */
#ifndef MESSAGE_DATA_H
#define MESSAGE_DATA_H

#include "rackmem.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

static inline uint64_t next_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state * UINT64_C(0x2545f4914f6cdd1d);
}

/* The contents of message `number` from `nid`: bytes that depend on place, sender and number. */
static inline void fill(unsigned char *data, size_t length, int nid, uint64_t number)
{
    uint64_t state = (number + 1) * UINT64_C(0x9e3779b97f4a7c15) + (uint64_t)nid;
    for (size_t i = 0; i < length; i++) {
        if (i % 8 == 0)
            state = state * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        data[i] = (unsigned char)(state >> (24 + i % 8 * 4));
    }
}

/* Memory of exactly this size, so that a sanitizer sees every byte too far. */
static inline unsigned char *exactly(size_t length)
{
    unsigned char *memory = (unsigned char *)calloc(1, length ? length : 1);
    CHECK(memory);
    return memory;
}

static inline void check_data(const unsigned char *data, size_t length, int from, uint64_t number)
{
    unsigned char *expected = exactly(length);
    fill(expected, length, from, number);
    CHECK(memcmp(data, expected, length) == 0);
    free(expected);
}

/* Sizes at which something changes: lines, the ring, chunks, and around the threshold. */
static const size_t borders[] = {
    RACKMEM_RING_LINES / 4 * RACKMEM_PACKET_BYTES,
    RACKMEM_RING_LINES / 2 * RACKMEM_PACKET_BYTES,
    RACKMEM_RING_LINES * RACKMEM_PACKET_BYTES,
    2 * RACKMEM_RING_LINES * RACKMEM_PACKET_BYTES,
    RACKMEM_PUSH_LINES * RACKMEM_PACKET_BYTES,
    1024,
    4096,
    RACKMEM_PULL_THRESHOLD,
    RACKMEM_STAGE_BYTES,
    2 * RACKMEM_STAGE_BYTES,
    RACKMEM_STAGES * RACKMEM_STAGE_BYTES,
    (RACKMEM_STAGES + 1) * RACKMEM_STAGE_BYTES,
};

enum { SMALL_SIZES = 301, AROUND = 5,
       SIZES = SMALL_SIZES + AROUND * (int)(sizeof borders / sizeof borders[0]) };

/* Sizes 0 to 300, then each border and its neighbours. */
static inline size_t nth_size(int i)
{
    if (i < SMALL_SIZES)
        return (size_t)i;
    i -= SMALL_SIZES;
    return borders[i / AROUND] + (size_t)(i % AROUND) - AROUND / 2;
}

static inline size_t random_size(uint64_t *random)
{
    switch (next_random(random) % 8) {
    case 0:
        return 0;
    case 1:
    case 2:
    case 3:
        return (size_t)(next_random(random) % 57);
    case 4:
        return (size_t)(next_random(random) % 600);
    case 5:
        return (size_t)(next_random(random) % 20000);
    case 6:
        return nth_size((int)(next_random(random) % SIZES));
    default:
        return (size_t)(next_random(random) % 60);
    }
}

#endif
