/* Parts shared by the benchmark programs beside this file: a clock, pinning, a median, and the row
 * that they all print.
 *
 * Every program takes the same arguments, `SAMPLES CORE0 CORE1`, and prints one JSON object per line:
 *     {"metric": "get_latency", "size_bytes": 64, "variant": "rma", "value": 0.03, "unit": "us"}
 * bench/compare adds the peer's name. bench/README.md says what each metric means. */
#ifndef BENCH_H
#define BENCH_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

enum { MAX_SAMPLES = 1001, WINDOW = 64, KB = 1024, MB = 1024 * 1024 };

struct bench {
    int samples;
    int core[2];
};

static const size_t LATENCY_SIZES[] = {8, 64, 4 * KB, MB};
static const size_t MESSAGE_SIZES[] = {8, 64, 4 * KB};
static const size_t STREAM_SIZES[] = {4 * KB, 64 * KB, MB};
static const size_t RATE_SIZES[] = {8, 64};
/* Windowed 8 KB reads: always the same block, which stays in the first cache (all that ucx_perftest can do), or one after
 * another of 64 blocks. */
static const size_t BULK_STRIDES[] = {0, 8 * KB};
#define BULK_METRIC(stride) ((stride) ? "get_bandwidth" : "get_hot_bandwidth")
#define FOR_EACH(size, sizes) \
    for (size_t i_ = 0, size; i_ < sizeof sizes / sizeof *sizes && (size = sizes[i_], 1); i_++)

static inline struct bench bench_args(int argc, char **argv) {
    struct bench b = {.samples = argc > 1 ? atoi(argv[1]) : 301,
                      .core = {argc > 2 ? atoi(argv[2]) : 0, argc > 3 ? atoi(argv[3]) : 1}};
    if (b.samples < 1) b.samples = 1;
    if (b.samples > MAX_SAMPLES) b.samples = MAX_SAMPLES;
    return b;
}

/* A peer that dies leaves the other one spinning for ever: the alarm ends both. */
static inline void pin(int core) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    if (sched_setaffinity(0, sizeof set, &set) != 0) {
        perror("sched_setaffinity");
        exit(1);
    }
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    alarm(60);
}

static inline uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static inline int ascending(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static inline double median(double *values, int n) {
    qsort(values, (size_t)n, sizeof *values, ascending);
    return n % 2 ? values[n / 2] : (values[n / 2 - 1] + values[n / 2]) / 2;
}

/* Nanoseconds that `op` takes: the median over batches of `ops`, after a tenth as many to warm up. The median, not the
 * mean, because a batch in which the kernel ran something else on one of our cores says nothing about the peer.
 * Two-sided operations are run by both sides with the same `samples` and `ops`, so their counts agree. */
#define MEDIAN_NS(samples, ops, op)                                         \
    ({                                                                      \
        double t_[MAX_SAMPLES];                                             \
        for (long n_ = 0; n_ < (ops) * (1 + (samples) / 10); n_++) { op; }  \
        for (int s_ = 0; s_ < (samples); s_++) {                            \
            uint64_t start_ = now_ns();                                     \
            for (long n_ = 0; n_ < (ops); n_++) { op; }                     \
            t_[s_] = (double)(now_ns() - start_) / (double)(ops);           \
        }                                                                   \
        median(t_, samples);                                                \
    })

/* Batches of some ten microseconds: long beside the clock's own cost, and so short beside a scheduler tick that even on a
 * busy machine most batches are left alone. */
static inline long ops_for(size_t size) { return size >= MB ? 1 : size >= 4 * KB ? 50 : 400; }

static inline void row(const char *metric, size_t size, const char *variant, double value, const char *unit) {
    printf("{\"metric\": \"%s\", \"size_bytes\": %zu, \"variant\": \"%s\", \"value\": %.6g, \"unit\": \"%s\"}\n", metric,
           size, variant, value, unit);
    fflush(stdout);
}
static inline void row_us(const char *metric, size_t size, const char *variant, double ns) {
    row(metric, size, variant, ns / 1e3, "us");
}
static inline void row_gb_per_s(const char *metric, size_t size, const char *variant, double ns) {
    row(metric, size, variant, (double)size / ns, "GB/s");
}
static inline void row_mops(const char *metric, size_t size, const char *variant, double ns) {
    row(metric, size, variant, 1e3 / ns, "Mops/s");
}

#endif
