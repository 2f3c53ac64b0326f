/*
 * The region of interest: what a model measures of a program. `rackmem sim exec --fast-forward region` executes what
 * is before and after it without timing.
 *
 * A hint instruction marks begin and end, one that processors ignore. Several threads or nodes may each mark a region:
 * it begins with the first of them and ends with the last.
 */
#ifndef RACKMEM_REGION_H
#define RACKMEM_REGION_H

/* The region begins. */
static inline void rackmem_region_begin(void) {
#ifdef __riscv
    __asm__ volatile("slti x0, x0, 1" ::: "memory");
#endif
}

/* It ends. */
static inline void rackmem_region_end(void) {
#ifdef __riscv
    __asm__ volatile("slti x0, x0, 2" ::: "memory");
#endif
}

#endif
