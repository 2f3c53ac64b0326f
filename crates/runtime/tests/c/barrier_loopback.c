/* The barrier on a rack within one process: no member passes early, any subset, any queue pair. */
#include "loopback.h"

static uint64_t arrived[LOOPBACK_MAX_NODES]; /* how often each node has come to the barrier */

static void come_and_check(rackmem_barrier *b, int nid, const int *members, int count)
{
    uint64_t mine = __atomic_add_fetch(&arrived[nid], 1, __ATOMIC_SEQ_CST);
    CHECK(rackmem_barrier_wait(b) == 0);
    for (int i = 0; i < count; i++) {
        uint64_t other = __atomic_load_n(&arrived[members[i]], __ATOMIC_SEQ_CST);
        CHECK(other == mine || other == mine + 1);
    }
}

static const int everybody[] = {0, 1, 2, 3, 4, 5, 6, 7};

static void all_nodes(rackmem_context *ctx, void *arg)
{
    int epochs = *(const int *)arg;
    QP *qp;
    rackmem_barrier b;
    CHECK(rackmem_qp_create(ctx, 2, &qp) == 0);
    CHECK(rackmem_barrier_open(&b, ctx, qp, 128, NULL, 0) == 0);
    for (int i = 0; i < epochs; i++)
        come_and_check(&b, rackmem_nid(ctx), everybody, rackmem_nodes(ctx));
}

/* Nodes 0, 2, 3 and 1, 2 have barriers of their own, beside that of all; names in any order. */
static void subsets(rackmem_context *ctx, void *arg)
{
    static const uint16_t odd_order[] = {3, 0, 2}, in_order[] = {0, 2, 3}, pair[] = {2, 1};
    static uint64_t met[2][LOOPBACK_MAX_NODES];
    int epochs = *(const int *)arg;
    int nid = rackmem_nid(ctx);
    QP *qp;
    rackmem_barrier all, three, two;
    memset(met, 0, sizeof met);
    CHECK(rackmem_qp_create(ctx, 4, &qp) == 0);
    CHECK(rackmem_barrier_open(&all, ctx, qp, 0, NULL, 0) == 0);
    int in_three = nid != 1, in_two = nid == 1 || nid == 2;
    CHECK(rackmem_barrier_open(&three, ctx, qp, 1024, nid == 3 ? odd_order : in_order, 3) ==
          (in_three ? 0 : -22));
    CHECK(rackmem_barrier_open(&two, ctx, qp, 2048, pair, 2) == (in_two ? 0 : -22));
    CHECK(rackmem_barrier_wait(&all) == 0);
    for (int i = 1; i <= epochs; i++) {
        if (in_three) {
            __atomic_store_n(&met[0][nid], (uint64_t)i, __ATOMIC_SEQ_CST);
            CHECK(rackmem_barrier_wait(&three) == 0);
            for (int n = 0; n < 3; n++) {
                uint64_t other = __atomic_load_n(&met[0][in_order[n]], __ATOMIC_SEQ_CST);
                CHECK(other == (uint64_t)i || other == (uint64_t)i + 1);
            }
        }
        if (in_two) {
            __atomic_store_n(&met[1][nid], (uint64_t)i, __ATOMIC_SEQ_CST);
            CHECK(rackmem_barrier_wait(&two) == 0);
            uint64_t other = __atomic_load_n(&met[1][3 - nid], __ATOMIC_SEQ_CST);
            CHECK(other == (uint64_t)i || other == (uint64_t)i + 1);
        }
    }
    CHECK(rackmem_barrier_wait(&all) == 0);
}

/* The program's own operations stay outstanding across the barrier, each callback comes once,
 * and their errors are not lost nor mistaken for the barrier's. */
static int callbacks[LOOPBACK_MAX_NODES];

static void count_callback(int slot, void *arg)
{
    (void)slot;
    ++*(int *)arg;
}

