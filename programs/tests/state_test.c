/* A process with something of everything that a system keeps for it: threads that wait for each other, sleep and write
 * into a pipe, a file that is read and one that is written, standard input, an event counter, a timer that sends
 * signals and one that is read, a shared mapping of a file, a file in memory. It prints the same whenever and wherever it is interrupted.
 *
 *     state_test IN OUT <INPUT    lines of numbers in IN; their sums go to OUT, and other ones to ./mapped */
#define _GNU_SOURCE
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

#include "check.h"

enum { THREADS = 3, ROUNDS = 24, STEPS = 500, WORDS = 1 << 14, TICKS = 3 };

static uint32_t words[THREADS][WORDS];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static uintptr_t turn;
static int pipe_ends[2];
static int events;
static volatile sig_atomic_t ticks;
static uint64_t *mapped;
static int in_memory;

static void tick(int signal)
{
    (void)signal;
    ticks++;
}

/* Has a signal come every 10 us. */
static void set_timer(void)
{
    struct sigaction action = {.sa_handler = tick, .sa_flags = SA_RESTART};
    struct itimerval timer = {{0, 10}, {0, 10}};
    CHECK(sigaction(SIGALRM, &action, NULL) == 0);
    CHECK(setitimer(ITIMER_REAL, &timer, NULL) == 0);
}

/* Has a timer be due every 10 us. Returns its file. */
static int read_timer(void)
{
    int timer = timerfd_create(CLOCK_MONOTONIC, 0);
    struct itimerspec every = {{0, 10000}, {0, 10000}};
    CHECK(timer >= 0 && timerfd_settime(timer, 0, &every, NULL) == 0);
    return timer;
}

/* Maps a word of ./mapped for each round of each thread. Returns the file. */
static int map_file(void)
{
    size_t length = THREADS * ROUNDS * sizeof *mapped;
    int file = open("mapped", O_RDWR | O_CREAT | O_TRUNC, 0666);
    CHECK(file >= 0 && ftruncate(file, (off_t)length) == 0);
    mapped = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    CHECK(mapped != MAP_FAILED);
    return file;
}

/* The sum of what the threads have stored in a file: by the mapping, or by calls. */
static uint64_t stored_sum(int file)
{
    uint64_t found[THREADS * ROUNDS], sum = 0;
    CHECK(pread(file, found, sizeof found, 0) == (ssize_t)sizeof found);
    for (int i = 0; i < THREADS * ROUNDS; i++)
        sum += found[i];
    return sum;
}

static void wait_for_turn(uintptr_t self)
{
    CHECK(pthread_mutex_lock(&mutex) == 0);
    while (turn != self)
        CHECK(pthread_cond_wait(&changed, &mutex) == 0);
    turn = (turn + 1) % THREADS;
    CHECK(pthread_cond_broadcast(&changed) == 0);
    CHECK(pthread_mutex_unlock(&mutex) == 0);
}

static uint64_t step(uint32_t *own, int round)
{
    uint64_t sum = 0;
    for (uint32_t i = 0; i < STEPS; i++) {
        uint32_t at = (i * 37 + (uint32_t)round * 1021) % WORDS;
        own[at] += i;
        sum += own[(at * 5 + 1) % WORDS];
    }
    return sum;
}

static void *work(void *arg)
{
    uintptr_t self = (uintptr_t)arg;
    uint64_t sum = 0;
    for (int round = 0; round < ROUNDS; round++) {
        sum += step(words[self], round);
        size_t place = self * ROUNDS + (size_t)round;
        mapped[place] = sum;
        CHECK(pwrite(in_memory, &sum, sizeof sum, (off_t)(place * sizeof sum)) == (ssize_t)sizeof sum);
        if (round % 4 == 0)
            wait_for_turn(self);
        if (round % 8 == 5)
            nanosleep(&(struct timespec){.tv_nsec = 5000}, NULL);
    }
    char text[64];
    int length = snprintf(text, sizeof text, "thread %" PRIuPTR " %" PRIu64 "\n", self, sum);
    wait_for_turn(self);
    CHECK(write(pipe_ends[1], text, (size_t)length) == length);
    CHECK(eventfd_write(events, 1) == 0);
    return NULL;
}

/* Sums of the lines of a stream, each written to `to` if there is one. */
static long sums(FILE *from, FILE *to)
{
    char line[64];
    long total = 0;
    for (int count = 1; fgets(line, sizeof line, from); count++) {
        total += strtol(line, NULL, 10);
        if (to)
            fprintf(to, "%d %ld\n", count, total);
        if (count % 32 == 0) {
            printf("line %d\n", count);
            fflush(NULL);
        }
    }
    return total;
}

int main(int argc, char **argv)
{
    CHECK(argc == 3);
    FILE *in = fopen(argv[1], "r"), *out = fopen(argv[2], "w");
    CHECK(in && out && pipe(pipe_ends) == 0);
    events = eventfd(0, 0);
    in_memory = memfd_create("sums", MFD_CLOEXEC);
    CHECK(in_memory >= 0);
    int file = map_file(), timer = read_timer();
    set_timer();
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, work, (void *)i) == 0);
    printf("file: %ld\n", sums(in, out));
    printf("standard input: %ld\n", sums(stdin, NULL));
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    while (ticks < TICKS)
        ;
    uint64_t due = 0;
    for (int i = 0; i < TICKS; i++)
        CHECK(read(timer, &due, sizeof due) == (ssize_t)sizeof due && due > 0);
    CHECK(setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 0}}, NULL) == 0);
    printf("ticks, mapped: %" PRIu64 "\n", stored_sum(file));
    printf("in memory: %" PRIu64 "\n", stored_sum(in_memory));
    eventfd_t count = 0;
    CHECK(eventfd_read(events, &count) == 0 && count == THREADS);
    CHECK(close(pipe_ends[1]) == 0);
    char text[256];
    for (ssize_t length; (length = read(pipe_ends[0], text, sizeof text)) > 0;)
        fwrite(text, 1, (size_t)length, stdout);
    CHECK(fclose(out) == 0 && fclose(in) == 0);
    return 0;
}
