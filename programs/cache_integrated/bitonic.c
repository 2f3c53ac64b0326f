/*
 * bitonic: bitonic sort of keys that stay in scratchpads (CINI §5.3, Figure 9), after the recursive one of
 * the StreamIt benchmarks: a kernel sorts each half, one up and one down, and merges both; a merge
 * compares keys that are half of it apart, and merges each half.
 *
 * A core that has to sort lets another one sort the second half, as long as there are others, and
 * merges what it sends back. So the last merge is one core's: the paper's sort, too, is far from four
 * times as fast on four cores, with less than a hundredth of its time in communication.
 *
 * A key is a word of the prototype, of four bytes. With stores, the second half comes as a store for
 * each key and one to the receiver's flag: instructions of the program. With dma, it is one copy,
 * which nilib's functions prepare, issue and wait for (CINI §5.1). A counter of the sender counts its bytes
 * as they are acknowledged (CINI §3.4); then it tells both, the receiver that the keys are there, and
 * the sender that it may use them again.
 */
#include <inttypes.h>
#include <stdlib.h>

#define SCR_CALLS
#include "../program.h"
#include "chip.h"

#define NAME "bitonic"

static const char about[] =
    "Sorts n keys of 4 bytes on 1, 2 or 4 cores, and prints the cycles that it takes: in all,\n"
    "computing, and communicating.\n"
    "\n"
    "  rackmem sim exec cache-integrated -- bitonic.rv64 --n 64 --cores 2 --mechanism stores\n";

enum { MOST_CORES = 4, MOST_LEVELS = 2, MOST_N = 1 << 16 };

typedef int32_t sort_key;
_Static_assert(sizeof(sort_key) == CHIP_WORD_BYTES, "keys are words");

/* A core's scratchpad, the same layout for all. */
typedef struct worker {
    __attribute__((aligned(SCR_LINE_BYTES))) sort_key *keys; /* of all, at most */
    scr_word *arrived[MOST_LEVELS]; /* flags, of merges of 2 cores' keys, of 4 */
    scr_word *command;
    scr_word *under_way; /* counter */
    scr_word *sent;      /* flag */
    sort_key *second_half; /* of the core that merges this one's keys, and its flag */
    scr_word *announced;
} worker;

typedef struct sorting {
    uint64_t n;
    uint64_t cores;
    mechanism how;
    uint64_t rounds;
    uint64_t warm_up;
    sort_key *input;
    sort_key *output;
    worker workers[MOST_CORES];
    round_times *times; /* of each round, those of all cores */
    breakdown sum;
} sorting;

static uint64_t own_keys(const sorting *s)
{
    return s->n / s->cores;
}

/* ---- Computation ------------------------------------------------------------------------- */

/* The filter pops two keys and pushes both, whatever their order. */
static inline void compare_exchange(sort_key *first, sort_key *second, bool goes_up)
{
    sort_key a = *first, b = *second;
    bool is_in_order = (a <= b) == goes_up;
    *first = is_in_order ? a : b;
    *second = is_in_order ? b : a;
}

/* A bitonic sequence becomes a sorted one. */
static __attribute__((noinline)) void merge(sort_key *keys, uint64_t count, bool goes_up)
{
    uint64_t half = count / 2;
    for (uint64_t i = 0; i < half; i++)
        compare_exchange(&keys[i], &keys[half + i], goes_up);
    if (half > 1) {
        merge(keys, half, goes_up);
        merge(keys + half, half, goes_up);
    }
}

/* Sorts the keys of one core alone. */
static __attribute__((noinline)) void sort_own(sort_key *keys, uint64_t count, bool goes_up)
{
    uint64_t half = count / 2;
    if (half > 1) {
        sort_own(keys, half, true);
        sort_own(keys + half, half, false);
    }
    if (half > 0)
        merge(keys, count, goes_up);
}

/* ---- Communication ----------------------------------------------------------------------- */

/* Keys to the core that merges them, in the registers of a function of its own. */
static __attribute__((noinline)) void send_by_stores(const worker *w, uint64_t count)
{
    chip_store_words((chip_word *)w->second_half, (const chip_word *)w->keys, count);
    scr_release();
    *w->announced = 1;
}

static __attribute__((noinline)) void send_by_copy(const worker *w, uint64_t count)
{
    uint64_t bytes = count * sizeof *w->keys;
    ni_counter_add(w->under_way, -(int64_t)bytes);
    scr_release();
    ni_copy(w->command, w->second_half, w->keys, bytes, w->under_way);
    (void)ni_wait(w->sent);
}

