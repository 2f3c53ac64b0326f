/* Finds what was there before, in the last 32 KB: positions with the same hash of three bytes are in a chain. */
#include "deflate.h"

enum { MOST_STEPS = 16, GOOD_ENOUGH = 32 };

static uint32_t hash_of(const unsigned char *at)
{
    uint32_t three = (uint32_t)at[0] | (uint32_t)at[1] << 8 | (uint32_t)at[2] << 16;
    return three * 0x9e3779b1u >> 19;
}

static void enter(chains *c, const unsigned char *bytes, uint64_t at)
{
    uint32_t *head = &c->head[hash_of(bytes + at)];
    c->before[at % WINDOW_BYTES] = *head;
    *head = (uint32_t)at + 1;
}

static unsigned same_bytes(const unsigned char *one, const unsigned char *other, unsigned most)
{
    unsigned same = 0;
    while (same < most && one[same] == other[same])
        same++;
    return same;
}

/* The longest of the first few matches of a chain, and its distance. */
static unsigned longest(const chains *c, const unsigned char *bytes, uint64_t at, unsigned most, uint32_t *distance)
{
    unsigned best = 0;
    uint64_t candidate = c->head[hash_of(bytes + at)];
    for (unsigned step = 0; step < MOST_STEPS && candidate != 0 && best < GOOD_ENOUGH; step++) {
        uint64_t from = candidate - 1;
        if (at - from >= WINDOW_BYTES)
            break;
        unsigned same = same_bytes(bytes + from, bytes + at, most);
        if (same > best) {
            best = same;
            *distance = (uint32_t)(at - from);
        }
        candidate = c->before[from % WINDOW_BYTES];
    }
    return best;
}

unsigned find_matches(chains *c, const unsigned char *bytes, uint64_t count, uint64_t *at, token *tokens)
{
    unsigned made = 0;
    while (*at < count && made < BLOCK_TOKENS) {
        uint64_t left = count - *at;
        uint32_t distance = 0;
        unsigned most = left < MOST_MATCH ? (unsigned)left : MOST_MATCH;
        unsigned length = most < LEAST_MATCH ? 0 : longest(c, bytes, *at, most, &distance);
        bool is_match = length >= LEAST_MATCH;
        tokens[made++] = is_match ? distance << LENGTH_BITS | IS_MATCH | (length - LEAST_MATCH) : bytes[*at];
        for (uint64_t end = *at + (is_match ? length : 1); *at < end; ++*at)
            if (count - *at >= LEAST_MATCH)
                enter(c, bytes, *at);
    }
    return made;
}
