/*
 * Duties of a rack, from single operations to messages: each node tries them on each other and
 * checks what comes of it. For every rack that runs programs, real or of the model:
 *
 *     rackmem run -n 4 -- build/tests/rack_test [TEST ...]
 *
 * A test ends when all nodes have passed it; node 0 says so. Nothing takes longer than some
 * thousand operations, since a rack of the model is slow.
 */
#include <inttypes.h>
#include <pthread.h>
#include <rackmem.h>
#include <stdbool.h>
#include <string.h>

#include "../program.h"
#include "check.h"
#include "rack_test.h"

enum {
    SEED_BYTES = 4096,    /* of the pattern in every segment, for others to read */
    PAGE_BYTES = 1024,    /* of a segment for each node, to write to */
    WORDS = 8,            /* for atomics, a line each */
    TIMEOUT_MS = 10000
};

/* The byte at a place of what a node wrote, in a test that has a number of its own. */
static unsigned char pattern(int nid, uint64_t at, int test)
{
    return (unsigned char)((uint64_t)nid * 37 + at * 11 + (at >> 8) + (uint64_t)test * 101);
}

static void fill(unsigned char *to, uint64_t first, uint64_t length, int nid, int test)
{
    for (uint64_t i = 0; i < length; i++)
        to[i] = pattern(nid, first + i, test);
}

static bool matches(const unsigned char *bytes, uint64_t first, uint64_t length, int nid, int test)
{
    for (uint64_t i = 0; i < length; i++)
        if (bytes[i] != pattern(nid, first + i, test))
            return false;
    return true;
}

static bool holds_only(const unsigned char *bytes, uint64_t length, unsigned char byte)
{
    for (uint64_t i = 0; i < length; i++)
        if (bytes[i] != byte)
            return false;
    return true;
}

/* The page that a node may write in another's segment. */
static uint64_t page_offset(const rack *r, int writer)
{
    return r->pages_offset + (uint64_t)writer * PAGE_BYTES;
}

static uint64_t word_offset(const rack *r, int word)
{
    return r->words_offset + (uint64_t)word * RACKMEM_LINE_BYTES;
}

static uint64_t *own_word(const rack *r, int word)
{
    return (uint64_t *)(void *)(r->segment + word_offset(r, word));
}

/* Places and lengths within lines, to their ends, and across them. */
typedef struct extent {
    uint64_t offset;
    uint64_t length;
} extent;

static const extent extents[] = {
    {0, 1},   {5, 3},  {63, 1}, {0, 8},    {60, 8},   {0, 64},
    {64, 64}, {1, 64}, {0, 65}, {30, 200}, {0, 1024},
};

enum { EXTENTS = sizeof extents / sizeof extents[0] };

/* ---- Tests, in the order of what they need ----------------------------------------------- */

static void test_join(rack *r)
{
    CHECK(r->nid == program_nid() && r->nodes == program_nodes());
    for (int nid = 0; nid < r->nodes; nid++)
        CHECK(rackmem_wait_joined(r->ctx, nid, 0) == 0);
    CHECK(rackmem_wait_joined(r->ctx, RACKMEM_MAX_NODES - 1, 0) ==
          rackmem_status_errno(RACKMEM_NO_NODE));
    CHECK((uintptr_t)r->segment % RACKMEM_LINE_BYTES == 0);
    CHECK(rackmem_segment_bytes(r->ctx) > r->source_offset + LONGEST);
}

static void read_extent(rack *r, int nid, extent e)
{
    unsigned char *buffer = r->local + GUARD_BYTES;
    memset(r->local, 0xee, e.length + 2 * GUARD_BYTES);
    CHECK(rmc_read(r->qp, nid, r->seed_offset + e.offset, buffer, e.length) == 0);
    CHECK(matches(buffer, e.offset, e.length, nid, 0));
    CHECK(holds_only(r->local, GUARD_BYTES, 0xee));
    CHECK(holds_only(buffer + e.length, GUARD_BYTES, 0xee));
}

static void test_read(rack *r)
{
    for (int nid = 0; nid < r->nodes; nid++) {
        for (int i = 0; i < EXTENTS; i++)
            read_extent(r, nid, extents[i]);
        read_extent(r, nid, (extent){0, SEED_BYTES});
    }
}

