/* An application: compresses a text, and expands it again. */
#include <string.h>

#include "../node.h"
#include "deflate.h"
#include "real.h"

static struct {
    unsigned char *text, *packed, *again;
    deflate_memory *memory;
    uint64_t bytes, packed_bytes, again_bytes;
} c;

/* Words of a made-up language, of which the first ones are used most. */
enum { WORDS = 1024, MOST_LETTERS = 11 };

static void write_text(unsigned char *text, uint64_t bytes)
{
    static char words[WORDS][MOST_LETTERS + 1];
    static const char letters[] = "eeeeeetttttaaaaooooiiinnnssshhrrddlluucmwfgypbvk";
    uint64_t state = 88172645463325252u;
    for (unsigned word = 0; word < WORDS; word++) {
        uint64_t length = 1 + node_random(&state) % (word < 32 ? 3 : MOST_LETTERS);
        for (uint64_t i = 0; i < length; i++)
            words[word][i] = letters[node_random(&state) % (sizeof letters - 1)];
        words[word][length] = 0;
    }
    for (uint64_t at = 0; at < bytes;) {
        uint64_t random = node_random(&state);
        const char *word = words[(random % WORDS) * (random >> 20 & 1023) * (random >> 40 & 1023) >> 20];
        while (*word && at < bytes)
            text[at++] = (unsigned char)*word++;
        if (at < bytes)
            text[at++] = (random >> 60) == 0 ? '\n' : ' ';
    }
}

/* What cannot be compressed becomes longer by less than this. */
static uint64_t room_for(uint64_t bytes)
{
    return bytes + bytes / 8 + 1024;
}

static uint64_t memory(uint64_t bytes)
{
    return 2 * bytes + room_for(bytes) + sizeof(deflate_memory) + 4 * ARENA_LINE;
}

static bool prepare(arena *a, uint64_t bytes)
{
    c.bytes = bytes;
    c.text = arena_take(a, bytes);
    c.packed = arena_take(a, room_for(bytes));
    c.again = arena_take(a, bytes);
    c.memory = arena_take(a, sizeof *c.memory);
    if (!c.memory)
        return false;
    write_text(c.text, bytes);
    return true;
}

static void work(void)
{
    c.packed_bytes = deflate_compress(c.memory, c.text, c.bytes, c.packed, room_for(c.bytes));
    c.again_bytes = deflate_expand(c.packed, c.packed_bytes, c.again, c.bytes);
}

static bool is_right(result *found)
{
    found->number = c.packed_bytes;
    found->check = hash_bytes(HASH_BEGIN, c.packed, c.packed_bytes);
    return c.again_bytes == c.bytes && memcmp(c.text, c.again, c.bytes) == 0;
}

const application compressor = {"compress", memory, prepare, work, is_right};
