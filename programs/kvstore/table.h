/*
 * A hash table in one node's segment that other nodes search by remote reads alone, while its
 * owner changes it.
 *
 * An entry is a fixed number of lines, the same for all:
 *
 *     line 0:    version | key | state, length | first 40 bytes of the value
 *     line 1..:  version | next 56 bytes of the value
 *
 * Reasons why a reader never takes a torn value for a whole one:
 *   - The unit of atomicity is the line. The owner writes entries by remote writes to its own
 *     node, so each line changes as a whole with respect to remote reads; plain stores would not.
 *     The lines of one entry may be written, and read, in any order.
 *   - Each put writes all lines of the entry with a version never used before in this table.
 *   - So if all lines that a reader got carry the same version, they are of the same put, and it
 *     got all of them. If not, a put is under way: it reads again.
 * Key and value come with the same versions, hence are of the same put: a slot that was taken
 * over by another key is seen as one or the other. A key never moves: it is written to a free
 * slot, changed in place, erased in place (as a put of the state ERASED).
 *
 * A key may stand in any of TABLE_PROBES slots. A reader tries them in turn and stops at one that
 * never held anything. Since keys do not move, it can miss a key only if that was erased or
 * inserted meanwhile.
 */
#ifndef KVSTORE_TABLE_H
#define KVSTORE_TABLE_H

#include <rackmem.h>
#include <stdbool.h>

enum {
    TABLE_PROBES = 32,
    TABLE_LINE_PAYLOAD = RACKMEM_LINE_BYTES - 8,
    TABLE_FIRST_PAYLOAD = TABLE_LINE_PAYLOAD - 16, /* of line 0, after key, state and length */
    TABLE_MAX_VALUE = 16384
};

typedef struct table {
    uint64_t offset;     /* in the owner's segment */
    uint64_t slots;      /* a power of two */
    uint64_t lines;      /* of an entry */
    uint64_t value_bytes; /* largest */
} table;

typedef enum entry_state {
    ENTRY_NEVER_USED = 0, /* as a segment starts */
    ENTRY_PRESENT = 1,
    ENTRY_ERASED = 2,
    ENTRY_TORN = 3        /* read while it was written */
} entry_state;

/* At most half full, which keeps searches short. */
table table_make(uint64_t offset, uint64_t keys, uint64_t value_bytes);
uint64_t table_bytes(const table *t);
uint64_t table_entry_bytes(const table *t);

/* The slot where a key may stand, for probe 0 .. TABLE_PROBES - 1. */
uint64_t table_slot(const table *t, uint64_t key, unsigned probe);
uint64_t table_slot_offset(const table *t, uint64_t slot);

/* Lays out an entry in `lines`. The version is not 0. */
void table_encode(const table *t, void *lines, uint64_t version, uint64_t key, entry_state state,
                  const void *value, uint32_t length);

/* Takes an entry apart; key, value and length are set if it is PRESENT. */
entry_state table_decode(const table *t, const void *lines, uint64_t *key, void *value,
                         uint32_t *length);

#endif
