#define _DEFAULT_SOURCE
#include "slots.h"

#include <sys/mman.h>

/* A block is a multiple of this: as little as the system should be asked for at once. */
enum { BLOCK_BYTES = 64 << 10, LEAST_BYTES = 64, STEPS = 4 /* between two powers of two */ };

/* The number of the slot's size, and the size. */
static size_t class_of(size_t bytes, size_t *size)
{
    size_t power = LEAST_BYTES, number = 0;
    while (2 * power < bytes) {
        power *= 2;
        number += STEPS;
    }
    size_t step = power / STEPS, steps = bytes > power ? (bytes - power + step - 1) / step : 0;
    *size = power + steps * step;
    return number + steps;
}

size_t slots_size(size_t bytes)
{
    size_t size;
    class_of(bytes, &size);
    return size;
}

void *slots_take(slots *s, size_t bytes)
{
    size_t size, number = class_of(bytes, &size);
    void *slot = s->free[number];
    if (slot != NULL) {
        s->free[number] = *(void **)slot;
        return slot;
    }
    if (s->fresh_bytes[number] < size) {
        size_t block = (size + BLOCK_BYTES - 1) / BLOCK_BYTES * BLOCK_BYTES;
        char *fresh = mmap(NULL, block, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (fresh == MAP_FAILED)
            return NULL;
        s->fresh[number] = fresh;
        s->fresh_bytes[number] = block;
    }
    slot = s->fresh[number];
    s->fresh[number] += size;
    s->fresh_bytes[number] -= size;
    return slot;
}

void slots_give(slots *s, void *slot, size_t bytes)
{
    size_t size, number = class_of(bytes, &size);
    *(void **)slot = s->free[number];
    s->free[number] = slot;
}
