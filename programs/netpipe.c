/*
 * netpipe: how fast are send and receive? (soNUMA §7.3, after the Netpipe benchmark)
 *
 * Nodes 0 and 1 exchange messages of growing size: ping-pong for the latency, half a round trip,
 * and a stream from 0 to 1 for the bandwidth. Node 0 measures; it tells node 1 in a message what
 * comes next, so the two need nothing but send and receive.
 *
 * Sends block, as those of §5.3 do: `send` is built on rmc_write, the synchronous one, and a pulled
 * message "requires synchronization between the peers". With --async a stream goes on while
 * messages are pulled.
 */
#include <inttypes.h>
#include <math.h>
#include <rackmem.h>
#include <string.h>

#include "options.h"
#include "program.h"
#include "samples.h"

#define NAME "netpipe"

enum { STREAMS = 5, WARM_UP = 16 };

static const char about[] =
    "Measures send and receive between nodes 0 and 1 (soNUMA, section 7.3): half a round trip of\n"
    "a ping-pong, and the bandwidth of a one-way stream.\n"
    "\n"
    "Short messages are pushed (written into the receiver's ring), long ones pulled (the receiver\n"
    "reads them); --threshold is the first size that is pulled. The best value is where the\n"
    "columns of these two cross:\n"
    "  rackmem run -n 2 -- :netpipe --threshold 0      always pull\n"
    "  rackmem run -n 2 -- :netpipe --threshold inf    always push\n";

typedef struct endpoint {
    rackmem_context *ctx;
    QP *qp;
    rackmem_messaging messaging;
    rackmem_barrier barrier;
    int nid;
    int peer;
    unsigned char *out; /* sent from; in the segment, where a pull finds it without a copy */
    unsigned char *in;
    uint64_t capacity;
    bool async; /* streams */
} endpoint;

/* The next task of node 1. */
enum { ECHO, SINK, STOP };

typedef struct order {
    uint64_t task;
    uint64_t bytes;
    uint64_t messages;
} order;

typedef struct outcome {
    double median; /* of half a round trip, in seconds */
    double p99;
    double bytes_per_second;
    double messages_per_second;
} outcome;

/* Messages and what came of them; an error is told here, once, and ends the program. */

static int send_bytes(endpoint *e, const void *data, size_t length)
{
    int error = rackmem_send(&e->messaging, e->peer, data, length);
    return error ? program_operation_failed(NAME, "send", error) : 0;
}

static int receive_bytes(endpoint *e, void *buffer, size_t length)
{
    size_t got;
    int error = rackmem_recv(&e->messaging, e->peer, buffer, e->capacity, &got);
    if (error != 0)
        return program_operation_failed(NAME, "receive", error);
    if (got != length)
        return program_failed(NAME, "received %zu bytes, expected %zu", got, length);
    return 0;
}

/* The i-th byte of every message that a node sends. */
static unsigned char pattern(int nid, uint64_t i)
{
    return (unsigned char)((uint64_t)nid + i * 7 + (i >> 8));
}

/* Whether the last message received is what the other node sends. */
static int check(const endpoint *e, uint64_t bytes)
{
    for (uint64_t i = 0; i < bytes; i++)
        if (e->in[i] != pattern(e->peer, i))
            return program_failed(NAME, "message of %" PRIu64 " bytes: byte %" PRIu64 " is wrong",
                                  bytes, i);
    return 0;
}

/* ---- Node 1 ------------------------------------------------------------------------------ */

static int follow(endpoint *e, const order *o)
{
    int status = send_bytes(e, e->out, 0); /* ready: the last order's message has been checked */
    for (uint64_t i = 0; i < o->messages && status == 0; i++) {
        status = receive_bytes(e, e->in, o->bytes);
        if (status == 0 && o->task == ECHO)
            status = send_bytes(e, e->out, o->bytes);
    }
    if (status == 0 && o->task == SINK)
        status = send_bytes(e, e->out, 0); /* all have come */
    return status == 0 ? check(e, o->bytes) : status;
}

static int serve(endpoint *e)
{
    for (;;) {
        order o;
        int status = receive_bytes(e, e->in, sizeof o);
        if (status != 0)
            return status;
        memcpy(&o, e->in, sizeof o);
        if (o.task == STOP)
            return 0;
        status = follow(e, &o);
        if (status != 0)
            return status;
    }
}

/* ---- Node 0 ------------------------------------------------------------------------------ */

