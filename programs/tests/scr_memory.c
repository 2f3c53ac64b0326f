/* Scratchpad memory, and loads and stores of other cores. */
#include <string.h>

#include "scr_test.h"

static void test_open(chip *c)
{
    const scr_pad *pad = &c->self->pad;
    CHECK(pad->core < pad->cores && pad->ways >= 2);
    CHECK(pad->way_bytes % SCR_LINE_BYTES == 0 && pad->ways * pad->way_bytes <= SCR_STRIDE);
    CHECK(scr_is_local(pad, c->source) && scr_is_scratchpad(pad, c->source));
    CHECK(!scr_is_scratchpad(pad, c) && !scr_is_local(pad, c));
    CHECK((c->members == 1) == scr_is_local(pad, at(c, c->next, c->source)));
    CHECK(at(c, c->number, c->source) == c->source);
    for (unsigned i = 0; i < c->members; i++)
        CHECK(i == c->number || c->self->team->core[i] != pad->core);
    CHECK((*scr_tag(c->source) & 0xff) == SCR_PLAIN);
    CHECK((*scr_tag(c->command[0]) & 0xff) == SCR_COMMAND);
    CHECK((*scr_tag(c->counter[0]) & 0xff) == SCR_COUNTER);
    CHECK((*scr_tag(c->sr_queue) & 0xff) == SCR_SR_QUEUE);
    CHECK((*scr_tag(c->mr_queue) & 0xff) == SCR_MR_QUEUE);
}

/* Any size and place within the window. */
static void test_memory(chip *c)
{
    unsigned char *bytes = c->target;
    for (unsigned i = 0; i < 256; i++)
        bytes[i] = pattern(c->number, i);
    CHECK(matches(bytes, 0, 256, c->number));
    *(volatile uint32_t *)(void *)(bytes + 12) = 0x01020304;
    *(volatile uint16_t *)(void *)(bytes + 18) = 0x0506;
    CHECK(bytes[12] == 4 && bytes[15] == 1 && bytes[16] == pattern(c->number, 16));
    CHECK(bytes[18] == 6 && bytes[19] == 5 && bytes[20] == pattern(c->number, 20));
    volatile float *number = (volatile float *)(void *)(bytes + 24);
    *number = 1.5f;
    CHECK(*number == 1.5f && bytes[28] == pattern(c->number, 28));
}

/* The cache has fewer lines now, and still holds what memory holds; scratchpad stays. */
static void test_cache_pressure(chip *c)
{
    enum { WORDS = 12 << 10 };
    static uint64_t all[MOST_CORES][WORDS];
    uint64_t *words = all[c->number];
    for (int pass = 0; pass < 3; pass++)
        for (uint64_t i = 0; i < WORDS; i++)
            words[i] = i * 3 + (uint64_t)pass;
    for (uint64_t i = 0; i < WORDS; i++)
        CHECK(words[i] == i * 3 + 2);
    CHECK(matches(c->source, 0, AREA_BYTES, c->number));
}

/* Lines become scratchpad and cache again while the program runs. */
static void test_give_back(chip *c)
{
    scr_pad pad = c->self->pad; /* what it allocates is not taken */
    for (int i = 0; i < 3; i++) {
        uint64_t *words = scr_alloc(&pad, 512, SCR_LINE_BYTES);
        CHECK(words && words[0] == 0 && words[63] == 0);
        words[63] = 7;
        scr_make_cache(words, 8);
        CHECK((*scr_tag(words) & 0xff) == SCR_CACHE);
        pad = c->self->pad;
    }
    CHECK(!scr_alloc(&pad, pad.ways * pad.way_bytes, SCR_LINE_BYTES));
}

static void test_remote_load(chip *c)
{
    const unsigned char *there = at(c, c->next, c->source);
    for (uint64_t i = 0; i < 130; i++)
        CHECK(there[i] == pattern(c->next, i));
    uint32_t four = *(const volatile uint32_t *)(const void *)(there + 60);
    CHECK(matches((const unsigned char *)&four, 60, 4, c->next));
}

/* Words of all sizes, within lines and in others, merged on their way or not. */
static void test_remote_store(chip *c)
{
    unsigned char *there = at(c, c->next, c->target);
    memset(c->target, 0, AREA_BYTES);
    meet(c);
    for (uint64_t i = 0; i < 100; i++)
        ((volatile unsigned char *)there)[i * 7] = pattern(c->number, i);
    for (uint64_t i = 0; i < 20; i++)
        ((volatile uint32_t *)(void *)there)[256 + i] = (uint32_t)i + 1;
    for (uint64_t i = 0; i < 20; i++)
        ((scr_word *)(void *)there)[256 + i * 3] = i + 1;
    ni_signal(word_at(c, c->next, c->flag[0]), 1);
    (void)ni_wait(c->flag[0]);
    for (uint64_t i = 0; i < 700; i++)
        CHECK(c->target[i] == (i % 7 ? 0 : pattern(c->previous, i / 7)));
    for (uint64_t i = 0; i < 20; i++) {
        CHECK(((uint32_t *)(void *)c->target)[256 + i] == i + 1);
        CHECK(((uint64_t *)(void *)c->target)[256 + i * 3] == i + 1);
        CHECK(((uint64_t *)(void *)c->target)[256 + i * 3 + 1] == 0);
    }
}

/* A core sees its own remote stores in order. */
static void test_store_then_load(chip *c)
{
    scr_word *there = word_at(c, c->next, c->flag[1]);
    for (uint64_t i = 1; i < 20; i++) {
        *there = i;
        scr_fence();
        CHECK(*there == i);
    }
    meet(c);
    CHECK(ni_wait(c->flag[1]) == 19);
}

const test scr_memory[] = {
    {"open", test_open},
    {"memory", test_memory},
    {"cache-pressure", test_cache_pressure},
    {"give-back", test_give_back},
    {"remote-load", test_remote_load},
    {"remote-store", test_remote_store},
    {"store-then-load", test_store_then_load},
    {NULL, NULL},
};
