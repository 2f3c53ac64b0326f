/* One-sided operations, messages and the barrier of an MPI library between two processes (Open MPI, MPICH).
 * One-sided: a window from MPI_Win_allocate (which lets the library use shared memory), locked for the whole run;
 * each operation is completed by MPI_Win_flush. */
#include "bench.h"
#include <mpi.h>
#include <string.h>

static int rank, peer;
static MPI_Win window;
static char *exposed; /* my part of the window */
static char *local;

static void flush_get(size_t size) {
    MPI_Get(local, (int)size, MPI_BYTE, peer, 0, (int)size, MPI_BYTE, window);
    MPI_Win_flush(peer, window);
}

static void one_sided(struct bench b) {
    FOR_EACH(size, LATENCY_SIZES) {
        row_us("get_latency", size, "rma", MEDIAN_NS(b.samples, ops_for(size), flush_get(size)));
    }
    uint64_t one = 1, old;
    double fetch_add = MEDIAN_NS(b.samples, ops_for(8), {
        MPI_Fetch_and_op(&one, &old, MPI_UINT64_T, peer, 0, MPI_SUM, window);
        MPI_Win_flush(peer, window);
    });
    row_us("fetch_add_latency", 8, "rma", fetch_add);

    FOR_EACH(size, RATE_SIZES) {
        double get = MEDIAN_NS(b.samples, 8, {
            for (int i = 0; i < WINDOW; i++)
                MPI_Get(local + 64 * i, (int)size, MPI_BYTE, peer, 64 * i, (int)size, MPI_BYTE, window);
            MPI_Win_flush(peer, window);
        });
        row_mops("op_rate", size, "get", get / WINDOW);
        double put = MEDIAN_NS(b.samples, 8, {
            for (int i = 0; i < WINDOW; i++)
                MPI_Put(local + 64 * i, (int)size, MPI_BYTE, peer, 64 * i, (int)size, MPI_BYTE, window);
            MPI_Win_flush(peer, window);
        });
        row_mops("op_rate", size, "put", put / WINDOW);
    }
    FOR_EACH(stride, BULK_STRIDES) {
        double bulk = MEDIAN_NS(b.samples, 1, {
            for (size_t i = 0; i < WINDOW; i++)
                MPI_Get(local + stride * i, 8 * KB, MPI_BYTE, peer, (MPI_Aint)(stride * i), 8 * KB, MPI_BYTE, window);
            MPI_Win_flush(peer, window);
        });
        row_gb_per_s(BULK_METRIC(stride), 8 * KB, "get", bulk / WINDOW);
    }
}

/* Each side waits for the value that the other one put into its window. A library without shared windows needs calls
 * to make progress, so the wait probes now and then. */
static double put_ping_pong(struct bench b) {
    volatile uint64_t *flag = (volatile uint64_t *)exposed;
    uint64_t turn = 0;
    return MEDIAN_NS(b.samples, ops_for(8), {
        turn++;
        for (int half = 0; half < 2; half++) {
            if (half == rank) {
                MPI_Put(&turn, 1, MPI_UINT64_T, peer, 0, 1, MPI_UINT64_T, window);
                MPI_Win_flush(peer, window);
            } else {
                for (unsigned spins = 1; *flag != turn; spins++) {
                    if (spins % 1024 == 0) {
                        int any;
                        MPI_Iprobe(peer, 0, MPI_COMM_WORLD, &any, MPI_STATUS_IGNORE);
                        MPI_Win_sync(window);
                    }
                }
            }
        }
    });
}

static void ping_pong(size_t size) {
    if (rank == 0) {
        MPI_Send(local, (int)size, MPI_BYTE, peer, 0, MPI_COMM_WORLD);
        MPI_Recv(local, (int)size, MPI_BYTE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    } else {
        MPI_Recv(local, (int)size, MPI_BYTE, peer, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
        MPI_Send(local, (int)size, MPI_BYTE, peer, 0, MPI_COMM_WORLD);
    }
}

static int stream_window(size_t size) { return size >= MB ? WINDOW / 4 : WINDOW; }

/* A window of sends from one buffer, received into one buffer and answered by one empty message, so that every byte
 * has arrived when the clock stops. */
static void stream(size_t size) {
    int window = stream_window(size);
    MPI_Request requests[WINDOW];
    MPI_Status statuses[WINDOW];
    for (int i = 0; i < window; i++) {
        if (rank == 0)
            MPI_Isend(local, (int)size, MPI_BYTE, peer, 0, MPI_COMM_WORLD, &requests[i]);
        else
            MPI_Irecv(local, (int)size, MPI_BYTE, peer, 0, MPI_COMM_WORLD, &requests[i]);
    }
    MPI_Waitall(window, requests, statuses);
    if (rank == 0)
        MPI_Recv(NULL, 0, MPI_BYTE, peer, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else
        MPI_Send(NULL, 0, MPI_BYTE, peer, 1, MPI_COMM_WORLD);
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    struct bench b = bench_args(argc, argv);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    peer = 1 - rank;
    pin(b.core[rank]);

    size_t bytes = MB;
    local = aligned_alloc(4 * KB, bytes);
    memset(local, 1, bytes);
    MPI_Win_allocate((MPI_Aint)MB, 1, MPI_INFO_NULL, MPI_COMM_WORLD, &exposed, &window);
    memset(exposed, 0, MB);
    MPI_Win_lock_all(MPI_MODE_NOCHECK, window);
    MPI_Barrier(MPI_COMM_WORLD);

    double half = put_ping_pong(b) / 2;
    if (rank == 0) row_us("put_half_rtt", 8, "rma", half);

    /* The passive side waits inside the library, where it makes progress if it has to. */
    if (rank == 0) one_sided(b);
    MPI_Barrier(MPI_COMM_WORLD);

    FOR_EACH(size, MESSAGE_SIZES) {
        double ns = MEDIAN_NS(b.samples, ops_for(size), ping_pong(size));
        if (rank == 0) row_us("message_half_rtt", size, "send", ns / 2);
    }
    FOR_EACH(size, STREAM_SIZES) {
        double ns = MEDIAN_NS(b.samples, size > 4 * KB ? 1 : 4, stream(size));
        if (rank == 0) row_gb_per_s("message_bandwidth", size, "send", ns / stream_window(size));
    }
    double barrier = MEDIAN_NS(b.samples, ops_for(8), MPI_Barrier(MPI_COMM_WORLD));
    if (rank == 0) row_us("barrier", 0, "barrier", barrier);

    MPI_Win_unlock_all(window);
    MPI_Win_free(&window);
    MPI_Finalize();
    return 0;
}
