/* Send and receive on a rack within one process: every size, both directions, wrapping rings,
 * pushing and pulling, credits, lost peers. `messaging_loopback SEED` repeats a random run. */
#include "loopback.h"
#include "message_data.h"

#include <errno.h>

enum { AREA = 4096, USER_BYTES = 1 << 20 };

/* A node's end: an endpoint whose area follows some memory of the program's own. */
typedef struct node {
    rackmem_context *ctx;
    QP *qp;
    rackmem_messaging m;
    int nid, nodes;
    unsigned char *shared; /* USER_BYTES in the segment */
} node;

static size_t segment_bytes(int nodes)
{
    return AREA + rackmem_messaging_bytes(nodes) + 4096 + USER_BYTES;
}

static node open_node(rackmem_context *ctx, unsigned entries, size_t threshold)
{
    node n;
    n.ctx = ctx;
    n.nid = rackmem_nid(ctx);
    n.nodes = rackmem_nodes(ctx);
    CHECK(rackmem_qp_create(ctx, entries, &n.qp) == 0);
    CHECK(rackmem_messaging_open(&n.m, ctx, n.qp, AREA) == 0);
    CHECK(n.m.threshold_bytes == RACKMEM_PULL_THRESHOLD);
    rackmem_messaging_set_threshold(&n.m, threshold);
    n.shared = (unsigned char *)rackmem_segment(ctx) + segment_bytes(n.nodes) - USER_BYTES;
    return n;
}

static void send_one(node *n, int to, size_t length, uint64_t number)
{
    unsigned char *data = exactly(length);
    fill(data, length, n->nid, number);
    CHECK(rackmem_send(&n->m, to, data, length) == 0);
    memset(data, 0xee, length); /* the data may change after the send */
    free(data);
}

static void recv_one(node *n, int from, size_t length, uint64_t number)
{
    unsigned char *buffer = exactly(length);
    size_t got = SIZE_MAX;
    int error = rackmem_recv(&n->m, from, buffer, length, &got);
    if (error != 0 || got != length)
        fprintf(stderr, "error %d, %zu bytes instead of %zu\n", error, got, length);
    CHECK(error == 0 && got == length);
    check_data(buffer, length, from, number);
    free(buffer);
}

/* Every size in both directions, one after the other. */
static void all_sizes(rackmem_context *ctx, void *arg)
{
    node n = open_node(ctx, 4, *(const size_t *)arg);
    for (int i = 0; i < SIZES; i++) {
        if (n.nid == 0) {
            send_one(&n, 1, nth_size(i), (uint64_t)i);
            recv_one(&n, 1, nth_size(i), (uint64_t)i);
        } else {
            recv_one(&n, 0, nth_size(i), (uint64_t)i);
            send_one(&n, 0, nth_size(i), (uint64_t)i);
        }
    }
}

/* One direction only: credits must come back without messages to carry them. */
static void one_way(rackmem_context *ctx, void *arg)
{
    node n = open_node(ctx, 4, *(const size_t *)arg);
    const int messages = 5000; /* the ring wraps dozens of times and more */
    for (int i = 0; i < messages; i++) {
        size_t length = (size_t)(i * 7 % 150);
        if (n.nid == 0)
            send_one(&n, 1, length, (uint64_t)i);
        else
            recv_one(&n, 0, length, (uint64_t)i);
    }
    if (n.nid == 0) /* one write a message of a line, credits apart */
        CHECK(ctx->sent_to <= (uint64_t)messages * 3);
}

