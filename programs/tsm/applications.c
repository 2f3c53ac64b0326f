/* Kernels with the access patterns of applications of SPEC CPU2000, which may not be passed on: what
 * each does with memory most of the time, and with as little computation around it. */
#include "kernels.h"
#include "node.h"

enum { WORDS = 8 };

/* A few instructions that depend on a value. */
static uint64_t mixed(uint64_t value)
{
    value ^= value >> 29;
    value *= 0xbf58476d1ce4e5b9u;
    return value ^ value >> 32;
}

/* gzip, deflate: every word of the input once, in order; at each line a look at a place in the 32 KB
 * before it, where a match may be, which the cache still has. */
uint64_t run_gzip(const area *a, uint64_t accesses)
{
    enum { HISTORY_LINES = 512 };
    uint64_t sum = 0;
    for (uint64_t i = 0; i < accesses; i++) {
        uint64_t line = i % a->lines;
        for (unsigned word = 0; word < WORDS; word++)
            sum = mixed(sum + a->words[line * WORDS + word]);
        uint64_t back = sum % HISTORY_LINES;
        if (line > back)
            sum += a->words[(line - back) * WORDS];
    }
    return sum;
}

/* gcc: trees and lists whose structures were allocated one after the other; a walk follows them for some
 * dozens and goes on elsewhere. */
uint64_t run_gcc(const area *a, uint64_t accesses)
{
    enum { MOST_IN_A_ROW = 64, LEAST_IN_A_ROW = 16 };
    uint64_t state = 88172645463325252u, sum = 0;
    for (uint64_t i = 0; i < accesses;) {
        uint64_t random = node_random(&state);
        uint64_t line = random % (a->lines - MOST_IN_A_ROW);
        uint64_t row = LEAST_IN_A_ROW + (random >> 40) % (MOST_IN_A_ROW - LEAST_IN_A_ROW);
        for (uint64_t k = 0; k < row && i < accesses; k++, i++) {
            /* The structure says where the next one is. */
            volatile const uint64_t *at = a->words + line * WORDS;
            line += 1 + at[0];
            sum = mixed(sum + at[3]);
        }
    }
    return sum;
}

/* mcf, network simplex: arcs in order, a line each, to find one that pays; its two nodes, which are
 * anywhere in a smaller array, for some of them. */
uint64_t run_mcf(const area *a, uint64_t accesses)
{
    enum { ARCS_PER_LOOK = 4 };
    uint64_t nodes = a->lines / 8, sum = 0;
    const volatile uint64_t *arcs = a->words + nodes * WORDS;
    for (uint64_t i = 0; i < accesses; i++) {
        const volatile uint64_t *arc = arcs + i % (a->lines - nodes) * WORDS;
        /* Its cost, and with it the arc after it. */
        sum = mixed(sum + arc[0] + arc[2]);
        if (i % ARCS_PER_LOOK == 0)
            sum += a->words[mixed(i) % nodes * WORDS];
        arcs += arc[1];
    }
    return sum;
}

/* gap: bags of words that are gone through and copied to the end of the work space. */
uint64_t run_gap(const area *a, uint64_t accesses)
{
    enum { MOST_LINES = 48, LEAST_LINES = 16 };
    uint64_t state = 88172645463325252u, sum = 0, half = a->lines / 2, to = 0;
    for (uint64_t i = 0; i < accesses;) {
        uint64_t random = node_random(&state);
        uint64_t from = random % (half - MOST_LINES);
        uint64_t lines = LEAST_LINES + (random >> 40) % (MOST_LINES - LEAST_LINES);
        for (uint64_t k = 0; k < lines && i < accesses; k++, i += 2) {
            for (unsigned word = 0; word < WORDS; word++) {
                uint64_t value = a->words[(from + k) * WORDS + word];
                a->words[(half + to) * WORDS + word] = value;
                sum += value;
            }
            to = (to + 1) % half;
        }
    }
    return sum;
}
