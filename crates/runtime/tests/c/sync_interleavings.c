/* Counter, queues, lock and counter barrier under every interleaving, with and without deaths. */
#define _GNU_SOURCE
#define RACKMEM_MR_QUEUE_POLLS 1
#include "interleave.h"

enum { PLACE = 0, OTHER = 512, OWN = 1024, OWN_MORE = 1088 };

/* ---- Counter ----------------------------------------------------------------------------- */

/* 3 processes make 2 arrivals each; an episode takes 2. It notifies a counter far from zero, which
 * counts. */
enum { EPISODE = 2, ARRIVALS = 2, FAR = 1000 };

static void open_counters(rackmem_context *ctx, QP *qp, void *handle)
{
    (void)qp, (void)handle;
    if (ctx->nid != 0)
        return;
    rackmem_notification told = {RACKMEM_NOTIFY_COUNTER, {0, OTHER}};
    rackmem_counter_config config = {-EPISODE, -EPISODE, 1, &told, 1};
    rackmem_counter_config counting = {-FAR, 0, 0, NULL, 0};
    CHECK(rackmem_counter_open(ctx, PLACE, &config) == 0);
    CHECK(rackmem_counter_open(ctx, OTHER, &counting) == 0);
}

static int64_t fired(void)
{
    int64_t value;
    memcpy(&value, world.segments[0] + OTHER, sizeof value);
    return value + FAR;
}

static int64_t value_of_counter(void)
{
    int64_t value;
    memcpy(&value, world.segments[0] + PLACE, sizeof value);
    return value;
}

static void add(rackmem_context *ctx, QP *qp, void *handle)
{
    (void)ctx, (void)handle;
    for (int i = 0; i < ARRIVALS; i++)
        CHECK(rackmem_counter_add(qp, rackmem_at(0, PLACE), 1) == 0);
}

static void all_episodes_fired(void)
{
    CHECK(fired() == 3 * ARRIVALS / EPISODE);
    CHECK(value_of_counter() == -EPISODE);
}

/* Process 1 or 2 may die: its arrivals may be missing, and the notification of one episode. */
static void add_or_die(rackmem_context *ctx, QP *qp, void *handle)
{
    (void)handle;
    for (int i = 0; i < ARRIVALS; i++) {
        int error = rackmem_counter_add(qp, rackmem_at(0, PLACE), 1);
        CHECK(error == 0 || error == -112);
        world.notes[ctx->nid]++;
    }
}

static void episodes_fired_but_the_dead_ones(void)
{
    if (world.processes[0].status == DEAD)
        return; /* and the counter with it */
    int64_t done = 0, begun = 0;
    for (int i = 0; i < 3; i++) {
        done += (int64_t)world.notes[i];
        begun += (int64_t)world.notes[i] + (world.processes[i].status == DEAD);
    }
    CHECK(fired() >= done / EPISODE - 1 && fired() <= begun / EPISODE);
}

/* ---- Queue of one reader ----------------------------------------------------------------- */

static void open_queue(rackmem_context *ctx, QP *qp, void *handle)
{
    CHECK(rackmem_queue_open(handle, ctx, qp, rackmem_at(0, PLACE), 2, 1) == 0);
}

/* Two put two items each into a queue of two, again if it is full; what one puts comes in its
 * order. */
static void put_or_get(rackmem_context *ctx, QP *qp, void *handle)
{
    rackmem_queue *q = handle;
    (void)qp;
    for (uint64_t i = 1; i <= 2 && ctx->nid != 0; i++) {
        uint64_t item = (uint64_t)ctx->nid << 8 | i;
        int error;
        while ((error = rackmem_queue_put(q, &item)) == -11) /* EAGAIN */
            ;
        CHECK(error == 0);
    }
    for (int i = 0; i < 4 && ctx->nid == 0; i++) {
        uint64_t item;
        CHECK(rackmem_queue_get(q, &item) == 0);
        uint64_t *last = &world.notes[8 + (item >> 8)];
        CHECK((item >> 8 == 1 || item >> 8 == 2) && (item & 0xff) == *last + 1);
        *last = item & 0xff;
    }
}