/* A packet per message through thousands of laps, as the tag and counters wrap. */
static void many_laps(rackmem_context *ctx, void *arg)
{
    node n = open_node(ctx, 4, SIZE_MAX);
    const uint64_t messages = (uint64_t)RACKMEM_RING_LINES * 3000;
    uint32_t start = *(const uint32_t *)arg;
    rackmem_peer_ *peer = &n.m.peers[1 - n.nid];
    /* As if `start` lines had gone already; the ring then holds zeros, which are no lap but 0. */
    peer->sent = peer->freed = peer->received = peer->returned = peer->peeked = peer->described =
        start;
    uint64_t got = 0;
    size_t length;
    for (uint64_t i = 0; i < messages; i++) {
        if (n.nid == 0) {
            CHECK(rackmem_send(&n.m, 1, &i, sizeof i) == 0);
        } else {
            CHECK(rackmem_recv(&n.m, 0, &got, sizeof got, &length) == 0);
            CHECK(length == 8 && got == i);
        }
    }
    if (n.nid == 0) {
        CHECK(peer->sent == start + (uint32_t)messages);
        /* Small messages one way: a write each, and the peer's credits twice a lap. */
        CHECK(ctx->sent_to == messages);
    } else {
        CHECK(ctx->sent_to <= messages / (RACKMEM_RING_LINES / 2));
    }
}

/* Both send more than fits before they receive, as far as the ring allows, and acknowledge each
 * other's pulls while they are blocked themselves. */
static void both_ways(rackmem_context *ctx, void *arg)
{
    node n = open_node(ctx, 4, *(const size_t *)arg);
    int peer = 1 - n.nid;
    uint64_t number = 0, received = 0;
    for (int round = 0; round < 300; round++) {
        int burst = round % (RACKMEM_RING_LINES / 3);
        for (int i = 0; i < burst; i++) {
            size_t length = (size_t)(i * 13 + round) % (2 * RACKMEM_PACKET_BYTES);
            unsigned char data[2 * RACKMEM_PACKET_BYTES];
            fill(data, length, n.nid, number++);
            CHECK(rackmem_send(&n.m, peer, data, length) == 0);
        }
        for (int i = 0; i < burst; i++)
            recv_one(&n, peer, (size_t)(i * 13 + round) % (2 * RACKMEM_PACKET_BYTES), received++);
    }
}

/* A sender that is blocked gets the credits which lie in messages it has not received. */
static void credits_in_waiting_messages(rackmem_context *ctx, void *arg)
{
    node n = open_node(ctx, 4, SIZE_MAX);
    uint64_t i = 0, got;
    size_t length;
    (void)arg;
    const uint64_t pairs = RACKMEM_RING_LINES - 1;
    if (n.nid == 0) {
        for (i = 0; i < 2 * pairs; i++)
            CHECK(rackmem_send(&n.m, 1, &i, sizeof i) == 0);
        for (i = 0; i < pairs; i++)
            CHECK(rackmem_recv(&n.m, 1, &got, sizeof got, &length) == 0 && got == i);
        CHECK(n.m.peers[1].freed <= n.m.peers[1].sent);
    } else {
        for (i = 0; i < pairs; i++) { /* each answer carries the credit of one message */
            CHECK(rackmem_recv(&n.m, 0, &got, sizeof got, &length) == 0 && got == i);
            CHECK(rackmem_send(&n.m, 0, &i, sizeof i) == 0);
        }
        CHECK(n.m.peers[0].returned == n.m.peers[0].received);
        for (; i < 2 * pairs; i++)
            CHECK(rackmem_recv(&n.m, 0, &got, sizeof got, &length) == 0 && got == i);
    }
}

/* From the own segment: no staging, one descriptor, one read, the data being what it was. */
static void from_segment(rackmem_context *ctx, void *arg)
{
    node n = open_node(ctx, 4, *(const size_t *)arg);
    for (uint64_t i = 0; i < 200; i++) {
        size_t length = (size_t)(i * i * 37 % USER_BYTES);
        size_t at = i % 2 ? 0 : USER_BYTES - length; /* up to the segment's very end */
        if (n.nid == 0) {
            uint64_t before = ctx->sent_to;
            fill(n.shared + at, length, 0, i);
            CHECK(rackmem_send(&n.m, 1, n.shared + at, length) == 0);
            CHECK(n.m.threshold_bytes > length || ctx->sent_to == before + 1);
            memset(n.shared + at, 0xee, length);
        } else if (i % 3) {
            recv_one(&n, 0, length, i);
        } else { /* into the own segment as well */
            size_t got = 0;
            CHECK(rackmem_recv(&n.m, 0, n.shared, USER_BYTES, &got) == 0 && got == length);
            check_data(n.shared, length, 0, i);
        }
    }
}

