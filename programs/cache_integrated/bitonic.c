/*
 * bitonic: bitonic sort of keys that stay in scratchpads (CINI §5.3, Figure 9; after that of the
 * StreamIt benchmarks).
 *
 * P cores have n / P keys each, of one word. Steps of the sorting network that compare keys of one
 * core are done in place. In the others, two cores send each other all their keys: one keeps the lesser
 * of each pair and the other one the greater, where the other's keys have arrived. So what was sent
 * stays as it is, and every such step has a buffer of its own.
 *
 * With dma, keys are one copy that is acknowledged to a counter of the receiver, which sets its flag.
 * With stores, there is a store for each, and one to the flag.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "../program.h"
#include "chip.h"

#define NAME "bitonic"

static const char about[] =
    "Sorts n keys of 8 bytes on 1, 2 or 4 cores, and prints the cycles that it takes: in all,\n"
    "computing, and communicating.\n"
    "\n"
    "  rackmem sim exec cache-integrated -- bitonic.rv64 --n 64 --cores 2 --mechanism stores\n";

/* Steps between cores: log2 P (log2 P + 1) / 2. */
enum { MOST_CORES = 4, MOST_EXCHANGES = 3, MOST_N = 1 << 16 };

typedef int64_t sort_key;

/* A step between two cores. With whom is known before: so are the other's addresses. */
typedef struct exchange {
    sort_key *inbox, *other_inbox;
    scr_word *flag, *other_flag;
    scr_word *arrivals, *other_arrivals; /* counters, which set flags */
    scr_word *command;
    bool keeps_greater;
} exchange;

/* What a core has in its scratchpad. */
typedef struct worker {
    __attribute__((aligned(SCR_LINE_BYTES))) sort_key *keys; /* at first */
    exchange exchanges[MOST_EXCHANGES];
} worker;

typedef struct sorting {
    uint64_t n;
    uint64_t cores;
    unsigned log2_own; /* of a core's keys */
    mechanism how;
    uint64_t rounds;
    uint64_t warm_up;
    sort_key *input;
    sort_key *output;
    worker workers[MOST_CORES];
    round_times times[MOST_CORES];
    breakdown sum;
} sorting;

static uint64_t own_keys(const sorting *s)
{
    return UINT64_C(1) << s->log2_own;
}

static unsigned exchanges_of(const sorting *s)
{
    unsigned levels = log2_of(s->cores);
    return levels * (levels + 1) / 2;
}

/* ---- Computation ------------------------------------------------------------------------- */

/* Puts pairs that are `apart` in order, `count` of them. */
static inline void order_up(sort_key *keys, uint64_t apart)
{
    for (uint64_t i = 0; i < apart; i++) {
        sort_key low = keys[i], high = keys[i + apart];
        if (low > high) {
            keys[i] = high;
            keys[i + apart] = low;
        }
    }
}

static inline void order_down(sort_key *keys, uint64_t apart)
{
    for (uint64_t i = 0; i < apart; i++) {
        sort_key high = keys[i], low = keys[i + apart];
        if (low > high) {
            keys[i] = low;
            keys[i + apart] = high;
        }
    }
}

/* A step within a core, whose keys begin at number `first` of all: runs of `run` keys go up and
 * down in turn. */
static void order_own(sort_key *keys, uint64_t count, uint64_t first, uint64_t run, uint64_t apart)
{
    for (uint64_t i = 0; i < count; i += 2 * apart) {
        if (((first + i) & run) == 0)
            order_up(keys + i, apart);
        else
            order_down(keys + i, apart);
    }
}

/* A step between cores: of each pair, `theirs` becomes what this one keeps. */
static void keep(const sort_key *ours, sort_key *theirs, uint64_t count, bool is_greater)
{
    if (is_greater) {
        for (uint64_t i = 0; i < count; i++)
            theirs[i] = ours[i] > theirs[i] ? ours[i] : theirs[i];
    } else {
        for (uint64_t i = 0; i < count; i++)
            theirs[i] = ours[i] < theirs[i] ? ours[i] : theirs[i];
    }
}

