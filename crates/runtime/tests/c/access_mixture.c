/*
 * Operations of all kinds on all nodes, in flight together on one queue pair, between real processes:
 * asynchronous ones that succeed and fail, and synchronous ones in between. Each node does so at the
 * same time, in a region of its own at every node, so it knows what each word has to be.
 *
 *     rackmem run -n 3 -- access_mixture
 */
#include "message_data.h"

#include <errno.h>

enum { CELLS = 160, WORDS = 8, DONE_AT = 0, DATA_AT = 4096, MAX_TEST_NODES = 4 };
enum { SCRATCH_BYTES = MAX_WQ_SIZE * 64, OPERATIONS = 3000 };
enum { REGION_BYTES = CELLS * 64, SCRATCH_AT = DATA_AT + MAX_TEST_NODES * REGION_BYTES };
enum { SEGMENT_BYTES = SCRATCH_AT + SCRATCH_BYTES };

/* A line of some node, and what it holds. */
typedef struct cell {
    uint64_t words[WORDS];
    int busy;
} cell;

/* The operation in a slot. */
typedef struct operation {
    enum rackmem_op op;
    int nid, number, status; /* the status that it has to have */
    uint64_t *buffer;
    uint64_t sent[WORDS];
} operation;

static rackmem_context *ctx;
static QP *qp;
static uint64_t chance;
static cell cells[MAX_TEST_NODES][CELLS];
static operation slots[MAX_WQ_SIZE];
static int pending[MAX_WQ_SIZE], calls, failures;
static uint64_t plain[MAX_WQ_SIZE][WORDS];
static uint64_t *shared; /* from rackmem_alloc */

static uint64_t below(uint64_t n)
{
    return next_random(&chance) % n;
}

static uint64_t offset_of(int number)
{
    return DATA_AT + (uint64_t)rackmem_nid(ctx) * REGION_BYTES + (uint64_t)number * 64;
}

/* One of four kinds of memory. */
static uint64_t *buffer_of(int slot, int is_atomic)
{
    unsigned char *segment = (unsigned char *)rackmem_segment(ctx);
    switch (below(is_atomic ? 4 : 3)) {
    case 0:
        return plain[slot];
    case 1:
        return shared + slot * WORDS;
    case 2:
        return (uint64_t *)(void *)(segment + SCRATCH_AT + slot * 64);
    default:
        return &qp->operands[2 * slot];
    }
}

static void take_cell(operation *o)
{
    o->nid = (int)below((uint64_t)rackmem_nodes(ctx));
    do
        o->number = (int)below(CELLS);
    while (cells[o->nid][o->number].busy);
    cells[o->nid][o->number].busy = 1;
}

/* Applies a completed operation to what is known, and compares. */
static void settle(operation *o)
{
    cell *c = &cells[o->nid][o->number];
    c->busy = 0;
    if (o->status != 0)
        return;
    switch (o->op) {
    case RACKMEM_OP_READ:
        CHECK(memcmp(o->buffer, c->words, sizeof c->words) == 0);
        break;
    case RACKMEM_OP_WRITE:
        memcpy(c->words, o->sent, sizeof c->words);
        break;
    case RACKMEM_OP_FETCH_ADD:
        CHECK(o->buffer[0] == c->words[0]);
        c->words[0] += o->sent[0];
        break;
    default:
        CHECK(o->buffer[0] == c->words[0]);
        if (c->words[0] == o->sent[0])
            c->words[0] = o->sent[1];
    }
}

static void completed(int slot, void *arg)
{
    CHECK(arg == slots && pending[slot]);
    pending[slot] = 0;
    calls++;
    CHECK(rmc_status(qp, slot) == slots[slot].status);
    settle(&slots[slot]);
}

static void choose(operation *o, int slot)
{
    static const enum rackmem_op ops[] = {RACKMEM_OP_READ, RACKMEM_OP_WRITE, RACKMEM_OP_FETCH_ADD,
                                          RACKMEM_OP_COMPARE_SWAP};
    take_cell(o);
    o->op = ops[below(4)];
    o->status = 0;
    o->buffer = buffer_of(slot, o->op > RACKMEM_OP_WRITE);
    for (int i = 0; i < WORDS; i++)
        o->sent[i] = next_random(&chance);
    if (o->op == RACKMEM_OP_COMPARE_SWAP && below(2))
        o->sent[0] = cells[o->nid][o->number].words[0];
    memcpy(o->buffer, o->sent, o->op > RACKMEM_OP_WRITE ? 16 : sizeof o->sent);
}

