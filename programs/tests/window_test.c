/*
 * window_test: whether borrowed memory holds what is stored to it, whatever the caches do with stores
 * (TSM §2.1.2). Two nodes: node 0 writes and reads what it borrows of node 1, which looks at what it
 * lends. Nothing keeps the caches of the two coherent, so each lets its caches forget before the other
 * one is told.
 */
#define _DEFAULT_SOURCE
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "../program.h"
#include "../tsm/node.h"

#define NAME "window_test"

static const char about[] =
    "Tests borrowed memory on machines of the model; every test that is passed has a line.\n"
    "\n"
    "  rackmem sim exec tsm-sim -n 2 --set llc.size_bytes=64K -- window_test.rv64 --llc-bytes 64K\n";

enum { WORDS = 8, FLAG_WORDS = 4 * WORDS };

typedef struct test {
    uint64_t llc_bytes;
    uint64_t bytes;              /* of what is written */
    volatile uint64_t *borrowed; /* flags, then data */
    volatile uint64_t *lent;
    volatile uint64_t *own; /* larger than all caches */
    bool has_engine;
} test;

static uint64_t pattern(uint64_t at, uint64_t round)
{
    return (at + 1) * 0x9e3779b97f4a7c15u ^ round * 0xbf58476d1ce4e5b9u;
}

static int wrong(const char *what, uint64_t at, uint64_t found, uint64_t expected)
{
    return program_failed(NAME, "%s: word %" PRIu64 " is %" PRIx64 ", should be %" PRIx64, what, at,
                          found, expected);
}

static int passed(const char *what)
{
    printf("PASS %s\n", what);
    return PROGRAM_OK;
}

/* Fills the caches with something else: what they have changed is written back. */
static void forget(const test *t)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    uint64_t lines = 4 * t->llc_bytes / LINE_BYTES;
    for (unsigned again = 0; again < 2; again++)
        for (uint64_t line = 0; line < lines; line++)
            (void)t->own[line * WORDS];
}

/* Tells the other node how far this one is, and waits until it is as far. */
static void tell(const test *t, uint64_t step)
{
    t->borrowed[0] = step;
    forget(t);
}

static void await(const test *t, uint64_t step)
{
    while (__atomic_load_n((const uint64_t *)(uintptr_t)t->lent, __ATOMIC_ACQUIRE) < step)
        ;
}

static int compare(const char *what, const volatile uint64_t *words, uint64_t count, uint64_t round)
{
    for (uint64_t i = 0; i < count; i++)
        if (words[i] != pattern(i, round))
            return wrong(what, i, words[i], pattern(i, round));
    return PROGRAM_OK;
}

static void fill(volatile uint64_t *words, uint64_t count, uint64_t round)
{
    for (uint64_t i = 0; i < count; i++)
        words[i] = pattern(i, round);
}

/* Pieces of words, by neighbouring stores of all sizes and by single ones. */
static void patch(volatile uint64_t *words, uint64_t count)
{
    for (uint64_t i = 0; i < count; i++) {
        volatile uint8_t *bytes = (volatile uint8_t *)(words + i);
        volatile uint16_t *halves = (volatile uint16_t *)(words + i);
        if (i % 3 == 0)
            bytes[i % 8] = (uint8_t)~(pattern(i, 1) >> i % 8 * 8);
        if (i % 5 == 0)
            halves[i % 4] = (uint16_t)i;
    }
}

static uint64_t patched(uint64_t i)
{
    uint64_t word = pattern(i, 1);
    if (i % 3 == 0)
        word ^= (uint64_t)0xff << i % 8 * 8;
    if (i % 5 == 0) {
        unsigned shift = (unsigned)(i % 4 * 16);
        word = (word & ~((uint64_t)0xffff << shift)) | (i & 0xffff) << shift;
    }
    return word;
}

/* ---- Node 0 -------------------------------------------------------------------------------- */

static int stores_and_loads(const test *t)
{
    volatile uint64_t *data = t->borrowed + FLAG_WORDS;
    uint64_t count = t->bytes / sizeof *data;
    fill(data, count, 1);
    if (compare("what was stored", data, count, 1) != PROGRAM_OK)
        return PROGRAM_FAILED;
    patch(data, count);
    for (uint64_t i = count; i-- > 0;)
        if (data[i] != patched(i))
            return wrong("what was stored in pieces", i, data[i], patched(i));
    return passed("stores");
}