static void all_items_came(void)
{
    CHECK(world.notes[9] == 2 && world.notes[10] == 2);
    CHECK(*rackmem_queue_word_((rackmem_queue *)(void *)world.processes[0].handle,
                               RACKMEM_QUEUE_USED_) == 0);
}

/* Two put an item each, unless they die; the reader gives up what does not come. A process in the
 * place of a dead one puts nothing. */
static void put_or_skip(rackmem_context *ctx, QP *qp, void *handle)
{
    rackmem_queue *q = handle;
    uint64_t item = (uint64_t)ctx->nid;
    (void)qp;
    if (world.processes[ctx->nid].is_successor)
        return;
    if (ctx->nid != 0) {
        int error = rackmem_queue_put(q, &item);
        CHECK(error == 0 || error == -112); /* EHOSTDOWN */
        return;
    }
    for (int i = 0; i < 2; i++) {
        int error = rackmem_queue_get(q, &item);
        CHECK(error == 0 || error == -112);
        if (error == 0)
            CHECK(++world.notes[8 + item] == 1);
        else
            rackmem_queue_skip(q);
    }
}

static bool has_died(int nid)
{
    return world.processes[nid].status == DEAD || world.processes[nid].is_successor;
}

static void items_of_the_living_came(void)
{
    for (int i = 1; i < 3 && world.processes[0].status == DONE; i++)
        CHECK(has_died(i) || world.notes[8 + i] == 1);
}

/* The reader may wait for a producer that died before it had a place. */
static void a_producer_died(void)
{
    CHECK(has_died(1) || has_died(2));
    CHECK(*rackmem_queue_word_((rackmem_queue *)(void *)world.processes[0].handle,
                               RACKMEM_QUEUE_TAIL_) == 1);
}

/* ---- Queue of many readers ---------------------------------------------------------------- */

/* The ring never holds both items and requests. */
static void is_of_one_kind(void)
{
    int items = 0, requests = 0;
    for (int slot = 0; slot < 2; slot++) {
        uint64_t state;
        memcpy(&state, world.segments[0] + PLACE + RACKMEM_MR_QUEUE_BODY_ + slot * 64,
               sizeof state);
        uint64_t kind = rackmem_place_kind_(state);
        items += kind == RACKMEM_PLACE_WRITING_ || kind == RACKMEM_PLACE_ITEM_;
        requests += kind == RACKMEM_PLACE_REQUEST_;
    }
    CHECK(items == 0 || requests == 0);
}

static void open_ring(rackmem_context *ctx, QP *qp, void *handle)
{
    CHECK(rackmem_mr_queue_open(handle, ctx, qp, rackmem_at(0, PLACE), 2, 1, OWN) == 0);
}

static void note_item(uint64_t item)
{
    CHECK(item >> 8 < 3 && (item & 0xff) >= 1 && (item & 0xff) <= 2);
    uint64_t *times = &world.notes[16 + 4 * (item >> 8) + (item & 0xff)];
    CHECK(++*times == 1);
    world.notes[1]++;
}

/* Process 0 puts two items, the others get one each: in order, as far as it can be told. */
static void put_two_get_one(rackmem_context *ctx, QP *qp, void *handle)
{
    rackmem_mr_queue *q = handle;
    uint64_t item;
    (void)qp;
    if (ctx->nid != 0) {
        CHECK(rackmem_mr_queue_get(q, &item) == 0);
        note_item(item);
        return;
    }
    for (item = 1; item <= 2; item++)
        CHECK(rackmem_mr_queue_put(q, &item) == 0);
}

/* Into a ring of two, which may be full. */
static void put(rackmem_mr_queue *q, uint64_t item)
{
    int error;
    while ((error = rackmem_mr_queue_put(q, &item)) == -11) /* EAGAIN */
        ;
    CHECK(error == 0);
}