/* Longer than an operation's greatest length, from anywhere, and pushed. */
static void huge(rackmem_context *ctx, void *arg)
{
    static const size_t thresholds[] = {0, SIZE_MAX};
    node n = open_node(ctx, 4, 0);
    size_t length = RACKMEM_MAX_LENGTH + (size_t)1234567;
    (void)arg;
    for (int i = 0; i < 2; i++) {
        rackmem_messaging_set_threshold(&n.m, thresholds[i]);
        if (n.nid == 0)
            send_one(&n, 1, length, (uint64_t)i);
        else
            recv_one(&n, 0, length, (uint64_t)i);
    }
}

static void huge_from_segment(rackmem_context *ctx, void *arg)
{
    node n = open_node(ctx, 4, 0);
    size_t length = RACKMEM_MAX_LENGTH + (size_t)1234567;
    (void)arg;
    unsigned char *data =
        (unsigned char *)rackmem_segment(ctx) + rackmem_segment_bytes(ctx) - length;
    if (n.nid == 0) {
        fill(data, length, 0, 0);
        CHECK(rackmem_send(&n.m, 1, data, length) == 0);
        CHECK(ctx->sent_to == 1);
    } else {
        recv_one(&n, 0, length, 0);
    }
}

/* Too small a buffer leaves the message; nothing there gives -EAGAIN. */
static void too_small(rackmem_context *ctx, void *arg)
{
    static const size_t lengths[] = {1, 8, 56, 57, 300, 5000, 100000};
    node n = open_node(ctx, 4, *(const size_t *)arg);
    unsigned char byte = 0x5a;
    size_t got;
    int from;
    if (n.nid == 1)
        CHECK(rackmem_try_recv(&n.m, 0, &byte, 1, &got) == -EAGAIN);
    if (n.nid == 1)
        CHECK(rackmem_send(&n.m, 0, &byte, 1) == 0); /* only now may node 0 begin */
    else
        CHECK(rackmem_recv(&n.m, 1, &byte, 1, NULL) == 0);
    for (size_t i = 0; i < sizeof lengths / sizeof lengths[0]; i++) {
        if (n.nid == 0) {
            send_one(&n, 1, lengths[i], i);
            continue;
        }
        unsigned char *buffer = exactly(lengths[i] - 1);
        memset(buffer, 0x77, lengths[i] - 1);
        got = 0;
        CHECK(rackmem_recv(&n.m, 0, buffer, lengths[i] - 1, &got) == -EMSGSIZE);
        CHECK(got == lengths[i]);
        got = 0;
        CHECK(rackmem_try_recv(&n.m, 0, buffer, 0, &got) == -EMSGSIZE && got == lengths[i]);
        from = 9;
        CHECK(rackmem_recv_any(&n.m, &from, buffer, 0, &got) == -EMSGSIZE && from == 0);
        CHECK(rackmem_recv(&n.m, 0, NULL, 0, NULL) == -EMSGSIZE);
        for (size_t k = 0; k + 1 < lengths[i]; k++)
            CHECK(buffer[k] == 0x77);
        free(buffer);
        recv_one(&n, 0, lengths[i], i);
    }
    if (n.nid == 1)
        CHECK(rackmem_try_recv(&n.m, 0, &byte, 1, &got) == -EAGAIN);
}

