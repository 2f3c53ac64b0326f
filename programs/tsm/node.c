#define _DEFAULT_SOURCE
#include "node.h"

#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#include "../program.h"

static void *memory_of(const char *program, const char *what, int64_t error, const window_memory *memory,
                       uint64_t bytes)
{
    if (error < 0) {
        program_failed(program, "cannot map %s memory: %s", what,
                       error == -38 ? "the machine has none (use tsm-sim, pcie-ntb or deoi-cores)"
                                    : strerror((int)-error));
        return NULL;
    }
    if (memory->bytes < bytes) {
        program_failed(program,
                       "%" PRIu64 " bytes are needed, and %" PRIu64
                       " %s; give the machine more: window.lent_bytes",
                       bytes, memory->bytes, what);
        return NULL;
    }
    return (void *)(uintptr_t)memory->address;
}

void *node_borrow(const char *program, uint64_t bytes)
{
    window_memory memory = {0};
    int64_t error = window_borrow(&memory);
    return memory_of(program, "borrowed", error, &memory, bytes);
}

void *node_lent(const char *program, uint64_t bytes)
{
    window_memory memory = {0};
    int64_t error = window_lent(&memory);
    return memory_of(program, "lent", error, &memory, bytes);
}

void *node_own(const char *program, uint64_t bytes)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory != MAP_FAILED)
        return memory;
    program_failed(program, "no memory for %" PRIu64 " bytes", bytes);
    return NULL;
}

uint64_t node_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}
