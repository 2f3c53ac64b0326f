/*
 * Duties of cache-integrated network interfaces (CINI §3): every mechanism, and what each kind
 * of packet does at each kind of line (Figure 5), tried by all cores with their neighbours. The way
 * from core to core is that from a core to its neighbour, the last one's being the first.
 *
 *     rackmem sim exec cache-integrated -- scr_test.rv64 [TEST]
 *     rackmem sim exec cache-integrated -- scr_test.rv64 --wrong double-write
 *
 * A test ends when all cores have passed it; the first one says so. --wrong does one thing that a
 * program must not do, and which has to end it.
 */
#include <inttypes.h>
#include <string.h>

#include "../program.h"
#include "scr_test.h"

#define NAME "scr_test"

static const char about[] =
    "Tests scratchpads in caches, command buffers, counters, queues and acknowledgements.\n"
    "\n"
    "  rackmem sim exec cache-integrated -- scr_test.rv64\n"
    "  rackmem sim exec cache-integrated -- scr_test.rv64 --wrong overflow\n";

static const char *wanted;
static const char *wrong;

static void meet(const chip *c)
{
    sys_meet(c->self->team);
}

static void set_counter(scr_word *counter, int64_t reset, uint64_t word, scr_word *first,
                        scr_word *second, scr_word *third, scr_word *fourth)
{
    scr_word *const targets[] = {first, second, third, fourth};
    scr_mark_counter(counter, reset, word, targets);
}

/* Whether a word stays zero for long. */
static bool stays_zero(const scr_word *word)
{
    uint64_t begin = sys_cycles();
    do {
        if (*word != 0)
            return false;
    } while (sys_cycles() - begin < LONGEST);
    return true;
}

/* Whether a counter has a value before long. */
static bool comes_to(const scr_word *counter, int64_t value)
{
    uint64_t begin = sys_cycles();
    do {
        if (ni_counter_value(counter) == value)
            return true;
    } while (sys_cycles() - begin < LONGEST);
    return false;
}

/* The byte at a place of a core's source. */
static unsigned char pattern(unsigned member, uint64_t at)
{
    return (unsigned char)(member * 37 + at * 11 + (at >> 8) * 5 + 1);
}

static bool matches(const unsigned char *bytes, uint64_t first, uint64_t length, unsigned member)
{
    for (uint64_t i = 0; i < length; i++)
        if (bytes[i] != pattern(member, first + i))
            return false;
    return true;
}

static bool holds_only(const unsigned char *bytes, uint64_t length, unsigned char byte)
{
    for (uint64_t i = 0; i < length; i++)
        if (bytes[i] != byte)
            return false;
    return true;
}

/* A copy, and the wait until all of it is there. */
static void copy(const chip *c, void *to, const void *from, uint64_t bytes)
{
    set_counter(c->counter[0], -(int64_t)bytes, 1, c->flag[0], NULL, NULL, NULL);
    scr_release();
    ni_copy(c->command[0], to, from, bytes, c->counter[0]);
    (void)ni_wait(c->flag[0]);
}

/* ---- Scratchpad memory ------------------------------------------------------------------- */

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

/* ---- Remote loads and stores ------------------------------------------------------------- */

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

/* ---- Command buffers --------------------------------------------------------------------- */

/* The words of a command in the order of a permutation, with pauses. */
static void test_any_order(chip *c)
{
    unsigned char *there = at(c, c->next, c->target);
    for (unsigned order = 0; order < 24; order++) {
        unsigned left[4] = {0, 1, 2, 3}, rest = order;
        set_counter(c->counter[0], -64, 1, c->flag[0], NULL, NULL, NULL);
        const uint64_t words[4] = {ni_operation(NI_COPY, 64), (uint64_t)(uintptr_t)there,
                                   (uint64_t)(uintptr_t)c->counter[0],
                                   (uint64_t)(uintptr_t)(c->source + order * 64)};
        for (unsigned i = 4; i > 0; i--) {
            unsigned pick = rest % i;
            rest /= i;
            CHECK(i == 4 || ni_counter_value(c->counter[0]) == -64);
            c->command[0][left[pick]] = words[left[pick]];
            left[pick] = left[i - 1];
        }
        (void)ni_wait(c->flag[0]);
        meet(c);
        CHECK(matches(c->target, order * 64, 64, c->previous));
        meet(c);
    }
}

/* A command that lacks a word does not start, and says which words it has. */
static void test_incomplete(chip *c)
{
    set_counter(c->counter[0], -8, 1, c->flag[0], NULL, NULL, NULL);
    scr_word *tag = scr_tag(c->command[0]);
    CHECK(tag[1] == 0);
    c->command[0][NI_SOURCE] = (uint64_t)(uintptr_t)c->source;
    c->command[0][NI_OPERATION] = ni_operation(NI_COPY, 8);
    c->command[0][NI_ACKNOWLEDGEMENT] = (uint64_t)(uintptr_t)c->counter[0];
    scr_fence();
    CHECK(tag[1] == 13);
    CHECK(stays_zero(c->flag[0]));
    c->command[0][NI_DESTINATION] = (uint64_t)(uintptr_t)c->target;
    (void)ni_wait(c->flag[0]);
    CHECK(matches(c->target, 0, 8, c->number));
    CHECK(tag[1] == 0);
}