/* ---- Communication ----------------------------------------------------------------------- */

/* Sends keys to another core, and waits for its own. */
static inline void send_keys(const sorting *s, const exchange *e, const sort_key *keys)
{
    uint64_t count = own_keys(s);
    if (s->how == MECHANISM_DMA) {
        scr_release();
        ni_copy(e->command, e->other_inbox, keys, count * sizeof *keys, e->other_arrivals);
    } else {
        chip_store_words((scr_word *)e->other_inbox, (const scr_word *)keys, count);
        ni_signal(e->other_flag, 1);
    }
    (void)ni_wait(e->flag);
}

/* ---- Work of a core ---------------------------------------------------------------------- */

/* Sorts, and returns where the keys are then. */
static const sort_key *sort(const sorting *s, unsigned self, uint64_t *communication)
{
    const exchange *e = s->workers[self].exchanges;
    uint64_t count = own_keys(s), first = self * count;
    sort_key *keys = s->workers[self].keys;
    for (uint64_t run = 2; run <= s->n; run *= 2) {
        uint64_t apart = run / 2;
        for (; apart >= count; apart /= 2) {
            uint64_t begin = sys_cycles();
            send_keys(s, e, keys);
            *communication += sys_cycles() - begin;
            keep(keys, e->inbox, count, e->keeps_greater);
            keys = e++->inbox;
        }
        for (; apart > 0; apart /= 2)
            order_own(keys, count, first, run, apart);
    }
    return keys;
}

/* Lines that are not keys. */
enum { LINES_BESIDE_KEYS = CHIP_BARRIER_LINES + 3 * MOST_EXCHANGES };

static void make_exchange(const sorting *s, sys_member *self, exchange *e, unsigned other)
{
    uint64_t bytes = own_keys(s) * sizeof *e->inbox;
    e->inbox = scr_alloc(&self->pad, bytes, SCR_LINE_BYTES);
    e->command = scr_alloc_command(&self->pad);
    e->flag = scr_alloc(&self->pad, SCR_WORD_BYTES, SCR_WORD_BYTES);
    e->arrivals = scr_alloc_counter(&self->pad, -(int64_t)bytes, e->flag);
    e->other_inbox = sys_at(self->team, other, e->inbox);
    e->other_flag = sys_at(self->team, other, e->flag);
    e->other_arrivals = sys_at(self->team, other, e->arrivals);
}

static void make(sorting *s, sys_member *self)
{
    worker *w = &s->workers[self->number];
    exchange *e = w->exchanges;
    w->keys = scr_alloc(&self->pad, own_keys(s) * sizeof *w->keys, SCR_LINE_BYTES);
    for (unsigned run = 2; run <= s->cores; run *= 2)
        for (unsigned distance = run / 2; distance > 0; distance /= 2, e++) {
            bool is_upper = self->number & distance, goes_down = self->number & run;
            make_exchange(s, self, e, self->number ^ distance);
            e->keeps_greater = is_upper != goes_down;
        }
}

static void work(sys_member *self, void *argument)
{
    sorting *s = argument;
    uint64_t count = own_keys(s), first = self->number * count;
    round_times *times = &s->times[self->number];
    const sort_key *sorted = NULL;
    sys_counter_barrier barrier = chip_barrier(self);
    make(s, self);
    for (uint64_t round = 0; round < s->warm_up + s->rounds; round++) {
        for (uint64_t i = 0; i < count; i++)
            s->workers[self->number].keys[i] = s->input[first + i];
        uint64_t communication = 0;
        sys_counter_barrier_wait(barrier);
        uint64_t begin = sys_cycles();
        sorted = sort(s, self->number, &communication);
        /* Only now: a store that misses would be waited for by the first signal. */
        *times = (round_times){begin, sys_cycles(), communication};
        sys_counter_barrier_wait(barrier);
        if (self->number == 0 && round >= s->warm_up)
            breakdown_add(&s->sum, s->times, (unsigned)s->cores);
    }
    for (uint64_t i = 0; i < count; i++)
        s->output[first + i] = sorted[i];
}