/* Returns when node 1 is ready for it. */
static int give_order(endpoint *e, uint64_t task, uint64_t bytes, uint64_t messages)
{
    order o = {.task = task, .bytes = bytes, .messages = messages};
    int status = send_bytes(e, &o, sizeof o);
    return status == 0 && task != STOP ? receive_bytes(e, e->in, 0) : status;
}

/* Round trips in batches; the time of one into each sample. */
static int round_trips(endpoint *e, uint64_t bytes, sample_plan plan, double *samples)
{
    int status = give_order(e, ECHO, bytes, plan.batch * plan.samples);
    if (status != 0)
        return status;
    double start = program_seconds();
    for (uint64_t s = 0; s < plan.samples; s++) {
        for (uint64_t i = 0; i < plan.batch; i++) {
            status = send_bytes(e, e->out, bytes);
            if (status == 0)
                status = receive_bytes(e, e->in, bytes);
            if (status != 0)
                return status;
        }
        double end = program_seconds();
        samples[s] = (end - start) / (double)plan.batch;
        start = end;
    }
    return check(e, bytes);
}

/* Messages one after the other; the time of one, with the last one's receipt. */
static int stream(endpoint *e, uint64_t bytes, uint64_t messages, double *seconds)
{
    int status = give_order(e, SINK, bytes, messages);
    double start = program_seconds();
    for (uint64_t i = 0; i < messages && status == 0; i++) {
        int error = e->async ? rackmem_send_async(&e->messaging, e->peer, e->out, bytes)
                             : rackmem_send(&e->messaging, e->peer, e->out, bytes);
        if (error != 0)
            status = program_operation_failed(NAME, "send", error);
    }
    if (status == 0)
        status = receive_bytes(e, e->in, 0);
    *seconds = (program_seconds() - start) / (double)messages;
    int error = status == 0 ? rackmem_flush(&e->messaging) : 0;
    return error ? program_operation_failed(NAME, "send", error) : status;
}

static int measure(endpoint *e, uint64_t bytes, double seconds, outcome *result)
{
    static double samples[SAMPLES_MOST];
    double streams[STREAMS];
    int status = round_trips(e, bytes, (sample_plan){.batch = 1, .samples = WARM_UP}, samples);
    if (status != 0)
        return status;
    samples_sort(samples, WARM_UP);
    double trip = samples_quantile(samples, WARM_UP, 0.5);

    sample_plan plan = sample_plan_make(trip, seconds);
    status = round_trips(e, bytes, plan, samples);
    if (status != 0)
        return status;
    samples_sort(samples, plan.samples);
    trip = samples_quantile(samples, plan.samples, 0.5);
    result->median = trip / 2;
    result->p99 = samples_quantile(samples, plan.samples, 0.99) / 2;

    double wanted = seconds / (double)STREAMS / result->median;
    uint64_t messages = wanted < (double)WARM_UP ? WARM_UP
                        : wanted > 1e7           ? 10000000
                                                 : (uint64_t)wanted;
    for (int i = 0; i < STREAMS && status == 0; i++)
        status = stream(e, bytes, messages, &streams[i]);
    samples_sort(streams, STREAMS);
    result->messages_per_second = 1 / streams[STREAMS / 2];
    result->bytes_per_second = (double)bytes / streams[STREAMS / 2];
    return status;
}

static void print(uint64_t bytes, const outcome *result, bool json, bool first)
{
    if (json)
        printf("%s{\"bytes\":%" PRIu64 ",\"half_round_trip_us\":{\"median\":%.4f,\"p99\":%.4f}"
               ",\"stream\":{\"messages_per_second\":%.0f,\"bytes_per_second\":%.0f}}",
               first ? "" : ",", bytes, result->median * 1e6, result->p99 * 1e6,
               result->messages_per_second, result->bytes_per_second);
    else
        printf("%9" PRIu64 "  %10.3f  %10.3f  %10.3f  %8.3f\n", bytes, result->median * 1e6,
               result->p99 * 1e6, result->messages_per_second * 1e-6,
               result->bytes_per_second * 1e-9);
    fflush(stdout);
}

static int lead(endpoint *e, const option_sizes *sizes, double seconds, bool json)
{
    size_t threshold = e->messaging.threshold_bytes;
    char pulled[32] = "\"inf\"";
    if (threshold != SIZE_MAX)
        snprintf(pulled, sizeof pulled, "%zu", threshold);
    if (json)
        printf("{\"program\":\"netpipe\",\"threshold\":%s,\"async\":%s,\"sizes\":[", pulled,
               e->async ? "true" : "false");
    else
        printf("    bytes  half trip us  p99 us  Mmessages/s    GB/s    (pulled from: %s)\n",
               threshold == SIZE_MAX ? "never" : pulled);
    int status = 0;
    for (unsigned i = 0; i < sizes->count && status == 0; i++) {
        outcome result;
        status = measure(e, sizes->at[i], seconds, &result);
        if (status == 0)
            print(sizes->at[i], &result, json, i == 0);
    }
    if (json)
        printf("]}\n");
    return status == 0 ? give_order(e, STOP, 0, 0) : status;
}

