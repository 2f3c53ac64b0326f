/* Acknowledgements at each kind of line (Figure 5). */
#include "scr_test.h"

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

const test scr_acks[] = {
    {"ack-of-writes", test_ack_of_writes},
    {"ack-of-answers", test_ack_of_answers},
    {"ack-at-lines", test_ack_at_lines},
    {"acks-add-up", test_acks_add_up},
    {NULL, NULL},
};
