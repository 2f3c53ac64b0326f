/* Each node takes the next number of a counter in node 0. Run: rackmem run -n 3 -- :hello */
#include <inttypes.h>
#include <rackmem.h>
#include <stdio.h>

int main(void)
{
    rackmem_context *ctx;
    rackmem_barrier all;
    uint64_t number;
    QP *qp;
    if (rackmem_init(&ctx, 1 << 20) != 0 || rackmem_qp_create(ctx, 64, &qp) != 0 ||
        rackmem_barrier_open(&all, ctx, qp, 64, NULL, 0) != 0)
        return fprintf(stderr, "hello: %s\n", rackmem_last_error()), 1;
    int error = rmc_fetch_and_add(qp, 0, 0, 1, &number); /* the 8 bytes at offset 0 of node 0 */
    if (error == 0)
        error = rackmem_barrier_wait(&all); /* node 0 keeps its memory until all have added */
    if (error != 0)
        return fprintf(stderr, "hello: %s\n", rackmem_strerror(error)), 1;
    printf("node %d of %d took number %" PRIu64 "\n", rackmem_nid(ctx), rackmem_nodes(ctx), number);
    rackmem_close(ctx);
    return 0;
}
