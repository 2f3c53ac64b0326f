/* Counters, copies, queues, lock and counter barrier: the part of rack_test that is about waiting
 * for each other. Each test has an area of its own in every segment. */
#include <stdbool.h>
#include <string.h>

#include "rack_test.h"

enum {
    EPISODES = 4,
    ITEMS = 12, /* of each node */
    SLOTS = 8,  /* of the queues: they wrap */
    WORDS = 8,  /* of an item: two lines */
    PARTICIPANTS = 64,
    COPY_BYTES = 9000 /* more than a chunk */
};

/* Offsets in every segment, from sync_offset on. */
enum {
    COUNTER = 0, /* and behind it a counter that it notifies */
    FLAG = 128,
    TREE = 192,
    COPY_COUNTER = 320,
    COPY_FLAG = 384,
    LOCK_FLAG = 400,
    GUARDED = 448, /* what the lock guards */
    RESPONSE = 512,
    WORD_QUEUE = 1024,
    QUEUE = 2048,
    MR_QUEUE = QUEUE + 4096,
    LOCK = MR_QUEUE + 4096,
    COPY_FROM = LOCK + 2048,
    COPY_TO = COPY_FROM + 16384,
    BARRIER = COPY_TO + 16384
};

uint64_t sync_bytes(int nodes)
{
    return BARRIER + rackmem_counter_barrier_bytes(nodes, 1);
}

static rackmem_address place(const rack *r, int nid, uint64_t which)
{
    return rackmem_at(nid, r->sync_offset + which);
}

static uint64_t *own(const rack *r, uint64_t which)
{
    return (uint64_t *)(void *)(r->segment + r->sync_offset + which);
}

static void open_counter(rack *r, uint64_t which, int64_t reset, uint64_t word,
                         rackmem_notification told)
{
    rackmem_counter_config config = {reset, reset, word, &told, 1};
    CHECK(rackmem_counter_open(r->ctx, r->sync_offset + which, &config) == 0);
}

/* If a segment can be mapped as memory, a change there is a change for all. */
void test_map(rack *r)
{
    int neighbour = (r->nid + 1) % r->nodes;
    rackmem_mapping m;
    CHECK(rackmem_map(r->ctx, r->nid, &m) == 0);
    CHECK(m.memory == r->segment && m.size_bytes == rackmem_segment_bytes(r->ctx));
    CHECK(*m.state == RACKMEM_MAPPING_LIVE);
    CHECK(rackmem_map(r->ctx, RACKMEM_MAX_NODES - 1, &m) == rackmem_status_errno(RACKMEM_NO_NODE));
    int error = rackmem_map(r->ctx, neighbour, &m);
    CHECK(error == 0 || error == -95); /* EOPNOTSUPP */
    if (error == 0)
        __atomic_fetch_add((uint64_t *)(void *)((char *)m.memory + place(r, 0, FLAG).offset), 1,
                           __ATOMIC_RELAXED);
    else
        CHECK(rmc_fetch_and_add(r->qp, neighbour, place(r, 0, FLAG).offset, 1, NULL) == 0);
    barrier(r);
    CHECK(*own(r, FLAG) == 1);
    *own(r, FLAG) = 0;
}

/* Each episode of so many arrivals as there are nodes puts one word into a queue, whoever comes
 * when. */
void test_counter(rack *r)
{
    rackmem_queue fired;
    uint64_t word;
    CHECK(rackmem_queue_open(&fired, r->ctx, r->qp, place(r, 0, WORD_QUEUE), SLOTS, 1) == 0);
    if (r->nid == 0)
        open_counter(r, COUNTER, -r->nodes, 77,
                     (rackmem_notification){RACKMEM_NOTIFY_QUEUE, place(r, 0, WORD_QUEUE)});
    barrier(r);
    for (int i = 0; i < EPISODES; i++)
        CHECK(rackmem_counter_add(r->qp, place(r, 0, COUNTER), 1) == 0);
    barrier(r);
    for (int i = 0; i < EPISODES && r->nid == 0; i++)
        CHECK(rackmem_queue_try_get(&fired, &word) == 0 && word == 77);
    if (r->nid == 0) {
        CHECK(rackmem_queue_try_get(&fired, &word) == -11); /* EAGAIN: no episode fired twice */
        CHECK(*own(r, COUNTER) == (uint64_t)-r->nodes);
    }
}