/* Lines are what they were after they have been taken away and brought back: half a command, a counter
 * on its way to zero, a queue with an item. */
static void test_save(chip *c)
{
    enum { LINES = 4 };
    scr_saved saved[LINES];
    scr_word *lines = c->saved;
    scr_word *command = lines, *counter = lines + SCR_LINE_WORDS, *queue = lines + 2 * SCR_LINE_WORDS;
    scr_mark_command(command);
    set_counter(counter, -3, 1, c->flag[0], NULL, NULL, NULL);
    scr_mark(queue, scr_queue_state(SCR_SR_QUEUE, 1, SCR_LINE_BYTES));
    command[NI_SOURCE] = (uint64_t)(uintptr_t)c->source;
    command[NI_OPERATION] = ni_operation(NI_COPY, 8);
    ni_counter_add(counter, 2);
    ni_sr_enqueue(queue, 77);
    scr_fence();
    scr_save(lines, LINES, saved);
    CHECK(*scr_tag(counter) == SCR_CACHE);
    scr_restore(lines, LINES, saved);
    CHECK(ni_counter_value(counter) == -1);
    ni_sr_reader reader = ni_sr_reader_of(queue);
    CHECK(ni_sr_dequeue(&reader) == 77);
    command[NI_ACKNOWLEDGEMENT] = 0;
    command[NI_DESTINATION] = (uint64_t)(uintptr_t)c->target;
    ni_counter_add(counter, 1);
    (void)ni_wait(c->flag[0]);
    while (scr_tag(command)[1] != 0)
        ;
    scr_fence();
    CHECK(comes_to(counter, -3));
    CHECK(matches(c->target, 0, 8, c->number));
}

/* Lines are taken away while transfers are pending: a copy in the job list, and a request of another core that
 * waits in a queue. The copy leaves before; the request is answered when the lines are back. */
static void test_save_pending(chip *c)
{
    enum { LINES = 4 };
    scr_saved saved[LINES];
    scr_word *command = c->saved, *queue = c->saved + 2 * SCR_LINE_WORDS;
    scr_mark_command(command);
    scr_mark(queue, scr_queue_state(SCR_MR_QUEUE, 1, SCR_LINE_BYTES));
    set_counter(c->counter[0], -AREA_BYTES, 1, c->flag[0], NULL, NULL, NULL);
    meet(c);
    ni_mr_request(c->command[0], c->flag[1], word_at(c, c->next, queue), SCR_WORD_BYTES, NULL);
    while (queue[NI_SR_TAIL] != 1)
        ;
    meet(c);
    ni_copy(command, at(c, c->next, c->target), c->source, AREA_BYTES, c->counter[0]);
    scr_fence();
    CHECK(scr_is_under_way(command));
    scr_save(c->saved, LINES, saved);
    CHECK(*scr_tag(command) == SCR_CACHE && *scr_tag(queue) == SCR_CACHE);
    CHECK(*c->flag[1] == 0);
    scr_restore(c->saved, LINES, saved);
    (void)ni_wait(c->flag[0]);
    meet(c);
    CHECK(matches(c->target, 0, AREA_BYTES, c->previous));
    CHECK(!scr_is_under_way(command));
    ni_mr_put(queue, 100 + c->number);
    CHECK(ni_wait(c->flag[1]) == 100 + c->next);
    ni_copy(command, c->source, c->source, 64, c->counter[0]);
    CHECK(comes_to(c->counter[0], 64 - AREA_BYTES));
    meet(c);
    scr_mark(queue, SCR_PLAIN);
    scr_mark(command, SCR_PLAIN);
}