/* Two put, one gets: what one of them puts comes in its order. */
static void put_one_get_two(rackmem_context *ctx, QP *qp, void *handle)
{
    rackmem_mr_queue *q = handle;
    uint64_t item, last = 0;
    (void)qp;
    if (ctx->nid != 1)
        put(q, (uint64_t)ctx->nid << 8 | 1);
    if (ctx->nid == 0)
        put(q, 2);
    for (int i = 0; i < 3 && ctx->nid == 1; i++) {
        int error;
        while ((error = rackmem_mr_queue_get(q, &item)) ==
               -11) /* EAGAIN: a place is not free yet */
            ;
        CHECK(error == 0);
        note_item(item);
        CHECK(item >> 8 != 0 || (item & 0xff) == ++last);
    }
}

static void two_items_came(void)
{
    CHECK(world.notes[1] == 2);
}

static void three_items_came(void)
{
    CHECK(world.notes[1] == 3);
}

/* Process 1 puts an item; each of the others gets it and puts its successor: one after the other.
 */
static void pass_on_or_die(rackmem_context *ctx, QP *qp, void *handle)
{
    rackmem_mr_queue *q = handle;
    uint64_t item = 0;
    int error = 0;
    (void)qp;
    if (ctx->nid != 1)
        error = rackmem_mr_queue_get(q, &item);
    CHECK(error == 0 || error == -112); /* EHOSTDOWN */
    if (error != 0)
        return;
    if (ctx->nid != 1)
        note_item(item);
    world.notes[8 + ctx->nid] = 1; /* it has the item */
    item++;
    error = rackmem_mr_queue_put(q, &item);
    CHECK(error == 0 || error == -112 || error == -11); /* EAGAIN: a place is not free yet */
    world.notes[4 + ctx->nid] = 1;
}

/* A reader waits for ever only if the item went with a process that had it, had been given it, or
 * was giving it. */
static void item_was_lost(void)
{
    int lost = 0;
    for (int i = 0; i < 3; i++) {
        uint64_t answer;
        memcpy(&answer, world.segments[i] + OWN, sizeof answer);
        lost += world.processes[i].status == DEAD && world.notes[4 + i] == 0 &&
                (i == 1 || world.notes[8 + i] != 0 || answer != 0);
    }
    CHECK(lost == 1);
}

static void nothing(void)
{
}

enum { TAKEN_FROM = 30 };

static void open_ring_of_four(rackmem_context *ctx, QP *qp, void *handle)
{
    int error = rackmem_mr_queue_open(handle, ctx, qp, rackmem_at(0, PLACE), 4, 1, OWN);
    CHECK(error == 0 || error == -112); /* EHOSTDOWN */
}

/* The number of its item: that of a successor differs. */
static uint64_t process_1(void)
{
    return 1 + (uint64_t)world.processes[1].is_successor;
}

static int have_all_put(void *arg)
{
    (void)arg;
    return world.processes[0].status >= DONE && world.processes[1].status >= DONE;
}

/* 0 and 1 put an item each, and so does a process in place of 1; then 2 empties the queue. */
static void put_then_empty(rackmem_context *ctx, QP *qp, void *handle)
{
    rackmem_mr_queue *q = handle;
    uint64_t item = ctx->nid == 0 ? 1 : 1 << 8 | process_1();
    int error;
    (void)qp;
    if (ctx->nid != 2) {
        error = rackmem_mr_queue_put(q, &item);
        CHECK(error == 0 || (error == -112 && world.processes[0].status == DEAD));
        return;
    }
    CHECK(rackmem_sleep_until(ctx, have_all_put, NULL, -1, -1) == 0);
    world.notes[TAKEN_FROM] = process_1();
    while ((error = rackmem_mr_queue_try_get(q, &item)) == 0)
        note_item(item);
    CHECK(error == -11 || error == -112); /* EAGAIN: no more */
}

