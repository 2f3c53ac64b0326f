/* Results of PageRank for people, for scripts, and as a file of ranks. */
#ifndef PAGERANK_REPORT_H
#define PAGERANK_REPORT_H

#include "pagerank.h"

typedef enum pagerank_variant {
    VARIANT_SERIAL,
    VARIANT_SHM,
    VARIANT_BULK,
    VARIANT_FINE,
    VARIANT_COUNT
} pagerank_variant;

extern const char *const pagerank_variant_names[VARIANT_COUNT];

typedef struct pagerank_report {
    const char *input; /* what the graph is called */
    const pagerank_job *job;
    int nodes;
    bool ran[VARIANT_COUNT];
    pagerank_result results[VARIANT_COUNT];
} pagerank_report;

/* Largest relative difference of a variant's ranks from those of the first variant that ran. */
double pagerank_difference(const pagerank_report *report, pagerank_variant variant);

void pagerank_print_table(const pagerank_report *report);
void pagerank_print_json(const pagerank_report *report);

/* Writes "id rank" lines of the first variant that ran, with all digits. 0, or 1 after saying
 * what failed. */
int pagerank_write_ranks(const pagerank_report *report, const char *path);

#endif