/* Lines have the address that the program gives them, for accesses and transfers, and keep it when they move. */
static void test_regions(chip *c)
{
    enum { LINES = 4, BYTES = LINES * SCR_LINE_BYTES, EINVAL_OF_LINUX = 22 };
    scr_saved saved[LINES];
    unsigned char *mine = (unsigned char *)(uintptr_t)SCR_NAMES, *its = mine + (1 << 20), *own = its + (1 << 20);
    for (unsigned i = 0; i < LINES; i++)
        scr_mark(c->saved + i * SCR_LINE_WORDS, SCR_PLAIN);
    CHECK(scr_map(mine, BYTES, c->saved) == 0);
    CHECK(scr_map(its, BYTES, at(c, c->next, c->saved)) == 0);
    CHECK(scr_map(own, SCR_LINE_BYTES, c->counter[0]) == 0);
    CHECK(scr_map(mine + SCR_LINE_BYTES, SCR_LINE_BYTES, c->saved) == -EINVAL_OF_LINUX);
    CHECK(scr_map(own, SCR_LINE_BYTES, mine) == -EINVAL_OF_LINUX);
    set_counter(c->counter[0], -64, 1, c->flag[0], NULL, NULL, NULL);
    meet(c);
    ni_signal((scr_word *)(void *)its, 7000 + c->number);
    ni_copy(c->command[0], its + 64, c->source, 64, (scr_word *)(void *)own);
    (void)ni_wait(c->flag[0]);
    meet(c);
    CHECK(*(scr_word *)(void *)mine == 7000 + c->previous);
    CHECK(matches(mine + 64, 0, 64, c->previous));
    CHECK(*c->saved == 7000 + c->previous);
    meet(c);
    scr_save(c->saved, LINES, saved);
    scr_restore(c->target, LINES, saved);
    CHECK(scr_map(mine, BYTES, c->target) == 0);
    CHECK(*(scr_word *)(void *)mine == 7000 + c->previous);
    CHECK(matches(mine + 64, 0, 64, c->previous));
    scr_restore(c->saved, LINES, saved);
    CHECK(scr_map(mine, 0, NULL) == 0 && scr_map(its, 0, NULL) == 0 && scr_map(own, 0, NULL) == 0);
}

/* All lengths of messages, to the own core and to another. */
static void test_messages(chip *c)
{
    uint64_t data[NI_MOST_MESSAGE_WORDS];
    for (unsigned words = 1; words <= NI_MOST_MESSAGE_WORDS; words++) {
        for (unsigned to = 0; to < 2; to++) {
            unsigned char *there = at(c, to ? c->next : c->number, c->target);
            unsigned from = to ? c->previous : c->number;
            memset(c->target, 0, 128);
            meet(c);
            set_counter(c->counter[0], -(int64_t)words * 8, 1, c->flag[0], NULL, NULL, NULL);
            for (unsigned i = 0; i < words; i++)
                data[i] = c->number * 100 + i + 1;
            ni_message(c->command[0], there + 40, data, words, c->counter[0]);
            (void)ni_wait(c->flag[0]);
            meet(c);
            for (unsigned i = 0; i < 16; i++)
                CHECK(((uint64_t *)(void *)c->target)[i] ==
                      (i >= 5 && i < 5 + words ? from * 100 + i - 4 : 0));
            meet(c);
        }
    }
}

/* Many commands at once, in one buffer as often as in several. */
static void test_many_commands(chip *c)
{
    enum { COPIES = 64, BYTES = 64 };
    unsigned char *there = at(c, c->next, c->target);
    memset(c->target, 0, AREA_BYTES);
    set_counter(c->counter[0], -COPIES * BYTES, 1, c->flag[0], NULL, NULL, NULL);
    meet(c);
    for (unsigned i = 0; i < COPIES; i++)
        ni_copy(c->command[i % 7 % COMMANDS], there + i * BYTES, c->source + i * BYTES, BYTES,
                c->counter[0]);
    (void)ni_wait(c->flag[0]);
    meet(c);
    CHECK(matches(c->target, 0, COPIES * BYTES, c->previous));
}

/* A command buffer takes its words from other cores as well. */
static void test_remote_command(chip *c)
{
    memset(c->target, 0, 64);
    set_counter(c->counter[0], -64, 1, c->flag[0], NULL, NULL, NULL);
    meet(c);
    /* The neighbour's interface copies its source to our target. */
    ni_copy(word_at(c, c->next, c->command[1]), c->target, at(c, c->next, c->source), 64,
            c->counter[0]);
    ni_push();
    (void)ni_wait(c->flag[0]);
    CHECK(matches(c->target, 0, 64, c->next));
}

/* ---- Copies ------------------------------------------------------------------------------ */

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

/* ---- Counters ---------------------------------------------------------------------------- */

/* Values are added, and zero alone notifies and begins again. */
static void test_counter(chip *c)
{
    scr_word *counter = c->counter[0];
    set_counter(counter, -10, 5, c->flag[0], NULL, NULL, NULL);
    CHECK(ni_counter_value(counter) == -10);
    ni_counter_add(counter, 4);
    ni_counter_add(counter, 11); /* over it: nothing */
    CHECK(ni_counter_value(counter) == 5);
    CHECK(stays_zero(c->flag[0]));
    ni_counter_add(counter, -5);
    CHECK(ni_wait(c->flag[0]) == 5);
    CHECK(ni_counter_value(counter) == -10);
    ni_counter_add(counter, 10);
    CHECK(ni_wait(c->flag[0]) == 5);
    CHECK(ni_counter_value(counter) == -10);
}

