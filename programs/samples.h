/*
 * Timing of short operations. One look at the clock takes as long as a fast remote read, so a
 * sample is the mean of a batch of operations, as small as the clock allows.
 */
#ifndef SAMPLES_H
#define SAMPLES_H

#include <stdint.h>
#include <stdlib.h>

/* A sample lasts at least this long, so that two looks at the clock are noise. */
#define SAMPLE_SECONDS 2e-6
#define SAMPLES_MOST 20000
#define SAMPLES_LEAST 16

/* Samples to spend `seconds` on operations of which one takes about `operation_seconds`. */
typedef struct sample_plan {
    uint64_t batch;   /* operations per sample */
    uint64_t samples;
} sample_plan;

static inline sample_plan sample_plan_make(double operation_seconds, double seconds)
{
    double operation = operation_seconds > 1e-9 ? operation_seconds : 1e-9;
    double batch = operation < SAMPLE_SECONDS ? SAMPLE_SECONDS / operation : 1;
    double samples = seconds / (batch * operation);
    if (samples > SAMPLES_MOST) {
        batch *= samples / SAMPLES_MOST;
        samples = SAMPLES_MOST;
    }
    if (samples < SAMPLES_LEAST)
        samples = SAMPLES_LEAST;
    return (sample_plan){.batch = (uint64_t)(batch + 0.5), .samples = (uint64_t)samples};
}

static int samples_compare(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static inline void samples_sort(double *samples, uint64_t count)
{
    qsort(samples, count, sizeof *samples, samples_compare);
}

/* The value that a fraction q of the sorted samples does not exceed. */
static inline double samples_quantile(const double *sorted, uint64_t count, double q)
{
    uint64_t i = (uint64_t)(q * (double)count);
    return sorted[i < count ? i : count - 1];
}

#endif
