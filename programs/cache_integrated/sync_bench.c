/*
 * sync_bench: cycles of locks, barriers and remote stores (CINI §5.4, Table 1 and Figure 11).
 *
 * Every core does the same over and over: takes and releases a lock with nothing in between, or waits
 * at a barrier. The primitive alone is timed, not the loop around it, and the time that a look at the
 * clock takes is subtracted. Results are means over cores and episodes.
 */
#include <inttypes.h>
#include <string.h>

#include "../program.h"
#include "chip.h"
#include "sync_bench.h"

#define NAME "sync_bench"

static const char about[] =
    "Measures a lock (empty critical section, all cores want it), a barrier, or remote stores.\n"
    "\n"
    "  --lock mrq          a multiple-reader queue with one token; its load waits\n"
    "  --lock mrq-request  the same, asked for by a command, and polled for in the own scratchpad\n"
    "  --lock lockbox      a lock of the prototype's lock box\n"
    "  --lock mcs          the queue lock of Mellor-Crummey and Scott in coherent memory\n"
    "  --barrier counter   counters that notify: one for up to 4 cores, or trees\n"
    "  --barrier mutex     a number that a lock of the lock box guards\n"
    "  --barrier tree      the tree of Mellor-Crummey and Scott in coherent memory\n"
    "  --remote-store      from one core's store to the other's load that sees it\n"
    "\n"
    "  rackmem sim exec cache-integrated -- sync_bench.rv64 --lock mrq --cores 4\n";

static const struct {
    const char *group, *name;
} known[KINDS] = {
    [LOCK_MRQ] = {"lock", "mrq"},
    [LOCK_MRQ_REQUEST] = {"lock", "mrq-request"},
    [LOCK_BOX] = {"lock", "lockbox"},
    [LOCK_MCS] = {"lock", "mcs"},
    [BARRIER_COUNTER] = {"barrier", "counter"},
    [BARRIER_MUTEX] = {"barrier", "mutex"},
    [BARRIER_TREE] = {"barrier", "tree"},
    [REMOTE_STORE] = {"remote-store", "remote-store"},
};

typedef struct bench {
    kind what;
    uint64_t cores;
    uint64_t home; /* whose scratchpad has the primitive */
    uint64_t fan_in;
    uint64_t episodes;
    uint64_t warm_up;
    bool is_inline;
    sys_mcs_lock mcs_lock;
    sys_mcs_node mcs_nodes[SYS_MOST_MEMBERS];
    sys_tree_node tree_nodes[SYS_MOST_MEMBERS];
    scr_word *mrq_lock; /* its queue */
    double timer_cycles;
    sums results[SYS_MOST_MEMBERS];
} bench;

/* ---- What is timed ----------------------------------------------------------------------- */

/* The handle is a copy that nobody else knows of: it is in registers. Code and copy are where they were when
 * the first episodes brought them into the caches. */
static __attribute__((noinline)) sums time_inlined(kind what, const primitive *handle,
                                                   uint64_t episodes)
{
    primitive p = *handle;
    return time_of(what, &p, episodes);
}

static sums time_kind(const bench *b, const primitive *p, uint64_t episodes)
{
    return b->is_inline ? time_inlined(b->what, p, episodes) : time_called(b->what, p, episodes);
}

/* ---- Set-up and measurement -------------------------------------------------------------- */

/* Makes what this core needs of the primitive; every core allocates the same. */
static int make(bench *b, sys_member *self, primitive *p)
{
    unsigned home = (unsigned)b->home;
    memset(p, 0, sizeof *p);
    p->mcs_lock = &b->mcs_lock;
    p->mcs_node = &b->mcs_nodes[self->number];
    p->tree_node = &b->tree_nodes[self->number];
    sys_tree_barrier_make(b->tree_nodes, self->number, (unsigned)b->cores);
    sys_counter_barrier counter_barrier;
    if (sys_counter_barrier_make(&counter_barrier, self, home, (unsigned)b->fan_in) != 0 ||
        sys_mutex_barrier_make(&p->mutex_barrier, self, home, 0) != 0)
        return -1;
    p->command = scr_alloc_command(&self->pad);
    p->token = (scr_word *)scr_alloc(&self->pad, SCR_WORD_BYTES, SCR_WORD_BYTES);
    if (self->number == home)
        b->mrq_lock = sys_mrq_lock_make(&self->pad, (unsigned)b->cores);
    sys_meet(self->team);
    p->counter = global_of(self, counter_barrier.counter);
    p->flag = counter_barrier.flag;
    p->box_lock = 1;
    if (!p->command || !p->token || !b->mrq_lock)
        return -1;
    p->lock = global_of(self, b->mrq_lock);
    return 0;
}

