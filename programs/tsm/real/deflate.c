/* Blocks of tokens: how many there are, the lengths of the codes, and the tokens by these codes. */
#include "deflate.h"

#include <string.h>

enum { COUNT_BITS = 16, LENGTH_OF_LENGTH = 4, FIRST_LENGTH = 257 };

/* A symbol stands for a range of lengths or distances, within which extra bits tell. */
typedef struct range {
    uint16_t base;
    uint8_t extra;
} range;

static const range lengths_of[LITERALS - FIRST_LENGTH] = {
    {3, 0}, {4, 0}, {5, 0}, {6, 0}, {7, 0}, {8, 0}, {9, 0}, {10, 0}, {11, 1}, {13, 1},
    {15, 1}, {17, 1}, {19, 2}, {23, 2}, {27, 2}, {31, 2}, {35, 3}, {43, 3}, {51, 3}, {59, 3},
    {67, 4}, {83, 4}, {99, 4}, {115, 4}, {131, 5}, {163, 5}, {195, 5}, {227, 5}, {258, 0},
};
static const range distances_of[DISTANCES] = {
    {1, 0}, {2, 0}, {3, 0}, {4, 0}, {5, 1}, {7, 1}, {9, 2}, {13, 2}, {17, 3}, {25, 3},
    {33, 4}, {49, 4}, {65, 5}, {97, 5}, {129, 6}, {193, 6}, {257, 7}, {385, 7}, {513, 8}, {769, 8},
    {1025, 9}, {1537, 9}, {2049, 10}, {3073, 10}, {4097, 11}, {6145, 11}, {8193, 12}, {12289, 12}, {16385, 13},
    {24577, 13},
};

/* The last range that begins at a value or before it. */
static unsigned range_of(const range *ranges, unsigned count, uint32_t value)
{
    unsigned low = 0;
    for (unsigned step = 16; step; step /= 2)
        if (low + step < count && ranges[low + step].base <= value)
            low += step;
    return low;
}

static bool is_match(token t)
{
    return (t & IS_MATCH) != 0;
}

static uint32_t length_of(token t)
{
    return (t & (IS_MATCH - 1)) + LEAST_MATCH;
}

static uint32_t distance_of(token t)
{
    return t >> LENGTH_BITS;
}

static unsigned length_symbol(token t)
{
    return FIRST_LENGTH + range_of(lengths_of, LITERALS - FIRST_LENGTH, length_of(t));
}

static unsigned distance_symbol(token t)
{
    return range_of(distances_of, DISTANCES, distance_of(t));
}

/* ---- Compression ---------------------------------------------------------------------------- */

/* The codes of a block, by symbol. */
typedef struct code_table {
    uint8_t literal_lengths[LITERALS], distance_lengths[DISTANCES];
    uint16_t literals[LITERALS], distances[DISTANCES];
} code_table;

static void make_codes(code_table *c, const token *tokens, unsigned count)
{
    uint32_t literals[LITERALS] = {0}, distances[DISTANCES] = {0};
    for (unsigned i = 0; i < count; i++) {
        literals[is_match(tokens[i]) ? length_symbol(tokens[i]) : tokens[i]]++;
        if (is_match(tokens[i]))
            distances[distance_symbol(tokens[i])]++;
    }
    huffman_lengths(literals, LITERALS, c->literal_lengths);
    huffman_lengths(distances, DISTANCES, c->distance_lengths);
    huffman_codes(c->literal_lengths, LITERALS, c->literals);
    huffman_codes(c->distance_lengths, DISTANCES, c->distances);
}

static void put_match(const code_table *c, token t, bits *out)
{
    unsigned symbol = length_symbol(t), far = distance_symbol(t);
    const range *length = &lengths_of[symbol - FIRST_LENGTH], *distance = &distances_of[far];
    bits_put(out, c->literals[symbol], c->literal_lengths[symbol]);
    bits_put(out, length_of(t) - length->base, length->extra);
    bits_put(out, c->distances[far], c->distance_lengths[far]);
    bits_put(out, distance_of(t) - distance->base, distance->extra);
}