/* Up to four words at any cores are notified. */
static void test_notify(chip *c)
{
    for (unsigned count = 0; count <= 4; count++) {
        scr_word *to[4];
        for (unsigned i = 0; i < 4; i++)
            to[i] = i < count ? word_at(c, (c->number + i) % c->members, c->flag[i]) : NULL;
        set_counter(c->counter[0], -1, c->number + 1, to[0], to[1], to[2], to[3]);
        ni_counter_add(c->counter[0], 1);
        for (unsigned i = 0; i < count; i++)
            CHECK(ni_wait(c->flag[i]) == (c->number + c->members - i % c->members) % c->members + 1);
        CHECK(comes_to(c->counter[0], -1));
        meet(c);
    }
}

/* Everyone adds to everyone's counter at once: nothing is lost, and each episode ends once. */
static void test_concurrent_adds(chip *c)
{
    enum { ADDITIONS = 30, EPISODES = 5 };
    set_counter(c->counter[0], -(int64_t)c->members * ADDITIONS, 1, c->counter[1], NULL, NULL,
                NULL);
    set_counter(c->counter[1], -EPISODES, 1, c->flag[0], NULL, NULL, NULL);
    meet(c);
    for (int i = 0; i < ADDITIONS * EPISODES; i++)
        for (unsigned m = 0; m < c->members; m++)
            ni_counter_add(word_at(c, m, c->counter[0]), 1);
    ni_push();
    (void)ni_wait(c->flag[0]);
    CHECK(ni_counter_value(c->counter[0]) == -(int64_t)c->members * ADDITIONS);
    CHECK(ni_counter_value(c->counter[1]) == -EPISODES);
}

/* Counters notify counters: around all cores and back. */
static void test_counter_chain(chip *c)
{
    scr_word *next = c->number == c->members - 1 ? word_at(c, 0, c->flag[0])
                                                 : word_at(c, c->next, c->counter[0]);
    set_counter(c->counter[0], -1, 1, next, NULL, NULL, NULL);
    meet(c);
    if (c->number == 0) {
        ni_counter_add(c->counter[0], 1);
        (void)ni_wait(c->flag[0]);
    }
    meet(c);
}

/* ---- Queues ------------------------------------------------------------------------------ */

/* All send to all; each one's items come in their order, and items that are freed make room. */
static void test_sr_queue(chip *c)
{
    enum { ROUNDS = 6 };
    unsigned each = SR_ITEMS / c->members;
    uint64_t seen[SYS_MOST_MEMBERS] = {0};
    ni_sr_reader reader = ni_sr_reader_of(c->sr_queue);
    CHECK(reader.item_words == 1 && reader.index_mask == SR_ITEMS - 1);
    for (int round = 0; round < ROUNDS; round++) {
        for (unsigned i = 0; i < each; i++)
            for (unsigned m = 0; m < c->members; m++) {
                ni_sr_enqueue(word_at(c, m, c->sr_queue),
                              (uint64_t)c->number << 32 | ((uint64_t)round * each + i));
                ni_push();
            }
        for (unsigned i = 0; i < each * c->members; i++) {
            uint64_t item = ni_sr_dequeue(&reader);
            CHECK((item & 0xffffffff) == seen[item >> 32]++);
        }
        meet(c);
    }
    CHECK(c->sr_queue[NI_SR_TAIL] == reader.head && c->sr_queue[NI_SR_HEAD] == reader.head);
}

/* Items of four words: messages, and copies. */
static void test_long_items(chip *c)
{
    scr_word *there = word_at(c, c->next, c->long_queue);
    ni_sr_reader reader = ni_sr_reader_of(c->long_queue);
    CHECK(reader.item_words == 4 && reader.index_mask == LONG_ITEMS - 1);
    set_counter(c->counter[0], -LONG_ITEMS * 32, 1, c->flag[0], NULL, NULL, NULL);
    for (uint64_t i = 0; i < LONG_ITEMS; i++) {
        const uint64_t data[4] = {i, c->number, 3, 4};
        if (i % 2 == 0)
            ni_message(c->command[0], there, data, 4, c->counter[0]);
        else
            ni_copy(c->command[0], there, c->source + 32 * i, 32, c->counter[0]);
        while (ni_counter_value(c->counter[0]) == -LONG_ITEMS * 32 + 32 * (int64_t)i)
            ; /* one after the other: transfers have no order */
    }
    (void)ni_wait(c->flag[0]);
    for (uint64_t i = 0; i < LONG_ITEMS; i++) {
        const scr_word *item = ni_sr_wait(&reader);
        if (i % 2 == 0)
            CHECK(item[0] == i && item[1] == c->previous && item[2] == 3 && item[3] == 4);
        else
            CHECK(matches((const unsigned char *)(uintptr_t)item, 32 * i, 32, c->previous));
        ni_sr_free(&reader);
    }
}

