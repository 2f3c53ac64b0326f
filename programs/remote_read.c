/*
 * remote_read: how fast are remote reads and atomics? (soNUMA §7.2, §7.4)
 *
 * Node 0 reads from node 1; double-sided, node 1 reads from node 0 at the same time. Synchronous
 * reads, one at a time, give the latency; asynchronous ones, a queue pair full of them, the rate:
 * the loop and the callback of Figure 4, to which §7.2 refers, over edges to a single vertex. The
 * memory read from is larger than most caches and visited out of order.
 */
#include <inttypes.h>
#include <rackmem.h>
#include <string.h>

#include "options.h"
#include "program.h"
#include "samples.h"

#define NAME "remote_read"

enum { RUNS = 5, WARM_UP = 16, BUFFER_BYTES = 16 << 20 };

/* A run with less time for a figure is on the model, where each operation takes long to simulate and
 * none is disturbed: warm up with few. */
#define SHORT_SECONDS 1e-3

static const char about[] =
    "Measures remote reads between nodes 0 and 1 (soNUMA, section 7.2), of growing size: latency\n"
    "with one read at a time, rate and bandwidth with a queue pair full of them; and\n"
    "fetch-and-add likewise. Single-sided, node 0 reads from node 1; double-sided, both read\n"
    "from each other, and rates are the sum. Fast operations are timed in batches of about 2 us,\n"
    "since a look at the clock would take as long as one of them; p99 is that of batches then.\n"
    "  rackmem run -n 2 -- :remote_read\n"
    "  rackmem run -n 2 -- :remote_read --sizes 64 --region 4K     all in the cache\n";

typedef struct access_pattern access_pattern;

/* What is read begins as a vertex of Figure 4 does. */
typedef struct vertex {
    float rank[2];
    uint32_t out_degree;
} Vertex;

typedef struct endpoint {
    rackmem_context *ctx;
    QP *qp;
    rackmem_barrier barrier;
    int nid;
    int peer;
    uint64_t window; /* entries of the queue pair */
    uint64_t reports_offset;
    uint64_t region_offset;  /* what is read */
    uint64_t region_bytes;
    uint64_t visited; /* bytes of it before the next read: sizes go on where the last one ended */
    bool filled;
    bool sync_reads; /* nothing else is measured */
    unsigned char *buffer; /* the listing's lbuf: whole lines for each slot */
    uint64_t buffer_bytes;
    uint64_t *operands; /* one per slot */
    const access_pattern *pattern; /* of the replies that come */
    float *async_dest_addr[MAX_WQ_SIZE];
    float rank; /* of the vertex to which all edges lead */
} endpoint;

/* The measured operations: reads of so many bytes, or fetch-and-add if 0, which goes to a line each. */
struct access_pattern {
    uint64_t bytes;
    uint64_t span; /* from place to place */
    uint64_t places; /* a power of two */
    uint64_t step;   /* odd, so that every place has its turn */
    uint64_t next;
    uint64_t buffer_bytes; /* a slot's, whole lines */
    uint64_t buffers; /* reads in flight do not share one, unless they are very long */
};

RACKMEM_STATIC_ASSERT(BUFFER_BYTES >= RACKMEM_MAX_LENGTH, "any read fits");

/* One line, which node 1 writes at node 0. */
typedef struct figures {
    double median; /* seconds of one operation at a time */
    double p99;
    double per_second; /* with a full queue pair */
    uint64_t unused[5];
} figures;

RACKMEM_STATIC_ASSERT(sizeof(figures) == RACKMEM_LINE_BYTES, "one line");

static uint64_t whole_lines(uint64_t bytes)
{
    return (bytes + RACKMEM_LINE_BYTES - 1) / RACKMEM_LINE_BYTES * RACKMEM_LINE_BYTES;
}

static access_pattern pattern_of(const endpoint *e, uint64_t bytes)
{
    access_pattern p = {.bytes = bytes, .places = 1, .step = 1, .buffers = 1};
    p.span = bytes ? bytes : RACKMEM_LINE_BYTES;
    while (p.places * 2 * p.span <= e->region_bytes)
        p.places *= 2;
    p.next = e->visited / p.span & (p.places - 1);
    if (p.places > 8)
        p.step = p.places / 8 * 5 + 1; /* far apart, and even / 8 * 5 is even */
    p.buffer_bytes = whole_lines(p.span);
    while (p.buffers * 2 * p.buffer_bytes <= e->buffer_bytes && p.buffers < e->window)
        p.buffers *= 2;
    return p;
}