static void work(sys_member *self, void *argument)
{
    bench *b = argument;
    primitive p;
    if (make(b, self, &p) != 0) {
        b->episodes = 0;
        sys_meet(self->team);
        return;
    }
    double timer = chip_timer_cycles();
    if (self->number == 0)
        b->timer_cycles = timer;
    sys_meet(self->team);
    time_kind(b, &p, b->warm_up);
    counter_wait(&p);
    b->results[self->number] = time_kind(b, &p, b->episodes);
}

/* ---- Remote stores ----------------------------------------------------------------------- */

/* One's word in the other's scratchpad, and the one that the other writes here. */
typedef struct line_pair {
    scr_word *there;
    scr_word *here;
} line_pair;

/* Half of the time from a store to the answer of a core that does nothing but answer. */
static uint64_t ping_pong(unsigned number, line_pair w, uint64_t rounds)
{
    uint64_t begin = sys_cycles();
    for (uint64_t i = 0; i < rounds; i++) {
        if (number == 0)
            ni_signal(w.there, 1);
        (void)ni_wait(w.here);
        if (number != 0)
            ni_signal(w.there, 1);
    }
    return sys_cycles() - begin;
}

/* Cores have one clock: what is stored is the time at which it is, and who sees it looks again. */
static uint64_t one_way(unsigned number, line_pair w, uint64_t rounds)
{
    uint64_t sum = 0;
    for (uint64_t i = 0; i < rounds; i++) {
        if (number == 0) {
            *w.there = sys_cycles();
            ni_push();
            (void)ni_wait(w.here);
        } else {
            uint64_t sent;
            while ((sent = *w.here) == 0)
                ;
            sum += sys_cycles() - sent;
            *w.here = 0;
            ni_signal(w.there, 1);
        }
    }
    return sum;
}

static void store_work(sys_member *self, void *argument)
{
    bench *b = argument;
    sys_team *team = self->team;
    line_pair w;
    double timer = chip_timer_cycles();
    if (self->number == 0)
        b->timer_cycles = timer;
    w.here = (scr_word *)scr_alloc(&self->pad, SCR_WORD_BYTES, SCR_WORD_BYTES);
    w.there = (scr_word *)sys_at(team, 1 - self->number, w.here);
    sys_meet(team);
    sums *s = &b->results[self->number];
    ping_pong(self->number, w, b->warm_up);
    s->first = ping_pong(self->number, w, b->episodes);
    one_way(self->number, w, b->warm_up);
    s->second = one_way(self->number, w, b->episodes);
}

/* ---- Output ------------------------------------------------------------------------------ */

static void print_lock(const bench *b, double taking, double releasing, bool json)
{
    const char *name = known[b->what].name;
    if (json)
        printf("{\"program\":\"%s\",\"lock\":\"%s\",\"cores\":%" PRIu64 ",\"home\":%" PRIu64
               ",\"episodes\":%" PRIu64 ",\"acquire_cycles\":%.2f,\"release_cycles\":%.2f"
               ",\"total_cycles\":%.2f,\"timer_cycles\":%.2f}\n",
               NAME, name, b->cores, b->home, b->episodes, taking, releasing, taking + releasing,
               b->timer_cycles);
    else
        printf("lock %s, %" PRIu64 " cores: acquire %.1f, release %.1f, total %.1f cycles\n", name,
               b->cores, taking, releasing, taking + releasing);
}

static void print_barrier(const bench *b, double cycles, bool json)
{
    const char *name = known[b->what].name;
    if (json)
        printf("{\"program\":\"%s\",\"barrier\":\"%s\",\"cores\":%" PRIu64 ",\"home\":%" PRIu64
               ",\"fan_in\":%" PRIu64 ",\"episodes\":%" PRIu64
               ",\"episode_cycles\":%.2f,\"timer_cycles\":%.2f}\n",
               NAME, name, b->cores, b->home, b->fan_in, b->episodes, cycles, b->timer_cycles);
    else
        printf("barrier %s, %" PRIu64 " cores: %.1f cycles\n", name, b->cores, cycles);
}

