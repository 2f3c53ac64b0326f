/*
 * The items of a cache: a hash table, and a list in the order of their use. Where an item would exceed the limit of
 * memory, those that were used longest ago go first.
 *
 * The limit is one of items and their table, and for values of about one size: the slot of an item that is gone serves
 * items of its size alone (slots.h), so with values of many sizes the process takes more than that of its system.
 */
#ifndef DEOI_CACHE_STORE_H
#define DEOI_CACHE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "slots.h"

enum { STORE_MOST_BYTES = SLOTS_MOST_BYTES - 64 /* of a key and its value */ };

typedef struct item {
    struct item *next;          /* of its bucket */
    struct item *newer, *older; /* in the order of use */
    uint32_t hash, key_bytes, value_bytes, unused;
    char bytes[]; /* the key, then the value */
} item;

typedef struct store {
    item **buckets;
    size_t bucket_count; /* a power of two */
    size_t items;
    uint64_t used_bytes; /* slots of items, and buckets */
    uint64_t most_bytes; /* 0: no limit */
    uint64_t evicted;
    item *newest, *oldest;
    slots slots;
} store;

typedef enum store_result { STORE_DONE, STORE_TOO_LARGE, STORE_NO_MEMORY } store_result;

/* An empty one; false if there is no memory. */
bool store_make(store *s);

/* Sets the limit; items that are above it go. The table stays: a limit below it leaves no item. */
void store_limit(store *s, uint64_t most_bytes);

/* The item of a key, which is the one used last from now on; NULL. */
const item *store_get(store *s, const char *key, size_t key_bytes);

/* Keeps a value in place of the key's old one. STORE_TOO_LARGE: it exceeds STORE_MOST_BYTES, or the limit by itself;
 * the old value stays. STORE_NO_MEMORY: the old value is gone, too. */
store_result store_set(store *s, const char *key, size_t key_bytes, const char *value, size_t value_bytes);

/* Whether the key had an item. */
bool store_delete(store *s, const char *key, size_t key_bytes);

#endif