static uint64_t next_offset(const endpoint *e, access_pattern *p)
{
    p->next = (p->next + p->step) & (p->places - 1);
    return e->region_offset + p->next * p->span;
}

/* The buffer for the reply of a slot. */
static unsigned char *buffer_of(const endpoint *e, const access_pattern *p, uint64_t slot)
{
    return e->buffer + (slot & (p->buffers - 1)) * p->buffer_bytes;
}

/* The content of an 8-byte word of a region, which tells node and place. */
static uint64_t word_of(int nid, uint64_t index)
{
    return (index << 1 | (uint64_t)nid) * UINT64_C(0x9e3779b97f4a7c15);
}

/* Whether the words of the latest read are those of the peer's region. */
static int check(const endpoint *e, const access_pattern *p, const unsigned char *buffer)
{
    uint64_t first = p->next * p->bytes;
    if (!e->filled)
        return 0;
    for (uint64_t at = (8 - first % 8) % 8; at + 8 <= p->bytes; at += 8) {
        uint64_t word;
        memcpy(&word, buffer + at, sizeof word);
        if (word != word_of(e->peer, (first + at) / 8))
            return program_failed(NAME, "read of %" PRIu64 " bytes: byte %" PRIu64 " is wrong",
                                  p->bytes, at);
    }
    return 0;
}

/* One at a time: `plan.batch` operations per sample. */
static int run_sync(endpoint *e, access_pattern *p, sample_plan plan, double *samples)
{
    int error = 0;
    double start = program_seconds();
    for (uint64_t s = 0; s < plan.samples; s++) {
        for (uint64_t i = 0; i < plan.batch; i++) {
            error = p->bytes == 0
                        ? rmc_fetch_and_add(e->qp, e->peer, next_offset(e, p), 0, NULL)
                        : rmc_read(e->qp, e->peer, next_offset(e, p), e->buffer, p->bytes);
            if (error != 0)
                return program_operation_failed(NAME, "remote operation", error);
        }
        double end = program_seconds();
        samples[s] = (end - start) / (double)plan.batch;
        start = end;
    }
    return p->bytes == 0 ? 0 : check(e, p, e->buffer);
}

/* A reply has come: adds it up as `pagerank_async` in Figure 4 does. */
RACKMEM_INLINE void process(int slot, void *arg)
{
    endpoint *e = arg;
    const access_pattern *p = e->pattern;
    float *rank = e->async_dest_addr[slot];
    if (p->bytes == 0) {
        *rank += (float)e->operands[slot];
    } else {
        const Vertex *v = (const Vertex *)(const void *)buffer_of(e, p, (uint64_t)slot);
        *rank = (float)(*rank + 0.85 * (double)v->rank[0] / v->out_degree);
    }
}

/* As many at once as the queue pair takes; the seconds of one. */
static int run_async(endpoint *e, access_pattern *p, uint64_t count, double *seconds)
{
    QP *qp = e->qp;
    qp->callback_arg = e;
    e->pattern = p;
    unsigned char *buffer = e->buffer;
    double start = program_seconds();
    for (uint64_t i = 0; i < count; i++) {
        int slot = rmc_wait_for_slot(qp, process);
        e->async_dest_addr[slot] = &e->rank;
        if (p->bytes == 0) {
            e->operands[slot] = 0; /* the region stays as it is */
            rmc_fetch_and_add_async(qp, slot, e->peer, next_offset(e, p), &e->operands[slot]);
        } else {
            buffer = buffer_of(e, p, (uint64_t)slot);
            rmc_read_async(qp, slot, e->peer, next_offset(e, p), buffer, p->bytes);
        }
    }
    int error = rmc_drain_cq(qp, process);
    *seconds = (program_seconds() - start) / (double)count;
    if (error != 0)
        return program_operation_failed(NAME, "remote operation", error);
    return p->bytes == 0 || p->buffers < e->window ? 0 : check(e, p, buffer);
}

