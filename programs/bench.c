/*
 * bench: what `rackmem bench` runs. Two nodes, the second one mostly passive; node 0 prints one
 * JSON object per figure:
 *
 *     {"metric":"get_latency","size_bytes":64,"path":"inline","value":0.03,"unit":"us"}
 *
 * A figure is the median over samples, and a sample the mean of a batch of some milliseconds: a
 * batch in which the kernel ran something else says nothing about us.
 */
#define _DEFAULT_SOURCE /* barriers of threads */
#include <pthread.h>
#include <rackmem.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"
#include "program.h"
#include "samples.h"

#define NAME "bench"
#define KB ((size_t)1024)
#define MB (1024 * KB)

enum { WINDOW = 64, WINDOWS = 16, SAMPLES = 21, SAMPLES_QUICK = 7, MOST_SAMPLES = 101 };

/* Highest number of a node, and the time that the other node has to join. */
enum { MOST_NODES = 4095, JOIN_TIMEOUT_MS = 60000 };

/* What connected queue pairs take of a segment. */
#if RACKMEM_HAS_TWO_SIDED
#define CONNECTION_BYTES rackmem_connection_bytes()
#else
#define CONNECTION_BYTES 0
#endif

/* Duration of a batch of one-sided operations. */
#define BATCH_SECONDS 2e-3

static const char about[] =
    "Measures remote operations between nodes 0 and 1 and prints rows of JSON. Run it by\n"
    "`rackmem bench`, which places the processes and makes a table of the rows. In a larger\n"
    "rack, --from and --to name two nodes, of which the first reads from the second.\n";

/* Mutex and barrier of the C library for processes that share memory: the peers of ours. */
typedef struct pthreads {
    pthread_mutex_t mutex;
    pthread_barrier_t barrier;
} pthreads;

typedef struct bench {
    rackmem_context *ctx;
    QP *qp;
    rackmem_messaging messaging;
    rackmem_barrier barrier;
    rackmem_lock lock;
    rackmem_counter_barrier counter_barrier;
    pthreads *pthreads;    /* in a segment that both nodes have mapped, or NULL */
    const char *path;      /* who makes progress */
    int nid;
    int peer;
    int from;              /* the node that works in one-sided measurements, and prints */
    unsigned samples;
    unsigned char *local;  /* local buffer */
    unsigned char *mine;   /* what the peer reads and writes */
    uint64_t remote;       /* offset of that at the peer */
    uint64_t connection;   /* offset of the connection of the queue pairs, at both */
    uint64_t *turn;        /* of the ping-pong, local buffer */
    int error;             /* the first one; it ends the program */
} bench;

/* One operation; inlined into the loop that times it. */
typedef int (*operation)(bench *b, size_t bytes);
#define INLINED static inline __attribute__((always_inline))

/* ---- Measuring ---------------------------------------------------------------------------- */

INLINED double batch_seconds(bench *b, operation run, size_t bytes, uint64_t count)
{
    double start = program_seconds();
    for (uint64_t i = 0; i < count; i++) {
        int error = run(b, bytes);
        if (__builtin_expect(error != 0, 0)) {
            b->error = error;
            break;
        }
    }
    return (program_seconds() - start) / (double)count;
}

/* Median seconds of an operation, in batches of `count`, after one batch to warm up. */
INLINED double measure_counted(bench *b, operation run, size_t bytes, uint64_t count)
{
    double samples[MOST_SAMPLES];
    batch_seconds(b, run, bytes, count);
    for (unsigned s = 0; s < b->samples && b->error == 0; s++)
        samples[s] = batch_seconds(b, run, bytes, count);
    if (b->error != 0)
        return 0;
    samples_sort(samples, b->samples);
    return samples_quantile(samples, b->samples, 0.5);
}

/* The same, of an operation that only this node takes part in. */
INLINED double measure(bench *b, operation run, size_t bytes)
{
    uint64_t count = 1;
    for (;;) { /* until a batch is long enough to be extrapolated from */
        double seconds = batch_seconds(b, run, bytes, count) * (double)count;
        if (b->error != 0)
            return 0;
        if (seconds > BATCH_SECONDS / 10) {
            count = (uint64_t)((double)count * BATCH_SECONDS / seconds) + 1;
            return measure_counted(b, run, bytes, count);
        }
        count *= 4;
    }
}

