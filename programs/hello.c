/* Every node leaves a number for its neighbour to read:  rackmem run -n 4 -- :hello */
#include <inttypes.h>
#include <rackmem.h>
#include <stdio.h>

static int failed(const char *why)
{
    fprintf(stderr, "hello: %s\n", why);
    return 1;
}

int main(void)
{
    enum { BARRIER_OFFSET = 64, SEGMENT_BYTES = 1 << 20 };
    rackmem_context *ctx;
    rackmem_barrier all;
    QP *qp;
    if (rackmem_init(&ctx, SEGMENT_BYTES) != 0 || rackmem_qp_create(ctx, 64, &qp) != 0)
        return failed(rackmem_last_error());
    int error = rackmem_barrier_open(&all, ctx, qp, BARRIER_OFFSET, NULL, 0);

    uint64_t *mine = rackmem_segment(ctx), theirs = 0; /* offset 0 of this node's segment */
    int neighbour = (rackmem_nid(ctx) + 1) % rackmem_nodes(ctx);
    *mine = 100 + (uint64_t)rackmem_nid(ctx);
    if (error == 0)
        error = rackmem_barrier_wait(&all); /* all have written */
    if (error == 0)
        error = rmc_read(qp, neighbour, 0, &theirs, sizeof theirs);
    if (error == 0)
        error = rackmem_barrier_wait(&all); /* all have read */
    if (error != 0)
        return failed(rackmem_strerror(error));

    printf("node %d of %d: node %d has %" PRIu64 "\n", rackmem_nid(ctx), rackmem_nodes(ctx),
           neighbour, theirs);
    rackmem_close(ctx);
    return 0;
}
