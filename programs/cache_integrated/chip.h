/* The common part of the programs of this folder: run on the cores of a chip, choose how data are sent,
 * and tell computation from communication. */
#ifndef CACHE_INTEGRATED_CHIP_H
#define CACHE_INTEGRATED_CHIP_H

#include <scratchpad.h>
#include <stdbool.h>

#include "../options.h"

/* The way in which cores send data to each other. */
typedef enum mechanism {
    MECHANISM_DMA,   /* a copy by the network interface: four stores, whatever the size */
    MECHANISM_STORES /* a remote store for each word */
} mechanism;

/* Both options' help, value and default. */
#define MECHANISM_VALUE "HOW"
#define MECHANISM_HELP "how data go: dma or stores (dma)"

/* Sets *chosen. Returns OPTIONS_GO_ON, or the exit status for wrong usage. */
int mechanism_parse(const command_line *line, const char *text, mechanism *chosen);
const char *mechanism_name(mechanism m);

/* Runs work(member, argument) on cores of the chip; see sys_team_run(). The text says what is wrong,
 * if anything is. Returns an exit status. */
int chip_run(const char *program, unsigned cores, sys_work work, void *argument);

/* The scratchpad of the calling thread's core, or NULL and an error on stderr. */
const scr_pad *chip_pad(const char *program);

/* A barrier to start together with. All members call it at the same point of what they allocate, as a
 * rule first. It takes so many lines at most, which programs leave room for. */
enum { CHIP_BARRIER_LINES = 8 };
sys_counter_barrier chip_barrier(sys_member *self);

/* Cycles that pass between two looks at the clock with nothing in between. */
double chip_timer_cycles(void);

bool is_power_of_two(uint64_t number);
unsigned log2_of(uint64_t power_of_two);

/* A word of the prototype, whose cores have 32 bits: what a remote store of its programs carries. */
typedef volatile uint32_t __attribute__((may_alias)) chip_word;
enum { CHIP_WORD_BYTES = 4 };

/* Words to another core's scratchpad by remote stores: half a line at a time, loads first, so that they
 * do not wait for each other. */
static inline void chip_store_words(chip_word *to, const chip_word *from, uint64_t words)
{
    enum { AT_ONCE = SCR_LINE_BYTES / CHIP_WORD_BYTES / 2 };
    uint64_t i = 0;
    for (; i + AT_ONCE <= words; i += AT_ONCE) {
        uint32_t some[AT_ONCE];
        for (unsigned k = 0; k < AT_ONCE; k++)
            some[k] = from[i + k];
        for (unsigned k = 0; k < AT_ONCE; k++)
            to[i + k] = some[k];
    }
    for (; i < words; i++)
        to[i] = from[i];
}

/* Begin and end of a member's round of work, and the communication in it. A line of its own. */
typedef struct round_times {
    __attribute__((aligned(SCR_LINE_BYTES))) uint64_t begin;
    uint64_t end;
    uint64_t communication;
} round_times;

/* Sums over rounds. */
typedef struct breakdown {
    double total; /* from the first that begins to the last that ends */
    double computation; /* of a member, on average */
    double communication;
} breakdown;

void breakdown_add(breakdown *sum, const round_times *times, unsigned members);

/* One line, or one of JSON, of so many rounds. */
void breakdown_print(const breakdown *sum, const char *program, uint64_t n, uint64_t cores,
                     mechanism how, uint64_t rounds, bool json);

#endif
