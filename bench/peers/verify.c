/* Writes pages and verifies each page that it reads, until it is told to end: the program that bench/faults runs on
 * borrowed memory.
 *
 *     verify BOARD PAGES THREADS
 *
 * A page holds a hash of its number and its generation. The generations are in memory that is never borrowed, so a page
 * of zeros, a page of another place and an old page are all noticed. Each thread has pages of its own. Children of fork
 * verify all pages as they were at the fork, and write to some. BOARD is a file that bench/faults reads and writes
 * meanwhile; its layout is `struct board`.
 *
 * With -DREGION the pages are a region of `rackmem/borrow.h`, without forks.
 *
 * Exit status: 0 as told, 2 for a mistake in using it, 3 for wrong bytes. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#ifdef REGION
#include <rackmem.h>
#include <rackmem/borrow.h>
#endif

enum { PAGE = 4096, WORDS = PAGE / 8, MAX_PAGES = 1 << 18, MAX_THREADS = 8, CHILDREN = 2 };

/* Orders of bench/faults. */
enum { GROW = 1, END = 2 };

struct board {
    _Atomic uint64_t orders, is_ready, wrong, forks, forks_refused;
    /* Numbers of children of fork by the way in which they ended. */
    _Atomic uint64_t good, bad, sigbus, others;
    /* Pages that each thread, and each child that runs, has verified or written. */
    _Atomic uint64_t threads[MAX_THREADS], children[CHILDREN], pids[CHILDREN];
    /* Number of forks when the child began. */
    _Atomic uint64_t last_good;
    char text[512];
};

static struct board *board;
static char *pages;
static size_t page_count, thread_count;
/* Never borrowed: it is there before the program begins. 0 is a page of zeros. */
static uint32_t generations[MAX_PAGES];
/* Held while a page is written, and all of them around a fork: what a child sees is whole pages. */
static pthread_mutex_t locks[MAX_THREADS];

static void fail(const char *what)
{
    fprintf(stderr, "verify: %s: %s\n", what, strerror(errno));
    exit(2);
}

static uint64_t mix(uint64_t z)
{
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

static uint64_t next_random(uint64_t *state)
{
    return mix(*state += 0x9e3779b97f4a7c15u);
}

/* The value of a word of a page. */
static uint64_t expected(size_t page, uint32_t generation, size_t word)
{
    if (generation == 0)
        return 0;
    uint64_t key = (uint64_t)page << 32 | generation;
    return word == 0 ? key : mix(key * 0x9e3779b97f4a7c15u + word);
}

static uint64_t *words(size_t page)
{
    return (uint64_t *)(pages + page * PAGE);
}

static void report_wrong(size_t page, const uint64_t *found, size_t word, const char *who)
{
    uint32_t wanted = generations[page];
    size_t wrong = 0, zeros = 0;
    for (size_t i = 0; i < WORDS; i++) {
        wrong += found[i] != expected(page, wanted, i);
        zeros += found[i] == 0;
    }
    if (atomic_fetch_add(&board->wrong, 1) == 0)
        snprintf(board->text, sizeof board->text,
                 "%s %d: page %zu, generation %u: word %zu is %#llx, not %#llx; %zu of %d words are wrong, %zu are 0; "
                 "the first names page %llu, generation %llu",
                 who, (int)getpid(), page, wanted, word, (unsigned long long)found[word],
                 (unsigned long long)expected(page, wanted, word), wrong, WORDS, zeros,
                 (unsigned long long)(found[0] >> 32), (unsigned long long)(found[0] & UINT32_MAX));
    _exit(3);
}

static void check(size_t page, const uint64_t *found, const char *who)
{
    for (size_t i = 0; i < WORDS; i++)
        if (found[i] != expected(page, generations[page], i))
            report_wrong(page, found, i, who);
}

static void write_page(size_t page)
{
    uint32_t generation = generations[page] + 1;
    for (size_t i = 0; i < WORDS; i++)
        words(page)[i] = expected(page, generation, i);
    generations[page] = generation;
}

static size_t active_pages(void)
{
    return board->orders & GROW ? page_count : page_count / 2;
}

/* Makes a page zero; false if that cannot be. */
static bool discard(size_t page)
{
#ifdef REGION
    return rackmem_borrow_discard(words(page), PAGE) == 0;
#else
    return madvise(words(page), PAGE, MADV_DONTNEED) == 0;
#endif
}

/* Has the kernel read pages: what it cannot reach must be a short count or EFAULT, and then a touch brings it. */
static void check_by_kernel(int file, size_t page)
{
    static _Thread_local uint64_t copy[WORDS];
    size_t done = 0;
    while (done < PAGE) {
        ssize_t n = pwrite(file, pages + page * PAGE + done, PAGE - done, (off_t)done);
        if (n > 0)
            done += (size_t)n;
        else if (n < 0 && errno == EFAULT)
            (void)*(volatile char *)(pages + page * PAGE + done);
        else if (n == 0 || errno != EINTR)
            fail("pwrite");
    }
    if (pread(file, copy, PAGE, 0) != PAGE)
        fail("pread");
    check(page, copy, "system call");
}

static void *work(void *argument)
{
    size_t number = (uintptr_t)argument;
    size_t share = page_count / 2 / thread_count;
    uint64_t state = mix(number + 1) ^ (uint64_t)getpid();
    int file = memfd_create("verify", 0);
    if (file < 0)
        fail("memfd_create");
    while (!(board->orders & END)) {
        uint64_t random = next_random(&state);
        /* Each thread has a part of both halves. */
        size_t half = active_pages() > page_count / 2 && random >> 63 ? page_count / 2 : 0;
        size_t first = half + number * share + (random >> 8) % share;
        size_t end = half + (number + 1) * share;
        unsigned kind = random & 0xff;
        size_t count = kind < 100 || kind >= 250 ? 1 : kind < 150 ? 48 : 16;
        for (size_t page = first; page < end && page < first + count; page++) {
            if (kind >= 254) {
                check_by_kernel(file, page);
            } else if (kind < 60 || (kind >= 100 && kind < 150)) {
                check(page, words(page), "thread");
            } else {
                check(page, words(page), "thread");
                pthread_mutex_lock(&locks[number]);
                if (kind >= 250 && discard(page))
                    generations[page] = 0;
                else
                    write_page(page);
                pthread_mutex_unlock(&locks[number]);
            }
            board->threads[number]++;
        }
    }
    close(file);
    return NULL;
}

#ifndef REGION
static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

/* Verifies all pages in an order of its own, at least once. */
static void child(size_t slot, uint64_t seed)
{
    double end = now() + (double)(seed % 1500) / 1000;
    do {
        size_t count = page_count, step = (seed | 1) % count, page = seed % count;
        while (count % step == 0 && step > 1)
            step -= 2;
        for (size_t i = 0; i < count; i++, page = (page + step) % count) {
            check(page, words(page), "child");
            if (next_random(&seed) % 16 == 0)
                write_page(page);
            board->children[slot]++;
            if (board->orders & END)
                _exit(0);
        }
    } while (now() < end);
    _exit(0);
}

static void start_child(size_t slot, uint64_t seed)
{
    for (size_t i = 0; i < thread_count; i++)
        pthread_mutex_lock(&locks[i]);
    pid_t pid = fork();
    if (pid == 0)
        child(slot, seed);
    for (size_t i = 0; i < thread_count; i++)
        pthread_mutex_unlock(&locks[i]);
    if (pid < 0) {
        board->forks_refused++;
        return;
    }
    board->pids[slot] = (uint64_t)pid;
    board->forks++;
}

static void bury(size_t slot, int status, uint64_t began)
{
    board->pids[slot] = 0;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        board->good++;
        if (board->last_good < began)
            board->last_good = began;
    } else if (WIFEXITED(status) && WEXITSTATUS(status) == 3) {
        board->bad++;
    } else if (WIFSIGNALED(status) && WTERMSIG(status) == SIGBUS) {
        board->sigbus++;
    } else {
        board->others++;
    }
}