static void row(const bench *b, const char *metric, size_t bytes, double value, const char *unit)
{
    if (b->nid != b->from || b->error != 0)
        return;
    printf("{\"metric\":\"%s\",\"size_bytes\":%zu,\"path\":\"%s\",\"value\":%.6g,\"unit\":\"%s\"}\n",
           metric, bytes, b->path, value, unit);
    fflush(stdout);
}

static void row_us(const bench *b, const char *metric, size_t bytes, double seconds)
{
    row(b, metric, bytes, seconds * 1e6, "us");
}

static void row_gb_per_s(const bench *b, const char *metric, size_t bytes, double seconds)
{
    row(b, metric, bytes, (double)bytes / seconds * 1e-9, "GB/s");
}

/* ---- One-sided: one node works, the other sleeps ------------------------------------------------ */

INLINED int get(bench *b, size_t bytes)
{
    return rmc_read(b->qp, b->peer, b->remote, b->local, bytes);
}

INLINED int fetch_add(bench *b, size_t bytes)
{
    uint64_t old;
    (void)bytes;
    return rmc_fetch_and_add(b->qp, b->peer, b->remote, 1, &old);
}

/* A window of reads, each of its own line or, if longer, its own stretch of memory. */
INLINED int get_window(bench *b, size_t bytes)
{
    size_t stride = bytes < RACKMEM_LINE_BYTES ? RACKMEM_LINE_BYTES : bytes;
    for (size_t i = 0; i < WINDOW; i++) {
        int slot = rmc_wait_for_slot(b->qp, NULL);
        rmc_read_async(b->qp, slot, b->peer, b->remote + i * stride, b->local + i * stride, bytes);
    }
    return 0;
}

/* Windows overlap within a batch: the next one fills the slots of the last as they come free. */
INLINED int get_drain(bench *b, size_t bytes)
{
    for (int i = 0; i < WINDOWS; i++)
        get_window(b, bytes);
    return rmc_drain_cq(b->qp, NULL);
}

static inline double measure_window(bench *b, size_t bytes)
{
    return measure(b, get_drain, bytes) / (WINDOWS * WINDOW);
}

static void one_sided(bench *b)
{
    row_us(b, "get_latency", 8, measure(b, get, 8));
    row_us(b, "get_latency", 64, measure(b, get, 64));
    row_us(b, "get_latency", 4 * KB, measure(b, get, 4 * KB));
    row_us(b, "get_latency", MB, measure(b, get, MB));
    row_us(b, "fetch_add_latency", 8, measure(b, fetch_add, 8));
    row(b, "op_rate", 8, 1e-6 / measure_window(b, 8), "Mops/s");
    row(b, "op_rate", 64, 1e-6 / measure_window(b, 64), "Mops/s");
    row(b, "op_rate", 4 * KB, 1e-6 / measure_window(b, 4 * KB), "Mops/s");
    row_gb_per_s(b, "get_bandwidth", 8 * KB, measure_window(b, 8 * KB));
}

/* ---- Two-sided: both nodes work, with the same counts -------------------------------------- */

/* Operations of a batch: some milliseconds. */
static uint64_t count_for(size_t bytes)
{
    return bytes >= MB ? 20 : bytes >= 64 * KB ? 200 : bytes >= 4 * KB ? 2000 : 10000;
}

/* A word that goes to the peer and back; each node polls its own memory. */
INLINED int put_round(bench *b, size_t bytes)
{
    const uint64_t *seen = (const uint64_t *)(const void *)b->mine;
    uint64_t turn = ++*b->turn;
    for (int half = 0; half < 2; half++) {
        if (half == b->nid) {
            int error = rmc_write(b->qp, b->peer, b->remote, b->turn, bytes);
            if (error != 0)
                return error;
        } else {
            while (__atomic_load_n(seen, __ATOMIC_ACQUIRE) != turn)
                ;
        }
    }
    return 0;
}

/* A message each way, from the senders' segments, whence a long one is pulled without a copy. */
INLINED int message_round(bench *b, size_t bytes)
{
    for (int half = 0; half < 2; half++) {
        int error = half == b->nid
                        ? rackmem_send(&b->messaging, b->peer, b->mine, bytes)
                        : rackmem_recv(&b->messaging, b->peer, b->local, bytes, NULL);
        if (error != 0)
            return error;
    }
    return 0;
}

