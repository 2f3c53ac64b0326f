#include "store.h"

#include <stdlib.h>
#include <string.h>

enum { FIRST_BUCKETS = 16 };

/* FNV-1a, and a shift that brings the upper bits to the lower ones. */
static uint32_t hash_of(const char *key, size_t key_bytes)
{
    uint32_t hash = 2166136261u;
    for (size_t i = 0; i < key_bytes; i++)
        hash = (hash ^ (unsigned char)key[i]) * 16777619u;
    return hash ^ hash >> 15;
}

static size_t size_of(size_t key_bytes, size_t value_bytes)
{
    return slots_size(sizeof(item) + key_bytes + value_bytes);
}

static item **bucket_of(const store *s, uint32_t hash)
{
    return &s->buckets[hash & (s->bucket_count - 1)];
}

bool store_make(store *s)
{
    *s = (store){.buckets = calloc(FIRST_BUCKETS, sizeof(item *)), .bucket_count = FIRST_BUCKETS};
    s->used_bytes = FIRST_BUCKETS * sizeof(item *);
    return s->buckets != NULL;
}

static void unlink_use(store *s, item *i)
{
    *(i->newer ? &i->newer->older : &s->newest) = i->older;
    *(i->older ? &i->older->newer : &s->oldest) = i->newer;
}

static void use(store *s, item *i)
{
    i->newer = NULL;
    i->older = s->newest;
    *(s->newest ? &s->newest->newer : &s->oldest) = i;
    s->newest = i;
}

/* The link that leads to the item of a key, or the one at the end of its bucket. */
static item **find(const store *s, uint32_t hash, const char *key, size_t key_bytes)
{
    item **link = bucket_of(s, hash);
    while (*link != NULL && ((*link)->hash != hash || (*link)->key_bytes != key_bytes ||
                             memcmp((*link)->bytes, key, key_bytes) != 0))
        link = &(*link)->next;
    return link;
}

static void drop(store *s, item **link)
{
    item *i = *link;
    *link = i->next;
    unlink_use(s, i);
    s->items--;
    s->used_bytes -= size_of(i->key_bytes, i->value_bytes);
    slots_give(&s->slots, i, sizeof *i + i->key_bytes + i->value_bytes);
}

/* Whether an item of so many bytes keeps within the limit if it is alone with a table. */
static bool fits(const store *s, uint64_t bytes, size_t bucket_count)
{
    return s->most_bytes == 0 || bytes + bucket_count * sizeof(item *) <= s->most_bytes;
}

/* Drops items until there is room for so many bytes more. */
static void make_room(store *s, uint64_t bytes)
{
    while (s->most_bytes != 0 && s->oldest != NULL && s->used_bytes + bytes > s->most_bytes) {
        item **link = bucket_of(s, s->oldest->hash);
        while (*link != s->oldest)
            link = &(*link)->next;
        drop(s, link);
        s->evicted++;
    }
}

/* Twice as many buckets. Without memory for them the old ones have longer chains. */
static void grow(store *s)
{
    item **buckets = calloc(2 * s->bucket_count, sizeof(item *));
    if (buckets == NULL)
        return;
    free(s->buckets);
    s->used_bytes += s->bucket_count * sizeof(item *);
    s->bucket_count *= 2;
    s->buckets = buckets;
    for (item *i = s->newest; i != NULL; i = i->older) {
        item **bucket = bucket_of(s, i->hash);
        i->next = *bucket;
        *bucket = i;
    }
}

void store_limit(store *s, uint64_t most_bytes)
{
    s->most_bytes = most_bytes;
    make_room(s, 0);
}

const item *store_get(store *s, const char *key, size_t key_bytes)
{
    item *i = *find(s, hash_of(key, key_bytes), key, key_bytes);
    if (i != NULL && i != s->newest) {
        unlink_use(s, i);
        use(s, i);
    }
    return i;
}

store_result store_set(store *s, const char *key, size_t key_bytes, const char *value, size_t value_bytes)
{
    if (key_bytes + value_bytes > STORE_MOST_BYTES)
        return STORE_TOO_LARGE;
    size_t bytes = size_of(key_bytes, value_bytes);
    if (!fits(s, bytes, s->bucket_count))
        return STORE_TOO_LARGE;
    uint32_t hash = hash_of(key, key_bytes);
    store_delete(s, key, key_bytes);
    if (s->items >= s->bucket_count && fits(s, bytes, 2 * s->bucket_count))
        grow(s);
    make_room(s, bytes);
    item *i = slots_take(&s->slots, sizeof *i + key_bytes + value_bytes);
    if (i == NULL)
        return STORE_NO_MEMORY;
    item **bucket = bucket_of(s, hash);
    i->next = *bucket;
    *bucket = i;
    i->hash = hash;
    i->key_bytes = (uint32_t)key_bytes;
    i->value_bytes = (uint32_t)value_bytes;
    memcpy(i->bytes, key, key_bytes);
    memcpy(i->bytes + key_bytes, value, value_bytes);
    use(s, i);
    s->items++;
    s->used_bytes += bytes;
    return STORE_DONE;
}

bool store_delete(store *s, const char *key, size_t key_bytes)
{
    item **link = find(s, hash_of(key, key_bytes), key, key_bytes);
    if (*link == NULL)
        return false;
    drop(s, link);
    return true;
}