static void test_write(rack *r)
{
    unsigned char *buffer = r->local + GUARD_BYTES;
    for (int i = 0; i < EXTENTS; i++) {
        const extent *e = &extents[i];
        fill(buffer, e->offset, e->length, r->nid, i);
        for (int nid = 0; nid < r->nodes; nid++)
            CHECK(rmc_write(r->qp, nid, page_offset(r, r->nid) + e->offset, buffer,
                            e->length) == 0);
        barrier(r); /* all have written */
        for (int writer = 0; writer < r->nodes; writer++) {
            unsigned char *page = r->segment + page_offset(r, writer);
            CHECK(holds_only(page, e->offset, 0));
            CHECK(matches(page + e->offset, e->offset, e->length, writer, i));
            CHECK(holds_only(page + e->offset + e->length, PAGE_BYTES - e->offset - e->length, 0));
            memset(page, 0, PAGE_BYTES);
        }
        barrier(r); /* all have looked */
    }
}

/* Operations in flight, and what their callbacks saw. */
typedef struct flight {
    int32_t nid[MAX_WQ_SIZE];
    uint64_t offset[MAX_WQ_SIZE];
    uint32_t completed;
    const unsigned char *buffers; /* a line per slot */
} flight;

static void landed(int slot, void *arg)
{
    flight *f = arg;
    CHECK(matches(f->buffers + slot * RACKMEM_LINE_BYTES, f->offset[slot], RACKMEM_LINE_BYTES,
                  f->nid[slot], 0));
    f->completed++;
}

static void test_async(rack *r)
{
    enum { READS = 5 * ENTRIES };
    flight f = {.buffers = r->local};
    r->qp->callback_arg = &f;
    for (int i = 0; i < READS; i++) {
        int slot = rmc_wait_for_slot(r->qp, landed);
        f.nid[slot] = (r->nid + i) % r->nodes;
        f.offset[slot] = (uint64_t)(i * 72) % (SEED_BYTES - RACKMEM_LINE_BYTES);
        rmc_read_async(r->qp, slot, f.nid[slot], r->seed_offset + f.offset[slot],
                       r->local + slot * RACKMEM_LINE_BYTES, RACKMEM_LINE_BYTES);
        if (i % 7 == 0) /* those in flight stay what they are */
            CHECK(rmc_read(r->qp, r->nid, r->seed_offset, r->local + LONGEST, 8) == 0);
    }
    CHECK(rmc_drain_cq(r->qp, landed) == 0);
    CHECK(f.completed == READS);
    CHECK(rmc_outstanding(r->qp) == 0);
}

static void test_fetch_and_add(rack *r)
{
    enum { ADDITIONS = 10 };
    for (int nid = 0; nid < r->nodes; nid++) {
        uint64_t least = 0, old;
        for (int i = 0; i < ADDITIONS; i++) {
            CHECK(rmc_fetch_and_add(r->qp, nid, word_offset(r, 0), 3, &old) == 0);
            CHECK(old % 3 == 0 && old >= least);
            least = old + 3;
        }
    }
    barrier(r);
    CHECK(*own_word(r, 0) == (uint64_t)(3 * ADDITIONS * r->nodes));
}

/* A lock at node 0 keeps a counter there, which is read and written in two steps. */
static void test_compare_and_swap(rack *r)
{
    enum { TURNS = 5, OPEN = 0 };
    const uint64_t mine = 1 + (uint64_t)r->nid;
    for (int turn = 0; turn < TURNS; turn++) {
        uint64_t old, counter;
        do {
            CHECK(rmc_compare_and_swap(r->qp, 0, word_offset(r, 1), OPEN, mine, &old) == 0);
        } while (old != OPEN);
        CHECK(rmc_read(r->qp, 0, word_offset(r, 2), &counter, sizeof counter) == 0);
        counter++;
        CHECK(rmc_write(r->qp, 0, word_offset(r, 2), &counter, sizeof counter) == 0);
        CHECK(rmc_compare_and_swap(r->qp, 0, word_offset(r, 1), mine, OPEN, &old) == 0);
        CHECK(old == mine);
    }
    barrier(r);
    if (r->nid == 0)
        CHECK(*own_word(r, 2) == (uint64_t)(TURNS * r->nodes) && *own_word(r, 1) == OPEN);
}