#if RACKMEM_HAS_TWO_SIDED

/* Receives of the queue pair that are posted at any time, each of a page. */
enum { RECEIVES = 16 };

static int post_receive(bench *b, uint64_t id)
{
    return rmc_post_recv(b->qp, b->remote + id * 4 * KB, 4 * KB, id);
}

/* The same by the queue pair, into buffers that the receiver posted. */
INLINED int queue_pair_round(bench *b, size_t bytes)
{
    rmc_completion done = {0};
    for (int half = 0; half < 2; half++) {
        int error = half == b->nid ? rmc_send(b->qp, b->local, bytes, -1)
                                   : rmc_wait_completion(b->qp, &done, -1);
        if (error != 0 || done.status != 0)
            return error != 0 ? error : done.status;
    }
    return post_receive(b, done.id);
}

static int connect_pair(bench *b)
{
    uint64_t offset = b->connection;
    int error = rackmem_qp_connect(b->ctx, b->qp, offset, rackmem_at(b->peer, offset), 10000);
    for (uint64_t id = 0; id < RECEIVES && error == 0; id++)
        error = post_receive(b, id);
    return error;
}

static void queue_pair_messages(bench *b)
{
    static const size_t sizes[] = {8, 64, 4 * KB};
    b->error = connect_pair(b);
    for (int i = 0; i < 3 && b->error == 0; i++) {
        double seconds = measure_counted(b, queue_pair_round, sizes[i], count_for(sizes[i]));
        row_us(b, "queue_pair_half_rtt", sizes[i], seconds / 2);
    }
    rackmem_qp_disconnect(b->qp);
}

#endif

/* A stream to node 1, likewise, and an empty message back. */
static inline int message_stream(bench *b, size_t bytes)
{
    int messages = bytes >= MB ? 16 : 256, error = 0;
    for (int i = 0; i < messages && error == 0; i++)
        error = b->nid == 0
                    ? rackmem_send_async(&b->messaging, b->peer, b->mine, bytes)
                    : rackmem_recv(&b->messaging, b->peer, b->local, bytes, NULL);
    if (error == 0)
        error = b->nid == 0 ? rackmem_recv(&b->messaging, b->peer, b->local, 0, NULL)
                            : rackmem_send(&b->messaging, b->peer, b->local, 0);
    return error != 0 ? error : rackmem_flush(&b->messaging);
}

INLINED int barrier(bench *b, size_t bytes)
{
    (void)bytes;
    return rackmem_barrier_wait(&b->barrier);
}

/* ---- Lock and barriers, beside those of the C library --------------------------------------- */

static inline int counter_barrier(bench *b, size_t bytes)
{
    (void)bytes;
    return rackmem_counter_barrier_wait(&b->counter_barrier);
}

INLINED int lock_pair(bench *b, size_t bytes)
{
    (void)bytes;
    int error = rackmem_lock_acquire(&b->lock);
    return error != 0 ? error : rackmem_lock_release(&b->lock);
}

static inline int mutex_pair(bench *b, size_t bytes)
{
    (void)bytes;
    int error = pthread_mutex_lock(&b->pthreads->mutex);
    return -(error != 0 ? error : pthread_mutex_unlock(&b->pthreads->mutex));
}

static inline int pthread_barrier(bench *b, size_t bytes)
{
    (void)bytes;
    int error = pthread_barrier_wait(&b->pthreads->barrier);
    return error == PTHREAD_BARRIER_SERIAL_THREAD ? 0 : -error;
}

/* Node 0 alone: the other one waits at the barrier, which is asleep by then. */
INLINED double measure_alone(bench *b, operation run)
{
    double seconds = b->nid == 0 ? measure(b, run, 0) : 0;
    if (b->error == 0)
        b->error = barrier(b, 0);
    return seconds;
}

/* Both at once, as fast as they can: seconds of one operation, of either. The one that is done early
 * waits for the other, so it does not help to be unfair. */