/* A counter at each node notifies one at node 0, which raises a flag. */
void test_counter_tree(rack *r)
{
    uint64_t word = 0;
    open_counter(r, TREE, -2, 5,
                 (rackmem_notification){RACKMEM_NOTIFY_COUNTER, place(r, 0, COUNTER + 64)});
    if (r->nid == 0)
        open_counter(r, COUNTER + 64, -5 * r->nodes, 9,
                     (rackmem_notification){RACKMEM_NOTIFY_FLAG, place(r, 0, FLAG)});
    barrier(r);
    int neighbour = (r->nid + 1) % r->nodes;
    CHECK(rackmem_counter_add(r->qp, place(r, r->nid, TREE), 1) == 0);
    CHECK(rackmem_counter_add(r->qp, place(r, neighbour, TREE), 1) == 0);
    if (r->nid == 0) {
        CHECK(rackmem_flag_wait(r->ctx, r->qp, r->sync_offset + FLAG, -1, &word) == 0);
        CHECK(word == 9 && *own(r, FLAG) == 0);
    }
}

/* Each node copies from the node before it to the one behind it, and waits until it has got its
 * own, from any number of parts of any size. */
void test_copy(rack *r)
{
    static const uint64_t sizes[] = {1, 64, 70, 1000, COPY_BYTES};
    rackmem_copier c;
    int before = (r->nid + r->nodes - 1) % r->nodes, behind = (r->nid + 1) % r->nodes;
    unsigned char *from = r->segment + r->sync_offset + COPY_FROM;
    const unsigned char *to = r->segment + r->sync_offset + COPY_TO;
    int writer = (r->nid + 2 * r->nodes - 2) % r->nodes; /* whose bytes come here */
    uint64_t sum = 0, at = 5;
    for (int i = 0; i < 16384; i++)
        from[i] = (unsigned char)(i * 7 + r->nid * 31);
    CHECK(rackmem_copier_open(&c, r->ctx, r->qp) == 0);
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
        sum += sizes[i];
    open_counter(r, COPY_COUNTER, 0, 1,
                 (rackmem_notification){RACKMEM_NOTIFY_FLAG, place(r, r->nid, COPY_FLAG)});
    barrier(r);
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        CHECK(rackmem_copy(&c, place(r, behind, COPY_TO + at + i), place(r, before, COPY_FROM + at),
                           sizes[i], place(r, behind, COPY_COUNTER)) == 0);
        at += sizes[i];
    }
    /* Some of it may have come before it is known how much it will be. */
    CHECK(rackmem_counter_add(r->qp, place(r, r->nid, COPY_COUNTER), -(int64_t)sum) == 0);
    CHECK(rackmem_copier_flush(&c) == 0);
    CHECK(rackmem_flag_wait(r->ctx, r->qp, r->sync_offset + COPY_FLAG, -1, NULL) == 0);
    at = 5;
    for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
        CHECK(to[at + i - 1] == 0); /* between two copies */
        for (uint64_t n = at; n < at + sizes[i]; n++)
            CHECK(to[n + i] == (unsigned char)((int)n * 7 + writer * 31));
        at += sizes[i];
    }
}

static void make_item(uint64_t item[WORDS], int nid, uint64_t number)
{
    for (uint64_t i = 0; i < WORDS; i++)
        item[i] = (uint64_t)nid << 32 | number << 8 | i;
}