/* The node's own atomic instructions and those of others on one word. */
static void test_atomics_of_both_sides(rack *r)
{
    enum { ADDITIONS = 20 };
    int neighbour = (r->nid + 1) % r->nodes;
    for (int i = 0; i < ADDITIONS; i++) {
        CHECK(rmc_fetch_and_add(r->qp, neighbour, word_offset(r, 3), 1, NULL) == 0);
        __atomic_fetch_add(own_word(r, 3), 1, __ATOMIC_RELAXED);
    }
    barrier(r);
    CHECK(__atomic_load_n(own_word(r, 3), __ATOMIC_RELAXED) == 2 * ADDITIONS);
}

/* A word that a neighbour writes is polled for, without a barrier. */
static void test_polling(rack *r)
{
    enum { ROUNDS = 10 };
    int neighbour = (r->nid + 1) % r->nodes;
    for (uint64_t round = 1; round <= ROUNDS; round++) {
        if (r->nid == 0)
            CHECK(rmc_write(r->qp, neighbour, word_offset(r, 4), &round, sizeof round) == 0);
        while (__atomic_load_n(own_word(r, 4), __ATOMIC_ACQUIRE) != round)
            ;
        if (r->nid != 0)
            CHECK(rmc_write(r->qp, neighbour, word_offset(r, 4), &round, sizeof round) == 0);
    }
}

static void test_notify(rack *r)
{
    uint64_t seen = 0;
    for (int nid = 0; nid < r->nodes; nid++)
        CHECK(rmc_notify(r->qp, nid) == 0);
    while (seen < (uint64_t)r->nodes)
        CHECK(rackmem_wait_notify(r->ctx, &seen, TIMEOUT_MS) == 0);
    CHECK(seen == (uint64_t)r->nodes);
    CHECK(rackmem_wait_notify(r->ctx, &seen, 0) == -110); /* ETIMEDOUT */
}

static int is_set(void *word)
{
    return __atomic_load_n((uint64_t *)word, __ATOMIC_ACQUIRE) != 0;
}

static void test_sleep(rack *r)
{
    const uint64_t set = 1;
    CHECK(rackmem_sleep_until(r->ctx, is_set, own_word(r, 5), -1, 0) == -110); /* ETIMEDOUT */
    barrier(r);
    int neighbour = (r->nid + 1) % r->nodes;
    CHECK(rmc_write(r->qp, neighbour, word_offset(r, 5), &set, sizeof set) == 0);
    CHECK(rackmem_sleep_until(r->ctx, is_set, own_word(r, 5), -1, -1) == 0);
    CHECK(rackmem_sleep_until(r->ctx, is_set, own_word(r, 5), neighbour, TIMEOUT_MS) == 0);
}

static void fails_with(uint32_t status, int error)
{
    if (error == rackmem_status_errno(status))
        return;
    program_failed("rack_test", "%s, not %s", rackmem_strerror(error),
                   rackmem_strerror(rackmem_status_errno(status)));
    CHECK(error == rackmem_status_errno(status));
}