typedef struct half {
    const test *t;
    bool second;
} half;

/* Two cores write to neighbouring words of the same lines. */
static void *write_half(void *argument)
{
    const half *h = argument;
    volatile uint64_t *data = h->t->borrowed + FLAG_WORDS;
    uint64_t count = h->t->bytes / sizeof *data;
    for (uint64_t i = h->second; i < count; i += 2)
        data[i] = pattern(i, 2);
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    return NULL;
}

static int two_cores(const test *t)
{
    half halves[2] = {{t, false}, {t, true}};
    pthread_t other;
    bool both = pthread_create(&other, NULL, write_half, &halves[1]) == 0;
    if (!both)
        write_half(&halves[1]);
    write_half(&halves[0]);
    if (both)
        pthread_join(other, NULL);
    const volatile uint64_t *data = t->borrowed + FLAG_WORDS;
    if (compare("what two cores stored", data, t->bytes / sizeof *data, 2) != PROGRAM_OK)
        return PROGRAM_FAILED;
    return passed("two-cores");
}

/* Copies and waits: copies do not wait for each other. */
static int copy(const window_engine *engine, volatile uint64_t *to, const volatile uint64_t *from,
                uint64_t bytes, uint64_t block)
{
    int64_t posted = window_copy((void *)(uintptr_t)to, (const void *)(uintptr_t)from, bytes, block);
    if (posted < 0)
        return program_failed(NAME, "a copy: %s", strerror((int)-posted));
    while (window_done(engine) < (uint64_t)posted)
        ;
    return PROGRAM_OK;
}

/* Copies to borrowed memory and back, in blocks of several sizes. */
static int copies(const test *t)
{
    window_engine engine;
    int64_t error = window_open_engine(&engine);
    if (error < 0)
        return program_failed(NAME, "no DMA engine: %s", strerror((int)-error));
    volatile uint64_t *data = t->borrowed + FLAG_WORDS;
    uint64_t bytes = t->bytes / 2, count = bytes / sizeof *data;
    uint64_t *from = (uint64_t *)(uintptr_t)t->own, *to = from + count;
    for (uint64_t block = LINE_BYTES; block <= bytes; block *= 4) {
        fill(from, count, block);
        forget(t);
        for (uint64_t at = 0; at < count; at += 8 * block / sizeof *from) {
            uint64_t some = (count - at) * sizeof *from;
            some = some < 8 * block ? some : 8 * block;
            if (copy(&engine, data + at, from + at, some, block) != PROGRAM_OK
                || copy(&engine, to + at, data + at, some, block) != PROGRAM_OK)
                return PROGRAM_FAILED;
        }
        if (compare("what came back by DMA", to, count, block) != PROGRAM_OK)
            return PROGRAM_FAILED;
    }
    /* The operating system does not look at what others may change. */
    t->borrowed[1] = 0;
    if (write(STDERR_FILENO, (const void *)(uintptr_t)(t->borrowed + 1), 1) >= 0)
        return program_failed(NAME, "a system call took borrowed memory");
    if (window_copy(to, from + 1, LINE_BYTES, LINE_BYTES) != -22)
        return program_failed(NAME, "a copy that is not aligned was taken");
    if (window_copy(to, (void *)(uintptr_t)LINE_BYTES, LINE_BYTES, LINE_BYTES) != -14)
        return program_failed(NAME, "a copy of memory that is not there was taken");
    return passed("dma");
}

static int borrower(const test *t)
{
    if (stores_and_loads(t) != PROGRAM_OK || two_cores(t) != PROGRAM_OK)
        return PROGRAM_FAILED;
    forget(t);
    tell(t, 1);
    await(t, 2);
    const volatile uint64_t *data = t->borrowed + FLAG_WORDS;
    if (compare("what the lender has changed", data, t->bytes / sizeof *data, 3) != PROGRAM_OK)
        return PROGRAM_FAILED;
    passed("lender");
    return t->has_engine ? copies(t) : PROGRAM_OK;
}

/* ---- A heap that is borrowed ---------------------------------------------------------------- */

