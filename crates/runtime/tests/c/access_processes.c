/*
 * The access library between two real processes, by whichever progress the run has chosen: node 0
 * operates, node 1 is operated on.
 *
 *     rackmem run -n 2 -- access_processes
 */
#include "rackmem.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

/* Offsets in the segment of each node. */
enum { DONE_AT = 0, COUNTER_AT = 64, LOCK_AT = 128, GUARDED_AT = 136, DATA_AT = 4096 };
enum { SEGMENT_BYTES = 20 << 20, SHARED_ADDS = 500 };

/* The parent ends this program if it hangs, or if the other node fails. */
enum { FOREVER = -1 };

static rackmem_context *ctx;
static unsigned char landing[3 * 4096]; /* registered */
static unsigned char plain[3 * 4096];   /* ordinary memory */

static void fill(unsigned char *bytes, size_t length, unsigned seed)
{
    for (size_t i = 0; i < length; i++)
        bytes[i] = (unsigned char)(i * 31 + i / 251 + seed);
}

static QP *new_qp(unsigned entries)
{
    QP *qp;
    CHECK(rackmem_qp_create(ctx, entries, &qp) == 0);
    CHECK(qp->size == entries && rmc_outstanding(qp) == 0);
    return qp;
}

/* Every length and place, from and to one kind of memory; what lies around it stays. */
static void there_and_back(QP *qp, unsigned char *from, unsigned char *to, size_t capacity)
{
    static const size_t lengths[] = {0, 1, 7, 8, 9, 63, 64, 65, 127, 128, 129, 1000, 4096, 8191};
    static const uint64_t offsets[] = {0, 3, 60, 1021};
    for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
        for (size_t o = 0; o < sizeof offsets / sizeof *offsets; o++) {
            size_t n = lengths[l];
            if (n + 2 > capacity)
                continue;
            fill(from, n, (unsigned)(l * 4 + o));
            memset(to, 0xee, n + 2);
            CHECK(rmc_write(qp, 1, DATA_AT + offsets[o], from, n) == 0);
            CHECK(rmc_read(qp, 1, DATA_AT + offsets[o], to + 1, n) == 0);
            CHECK(memcmp(from, to + 1, n) == 0 && to[0] == 0xee && to[n + 1] == 0xee);
        }
    }
}

static void every_kind_of_memory(void)
{
    QP *qp = new_qp(16);
    unsigned char stack[2][1100];
    unsigned char *heap = (unsigned char *)malloc(2 * 8200);
    unsigned char *ours = (unsigned char *)rackmem_alloc(ctx, 2 * 8200);
    unsigned char *own = (unsigned char *)rackmem_segment(ctx) + DATA_AT;
    CHECK(heap && ours && (uintptr_t)ours % 4096 == 0);
    for (int i = 0; i < 100; i++)
        CHECK(ours[i] == 0);
    fill(landing, sizeof landing, 9);
    memcpy(plain, landing, sizeof plain);
    CHECK(rackmem_register(ctx, landing, sizeof landing) == 0);
    CHECK(memcmp(plain, landing, sizeof plain) == 0);
    there_and_back(qp, stack[0], stack[1], sizeof stack[0]);
    there_and_back(qp, heap, heap + 8200, 8200);
    there_and_back(qp, ours, ours + 8200, 8200);
    there_and_back(qp, plain, landing, 8200);
    there_and_back(qp, landing, plain, 8200);
    there_and_back(qp, own, own + 8200, 8200);
    free(heap);
    rackmem_qp_destroy(qp);
}

/* One entry holds 16 MiB - 1; a call may ask for more. */
static void longer_than_an_entry(void)
{
    size_t n = (17 << 20) + 5;
    QP *qp = new_qp(4);
    unsigned char *from = (unsigned char *)rackmem_alloc(ctx, n);
    unsigned char *to = (unsigned char *)rackmem_alloc(ctx, n);
    CHECK(from && to);
    fill(from, n, 3);
    CHECK(rmc_write(qp, 1, DATA_AT + 11, from, n) == 0);
    CHECK(rmc_read(qp, 1, DATA_AT + 11, to, n) == 0);
    CHECK(memcmp(from, to, n) == 0);
    rackmem_qp_destroy(qp);
}

