/* Copies of all lengths and alignments, between cores and to memory. */
#include <string.h>

#include "scr_test.h"

typedef struct extent {
    uint64_t from, to, length;
} extent;

/* Within lines and across them, aligned and not. */
static const extent extents[] = {
    {0, 0, 8},   {0, 0, 64},  {64, 128, 64}, {0, 0, 1},    {5, 9, 3},     {63, 0, 2},   {1, 1, 64},
    {0, 63, 65}, {7, 30, 57}, {8, 24, 200},  {3, 12, 333}, {0, 0, 3000}, {61, 2, 3001}, {8, 8, 0},
};

enum { EXTENTS = sizeof extents / sizeof extents[0] };

static void check_copied(const chip *c, extent e, unsigned from)
{
    unsigned char *to = c->target + GUARD_BYTES + e.to;
    CHECK(holds_only(c->target, GUARD_BYTES + e.to, 0xee));
    CHECK(matches(to, e.from, e.length, from));
    CHECK(holds_only(to + e.length, GUARD_BYTES, 0xee));
}

/* From the own scratchpad to another. */
static void test_put(chip *c)
{
    for (int i = 0; i < EXTENTS; i++) {
        extent e = extents[i];
        memset(c->target, 0xee, AREA_BYTES);
        meet(c);
        if (e.length > 0)
            copy(c, (char *)at(c, c->next, c->target) + GUARD_BYTES + e.to, c->source + e.from,
                 e.length);
        meet(c);
        check_copied(c, e, c->previous);
    }
}

/* From another scratchpad to the own: the source's interface answers (§3.4). */
static void test_get(chip *c)
{
    for (int i = 0; i < EXTENTS; i++) {
        extent e = extents[i];
        memset(c->target, 0xee, AREA_BYTES);
        if (e.length > 0)
            copy(c, c->target + GUARD_BYTES + e.to,
                 (char *)at(c, c->next, c->source) + e.from, e.length);
        check_copied(c, e, c->next);
    }
}

/* From one core to another, by order of a third; and within a core. */
static void test_others(chip *c)
{
    unsigned from = c->next, to = (c->next + 1) % c->members;
    memset(c->target, 0xee, AREA_BYTES);
    meet(c);
    copy(c, (char *)at(c, to, c->target) + 100, (char *)at(c, from, c->source) + 33, 500);
    meet(c);
    CHECK(holds_only(c->target, 100, 0xee));
    CHECK(matches(c->target + 100, 33, 500, (c->number + c->members - 1) % c->members));
    CHECK(holds_only(c->target + 600, 100, 0xee));
    copy(c, c->target, c->source + 5, 500);
    CHECK(matches(c->target, 5, 500, c->number));
}

/* A core's part of DRAM. */
static char *dram_of(const chip *c)
{
    return (char *)(uintptr_t)SCR_DRAM + c->number * UINT64_C(2) * NI_MOST_COPY_BYTES;
}

/* To DRAM and back, and as its loads and stores see it. */
static void test_dram(chip *c)
{
    char *dram = dram_of(c);
    CHECK(c->self->pad.dram_bytes >= c->members * UINT64_C(2) * NI_MOST_COPY_BYTES);
    for (int i = 0; i < EXTENTS; i++) {
        extent e = extents[i];
        memset(c->target, 0xee, AREA_BYTES);
        if (e.length > 0) {
            copy(c, dram + e.to, c->source + e.from, e.length);
            copy(c, c->target + GUARD_BYTES + e.to, dram + e.to, e.length);
        }
        check_copied(c, e, c->number);
    }
    scr_word *words = (scr_word *)(void *)dram;
    words[0] = 77;
    scr_fence();
    CHECK(words[0] == 77);
    copy(c, c->target, dram, 8);
    CHECK(*(uint64_t *)(void *)c->target == 77);
    copy(c, dram + 8, c->source, 8);
    CHECK(matches((const unsigned char *)dram + 8, 0, 8, c->number));
}

/* The longest copy there is: more than a scratchpad has, so from DRAM to DRAM by way of none. */
static void test_longest(chip *c)
{
    unsigned char *dram = (unsigned char *)dram_of(c);
    unsigned char *second = dram + NI_MOST_COPY_BYTES;
    for (uint64_t i = 0; i < NI_MOST_COPY_BYTES; i += AREA_BYTES)
        copy(c, dram + i, c->source, AREA_BYTES);
    copy(c, second, dram, NI_MOST_COPY_BYTES);
    for (uint64_t i = 0; i < NI_MOST_COPY_BYTES; i += AREA_BYTES) {
        copy(c, c->target, second + i, AREA_BYTES);
        CHECK(matches(c->target, 0, AREA_BYTES, c->number));
    }
}

const test scr_copies[] = {
    {"put", test_put},
    {"get", test_get},
    {"others", test_others},
    {"dram", test_dram},
    {"longest", test_longest},
    {NULL, NULL},
};
