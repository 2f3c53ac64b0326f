/*
 * Memory for items, in slots of few sizes: four between two powers of two, as Redis' allocator (jemalloc) has them.
 * What is given back is for items of that size alone, so the system gets no memory back.
 */
#ifndef DEOI_CACHE_SLOTS_H
#define DEOI_CACHE_SLOTS_H

#include <stddef.h>

enum { SLOTS_SIZES = 64, SLOTS_MOST_BYTES = 2 << 20 };

typedef struct slots {
    void *free[SLOTS_SIZES];             /* each leads to the next one */
    char *fresh[SLOTS_SIZES];            /* the rest of the newest block */
    size_t fresh_bytes[SLOTS_SIZES];
} slots;

/* The size of the slot for so many bytes, at most SLOTS_MOST_BYTES. */
size_t slots_size(size_t bytes);

/* A slot; NULL if the system has no memory. */
void *slots_take(slots *s, size_t bytes);
void slots_give(slots *s, void *slot, size_t bytes);

#endif
