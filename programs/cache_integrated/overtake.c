/*
 * overtake: round trips of acknowledgements, answers and stores while other cores send data to the same
 * core (CINI §4: three levels of priority in the network).
 *
 * Core 0 has something come back from core 1, one thing at a time, in three ways:
 *
 *   - a message of a word, until its acknowledgement has been added to a counter of core 0;
 *   - a load of a word of core 1's scratchpad;
 *   - a store to core 1, which stores back as soon as it sees it.
 *
 * All other cores copy to core 0's scratchpad meanwhile, as fast as that takes it, unless --idle says
 * that they do not. What comes back has the first, the second and the third priority then.
 */
#include <inttypes.h>

#include "../program.h"
#include "chip.h"

#define NAME "overtake"

static const char about[] =
    "Measures what comes back to a core to which others copy: an acknowledgement, the answer to a load,\n"
    "and a store.\n"
    "\n"
    "  rackmem sim exec cache-integrated --set noc.priorities=false -- overtake.rv64\n";

enum { MOST_CORES = 16, COPIES = 4, COPY_BYTES = 1024, BACK = 1 /* the core that answers */ };

/* A core's scratchpad, the same layout for all. */
typedef struct worker {
    scr_word *command[COPIES];
    scr_word *under_way[COPIES]; /* counters of a copy's bytes, and what they set */
    scr_word *done[COPIES];
    scr_word *word;   /* that others store to or load */
    scr_word *stop;
    scr_word *acked;  /* a counter that is only looked at */
    char *source;
    char *sink;       /* COPY_BYTES from each core */
} worker;

/* Sums of one kind of round trip, the clock's own time included. */
typedef struct round_trips {
    uint64_t acknowledgement, answer, store;
} round_trips;

/* Bytes that a core has copied, and the time that it took. */
typedef struct load {
    __attribute__((aligned(SCR_LINE_BYTES))) uint64_t bytes;
    uint64_t cycles;
} load;

typedef struct bench {
    uint64_t cores;
    uint64_t rounds, warm_up;
    bool is_idle;
    bool has_no_room;
    double timer_cycles;
    round_trips sum;
    load loads[MOST_CORES];
} bench;

/* ---- Cores that copy --------------------------------------------------------------------- */

static void copy_until_stopped(const sys_member *self, const worker *w, load *own)
{
    char *there = sys_at(self->team, 0, w->sink + self->number * COPY_BYTES);
    uint64_t begin = sys_cycles(), copies = 0;
    for (unsigned i = 0; *w->stop == 0; i = (i + 1) % COPIES, copies++) {
        if (copies >= COPIES)
            (void)ni_wait(w->done[i]);
        ni_copy(w->command[i], there, w->source, COPY_BYTES, w->under_way[i]);
    }
    for (unsigned i = 0; i < COPIES && i < copies; i++)
        (void)ni_wait(w->done[i]);
    own->bytes = copies * COPY_BYTES;
    own->cycles = sys_cycles() - begin;
}

/* ---- Round trips ------------------------------------------------------------------------- */

static uint64_t acknowledged(const worker *w, scr_word *there)
{
    const uint64_t word = 1;
    int64_t wanted = ni_counter_value(w->acked) + SCR_WORD_BYTES;
    uint64_t begin = sys_cycles();
    ni_message(w->command[0], there, &word, 1, w->acked);
    while (ni_counter_value(w->acked) != wanted)
        ;
    return sys_cycles() - begin;
}

static uint64_t answered(const scr_word *there)
{
    uint64_t begin = sys_cycles();
    uint64_t word = *there;
    __asm__ volatile("" : : "r"(word));
    return sys_cycles() - begin;
}

static uint64_t stored(const worker *w, scr_word *there)
{
    uint64_t begin = sys_cycles();
    ni_signal(there, 1);
    (void)ni_wait(w->word);
    return sys_cycles() - begin;
}

static round_trips measure(const sys_member *self, const worker *w, uint64_t rounds)
{
    /* A word that nobody waits for is beside the one that core 1 answers. */
    scr_word *echo = sys_at(self->team, BACK, w->word), *quiet = echo + 1;
    round_trips sum = {0, 0, 0};
    for (uint64_t i = 0; i < rounds; i++) {
        sum.acknowledgement += acknowledged(w, quiet);
        sum.answer += answered(quiet);
        sum.store += stored(w, echo);
    }
    return sum;
}

static void answer_stores(const sys_member *self, const worker *w, uint64_t rounds)
{
    scr_word *there = sys_at(self->team, 0, w->word);
    for (uint64_t i = 0; i < rounds; i++) {
        (void)ni_wait(w->word);
        ni_signal(there, 1);
    }
}