/* Always has children that verify. */
static void keep_children(void)
{
    uint64_t state = (uint64_t)getpid(), began[CHILDREN] = {0};
    struct timespec pause = {0, 20000000};
    for (;;) {
        int is_over = (board->orders & END) != 0, running = 0;
        for (size_t slot = 0; slot < CHILDREN; slot++) {
            int status;
            pid_t pid = (pid_t)board->pids[slot];
            if (pid != 0 && waitpid(pid, &status, WNOHANG) == pid)
                bury(slot, status, began[slot]);
            if (board->pids[slot] == 0 && !is_over) {
                began[slot] = board->forks + 1;
                start_child(slot, next_random(&state));
            }
            running += board->pids[slot] != 0;
        }
        if (is_over && running == 0)
            return;
        nanosleep(&pause, NULL);
    }
}
#endif

static void *get_memory(size_t bytes)
{
#ifdef REGION
    rackmem_borrow_options options = {0};
    const char *copies = getenv("VERIFY_COPIES"), *inlined = getenv("VERIFY_INLINE");
    void *memory = NULL;
    options.copies = copies ? (unsigned)atoi(copies) : 1;
    options.delivery = inlined ? 1 : 0;
    options.cache_bytes = bytes / 8;
    int error = rackmem_borrow(bytes, &options, &memory);
    if (error) {
        fprintf(stderr, "verify: %s\n", rackmem_last_error());
        exit(2);
    }
    return memory;
#else
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        fail("mmap");
    return memory;
#endif
}

int main(int argc, char **argv)
{
    if (argc != 4)
        return fprintf(stderr, "usage: verify BOARD PAGES THREADS\n"), 2;
    page_count = strtoull(argv[2], NULL, 10);
    thread_count = strtoull(argv[3], NULL, 10);
    if (thread_count < 1 || thread_count > MAX_THREADS || page_count > MAX_PAGES || page_count < 64 * thread_count)
        return fprintf(stderr, "verify: so many pages or threads are not possible\n"), 2;
    int file = open(argv[1], O_RDWR);
    if (file < 0)
        fail(argv[1]);
    board = mmap(NULL, sizeof *board, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (board == MAP_FAILED)
        fail("mmap of the board");
    close(file);
    pages = get_memory(page_count * PAGE);
    for (size_t i = 0; i < thread_count; i++)
        pthread_mutex_init(&locks[i], NULL);
    for (size_t page = 0; page < page_count / 2; page++)
        write_page(page);
    board->is_ready = 1;
    pthread_t threads[MAX_THREADS];
    for (size_t i = 0; i < thread_count; i++)
        if (pthread_create(&threads[i], NULL, work, (void *)i) != 0)
            fail("pthread_create");
#ifndef REGION
    keep_children();
#endif
    for (size_t i = 0; i < thread_count; i++)
        pthread_join(threads[i], NULL);
    for (size_t page = 0; page < page_count; page++)
        check(page, words(page), "last pass");
#ifdef REGION
    rackmem_borrow_return(pages);
#endif
    return 0;
}
