/*
 * Every function that joins, opens or creates something says what was wrong with the call, and says it
 * of that call: before each one, the text is another.
 */
#define _POSIX_C_SOURCE 200809L /* setenv */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rackmem.h"

static int failures;

static void forget(void)
{
    rackmem_set_last_error(-1, "of an earlier call");
}

static void is_told(const char *what, int error, int expected, const char *text)
{
    const char *told = rackmem_last_error();
    if (error == expected && strstr(told, text) && !strstr(told, "earlier call"))
        return;
    failures++;
    fprintf(stderr, "%s: %d instead of %d, \"%s\" without \"%s\"\n", what, error, expected, told, text);
}

#define TOLD(call, expected, text) (forget(), is_told(#call, (call), (expected), (text)))

static void join(void)
{
    rackmem_context *ctx = 0;
    rackmem_open_args args = {0};
    args.nid = -1;
    args.ctx_id = -1;
    TOLD(rackmem_init(0, 0), -EINVAL, "NULL");
    TOLD(rackmem_init_version(&ctx, 0, RACKMEM_VERSION + (1 << 8)), -ELIBBAD, "headers of rackmem");
    TOLD(rackmem_open_version(&ctx, &args, RACKMEM_VERSION + (1 << 16)), -ELIBBAD, "the library is");
    TOLD(rackmem_open(&ctx, 0), -EINVAL, "arguments are NULL");
    args.rack = "no-such-rack";
    TOLD(rackmem_open(&ctx, &args), -ENOENT, "no-such-rack");
    args.rack = "a;b";
    TOLD(rackmem_open(&ctx, &args), -EINVAL, "a;b");
    args.rack = 0;
    args.nid = 4000;
    TOLD(rackmem_open(&ctx, &args), -ENXIO, "4000");
    args.nid = -1;
    args.ctx_id = 999;
    TOLD(rackmem_open(&ctx, &args), -ENOENT, "999");
    args.ctx_id = -1;
    args.progress = 9;
    TOLD(rackmem_open(&ctx, &args), -EINVAL, "9 is no rackmem_progress");
    setenv("RACKMEM_NODE", "x", 1);
    TOLD(rackmem_init(&ctx, 0), -EINVAL, "RACKMEM_NODE");
    setenv("RACKMEM_NODE", "0", 1);
}

static int never(void *arg)
{
    (void)arg;
    return 0;
}

static void wait_for(rackmem_context *ctx, int nodes)
{
    TOLD(rackmem_sleep_until(ctx, never, 0, nodes, 0), -EHOSTDOWN, "node");
    TOLD(rackmem_sleep_until(ctx, never, 0, 65535, 0), -EHOSTDOWN, "node");
    TOLD(rackmem_sleep_until(ctx, never, 0, 65536, 0), -EHOSTDOWN, "node");
    TOLD(rackmem_sleep_until(ctx, never, 0, 0, 0), -ETIMEDOUT, "timed out");
    TOLD(rackmem_sleep_until(ctx, never, 0, -1, 0), -ETIMEDOUT, "timed out");
}

/* Sizes that are more than the address space in whole pages, first without small buffers, then with. */
static void allocate(rackmem_context *ctx)
{
    void *last = 0;
    for (int i = 0; i < 3; i++) {
        TOLD(rackmem_alloc(ctx, SIZE_MAX) ? 0 : -ENOMEM, -ENOMEM, "no memory for a buffer");
        TOLD(rackmem_alloc(ctx, SIZE_MAX - 4094) ? 0 : -ENOMEM, -ENOMEM, "no memory for a buffer");
        TOLD(rackmem_alloc(ctx, SIZE_MAX - 4095) ? 0 : -EINVAL, -EINVAL, "buffer");
        void *made = rackmem_alloc(ctx, 8);
        if (!made || made == last)
            failures++, fprintf(stderr, "allocated %p after %p\n", made, last);
        last = made;
    }
}

static void create(rackmem_context *ctx, int nodes)
{
    QP *qp = 0;
    rackmem_mapping mapping;
    TOLD(rackmem_qp_create(0, 4, &qp), -EINVAL, "context is NULL");
    TOLD(rackmem_qp_create(ctx, 3, &qp), -EINVAL, "3 entries");
    TOLD(rackmem_qp_create(ctx, 4, 0), -EINVAL, "queue pair");
    TOLD(rackmem_map(ctx, 0, 0), -EINVAL, "mapping");
    TOLD(rackmem_map(ctx, nodes, &mapping), -ENXIO, "node");
    TOLD(rackmem_wait_joined(ctx, nodes, 0), -ENXIO, "node");
    TOLD(rackmem_alloc(ctx, (size_t)1 << 60) ? 0 : -EINVAL, -EINVAL, "buffer");
    TOLD(rackmem_register(ctx, 0, 0), -EINVAL, "register");
    allocate(ctx);
}