/* ---- Work of a core ---------------------------------------------------------------------- */

static bool make(const bench *b, sys_member *self, worker *w)
{
    scr_pad *pad = &self->pad;
    bool is_there = true;
    for (unsigned i = 0; i < COPIES; i++) {
        w->command[i] = scr_alloc_command(pad);
        w->done[i] = scr_alloc(pad, SCR_WORD_BYTES, SCR_WORD_BYTES);
        w->under_way[i] = scr_alloc_counter(pad, -COPY_BYTES, w->done[i]);
        is_there = is_there && w->command[i] && w->done[i] && w->under_way[i];
    }
    w->word = scr_alloc(pad, SCR_LINE_BYTES, SCR_LINE_BYTES);
    w->stop = scr_alloc(pad, SCR_WORD_BYTES, SCR_WORD_BYTES);
    w->acked = scr_alloc_counter(pad, 0, NULL);
    w->source = scr_alloc(pad, COPY_BYTES, SCR_LINE_BYTES);
    w->sink = scr_alloc(pad, b->cores * COPY_BYTES, SCR_LINE_BYTES);
    return is_there && w->word && w->stop && w->acked && w->source && w->sink;
}

static void work(sys_member *self, void *argument)
{
    bench *b = argument;
    worker w;
    if (!make(b, self, &w))
        b->has_no_room = true;
    double timer = chip_timer_cycles();
    sys_meet(self->team);
    if (b->has_no_room)
        return;
    if (self->number == 0) {
        b->timer_cycles = timer;
        (void)measure(self, &w, b->warm_up);
        b->sum = measure(self, &w, b->rounds);
        for (unsigned to = BACK + 1; to < b->cores; to++)
            ni_signal(sys_at(self->team, to, w.stop), 1);
    } else if (self->number == BACK) {
        answer_stores(self, &w, b->warm_up + b->rounds);
    } else if (!b->is_idle) {
        copy_until_stopped(self, &w, &b->loads[self->number]);
    }
    sys_meet(self->team);
}

/* ---- Output and command line ------------------------------------------------------------- */

static void print(const bench *b, bool json)
{
    double bytes = 0, rounds = (double)b->rounds;
    uint64_t cycles = 1;
    for (unsigned i = 0; i < b->cores; i++) {
        bytes += (double)b->loads[i].bytes;
        cycles = b->loads[i].cycles > cycles ? b->loads[i].cycles : cycles;
    }
    double rate = bytes / (double)cycles;
    double acknowledgement = (double)b->sum.acknowledgement / rounds - b->timer_cycles;
    double answer = (double)b->sum.answer / rounds - b->timer_cycles;
    double store = (double)b->sum.store / rounds - b->timer_cycles;
    if (json)
        printf("{\"program\":\"%s\",\"cores\":%" PRIu64 ",\"rounds\":%" PRIu64
               ",\"load_bytes_per_cycle\":%.3f,\"acknowledgement_cycles\":%.2f,\"answer_cycles\":%.2f"
               ",\"store_cycles\":%.2f,\"timer_cycles\":%.2f}\n",
               NAME, b->cores, b->rounds, rate, acknowledgement, answer, store, b->timer_cycles);
    else
        printf("%.2f bytes per cycle beside: acknowledgement %.1f, answer %.1f, store %.1f cycles\n",
               rate, acknowledgement, answer, store);
}

int main(int argc, char **argv)
{
    static bench b = {.cores = 4, .rounds = 200, .warm_up = 20};
    bool json = false;
    const option options[] = {
        {"cores", OPTION_NUMBER, &b.cores, "N", "all but two of them copy (4)", 2, MOST_CORES},
        {"idle", OPTION_FLAG, &b.is_idle, NULL, "they do not", 0, 0},
        {"rounds", OPTION_NUMBER, &b.rounds, "N", "round trips of each kind (200)", 1, 1 << 20},
        {"warm-up", OPTION_NUMBER, &b.warm_up, "N", "round trips before that (20)", 0, 1 << 20},
        {"json", OPTION_FLAG, &json, NULL, "print one line of JSON", 0, 0},
        {0},
    };
    const command_line line = {NAME, "[OPTIONS]", about, options, NULL};
    int status = options_parse(&line, argc, argv);
    if (status != OPTIONS_GO_ON)
        return status;
    status = chip_run(NAME, (unsigned)b.cores, work, &b);
    if (status == 0 && b.has_no_room)
        status = program_failed(NAME, "the scratchpad is too small");
    if (status != 0)
        return status;
    print(&b, json);
    return program_flush(NAME);
}