static void items_came(void)
{
    process *p = world.processes;
    if (p[0].status == DEAD || p[2].status == DEAD)
        return;
    CHECK(world.notes[16 + 1] == 1);
    CHECK(p[1].status == DEAD || world.notes[TAKEN_FROM] != process_1() ||
          world.notes[16 + 4 + process_1()] == 1);
}

/* ---- Lock -------------------------------------------------------------------------------- */

enum { INSIDE = 0, TURNS_DONE = 2, INTERRUPTED = 3 };

static void critical_section(rackmem_lock *l, int entered)
{
    int self = l->ctx->nid;
    uint64_t inside = world.notes[INSIDE], count;
    bool was_orphaned = inside != 0;
    if (was_orphaned) /* only if who was in there is dead, and it is said */
        CHECK(world.processes[inside - 1].status == DEAD && entered == RACKMEM_OWNER_DIED);
    CHECK(entered == 0 || entered == RACKMEM_OWNER_DIED);
    world.notes[INSIDE] = (uint64_t)self + 1;
    /* Two steps within. */
    CHECK(rmc_read(l->qp, self, OWN_MORE, &count, sizeof count) == 0);
    CHECK(world.notes[INSIDE] == (uint64_t)self + 1);
    CHECK(rackmem_lock_try_acquire(l) == -35);
    world.notes[INSIDE] = 0;
    world.notes[TURNS_DONE]++;
}

static void open_lock(rackmem_context *ctx, QP *qp, void *handle)
{
    CHECK(rackmem_lock_open(handle, ctx, qp, rackmem_at(0, PLACE), 3, OWN) == 0);
}

static void lock_turns(rackmem_lock *l, int turns)
{
    for (int i = 0; i < turns; i++) {
        int entered = rackmem_lock_acquire(l);
        if (entered == -112)
            return;
        if (entered == -4) { /* EINTR: it has no turn */
            world.notes[INTERRUPTED]++;
            continue;
        }
        critical_section(l, entered);
        int error = rackmem_lock_release(l);
        CHECK(error == 0 || error == -112);
    }
}

static void lock_twice(rackmem_context *ctx, QP *qp, void *handle)
{
    (void)ctx, (void)qp;
    lock_turns(handle, 2);
}

static void lock_once(rackmem_context *ctx, QP *qp, void *handle)
{
    (void)ctx, (void)qp;
    lock_turns(handle, 1);
}

static void lock_is_free(void)
{
    uint64_t word;
    memcpy(&word, world.segments[0] + PLACE + RACKMEM_LOCK_WORD_, sizeof word);
    CHECK((word & RACKMEM_LOCK_HOLDER_) == 0);
}

static void three_turns_done(void)
{
    CHECK(world.notes[TURNS_DONE] + world.notes[INTERRUPTED] == 3);
    lock_is_free();
}

static void four_turns_done(void)
{
    CHECK(world.notes[TURNS_DONE] + world.notes[INTERRUPTED] == 4);
    lock_is_free();
}

/* All processes that live have had their turn, as long as the home lives. */
static void the_living_had_their_turn(void)
{
    uint64_t living = 0;
    for (int i = 0; i < subject->processes; i++)
        living += world.processes[i].status == DONE;
    uint64_t turns = world.notes[TURNS_DONE] + world.notes[INTERRUPTED];
    CHECK(world.processes[0].status == DEAD || turns >= living);
}

/* ---- Counter barrier --------------------------------------------------------------------- */

static void open_barrier(rackmem_context *ctx, QP *qp, void *handle)
{
    CHECK(rackmem_counter_barrier_open(handle, ctx, qp, PLACE, 1, 0) == 0);
}