/* The operating system writes, zeroes and reads borrowed memory, too. */
static int heap(const test *t)
{
    uint64_t bytes = 64 << 10, count = bytes / sizeof(uint64_t);
    for (uint64_t round = 1; round <= 2; round++) {
        volatile uint64_t *words = node_own(NAME, bytes);
        if (!words)
            return PROGRAM_FAILED;
        for (uint64_t i = 0; i < count; i++)
            if (words[i] != 0)
                return wrong("new memory", i, words[i], 0);
        fill(words, count, round);
        forget(t);
        if (compare("what was stored", words, count, round) != PROGRAM_OK)
            return PROGRAM_FAILED;
        munmap((void *)(uintptr_t)words, bytes);
    }
    struct timespec *times = node_own(NAME, bytes);
    if (!times)
        return PROGRAM_FAILED;
    enum { TIMES = 32, APART = 5 };
    for (unsigned i = 0; i < TIMES; i++)
        clock_gettime(CLOCK_MONOTONIC, &times[i * APART]);
    forget(t);
    for (unsigned i = 1; i < TIMES; i++) {
        const struct timespec *now = &times[i * APART], *before = now - APART;
        if (now->tv_sec < before->tv_sec
            || (now->tv_sec == before->tv_sec && now->tv_nsec <= before->tv_nsec))
            return program_failed(NAME, "time %u is not after the one before", i);
    }
    char *text = (char *)(times + TIMES * APART);
    strcpy(text, "PASS heap\n");
    return write(STDOUT_FILENO, text, strlen(text)) > 0 ? PROGRAM_OK : PROGRAM_FAILED;
}

/* ---- Memory that is asked for --------------------------------------------------------------- */

enum { MOST_PIECES = 32, PIECE_BYTES = 64 << 10, OTHERS_NS = 5000000 };

static int ask_wrongly(uint32_t lender)
{
    window_memory piece;
    if (window_ask(PIECE_BYTES, (uint32_t)program_nid(), &piece) != -6
        || window_ask(PIECE_BYTES, (uint32_t)program_nodes(), &piece) != -6)
        return program_failed(NAME, "a node that is no other one was asked");
    if (window_ask(0, lender, &piece) != -22 || window_ask(UINT64_MAX, lender, &piece) != -22)
        return program_failed(NAME, "no bytes, or all there could be, were asked for");
    if (window_ask((uint64_t)1 << 40, lender, &piece) != -12)
        return program_failed(NAME, "more was lent than a window holds");
    return PROGRAM_OK;
}

/* All nodes but the lender ask it for pieces until it has none left. Each piece has one user. */
static int ask(const test *t, uint32_t lender)
{
    volatile uint64_t *pieces[MOST_PIECES];
    uint64_t count = PIECE_BYTES / sizeof(uint64_t), round = (uint64_t)program_nid() * MOST_PIECES;
    int64_t error = 0;
    unsigned got = 0;
    if (ask_wrongly(lender) != PROGRAM_OK)
        return PROGRAM_FAILED;
    for (; got < MOST_PIECES; got++) {
        window_memory piece;
        error = window_ask(PIECE_BYTES - 8, lender, &piece);
        if (error < 0)
            break;
        if (piece.bytes != PIECE_BYTES || piece.node != lender)
            return program_failed(NAME, "piece %u is another one than was asked for", got);
        pieces[got] = (volatile uint64_t *)(uintptr_t)piece.address;
        fill(pieces[got], count, round + got);
    }
    if (error != -12)
        return program_failed(NAME, "a lender that has nothing left answers %" PRId64, error);
    nanosleep(&(struct timespec){.tv_nsec = OTHERS_NS}, NULL);
    forget(t);
    for (unsigned i = 0; i < got; i++)
        if (compare("what was stored in a piece", pieces[i], count, round + i) != PROGRAM_OK)
            return PROGRAM_FAILED;
    printf("PASS asked %u\n", got);
    return program_flush(NAME);
}

/* ---- An operating system that borrows when it is short of memory ---------------------------- */

enum { MAPPED = 24 };

static volatile uint64_t *mapped[2][MAPPED];
static volatile sig_atomic_t handled;
static pthread_t first_thread;

static void on_signal(int number)
{
    (void)number;
    handled = handled + 1;
}

/* Maps and fills pieces, and sends a signal to the first thread each time. NULL: one is not to be had. */
static void *map_pieces(void *argument)
{
    volatile uint64_t **pieces = argument;
    for (uint64_t i = 0; i < MAPPED; i++) {
        pieces[i] = node_own(NAME, PIECE_BYTES);
        if (!pieces[i])
            return NULL;
        fill(pieces[i], PIECE_BYTES / sizeof(uint64_t), (uint64_t)(pieces - mapped[0]) + i);
        pthread_kill(first_thread, SIGUSR1);
    }
    return argument;
}