/* State of the callbacks of one queue pair. */
typedef struct log {
    QP *qp;
    uint64_t buffer[MAX_WQ_SIZE];
    uint64_t expected[MAX_WQ_SIZE];
    int pending[MAX_WQ_SIZE];
    int calls, errors;
} log;

static void completed(int slot, void *arg)
{
    log *l = (log *)arg;
    CHECK(l->pending[slot]);
    l->pending[slot] = 0;
    l->calls++;
    if (rmc_status(l->qp, slot) != 0)
        l->errors++;
    else
        CHECK(l->buffer[slot] == l->expected[slot]);
}

static void read_word(log *l, uint64_t index)
{
    int slot = rmc_wait_for_slot(l->qp, completed);
    CHECK(!l->pending[slot]);
    l->pending[slot] = 1;
    l->buffer[slot] = ~UINT64_C(0);
    l->expected[slot] = index * 3 + 1;
    rmc_read_async(l->qp, slot, 1, DATA_AT + index * 8, &l->buffer[slot], 8);
}

static void write_words(void)
{
    QP *qp = new_qp(2);
    uint64_t words[512];
    for (uint64_t i = 0; i < 512; i++)
        words[i] = i * 3 + 1;
    CHECK(rmc_write(qp, 1, DATA_AT, words, sizeof words) == 0);
    rackmem_qp_destroy(qp);
}

static void callbacks_come_once_each(void)
{
    write_words();
    for (unsigned size = 2; size <= MAX_WQ_SIZE; size *= 2) {
        log l;
        memset(&l, 0, sizeof l);
        l.qp = new_qp(size);
        l.qp->callback_arg = &l;
        int posted = 0;
        for (int round = 0; round < 40; round++) {
            for (unsigned i = 0; i < size * 2 + 3; i++, posted++)
                read_word(&l, (uint64_t)posted % 512);
            if (round % 3 == 0) {
                CHECK(rmc_drain_cq(l.qp, completed) == 0);
                CHECK(l.calls == posted && rmc_outstanding(l.qp) == 0);
            }
        }
        CHECK(rmc_drain_cq(l.qp, completed) == 0);
        CHECK(l.calls == posted && l.errors == 0);
        rackmem_qp_destroy(l.qp);
    }
}

/* Synchronous operations in between leave the others' callbacks and errors alone. */
static void synchronous_in_between(void)
{
    write_words();
    log l;
    memset(&l, 0, sizeof l);
    l.qp = new_qp(8);
    l.qp->callback_arg = &l;
    int posted = 0;
    for (int round = 0; round < 100; round++) {
        for (int i = 0; i < round % 10; i++, posted++)
            read_word(&l, (uint64_t)posted % 512);
        uint64_t word = 0, old = 0;
        CHECK(rmc_read(l.qp, 1, DATA_AT + 8, &word, 8) == 0 && word == 4);
        CHECK(rmc_fetch_and_add(l.qp, 1, DATA_AT + 8 * 600, 1, &old) == 0);
        CHECK(rmc_read(l.qp, 1, RACKMEM_MAX_OFFSET, &word, 8) == -ERANGE);
    }
    CHECK(rmc_drain_cq(l.qp, completed) == 0);
    CHECK(l.calls == posted && l.errors == 0);

    /* The first of several errors is told once; the others' results are right. */
    for (int i = 0; i < 6; i++, posted++)
        read_word(&l, 5);
    int slot = rmc_wait_for_slot(l.qp, completed);
    l.pending[slot] = 1;
    rmc_read_async(l.qp, slot, 1, RACKMEM_MAX_OFFSET, &l.buffer[slot], 8);
    slot = rmc_wait_for_slot(l.qp, completed);
    l.pending[slot] = 1;
    rmc_read_async(l.qp, slot, 77, 0, &l.buffer[slot], 8);
    posted += 2;
    uint64_t word = 0;
    CHECK(rmc_read(l.qp, 1, DATA_AT, &word, 8) == 0 && word == 1);
    int error = rmc_drain_cq(l.qp, completed);
    CHECK(error == -ERANGE || error == -ENXIO);
    CHECK(l.calls == posted && l.errors == 2);
    CHECK(rmc_drain_cq(l.qp, completed) == 0);

    /* A synchronous operation tells its own error, never that of an asynchronous one. */
    slot = rmc_wait_for_slot(l.qp, completed);
    l.pending[slot] = 1;
    rmc_read_async(l.qp, slot, 1, RACKMEM_MAX_OFFSET, &l.buffer[slot], 8);
    CHECK(rmc_read(l.qp, 1, RACKMEM_MAX_OFFSET, &word, 8) == -ERANGE);
    CHECK(rmc_read(l.qp, 77, 0, &word, 8) == -ENXIO);
    CHECK(rmc_drain_cq(l.qp, completed) == -ERANGE);
    CHECK(rmc_read(l.qp, 1, RACKMEM_MAX_OFFSET, &word, 8) == -ERANGE);
    CHECK(rmc_drain_cq(l.qp, completed) == 0);

    /* A slot that was not given out. */
    slot = rmc_wait_for_slot(l.qp, completed);
    rmc_read_async(l.qp, (slot + 5) % 8, 1, 0, &word, 8);
    rmc_write_async(l.qp, -1, 1, 0, &word, 8);
    CHECK(rmc_outstanding(l.qp) == 0 && rmc_drain_cq(l.qp, NULL) == -EINVAL);
    rackmem_qp_destroy(l.qp);
}

