/* Counters: how they fire, and whom they notify. */
#include "scr_test.h"

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

const test scr_counters[] = {
    {"counter", test_counter},
    {"notify", test_notify},
    {"concurrent-adds", test_concurrent_adds},
    {"counter-chain", test_counter_chain},
    {NULL, NULL},
};
