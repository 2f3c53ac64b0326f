/* Queues with one reader and with several. */
#include <string.h>

#include "scr_test.h"

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

const test scr_queues[] = {
    {"sr-queue", test_sr_queue},
    {"long-items", test_long_items},
    {"mr-data", test_mr_data},
    {"mr-requests", test_mr_requests},
    {"mr-waits", test_mr_waits},
    {"tokens", test_tokens},
    {NULL, NULL},
};

const test scr_on_demand[] = {
    {"refused", test_refused}, /* scratchpad.nacks */
    {NULL, NULL},
};