/* One operation for each thing that can be wrong with it. */
static void fail_at(rack *r, int nid)
{
    const uint64_t end = rackmem_segment_bytes(r->ctx); /* everywhere */
    uint64_t word = 9;
    fails_with(RACKMEM_OUT_OF_SEGMENT, rmc_read(r->qp, nid, end, &word, 1));
    fails_with(RACKMEM_OUT_OF_SEGMENT, rmc_write(r->qp, nid, end - 4, &word, sizeof word));
    fails_with(RACKMEM_OUT_OF_SEGMENT, rmc_read(r->qp, nid, UINT64_C(1) << 45, &word, 1));
    fails_with(RACKMEM_OUT_OF_SEGMENT, rmc_read(r->qp, nid, RACKMEM_MAX_OFFSET, &word, 1));
    fails_with(RACKMEM_OUT_OF_SEGMENT, rmc_fetch_and_add(r->qp, nid, end, 1, NULL));
    fails_with(RACKMEM_MISALIGNED_ATOMIC, rmc_fetch_and_add(r->qp, nid, end - 4, 1, NULL));
    fails_with(RACKMEM_MISALIGNED_ATOMIC, rmc_compare_and_swap(r->qp, nid, end - 9, 0, 1, NULL));
    fails_with(RACKMEM_BAD_LOCAL_BUFFER, rmc_read(r->qp, nid, 0, NULL, 64));
    fails_with(RACKMEM_BAD_LOCAL_BUFFER, rmc_write(r->qp, nid, end - 64, (void *)8, 64));
    CHECK(word == 9);
    CHECK(rmc_read(r->qp, nid, end, NULL, 0) == 0); /* no bytes lie anywhere up to the end */
    /* Of a write that leaves the segment, lines within may have been written. */
    CHECK(rmc_read(r->qp, nid, end - 2 * RACKMEM_LINE_BYTES, &word, sizeof word) == 0);
    CHECK(word == 0);
}

static void test_errors(rack *r)
{
    uint64_t word = 9;
    for (int nid = 0; nid < r->nodes; nid++)
        fail_at(r, nid);
    fails_with(RACKMEM_NO_NODE, rmc_read(r->qp, RACKMEM_MAX_NODES - 1, 0, &word, sizeof word));
    fails_with(RACKMEM_NO_NODE, rmc_write(r->qp, 1 << 20, 0, &word, sizeof word));
    fails_with(RACKMEM_NO_NODE, rmc_notify(r->qp, RACKMEM_MAX_NODES - 1));
    fails_with(RACKMEM_BAD_OPERATION, rackmem_sync_(r->qp, 7, 0, 0, &word, sizeof word));
    CHECK(word == 9);
}

/* Errors of operations in flight: each has its own, the queue pair tells the first. */
static void test_async_errors(rack *r)
{
    unsigned char *buffer = r->local;
    for (int i = 0; i < ENTRIES; i++) {
        int slot = rmc_wait_for_slot(r->qp, NULL);
        CHECK(slot == (int)((r->qp->posted) % ENTRIES));
        int nid = i % 4 == 1 ? RACKMEM_MAX_NODES - 1 : r->nid;
        rmc_read_async(r->qp, slot, nid, r->seed_offset, buffer, 8);
    }
    int last = (int)((r->qp->posted - 1) % ENTRIES);
    fails_with(RACKMEM_NO_NODE, rmc_drain_cq(r->qp, NULL));
    for (int i = 0; i < ENTRIES; i++) {
        int slot = (last + 1 + i) % ENTRIES;
        fails_with(i % 4 == 1 ? RACKMEM_NO_NODE : RACKMEM_OK, rmc_status(r->qp, slot));
    }
    CHECK(rmc_drain_cq(r->qp, NULL) == 0);
}

/* Queue pairs of a process have nothing to do with each other. */
static void test_queue_pairs(rack *r)
{
    int neighbour = (r->nid + 1) % r->nodes;
    uint64_t value = 0;
    QP *small, *other;
    CHECK(rackmem_qp_create(r->ctx, 2, &small) == 0 && small->size == 2);
    CHECK(rackmem_qp_create(r->ctx, MAX_WQ_SIZE, &other) == 0 && other->size == MAX_WQ_SIZE);
    CHECK(rackmem_qp_create(r->ctx, 3, &other) == -22); /* EINVAL */
    for (int i = 0; i < 5; i++)
        CHECK(rmc_fetch_and_add(small, neighbour, word_offset(r, 6), 1, &value) == 0);
    CHECK(value == 4);
    rackmem_qp_destroy(small);
    CHECK(rackmem_qp_create(r->ctx, 2, &small) == 0);
    CHECK(rmc_read(small, neighbour, word_offset(r, 6), &value, sizeof value) == 0);
    CHECK(value == 5);
}