/* Data wait for requests, in their order. */
static void test_mr_data(chip *c)
{
    scr_word *queue = word_at(c, c->next, c->mr_queue);
    for (uint64_t i = 0; i < 10; i++)
        ni_mr_put(queue, c->number * 100 + i);
    ni_push();
    meet(c);
    for (uint64_t i = 0; i < 5; i++) /* the reader's own core, then another */
        CHECK(ni_mr_get(c->mr_queue) == c->previous * 100 + i);
    meet(c);
    for (uint64_t i = 5; i < 10; i++)
        CHECK(ni_mr_get(queue) == c->number * 100 + i);
}

/* Requests wait for data, in their order. */
static void test_mr_requests(chip *c)
{
    enum { REQUESTS = 6 };
    scr_word *queue = word_at(c, c->next, c->mr_queue);
    scr_word *answers = (scr_word *)(void *)c->target;
    memset(c->target, 0, 64);
    set_counter(c->counter[0], -REQUESTS * 8, 1, c->flag[0], NULL, NULL, NULL);
    for (unsigned i = 0; i < REQUESTS; i++) {
        ni_mr_request(c->command[0], answers + i, queue, 8, c->counter[0]);
        for (uint64_t begin = sys_cycles(); sys_cycles() - begin < LONGEST / 10;)
            ; /* until it has come */
    }
    CHECK(holds_only(c->target, 64, 0));
    meet(c);
    for (uint64_t i = 1; i <= REQUESTS; i++)
        ni_mr_put(c->mr_queue, c->number * 100 + i);
    (void)ni_wait(c->flag[0]);
    for (unsigned i = 0; i < REQUESTS; i++)
        CHECK(answers[i] == c->next * 100 + i + 1);
}

/* Loads that wait, and data of two words for copies. */
static void test_mr_waits(chip *c)
{
    if (c->members > 1) {
        if (c->number == 0) {
            CHECK(ni_mr_get(c->mr_queue) == 41);
            ni_mr_put(word_at(c, 1, c->mr_queue), 42);
            ni_push();
        } else if (c->number == 1) {
            CHECK(stays_zero(c->flag[0]));
            ni_mr_put(word_at(c, 0, c->mr_queue), 41);
            ni_push();
            CHECK(ni_mr_get(c->mr_queue) == 42);
        }
    }
    const uint64_t pair[2] = {c->number, 9};
    ni_message(c->command[0], at(c, c->next, c->mr_pairs), pair, 2, NULL);
    set_counter(c->counter[0], -16, 1, c->flag[0], NULL, NULL, NULL);
    ni_mr_request(c->command[1], (scr_word *)(void *)c->target, c->mr_pairs, 16, c->counter[0]);
    (void)ni_wait(c->flag[0]);
    CHECK(((uint64_t *)(void *)c->target)[0] == c->previous);
    CHECK(((uint64_t *)(void *)c->target)[1] == 9);
}

/* Tokens go to whoever asks: never more at a time than there are. */
static void test_tokens(chip *c)
{
    enum { TURNS = 20, TOKENS = 2 };
    static int holders;
    scr_word *queue = word_at(c, 0, c->mr_queue);
    if (c->number == 0)
        for (int i = 0; i < TOKENS; i++)
            ni_mr_put(queue, 1);
    meet(c);
    for (int i = 0; i < TURNS; i++) {
        (void)ni_mr_get(queue);
        CHECK(__atomic_add_fetch(&holders, 1, __ATOMIC_RELAXED) <= TOKENS);
        __atomic_sub_fetch(&holders, 1, __ATOMIC_RELAXED);
        ni_signal(queue, 1);
    }
    meet(c);
    if (c->number == 0)
        for (int i = 0; i < TOKENS; i++)
            (void)ni_mr_get(queue);
}

/* ---- Acknowledgements (Figure 5) --------------------------------------------------------- */

/* A write to each kind of line is acknowledged with its size. */
static void test_ack_of_writes(chip *c)
{
    const uint64_t data[5] = {0, 1, 2, 3, 4};
    set_counter(c->counter[1], 0, 0, NULL, NULL, NULL, NULL);
    meet(c);
    scr_word *const to[] = {word_at(c, c->next, c->target), word_at(c, c->next, c->counter[1]),
                            word_at(c, c->next, c->sr_queue), word_at(c, c->next, c->mr_queue)};
    for (unsigned i = 0; i < 4; i++) {
        set_counter(c->counter[0], -8, 1, c->flag[0], NULL, NULL, NULL);
        ni_message(c->command[0], to[i], data + 1, 1, c->counter[0]);
        (void)ni_wait(c->flag[0]);
    }
    /* One that is longer than a line's word: to memory. */
    set_counter(c->counter[0], -40, 1, c->flag[0], NULL, NULL, NULL);
    ni_message(c->command[0], to[0], data, 5, c->counter[0]);
    (void)ni_wait(c->flag[0]);
    meet(c);
    CHECK(ni_counter_value(c->counter[1]) == 1);
    ni_sr_reader reader = ni_sr_reader_of(c->sr_queue);
    CHECK(ni_sr_dequeue(&reader) == 1);
    CHECK(ni_mr_get(c->mr_queue) == 1);
}

