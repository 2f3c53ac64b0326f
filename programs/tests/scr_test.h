/* The common part of scr_test: the layout of every core's scratchpad. */
#ifndef TESTS_SCR_TEST_H
#define TESTS_SCR_TEST_H

#include "../cache_integrated/chip.h"
#include "check.h"

enum {
    MOST_CORES = 32,
    COMMANDS = 4,
    COUNTERS = 6,
    FLAGS = 8,
    SR_ITEMS = 32,
    LONG_ITEMS = 8, /* of four words */
    MR_ITEMS = 32,
    AREA_BYTES = 4096, /* to copy from and to */
    GUARD_BYTES = 64,  /* around what is copied to, not to be touched */
    LONGEST = 20000    /* cycles after which what has not come does not come */
};

/* Every core's scratchpad, the same layout for all. Sources hold a pattern of their core. */
typedef struct chip {
    sys_member *self;
    unsigned number, members;
    unsigned next, previous; /* neighbours */
    scr_word *command[COMMANDS];
    scr_word *counter[COUNTERS];
    scr_word *flag[FLAGS]; /* a line each */
    scr_word *sr_queue;
    scr_word *long_queue;
    scr_word *mr_queue;
    scr_word *mr_pairs; /* data of two words */
    scr_word *saved;    /* plain lines */
    unsigned char *source;
    unsigned char *target;
} chip;

/* Another core's counterpart of `mine`. */
static inline void *at(const chip *c, unsigned member, const volatile void *mine)
{
    return sys_at(c->self->team, member, mine);
}

static inline scr_word *word_at(const chip *c, unsigned member, const volatile void *mine)
{
    return at(c, member, mine);
}

/* Something to be tried, and its name. */
typedef struct test {
    const char *name;
    void (*run)(chip *c);
} test;

/* Things that a program must not do, up to one without a name (scr_mistakes.c). */
extern const test scr_mistakes[];

#endif
