/* What `deoi_cache load` has counted, and how it is shown. */
#ifndef DEOI_CACHE_REPORT_H
#define DEOI_CACHE_REPORT_H

#include "cache.h"

typedef struct cache_interval {
    uint64_t gets, hits, ns;
    uint64_t evicted; /* since the server began, at its end */
} cache_interval;

typedef struct cache_report {
    uint64_t first_items; /* that filled the initial region */
    uint64_t evicted;     /* before the first interval */
    uint64_t hit_ns;      /* sum over GETs that hit */
    cache_interval intervals[CACHE_MOST_INTERVALS];
} cache_report;

/* Returns an exit status. */
int cache_print(const cache_settings *set, const cache_report *r);

#endif
