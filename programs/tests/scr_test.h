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

/* What each file tries, up to one without a name. */
extern const test scr_memory[], scr_commands[], scr_copies[], scr_counters[], scr_queues[], scr_acks[], scr_syslib[];

/* Tests of machines with other settings, which run if they are asked for (scr_queues.c). */
extern const test scr_on_demand[];

/* Things that a program must not do (scr_mistakes.c). */
extern const test scr_mistakes[];

/* Waits for all cores. */
void meet(const chip *c);

void set_counter(scr_word *counter, int64_t reset, uint64_t word, scr_word *first, scr_word *second,
                 scr_word *third, scr_word *fourth);

/* Whether a word stays zero for long. */
bool stays_zero(const scr_word *word);

/* Whether a counter has a value before long. */
bool comes_to(const scr_word *counter, int64_t value);

/* The byte at a place of a core's source. */
unsigned char pattern(unsigned member, uint64_t place);

/* Whether bytes are those of a core's source from a place on. */
bool matches(const unsigned char *bytes, uint64_t first, uint64_t length, unsigned member);

bool holds_only(const unsigned char *bytes, uint64_t length, unsigned char byte);

/* Copies, and waits until all of it is there. */
void copy(const chip *c, void *to, const void *from, uint64_t bytes);

#endif