static void put_block(const token *tokens, unsigned count, bits *out)
{
    code_table c;
    make_codes(&c, tokens, count);
    bits_put(out, count, COUNT_BITS);
    for (unsigned symbol = 0; symbol < LITERALS; symbol++)
        bits_put(out, c.literal_lengths[symbol], LENGTH_OF_LENGTH);
    for (unsigned symbol = 0; symbol < DISTANCES; symbol++)
        bits_put(out, c.distance_lengths[symbol], LENGTH_OF_LENGTH);
    for (unsigned i = 0; i < count; i++) {
        if (is_match(tokens[i]))
            put_match(&c, tokens[i], out);
        else
            bits_put(out, c.literals[tokens[i]], c.literal_lengths[tokens[i]]);
    }
}

uint64_t deflate_compress(deflate_memory *m, const unsigned char *from, uint64_t count, unsigned char *to,
                          uint64_t room)
{
    bits out = {.at = to, .end = to + room};
    memset(m->chains.head, 0, sizeof m->chains.head);
    for (uint64_t at = 0; at < count;) {
        unsigned tokens = find_matches(&m->chains, from, count, &at, m->tokens);
        put_block(m->tokens, tokens, &out);
    }
    /* A block without tokens is the end. */
    bits_put(&out, 0, COUNT_BITS);
    bits_flush(&out);
    return out.failed ? 0 : (uint64_t)(out.at - to);
}

/* ---- And back ------------------------------------------------------------------------------- */

typedef struct output {
    unsigned char *begin, *at, *end;
} output;

static uint32_t get_in_range(const range *ranges, unsigned count, unsigned symbol, bits *in)
{
    in->failed |= symbol >= count;
    return in->failed ? 0 : ranges[symbol].base + bits_get(in, ranges[symbol].extra);
}

static void get_match(const huffman_reader *distances, unsigned symbol, bits *in, output *out)
{
    uint64_t length = get_in_range(lengths_of, LITERALS - FIRST_LENGTH, symbol - FIRST_LENGTH, in);
    uint64_t distance = get_in_range(distances_of, DISTANCES, huffman_get(distances, in), in);
    in->failed |= distance > (uint64_t)(out->at - out->begin) || length > (uint64_t)(out->end - out->at);
    if (in->failed)
        return;
    for (const unsigned char *from = out->at - distance; length; length--)
        *out->at++ = *from++;
}

static void get_token(const huffman_reader *literals, const huffman_reader *distances, bits *in, output *out)
{
    unsigned symbol = huffman_get(literals, in);
    if (symbol >= FIRST_LENGTH)
        get_match(distances, symbol, in, out);
    else if (symbol > UINT8_MAX || out->at == out->end)
        in->failed = true;
    else
        *out->at++ = (unsigned char)symbol;
}

static bool get_codes(huffman_reader *r, unsigned symbols, bits *in)
{
    uint8_t lengths[LITERALS];
    for (unsigned symbol = 0; symbol < symbols; symbol++)
        lengths[symbol] = (uint8_t)bits_get(in, LENGTH_OF_LENGTH);
    return huffman_prepare(r, lengths, symbols);
}

uint64_t deflate_expand(unsigned char *from, uint64_t count, unsigned char *to, uint64_t room)
{
    bits in = {.at = from, .end = from + count};
    output out = {to, to, to + room};
    huffman_reader literals, distances;
    for (uint32_t tokens; !in.failed && (tokens = bits_get(&in, COUNT_BITS)) != 0;) {
        if (!get_codes(&literals, LITERALS, &in) || !get_codes(&distances, DISTANCES, &in))
            return 0;
        for (; tokens && !in.failed; tokens--)
            get_token(&literals, &distances, &in, &out);
    }
    return in.failed ? 0 : (uint64_t)(out.at - to);
}