static inline void wait_for_keys(mechanism how, scr_word *arrived)
{
    if (how == MECHANISM_STORES)
        (void)scr_wait(arrived);
    else
        (void)ni_wait(arrived);
}

/* ---- Work of a core ---------------------------------------------------------------------- */

/* Sorts own keys, merges those that others send, and sends all to whoever merges them further. */
static uint64_t sort(const sorting *s, const sys_member *self)
{
    const worker *w = &s->workers[self->number];
    uint64_t count = own_keys(s), communication = 0;
    bool is_second = self->number & 1;
    sort_own(w->keys, count, !is_second);
    for (unsigned level = 0; 1u << level < s->cores; level++, count *= 2) {
        uint64_t begin = sys_cycles();
        if (is_second) {
            if (s->how == MECHANISM_STORES)
                send_by_stores(w, count);
            else
                send_by_copy(w, count);
            return communication + sys_cycles() - begin;
        }
        wait_for_keys(s->how, w->arrived[level]);
        communication += sys_cycles() - begin;
        is_second = self->number >> (level + 1) & 1;
        merge(w->keys, 2 * count, !is_second);
    }
    return communication;
}

/* Lines that are not keys. */
enum { LINES_BESIDE_KEYS = CHIP_BARRIER_LINES + MOST_LEVELS + 3 };

static void make(sorting *s, sys_member *self)
{
    worker *w = &s->workers[self->number];
    /* A core merges until it is the second of two. */
    unsigned level = self->number ? (unsigned)__builtin_ctz(self->number) : 0;
    unsigned parent = self->number & (self->number - 1);
    w->keys = scr_alloc(&self->pad, s->n * sizeof *w->keys, SCR_LINE_BYTES);
    for (unsigned i = 0; i < MOST_LEVELS; i++)
        w->arrived[i] = scr_alloc(&self->pad, SCR_WORD_BYTES, SCR_WORD_BYTES);
    w->sent = scr_alloc(&self->pad, SCR_WORD_BYTES, SCR_WORD_BYTES);
    w->command = scr_alloc_command(&self->pad);
    w->under_way = scr_alloc(&self->pad, SCR_LINE_BYTES, SCR_LINE_BYTES);
    w->second_half = sys_at(self->team, parent, w->keys + (own_keys(s) << level));
    w->announced = sys_at(self->team, parent, w->arrived[level]);
    scr_word *const told[SCR_COUNTER_TARGETS] = {w->sent, w->announced, NULL, NULL};
    scr_mark_counter(w->under_way, 0, 1, told);
}

static void work(sys_member *self, void *argument)
{
    sorting *s = argument;
    uint64_t count = own_keys(s), first = self->number * count;
    sort_key *keys;
    sys_counter_barrier barrier = chip_barrier(self);
    make(s, self);
    keys = s->workers[self->number].keys;
    for (uint64_t round = 0; round < s->warm_up + s->rounds; round++) {
        for (uint64_t i = 0; i < count; i++)
            keys[i] = s->input[first + i];
        sys_counter_barrier_wait(barrier);
        uint64_t begin = sys_cycles();
        uint64_t communication = sort(s, self), end = sys_cycles();
        /* Only now: a store that misses would be waited for by the first signal. */
        if (round >= s->warm_up)
            s->times[(round - s->warm_up) * s->cores + self->number] =
                (round_times){begin, end, communication};
        sys_counter_barrier_wait(barrier);
    }
    if (self->number == 0)
        for (uint64_t i = 0; i < s->n; i++)
            s->output[i] = keys[i];
}

/* ---- Input and check --------------------------------------------------------------------- */

static bool make_input(sorting *s)
{
    s->input = malloc(s->n * sizeof *s->input);
    s->output = malloc(s->n * sizeof *s->output);
    s->times = aligned_alloc(SCR_LINE_BYTES, s->rounds * s->cores * sizeof *s->times);
    if (!s->input || !s->output || !s->times)
        return false;
    uint64_t random = 1;
    for (uint64_t i = 0; i < s->n; i++) {
        random = random * UINT64_C(6364136223846793005) + 1;
        s->input[i] = (sort_key)(random >> 32);
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
    uint64_t bytes = s->n * sizeof(sort_key) + LINES_BESIDE_KEYS * SCR_LINE_BYTES;
    if (bytes > scr_left(pad))
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
        {"rounds", OPTION_NUMBER, &s.rounds, "N", "sorts that are measured (10)", 1, 1 << 16},
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
    for (uint64_t round = 0; round < s.rounds; round++)
        breakdown_add(&s.sum, s.times + round * s.cores, (unsigned)s.cores);
    breakdown_print(&s.sum, NAME, s.n, s.cores, s.how, s.rounds, json);
    return program_flush(NAME);
}