/* A thread's work, with queue pairs of its own. */
static void *add_from_thread(void *arg)
{
    const rack *r = arg;
    int neighbour = (r->nid + 1) % r->nodes;
    for (int i = 0; i < 5; i++) {
        QP *qp;
        CHECK(rackmem_qp_create(r->ctx, 4, &qp) == 0);
        for (int n = 0; n < 10; n++)
            CHECK(rmc_fetch_and_add(qp, neighbour, word_offset(r, 7), 1, NULL) == 0);
        rackmem_qp_destroy(qp);
    }
    return NULL;
}

static void test_threads(rack *r)
{
    pthread_t thread;
    bool is_running = pthread_create(&thread, NULL, add_from_thread, r) == 0;
    add_from_thread(r);
    if (!is_running) /* a node of the model may have one core */
        add_from_thread(r);
    else
        CHECK(pthread_join(thread, NULL) == 0);
    barrier(r);
    CHECK(*own_word(r, 7) == 100);
}

/* After each barrier all have come as far, and nobody further than the next one. */
static void test_barrier(rack *r)
{
    enum { EPOCHS = 6 };
    uint64_t *own = own_word(r, 0), word;
    barrier(r); /* the word was another test's */
    for (uint64_t epoch = 1; epoch <= EPOCHS; epoch++) {
        __atomic_store_n(own, epoch, __ATOMIC_RELEASE);
        if ((int)(epoch % (uint64_t)r->nodes) == r->nid) /* one is late */
            CHECK(rmc_read(r->qp, 0, r->seed_offset, r->local, SEED_BYTES) == 0);
        barrier(r);
        for (int nid = 0; nid < r->nodes; nid++) {
            CHECK(rmc_read(r->qp, nid, word_offset(r, 0), &word, sizeof word) == 0);
            CHECK(word == epoch || word == epoch + 1);
        }
    }
}

static void receive_from(rack *r, int nid, size_t length, int test)
{
    size_t got;
    CHECK(rackmem_recv(&r->messaging, nid, r->local, LONGEST, &got) == 0);
    CHECK(got == length);
    CHECK(matches(r->local, 0, length, nid, test));
}

/* Messages of all kinds go round: pushed, pulled from the segment, pulled from elsewhere. */
static void test_messages(rack *r)
{
    static unsigned char data[LONGEST];
    static const size_t lengths[] = {0, 1, 8, 56, 57, 1000, RACKMEM_PULL_THRESHOLD, LONGEST};
    int to = (r->nid + 1) % r->nodes, from = (r->nid + r->nodes - 1) % r->nodes;
    fill(data, 0, LONGEST, r->nid, 1);
    memcpy(r->segment + r->source_offset, data, LONGEST);
    for (unsigned i = 0; i < 2 * sizeof lengths / sizeof lengths[0]; i++) {
        const unsigned char *source = i % 2 ? data : r->segment + r->source_offset;
        CHECK(rackmem_send_async(&r->messaging, to, source, lengths[i / 2]) == 0);
        receive_from(r, from, lengths[i / 2], 1);
        CHECK(rackmem_flush(&r->messaging) == 0);
    }
}

/* More messages than the ring has lines, from all to node 0. */
static void test_many_messages(rack *r)
{
    enum { MESSAGES = RACKMEM_RING_LINES + 50 };
    uint64_t next[RACKMEM_MAX_NODES] = {0}, word;
    if (r->nid != 0) {
        for (uint64_t i = 0; i < MESSAGES; i++)
            CHECK(rackmem_send(&r->messaging, 0, &i, sizeof i) == 0);
        return;
    }
    for (int i = 0; i < MESSAGES * (r->nodes - 1); i++) {
        int nid;
        CHECK(rackmem_recv_any(&r->messaging, &nid, &word, sizeof word, NULL) == 0);
        CHECK(word == next[nid]++);
    }
    CHECK(rackmem_try_recv(&r->messaging, 1, &word, sizeof word, NULL) == -11); /* EAGAIN */
}

typedef struct test {
    const char *name;
    void (*run)(rack *r);
    int least_nodes;
} test;

