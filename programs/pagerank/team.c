#define _POSIX_C_SOURCE 200809L
#include "team.h"

#include <errno.h>
#include <pthread.h>
#include <rackmem.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>

/* After how many looks in vain a thread lets others run, if it counts them. */
#define MOST_POLLS 1000u

/* A core of the model has nobody else to run, and one that only repeats itself, with nothing that
 * counts, sleeps until the line changes. */
#ifdef __riscv
#define POLL_STEP 0u
#else
#define POLL_STEP 1u
#endif

enum { WAIT, GO, CANCELLED };

/* A member's state: the word that its thread writes has a line of its own. */
typedef struct member {
    _Alignas(RACKMEM_LINE_BYTES) atomic_uint round; /* how often it has arrived */
    pthread_t thread;
    team *team;
    uint32_t number;
} member;

struct team {
    _Alignas(RACKMEM_LINE_BYTES) atomic_uint round; /* how often number 0 has released the others */
    atomic_uint state;
    uint32_t threads;
    team_work work;
    void *argument;
    member *members; /* that of number 0 is not used */
};

static void wait_while(const atomic_uint *word, unsigned value)
{
    unsigned polls = 0;
    while (atomic_load_explicit(word, memory_order_acquire) == value) {
        if (polls < MOST_POLLS)
            polls += POLL_STEP;
        else
            sched_yield();
    }
}

/* A round is at most one ahead of another, so that they differ only before and after a meeting. */
void team_gather(team *t, uint32_t number)
{
    unsigned round = atomic_load_explicit(&t->round, memory_order_relaxed);
    if (number > 0) {
        atomic_store_explicit(&t->members[number].round, round + 1, memory_order_release);
        wait_while(&t->round, round);
        return;
    }
    for (uint32_t i = 1; i < t->threads; i++)
        wait_while(&t->members[i].round, round);
}

void team_release(team *t)
{
    unsigned round = atomic_load_explicit(&t->round, memory_order_relaxed);
    atomic_store_explicit(&t->round, round + 1, memory_order_release);
}

void team_barrier(team *t, uint32_t number)
{
    team_gather(t, number);
    if (number == 0)
        team_release(t);
}

/* Threads wait until all exist: they will wait for every one of them. */
static void *member_main(void *argument)
{
    member *m = argument;
    team *t = m->team;
    wait_while(&t->state, WAIT);
    if (atomic_load_explicit(&t->state, memory_order_relaxed) == GO)
        t->work(t, m->number, t->argument);
    return NULL;
}

/* Starts the other threads, works as the first one, and waits for the end of all. */
static int run(team *t)
{
    uint32_t started = 1;
    int error = 0;
    while (started < t->threads && error == 0) {
        member *m = &t->members[started];
        m->team = t;
        m->number = started;
        error = pthread_create(&m->thread, NULL, member_main, m);
        started += error == 0;
    }
    atomic_store_explicit(&t->state, error == 0 ? GO : CANCELLED, memory_order_release);
    if (error == 0)
        t->work(t, 0, t->argument);
    for (uint32_t i = 1; i < started; i++)
        pthread_join(t->members[i].thread, NULL);
    return error;
}

int team_run(uint32_t threads, team_work work, void *argument)
{
    team t = {.threads = threads, .work = work, .argument = argument};
    t.members = aligned_alloc(RACKMEM_LINE_BYTES, threads * sizeof *t.members);
    if (!t.members)
        return ENOMEM;
    for (uint32_t i = 0; i < threads; i++)
        atomic_init(&t.members[i].round, 0);
    int error = run(&t);
    free(t.members);
    return error;
}