INLINED double measure_contended(bench *b, operation run)
{
    enum { TURNS = 5000 };
    double samples[MOST_SAMPLES];
    for (unsigned s = 0; s < b->samples && b->error == 0; s++) {
        b->error = barrier(b, 0);
        double start = program_seconds();
        batch_seconds(b, run, 0, TURNS);
        if (b->error == 0)
            b->error = barrier(b, 0);
        samples[s] = (program_seconds() - start) / (2 * TURNS);
    }
    if (b->error != 0)
        return 0;
    samples_sort(samples, b->samples);
    return samples_quantile(samples, b->samples, 0.5);
}

/* One of ours and what it is set against, each as seconds of an operation. */
typedef struct rivals {
    const char *metric;
    const char *peer_metric;
    double (*measure)(bench *b);
    double (*measure_peer)(bench *b);
} rivals;

static double lock_alone(bench *b)
{
    return measure_alone(b, lock_pair);
}

static double mutex_alone(bench *b)
{
    return measure_alone(b, mutex_pair);
}

static double lock_contended(bench *b)
{
    return measure_contended(b, lock_pair);
}

static double mutex_contended(bench *b)
{
    return measure_contended(b, mutex_pair);
}

static double barrier_of_two(bench *b)
{
    return measure_counted(b, barrier, 0, count_for(8));
}

static double pthread_barrier_of_two(bench *b)
{
    return measure_counted(b, pthread_barrier, 0, count_for(8) / 20); /* it sleeps */
}

/* A figure, that of the peer, and how many times that is of it (below 1 is ahead): medians of
 * measurements in turn, so that a busy moment hits either. */
static void row_beside(bench *b, const rivals *r)
{
    enum { ROUNDS = 5 };
    double ours[ROUNDS], theirs[ROUNDS], ratios[ROUNDS];
    char ratio[64];
    for (int round = 0; round < ROUNDS; round++) {
        ours[round] = r->measure(b);
        theirs[round] = b->pthreads ? r->measure_peer(b) : 0;
        ratios[round] = ours[round] / theirs[round];
    }
    if (b->error != 0)
        return;
    samples_sort(ours, ROUNDS);
    row_us(b, r->metric, 0, samples_quantile(ours, ROUNDS, 0.5));
    if (!b->pthreads)
        return;
    samples_sort(theirs, ROUNDS);
    samples_sort(ratios, ROUNDS);
    snprintf(ratio, sizeof ratio, "%s_ratio", r->metric);
    row_us(b, r->peer_metric, 0, samples_quantile(theirs, ROUNDS, 0.5));
    row(b, ratio, 0, samples_quantile(ratios, ROUNDS, 0.5), "x pthread");
}

static void synchronisation(bench *b)
{
    static const rivals all[] = {
        {"lock_uncontended", "pthread_mutex_uncontended", lock_alone, mutex_alone},
        {"lock_contended", "pthread_mutex_contended", lock_contended, mutex_contended},
        {"barrier", "pthread_barrier", barrier_of_two, pthread_barrier_of_two},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0] && b->error == 0; i++)
        row_beside(b, &all[i]);
    if (b->error == 0)
        row_us(b, "counter_barrier", 0, measure_counted(b, counter_barrier, 0, count_for(8)));
}

/* Reads of what the peer's core has written since the last one: no copy is cached here. Each is
 * timed alone, between two barriers; the clock's own share is taken off. */
static double measure_written(bench *b, size_t bytes)
{
    double samples[MOST_SAMPLES], clocks[MOST_SAMPLES];
    int reads = bytes >= MB ? 8 : 200;
    for (unsigned s = 0; s < b->samples && b->error == 0; s++) {
        double sum = 0;
        for (int r = 0; r < reads && b->error == 0; r++) {
            if (b->nid == 1)
                memset(b->mine, r, bytes);
            b->error = barrier(b, 0);
            if (b->error == 0 && b->nid == 0)
                sum += batch_seconds(b, get, bytes, 1);
            if (b->error == 0)
                b->error = barrier(b, 0);
        }
        double start = program_seconds(), end = start;
        for (int r = 0; r < reads; r++)
            end = program_seconds();
        clocks[s] = (end - start) / reads;
        samples[s] = sum / reads;
    }
    if (b->error != 0)
        return 0;
    samples_sort(samples, b->samples);
    samples_sort(clocks, b->samples);
    double clock = samples_quantile(clocks, b->samples, 0.5);
    return samples_quantile(samples, b->samples, 0.5) - clock;
}