static void asynchronous_of_every_kind(void)
{
    QP *qp = new_qp(4);
    uint64_t from = 100, to = 0, addend = 5, swap[2] = {105, 7}, old = 0;
    CHECK(rmc_write(qp, 1, COUNTER_AT + 8, &from, 8) == 0);
    rmc_fetch_and_add_async(qp, rmc_wait_for_slot(qp, NULL), 1, COUNTER_AT + 8, &addend);
    CHECK(rmc_drain_cq(qp, NULL) == 0 && addend == 100);
    rmc_compare_and_swap_async(qp, rmc_wait_for_slot(qp, NULL), 1, COUNTER_AT + 8, swap);
    CHECK(rmc_drain_cq(qp, NULL) == 0 && swap[0] == 105);
    rmc_read_async(qp, rmc_wait_for_slot(qp, NULL), 1, COUNTER_AT + 8, &to, 8);
    CHECK(rmc_drain_cq(qp, NULL) == 0 && to == 7);
    from = 8;
    rmc_write_async(qp, rmc_wait_for_slot(qp, NULL), 1, COUNTER_AT + 8, &from, 8);
    CHECK(rmc_drain_cq(qp, NULL) == 0);
    CHECK(rmc_compare_and_swap(qp, 1, COUNTER_AT + 8, 9, 10, &old) == 0 && old == 8);
    CHECK(rmc_compare_and_swap(qp, 1, COUNTER_AT + 8, 8, 10, NULL) == 0);
    CHECK(rmc_fetch_and_add(qp, 1, COUNTER_AT + 8, (uint64_t)-10, &old) == 0 && old == 10);
    CHECK(rmc_fetch_and_add(qp, 1, COUNTER_AT + 8, 0, &old) == 0 && old == 0);
    rackmem_qp_destroy(qp);
}