static int plug(void)
{
    pthread_t other;
    pthread_attr_t small;
    sigset_t blocked;
    void *end = NULL;
    first_thread = pthread_self();
    sigaction(SIGUSR1, &(struct sigaction){.sa_handler = on_signal}, NULL);
    pthread_attr_init(&small);
    pthread_attr_setstacksize(&small, PIECE_BYTES);
    if (pthread_create(&other, &small, map_pieces, mapped[1]) != 0)
        return program_failed(NAME, "no other thread");
    void *own_end = map_pieces(mapped[0]);
    pthread_join(other, &end);
    if (!own_end || !end)
        return PROGRAM_FAILED;
    for (uint64_t i = 0; i < 2 * MAPPED; i++)
        if (compare("a mapped piece", mapped[i / MAPPED][i % MAPPED], PIECE_BYTES / sizeof(uint64_t), i)
            != PROGRAM_OK)
            return PROGRAM_FAILED;
    pthread_sigmask(SIG_BLOCK, NULL, &blocked);
    if (handled < MAPPED || sigismember(&blocked, SIGUSR1))
        return program_failed(NAME, "signals were lost, or stay blocked");
    return passed("plug");
}

/* ---- Node 1 -------------------------------------------------------------------------------- */

static int lender(const test *t)
{
    await(t, 1);
    volatile uint64_t *data = t->lent + FLAG_WORDS;
    uint64_t count = t->bytes / sizeof *data;
    if (compare("what the borrower has written back", data, count, 2) != PROGRAM_OK)
        return PROGRAM_FAILED;
    fill(data, count, 3);
    tell(t, 2);
    return PROGRAM_OK;
}

int main(int argc, char **argv)
{
    test t = {.llc_bytes = 2 << 20, .bytes = 32 << 10, .has_engine = true};
    bool no_dma = false, on_heap = false, plugs = false;
    uint64_t asked = WINDOW_ANY;
    const option options[] = {
        {"llc-bytes", OPTION_BYTES, &t.llc_bytes, "N", "last-level cache (2M)", 1 << 12, 1 << 30},
        {"bytes", OPTION_BYTES, &t.bytes, "N", "bytes that are written (32K)", 1 << 12, 1 << 24},
        {"heap", OPTION_FLAG, &on_heap, NULL, "the heap is borrowed (window.heap)", 0, 0},
        {"no-dma", OPTION_FLAG, &no_dma, NULL, "the machine has no DMA engine", 0, 0},
        {"plug", OPTION_FLAG, &plugs, NULL, "the operating system borrows (window.plug_bytes)", 0, 0},
        {"ask", OPTION_NUMBER, &asked, "NODE", "all others borrow of it while they run", 0, 1 << 10},
        {0},
    };
    const command_line line = {NAME, "[options]", about, options, NULL};
    int status = options_parse(&line, argc, argv);
    if (status != OPTIONS_GO_ON)
        return status;
    if (plugs) {
        status = program_nid() == 0 ? plug() : PROGRAM_OK;
        return status == PROGRAM_OK ? program_flush(NAME) : status;
    }
    if (asked != WINDOW_ANY) {
        t.own = node_own(NAME, 4 * t.llc_bytes);
        return t.own && (uint64_t)program_nid() != asked ? ask(&t, (uint32_t)asked) : PROGRAM_OK;
    }
    if (program_nodes() != 2)
        return program_failed(NAME, "is for two nodes; use -n 2");
    t.has_engine = !no_dma;
    if (on_heap) {
        t.own = node_own(NAME, 4 * t.llc_bytes);
        return t.own && program_nid() == 0 ? heap(&t) : PROGRAM_OK;
    }
    t.borrowed = node_borrow(NAME, t.bytes + FLAG_WORDS * sizeof(uint64_t));
    t.lent = node_lent(NAME, t.bytes + FLAG_WORDS * sizeof(uint64_t));
    t.own = node_own(NAME, 4 * t.llc_bytes + 2 * t.bytes);
    if (!t.borrowed || !t.lent || !t.own)
        return PROGRAM_FAILED;
    status = program_nid() == 0 ? borrower(&t) : lender(&t);
    return status == PROGRAM_OK ? program_flush(NAME) : status;
}