static int measure_own(endpoint *e, uint64_t bytes, double seconds, figures *f)
{
    static double samples[SAMPLES_MOST];
    double runs[RUNS];
    access_pattern p = pattern_of(e, bytes);
    sample_plan warm_up = {.batch = seconds < SHORT_SECONDS ? 1 : 8, .samples = WARM_UP};
    int status = run_sync(e, &p, warm_up, samples);
    if (status != 0)
        return status;
    samples_sort(samples, WARM_UP);

    sample_plan plan = sample_plan_make(samples[WARM_UP / 2], seconds);
    status = run_sync(e, &p, plan, samples);
    if (status != 0)
        return status;
    samples_sort(samples, plan.samples);
    f->median = samples_quantile(samples, plan.samples, 0.5);
    f->p99 = samples_quantile(samples, plan.samples, 0.99);
    e->visited = (p.next + 1) * p.span;
    if (e->sync_reads)
        return 0;

    status = run_async(e, &p, 2 * e->window, &runs[0]);
    double wanted = seconds / (double)RUNS / runs[0];
    uint64_t count = wanted < (double)e->window ? e->window : (uint64_t)wanted;
    for (int i = 0; i < RUNS && status == 0; i++)
        status = run_async(e, &p, count, &runs[i]);
    samples_sort(runs, RUNS);
    f->per_second = 1 / runs[RUNS / 2];
    e->visited = (p.next + 1) * p.span;
    return status;
}

/* All nodes call this; node 0 gets the figures: its own latency, and everyone's rate. */
static int measure(endpoint *e, uint64_t bytes, bool both, double seconds, figures *f)
{
    bool active = e->nid == 0 || (both && e->nid == 1);
    memset(f, 0, sizeof *f);
    int error = rackmem_barrier_wait(&e->barrier);
    if (error == 0 && active) {
        int status = measure_own(e, bytes, seconds, f);
        if (status != 0)
            return status;
        if (e->nid == 1)
            error = rmc_write(e->qp, 0, e->reports_offset, f, sizeof *f);
    }
    if (error == 0)
        error = rackmem_barrier_wait(&e->barrier);
    if (error != 0)
        return program_operation_failed(NAME, "barrier", error);
    if (e->nid == 0 && both)
        f->per_second += ((const figures *)(const void *)((char *)rackmem_segment(e->ctx) +
                                                          e->reports_offset))->per_second;
    return 0;
}

/* ---- Output ------------------------------------------------------------------------------ */

static void print_head(bool both, uint64_t window)
{
    printf("%s, up to %" PRIu64 " operations in flight\n"
           "    bytes    sync us   p99 us  async Mops/s     GB/s\n",
           both ? "double-sided" : "single-sided", window);
}

static void print_row(uint64_t bytes, const figures *f)
{
    if (bytes == 0)
        printf("fetch-add");
    else
        printf("%9" PRIu64, bytes);
    printf("  %9.3f  %7.3f  %12.3f", f->median * 1e6, f->p99 * 1e6, f->per_second * 1e-6);
    if (bytes != 0)
        printf("  %7.3f", f->per_second * (double)bytes * 1e-9);
    putchar('\n');
    fflush(stdout);
}

static void print_json(uint64_t bytes, const figures *f)
{
    printf("{\"operation\":\"%s\",\"bytes\":%" PRIu64 ",\"sync_us\":{\"median\":%.4f,\"p99\":%.4f}"
           ",\"async\":{\"operations_per_second\":%.0f,\"bytes_per_second\":%.0f}}",
           bytes == 0 ? "fetch_and_add" : "read", bytes == 0 ? 8 : bytes, f->median * 1e6,
           f->p99 * 1e6, f->per_second, f->per_second * (double)(bytes == 0 ? 8 : bytes));
}

/* The sizes, then fetch-and-add, from one side or from both. */
static int run_table(endpoint *e, const option_sizes *sizes, bool both, double seconds, bool json)
{
    if (e->nid == 0 && json)
        printf("\"%s\":[", both ? "double_sided" : "single_sided");
    else if (e->nid == 0)
        print_head(both, e->window);
    unsigned rows = sizes->count + !e->sync_reads;
    for (unsigned i = 0; i < rows; i++) {
        uint64_t bytes = i < sizes->count ? sizes->at[i] : 0;
        figures f;
        int status = measure(e, bytes, both, seconds, &f);
        if (status != 0)
            return status;
        if (e->nid == 0 && json) {
            printf("%s", i == 0 ? "" : ",");
            print_json(bytes, &f);
        } else if (e->nid == 0) {
            print_row(bytes, &f);
        }
    }
    if (e->nid == 0)
        printf(json ? "]" : "\n");
    return 0;
}

/* ---- Set-up ------------------------------------------------------------------------------ */

