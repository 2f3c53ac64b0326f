/* Command buffers: order of words, lines that are taken away, regions, messages. */
#include <string.h>

#include "scr_test.h"

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

const test scr_commands[] = {
    {"any-order", test_any_order},
    {"incomplete", test_incomplete},
    {"save", test_save},
    {"save-pending", test_save_pending},
    {"regions", test_regions},
    {"messages", test_messages},
    {"many-commands", test_many_commands},
    {"remote-command", test_remote_command},
    {NULL, NULL},
};
