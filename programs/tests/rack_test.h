/* The common part of rack_test: the rack, and the tests of other files. */
#ifndef TESTS_RACK_TEST_H
#define TESTS_RACK_TEST_H

#include <rackmem.h>

#include "check.h"

enum {
    LONGEST = 20000,  /* of messages: longer than a stage */
    GUARD_BYTES = 64, /* around local buffers, not to be touched */
    ENTRIES = 16
};

/* The rack as a node sees it, and the layout of every segment. */
typedef struct rack {
    rackmem_context *ctx;
    QP *qp;
    rackmem_barrier barrier;
    rackmem_messaging messaging;
    int nid;
    int nodes;
    unsigned char *segment;
    unsigned char *local; /* a local buffer of LONGEST bytes, and guards */
    uint64_t messaging_offset;
    uint64_t words_offset;
    uint64_t seed_offset;
    uint64_t pages_offset;
    uint64_t source_offset; /* messages in the segment */
    uint64_t sync_offset;   /* areas of rack_sync.c */
    const char *unseen;     /* why what a test looks for did not come, where it need not */
} rack;

static inline void barrier(rack *r)
{
    CHECK(rackmem_barrier_wait(&r->barrier) == 0);
}

/* Of rack_sync.c: bytes of every segment, and its tests. */
uint64_t sync_bytes(int nodes);
void test_map(rack *r);
void test_counter(rack *r);
void test_counter_tree(rack *r);
void test_copy(rack *r);
void test_queue(rack *r);
void test_mr_queue(rack *r);
void test_lock(rack *r);
void test_counter_barrier(rack *r);
void test_sync_errors(rack *r);

/* Of rack_counts.c. */
void test_push(rack *r);
void test_pull(rack *r);
void test_overtaking(rack *r);

#endif