static void open_barriers(rackmem_context *ctx, QP *qp, uint64_t end)
{
    rackmem_barrier b;
    rackmem_counter_barrier c;
    rackmem_messaging m;
    const uint16_t twice[] = {0, 0}, others[] = {1}, none[] = {4000};
    TOLD(rackmem_barrier_open(&b, ctx, qp, 8, 0, 0), -EINVAL, "barrier");
    TOLD(rackmem_barrier_open(&b, ctx, qp, end, 0, 0), -ERANGE, "barrier");
    TOLD(rackmem_barrier_open(&b, ctx, qp, 0, twice, 2), -EINVAL, "barrier");
    TOLD(rackmem_barrier_open(&b, ctx, qp, 0, others, 1), -EINVAL, "barrier");
    TOLD(rackmem_barrier_open(&b, ctx, qp, 0, none, 1), -EINVAL, "barrier");
    TOLD(rackmem_counter_barrier_open(&c, ctx, qp, 0, 0, 0), -EINVAL, "barrier");
    TOLD(rackmem_counter_barrier_open(&c, ctx, qp, end, 1, 0), -ERANGE, "barrier");
    TOLD(rackmem_messaging_open(&m, ctx, qp, 8), -EINVAL, "messaging");
    TOLD(rackmem_messaging_open(&m, ctx, qp, end), -ERANGE, "messaging");
}

static void open_shared(rackmem_context *ctx, QP *qp, uint64_t end)
{
    const rackmem_address home = rackmem_at(0, 0), nowhere = rackmem_at(4000, 0);
    rackmem_counter_config config = {1, 0, 0, 0, 0};
    rackmem_queue q;
    rackmem_mr_queue mr;
    rackmem_lock l;
    rackmem_copier c;
    uint64_t word;
    TOLD(rackmem_counter_open(ctx, 8, &config), -EINVAL, "counter");
    TOLD(rackmem_counter_open(ctx, end, &config), -ERANGE, "counter");
    TOLD(rackmem_flag_wait(ctx, qp, 4, -1, &word), -EINVAL, "flag");
    TOLD(rackmem_queue_open(&q, ctx, qp, home, 3, 1), -EINVAL, "queue");
    TOLD(rackmem_queue_open(&q, ctx, qp, rackmem_at(0, end), 4, 1), -ERANGE, "area");
    TOLD(rackmem_queue_open(&q, ctx, qp, nowhere, 4, 1), -ENXIO, "area");
    TOLD(rackmem_mr_queue_open(&mr, ctx, qp, home, 1, 1, 0), -EINVAL, "queue");
    TOLD(rackmem_mr_queue_open(&mr, ctx, qp, home, 4, 1, end), -ERANGE, "queue");
    TOLD(rackmem_mr_queue_open(&mr, ctx, qp, nowhere, 4, 1, 0), -ENXIO, "area");
    TOLD(rackmem_lock_open(&l, ctx, qp, home, 0, 0), -EINVAL, "lock");
    TOLD(rackmem_lock_open(&l, ctx, qp, home, 2, end), -ERANGE, "lock");
    TOLD(rackmem_lock_open(&l, ctx, qp, nowhere, 2, 0), -ENXIO, "area");
    if (rackmem_copier_open(&c, ctx, qp) == 0)
        TOLD(rackmem_copy(&c, home, nowhere, (uint64_t)1 << 50, rackmem_at(0, 8)), -EINVAL, "copy");
}

static void explain(void)
{
    const int errors[] = {EINVAL, ENOENT, ENXIO, EACCES, ERANGE, EFAULT, EHOSTDOWN, ETIMEDOUT, ENOSPC};
    for (size_t i = 0; i < sizeof errors / sizeof errors[0]; i++) {
        const char *text = rackmem_strerror(-errors[i]);
        if (strstr(text, "atomic") || strlen(text) < 5)
            failures++, fprintf(stderr, "%d: %s\n", errors[i], text);
    }
    if (strcmp(rackmem_strerror(-EINVAL), "invalid argument") != 0)
        failures++, fprintf(stderr, "EINVAL: %s\n", rackmem_strerror(-EINVAL));
    if (!strstr(rackmem_strerror(RACKMEM_OWNER_DIED), "the lock is held now"))
        failures++, fprintf(stderr, "EOWNERDEAD: %s\n", rackmem_strerror(RACKMEM_OWNER_DIED));
    forget();
    if (rackmem_explain(0, "x") != 0 || !strstr(rackmem_last_error(), "earlier call"))
        failures++, fprintf(stderr, "no error is no error\n");
}

int main(void)
{
    rackmem_context *ctx;
    QP *qp;
    join();
    if (rackmem_init(&ctx, 0) != 0 || rackmem_qp_create(ctx, 8, &qp) != 0) {
        fprintf(stderr, "%s\n", rackmem_last_error());
        return 1;
    }
    const uint64_t end = rackmem_segment_bytes(ctx);
    create(ctx, rackmem_nodes(ctx));
    wait_for(ctx, rackmem_nodes(ctx));
    open_barriers(ctx, qp, end);
    open_shared(ctx, qp, end);
    explain();
    rackmem_close(ctx);
    return failures != 0;
}
