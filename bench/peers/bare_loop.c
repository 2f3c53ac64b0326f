/* A bare daemon loop over plain shared memory: the floor for daemon progress.
 *
 * The client writes 16-byte work entries (two 8-byte stores) into a ring; the daemon, on its own core, polls the ring,
 * copies with memcpy and writes a completion. One queue pair, one operation (read), and nothing else: no check of any
 * field, no error, no permission, no packet, no second client. A remote memory controller that does all that on the same
 * two cores can at best come near. */
#include "bench.h"
#include <immintrin.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

enum { RING = 128, SPAN = MB }; /* RING > WINDOW, so a slot is free whenever the window has room */

/* Offsets instead of pointers: both processes have the arena, the soNUMA way. `control` is stored last, with release:
 * size (32 bits), local offset in lines (24), phase (8). The phase changes with every lap, so nothing is cleared. */
struct work {
    _Atomic uint64_t remote;
    _Atomic uint64_t control;
};

struct shared {
    _Alignas(4096) struct work wq[RING];
    _Alignas(4096) _Atomic uint32_t cq[RING]; /* phase of the lap in which the slot completed */
    _Alignas(4096) char segment[SPAN];
    _Alignas(4096) char local[SPAN];
};

static struct shared *shared;

static inline uint64_t phase_of(uint64_t index) { return (index / RING + 1) & 0xff; }

static void serve(void) {
    for (uint64_t index = 0;; index++) {
        struct work *w = &shared->wq[index % RING];
        uint64_t control, phase = phase_of(index);
        while (((control = atomic_load_explicit(&w->control, memory_order_acquire)) & 0xff) != phase) _mm_pause();
        size_t size = control >> 32;
        char *to = shared->local + (control >> 8 & 0xffffff) * 64;
        const char *from = shared->segment + atomic_load_explicit(&w->remote, memory_order_relaxed);
        if (size == 64) /* one line: the common case, inlined */
            memcpy(to, from, 64);
        else if (size == 8)
            memcpy(to, from, 8);
        else
            memcpy(to, from, size);
        atomic_store_explicit(&shared->cq[index % RING], (uint32_t)phase, memory_order_release);
    }
}

static uint64_t posted, completed;

static inline void post(size_t size, uint64_t remote, uint64_t local) {
    struct work *w = &shared->wq[posted % RING];
    atomic_store_explicit(&w->remote, remote, memory_order_relaxed);
    atomic_store_explicit(&w->control, (uint64_t)size << 32 | local / 64 << 8 | phase_of(posted), memory_order_release);
    posted++;
}

static inline void complete(void) {
    while (atomic_load_explicit(&shared->cq[completed % RING], memory_order_acquire) != phase_of(completed)) {}
    completed++;
}

/* Keep `WINDOW` operations in flight, on blocks `stride` apart; ns per operation. */
static double windowed(struct bench b, size_t size, size_t stride, long ops) {
    double ns = MEDIAN_NS(b.samples, ops, {
        if (posted - completed == WINDOW) complete();
        uint64_t at = posted % WINDOW * stride;
        post(size, at, at);
    });
    while (completed != posted) complete();
    return ns;
}

int main(int argc, char **argv) {
    struct bench b = bench_args(argc, argv);
    shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) {
        perror("mmap");
        return 1;
    }
    memset(shared, 0, sizeof *shared);
    pid_t daemon = fork();
    if (daemon < 0) {
        perror("fork");
        return 1;
    }
    if (daemon == 0) {
        pin(b.core[1]);
        serve();
    }
    pin(b.core[0]);
    FOR_EACH(size, LATENCY_SIZES) {
        double ns = MEDIAN_NS(b.samples, ops_for(size), { post(size, 0, 0); complete(); });
        row_us("get_latency", size, "sync", ns);
    }
    FOR_EACH(size, RATE_SIZES) row_mops("op_rate", size, "get", windowed(b, size, 64, 2000));
    FOR_EACH(stride, BULK_STRIDES)
        row_gb_per_s(BULK_METRIC(stride), 8 * KB, "get", windowed(b, 8 * KB, stride, 100));
    kill(daemon, SIGKILL);
    waitpid(daemon, NULL, 0);
    return 0;
}