/* The node whose item it is; checks that it is whole. */
static int check_item(const uint64_t item[WORDS], uint64_t *number)
{
    uint64_t expected[WORDS];
    int nid = (int)(item[0] >> 32);
    *number = item[0] >> 8 & 0xffffff;
    make_item(expected, nid, *number);
    CHECK(memcmp(expected, item, sizeof expected) == 0);
    return nid;
}

/* All enqueue, node 0 takes out: everything comes once, in the order of each node. */
void test_queue(rack *r)
{
    uint64_t next[64] = {0}, item[WORDS], number;
    rackmem_queue q;
    int full = 0, taken = 0, put = 0;
    CHECK(rackmem_queue_open(&q, r->ctx, r->qp, place(r, 0, QUEUE), SLOTS, WORDS) == 0);
    while (put < ITEMS || (r->nid == 0 && taken < ITEMS * r->nodes)) {
        if (put < ITEMS) {
            make_item(item, r->nid, (uint64_t)put);
            int error = rackmem_queue_put(&q, item);
            CHECK(error == 0 || error == -11); /* EAGAIN: full */
            full += error != 0;
            put += error == 0;
        }
        /* As long as node 0 has items of its own to put, it takes out only when it must. */
        if (r->nid != 0 || (put < ITEMS && full == 0))
            continue;
        CHECK(rackmem_queue_get(&q, item) == 0);
        int nid = check_item(item, &number);
        CHECK(number == next[nid]++);
        taken++;
    }
    CHECK(r->nid != 0 || full > 0);
    barrier(r);
    CHECK(rackmem_queue_try_get(&q, item) == (r->nid == 0 ? -11 : -1)); /* EAGAIN, EPERM */
}

/* Even nodes put, odd ones get; the last one, if it has nobody to get from it, does both. Each item
 * is got once: the sum of all says so. */
void test_mr_queue(rack *r)
{
    uint64_t item[WORDS], number, sum = 0;
    rackmem_mr_queue q;
    bool puts = r->nid % 2 == 0, gets = !puts || r->nid + 1 == r->nodes;
    CHECK(rackmem_mr_queue_open(&q, r->ctx, r->qp, place(r, 0, MR_QUEUE), SLOTS, WORDS,
                                r->sync_offset + RESPONSE) == 0);
    for (uint64_t i = 0; i < ITEMS; i++) {
        int error = puts ? -11 : 0;
        make_item(item, r->nid, i);
        while (error == -11) /* EAGAIN: full */
            error = rackmem_mr_queue_put(&q, item);
        CHECK(error == 0);
        if (!gets)
            continue;
        CHECK(rackmem_mr_queue_get(&q, item) == 0);
        sum += 1 + ((uint64_t)check_item(item, &number) * ITEMS + number) * 1000;
    }
    CHECK(rmc_fetch_and_add(r->qp, 0, place(r, 0, GUARDED + 8).offset, sum, NULL) == 0);
    barrier(r);
    CHECK(rackmem_mr_queue_try_get(&q, item) == -11); /* EAGAIN */
    uint64_t expected = 0;
    for (uint64_t nid = 0; nid < (uint64_t)r->nodes; nid += 2)
        for (uint64_t i = 0; i < ITEMS; i++)
            expected += 1 + (nid * ITEMS + i) * 1000;
    CHECK(r->nid != 0 || *own(r, GUARDED + 8) == expected);
    barrier(r);
    if (r->nid != 0)
        return;
    for (int i = 0; i < SLOTS; i++)
        CHECK(rackmem_mr_queue_put(&q, item) == 0);
    CHECK(rackmem_mr_queue_put(&q, item) == -11); /* EAGAIN: full */
    for (int i = 0; i < SLOTS; i++)
        CHECK(rackmem_mr_queue_try_get(&q, item) == 0);
}

