/* Waits in vain, in the way that WAIT says, for a controller that is a device and does nothing. */
#include <rackmem.h>

#include <stdlib.h>

enum { READ, SLOT, DRAIN, ARRIVALS, ARRIVAL_POSTS, MESSAGE, ANY_MESSAGE, CREDITS, PULL };
enum { ENTRIES = WAIT == SLOT ? 2 : MAX_WQ_SIZE, NODES = WAIT == ARRIVALS ? 2 : 3 };

struct rackmem_context {
    _Alignas(4096) unsigned char segment[1 << 20];
};

static rackmem_context context;

int rackmem_nid(const rackmem_context *ctx)
{
    return ctx == &context ? 0 : -1;
}

int rackmem_nodes(const rackmem_context *ctx)
{
    return ctx == &context ? NODES : -1;
}

void *rackmem_segment(const rackmem_context *ctx)
{
    return (void *)ctx->segment;
}

size_t rackmem_segment_bytes(const rackmem_context *ctx)
{
    return sizeof ctx->segment;
}

void *rackmem_alloc(rackmem_context *ctx, size_t size_bytes)
{
    return ctx ? calloc(1, size_bytes) : NULL;
}

int rackmem_sleep_until(rackmem_context *ctx, int (*ready)(void *arg), void *arg, int watch_nid,
                        int timeout_ms)
{
    return ctx && ready(arg) && watch_nid >= timeout_ms ? 0 : -1; /* this wait should poll */
}

int rackmem_explain(int error, const char *what)
{
    return what ? error : 0;
}

int rackmem_set_last_error(int error, const char *text)
{
    return text ? error : 0;
}

/* Completes what will be posted, once round the queue. */
static void complete(QP *qp)
{
    for (uint32_t slot = 0; slot < qp->size; slot++)
        qp->cq[slot] = 1u << 31 | slot;
}

static int wait_for_operations(QP *qp)
{
    static char buffer[64];
    if (WAIT == READ)
        return rmc_read(qp, 1, 0, buffer, sizeof buffer);
    for (int i = 0; WAIT != DRAIN || i < 5; i++)
        rmc_read_async(qp, rmc_wait_for_slot(qp, NULL), 1, 0, buffer, sizeof buffer);
    return rmc_drain_cq(qp, NULL);
}

static int wait_for_arrivals(QP *qp)
{
    static rackmem_barrier barrier;
    if (WAIT == ARRIVALS)
        complete(qp);
    return rackmem_barrier_open(&barrier, &context, qp, 0, NULL, 0) ||
           rackmem_barrier_wait(&barrier);
}

static int wait_for_messages(QP *qp)
{
    static rackmem_messaging messaging;
    static char data[1 << 16];
    int nid;
    complete(qp);
    if (rackmem_messaging_open(&messaging, &context, qp, 0) != 0)
        return 1;
    if (WAIT == MESSAGE)
        return rackmem_recv(&messaging, 1, data, sizeof data, NULL);
    if (WAIT == ANY_MESSAGE)
        return rackmem_recv_any(&messaging, &nid, data, sizeof data, NULL);
    if (WAIT == PULL)
        return rackmem_send(&messaging, 1, data, sizeof data);
    for (;;)
        if (rackmem_send(&messaging, 1, data, 8) != 0)
            return 1;
}

static void ignore(QP *qp)
{
    (void)qp;
}

int main(void)
{
    static const rackmem_engine device = {.wake = ignore};
    static const uint32_t never_asleep;
    static rackmem_wq_entry wq[ENTRIES];
    static rackmem_cq_entry cq[ENTRIES];
    static uint64_t operands[2 * ENTRIES];
    static QP qp = {.wq = wq,
                    .cq = cq,
                    .operands = operands,
                    .rmc_asleep = &never_asleep,
                    .engine = &device,
                    .size = ENTRIES,
                    .spin_limit = RACKMEM_SPIN_FOREVER};
    if (WAIT <= DRAIN)
        return wait_for_operations(&qp);
    return WAIT <= ARRIVAL_POSTS ? wait_for_arrivals(&qp) : wait_for_messages(&qp);
}
