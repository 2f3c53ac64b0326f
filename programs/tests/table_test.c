/* The entries of kvstore: round trips, and no mixture of two puts is ever taken for a value. */
#include <string.h>

#include "../kvstore/table.h"
#include "check.h"

enum { MOST_LINES = 8 };

static void fill(unsigned char *value, uint32_t length, unsigned seed)
{
    for (uint32_t i = 0; i < length; i++)
        value[i] = (unsigned char)(seed + i * 3);
}

static void test_round_trips(void)
{
    unsigned char lines[MOST_LINES * 64 + 1], value[400], got[400];
    for (uint32_t largest = 8; largest <= 400; largest++) {
        table t = table_make(128, 100, largest);
        CHECK(t.lines <= MOST_LINES && t.slots >= 200 && t.lines * 56 - 16 >= largest);
        CHECK(t.lines == 1 || (t.lines - 1) * 56 - 16 < largest);
        const uint32_t lengths[] = {0, 1, largest / 2, largest};
        for (unsigned i = 0; i < 4; i++) {
            uint64_t key = 0;
            uint32_t length = lengths[i], got_length = 9999;
            memset(lines, 0xee, sizeof lines);
            fill(value, length, largest);
            table_encode(&t, lines, 77, 1234567, ENTRY_PRESENT, value, length);
            CHECK(table_decode(&t, lines, &key, got, &got_length) == ENTRY_PRESENT);
            CHECK(key == 1234567 && got_length == length && memcmp(value, got, length) == 0);
            CHECK(lines[t.lines * 64] == 0xee);
        }
        uint64_t key;
        uint32_t length;
        table_encode(&t, lines, 78, 5, ENTRY_ERASED, NULL, 0);
        CHECK(table_decode(&t, lines, &key, got, &length) == ENTRY_ERASED);
        memset(lines, 0, sizeof lines);
        CHECK(table_decode(&t, lines, &key, got, &length) == ENTRY_NEVER_USED);
    }
}

/* Every way in which lines of an unused slot, two puts and an erasure can be mixed. */
static void test_mixtures(void)
{
    static unsigned char states[4][MOST_LINES * 64];
    unsigned char value[200], got[200], mixed[MOST_LINES * 64];
    table t = table_make(0, 10, 200);
    CHECK(t.lines == 4);
    for (unsigned put = 1; put <= 2; put++) {
        fill(value, 200, put);
        table_encode(&t, states[put], put, put, ENTRY_PRESENT, value, 200);
    }
    table_encode(&t, states[3], 3, 1, ENTRY_ERASED, NULL, 0);
    for (unsigned mixture = 0; mixture < 256; mixture++) {
        bool whole = true;
        for (unsigned line = 0; line < 4; line++) {
            unsigned from = mixture >> 2 * line & 3;
            whole = whole && from == (mixture & 3);
            memcpy(mixed + 64 * line, states[from] + 64 * line, 64);
        }
        uint64_t key;
        uint32_t length;
        entry_state state = table_decode(&t, mixed, &key, got, &length);
        CHECK((state != ENTRY_TORN) == whole);
        if (state == ENTRY_PRESENT) {
            fill(value, 200, (unsigned)key);
            CHECK(key == (mixture & 3) && length == 200 && memcmp(value, got, 200) == 0);
        }
    }
}

/* The slots of a key are different ones, and 100,000 keys find a place in them. */
static void test_slots(void)
{
    enum { KEYS = 100000 };
    table t = table_make(0, KEYS, 8);
    unsigned char *taken = calloc(t.slots, 1);
    CHECK(taken && t.slots == 262144);
    for (uint64_t key = 0; key < KEYS; key++) {
        uint64_t slots[TABLE_PROBES];
        bool placed = false;
        for (unsigned i = 0; i < TABLE_PROBES; i++) {
            slots[i] = table_slot(&t, key, i);
            CHECK(slots[i] < t.slots);
            for (unsigned j = 0; j < i && key < 1000; j++)
                CHECK(slots[i] != slots[j]);
            if (!placed && !taken[slots[i]]) {
                taken[slots[i]] = 1;
                placed = true;
            }
        }
        CHECK(placed);
    }
    free(taken);
}

int main(void)
{
    test_round_trips();
    test_mixtures();
    test_slots();
    puts("table: ok");
    return 0;
}
