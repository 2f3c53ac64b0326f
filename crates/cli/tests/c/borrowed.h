/* The common part of these tests' programs. */

#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>

#define PAGE 4096ul
#define MIB (1ul << 20)

/* Ends the program unless something holds. */
#define CHECK(condition)                                                                       \
    do {                                                                                       \
        if (!(condition)) {                                                                    \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);            \
            _Exit(3);                                                                          \
        }                                                                                      \
    } while (0)

static inline uint64_t next_random(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* Each page of memory is told from all others by its seed. */
static inline void fill(void *memory, size_t bytes, uint64_t seed)
{
    uint64_t *words = memory;
    for (size_t i = 0; i < bytes / 8; i++)
        words[i] = (seed + i) * 0x9e3779b97f4a7c15u;
}

static inline int is_filled(const void *memory, size_t bytes, uint64_t seed)
{
    const uint64_t *words = memory;
    for (size_t i = 0; i < bytes / 8; i++)
        if (words[i] != (seed + i) * 0x9e3779b97f4a7c15u)
            return 0;
    return 1;
}

static inline int is_zero(const void *memory, size_t bytes)
{
    const uint64_t *words = memory;
    for (size_t i = 0; i < bytes / 8; i++)
        if (words[i])
            return 0;
    return 1;
}

static inline void *map(size_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    return memory;
}

/* Sends everything else away: local memory is 4 MiB in these tests. */
static inline void push_out(void)
{
    char *memory = map(12 * MIB);
    fill(memory, 12 * MIB, 77);
    CHECK(is_filled(memory, 12 * MIB, 77));
    CHECK(munmap(memory, 12 * MIB) == 0);
}
