/* Send, receive and one-sided operations of connected queue pairs, each node with the next one. */
#include <rackmem.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CHECK(condition)                                                                          \
    do {                                                                                          \
        if (!(condition)) {                                                                       \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition,                    \
                    rackmem_last_error());                                                        \
            exit(1);                                                                              \
        }                                                                                         \
    } while (0)

enum { MESSAGES = 2000, RECEIVES = 32, PLACE = 4096, MEMORY = 1 << 20, BOUND_MS = 20000 };

static unsigned char *segment;

/* Lengths around those that travel in the queue; the bytes tell a message from all others. */
static size_t compose(unsigned char *out, int nid, unsigned number)
{
    static const size_t sizes[] = {0, 1, 55, 56, 57, 64, 224, 225, 4096};
    size_t length = sizes[number % (sizeof sizes / sizeof sizes[0])];
    for (size_t i = 0; i < length; i++)
        out[i] = (unsigned char)(i * 7 + number * 31 + (unsigned)nid);
    return length;
}

static uint64_t place(uint64_t id)
{
    return MEMORY + id * PLACE;
}

static void receive(QP *qp, int from, unsigned number)
{
    static unsigned char expected[PLACE];
    rmc_completion done;
    CHECK(rmc_wait_completion(qp, &done, BOUND_MS) == 0);
    CHECK(done.status == 0 && done.is_receive && done.id == number % RECEIVES);
    CHECK(done.length == compose(expected, from, number));
    CHECK(memcmp(segment + place(done.id), expected, done.length) == 0);
    CHECK(rmc_post_recv(qp, place(done.id), PLACE, done.id) == 0);
}

/* Both ends send and receive in turn, each while an operation of the program is in flight. */
static void exchange(QP *qp, int me, int peer)
{
    static unsigned char message[PLACE];
    uint64_t operand;
    for (unsigned number = 0; number < MESSAGES; number++) {
        int slot = rmc_wait_for_slot(qp, NULL);
        operand = 1;
        rmc_fetch_and_add_async(qp, slot, peer, MEMORY - 8, &operand);
        size_t length = compose(message, me, number);
        CHECK(rmc_send(qp, message, length, BOUND_MS) == 0);
        receive(qp, peer, number);
        CHECK(rmc_drain_cq(qp, NULL) == 0 && operand == number);
    }
}

/* Every wrong call has its error. */
static void misuse(rackmem_context *ctx, QP *qp, int peer)
{
    rmc_completion done;
    uint64_t end = rackmem_segment_bytes(ctx);
    CHECK(rmc_send(qp, "", 1, 0) == -107 && rmc_post_send(qp, 0, 1, 0) == -107); /* ENOTCONN */
    CHECK(rmc_post_recv(qp, 0, 1, 0) == -107 && rmc_poll_completion(qp, &done) == -107);
    CHECK(rmc_wait_completion(qp, &done, 0) == -107);
    CHECK(rackmem_qp_connect(ctx, qp, 1, rackmem_at(peer, 0), 0) == -22);  /* EINVAL */
    CHECK(rackmem_qp_connect(ctx, qp, end, rackmem_at(peer, 0), 0) == -34); /* ERANGE */
    CHECK(rackmem_qp_connect(ctx, qp, 0, rackmem_at(4000, 0), 0) == -6);   /* ENXIO */
    CHECK(rackmem_qp_connect(ctx, qp, 0, rackmem_at(-1, 0), 0) == -6);
    rackmem_qp_disconnect(qp);
}

int main(void)
{
    rackmem_context *ctx;
    QP *qp;
    rmc_completion done;
    CHECK(rackmem_init(&ctx, 0) == 0 && rackmem_qp_create(ctx, 8, &qp) == 0);
    CHECK(rackmem_connection_bytes() < MEMORY - 8);
    segment = (unsigned char *)rackmem_segment(ctx);
    int me = rackmem_nid(ctx), peer = 1 - me;
    misuse(ctx, qp, peer);
    CHECK(rackmem_qp_connect(ctx, qp, 0, rackmem_at(peer, 0), BOUND_MS) == 0);
    CHECK(rmc_poll_completion(qp, &done) == -11); /* EAGAIN */
    CHECK(rmc_wait_completion(qp, &done, 1) == -110); /* ETIMEDOUT */
    for (uint64_t id = 0; id < RECEIVES; id++)
        CHECK(rmc_post_recv(qp, place(id), PLACE, id) == 0);
    exchange(qp, me, peer);
    /* Node 1 closes; node 0 learns it, and its receives complete. */
    if (me == 0) {
        for (uint64_t id = 0; id < RECEIVES; id++) {
            CHECK(rmc_wait_completion(qp, &done, BOUND_MS) == 0);
            CHECK(done.status == -32 && done.is_receive && done.length == 0); /* EPIPE */
        }
        CHECK(rmc_send(qp, "late", 4, BOUND_MS) == -32);
    } else {
        rackmem_qp_destroy(qp);
    }
    rackmem_close(ctx);
    return 0;
}