static int open_endpoint(endpoint *e)
{
    int nodes = program_nodes();
    uint64_t barrier = rackmem_barrier_bytes(nodes);
    e->reports_offset = barrier;
    e->region_offset = e->reports_offset + sizeof(figures);
    if (rackmem_init(&e->ctx, (size_t)(e->region_offset + e->region_bytes)) != 0)
        return program_call_failed(NAME, "cannot join the rack");
    e->nid = rackmem_nid(e->ctx);
    e->peer = 1 - e->nid;
    if (rackmem_nodes(e->ctx) < 2)
        return program_failed(NAME, "needs two nodes: rackmem run -n 2 -- :remote_read");
    if (rackmem_qp_create(e->ctx, (unsigned)e->window, &e->qp) != 0)
        return program_call_failed(NAME, "cannot make a queue pair");
    int error = rackmem_barrier_open(&e->barrier, e->ctx, e->qp, 0, NULL, 0);
    if (error != 0)
        return program_operation_failed(NAME, "cannot make a barrier", error);
    e->buffer = rackmem_alloc(e->ctx, (size_t)e->buffer_bytes);
    e->operands = rackmem_alloc(e->ctx, MAX_WQ_SIZE * sizeof *e->operands);
    if (!e->buffer || !e->operands)
        return program_call_failed(NAME, "no memory for replies");

    unsigned char *region = (unsigned char *)rackmem_segment(e->ctx) + e->region_offset;
    for (uint64_t i = 0; e->filled && i < e->region_bytes / 8; i++) {
        uint64_t word = word_of(e->nid, i);
        memcpy(region + 8 * i, &word, sizeof word);
    }
    return 0;
}

static int run(endpoint *e, const option_sizes *sizes, uint64_t sides, double seconds, bool json)
{
    int status = 0;
    if (e->nid == 0 && json)
        printf("{\"program\":\"remote_read\",\"window\":%" PRIu64 ",\"region_bytes\":%" PRIu64 ",",
               e->window, e->region_bytes);
    if (sides != 2)
        status = run_table(e, sizes, false, seconds, json);
    if (status == 0 && sides == 0 && e->nid == 0 && json)
        printf(",");
    if (status == 0 && sides != 1)
        status = run_table(e, sizes, true, seconds, json);
    if (status == 0 && e->nid == 0 && json)
        printf("}\n");
    return status == 0 ? program_flush(NAME) : status;
}

int main(int argc, char **argv)
{
    endpoint e = {.window = 64, .region_bytes = 64 << 20};
    option_sizes sizes = {0};
    uint64_t sides = 0;
    double seconds = 0.1;
    bool json = false, unfilled = false;
    for (uint64_t bytes = 64; bytes <= 1 << 20; bytes *= 2)
        sizes.at[sizes.count++] = bytes;
    const option options[] = {
        {"sizes", OPTION_SIZES, &sizes, "LIST", "of reads: 64,8K or 64..1M (default)", 1,
         RACKMEM_MAX_LENGTH},
        {"sides", OPTION_NUMBER, &sides, "N", "1: only node 0 reads, 2: both (default: one after\n"
         "the other)", 1, 2},
        {"window", OPTION_NUMBER, &e.window, "N",
         "entries of the queue pair, a power of two (64)", 2, MAX_WQ_SIZE},
        {"region", OPTION_BYTES, &e.region_bytes, "BYTES",
         "how much memory the reads visit (64M)", 64, UINT64_C(1) << 36},
        {"unfilled", OPTION_FLAG, &unfilled, NULL,
         "leave that memory untouched before it is read, so that\n"
         "none of it is in a cache; what is read is not checked", 0, 0},
        {"sync-reads", OPTION_FLAG, &e.sync_reads, NULL,
         "reads one at a time alone: no rates, no fetch-and-add", 0, 0},
        {"seconds", OPTION_SECONDS, &seconds, "S", "time for each figure (0.1)", 0, 0},
        {"json", OPTION_FLAG, &json, NULL, "print one line of JSON", 0, 0},
        {0},
    };
    const command_line line = {NAME, "[OPTIONS]", about, options, NULL};
    int status = options_parse(&line, argc, argv);
    if (status != OPTIONS_GO_ON)
        return status;
    e.filled = !unfilled;
    if ((e.window & (e.window - 1)) != 0)
        return options_usage(&line, "--window: expected a power of two");
    for (unsigned i = 0; i < sizes.count; i++) {
        uint64_t all = whole_lines(sizes.at[i]) * e.window; /* reads in flight do not share a buffer */
        if (sizes.at[i] > e.region_bytes)
            return options_usage(&line, "--sizes: a read is longer than --region");
        all = all > BUFFER_BYTES ? BUFFER_BYTES : all;
        e.buffer_bytes = all > e.buffer_bytes ? all : e.buffer_bytes;
    }

    status = open_endpoint(&e);
    if (status == 0)
        status = run(&e, &sizes, sides, seconds, json);
    rackmem_close(e.ctx);
    return status;
}