static double messages_seconds(bench *b, size_t bytes)
{
    double batch = measure_counted(b, message_stream, bytes, 4);
    return batch / (bytes >= MB ? 16 : 256);
}

static void two_sided(bench *b)
{
    static const size_t read_sizes[] = {8, 64, 4 * KB, MB}, message_sizes[] = {8, 64, 4 * KB},
                        stream_sizes[] = {4 * KB, 64 * KB, MB};
    row_us(b, "put_half_rtt", 8, measure_counted(b, put_round, 8, count_for(8)) / 2);
    for (int i = 0; i < 3 && b->error == 0; i++) {
        size_t bytes = message_sizes[i];
        double seconds = measure_counted(b, message_round, bytes, count_for(bytes));
        row_us(b, "message_half_rtt", bytes, seconds / 2);
    }
#if RACKMEM_HAS_TWO_SIDED
    if (b->error == 0)
        queue_pair_messages(b);
#endif
    for (int i = 0; i < 3 && b->error == 0; i++)
        row_gb_per_s(b, "message_bandwidth", stream_sizes[i], messages_seconds(b, stream_sizes[i]));
    synchronisation(b);
    for (int i = 0; i < 4 && b->error == 0; i++)
        row_us(b, "get_written_latency", read_sizes[i], measure_written(b, read_sizes[i]));
}

/* ---- Both ---------------------------------------------------------------------------------- */

/* Areas of synchronisation in every segment, from the end of the barrier's on. */
enum { LOCK = 0, LOCK_FLAG = 512, PTHREADS = 576, COUNTER_BARRIER = 1024, SYNC_BYTES = 2048 };

/* The C library's are at node 1, if that can be reached without a controller. */
static int open_pthreads(bench *b, uint64_t offset)
{
    rackmem_mapping mapping;
    pthread_mutexattr_t of_mutex;
    pthread_barrierattr_t of_barrier;
    if (rackmem_map(b->ctx, 1, &mapping) != 0)
        return 0;
    b->pthreads = (pthreads *)(void *)((char *)mapping.memory + offset);
    if (b->nid != 1)
        return 0;
    int error = pthread_mutexattr_init(&of_mutex) | pthread_barrierattr_init(&of_barrier) |
                pthread_mutexattr_setpshared(&of_mutex, PTHREAD_PROCESS_SHARED) |
                pthread_barrierattr_setpshared(&of_barrier, PTHREAD_PROCESS_SHARED) |
                pthread_mutex_init(&b->pthreads->mutex, &of_mutex) |
                pthread_barrier_init(&b->pthreads->barrier, &of_barrier, 2);
    return -error;
}

static int open_synchronisation(bench *b, uint64_t offset)
{
    int error = rackmem_lock_open(&b->lock, b->ctx, b->qp, rackmem_at(1, offset + LOCK), 2,
                                  offset + LOCK_FLAG);
    if (error == 0)
        error = rackmem_counter_barrier_open(&b->counter_barrier, b->ctx, b->qp,
                                             offset + COUNTER_BARRIER, 1, 0);
    return error == 0 ? open_pthreads(b, offset + PTHREADS) : error;
}

/* What two nodes need that are all of the run: messages, a barrier, locks and barriers to measure. */
static int open_two_sided(bench *b, size_t messaging, size_t barrier_end)
{
    int error = rackmem_messaging_open(&b->messaging, b->ctx, b->qp, 0);
    if (error == 0)
        error = rackmem_barrier_open(&b->barrier, b->ctx, b->qp, messaging, NULL, 0);
    if (error != 0)
        return program_operation_failed(NAME, "cannot set up messages and barrier", error);
    error = open_synchronisation(b, barrier_end);
    if (error != 0)
        return program_operation_failed(NAME, "cannot set up lock and barriers", error);
    return 0;
}

/* What two nodes of a larger rack need: a barrier of their own. */
static int open_one_sided(bench *b, size_t barrier_at)
{
    const uint16_t both[] = {(uint16_t)b->nid, (uint16_t)b->peer};
    if (rackmem_wait_joined(b->ctx, b->peer, JOIN_TIMEOUT_MS) != 0)
        return program_call_failed(NAME, "the other node has not joined");
    int error = rackmem_barrier_open(&b->barrier, b->ctx, b->qp, barrier_at, both, 2);
    return error == 0 ? 0 : program_operation_failed(NAME, "cannot set up the barrier", error);
}

