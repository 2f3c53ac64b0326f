/*
 * Messages and barriers between real processes, by whichever progress the run has chosen:
 *
 *     rackmem run -n 3 -- messaging_processes [ROUNDS [SEED]]
 *     rackmem run -n 3 -- messaging_processes lost    # the last node vanishes
 *
 * Needs a segment of a few MiB. All nodes must be given the same arguments.
 */
#include "message_data.h"

#include <errno.h>
#include <unistd.h>

enum { NODES_MOST = 16, BARRIER_AT = 0, MESSAGES_AT = 4096, USER_BYTES = 1 << 20 };

static rackmem_context *ctx;
static QP *qp;
static rackmem_barrier barrier;
static rackmem_messaging m;
static int nid, nodes;
static unsigned char *shared;     /* USER_BYTES of the segment */
static unsigned char buffer[1 << 18];
static uint64_t number[NODES_MOST][NODES_MOST]; /* messages so far, by sender and receiver */

static void open_all(void)
{
    int error = rackmem_init(&ctx, 0);
    if (error == 0)
        error = rackmem_qp_create(ctx, 8, &qp);
    if (error != 0) {
        fprintf(stderr, "%s\n", rackmem_last_error());
        exit(1);
    }
    nid = rackmem_nid(ctx);
    nodes = rackmem_nodes(ctx);
    CHECK(nodes >= 2 && nodes <= NODES_MOST);
    size_t used = MESSAGES_AT + rackmem_messaging_bytes(nodes);
    if (rackmem_segment_bytes(ctx) < used + USER_BYTES) {
        fprintf(stderr, "the segment needs %zu bytes\n", used + (size_t)USER_BYTES);
        exit(1);
    }
    shared = (unsigned char *)rackmem_segment(ctx) + used;
    CHECK(rackmem_barrier_open(&barrier, ctx, qp, BARRIER_AT, NULL, 0) == 0);
    CHECK(rackmem_messaging_open(&m, ctx, qp, MESSAGES_AT) == 0);
}

static void send_it(int to, size_t length, int how, size_t *at)
{
    int in_segment = how == 1 && *at + length <= USER_BYTES;
    unsigned char *data = in_segment ? shared + *at : exactly(length);
    fill(data, length, nid, number[nid][to]);
    if (how)
        CHECK(rackmem_send_async(&m, to, data, length) == 0);
    else
        CHECK(rackmem_send(&m, to, data, length) == 0);
    if (in_segment)
        *at += length;
    else
        free(data);
}

static void receive_it(int from, size_t length, int how)
{
    size_t got = 0;
    int error, any = from;
    do
        error = how == 0   ? rackmem_recv(&m, from, buffer, sizeof buffer, &got)
                : how == 1 ? rackmem_try_recv(&m, from, buffer, sizeof buffer, &got)
                           : rackmem_recv_any(&m, &any, buffer, sizeof buffer, &got);
    while (error == -EAGAIN);
    if (error != 0 || any != from || got != length)
        fprintf(stderr, "node %d: error %d, %zu bytes of node %d instead of %zu of %d\n", nid,
                error, got, any, length, from);
    CHECK(error == 0 && any == from && got == length);
    check_data(buffer, length, from, number[from][nid]);
}

/* All nodes draw the same turns; in each, one sends bursts to random others. */
static void converse(int rounds, uint64_t random)
{
    static const size_t thresholds[] = {0, 57, 1000, RACKMEM_PULL_THRESHOLD, SIZE_MAX};
    for (int round = 0; round < rounds; round++) {
        int sender = (int)(next_random(&random) % (uint64_t)nodes);
        int burst = 1 + (int)(next_random(&random) % 60);
        size_t at = 0;
        rackmem_messaging_set_threshold(&m, thresholds[next_random(&random) % 5]);
        for (int i = 0; i < burst; i++) {
            int step = 1 + (int)(next_random(&random) % (uint64_t)(nodes - 1));
            int to = (sender + step) % nodes;
            int how = (int)(next_random(&random) % 3);
            size_t length = random_size(&random);
            if (nid == sender)
                send_it(to, length, how, &at);
            else if (nid == to)
                receive_it(sender, length, how);
            number[sender][to]++;
        }
        CHECK(rackmem_flush(&m) == 0);
        CHECK(rackmem_barrier_wait(&barrier) == 0);
    }
}

static void every_size(void)
{
    int next = (nid + 1) % nodes, last = (nid + nodes - 1) % nodes;
    for (int i = 0; i < SIZES; i++) {
        size_t length = nth_size(i), at = 0;
        /* Round the ring of nodes. The even ones send first: if all did, all would block. */
        if (nid % 2 == 0)
            send_it(next, length, i % 3, &at);
        receive_it(last, length, i / 3 % 3);
        if (nid % 2)
            send_it(next, length, i % 3, &at);
        number[nid][next]++;
        number[last][nid]++;
        if (i % 3 == 1)
            CHECK(rackmem_flush(&m) == 0); /* the next message takes the same place */
    }
    CHECK(rackmem_flush(&m) == 0);
    CHECK(rackmem_barrier_wait(&barrier) == 0);
}

static void barriers(int epochs)
{
    for (int i = 0; i < epochs; i++)
        CHECK(rackmem_barrier_wait(&barrier) == 0);
}

/* The last node vanishes without a word while the others wait for it. */
static void lose_last(void)
{
    size_t got;
    int error = 0, last = nodes - 1;
    barriers(100);
    if (nid == last)
        _exit(0);
    if (nid % 2)
        error = rackmem_recv(&m, last, buffer, sizeof buffer, &got);
    else
        while (error == 0)
            error = rackmem_send(&m, last, buffer, 40);
    CHECK(error == -EHOSTDOWN);
    CHECK(rackmem_barrier_wait(&barrier) == -EHOSTDOWN);
    /* Those that are left go on among themselves. */
    uint16_t rest[NODES_MOST];
    for (int i = 0; i < last; i++)
        rest[i] = (uint16_t)i;
    rackmem_barrier survivors;
    CHECK(rackmem_barrier_open(&survivors, ctx, qp, 2048, rest, last) == 0);
    CHECK(rackmem_barrier_wait(&survivors) == 0);
}

int main(int argc, char **argv)
{
    open_all();
    if (argc > 1 && strcmp(argv[1], "lost") == 0) {
        lose_last();
    } else {
        int rounds = argc > 1 ? atoi(argv[1]) : 200;
        uint64_t seed = argc > 2 ? strtoull(argv[2], NULL, 0) : 1;
        barriers(1000);
        every_size();
        if (nid == 0)
            printf("seed %llu\n", (unsigned long long)seed);
        converse(rounds, seed * 2 + 1);
    }
    CHECK(rackmem_flush(&m) == 0 || argc > 1);
    rackmem_close(ctx);
    printf("node %d ok\n", nid);
    return 0;
}