static const test tests[] = {
    {"join", test_join, 1},
    {"read", test_read, 1},
    {"write", test_write, 1},
    {"async", test_async, 1},
    {"fetch-and-add", test_fetch_and_add, 1},
    {"compare-and-swap", test_compare_and_swap, 1},
    {"atomics-of-both-sides", test_atomics_of_both_sides, 1},
    {"polling", test_polling, 1},
    {"notify", test_notify, 1},
    {"sleep", test_sleep, 1},
    {"errors", test_errors, 1},
    {"async-errors", test_async_errors, 1},
    {"queue-pairs", test_queue_pairs, 1},
    {"threads", test_threads, 1},
    {"barrier", test_barrier, 1},
    {"messages", test_messages, 2},
    {"many-messages", test_many_messages, 2},
    {"push", test_push, 2},
    {"pull", test_pull, 2},
    {"overtaking", test_overtaking, 1},
    {"map", test_map, 1},
    {"counter", test_counter, 1},
    {"counter-tree", test_counter_tree, 1},
    {"copy", test_copy, 1},
    {"queue", test_queue, 1},
    {"mr-queue", test_mr_queue, 1},
    {"lock", test_lock, 1},
    {"counter-barrier", test_counter_barrier, 1},
    {"sync-errors", test_sync_errors, 1},
};

/* ---- Set-up ------------------------------------------------------------------------------ */

static uint64_t lay_out(rack *r, int nodes)
{
    r->messaging_offset = rackmem_barrier_bytes(nodes);
    r->words_offset = r->messaging_offset + rackmem_messaging_bytes(nodes);
    r->seed_offset = word_offset(r, WORDS);
    r->pages_offset = r->seed_offset + SEED_BYTES;
    r->source_offset = page_offset(r, nodes);
    r->sync_offset = (r->source_offset + LONGEST + 63) & ~UINT64_C(63);
    return r->sync_offset + sync_bytes(nodes) + 4096;
}

static int open_rack(rack *r)
{
    uint64_t bytes = lay_out(r, program_nodes());
    if (rackmem_init(&r->ctx, (size_t)bytes) != 0)
        return program_call_failed("rack_test", "cannot join the rack");
    r->nid = rackmem_nid(r->ctx);
    r->nodes = rackmem_nodes(r->ctx);
    r->segment = rackmem_segment(r->ctx);
    r->local = rackmem_alloc(r->ctx, LONGEST + 2 * GUARD_BYTES);
    if (!r->local || rackmem_qp_create(r->ctx, ENTRIES, &r->qp) != 0)
        return program_call_failed("rack_test", "cannot set up");
    int error = rackmem_barrier_open(&r->barrier, r->ctx, r->qp, 0, NULL, 0);
    if (error == 0)
        error = rackmem_messaging_open(&r->messaging, r->ctx, r->qp, r->messaging_offset);
    if (error != 0)
        return program_operation_failed("rack_test", "cannot set up", error);
    fill(r->segment + r->seed_offset, 0, SEED_BYTES, r->nid, 0);
    barrier(r);
    return 0;
}

/* Whether the test is one of those that were asked for; without any, all are. */
static bool is_wanted(const test *t, int argc, char **argv)
{
    for (int i = 1; i < argc; i++)
        if (strcmp(argv[i], t->name) == 0)
            return true;
    return argc < 2;
}

int main(int argc, char **argv)
{
    rack r = {0};
    int passed = 0;
    if (open_rack(&r) != 0)
        return PROGRAM_FAILED;
    for (size_t i = 0; i < sizeof tests / sizeof tests[0]; i++) {
        if (r.nodes < tests[i].least_nodes || !is_wanted(&tests[i], argc, argv))
            continue;
        r.unseen = NULL;
        tests[i].run(&r);
        barrier(&r);
        passed++;
        if (r.nid == 0) {
            if (r.unseen)
                printf("UNSEEN %s: %s\n", tests[i].name, r.unseen);
            else
                printf("PASS %s\n", tests[i].name);
            fflush(stdout); /* so far it went, whatever comes */
        }
    }
    if (r.nid == 0)
        printf("rack_test: %d passed on %d node%s\n", passed, r.nodes, r.nodes == 1 ? "" : "s");
    rackmem_close(r.ctx);
    return passed > 0 ? program_flush("rack_test") : PROGRAM_FAILED;
}