static void refusals(rackmem_context *ctx, void *arg)
{
    node n = open_node(ctx, 4, SIZE_MAX);
    char byte = 0;
    rackmem_messaging m;
    (void)arg;
    CHECK(rackmem_send(&n.m, n.nid, &byte, 1) == -EINVAL);
    CHECK(rackmem_send(&n.m, n.nodes, &byte, 1) == -ENXIO);
    CHECK(rackmem_send(&n.m, -1, &byte, 1) == -ENXIO);
    CHECK(rackmem_recv(&n.m, n.nid, &byte, 1, NULL) == -EINVAL);
    CHECK(rackmem_recv(&n.m, 4096, &byte, 1, NULL) == -ENXIO);
    CHECK(rackmem_try_recv(&n.m, -1, &byte, 1, NULL) == -ENXIO);
    CHECK(rackmem_messaging_open(&m, ctx, n.qp, 32) == -EINVAL);
    CHECK(rackmem_messaging_open(&m, ctx, n.qp, rackmem_segment_bytes(ctx) - 64) == -ERANGE);
    CHECK(rackmem_messaging_open(&m, ctx, n.qp, UINT64_C(1) << 63) == -ERANGE);
    CHECK(rackmem_messaging_bytes(2) % RACKMEM_LINE_BYTES == 0);
}

/* Streams without waiting for each message to be received; all arrive, in order. */
static void streaming(rackmem_context *ctx, void *arg)
{
    node n = open_node(ctx, 8, *(const size_t *)arg);
    enum { COUNT = 64, BYTES = USER_BYTES / COUNT };
    for (uint64_t round = 0; round < 5; round++) {
        for (uint64_t i = 0; i < COUNT; i++) {
            uint64_t number = round * COUNT + i;
            size_t length = (size_t)(number * 997 % BYTES);
            if (n.nid == 1) {
                recv_one(&n, 0, length, number);
            } else if (i % 2) { /* zero-copy: the data stays until the flush */
                fill(n.shared + i * BYTES, length, 0, number);
                CHECK(rackmem_send_async(&n.m, 1, n.shared + i * BYTES, length) == 0);
            } else {
                unsigned char *data = exactly(length);
                fill(data, length, 0, number);
                CHECK(rackmem_send_async(&n.m, 1, data, length) == 0);
                free(data); /* outside the segment: copied */
            }
        }
        CHECK(rackmem_flush(&n.m) == 0);
    }
}

/* All send to all, and receive from any; every sender's messages are in order. */
static void many_to_many(rackmem_context *ctx, void *arg)
{
    node n = open_node(ctx, 4, *(const size_t *)arg);
    enum { MESSAGES = 300, MOST = 8000 };
    uint64_t sent[LOOPBACK_MAX_NODES] = {0}, received[LOOPBACK_MAX_NODES] = {0};
    static unsigned char buffers[LOOPBACK_MAX_NODES][MOST];
    unsigned char *buffer = buffers[n.nid];
    int to_receive = MESSAGES * (n.nodes - 1), from;
    size_t got;
    if (n.nid == 0) { /* sends all first, to receivers */
        for (int i = 0; i < MESSAGES * (n.nodes - 1); i++) {
            int to = 1 + i % (n.nodes - 1);
            send_one(&n, to, (size_t)(sent[to] * 41 % MOST), sent[to]);
            sent[to]++;
        }
    }
    /* The others first serve node 0, then exchange small bursts that fit the rings. */
    if (n.nid != 0) {
        for (uint64_t i = 0; i < MESSAGES; i++)
            recv_one(&n, 0, (size_t)(i * 41 % MOST), i);
        received[0] = MESSAGES;
        to_receive -= MESSAGES;
    }
    for (int i = 0; i < MESSAGES; i++) {
        for (int to = 0; to < n.nodes && n.nid != 0; to++) {
            if (to == n.nid)
                continue;
            unsigned char data[56];
            size_t length = sent[to] % 57;
            fill(data, length, n.nid, sent[to]++);
            /* Below the ring's size no send blocks for good; a pull would, so it is async. */
            CHECK(rackmem_send_async(&n.m, to, data, length) == 0);
        }
        int each = n.nid == 0 ? n.nodes - 1 : n.nodes - 2;
        for (int k = 0; k < each && to_receive > 0; k++) {
            CHECK(rackmem_recv_any(&n.m, &from, buffer, MOST, &got) == 0);
            CHECK(got == received[from] % 57);
            check_data(buffer, got, from, received[from]++);
            to_receive--;
        }
    }
    while (to_receive-- > 0) {
        CHECK(rackmem_recv_any(&n.m, &from, buffer, MOST, &got) == 0);
        CHECK(got == received[from] % 57);
        check_data(buffer, got, from, received[from]++);
    }
    CHECK(rackmem_flush(&n.m) == 0);
}