/* Starts an operation in the next slot; one in eight fails. */
static void start(void)
{
    int slot = rmc_wait_for_slot(qp, completed);
    operation *o = &slots[slot];
    CHECK(!pending[slot]);
    pending[slot] = 1;
    choose(o, slot);
    uint64_t offset = offset_of(o->number);
    if (below(8) == 0) {
        o->status = o->op > RACKMEM_OP_WRITE ? -EINVAL : -ERANGE;
        offset = o->status == -EINVAL ? offset + 1 : SEGMENT_BYTES - 63;
        failures++;
    }
    if (o->op == RACKMEM_OP_READ)
        rmc_read_async(qp, slot, o->nid, offset, o->buffer, 64);
    else if (o->op == RACKMEM_OP_WRITE)
        rmc_write_async(qp, slot, o->nid, offset, o->buffer, 64);
    else if (o->op == RACKMEM_OP_FETCH_ADD)
        rmc_fetch_and_add_async(qp, slot, o->nid, offset, o->buffer);
    else
        rmc_compare_and_swap_async(qp, slot, o->nid, offset, o->buffer);
}

/* A synchronous operation. Its errors are others than those of the asynchronous ones. */
static void between(void)
{
    operation o;
    uint64_t line[WORDS], old;
    take_cell(&o);
    cell *c = &cells[o.nid][o.number];
    uint64_t offset = offset_of(o.number);
    switch (below(5)) {
    case 0:
        CHECK(rmc_read(qp, o.nid, offset, line, sizeof line) == 0);
        CHECK(memcmp(line, c->words, sizeof line) == 0);
        break;
    case 1:
        c->words[below(WORDS)] = next_random(&chance);
        CHECK(rmc_write(qp, o.nid, offset, c->words, sizeof c->words) == 0);
        break;
    case 2:
        CHECK(rmc_read(qp, rackmem_nodes(ctx), offset, line, sizeof line) == -ENXIO);
        CHECK(rmc_read(qp, o.nid, offset, NULL, 8) == -EFAULT);
        break;
    case 3:
        CHECK(rmc_read(qp, o.nid, offset + 1, line, 0) == 0);
        break;
    default:
        CHECK(rmc_read(qp, o.nid, offset, &old, 8) == 0 && old == c->words[0]);
    }
    c->busy = 0;
}

static void mix(unsigned entries, int operations)
{
    CHECK(rackmem_qp_create(ctx, entries, &qp) == 0);
    qp->callback_arg = slots;
    calls = failures = 0;
    int posted = 0, settled = 0;
    while (posted < operations) {
        for (uint64_t burst = 1 + below(3 * (uint64_t)entries); burst > 0; burst--, posted++)
            start();
        for (uint64_t several = below(4); several > 0; several--)
            between();
        if (below(3) == 0) {
            int error = rmc_drain_cq(qp, completed);
            CHECK((error != 0) == (failures != settled) && rmc_outstanding(qp) == 0);
            CHECK(calls == posted);
            settled = failures;
        }
    }
    (void)rmc_drain_cq(qp, completed);
    CHECK(calls == posted && rmc_drain_cq(qp, completed) == 0);
    rackmem_qp_destroy(qp);
}

/* What is known is what is there. */
static void compare(void)
{
    CHECK(rackmem_qp_create(ctx, 2, &qp) == 0);
    for (int nid = 0; nid < rackmem_nodes(ctx); nid++) {
        uint64_t line[WORDS];
        for (int i = 0; i < CELLS; i++) {
            CHECK(rmc_read(qp, nid, offset_of(i), line, sizeof line) == 0);
            CHECK(memcmp(line, cells[nid][i].words, sizeof line) == 0 && !cells[nid][i].busy);
        }
    }
}

static int are_done(void *arg)
{
    const uint64_t *word = (const uint64_t *)arg;
    return __atomic_load_n(word, __ATOMIC_ACQUIRE) == (uint64_t)rackmem_nodes(ctx);
}

/* Stays until all nodes are done: their operations come here, too. */
static void leave_together(void)
{
    for (int nid = 0; nid < rackmem_nodes(ctx); nid++)
        CHECK(rmc_fetch_and_add(qp, nid, DONE_AT, 1, NULL) == 0);
    CHECK(rackmem_sleep_until(ctx, are_done, rackmem_segment(ctx), -1, -1) == 0);
}

int main(void)
{
    int error = rackmem_init(&ctx, SEGMENT_BYTES);
    if (error != 0) {
        fprintf(stderr, "%s\n", rackmem_last_error());
        return 1;
    }
    CHECK(rackmem_nodes(ctx) <= MAX_TEST_NODES);
    chance = 1 + (uint64_t)rackmem_nid(ctx);
    shared = (uint64_t *)rackmem_alloc(ctx, SCRATCH_BYTES);
    CHECK(shared);
    for (unsigned entries = 2; entries <= MAX_WQ_SIZE; entries *= 2) {
        mix(entries, OPERATIONS / 7);
        putchar('.'); /* tells who waits for the program that it gets on */
        fflush(stdout);
    }
    compare();
    leave_together();
    rackmem_close(ctx);
    return 0;
}
