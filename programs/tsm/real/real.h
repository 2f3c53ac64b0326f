/* Applications that do real work on the memory that they are given, and check their own results. */
#ifndef TSM_REAL_H
#define TSM_REAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { ARENA_LINE = 64 };

/* Memory that is handed out from its beginning. */
typedef struct arena {
    unsigned char *at;
    uint64_t left;
} arena;

/* So many bytes at the beginning of a line. NULL: not as much is left, and from then on nothing is. */
static inline void *arena_take(arena *a, uint64_t bytes)
{
    bytes = (bytes + ARENA_LINE - 1) / ARENA_LINE * ARENA_LINE;
    if (a->left < bytes) {
        a->left = 0;
        return NULL;
    }
    void *taken = a->at;
    a->at += bytes;
    a->left -= bytes;
    return taken;
}

/* What a run has found; the same on every machine. */
typedef struct result {
    uint64_t number; /* bytes after compression, records in order, or solutions */
    uint32_t check;  /* a hash of all that was made */
} result;

/* An application has one instance: `prepare` makes its input of so many bytes, which is not timed, `work` works on
 * that, and `is_right` checks what has come out. */
typedef struct application {
    const char *name;
    uint64_t (*memory)(uint64_t bytes); /* bytes that it takes from the arena */
    bool (*prepare)(arena *a, uint64_t bytes);
    void (*work)(void);
    bool (*is_right)(result *found);
} application;

extern const application compressor, sorter, interpreter;

/* FNV-1a, continued with so many bytes. */
enum { HASH_BEGIN = 0x11c9dc5 };
static inline uint32_t hash_bytes(uint32_t hash, const void *bytes, uint64_t count)
{
    const unsigned char *at = bytes;
    for (uint64_t i = 0; i < count; i++)
        hash = (hash ^ at[i]) * 0x01000193u;
    return hash;
}

#endif