/* The program's own operations on the same queue pair keep their callbacks. */
static int callbacks[2];

static void count_callback(int slot, void *arg)
{
    (void)slot;
    ++*(int *)arg;
}

static void shared_queue_pair(rackmem_context *ctx, void *arg)
{
    node n = open_node(ctx, 4, *(const size_t *)arg);
    static uint64_t words[2][4];
    int posted = 0;
    callbacks[n.nid] = 0;
    n.qp->callback_arg = &callbacks[n.nid];
    for (uint64_t i = 0; i < 500; i++) {
        for (uint64_t k = 0; k < i % 6; k++, posted++) {
            int slot = rmc_wait_for_slot(n.qp, count_callback);
            rmc_read_async(n.qp, slot, 1 - n.nid, 0, &words[n.nid][slot], 8);
        }
        size_t length = (size_t)(i * 31 % 1000);
        if (n.nid == 0) {
            send_one(&n, 1, length, i);
            recv_one(&n, 1, length, i);
        } else {
            recv_one(&n, 0, length, i);
            send_one(&n, 0, length, i);
        }
    }
    CHECK(rmc_drain_cq(n.qp, count_callback) == 0);
    CHECK(callbacks[n.nid] == posted);
}

/* ---- Lost peers: a wait for one ends with an error ---------------------------------------- */

enum loss { WAITS_FOR_MESSAGE, WAITS_FOR_ANY, WAITS_FOR_CREDIT, WAITS_FOR_PULL, WAITS_FOR_STAGE,
            WAITS_FOR_REST, LOSSES };

static void pause_ms(long ms)
{
    struct timespec time = {0, ms * 1000000};
    nanosleep(&time, NULL);
}

static void lost_peer(rackmem_context *ctx, void *arg)
{
    node n = open_node(ctx, 4, 4096);
    enum loss loss = *(const enum loss *)arg;
    static unsigned char data[1 << 20], small[2][4096];
    unsigned char *buffer = small[n.nid];
    int error = 0, from = 9;
    size_t got;
    if (n.nid == 1) {
        CHECK(rackmem_send(&n.m, 0, "last words", 10) == 0);
        if (loss == WAITS_FOR_REST) { /* the first lines of a long message, and no more */
            CHECK(rackmem_push_(&n.m, &n.m.peers[0], data, 10 * RACKMEM_PACKET_BYTES) == 0);
            uint64_t header = rackmem_header_(1, RACKMEM_LINE_FIRST, 0, 20 * RACKMEM_PACKET_BYTES);
            CHECK(rmc_write(n.qp, 0, n.m.ring_offset + RACKMEM_LINE_BYTES, &header, 8) == 0);
        }
        pause_ms(5);
        loopback_lose(ctx);
        return;
    }
    /* Messages sent before the loss are received, even after it. */
    pause_ms(loss % 2 ? 10 : 0);
    CHECK(rackmem_recv(&n.m, 1, buffer, 4096, &got) == 0 && got == 10);
    switch (loss) {
    case WAITS_FOR_MESSAGE:
        error = rackmem_recv(&n.m, 1, buffer, 4096, &got);
        break;
    case WAITS_FOR_ANY:
        error = rackmem_recv_any(&n.m, &from, buffer, 4096, &got);
        CHECK(from == 1);
        CHECK(rackmem_recv_any(&n.m, &from, buffer, 4096, &got) == -EHOSTDOWN && from == -1);
        break;
    case WAITS_FOR_CREDIT:
        while (error == 0)
            error = rackmem_send(&n.m, 1, data, 40);
        break;
    case WAITS_FOR_PULL:
        memset(n.shared, 1, 8192);
        error = rackmem_send(&n.m, 1, n.shared, 8192);
        break;
    case WAITS_FOR_STAGE:
        error = rackmem_send(&n.m, 1, data, sizeof data);
        break;
    default: /* the message as it was pushed is whole: it is not to be seen before it is cut */
        while (rackmem_load_(rackmem_ring_line_(&n.m.peers[1], 1)) >> 32 !=
               20 * RACKMEM_PACKET_BYTES)
            loopback_rest();
        error = rackmem_recv(&n.m, 1, buffer, 4096, &got);
        break;
    }
    CHECK(error == -EHOSTDOWN);
    CHECK(rackmem_send(&n.m, 1, data, 4000) == -EHOSTDOWN);
    CHECK(rackmem_send(&n.m, 1, data, 1) == -EHOSTDOWN);
    CHECK(rackmem_try_recv(&n.m, 1, buffer, 4096, &got) != 0);
}

