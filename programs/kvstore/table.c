#include "table.h"

#include <string.h>

/* The start of line 0. */
typedef struct entry_head {
    uint64_t version;
    uint64_t key;
    uint32_t state;
    uint32_t length;
} entry_head;

RACKMEM_STATIC_ASSERT(sizeof(entry_head) + TABLE_FIRST_PAYLOAD == RACKMEM_LINE_BYTES, "one line");

table table_make(uint64_t offset, uint64_t keys, uint64_t value_bytes)
{
    table t = {.offset = offset, .slots = 64, .lines = 1, .value_bytes = value_bytes};
    while (t.slots < 2 * keys)
        t.slots *= 2;
    while (t.lines * TABLE_LINE_PAYLOAD - 16 < value_bytes)
        t.lines++;
    return t;
}

uint64_t table_entry_bytes(const table *t)
{
    return t->lines * RACKMEM_LINE_BYTES;
}

uint64_t table_bytes(const table *t)
{
    return t->slots * table_entry_bytes(t);
}

/* Double hashing: the odd step visits different slots each time. */
uint64_t table_slot(const table *t, uint64_t key, unsigned probe)
{
    uint64_t hash = (key ^ key >> 32) * UINT64_C(0x9e3779b97f4a7c15);
    hash = (hash ^ hash >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
    uint64_t step = hash >> 40 | 1;
    return ((hash ^ hash >> 32) + probe * step) & (t->slots - 1);
}

uint64_t table_slot_offset(const table *t, uint64_t slot)
{
    return t->offset + slot * table_entry_bytes(t);
}

void table_encode(const table *t, void *lines, uint64_t version, uint64_t key, entry_state state,
                  const void *value, uint32_t length)
{
    entry_head head = {.version = version, .key = key, .state = state, .length = length};
    unsigned char *line = lines;
    const unsigned char *from = value;
    uint32_t part = length < TABLE_FIRST_PAYLOAD ? length : TABLE_FIRST_PAYLOAD;
    memcpy(line, &head, sizeof head);
    if (part > 0)
        memcpy(line + sizeof head, from, part);
    for (uint64_t i = 1; i < t->lines; i++) {
        line += RACKMEM_LINE_BYTES;
        from += part;
        length -= part;
        part = length < TABLE_LINE_PAYLOAD ? length : TABLE_LINE_PAYLOAD;
        memcpy(line, &version, sizeof version);
        if (part > 0)
            memcpy(line + sizeof version, from, part);
    }
}

entry_state table_decode(const table *t, const void *lines, uint64_t *key, void *value,
                         uint32_t *length)
{
    entry_head head;
    const unsigned char *line = lines;
    unsigned char *to = value;
    memcpy(&head, line, sizeof head);
    for (uint64_t i = 1; i < t->lines; i++)
        if (memcmp(line + i * RACKMEM_LINE_BYTES, &head.version, sizeof head.version) != 0)
            return ENTRY_TORN;
    if (head.state != ENTRY_PRESENT)
        return (entry_state)head.state;
    if (head.length > t->value_bytes)
        return ENTRY_TORN; /* not an entry at all */

    /* One put's lines: everything below belongs together. */
    *key = head.key;
    *length = head.length;
    uint32_t left = head.length;
    uint32_t part = left < TABLE_FIRST_PAYLOAD ? left : TABLE_FIRST_PAYLOAD;
    memcpy(to, line + sizeof head, part);
    while ((left -= part) > 0) {
        to += part;
        line += RACKMEM_LINE_BYTES;
        part = left < TABLE_LINE_PAYLOAD ? left : TABLE_LINE_PAYLOAD;
        memcpy(to, line + sizeof head.version, part);
    }
    return ENTRY_PRESENT;
}
