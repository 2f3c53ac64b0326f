/* Messages by lane and ring under every interleaving of two nodes, whose ring has four lines. */
#define _GNU_SOURCE
#define RACKMEM_RING_LINES 4
#define RACKMEM_CREDIT_MASK_ 0xfu
#define RACKMEM_STAGES 2
#define RACKMEM_STAGE_BYTES 64
#include "interleave.h"

enum { AREA = 64, MOST_BYTES = 400 };

static void open_pushing(rackmem_context *ctx, QP *qp, void *handle)
{
    _Static_assert(sizeof(rackmem_messaging) <= HANDLE_BYTES, "the endpoint is the handle");
    CHECK(rackmem_messaging_open(handle, ctx, qp, AREA) == 0);
}

static void open_pulling(rackmem_context *ctx, QP *qp, void *handle)
{
    open_pushing(ctx, qp, handle);
    rackmem_messaging_set_threshold(handle, 100);
}

/* The lane as it is when its first line has come 256 + 6 times, and its second one 8 times. */
static void open_laps_apart(rackmem_context *ctx, QP *qp, void *handle)
{
    rackmem_messaging *m = handle;
    open_pushing(ctx, qp, handle);
    rackmem_peer_ *peer = &m->peers[1 - ctx->nid];
    peer->in.lane[0] = peer->out.lane[0] = 6;
    peer->in.lane[1] = peer->out.lane[1] = 8;
    unsigned char *lane = world.segments[ctx->nid] + (peer->lane - m->segment);
    lane[0] = 6;
    lane[RACKMEM_LINE_BYTES] = 8;
}

/* Each message has bytes of its own, so that none can stand for a part of another. */
static unsigned char byte_of(int sender, size_t number, size_t i)
{
    return (unsigned char)((size_t)sender * 101 + number * 37 + i * 3 + 1);
}

static int say(rackmem_context *ctx, void *handle, size_t number, size_t length)
{
    unsigned char data[MOST_BYTES];
    memset(data, 0, sizeof data);
    for (size_t i = 0; i < length; i++)
        data[i] = byte_of(ctx->nid, number, i);
    return rackmem_send(handle, 1 - ctx->nid, data, length);
}

/* The next message, whole and as it was sent. */
static int hear(rackmem_context *ctx, void *handle, size_t number, size_t length)
{
    unsigned char data[MOST_BYTES];
    size_t got = 0;
    memset(data, 0, sizeof data);
    int error = rackmem_recv(handle, 1 - ctx->nid, data, sizeof data, &got);
    if (error != 0)
        return error;
    CHECK(got == length);
    for (size_t i = 0; i < length; i++)
        CHECK(data[i] == byte_of(1 - ctx->nid, number, i));
    world.notes[ctx->nid]++;
    return 0;
}

/* One and two lines, more than the ring holds, and one of the lane again after them; lines of the
 * lane that the last message has not filled. */
static const size_t lengths[] = {8, 60, 112, 0, 300, 57, 56, 113, 64, 9};
enum { LENGTHS = sizeof lengths / sizeof lengths[0] };

static void converse(rackmem_context *ctx, QP *qp, void *handle)
{
    (void)qp;
    for (size_t i = 0; i < LENGTHS; i++)
        for (int half = 0; half < 2; half++)
            CHECK((half == ctx->nid ? say : hear)(ctx, handle, i, lengths[i]) == 0);
}

/* Node 0 says everything, and node 1 nothing. */
static void tell(rackmem_context *ctx, QP *qp, void *handle)
{
    (void)qp;
    for (size_t i = 0; i < LENGTHS; i++)
        CHECK((ctx->nid == 0 ? say : hear)(ctx, handle, i, lengths[i]) == 0);
}

/* Both say some before they hear as many: what fits into a ring of which a half is kept back. */
static void talk_at_once(rackmem_context *ctx, QP *qp, void *handle)
{
    static const size_t both[][2] = {{8, 9}, {60, 1}, {1, 62}, {3, 4}};
    (void)qp;
    for (size_t i = 0; i < 4; i++) {
        for (size_t k = 0; k < 2; k++)
            CHECK(say(ctx, handle, 2 * i + k, both[i][k]) == 0);
        for (size_t k = 0; k < 2; k++)
            CHECK(hear(ctx, handle, 2 * i + k, both[i][k]) == 0);
    }
}

/* The credit that lets node 0 go on lies in a message that it has not heard, in the lane. */
static void answer_by_lane(rackmem_context *ctx, QP *qp, void *handle)
{
    (void)qp;
    for (size_t i = 0; i < RACKMEM_RING_LINES + 1 && ctx->nid == 0; i++)
        CHECK(say(ctx, handle, i, 8) == 0);
    if (ctx->nid == 1)
        CHECK(hear(ctx, handle, 0, 8) == 0 && say(ctx, handle, 0, 60) == 0);
    else
        CHECK(hear(ctx, handle, 0, 60) == 0);
}

