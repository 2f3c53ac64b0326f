/* Runs coroutines on stacks of borrowed memory, in the first thread and in another one. Says "ok" at the end. */

#include "borrowed.h"

#include <pthread.h>
#include <signal.h>
#include <ucontext.h>
#include <unistd.h>

enum { COROUTINES = 48, ROUNDS = 3, STACK = 1 << 20, DEPTH = 20 };

static ucontext_t back, all[COROUTINES];
static char *other;

static int descend(int number, int depth)
{
    volatile unsigned char bytes[8192];
    memset((void *)bytes, number + depth, sizeof bytes);
    if (depth == 0)
        swapcontext(&all[number], &back);
    else
        CHECK(descend(number, depth - 1) == number + depth - 1);
    CHECK(bytes[17] == (unsigned char)(number + depth) && bytes[8000] == bytes[17]);
    return number + depth;
}

static void coroutine(int number)
{
    for (int round = 0; round < ROUNDS; round++)
        descend(number, DEPTH);
}

static void *run(void *argument)
{
    stack_t stack;
    CHECK(sigaltstack(NULL, &stack) == 0 && stack.ss_flags == SS_DISABLE);
    for (int number = 0; number < COROUTINES; number++) {
        CHECK(getcontext(&all[number]) == 0);
        all[number].uc_stack.ss_sp = malloc(STACK);
        all[number].uc_stack.ss_size = STACK;
        all[number].uc_link = &back;
        makecontext(&all[number], (void (*)(void))coroutine, 1, number);
    }
    for (int round = 0; round <= ROUNDS; round++) {
        for (int number = 0; number < COROUTINES; number++)
            CHECK(swapcontext(&back, &all[number]) == 0);
        fill(other, 16 * MIB, round); /* the stacks leave */
    }
    for (int number = 0; number < COROUTINES; number++)
        free(all[number].uc_stack.ss_sp);
    return argument;
}

/* Alternate stacks of the program's own are as it sets them. */
static void check_own_stack(void)
{
    stack_t own = {.ss_sp = malloc(64 * 1024), .ss_size = 64 * 1024}, seen;
    CHECK(sigaltstack(&own, &seen) == 0 && seen.ss_flags == SS_DISABLE);
    CHECK(sigaltstack(NULL, &seen) == 0 && seen.ss_flags == 0 && seen.ss_size == own.ss_size);
    own.ss_flags = SS_DISABLE;
    CHECK(sigaltstack(&own, &seen) == 0 && seen.ss_flags == 0);
}

static void *end(void *argument)
{
    run(argument);
    pthread_exit(argument);
}

static void *sleep_long(void *argument)
{
    sleep(600);
    return argument;
}

int main(void)
{
    pthread_t thread;
    void *result;
    other = map(16 * MIB);
    run(NULL);
    check_own_stack();
    run(NULL);
    CHECK(pthread_create(&thread, NULL, end, other) == 0);
    CHECK(pthread_join(thread, &result) == 0 && result == other);
    CHECK(pthread_create(&thread, NULL, sleep_long, NULL) == 0 && pthread_cancel(thread) == 0);
    CHECK(pthread_join(thread, &result) == 0 && result == PTHREAD_CANCELED);
    puts("ok");
    return 0;
}