/* The word that the lock guards is read and written in two steps. */
void test_lock(rack *r)
{
    enum { TURNS = 6 };
    rackmem_lock l;
    const uint64_t guarded = place(r, 0, GUARDED).offset;
    CHECK(rackmem_lock_open(&l, r->ctx, r->qp, place(r, 0, LOCK), PARTICIPANTS,
                            r->sync_offset + LOCK_FLAG) == 0);
    for (int turn = 0; turn < TURNS; turn++) {
        uint64_t value;
        int error = turn % 3 == 2 ? rackmem_lock_try_acquire(&l) : rackmem_lock_acquire(&l);
        if (error == -16) /* EBUSY */
            error = rackmem_lock_acquire(&l);
        CHECK(error == 0);
        CHECK(rmc_read(r->qp, 0, guarded, &value, sizeof value) == 0);
        value++;
        CHECK(rmc_write(r->qp, 0, guarded, &value, sizeof value) == 0);
        CHECK(rackmem_lock_acquire(&l) == -35); /* EDEADLK */
        CHECK(rackmem_lock_release(&l) == 0);
    }
    CHECK(rackmem_lock_release(&l) == -1); /* EPERM */
    barrier(r);
    if (r->nid == 0)
        CHECK(*own(r, GUARDED) == (uint64_t)(TURNS * r->nodes));
}

/* As the test of the other barrier: nobody is further than the next epoch. */
void test_counter_barrier(rack *r)
{
    rackmem_counter_barrier b;
    uint64_t word;
    CHECK(rackmem_counter_barrier_open(&b, r->ctx, r->qp, r->sync_offset + BARRIER, 1, 0) == 0);
    *own(r, FLAG) = 0;
    barrier(r);
    for (uint64_t epoch = 1; epoch <= EPISODES; epoch++) {
        __atomic_store_n(own(r, FLAG), epoch, __ATOMIC_RELEASE);
        CHECK(rackmem_counter_barrier_wait(&b) == 0);
        for (int nid = 0; nid < r->nodes; nid++) {
            CHECK(rmc_read(r->qp, nid, place(r, nid, FLAG).offset, &word, sizeof word) == 0);
            CHECK(word == epoch || word == epoch + 1);
        }
    }
}

/* An argument that is wrong gives this error, and a text that names what is wrong. */
static void is_refused(int error, int expected, const char *text)
{
    if (error != expected || !strstr(rackmem_last_error(), text))
        fprintf(stderr, "%d instead of %d, '%s' instead of '%s'\n", error, expected,
                rackmem_last_error(), text);
    CHECK(error == expected && strstr(rackmem_last_error(), text));
}

static void refuse_counters(rack *r)
{
    const uint64_t end = rackmem_segment_bytes(r->ctx);
    rackmem_notification told[5] = {{RACKMEM_NOTIFY_FLAG, {0, 8}}};
    rackmem_counter_config config = {-1, -1, 1, told, 5};
    is_refused(rackmem_counter_open(r->ctx, 0, &config), -22, "at most 4");
    config.count = 1;
    is_refused(rackmem_counter_open(r->ctx, 8, &config), -22, "multiple of 64");
    is_refused(rackmem_counter_open(r->ctx, end, &config), -34, "leaves the segment");
    config.reset = 1;
    is_refused(rackmem_counter_open(r->ctx, 0, &config), -22, "not above zero");
    config.reset = -1;
    told[0].at.offset = 12;
    is_refused(rackmem_counter_open(r->ctx, 0, &config), -22, "not aligned");
    told[0] = (rackmem_notification){9, {0, 0}};
    is_refused(rackmem_counter_open(r->ctx, 0, &config), -22, "a flag, a counter or a queue");
    open_counter(r, TREE, -2, 1, (rackmem_notification){RACKMEM_NOTIFY_FLAG, place(r, 0, FLAG)});
    is_refused(rackmem_counter_add(r->qp, place(r, r->nid, TREE), 3), -75, "more was added");
    open_counter(r, TREE, -1, 1,
                 (rackmem_notification){RACKMEM_NOTIFY_COUNTER, place(r, r->nid, TREE)});
    is_refused(rackmem_counter_add(r->qp, place(r, r->nid, TREE), 1), -40, "in a circle");
}