/* A write that answers a request that waits is acknowledged to the request, and the request's
 * answer as well: each once. */
static void test_ack_of_answers(chip *c)
{
    const uint64_t datum = 6;
    set_counter(c->counter[0], -8, 1, c->flag[0], NULL, NULL, NULL);
    set_counter(c->counter[1], -8, 1, c->flag[1], NULL, NULL, NULL);
    ni_mr_request(c->command[0], (scr_word *)(void *)c->target, c->mr_queue, 8, c->counter[0]);
    CHECK(stays_zero(c->flag[0]));
    ni_message(c->command[1], c->mr_queue, &datum, 1, c->counter[1]);
    (void)ni_wait(c->flag[0]);
    (void)ni_wait(c->flag[1]);
    CHECK(*(uint64_t *)(void *)c->target == 6);
    CHECK(comes_to(c->counter[0], -8) && comes_to(c->counter[1], -8));
}

/* Acknowledgements at each kind of line: they are written, and not acknowledged. */
static void test_ack_at_lines(chip *c)
{
    const uint64_t data[5] = {1, 2, 3, 4, 5};
    scr_word *there = word_at(c, c->next, c->target);
    /* Memory: the size is stored. */
    *c->flag[0] = 0;
    ni_message(c->command[0], there, data, 3, c->flag[0]);
    CHECK(ni_wait(c->flag[0]) == 24);
    /* Another core's counter adds it. */
    set_counter(c->counter[0], -40, 1, c->flag[0], NULL, NULL, NULL);
    meet(c);
    ni_message(c->command[0], there, data, 5, word_at(c, c->next, c->counter[0]));
    (void)ni_wait(c->flag[0]);
    /* Queues take it as an item. */
    ni_sr_reader reader = ni_sr_reader_of(c->sr_queue);
    ni_message(c->command[0], there, data, 2, c->sr_queue);
    CHECK(ni_sr_dequeue(&reader) == 16);
    ni_message(c->command[0], there, data, 4, c->mr_queue);
    CHECK(ni_mr_get(c->mr_queue) == 32);
    /* In a command buffer it is a word like any other: here the datum of a message. */
    scr_word *waiting = c->command[1];
    waiting[NI_OPERATION] = ni_operation(NI_MESSAGE, 8);
    waiting[NI_DESTINATION] = (uint64_t)(uintptr_t)c->flag[1];
    waiting[NI_ACKNOWLEDGEMENT] = 0;
    scr_fence();
    ni_message(c->command[0], there, data, 5, waiting + NI_DATA);
    CHECK(ni_wait(c->flag[1]) == 40);
}

/* All packets of a copy add up, whoever has the counter; without an address, there is none. */
static void test_acks_add_up(chip *c)
{
    enum { BYTES = 3000 };
    scr_word *its = word_at(c, c->next, c->counter[0]);
    set_counter(c->counter[0], -2 * BYTES, 1, c->flag[0], NULL, NULL, NULL);
    meet(c);
    ni_copy(c->command[0], at(c, c->next, c->target), c->source + 3, BYTES, its);
    ni_copy(c->command[1], c->target + 3001, at(c, c->next, c->source), BYTES - 2000, its);
    ni_copy(c->command[2], (char *)at(c, c->next, c->target) + 3001, c->source, 7, NULL);
    meet(c);
    CHECK(comes_to(c->counter[0], -2000) && stays_zero(c->flag[0]));
    meet(c);
    ni_copy(c->command[3], at(c, c->next, c->target), c->source, 2000, its);
    (void)ni_wait(c->flag[0]);
}

/* ---- What syslib makes of it ------------------------------------------------------------- */

typedef struct lock_state {
    uint64_t counter; /* which only whoever has the lock adds to */
    sys_mcs_lock mcs;
    sys_mcs_node node[SYS_MOST_MEMBERS];
} lock_state;

