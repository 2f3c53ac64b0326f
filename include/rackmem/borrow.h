/*
 * Memory of other nodes, used by load and store (TSM §2.2, DEOI §III).
 *
 * Borrowed memory may be larger than the memory of the program's host: a part is local, the rest is
 * at the lenders, and pages come and go as they are touched. Pointers to it are pointers like
 * others, and system calls take them. A lost lender takes its pages with it: an access to one gets
 * SIGBUS. An access to memory of a lender that cannot be reached waits. With two copies one lender
 * may be lost.
 *
 * These functions are in the librackmem that `make install` installs, and `rackmem cc --host`
 * links. Needs Linux 6.8 and the right to use userfaultfd(2); rackmem_last_error() says what is
 * missing.
 *
 * A child of fork() must not touch the memory, and madvise(), mprotect(), mremap() and munmap()
 * must not be called on it: after MADV_DONTNEED a page that is away comes back as it was, and
 * rackmem_borrow_discard() is there instead. Programs that are run by `rackmem borrow` may do all
 * of that with their own memory.
 */
#ifndef RACKMEM_BORROW_H
#define RACKMEM_BORROW_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The thread that answers a fault. */
enum rackmem_borrow_delivery {
    RACKMEM_BORROW_THREAD = 0, /* a thread: nothing to know */
    RACKMEM_BORROW_INLINE = 1, /* the faulting thread, on SIGBUS: faster, but system calls on memory
                                  that is away fail with EFAULT */
    RACKMEM_BORROW_FASTEST = 2 /* whichever is faster here */
};

/* Options of rackmem_borrow; zero means the default of each member. */
typedef struct rackmem_borrow_options {
    const char *rack;        /* name of the rack; default $RACKMEM_RACK, else "default" */
    size_t cache_bytes;      /* local memory; default a quarter of the size */
    unsigned copies;         /* lenders that have each page; default 1 */
    int prefetch_pages;      /* pages fetched ahead at most; -1: none; default 32 */
    int delivery;            /* enum rackmem_borrow_delivery */
    unsigned patience_seconds; /* how long an access waits for a lender that cannot be reached;
                                  default 120 */
} rackmem_borrow_options;

/* Counters since rackmem_borrow, in pages of 4 KiB, and the places of pages now. */
typedef struct rackmem_borrow_statistics {
    uint64_t faults;         /* faults that were answered */
    uint64_t first_touches;  /* pages touched for the first time, for which no lender is asked */
    uint64_t fetched;        /* read from the lender because of a fault */
    uint64_t prefetched;     /* read from the lender ahead of need */
    uint64_t prefetch_hits;  /* of these, seen to be used; one of each batch is watched */
    uint64_t rescued;        /* needed again on their way out */
    uint64_t evicted;        /* left local memory */
    uint64_t written;        /* written to the lender */
    uint64_t clean;          /* left without being written: the lender had them */
    uint64_t zero;           /* left without being written: zero */
    uint64_t full_waits;     /* faults that waited as local memory was full */
    uint64_t overdrawn;      /* pages beyond the limit, as nothing could leave */
    uint64_t lost;           /* gone with a lender */
    uint64_t resident_pages; /* local now */
    uint64_t slots_in_use;   /* at the lender now */
    uint64_t page_in_p50_ns; /* from a fault to the delivery of its page by the lender: median, */
    uint64_t page_in_p99_ns; /* and what 99 of 100 did not exceed */
} rackmem_borrow_statistics;

/*
 * Borrows `size` zeroed bytes and stores their address. `options` may be NULL.
 *
 * -EINVAL an option, -ENOMEM too little memory is lent, -EPERM userfaultfd is not permitted;
 * rackmem_last_error() says more.
 */
int rackmem_borrow(size_t size, const rackmem_borrow_options *options, void **address);

/* Returns memory of rackmem_borrow; its contents are discarded. A NULL is ignored. */
int rackmem_borrow_return(void *address);

/* Stores the counters of the memory at `address`. */
int rackmem_borrow_read_statistics(void *address, rackmem_borrow_statistics *statistics);

/* Evicts all pages to the lenders, so that the memory occupies nothing here. */
int rackmem_borrow_evict(void *address);

/*
 * Makes `size` bytes at `address` zero, as madvise(MADV_DONTNEED) does with other memory: their
 * pages occupy nothing from now on, neither here nor at the lender. Both are multiples of 4096, and
 * the last page of borrowed memory is a whole one. Other threads may use the pages meanwhile: until
 * the function returns, each byte that they read is the old one or 0. Waits for pages that are on
 * their way. Not for handlers of signals.
 *
 * -EINVAL these are not whole pages of memory that one call of rackmem_borrow gave;
 * rackmem_last_error() says which part of that is wrong, and nothing was discarded.
 */
int rackmem_borrow_discard(void *address, size_t size);

#ifdef __cplusplus
}
#endif
#endif