/* The same, in the ring behind the lane. */
static void answer_by_ring(rackmem_context *ctx, QP *qp, void *handle)
{
    (void)qp;
    if (ctx->nid == 1) {
        CHECK(say(ctx, handle, 0, 60) == 0 && hear(ctx, handle, 0, 8) == 0);
        CHECK(say(ctx, handle, 1, 7) == 0);
        return;
    }
    for (size_t i = 0; i < RACKMEM_RING_LINES + 1; i++)
        CHECK(say(ctx, handle, i, 8) == 0);
    CHECK(hear(ctx, handle, 0, 60) == 0 && hear(ctx, handle, 1, 7) == 0);
}

/* Two messages of node 1 wait while credits come by the control line: those in them are old. */
static void hear_late(rackmem_context *ctx, QP *qp, void *handle)
{
    (void)qp;
    for (size_t i = 0; i < 2 && ctx->nid == 1; i++)
        CHECK(say(ctx, handle, i, i == 0 ? 60 : 7) == 0);
    for (size_t i = 0; i < 14; i++) {
        CHECK((ctx->nid == 0 ? say : hear)(ctx, handle, i, i % 3) == 0);
        if (ctx->nid == 0 && (i == 7 || i == 8))
            CHECK(hear(ctx, handle, i - 7, i == 7 ? 60 : 7) == 0);
    }
}

/* Who is left hears whole messages in order, and then that the other one is lost. */
static void tell_or_die(rackmem_context *ctx, QP *qp, void *handle)
{
    (void)qp;
    for (size_t i = 0; i < 5; i++)
        for (int half = 0; half < 2; half++) {
            int error = (half == ctx->nid ? say : hear)(ctx, handle, i, lengths[i]);
            CHECK(error == 0 || (error == -112 && world.processes[1 - ctx->nid].status == DEAD));
            if (error != 0)
                return;
        }
}

static void both_heard_all(void)
{
    CHECK(world.notes[0] == LENGTHS && world.notes[1] == LENGTHS);
}

static void one_heard_all(void)
{
    CHECK(world.notes[0] == 0 && world.notes[1] == LENGTHS);
}

static void eight_each(void)
{
    CHECK(world.notes[0] == 8 && world.notes[1] == 8);
}

static void one_and_one(void)
{
    CHECK(world.notes[0] == 1 && world.notes[1] == 1);
}

static void two_and_one(void)
{
    CHECK(world.notes[0] == 2 && world.notes[1] == 1);
}

static void two_and_fourteen(void)
{
    CHECK(world.notes[0] == 2 && world.notes[1] == 14);
}

static void nothing(void)
{
}

static const interleaving all[] = {
    {"conversation", 2, 0, open_pushing, converse, NULL, both_heard_all, NULL, false, 1, UPWARDS},
    {"conversation, last line first", 2, 0, open_pushing, converse, NULL, both_heard_all, NULL,
     false, 1, DOWNWARDS},
    {"conversation, pulled", 2, 0, open_pulling, converse, NULL, both_heard_all, NULL, true, 25,
     UPWARDS},
    {"one way", 2, 0, open_pushing, tell, NULL, one_heard_all, NULL, false, 4, UPWARDS},
    {"one way, last line first", 2, 0, open_pushing, tell, NULL, one_heard_all, NULL, false, 4,
     DOWNWARDS},
    {"one way, pulled", 2, 0, open_pulling, tell, NULL, one_heard_all, NULL, false, 10, DOWNWARDS},
    {"both at once", 2, 0, open_pushing, talk_at_once, NULL, eight_each, NULL, false, 3, UPWARDS},
    {"both at once, last line first", 2, 0, open_pushing, talk_at_once, NULL, eight_each, NULL,
     false, 3, DOWNWARDS},
    {"conversation, laps apart", 2, 0, open_laps_apart, converse, NULL, both_heard_all, NULL, false,
     1, UPWARDS},
    {"credit in the lane", 2, 0, open_pushing, answer_by_lane, NULL, one_and_one, NULL, false, 1,
     UPWARDS},
    {"credit behind the lane", 2, 0, open_pushing, answer_by_ring, NULL, two_and_one, NULL, false,
     1, UPWARDS},
    {"old credits", 2, 0, open_pushing, hear_late, NULL, two_and_fourteen, NULL, false, 13,
     UPWARDS},
    {"conversation, one dies", 2, 1, open_pushing, tell_or_die, NULL, nothing, NULL, false, 91,
     DOWNWARDS},
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
