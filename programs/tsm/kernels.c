/*
 * tsm_kernels: microbenchmarks on local or borrowed memory (TSM §2.1.2, Figures 5, 8 and 9), and kernels
 * with the access patterns of some applications.
 */
#include "kernels.h"

#include <inttypes.h>
#include <string.h>

#include "../program.h"
#include "node.h"

#define NAME "tsm_kernels"

static const char about[] =
    "Runs a kernel on the node's own memory, or on memory that it borrows:\n"
    "\n"
    "  b1     reads; half as large as the last-level cache, which has been filled before\n"
    "  b2     reads and writes, at random; half as large, likewise\n"
    "  b3     reads line after line; four times as large\n"
    "  b4     reads and writes, at random; eight times as large\n"
    "  chase  reads at random, each when the one before has come; eight times as large\n"
    "  gzip, gcc, mcf, gap   what those applications do with memory; four times as large\n"
    "\n"
    "  rackmem sim exec tsm-sim -n 2 -- tsm_kernels.rv64 --kernel b4 --remote --llc-bytes 2M\n";

enum { WORDS = 8 };

/* Line after line, each when the one before has come: it says where the next one is, as the lines of a
 * list do. */
static uint64_t read_in_order(const area *a, uint64_t accesses)
{
    uint64_t sum = 0, line = 0, mask = a->lines - 1;
    for (uint64_t i = 0; i < accesses; i++) {
        volatile const uint64_t *at = a->words + line * WORDS;
        line = (line + 1 + at[0]) & mask;
        sum += at[4];
    }
    return sum;
}

/* The next of a sequence of lines without an order; which, does not depend on what is read. */
#define NEXT_LINE(state, mask) (((state) = (state) * 6364136223846793005u + 1442695040888963407u) >> 33 & (mask))

/* Reads and writes by turns. */
static uint64_t read_and_write(const area *a, uint64_t accesses)
{
    uint64_t state = 1, sum = 0, mask = a->lines - 1;
    for (uint64_t i = 0; i < accesses; i += 2) {
        uint64_t from = NEXT_LINE(state, mask);
        sum += a->words[from * WORDS];
        uint64_t to = NEXT_LINE(state, mask);
        a->words[to * WORDS] = 0;
    }
    return sum;
}

static uint64_t chase(const area *a, uint64_t accesses)
{
    uint64_t state = 1, last = 0, mask = a->lines - 1;
    for (uint64_t i = 0; i < accesses; i++)
        last = a->words[(NEXT_LINE(state, mask) + last) * WORDS];
    return last;
}

/* Reads every line once. */
static uint64_t fill_cache(const area *a)
{
    uint64_t sum = 0;
    for (uint64_t line = 0; line < a->lines; line++)
        sum += a->words[line * WORDS];
    return sum;
}

typedef struct kernel {
    const char *name;
    kernel_run *run;
    uint64_t halves; /* of the last-level cache: its size */
    bool is_warm;
    uint64_t accesses; /* with --scale 1 */
} kernel;

static const kernel kernels[] = {
    {"b1", read_in_order, 1, true, 65536},
    {"b2", read_and_write, 1, true, 16384},
    {"b3", read_in_order, 8, false, 8192},
    {"b4", read_and_write, 16, false, 8192},
    {"chase", chase, 16, false, 2048},
    {"gzip", run_gzip, 8, false, 8192},
    {"gcc", run_gcc, 8, false, 8192},
    {"mcf", run_mcf, 8, false, 8192},
    {"gap", run_gap, 8, false, 8192},
};

static const kernel *find(const char *name)
{
    for (unsigned i = 0; i < sizeof kernels / sizeof *kernels; i++)
        if (strcmp(kernels[i].name, name) == 0)
            return &kernels[i];
    return NULL;
}

static int run(const kernel *k, uint64_t llc_bytes, bool remote, uint64_t accesses, bool json)
{
    uint64_t bytes = llc_bytes / 2 * k->halves;
    area a = {.lines = bytes / LINE_BYTES};
    a.words = remote ? node_borrow(NAME, bytes) : node_own(NAME, bytes);
    if (!a.words)
        return PROGRAM_FAILED;
    uint64_t sum = k->is_warm ? fill_cache(&a) : 0;
    uint64_t begin = node_ns();
    sum += k->run(&a, accesses);
    uint64_t ns = node_ns() - begin;
    if (json)
        printf("{\"kernel\": \"%s\", \"remote\": %s, \"bytes\": %" PRIu64 ", \"accesses\": %" PRIu64
               ", \"ns\": %" PRIu64 ", \"sum\": %" PRIu64 "}\n",
               k->name, remote ? "true" : "false", bytes, accesses, ns, sum);
    else
        printf("%s, %s memory: %.1f ns per access\n", k->name, remote ? "borrowed" : "local",
               (double)ns / (double)accesses);
    return program_flush(NAME);
}

int main(int argc, char **argv)
{
    const char *name = "b3";
    uint64_t llc_bytes = 2 << 20, scale = 1;
    bool remote = false, json = false;
    const option options[] = {
        {"kernel", OPTION_TEXT, &name, "NAME", "which (b3)", 0, 0},
        {"remote", OPTION_FLAG, &remote, NULL, "on borrowed memory", 0, 0},
        {"llc-bytes", OPTION_BYTES, &llc_bytes, "N", "last-level cache (2M)", 1 << 12, 1 << 30},
        {"scale", OPTION_NUMBER, &scale, "N", "how much is done (1)", 1, 1000},
        {"json", OPTION_FLAG, &json, NULL, "one line of JSON", 0, 0},
        {0},
    };
    const command_line line = {NAME, "[options]", about, options, NULL};
    int status = options_parse(&line, argc, argv);
    if (status != OPTIONS_GO_ON)
        return status;
    const kernel *k = find(name);
    if (!k)
        return options_usage(&line, "--kernel is b1, b2, b3, b4, chase, gzip, gcc, mcf or gap");
    if ((llc_bytes & (llc_bytes - 1)) != 0)
        return options_usage(&line, "--llc-bytes is a power of two");
    if (program_nid() != 0)
        return PROGRAM_OK;
    return run(k, llc_bytes, remote, k->accesses * scale, json);
}