/* One of three is lost; the other two go on, and the staging area is not lost with it. */
static void lost_third(rackmem_context *ctx, void *arg)
{
    node n = open_node(ctx, 4, 4096);
    static unsigned char data[1 << 20], buffers[2][16];
    int from = -1;
    size_t got;
    (void)arg;
    if (n.nid == 2) {
        pause_ms(5);
        loopback_lose(ctx);
        return;
    }
    if (n.nid == 0) {
        CHECK(rackmem_send(&n.m, 2, data, sizeof data) == -EHOSTDOWN);
        CHECK(rackmem_recv(&n.m, 1, buffers[0], 16, &got) == 0 && got == 4);
    } else {
        CHECK(rackmem_recv_any(&n.m, &from, buffers[1], 16, &got) == -EHOSTDOWN && from == 2);
        CHECK(rackmem_send(&n.m, 0, "lost", 4) == 0);
    }
    if (n.nid == 0)
        send_one(&n, 1, 300000, 5);
    else
        recv_one(&n, 0, 300000, 5);
    if (n.nid == 1) /* node 2 is known to be lost: only node 0 is waited for */
        CHECK(rackmem_recv_any(&n.m, &from, buffers[1], 16, &got) == 0 && from == 0 && got == 3);
    else
        CHECK(rackmem_send(&n.m, 1, "end", 3) == 0);
}

/* A descriptor that promises more than the message holds must not write beyond the buffer. */
static void false_descriptor(rackmem_context *ctx, void *arg)
{
    node n = open_node(ctx, 4, 0);
    (void)arg;
    if (n.nid == 0) {
        CHECK(rackmem_describe_(&n.m, &n.m.peers[1], 0, 4096, 16) == 0);
    } else {
        unsigned char *buffer = exactly(16);
        CHECK(rackmem_recv(&n.m, 0, buffer, 16, NULL) == -EPROTO);
        free(buffer);
    }
}

/* ---- A random conversation ---------------------------------------------------------------- */

static uint64_t seed;

/* Both nodes draw the same turns: sender, number and lengths of messages, threshold. */
static void random_conversation(rackmem_context *ctx, void *arg)
{
    uint64_t random = seed * 2 + 1, number[2] = {0, 0};
    node n = open_node(ctx, 2u << next_random(&random) % 3, 0);
    int turns = *(const int *)arg;
    static unsigned char buffers[2][200000];
    for (int turn = 0; turn < turns; turn++) {
        int sender = (int)(next_random(&random) % 2);
        int burst = 1 + (int)(next_random(&random) % 40);
        static const size_t thresholds[] = {0, 57, 1000, RACKMEM_PULL_THRESHOLD, SIZE_MAX};
        rackmem_messaging_set_threshold(&n.m, thresholds[next_random(&random) % 5]);
        size_t at = 0;
        for (int i = 0; i < burst; i++) {
            size_t length = random_size(&random);
            uint64_t how = next_random(&random) % 3;
            uint64_t this_number = number[sender]++;
            if (n.nid == sender) {
                int in_segment = how == 1 && at + length <= USER_BYTES;
                unsigned char *data = in_segment ? n.shared + at : exactly(length);
                fill(data, length, sender, this_number);
                CHECK((how ? rackmem_send_async : rackmem_send)(&n.m, 1 - sender, data, length) == 0);
                if (!in_segment)
                    free(data);
                else
                    at += length;
            } else if (how == 0) {
                recv_one(&n, sender, length, this_number);
            } else {
                size_t got = 0;
                int error, from = sender;
                do
                    error = how == 1 ? rackmem_try_recv(&n.m, sender, buffers[n.nid], 200000, &got)
                                     : rackmem_recv_any(&n.m, &from, buffers[n.nid], 200000, &got);
                while (error == -EAGAIN);
                CHECK(error == 0 && from == sender && got == length);
                check_data(buffers[n.nid], length, sender, this_number);
            }
        }
        CHECK(rackmem_flush(&n.m) == 0);
    }
}