static void test_locks(chip *c)
{
    enum { TURNS = 25, KINDS = 4 };
    static lock_state state;
    scr_word *mrq = word_at(c, 0, c->mr_queue), *box = sys_box_lock_of(0);
    sys_mcs_node *node = &state.node[c->number];
    if (c->number == 0) {
        state.counter = 0;
        ni_mr_put(mrq, 1);
    }
    meet(c);
    for (int i = 0; i < TURNS * KINDS; i++) {
        switch (i % KINDS) {
        case 0:
            sys_mrq_lock(mrq);
            break;
        case 1:
            sys_mrq_lock_request(mrq, c->command[0], c->flag[0]);
            break;
        default:
            sys_mcs_acquire(&state.mcs, node);
            break;
        }
        /* Different locks do not exclude each other, so those of a turn are the same. */
        uint64_t counter = __atomic_load_n(&state.counter, __ATOMIC_RELAXED);
        __atomic_store_n(&state.counter, counter + 1, __ATOMIC_RELAXED);
        if (i % KINDS < 2)
            sys_mrq_unlock(mrq);
        else
            sys_mcs_release(&state.mcs, node);
        if (i % 2 == 1)
            meet(c);
    }
    meet(c);
    CHECK(state.counter == (uint64_t)TURNS * KINDS * c->members);
    if (c->number == 0)
        (void)ni_mr_get(mrq);
    meet(c);
    for (int i = 0; i < TURNS; i++) {
        sys_box_lock(box);
        uint64_t counter = __atomic_load_n(&state.counter, __ATOMIC_RELAXED);
        __atomic_store_n(&state.counter, counter + 1, __ATOMIC_RELAXED);
        sys_box_unlock(box);
    }
    meet(c);
    CHECK(state.counter == (uint64_t)TURNS * (KINDS + 1) * c->members);
}

typedef struct barriers {
    sys_counter_barrier small, tree, moved;
    sys_mutex_barrier mutex;
    sys_tree_node *nodes;
} barriers;

static void wait_at(const chip *c, const barriers *b, int which)
{
    switch (which) {
    case 0:
        sys_counter_barrier_wait(b->small);
        break;
    case 1:
        sys_counter_barrier_wait(b->tree);
        break;
    case 2:
        sys_counter_barrier_wait(b->moved);
        break;
    case 3:
        sys_mutex_barrier_wait(b->mutex);
        break;
    default:
        sys_tree_barrier_wait(&b->nodes[c->number]);
        break;
    }
}

/* After each barrier all have come as far, and nobody further than the next one. */
static void test_barriers(chip *c)
{
    enum { EPISODES = 10, KINDS = 5 };
    static uint64_t come[SYS_MOST_MEMBERS];
    static sys_tree_node nodes[SYS_MOST_MEMBERS];
    barriers b = {.nodes = nodes};
    sys_member *self = c->self;
    CHECK(sys_counter_barrier_make(&b.small, self, 0, SYS_MOST_MEMBERS) == 0);
    CHECK(sys_counter_barrier_make(&b.tree, self, 0, 2) == 0);
    CHECK(sys_counter_barrier_make(&b.moved, self, c->members - 1, 3) == 0);
    CHECK(sys_mutex_barrier_make(&b.mutex, self, c->members / 2, 1) == 0);
    sys_tree_barrier_make(nodes, c->number, c->members);
    __atomic_store_n(&come[c->number], 0, __ATOMIC_RELAXED);
    meet(c);
    for (uint64_t episode = 1; episode <= EPISODES * KINDS; episode++) {
        __atomic_store_n(&come[c->number], episode, __ATOMIC_RELAXED);
        wait_at(c, &b, (int)(episode % KINDS));
        for (unsigned m = 0; m < c->members; m++) {
            uint64_t its = __atomic_load_n(&come[m], __ATOMIC_RELAXED);
            CHECK(its == episode || its == episode + 1);
        }
    }
    meet(c);
}

/* A full queue refuses items with a negative acknowledgement, and takes them when there is room again. */
static void test_refused(chip *c)
{
    scr_word *there = word_at(c, c->next, c->sr_queue);
    ni_sr_reader reader = ni_sr_reader_of(c->sr_queue);
    for (uint64_t i = 0; i <= SR_ITEMS; i++) {
        ni_message(c->command[0], there, &i, 1, c->flag[0]);
        CHECK((int64_t)ni_wait(c->flag[0]) == (i < SR_ITEMS ? 8 : -8));
    }
    const uint64_t last = SR_ITEMS;
    set_counter(c->counter[0], -8, 1, NULL, NULL, NULL, NULL);
    ni_message(c->command[0], there, &last, 1, c->counter[0]);
    CHECK(comes_to(c->counter[0], -16));
    meet(c);
    CHECK(ni_sr_dequeue(&reader) == 0);
    meet(c);
    ni_message(c->command[0], there, &last, 1, c->flag[0]);
    CHECK(ni_wait(c->flag[0]) == 8);
    meet(c);
    for (uint64_t i = 1; i <= SR_ITEMS; i++)
        CHECK(ni_sr_dequeue(&reader) == i);
}

/* Tests of machines with other settings, which run if they are asked for. */
static const test on_demand[] = {
    {"refused", test_refused}, /* scratchpad.nacks */
    {NULL, NULL},
};