/* ---- Input and check --------------------------------------------------------------------- */

static bool make_input(sorting *s)
{
    s->input = malloc(s->n * sizeof *s->input);
    s->output = malloc(s->n * sizeof *s->output);
    if (!s->input || !s->output)
        return false;
    uint64_t random = 1;
    for (uint64_t i = 0; i < s->n; i++) {
        random = random * UINT64_C(6364136223846793005) + 1;
        s->input[i] = (sort_key)random;
    }
    return true;
}

static int in_order(const void *a, const void *b)
{
    sort_key left = *(const sort_key *)a, right = *(const sort_key *)b;
    return (left > right) - (left < right);
}

static int check(const sorting *s)
{
    qsort(s->input, s->n, sizeof *s->input, in_order);
    for (uint64_t i = 0; i < s->n; i++)
        if (s->output[i] != s->input[i])
            return program_failed(NAME, "key %" PRIu64 " is not where it should be", i);
    return PROGRAM_OK;
}

/* ---- Command line ------------------------------------------------------------------------ */

static const char *complaint(const sorting *s, const scr_pad *pad)
{
    if (!is_power_of_two(s->cores))
        return "--cores: expected 1, 2 or 4";
    if (!is_power_of_two(s->n) || s->n < s->cores)
        return "--n: expected a power of two, at least --cores";
    uint64_t buffer = (own_keys(s) * sizeof(sort_key) + SCR_LINE_BYTES - 1) / SCR_LINE_BYTES;
    uint64_t lines = (1 + exchanges_of(s)) * buffer + LINES_BESIDE_KEYS;
    if (lines > scr_left(pad) / SCR_LINE_BYTES)
        return "--n: so many do not fit in the scratchpads";
    return NULL;
}

int main(int argc, char **argv)
{
    static sorting s = {.n = 256, .cores = 4, .rounds = 10, .warm_up = 2};
    const char *how = "dma";
    bool json = false;
    const option options[] = {
        {"n", OPTION_NUMBER, &s.n, "N", "keys, a power of two (256)", 2, MOST_N},
        {"cores", OPTION_NUMBER, &s.cores, "N", "1, 2 or 4 (4)", 1, MOST_CORES},
        {"mechanism", OPTION_TEXT, &how, MECHANISM_VALUE, MECHANISM_HELP, 0, 0},
        {"rounds", OPTION_NUMBER, &s.rounds, "N", "sorts that are measured (10)", 1, 1 << 20},
        {"warm-up", OPTION_NUMBER, &s.warm_up, "N", "sorts before that (2)", 0, 1 << 20},
        {"json", OPTION_FLAG, &json, NULL, "print one line of JSON", 0, 0},
        {0},
    };
    const command_line line = {NAME, "[OPTIONS]", about, options, NULL};
    int status = options_parse(&line, argc, argv);
    if (status == OPTIONS_GO_ON)
        status = mechanism_parse(&line, how, &s.how);
    if (status != OPTIONS_GO_ON)
        return status;
    const scr_pad *pad = chip_pad(NAME);
    if (!pad)
        return PROGRAM_FAILED;
    if (is_power_of_two(s.n) && is_power_of_two(s.cores) && s.n >= s.cores)
        s.log2_own = log2_of(s.n) - log2_of(s.cores);
    const char *wrong = complaint(&s, pad);
    if (wrong)
        return options_usage(&line, wrong);
    if (!make_input(&s))
        return program_failed(NAME, "no memory for the keys");

    status = chip_run(NAME, (unsigned)s.cores, work, &s);
    if (status == 0)
        status = check(&s);
    if (status != 0)
        return status;
    breakdown_print(&s.sum, NAME, s.n, s.cores, s.how, s.rounds, json);
    return program_flush(NAME);
}
