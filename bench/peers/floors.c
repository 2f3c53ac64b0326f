/* Floors of the hardware: plain loads, stores and copies between two pinned processes that share memory.
 * No runtime can be faster than these and do the same; they have no queues, no checks and no errors. */
#include "bench.h"
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

struct line {
    _Alignas(128) _Atomic uint64_t value; /* 128: adjacent lines are prefetched in pairs */
};

struct shared {
    struct line ping[2], arrived[2];
    struct line counter;
    _Alignas(4096) char buffer[MB];
};

static struct shared *shared;
static char *local;
static int rank;

static inline void store(struct line *l, uint64_t v) { atomic_store_explicit(&l->value, v, memory_order_release); }
/* At least `v`: the other side of a barrier may be on its way to the next one already. */
static inline void wait_for(struct line *l, uint64_t v) {
    while (atomic_load_explicit(&l->value, memory_order_acquire) < v) {}
}

/* Tell the other process and wait for it: each has a line that only it writes. */
static inline void barrier(void) {
    static uint64_t turn;
    turn++;
    store(&shared->arrived[rank], turn);
    wait_for(&shared->arrived[1 - rank], turn);
}

/* Rank 0 writes its line, rank 1 sees it and writes its own: a cache line to the other core and back. */
static double line_round_trip(struct bench b) {
    uint64_t turn = 0;
    return MEDIAN_NS(b.samples, ops_for(8), {
        turn++;
        if (rank == 0) store(&shared->ping[0], turn);
        wait_for(&shared->ping[1 - rank], turn);
        if (rank == 1) store(&shared->ping[1], turn);
    });
}

/* Read `size` bytes that the other core wrote since the last read. Only the read is timed, one by one, and the clock's
 * own cost taken off. */
static double read_written(struct bench b, size_t size) {
    double t[MAX_SAMPLES], clock[MAX_SAMPLES];
    int reads = size >= MB ? 1 : 20;
    for (int s = 0; s < b.samples; s++) {
        uint64_t sum = 0;
        for (int r = 0; r < reads; r++) {
            if (rank == 1) memset(shared->buffer, r, size);
            barrier();
            if (rank == 0) {
                uint64_t start = now_ns();
                memcpy(local, shared->buffer, size);
                atomic_signal_fence(memory_order_seq_cst);
                sum += now_ns() - start;
            }
            barrier();
        }
        uint64_t start = now_ns(), end = start;
        for (int r = 0; r < reads; r++) end = now_ns();
        clock[s] = (double)(end - start) / reads;
        t[s] = (double)sum / reads;
    }
    return median(t, b.samples) - median(clock, b.samples);
}

int main(int argc, char **argv) {
    struct bench b = bench_args(argc, argv);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        perror("mmap");
        return 1;
    }
    pid_t child = fork();
    if (child < 0) {
        perror("fork");
        return 1;
    }
    rank = child == 0;
    pin(b.core[rank]);
    local = aligned_alloc(4 * KB, MB);
    memset(local, 1, MB);

    double round_trip = line_round_trip(b);
    barrier();
    double barriers = MEDIAN_NS(b.samples, ops_for(8), barrier());
    if (rank == 0) {
        row_us("put_half_rtt", 8, "line", round_trip / 2);
        row_us("barrier", 0, "barrier", barriers);
        memset(shared->buffer, 1, MB);
        FOR_EACH(size, LATENCY_SIZES) {
            /* The fence keeps the compiler from merging the copies. */
            double ns = MEDIAN_NS(b.samples, ops_for(size), {
                memcpy(local, shared->buffer, size);
                atomic_signal_fence(memory_order_seq_cst);
            });
            row_us("get_latency", size, "memcpy", ns);
        }
        double ns = MEDIAN_NS(b.samples, ops_for(8), atomic_fetch_add(&shared->counter.value, 1));
        row_us("fetch_add_latency", 8, "local", ns);
        FOR_EACH(stride, BULK_STRIDES) {
            ns = MEDIAN_NS(b.samples, 1, {
                for (size_t i = 0; i < WINDOW; i++) {
                    memcpy(local + stride * i, shared->buffer + stride * i, 8 * KB);
                    atomic_signal_fence(memory_order_seq_cst);
                }
            });
            row_gb_per_s(BULK_METRIC(stride), 8 * KB, "get", ns / WINDOW);
        }
    }
    barrier();
    FOR_EACH(size, LATENCY_SIZES) {
        double ns = read_written(b, size);
        if (rank == 0) row_us("get_written_latency", size, "memcpy", ns);
    }
    if (rank == 0) {
        int status;
        waitpid(child, &status, 0);
        return status != 0;
    }
    return 0;
}