static int join(bench *b, bool is_pair, size_t segment_bytes)
{
    const rackmem_open_args args = {.nid = b->nid, .ctx_id = -1, .segment_bytes = segment_bytes};
    int error = is_pair ? rackmem_open(&b->ctx, &args) : rackmem_init(&b->ctx, segment_bytes);
    if (error != 0)
        return program_call_failed(NAME, "cannot join the rack");
    if (rackmem_qp_create(b->ctx, WINDOW, &b->qp) != 0)
        return program_call_failed(NAME, "cannot make a queue pair");
    return 0;
}

static int open_bench(bench *b, bool is_pair)
{
    size_t messaging = rackmem_messaging_bytes(2);
    size_t barrier_end = (messaging + rackmem_barrier_bytes(2) + 63) / 64 * 64;
    b->connection = barrier_end + SYNC_BYTES;
    b->remote = (b->connection + CONNECTION_BYTES + 4 * KB - 1) / (4 * KB) * (4 * KB);
    const char *progress = getenv("RACKMEM_PROGRESS");
    b->path = progress && *progress ? progress : "inline";
    if (!is_pair && program_nodes() != 2)
        return program_failed(NAME, "needs two nodes: rackmem run -n 2 -- :bench");
    int status = join(b, is_pair, b->remote + MB);
    if (status == 0)
        status = is_pair ? open_one_sided(b, messaging)
                         : open_two_sided(b, messaging, barrier_end);
    if (status != 0)
        return status;
    b->local = rackmem_alloc(b->ctx, MB);
    b->turn = rackmem_alloc(b->ctx, sizeof *b->turn);
    if (!b->local || !b->turn)
        return program_call_failed(NAME, "no memory for local buffers");
    /* Memory that was never touched would be faulted in while the clock runs. */
    b->mine = (unsigned char *)rackmem_segment(b->ctx) + b->remote;
    memset(b->mine, 0, MB);
    memset(b->local, 1, MB);
    return 0;
}

static int run_bench(bench *b, bool only_one_sided)
{
    uint64_t notified = 0;
    b->error = rackmem_barrier_wait(&b->barrier); /* both have touched their memory */
    if (b->error == 0 && !only_one_sided)
        two_sided(b);
    if (b->error == 0 && b->nid == b->from)
        one_sided(b);
    if (b->error == 0)
        b->error = b->nid == b->from ? rmc_notify(b->qp, b->peer)
                               : rackmem_wait_notify(b->ctx, &notified, -1);
    return b->error == 0 ? 0 : program_operation_failed(NAME, "measuring", b->error);
}

int main(int argc, char **argv)
{
    bool quick = false, only_one_sided = false;
    uint64_t from = 0, to = 0;
    const option options[] = {
        {"quick", OPTION_FLAG, &quick, NULL, "take fewer samples", 0, 0},
        {"one-sided", OPTION_FLAG, &only_one_sided, NULL,
         "leave out what keeps both processes busy", 0, 0},
        {"from", OPTION_NUMBER, &from, "NODE", "node that works, of a larger rack", 0, MOST_NODES},
        {"to", OPTION_NUMBER, &to, "NODE", "node whose memory it uses", 0, MOST_NODES},
        {0},
    };
    const command_line line = {NAME, "[OPTIONS]", about, options, NULL};
    int status = options_parse(&line, argc, argv);
    if (status != OPTIONS_GO_ON)
        return status;
    bool is_pair = from != to;
    bench b = {.samples = quick ? SAMPLES_QUICK : SAMPLES, .nid = program_nid()};
    b.from = (int)from;
    b.peer = !is_pair ? 1 - b.nid : b.nid == b.from ? (int)to : b.from;
    if (is_pair && b.nid != b.from && b.nid != (int)to)
        return PROGRAM_OK; /* none of the two */
    status = open_bench(&b, is_pair);
    if (status == 0)
        status = run_bench(&b, only_one_sided || is_pair);
    rackmem_close(b.ctx);
    return status == 0 ? program_flush(NAME) : status;
}
