/* The common part of these programs: borrow memory, tell the time, print figures. Node 0 works;
 * the others have nothing to do but lend, and end at once where they are not asked for. */
#ifndef TSM_NODE_H
#define TSM_NODE_H

#include <stdbool.h>
#include <stdint.h>
#include <window.h>

#include "../options.h"

enum { LINE_BYTES = 64 };

/* The memory that this node borrows, or lends; NULL, and an error on stderr. */
void *node_borrow(const char *program, uint64_t bytes);
void *node_lent(const char *program, uint64_t bytes);

/* So many bytes of the node's own, in pages of their own; NULL, and an error on stderr. */
void *node_own(const char *program, uint64_t bytes);

/* Nanoseconds since the machine was switched on: all nodes have the same time. */
uint64_t node_ns(void);

/* A pseudo-random number. */
static inline uint64_t node_random(uint64_t *state)
{
    *state ^= *state << 13;
    *state ^= *state >> 7;
    *state ^= *state << 17;
    return *state;
}

#endif
