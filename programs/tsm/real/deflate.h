/* Compression in the manner of deflate: matches found by hash chains in the last 32 KB, and Huffman codes for each
 * block of tokens. The format is its own; alphabets and extra bits are those of RFC 1951. */
#ifndef TSM_DEFLATE_H
#define TSM_DEFLATE_H

#include <stdbool.h>
#include <stdint.h>

enum {
    WINDOW_BYTES = 1 << 15,
    HASH_HEADS = 1 << 13,
    LEAST_MATCH = 3,
    MOST_MATCH = 258,
    BLOCK_TOKENS = 1 << 13,
    LITERALS = 286, /* bytes, an end that is not used, and lengths */
    DISTANCES = 30,
    MOST_BITS = 15 /* of a code */
};

/* A literal, or a match: its length, and its distance above LENGTH_BITS. */
typedef uint32_t token;
enum { LENGTH_BITS = 9, IS_MATCH = 1 << 8 };

/* Where the matcher looks for what it has seen: the latest position of each hash plus 1, and for each position the one
 * before it. */
typedef struct chains {
    uint32_t head[HASH_HEADS];
    uint32_t before[WINDOW_BYTES];
} chains;

/* Turns bytes from `*at` on into up to BLOCK_TOKENS tokens, and moves `*at`. Returns how many. */
unsigned find_matches(chains *c, const unsigned char *bytes, uint64_t count, uint64_t *at, token *tokens);

/* ---- Huffman codes -------------------------------------------------------------------------- */

/* The length of each symbol's code, at most MOST_BITS; 0 for those that do not occur. */
void huffman_lengths(const uint32_t *counts, unsigned symbols, uint8_t *lengths);

/* The code of each symbol, its first bit lowest. */
void huffman_codes(const uint8_t *lengths, unsigned symbols, uint16_t *codes);

/* A table for reading codes: symbols in the order of their codes, and how many have each length. */
typedef struct huffman_reader {
    uint16_t of_length[MOST_BITS + 1];
    uint16_t symbols[LITERALS];
} huffman_reader;

/* False if there are more codes than their lengths have room for. */
bool huffman_prepare(huffman_reader *r, const uint8_t *lengths, unsigned symbols);

/* ---- Bits ----------------------------------------------------------------------------------- */

typedef struct bits {
    unsigned char *at, *end;
    uint64_t held;
    unsigned count;
    bool failed; /* the end was reached before its time */
} bits;

/* At most 32 at a time. */
void bits_put(bits *b, uint32_t value, unsigned count);
uint32_t bits_get(bits *b, unsigned count);

/* Writes out the bits that wait for the rest of a byte. */
void bits_flush(bits *b);

/* The symbol that is next; 0 after a failure. */
unsigned huffman_get(const huffman_reader *r, bits *b);

/* ---- The whole ------------------------------------------------------------------------------ */

/* Memory besides that of input and output. */
typedef struct deflate_memory {
    chains chains;
    token tokens[BLOCK_TOKENS];
} deflate_memory;

/* Returns the bytes of the output; 0: it has no room. */
uint64_t deflate_compress(deflate_memory *m, const unsigned char *from, uint64_t count, unsigned char *to,
                          uint64_t room);

/* Returns the bytes of the output; 0: `from` is nothing that was compressed, or the output has no room. */
uint64_t deflate_expand(unsigned char *from, uint64_t count, unsigned char *to, uint64_t room);

#endif