static void errors(void)
{
    QP *qp = new_qp(4);
    uint64_t word = 42, partial = 0;
    int64_t size = (int64_t)SEGMENT_BYTES;
    CHECK(rmc_read(qp, 1, (uint64_t)size, &word, 1) == -ERANGE);
    /* Bytes inside the segment may come before the error: lines go their own ways. */
    CHECK(rmc_read(qp, 1, (uint64_t)size - 7, &partial, 8) == -ERANGE);
    CHECK(rmc_write(qp, 1, UINT64_MAX, &word, 8) == -ERANGE);
    CHECK(rmc_write(qp, 1, UINT64_C(1) << 40, &word, 8) == -ERANGE);
    CHECK(rmc_read(qp, 2, 0, &word, 8) == -ENXIO);
    CHECK(rmc_read(qp, -1, 0, &word, 8) == -ENXIO);
    CHECK(rmc_read(qp, 1 << 20, 0, &word, 8) == -ENXIO);
    CHECK(rmc_read(qp, 1, DATA_AT, NULL, 8) == -EFAULT);
    CHECK(rmc_write(qp, 1, DATA_AT, NULL, 8) == -EFAULT);
    CHECK(rmc_fetch_and_add(qp, 1, COUNTER_AT + 4, 1, NULL) == -EINVAL);
    CHECK(rmc_compare_and_swap(qp, 1, (uint64_t)size, 1, 2, NULL) == -ERANGE);
    CHECK(rmc_notify(qp, 2) == -ENXIO);
    CHECK(word == 42);
    CHECK(rmc_read(qp, 1, (uint64_t)size, NULL, 0) == 0);
    CHECK(rmc_write(qp, 1, (uint64_t)size - 8, &word, 8) == 0);
    CHECK(rmc_drain_cq(qp, NULL) == 0);
    rackmem_qp_destroy(qp);

    CHECK(rackmem_qp_create(ctx, 3, &qp) == -EINVAL && rackmem_last_error()[0]);
    CHECK(rackmem_qp_create(ctx, 0, &qp) == -EINVAL);
    CHECK(rackmem_qp_create(ctx, 2 * MAX_WQ_SIZE, &qp) == -EINVAL);
    CHECK(rackmem_qp_create(NULL, 4, &qp) == -EINVAL);
    CHECK(rackmem_register(ctx, NULL, 8) == -EINVAL);
    CHECK(rackmem_register(ctx, landing, 0) == -EINVAL);
    CHECK(rackmem_wait_joined(ctx, 2, 10) == -ENXIO);
    CHECK(rackmem_wait_joined(ctx, -1, 10) == -ENXIO);
    uint64_t seen = 0;
    CHECK(rackmem_wait_notify(ctx, &seen, 20) == -ETIMEDOUT && seen == 0);
    CHECK(strlen(rackmem_strerror(-ERANGE)) > 10 && strlen(rackmem_strerror(-ENOSPC)) > 3);
    CHECK(rackmem_strerror(-ERANGE) == rackmem_strerror(-ERANGE));
    rackmem_context *other;
    CHECK(rackmem_open(&other, NULL) == -EINVAL && !other);
    rackmem_open_args args;
    memset(&args, 0, sizeof args);
    args.ctx_id = 1023;
    args.nid = -1;
    CHECK(rackmem_open(&other, &args) == -ENOENT && !other);
    args.rack = "there-is-none";
    CHECK(rackmem_open(&other, &args) == -ENOENT && strstr(rackmem_last_error(), "up --nodes"));
    args.rack = "no/name";
    CHECK(rackmem_open(&other, &args) == -EINVAL);
    rackmem_close(NULL);
    rackmem_qp_destroy(NULL);
}

/* Threads have queue pairs of their own; one thread has two. */
static void *thread_main(void *arg)
{
    uint64_t number = *(const uint64_t *)arg, old;
    QP *qp = new_qp(8), *second = new_qp(2);
    uint64_t mine[8], back[8];
    for (uint64_t round = 0; round < 200; round++) {
        for (int i = 0; i < 8; i++)
            mine[i] = number << 32 | round;
        CHECK(rmc_write(qp, 1, DATA_AT + 64 * number, mine, sizeof mine) == 0);
        CHECK(rmc_read(second, 1, DATA_AT + 64 * number, back, sizeof back) == 0);
        CHECK(memcmp(mine, back, sizeof mine) == 0);
        CHECK(rmc_fetch_and_add(round % 2 ? qp : second, 1, COUNTER_AT + 16, 1, &old) == 0);
    }
    rackmem_qp_destroy(second);
    rackmem_qp_destroy(qp);
    return NULL;
}

static void threads(void)
{
    enum { THREADS = 4 };
    pthread_t thread[THREADS];
    uint64_t number[THREADS], sum = 0;
    for (int i = 0; i < THREADS; i++) {
        number[i] = (uint64_t)i;
        CHECK(pthread_create(&thread[i], NULL, thread_main, &number[i]) == 0);
    }
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(thread[i], NULL) == 0);
    QP *qp = new_qp(2);
    CHECK(rmc_read(qp, 1, COUNTER_AT + 16, &sum, 8) == 0 && sum == THREADS * 200);
    rackmem_qp_destroy(qp);
}

