/* Tests whose operations a model counts: as many calls as OPERATIONS, and what they take. */
#include <string.h>

#include "rack_test.h"

enum { OPERATIONS = 24 };

/* Node 0 sends to node 1, and waits until all is there. */
static void send_all(rack *r, size_t bytes)
{
    const unsigned char *source = r->segment + r->source_offset;
    for (int i = 0; r->nid == 0 && i < OPERATIONS; i++)
        CHECK(rackmem_send(&r->messaging, 1, source, bytes) == 0);
    for (int i = 0; r->nid == 1 && i < OPERATIONS; i++) {
        size_t got;
        CHECK(rackmem_recv(&r->messaging, 0, r->local, LONGEST, &got) == 0);
        CHECK(got == bytes);
    }
}

/* Messages of a line: soNUMA §5.3, push. */
void test_push(rack *r)
{
    send_all(r, 8);
}

/* Messages that the receiver reads from the sender's segment: soNUMA §5.3, pull. */
void test_pull(rack *r)
{
    send_all(r, LONGEST);
}

typedef struct finish {
    int first; /* the slot that completed first, or -1 */
    int completed;
} finish;

static void finished(int slot, void *arg)
{
    finish *f = arg;
    if (f->completed++ == 0)
        f->first = slot;
}

/* A read of a word is posted after one of many lines, and may complete before it: soNUMA §4.2. */
void test_overtaking(rack *r)
{
    int neighbour = (r->nid + 1) % r->nodes, overtook = 0;
    finish f;
    uint64_t word;
    for (int i = 0; i < OPERATIONS; i++) {
        f = (finish){.first = -1};
        r->qp->callback_arg = &f;
        int slow = rmc_wait_for_slot(r->qp, finished);
        rmc_read_async(r->qp, slow, neighbour, r->source_offset, r->local, LONGEST);
        int quick = rmc_wait_for_slot(r->qp, finished);
        rmc_read_async(r->qp, quick, neighbour, r->seed_offset, &word, sizeof word);
        CHECK(rmc_drain_cq(r->qp, finished) == 0);
        CHECK(f.completed == 2);
        overtook += f.first == quick;
    }
    r->unseen = overtook ? NULL : "completions came in the order of the requests";
}