static void print_stores(const bench *b, bool json)
{
    double rounds = (double)b->episodes;
    double half = (double)b->results[0].first / rounds / 2;
    double direct = (double)b->results[1].second / rounds - b->timer_cycles;
    if (json)
        printf("{\"program\":\"%s\",\"remote_store\":true,\"episodes\":%" PRIu64
               ",\"one_way_cycles\":%.2f,\"ping_pong_cycles\":%.2f,\"timer_cycles\":%.2f}\n",
               NAME, b->episodes, direct, half, b->timer_cycles);
    else
        printf("remote store: one way %.1f cycles, half of a ping-pong %.1f\n", direct, half);
}

static void print(const bench *b, bool json)
{
    double first = 0, second = 0, count = (double)b->episodes * (double)b->cores;
    for (uint64_t i = 0; i < b->cores; i++) {
        first += (double)b->results[i].first;
        second += (double)b->results[i].second;
    }
    first = first / count - b->timer_cycles;
    second = second / count - b->timer_cycles;
    if (b->what == REMOTE_STORE)
        print_stores(b, json);
    else if (b->what < BARRIER_COUNTER)
        print_lock(b, first, second, json);
    else
        print_barrier(b, first, json);
}

/* ---- Command line ------------------------------------------------------------------------ */

/* The kind that is asked for; KINDS if not exactly one. */
static kind choose(const char *lock, const char *barrier, bool stores)
{
    const char *group = lock ? "lock" : barrier ? "barrier" : "remote-store";
    const char *name = lock ? lock : barrier ? barrier : "remote-store";
    if ((lock != NULL) + (barrier != NULL) + stores != 1)
        return KINDS;
    for (unsigned k = 0; k < KINDS; k++)
        if (strcmp(known[k].group, group) == 0 && strcmp(known[k].name, name) == 0)
            return (kind)k;
    return KINDS;
}

int main(int argc, char **argv)
{
    static bench b = {.cores = 4, .fan_in = 4, .episodes = 1000, .warm_up = 20};
    const char *lock = NULL, *barrier = NULL;
    bool stores = false, json = false;
    const option options[] = {
        {"lock", OPTION_TEXT, &lock, "KIND", "measure a lock", 0, 0},
        {"barrier", OPTION_TEXT, &barrier, "KIND", "measure a barrier", 0, 0},
        {"remote-store", OPTION_FLAG, &stores, NULL, "measure remote stores, between two cores", 0,
         0},
        {"cores", OPTION_NUMBER, &b.cores, "N", "that do so (4)", 1, SYS_MOST_MEMBERS},
        {"home", OPTION_NUMBER, &b.home, "N",
         "which of them has the queue, or the last counter, in its\nscratchpad (0)", 0,
         SYS_MOST_MEMBERS - 1},
        {"fan-in", OPTION_NUMBER, &b.fan_in, "N", "arrivals that a counter of a tree counts (4)", 2,
         SYS_MOST_MEMBERS},
        {"episodes", OPTION_NUMBER, &b.episodes, "N", "of each core (1000)", 1, UINT64_C(1) << 40},
        {"warm-up", OPTION_NUMBER, &b.warm_up, "N", "episodes before that (20)", 0,
         UINT64_C(1) << 40},
        {"inline", OPTION_FLAG, &b.is_inline, NULL,
         "compile the library into the loop; otherwise its functions are\ncalled", 0, 0},
        {"json", OPTION_FLAG, &json, NULL, "print one line of JSON", 0, 0},
        {0},
    };
    const command_line line = {NAME, "(--lock KIND | --barrier KIND | --remote-store) [OPTIONS]",
                               about, options, NULL};
    int status = options_parse(&line, argc, argv);
    if (status != OPTIONS_GO_ON)
        return status;
    b.what = choose(lock, barrier, stores);
    if (b.what == KINDS)
        return options_usage(&line, "expected one --lock, --barrier or --remote-store that there is");
    if (b.what == REMOTE_STORE)
        b.cores = 2;
    if (b.home >= b.cores)
        return options_usage(&line, "--home: there are not so many --cores");

    status = chip_run(NAME, (unsigned)b.cores, b.what == REMOTE_STORE ? store_work : work, &b);
    if (status == 0 && b.episodes == 0)
        status = program_failed(NAME, "the scratchpad is too small");
    if (status != 0)
        return status;
    print(&b, json);
    return program_flush(NAME);
}