static const test tests[] = {
    {"open", test_open},
    {"memory", test_memory},
    {"cache-pressure", test_cache_pressure},
    {"give-back", test_give_back},
    {"remote-load", test_remote_load},
    {"remote-store", test_remote_store},
    {"store-then-load", test_store_then_load},
    {"any-order", test_any_order},
    {"incomplete", test_incomplete},
    {"save", test_save},
    {"save-pending", test_save_pending},
    {"regions", test_regions},
    {"messages", test_messages},
    {"many-commands", test_many_commands},
    {"remote-command", test_remote_command},
    {"put", test_put},
    {"get", test_get},
    {"others", test_others},
    {"dram", test_dram},
    {"longest", test_longest},
    {"counter", test_counter},
    {"notify", test_notify},
    {"concurrent-adds", test_concurrent_adds},
    {"counter-chain", test_counter_chain},
    {"sr-queue", test_sr_queue},
    {"long-items", test_long_items},
    {"mr-data", test_mr_data},
    {"mr-requests", test_mr_requests},
    {"mr-waits", test_mr_waits},
    {"tokens", test_tokens},
    {"ack-of-writes", test_ack_of_writes},
    {"ack-of-answers", test_ack_of_answers},
    {"ack-at-lines", test_ack_at_lines},
    {"acks-add-up", test_acks_add_up},
    {"locks", test_locks},
    {"barriers", test_barriers},
    {NULL, NULL},
};

static const test *find(const test *table, const char *name)
{
    while (table->name && strcmp(table->name, name) != 0)
        table++;
    return table->name ? table : NULL;
}

/* ---- Set-up ------------------------------------------------------------------------------ */

static void lay_out(chip *c)
{
    scr_pad *pad = &c->self->pad;
    for (int i = 0; i < COMMANDS; i++)
        CHECK((c->command[i] = scr_alloc_command(pad)));
    for (int i = 0; i < COUNTERS; i++)
        CHECK((c->counter[i] = scr_alloc_counter(pad, -1, NULL)));
    for (int i = 0; i < FLAGS; i++)
        CHECK((c->flag[i] = scr_alloc(pad, SCR_WORD_BYTES, SCR_LINE_BYTES)));
    CHECK((c->sr_queue = scr_alloc_sr_queue(pad, SR_ITEMS, 1)));
    CHECK((c->long_queue = scr_alloc_sr_queue(pad, LONG_ITEMS, 4)));
    CHECK((c->mr_queue = scr_alloc_mr_queue(pad, MR_ITEMS, 1)));
    CHECK((c->mr_pairs = scr_alloc_mr_queue(pad, 4, 2)));
    CHECK((c->saved = scr_alloc(pad, 4 * SCR_LINE_BYTES, 4 * SCR_LINE_BYTES)));
    CHECK((c->source = scr_alloc(pad, AREA_BYTES, SCR_LINE_BYTES)));
    CHECK((c->target = scr_alloc(pad, AREA_BYTES, SCR_LINE_BYTES)));
    for (uint64_t i = 0; i < AREA_BYTES; i++)
        c->source[i] = pattern(c->number, i);
}

static void pass(chip *c, const test *t)
{
    t->run(c);
    meet(c);
    if (c->number == 0) {
        printf("PASS %s\n", t->name);
        fflush(stdout); /* so far it went, whatever comes */
    }
    meet(c);
}

static void work(sys_member *self, void *argument)
{
    (void)argument;
    chip c = {.self = self, .number = self->number, .members = self->team->members};
    c.next = (c.number + 1) % c.members;
    c.previous = (c.number + c.members - 1) % c.members;
    lay_out(&c);
    meet(&c);
    if (wrong) {
        if (c.number == 0) {
            find(scr_mistakes, wrong)->run(&c);
            CHECK(stays_zero(c.flag[0]));
        }
        meet(&c);
        return;
    }
    const test *only = wanted ? find(on_demand, wanted) : NULL;
    if (only)
        pass(&c, only);
    for (const test *t = tests; t->name; t++)
        if (!wanted || strcmp(wanted, t->name) == 0)
            pass(&c, t);
}

int main(int argc, char **argv)
{
    uint64_t cores = 4;
    const option options[] = {
        {"cores", OPTION_NUMBER, &cores, "N", "that take part (4)", 1, MOST_CORES},
        {"wrong", OPTION_TEXT, &wrong, "WHAT", "do something that must not be done", 0, 0},
        {0},
    };
    const command_line line = {NAME, "[OPTIONS] [TEST]", about, options, &wanted};
    int status = options_parse(&line, argc, argv);
    if (status != OPTIONS_GO_ON)
        return status;
    if (wanted && !find(tests, wanted) && !find(on_demand, wanted))
        return options_usage(&line, "there is no such test");
    if (wrong && !find(scr_mistakes, wrong))
        return options_usage(&line, "--wrong: there is no such mistake");
    status = chip_run(NAME, (unsigned)cores, work, NULL);
    if (status == 0 && wrong)
        return program_failed(NAME, "nobody has noticed %s", wrong);
    if (status == 0)
        printf("%s: passed on %" PRIu64 " cores\n", NAME, cores);
    return status == 0 ? program_flush(NAME) : status;
}