static void busy_queue_pair(rackmem_context *ctx, void *arg)
{
    int epochs = *(const int *)arg;
    int nid = rackmem_nid(ctx), nodes = rackmem_nodes(ctx), posted = 0;
    uint64_t buffer[4] = {0};
    QP *qp;
    rackmem_barrier b;
    callbacks[nid] = 0;
    CHECK(rackmem_qp_create(ctx, 4, &qp) == 0);
    qp->callback_arg = &callbacks[nid];
    CHECK(rackmem_barrier_open(&b, ctx, qp, 0, NULL, 0) == 0);
    for (int i = 0; i < epochs; i++) {
        for (int n = 0; n < i % 5; n++, posted++) {
            int slot = rmc_wait_for_slot(qp, count_callback);
            rmc_read_async(qp, slot, (nid + 1) % nodes, 0, &buffer[slot], 8);
        }
        CHECK(rackmem_barrier_wait(&b) == 0);
    }
    CHECK(rmc_drain_cq(qp, count_callback) == 0);
    CHECK(callbacks[nid] == posted);
    int slot = rmc_wait_for_slot(qp, NULL);
    rmc_read_async(qp, slot, (nid + 1) % nodes, RACKMEM_MAX_OFFSET, buffer, 8);
    CHECK(rackmem_barrier_wait(&b) == 0);
    CHECK(rmc_drain_cq(qp, NULL) == -34); /* ERANGE, of the program's own operation */
    CHECK(rackmem_barrier_wait(&b) == 0);
}

/* One node vanishes after some epochs, another gives up: no member waits for ever. */
static void lost_member(rackmem_context *ctx, void *arg)
{
    int epochs = *(const int *)arg;
    int nid = rackmem_nid(ctx);
    QP *qp;
    rackmem_barrier b;
    CHECK(rackmem_qp_create(ctx, 4, &qp) == 0);
    CHECK(rackmem_barrier_open(&b, ctx, qp, 0, NULL, 0) == 0);
    for (int i = 0; i < epochs; i++)
        CHECK(rackmem_barrier_wait(&b) == 0);
    if (nid == 2) {
        loopback_lose(ctx);
        return;
    }
    int error = rackmem_barrier_wait(&b);
    CHECK(error == -112);
    if (nid != 0)
        CHECK(rackmem_barrier_wait(&b) == -112);
}

static void refusals(rackmem_context *ctx, void *arg)
{
    static const uint16_t twice[] = {0, 1, 0}, unknown[] = {0, 7};
    QP *qp;
    rackmem_barrier b;
    (void)arg;
    CHECK(rackmem_qp_create(ctx, 2, &qp) == 0);
    CHECK(rackmem_barrier_open(&b, ctx, qp, 8, NULL, 0) == -22);
    CHECK(rackmem_barrier_open(&b, ctx, qp, 4096 - 64, NULL, 0) == -34);
    CHECK(rackmem_barrier_open(&b, ctx, qp, UINT64_C(1) << 63, NULL, 0) == -34);
    CHECK(rackmem_barrier_open(&b, ctx, qp, 0, twice, 3) == -22);
    CHECK(rackmem_barrier_open(&b, ctx, qp, 0, unknown, 2) == -22);
    CHECK(rackmem_barrier_bytes(3) == 192 && rackmem_barrier_bytes(0) == 0);
}

int main(void)
{
    static const char *const names[] = {"inline", "queued", "mixed", "controller"};
    for (int mode = LOOPBACK_INLINE; mode <= LOOPBACK_CONTROLLER; mode++) {
        for (uint32_t spin_limit = 0; spin_limit <= 1000; spin_limit += 1000) {
            enum loopback_mode m = (enum loopback_mode)mode;
            int epochs = mode == LOOPBACK_CONTROLLER ? 300 : 3000;
            printf("barrier, %s, spin limit %u\n", names[mode], spin_limit);
            fflush(stdout);
            for (int nodes = 1; nodes <= 5; nodes++) {
                memset(arrived, 0, sizeof arrived);
                loopback_rack_run(nodes, m, spin_limit, 4096, all_nodes, &epochs);
            }
            loopback_rack_run(4, m, spin_limit, 4096, subsets, &epochs);
            loopback_rack_run(3, m, spin_limit, 4096, busy_queue_pair, &epochs);
            int few = 10;
            for (int i = 0; i < 20; i++)
                loopback_rack_run(4, m, spin_limit, 4096, lost_member, &few);
        }
    }
    loopback_rack_run(2, LOOPBACK_INLINE, 0, 4096, refusals, NULL);
    puts("ok");
    return 0;
}