/* ---- Both -------------------------------------------------------------------------------- */

static int open_endpoint(endpoint *e, uint64_t largest, uint64_t threshold, bool staged)
{
    int nodes = program_nodes();
    size_t messaging = rackmem_messaging_bytes(nodes);
    size_t barrier = rackmem_barrier_bytes(nodes);
    e->capacity = largest > sizeof(order) ? largest : sizeof(order);
    if (rackmem_init(&e->ctx, messaging + barrier + e->capacity) != 0)
        return program_call_failed(NAME, "cannot join the rack");
    e->nid = rackmem_nid(e->ctx);
    e->peer = 1 - e->nid;
    if (rackmem_nodes(e->ctx) < 2)
        return program_failed(NAME, "needs two nodes: rackmem run -n 2 -- :netpipe");
    if (rackmem_qp_create(e->ctx, MAX_WQ_SIZE, &e->qp) != 0)
        return program_call_failed(NAME, "cannot make a queue pair");
    int error = rackmem_messaging_open(&e->messaging, e->ctx, e->qp, 0);
    if (error == 0)
        error = rackmem_barrier_open(&e->barrier, e->ctx, e->qp, messaging, NULL, 0);
    if (error != 0)
        return program_operation_failed(NAME, "cannot set up send and receive", error);
    if (threshold != UINT64_MAX - 1)
        rackmem_messaging_set_threshold(
            &e->messaging, threshold > SIZE_MAX ? SIZE_MAX : (size_t)threshold);

    e->in = rackmem_alloc(e->ctx, e->capacity);
    e->out = staged ? rackmem_alloc(e->ctx, e->capacity)
                    : (unsigned char *)rackmem_segment(e->ctx) + messaging + barrier;
    if (!e->in || !e->out)
        return program_call_failed(NAME, "no memory for messages");
    for (uint64_t i = 0; i < e->capacity; i++)
        e->out[i] = pattern(e->nid, i);
    return 0;
}

int main(int argc, char **argv)
{
    option_sizes sizes = {0};
    endpoint e = {0};
    uint64_t threshold = UINT64_MAX - 1; /* the library's own */
    double seconds = 0.1;
    bool json = false, staged = false;
    for (uint64_t bytes = 8; bytes <= 1 << 20; bytes *= 2)
        sizes.at[sizes.count++] = bytes;
    const option options[] = {
        {"sizes", OPTION_SIZES, &sizes, "LIST", "of messages: 8,1K or 8..1M (default)", 0,
         UINT32_MAX},
        {"threshold", OPTION_BYTES, &threshold, "BYTES",
         "pull from this size on; 0: always, inf: never\n(default: as the library is built)", 0,
         UINT64_MAX},
        {"staged", OPTION_FLAG, &staged, NULL,
         "send from private memory instead of the segment, so\n"
         "that what is pulled is copied first", 0, 0},
        {"async", OPTION_FLAG, &e.async, NULL,
         "stream without waiting until what is pulled has been\n"
         "received", 0, 0},
        {"seconds", OPTION_SECONDS, &seconds, "S", "time for each size and figure (0.1)", 0, 0},
        {"json", OPTION_FLAG, &json, NULL, "print one line of JSON", 0, 0},
        {0},
    };
    const command_line line = {NAME, "[OPTIONS]", about, options, NULL};
    int status = options_parse(&line, argc, argv);
    if (status != OPTIONS_GO_ON)
        return status;
    uint64_t largest = 0;
    for (unsigned i = 0; i < sizes.count; i++)
        largest = sizes.at[i] > largest ? sizes.at[i] : largest;

    status = open_endpoint(&e, largest, threshold, staged);
    if (status == 0 && e.nid == 0)
        status = lead(&e, &sizes, seconds, json);
    else if (status == 0 && e.nid == 1)
        status = serve(&e);
    int error = status == 0 ? rackmem_barrier_wait(&e.barrier) : 0; /* leave together */
    if (error != 0)
        status = program_operation_failed(NAME, "barrier", error);
    rackmem_close(e.ctx);
    return status == 0 ? program_flush(NAME) : status;
}
