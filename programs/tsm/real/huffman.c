/* Canonical Huffman codes of at most 15 bits, and streams of bits. */
#include <stdlib.h>
#include <string.h>

#include "deflate.h"

/* A node of the tree: leaves are sorted by count, and nodes are made in the order of theirs. */
typedef struct node {
    uint32_t count;
    uint16_t symbol;
    uint16_t parent;
} node;

static int by_count(const void *left, const void *right)
{
    const node *a = left, *b = right;
    if (a->count != b->count)
        return a->count < b->count ? -1 : 1;
    return (int)a->symbol - (int)b->symbol;
}

/* Joins the two nodes with the least counts until one is left. Both leaves and inner nodes stand in order, so that the
 * least is the next of either. */
static unsigned join(node *nodes, unsigned leaves)
{
    unsigned leaf = 0, inner = leaves, made = leaves;
    for (; made < 2 * leaves - 1; made++) {
        nodes[made].count = 0;
        for (unsigned child = 0; child < 2; child++) {
            bool is_leaf = leaf < leaves && (inner == made || nodes[leaf].count <= nodes[inner].count);
            node *least = &nodes[is_leaf ? leaf++ : inner++];
            nodes[made].count += least->count;
            least->parent = (uint16_t)made;
        }
    }
    return made;
}

/* Depths of leaves; false if one is too deep. */
static bool measure(const node *nodes, unsigned leaves, unsigned all, uint8_t *lengths)
{
    uint8_t depth[2 * LITERALS];
    depth[all - 1] = 0;
    for (unsigned i = all - 1; i-- > 0;) {
        depth[i] = (uint8_t)(depth[nodes[i].parent] + 1);
        if (depth[i] > MOST_BITS)
            return false;
        if (i < leaves)
            lengths[nodes[i].symbol] = depth[i];
    }
    return true;
}

/* A count that is not 0 stays so. */
static uint32_t halved(uint32_t count, unsigned times)
{
    return count >> times ? count >> times : 1;
}

void huffman_lengths(const uint32_t *counts, unsigned symbols, uint8_t *lengths)
{
    node nodes[2 * LITERALS];
    /* Counts that are more alike make a flatter tree. */
    for (unsigned shift = 0;; shift++) {
        unsigned leaves = 0;
        memset(lengths, 0, symbols);
        for (unsigned symbol = 0; symbol < symbols; symbol++)
            if (counts[symbol])
                nodes[leaves++] = (node){halved(counts[symbol], shift), (uint16_t)symbol, 0};
        if (leaves == 1)
            lengths[nodes[0].symbol] = 1;
        if (leaves < 2)
            return;
        qsort(nodes, leaves, sizeof *nodes, by_count);
        if (measure(nodes, leaves, join(nodes, leaves), lengths))
            return;
    }
}

/* The first code of each length. */
static void first_codes(const uint16_t *of_length, uint32_t *first)
{
    first[0] = 0;
    for (unsigned length = 1; length <= MOST_BITS; length++)
        first[length] = (first[length - 1] + (length > 1 ? of_length[length - 1] : 0)) << 1;
}

void huffman_codes(const uint8_t *lengths, unsigned symbols, uint16_t *codes)
{
    uint16_t of_length[MOST_BITS + 1] = {0};
    uint32_t next[MOST_BITS + 1];
    for (unsigned symbol = 0; symbol < symbols; symbol++)
        of_length[lengths[symbol]]++;
    first_codes(of_length, next);
    for (unsigned symbol = 0; symbol < symbols; symbol++) {
        uint32_t code = next[lengths[symbol]]++, turned = 0;
        for (unsigned bit = 0; bit < lengths[symbol]; bit++)
            turned |= (code >> bit & 1) << (lengths[symbol] - 1 - bit);
        codes[symbol] = (uint16_t)turned;
    }
}

bool huffman_prepare(huffman_reader *r, const uint8_t *lengths, unsigned symbols)
{
    unsigned place[MOST_BITS + 1] = {0}, all = 0;
    uint32_t taken = 0;
    memset(r, 0, sizeof *r);
    for (unsigned symbol = 0; symbol < symbols; symbol++)
        r->of_length[lengths[symbol]]++;
    r->of_length[0] = 0;
    for (unsigned length = 1; length <= MOST_BITS; length++) {
        place[length] = all;
        all += r->of_length[length];
        taken += (uint32_t)r->of_length[length] << (MOST_BITS - length);
    }
    for (unsigned symbol = 0; symbol < symbols; symbol++)
        if (lengths[symbol])
            r->symbols[place[lengths[symbol]]++] = (uint16_t)symbol;
    return taken <= 1u << MOST_BITS;
}

void bits_put(bits *b, uint32_t value, unsigned count)
{
    b->held |= (uint64_t)value << b->count;
    for (b->count += count; b->count >= 8; b->count -= 8, b->held >>= 8) {
        if (b->at == b->end)
            b->failed = true;
        else
            *b->at++ = (unsigned char)b->held;
    }
}

void bits_flush(bits *b)
{
    if (b->count)
        bits_put(b, 0, 8 - b->count);
}

uint32_t bits_get(bits *b, unsigned count)
{
    for (; b->count < count; b->count += 8) {
        b->failed |= b->at == b->end;
        b->held |= (uint64_t)(b->at == b->end ? 0 : *b->at++) << b->count;
    }
    uint32_t value = (uint32_t)(b->held & ((1ull << count) - 1));
    b->held >>= count;
    b->count -= count;
    return value;
}

unsigned huffman_get(const huffman_reader *r, bits *b)
{
    uint32_t code = 0, first = 0, index = 0;
    for (unsigned length = 1; length <= MOST_BITS; length++) {
        code |= bits_get(b, 1);
        uint32_t codes = r->of_length[length];
        if (code - first < codes)
            return r->symbols[index + code - first];
        index += codes;
        first = (first + codes) << 1;
        code <<= 1;
    }
    b->failed = true;
    return 0;
}