static void meet_twice(rackmem_context *ctx, rackmem_counter_barrier *b, bool may_die)
{
    for (uint64_t epoch = 1; epoch <= 2; epoch++) {
        world.notes[8 + ctx->nid] = epoch;
        int error = rackmem_counter_barrier_wait(b);
        if (error != 0) {
            CHECK(may_die && error == -112);
            return;
        }
        for (int i = 0; i < subject->processes; i++)
            CHECK(world.notes[8 + i] >= epoch);
    }
    world.notes[0]++;
}

static void barrier_twice(rackmem_context *ctx, QP *qp, void *handle)
{
    (void)qp;
    meet_twice(ctx, handle, false);
}

static void barrier_or_die(rackmem_context *ctx, QP *qp, void *handle)
{
    (void)qp;
    meet_twice(ctx, handle, true);
}

static void all_passed(void)
{
    CHECK(world.notes[0] == (uint64_t)subject->processes);
}

static const interleaving all[] = {
    {"counter", 3, 0, 0, 0, open_counters, add, NULL, all_episodes_fired, NULL, false, 1},
    {"counter, one dies", 3, 1, 0, 0, open_counters, add_or_die, NULL, episodes_fired_but_the_dead_ones,
     NULL, false, 45},
    {"queue", 3, 0, 0, 0, open_queue, put_or_get, NULL, all_items_came, NULL, false, 4},
    {"queue, one dies", 3, 1, 0, 0, open_queue, put_or_skip, NULL, items_of_the_living_came,
     a_producer_died, false, 30},
    {"queue, one dies and comes back", 3, 1, 1, 0, open_queue, put_or_skip, NULL,
     items_of_the_living_came, a_producer_died, false, 34},
    {"mr-queue, two readers", 3, 0, 0, 0, open_ring, put_two_get_one, is_of_one_kind, two_items_came,
     NULL, false, 20},
    {"mr-queue, two writers", 3, 0, 0, 0, open_ring, put_one_get_two, is_of_one_kind, three_items_came,
     NULL, true, 63},
    {"mr-queue, one dies", 3, 1, 0, 0, open_ring, pass_on_or_die, is_of_one_kind, nothing, item_was_lost,
     false, 490},
    {"mr-queue, one dies and comes back", 3, 1, 1, 0, open_ring_of_four, put_then_empty, NULL,
     items_came, NULL, false, 105},
    {"lock, two", 2, 0, 0, 0, open_lock, lock_twice, NULL, four_turns_done, NULL, false, 28},
    {"lock, three", 3, 0, 0, 0, open_lock, lock_once, NULL, three_turns_done, NULL, false, 24},
    {"lock, one of two dies", 2, 1, 0, 0, open_lock, lock_twice, NULL, the_living_had_their_turn, NULL,
     false, 463},
    {"lock, one of three dies", 3, 1, 0, 0, open_lock, lock_once, NULL, the_living_had_their_turn, NULL,
     false, 694},
    {"lock, two, interrupted", 2, 0, 0, 2, open_lock, lock_twice, NULL, four_turns_done, NULL, false,
     154},
    {"lock, three, interrupted", 3, 0, 0, 2, open_lock, lock_once, NULL, three_turns_done, NULL, false,
     108},
    {"lock, one of two dies, interrupted", 2, 1, 0, 1, open_lock, lock_twice, NULL,
     the_living_had_their_turn, NULL, false, 1589},
    {"lock, one of three dies, interrupted", 3, 1, 0, 1, open_lock, lock_once, NULL,
     the_living_had_their_turn, NULL, false, 2353},
    {"barrier, two", 2, 0, 0, 0, open_barrier, barrier_twice, NULL, all_passed, NULL, false, 1},
    {"barrier, three", 3, 0, 0, 0, open_barrier, barrier_twice, NULL, all_passed, NULL, false, 1},
    {"barrier, one dies", 3, 1, 0, 0, open_barrier, barrier_or_die, NULL, nothing, NULL, false, 79},
};

/* SEED [short]: those that take long may be left out. */
int main(int argc, char **argv)
{
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        if (argc < 3 || !all[i].is_long)
            interleave(&all[i]);
    (void)argv;
    return 0;
}
