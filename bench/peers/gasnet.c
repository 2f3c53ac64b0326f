/* GASNet-EX, smp conduit: two processes with their segments in each other's address space (PSHM). */
#include "bench.h"
#include <gasnetex.h>
#include <gasnet_coll.h>
#include <gasnet_ratomic.h>
#include <string.h>

#define MUST(call)                                                          \
    do {                                                                    \
        if ((call) != GASNET_OK) { fprintf(stderr, "%s failed\n", #call); exit(1); } \
    } while (0)

enum { SEGMENT = 32 * MB, RING = 16 * MB };
enum { PING = GEX_AM_INDEX_BASE, PONG, SINK, LONG_SINK, ACK };

static gex_TM_t team;
static gex_Rank_t rank, peer;
static char *mine, *theirs, *local;
static volatile uint64_t pongs, acks;

/* A receiver owns what it received, as with any receive call: the payload is copied out of the library's buffer. */
static void ping(gex_Token_t token, void *data, size_t size) {
    memcpy(local, data, size);
    gex_AM_ReplyMedium0(token, PONG, local, size, GEX_EVENT_NOW, 0);
}
static void pong(gex_Token_t token, void *data, size_t size) {
    (void)token;
    memcpy(local, data, size);
    pongs++;
}
static void sink(gex_Token_t token, void *data, size_t size) {
    memcpy(local, data, size);
    gex_AM_ReplyShort0(token, ACK, 0);
}
static void long_sink(gex_Token_t token, void *data, size_t size) {
    (void)data, (void)size; /* already in place */
    gex_AM_ReplyShort0(token, ACK, 0);
}
static void ack(gex_Token_t token) {
    (void)token;
    acks++;
}

static void barrier(void) { gex_Event_Wait(gex_Coll_BarrierNB(team, 0)); }

static void one_sided(struct bench b) {
    FOR_EACH(size, LATENCY_SIZES) {
        double ns = MEDIAN_NS(b.samples, ops_for(size), gex_RMA_GetBlocking(team, local, peer, theirs, size, 0));
        row_us("get_latency", size, "rma", ns);
    }
    gex_AD_t atomics;
    uint64_t old;
    gex_AD_Create(&atomics, team, GEX_DT_U64, GEX_OP_FADD, 0);
    double fetch_add = MEDIAN_NS(b.samples, ops_for(8),
        gex_Event_Wait(gex_AD_OpNB_U64(atomics, &old, peer, theirs, GEX_OP_FADD, 1, 0, 0)));
    row_us("fetch_add_latency", 8, "rma", fetch_add);

    FOR_EACH(size, RATE_SIZES) {
        double get = MEDIAN_NS(b.samples, 16, {
            for (int i = 0; i < WINDOW; i++) gex_RMA_GetNBI(team, local + 64 * i, peer, theirs + 64 * i, size, 0);
            gex_NBI_Wait(GEX_EC_GET, 0);
        });
        row_mops("op_rate", size, "get", get / WINDOW);
        double put = MEDIAN_NS(b.samples, 16, {
            for (int i = 0; i < WINDOW; i++)
                gex_RMA_PutNBI(team, peer, theirs + 64 * i, local + 64 * i, size, GEX_EVENT_DEFER, 0);
            gex_NBI_Wait(GEX_EC_PUT, 0);
        });
        row_mops("op_rate", size, "put", put / WINDOW);
    }
    FOR_EACH(stride, BULK_STRIDES) {
        double bulk = MEDIAN_NS(b.samples, 1, {
            for (size_t i = 0; i < WINDOW; i++)
                gex_RMA_GetNBI(team, local + stride * i, peer, theirs + stride * i, 8 * KB, 0);
            gex_NBI_Wait(GEX_EC_GET, 0);
        });
        row_gb_per_s(BULK_METRIC(stride), 8 * KB, "get", bulk / WINDOW);
    }
}

static double put_ping_pong(struct bench b) {
    volatile uint64_t *flag = (volatile uint64_t *)mine;
    uint64_t turn = 0;
    return MEDIAN_NS(b.samples, ops_for(8), {
        turn++;
        for (gex_Rank_t half = 0; half < 2; half++) {
            if (half == rank) gex_RMA_PutBlocking(team, peer, theirs, &turn, 8, 0);
            else while (*flag != turn) {}
        }
    });
}

static void messages(struct bench b) {
    FOR_EACH(size, MESSAGE_SIZES) {
        double rtt = MEDIAN_NS(b.samples, ops_for(size), {
            uint64_t before = pongs;
            gex_AM_RequestMedium0(team, peer, PING, local, size, GEX_EVENT_NOW, 0);
            GASNET_BLOCKUNTIL(pongs != before);
        });
        row_us("message_half_rtt", size, "am medium", rtt / 2);
    }
    FOR_EACH(size, STREAM_SIZES) {
        int batch = size >= MB ? WINDOW / 4 : size > 4 * KB ? WINDOW : 4 * WINDOW;
        if (size <= gex_AM_LUBRequestMedium()) {
            double ns = MEDIAN_NS(b.samples, 1, {
                uint64_t until = acks + (uint64_t)batch;
                for (int i = 0; i < batch; i++)
                    gex_AM_RequestMedium0(team, peer, SINK, local, size, GEX_EVENT_NOW, 0);
                GASNET_BLOCKUNTIL(acks == until);
            });
            row_gb_per_s("message_bandwidth", size, "am medium", ns / batch);
        }
        /* Long messages go straight to where the sender says: a ring in the receiver's segment whose slots are used
         * again only after the receiver acknowledged them. */
        uint64_t slots = RING / size;
        double ns = MEDIAN_NS(b.samples, 1, {
            uint64_t first = acks;
            for (uint64_t i = 0; i < (uint64_t)batch; i++) {
                if (i >= slots) GASNET_BLOCKUNTIL(acks - first > i - slots);
                gex_AM_RequestLong0(team, peer, LONG_SINK, local, size, theirs + MB + i % slots * size,
                                    GEX_EVENT_NOW, 0);
            }
            GASNET_BLOCKUNTIL(acks == first + (uint64_t)batch);
        });
        row_gb_per_s("message_bandwidth", size, "am long", ns / batch);
    }
}

int main(int argc, char **argv) {
    gex_Client_t client;
    gex_EP_t endpoint;
    gex_Segment_t segment;
    gex_AM_Entry_t handlers[] = {
        {PING, ping, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_MEDIUM, 0, NULL, "ping"},
        {PONG, pong, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_MEDIUM, 0, NULL, "pong"},
        {SINK, sink, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_MEDIUM, 0, NULL, "sink"},
        {LONG_SINK, long_sink, GEX_FLAG_AM_REQUEST | GEX_FLAG_AM_LONG, 0, NULL, "long_sink"},
        {ACK, ack, GEX_FLAG_AM_REPLY | GEX_FLAG_AM_SHORT, 0, NULL, "ack"},
    };
    MUST(gex_Client_Init(&client, &endpoint, &team, "bench", &argc, &argv, 0));
    struct bench b = bench_args(argc, argv);
    MUST(gex_Segment_Attach(&segment, team, SEGMENT));
    MUST(gex_EP_RegisterHandlers(endpoint, handlers, sizeof handlers / sizeof *handlers));
    if (gex_TM_QuerySize(team) != 2) {
        fprintf(stderr, "two processes are needed: set GASNET_PSHM_NODES=2\n");
        return 1;
    }
    rank = gex_TM_QueryRank(team);
    peer = 1 - rank;
    pin(b.core[rank]);
    local = aligned_alloc(4 * KB, 2 * MB);
    memset(local, 1, 2 * MB);
    mine = gex_Segment_QueryAddr(segment);
    memset(mine, 0, SEGMENT);
    uintptr_t size;
    MUST(gex_Segment_QueryBound(team, peer, (void **)&theirs, NULL, &size));
    barrier();

    double half = put_ping_pong(b) / 2;
    if (rank == 0) {
        row_us("put_half_rtt", 8, "rma", half);
        one_sided(b);
    }
    barrier();
    if (rank == 0) messages(b);
    barrier(); /* rank 1 serves the messages from here */
    double ns = MEDIAN_NS(b.samples, ops_for(8), barrier());
    if (rank == 0) row_us("barrier", 0, "barrier", ns);
    gasnet_exit(0);
    return 0;
}
