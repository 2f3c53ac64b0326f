/*
 * The region of interest, the part of a program that the model measures. `rackmem sim exec
 * --fast-forward region` executes the rest without timing.
 *
 * Begin and end are hint instructions, which processors ignore. Several threads or nodes may each
 * mark a region: it begins with the first of them and ends with the last.
 */
#ifndef RACKMEM_REGION_H
#define RACKMEM_REGION_H

/* The region begins. */
static inline void rackmem_region_begin(void)
{
#ifdef __riscv
    __asm__ volatile("slti x0, x0, 1" ::: "memory");
#endif
}

/* It ends. */
static inline void rackmem_region_end(void)
{
#ifdef __riscv
    __asm__ volatile("slti x0, x0, 2" ::: "memory");
#endif
}

#endif