/* Both nodes at once: sums by fetch-and-add, and a lock by compare-and-swap that guards a word. */
static void contend(QP *qp)
{
    for (int i = 0; i < SHARED_ADDS; i++) {
        uint64_t old = 1, guarded = 0;
        CHECK(rmc_fetch_and_add(qp, 1, COUNTER_AT, 1, NULL) == 0);
        while (old != 0)
            CHECK(rmc_compare_and_swap(qp, 1, LOCK_AT, 0, 1, &old) == 0);
        CHECK(rmc_read(qp, 1, GUARDED_AT, &guarded, 8) == 0);
        guarded++;
        CHECK(rmc_write(qp, 1, GUARDED_AT, &guarded, 8) == 0);
        CHECK(rmc_compare_and_swap(qp, 1, LOCK_AT, 1, 0, &old) == 0 && old == 1);
    }
}

static int is_done(void *arg)
{
    return __atomic_load_n((const uint64_t *)arg, __ATOMIC_ACQUIRE) != 0;
}

static void be_target(void)
{
    unsigned char *segment = (unsigned char *)rackmem_segment(ctx);
    uint64_t seen = 0, words[3];
    QP *qp = new_qp(4);
    for (uint64_t i = 1; i <= 3; i++) {
        CHECK(rackmem_wait_notify(ctx, &seen, FOREVER) == 0);
        CHECK(seen >= 1 && seen <= 3);
        if (seen == 3)
            break;
    }
    contend(qp);
    CHECK(rackmem_sleep_until(ctx, is_done, segment + DONE_AT, 0, FOREVER) == 0);
    memcpy(&words[0], segment + COUNTER_AT, 8);
    memcpy(&words[1], segment + LOCK_AT, 8);
    memcpy(&words[2], segment + GUARDED_AT, 8);
    CHECK(words[0] == 2 * SHARED_ADDS && words[1] == 0 && words[2] == 2 * SHARED_ADDS);
    CHECK(rmc_write(qp, 0, DONE_AT, words, 8) == 0);
}

static void be_driver(void)
{
    static void (*const steps[])(void) = {
        every_kind_of_memory,   longer_than_an_entry,       callbacks_come_once_each,
        synchronous_in_between, asynchronous_of_every_kind, errors,
        threads,
    };
    uint64_t done = 1;
    for (size_t i = 0; i < sizeof steps / sizeof steps[0]; i++) {
        steps[i]();
        putchar('.'); /* tells who waits for the program that it gets on */
        fflush(stdout);
    }
    QP *qp = new_qp(4);
    CHECK(rmc_notify(qp, 1) == 0);
    rmc_notify_async(qp, rmc_wait_for_slot(qp, NULL), 1);
    CHECK(rmc_notify(qp, 1) == 0);
    CHECK(rmc_drain_cq(qp, NULL) == 0);
    contend(qp);
    uint64_t finished = 0;
    while (finished < 2 * SHARED_ADDS)
        CHECK(rmc_read(qp, 1, GUARDED_AT, &finished, 8) == 0);
    for (uint64_t locked = 1; locked;)
        CHECK(rmc_read(qp, 1, LOCK_AT, &locked, 8) == 0);
    CHECK(rmc_write(qp, 1, DONE_AT, &done, 8) == 0);
    CHECK(rackmem_sleep_until(ctx, is_done, (char *)rackmem_segment(ctx) + DONE_AT, 1, FOREVER) ==
          0);
    /* The last queue pair is left to rackmem_close. */
}

int main(void)
{
    int error = rackmem_init(&ctx, SEGMENT_BYTES);
    if (error != 0) {
        fprintf(stderr, "%s\n", rackmem_last_error());
        return 1;
    }
    CHECK(rackmem_nodes(ctx) == 2 && rackmem_segment_bytes(ctx) == SEGMENT_BYTES);
    if (rackmem_nid(ctx) == 0)
        be_driver();
    else
        be_target();
    rackmem_close(ctx);
    return 0;
}
