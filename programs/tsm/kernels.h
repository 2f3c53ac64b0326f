/* Kernels on local or borrowed memory: access patterns, each a loop over zeroed lines. */
#ifndef TSM_KERNELS_H
#define TSM_KERNELS_H

#include <stdint.h>

typedef struct area {
    volatile uint64_t *words;
    uint64_t lines;
} area;

/* Makes so many accesses; what it has read, so that it is read. */
typedef uint64_t kernel_run(const area *a, uint64_t accesses);

/* Like those applications of SPEC CPU2000, as far as memory is concerned. */
kernel_run run_gzip, run_gcc, run_mcf, run_gap;

#endif