int main(int argc, char **argv)
{
    static const char *const names[] = {"inline", "queued", "mixed", "controller"};
    static const size_t thresholds[] = {0, 57, RACKMEM_PULL_THRESHOLD, SIZE_MAX};
    static const uint32_t line_starts[] = {0, (uint32_t)0 - 1000 * RACKMEM_RING_LINES};
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    seed = argc > 1 ? strtoull(argv[1], NULL, 0) : (uint64_t)now.tv_nsec;
    for (int mode = LOOPBACK_INLINE; mode <= LOOPBACK_CONTROLLER; mode++) {
        enum loopback_mode m = (enum loopback_mode)mode;
        size_t two = segment_bytes(2);
        for (uint32_t spin = 0; spin <= 1000; spin += 1000) {
            /* With a second argument, one spin limit has to do for each mode. */
            if (argc > 2 && (spin == 0) != (mode != LOOPBACK_QUEUED))
                continue;
            printf("messaging, %s, spin limit %u\n", names[mode], spin);
            fflush(stdout);
            for (int t = 0; t < 4; t++) {
                void *threshold = (void *)(uintptr_t)&thresholds[t];
                loopback_rack_run(2, m, spin, two, all_sizes, threshold);
                loopback_rack_run(2, m, spin, two, one_way, threshold);
                loopback_rack_run(2, m, spin, two, from_segment, threshold);
                loopback_rack_run(2, m, spin, two, too_small, threshold);
                loopback_rack_run(2, m, spin, two, streaming, threshold);
                loopback_rack_run(2, m, spin, two, shared_queue_pair, threshold);
                loopback_rack_run(4, m, spin, segment_bytes(4), many_to_many, threshold);
            }
            size_t always_push = SIZE_MAX;
            loopback_rack_run(2, m, spin, two, both_ways, &always_push);
            loopback_rack_run(2, m, spin, two, credits_in_waiting_messages, NULL);
            for (int loss = 0; loss < LOSSES; loss++) {
                enum loss l = (enum loss)loss;
                loopback_rack_run(2, m, spin, two, lost_peer, &l);
            }
            loopback_rack_run(3, m, spin, segment_bytes(3), lost_third, NULL);
        }
        int turns = 60;
        for (int i = 0; i < 6; i++, seed++) {
            printf("random conversation, %s, seed %llu\n", names[mode], (unsigned long long)seed);
            fflush(stdout);
            loopback_rack_run(2, m, 500, two, random_conversation, &turns);
        }
    }
    for (int i = 0; i < 2; i++)
        loopback_rack_run(2, LOOPBACK_INLINE, 1000, segment_bytes(2), many_laps,
                          (void *)(uintptr_t)&line_starts[i]);
    loopback_rack_run(2, LOOPBACK_INLINE, 1000, segment_bytes(2), huge, NULL);
    loopback_rack_run(2, LOOPBACK_INLINE, 1000, segment_bytes(2) + (32 << 20), huge_from_segment,
                      NULL);
    loopback_rack_run(2, LOOPBACK_INLINE, 0, segment_bytes(2), refusals, NULL);
    loopback_rack_run(2, LOOPBACK_INLINE, 0, segment_bytes(2), false_descriptor, NULL);
    puts("ok");
    return 0;
}