static void refuse_queues(rack *r)
{
    const uint64_t end = rackmem_segment_bytes(r->ctx);
    rackmem_queue q;
    rackmem_mr_queue m;
    is_refused(rackmem_queue_open(&q, r->ctx, r->qp, place(r, 0, QUEUE), 3, 1), -22,
               "power of two");
    is_refused(rackmem_queue_open(&q, r->ctx, r->qp, place(r, 0, QUEUE), 4, 3), -22,
               "power of two");
    is_refused(rackmem_queue_open(&q, r->ctx, r->qp, place(r, 0, QUEUE + 8), 4, 1), -22, "of 64");
    is_refused(rackmem_queue_open(&q, r->ctx, r->qp, rackmem_at(0, end - 64), 4, 1), -34, "leaves");
    is_refused(rackmem_queue_open(&q, r->ctx, r->qp, place(r, 0, QUEUE), 2 * SLOTS, 1), -22,
               "another size");
    is_refused(rackmem_mr_queue_open(&m, r->ctx, r->qp, place(r, 0, MR_QUEUE), 1, 1, 0), -22,
               "power of two");
    is_refused(rackmem_mr_queue_open(&m, r->ctx, r->qp, place(r, 0, MR_QUEUE), 2, 1, 8), -22,
               "of 64");
    is_refused(rackmem_mr_queue_open(&m, r->ctx, r->qp, place(r, 0, MR_QUEUE), 2, 1, end), -34,
               "leave");
}

void test_sync_errors(rack *r)
{
    const uint64_t end = rackmem_segment_bytes(r->ctx);
    rackmem_lock l;
    rackmem_counter_barrier b;
    rackmem_copier c;
    refuse_counters(r);
    refuse_queues(r);
    is_refused(rackmem_lock_open(&l, r->ctx, r->qp, place(r, 0, LOCK), 0, 0), -22, "1 to 1024");
    is_refused(rackmem_lock_open(&l, r->ctx, r->qp, place(r, 0, LOCK), 2, 4), -22, "16 bytes");
    is_refused(rackmem_lock_open(&l, r->ctx, r->qp, place(r, 0, LOCK), 2, end), -34, "leaves");
    is_refused(rackmem_lock_open(&l, r->ctx, r->qp, rackmem_at(0, end), 2, 0), -34, "leaves");
    is_refused(rackmem_counter_barrier_open(&b, r->ctx, r->qp, 0, 0, 0), -22, "1 to 65536");
    is_refused(rackmem_counter_barrier_open(&b, r->ctx, r->qp, 8, 1, 0), -22, "of 64");
    is_refused(rackmem_counter_barrier_open(&b, r->ctx, r->qp, end, 1, 0), -34, "leaves");
    CHECK(rackmem_copier_open(&c, r->ctx, r->qp) == 0);
    is_refused(rackmem_copy(&c, place(r, 0, 0), place(r, 0, 8), 9, rackmem_nowhere()), -22,
               "overlap");
    is_refused(rackmem_copy(&c, rackmem_at(-1, 0), place(r, 0, 0), 8, rackmem_nowhere()), -22,
               "node");
    is_refused(rackmem_copy(&c, place(r, 0, 0), place(r, 0, 64), 8, rackmem_at(0, 8)), -22,
               "counter");
    is_refused(rackmem_copy(&c, rackmem_at(r->nid, end), rackmem_at(0, 0), 8, rackmem_nowhere()),
               -34, "leaves");
    CHECK(rackmem_copy(&c, rackmem_at(RACKMEM_MAX_NODES - 1, 0), place(r, 0, 0), 8,
                       rackmem_nowhere()) == 0);
    CHECK(rackmem_copier_flush(&c) == rackmem_status_errno(RACKMEM_NO_NODE));
    CHECK(rackmem_copier_flush(&c) == 0);
}
