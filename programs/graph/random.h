/* SplitMix64: small, fast, and the same numbers on every machine. */
#ifndef GRAPH_RANDOM_H
#define GRAPH_RANDOM_H

#include <stdint.h>

/* Scatters the bits of x; a bijection, so different inputs stay different. */
static inline uint64_t random_mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static inline uint64_t random_next(uint64_t *state)
{
    *state += UINT64_C(0x9e3779b97f4a7c15);
    return random_mix(*state);
}

/* A number below `bound`, which is not 0. */
static inline uint32_t random_below(uint64_t *state, uint32_t bound)
{
    return (uint32_t)((random_next(state) >> 32) * bound >> 32);
}

#endif
