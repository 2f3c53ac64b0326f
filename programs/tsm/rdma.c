/*
 * tsm_rdma: how fast does the RDMA channel copy blocks between borrowed memory and the node's own? (TSM,
 * section 4.2)
 *
 * Node 0 copies blocks to memory of node 1 and back, one after the other, and checks their bytes. With
 * --exchange both nodes look at what was copied, with --overwrite caches have what is copied to, and with --errors
 * node 0 tries what a copy must not do.
 */
#define _DEFAULT_SOURCE
#include <inttypes.h>
#include <string.h>
#include <sys/mman.h>

#include "../program.h"
#include "node.h"

#define NAME "tsm_rdma"

static const char about[] =
    "Copies blocks between the node's own memory and borrowed memory by the RDMA channel: time of a block\n"
    "and bandwidth, in and out.\n"
    "\n"
    "  rackmem sim exec thunder-cores -n 2 -- tsm_rdma.rv64 --block-bytes 4K,64K --blocks 10\n";

enum { AREA_BYTES = 2 << 20, PAGE_BYTES = 4096, EXCHANGED = 2 * PAGE_BYTES };

/* Values of the first word of what is lent: node 1 has written, node 0 has copied to it, and node 1 has looked. */
enum { WRITTEN = 1, COPIED = 2, SEEN = 3 };

static uint64_t pattern(uint64_t at, uint64_t round)
{
    return (at + 1) * 0x9e3779b97f4a7c15u ^ round * 0xbf58476d1ce4e5b9u;
}

static void fill(volatile uint64_t *words, uint64_t bytes, uint64_t round)
{
    for (uint64_t at = 0; at < bytes / sizeof *words; at++)
        words[at] = pattern(at, round);
}

static bool is_filled(const volatile uint64_t *words, uint64_t bytes, uint64_t round)
{
    for (uint64_t at = 0; at < bytes / sizeof *words; at++)
        if (words[at] != pattern(at, round))
            return false;
    return true;
}

/* Times of copies, in ns. */
typedef struct times {
    uint64_t out;
    uint64_t in;
} times;

/* Copies so many bytes and adds the time. False, and an error on stderr. */
static bool copy(void *to, const void *from, uint64_t bytes, uint64_t *ns)
{
    uint64_t before = node_ns();
    int64_t error = window_rdma(to, from, bytes);
    *ns += node_ns() - before;
    if (error == 0)
        return true;
    bool is_missing = error == -38 || error == -19;
    program_failed(NAME, "a copy: %s",
                   is_missing ? "the machine has no such channel (use thunder-cores)" : strerror((int)-error));
    return false;
}

/* Copies blocks to borrowed memory and back to another place, and checks them there. */
static bool copy_blocks(uint64_t *borrowed, uint64_t *own, uint64_t bytes, uint64_t blocks, times *times)
{
    uint64_t words = bytes / sizeof *own, all = AREA_BYTES / sizeof *own;
    for (uint64_t block = 0; block < blocks; block++) {
        uint64_t at = block % (all / words) * words, *out = own + at, *in = own + all + at;
        fill(out, bytes, block);
        if (!copy(borrowed + at, out, bytes, &times->out) || !copy(in, borrowed + at, bytes, &times->in))
            return false;
        if (!is_filled(in, bytes, block)) {
            program_failed(NAME, "block %" PRIu64 " was damaged", block);
            return false;
        }
    }
    return true;
}

/* Copies to as many bytes as the last-level cache holds, which has all of them modified and gives them back while the
 * copy's own lines take their places; with each of both at several places among the sets of the cache. */
static bool overwrite(uint64_t *borrowed, uint64_t *own, uint64_t llc_bytes)
{
    enum { STEP = 1024, STEPS = 16 };
    uint64_t words = llc_bytes / sizeof *own, *other = own + words;
    for (uint64_t step = 0; step < STEPS; step++) {
        uint64_t *target = borrowed + step * STEP / sizeof *borrowed;
        fill(own, llc_bytes, 2 * step);
        fill(other, 2 * llc_bytes, 0);
        fill(target, llc_bytes, 2 * step + 1);
        if (window_rdma(target, own, llc_bytes) < 0 || !is_filled(other, 2 * llc_bytes, 0) ||
            !is_filled(target, llc_bytes, 2 * step))
            return false;
    }
    return true;
}

/* Node 0 of --exchange: caches of both nodes have old contents of what is copied. */
static int exchange(uint64_t *borrowed, uint64_t *own)
{
    uint64_t *flag = borrowed, *data = borrowed + PAGE_BYTES / sizeof *borrowed;
    for (own[0] = 0; own[0] != WRITTEN;)
        if (window_rdma(own, flag, LINE_BYTES) < 0)
            return program_failed(NAME, "cannot copy the flag");
    if (window_rdma(own, data, EXCHANGED) < 0 || !is_filled(own, EXCHANGED, 1))
        return program_failed(NAME, "what node 1 has stored did not come");
    fill(data, EXCHANGED, 2);
    if (window_rdma(own, data, EXCHANGED) < 0 || !is_filled(own, EXCHANGED, 2))
        return program_failed(NAME, "what this node has stored there did not come");
    fill(own, EXCHANGED, 3);
    if (window_rdma(data, own, EXCHANGED) < 0 || !is_filled(data, EXCHANGED, 3))
        return program_failed(NAME, "this node does not see what it has copied");
    own[0] = COPIED;
    if (window_rdma(flag, own, LINE_BYTES) < 0)
        return program_failed(NAME, "cannot copy the flag");
    while (own[0] != SEEN)
        if (window_rdma(own, flag, LINE_BYTES) < 0)
            return program_failed(NAME, "cannot copy the flag");
    printf("PASS exchange\n");
    return program_flush(NAME);
}

/* Node 1 of it. */
static int be_copied(void)
{
    volatile uint64_t *lent = node_lent(NAME, EXCHANGED + PAGE_BYTES);
    if (!lent)
        return PROGRAM_FAILED;
    volatile uint64_t *data = lent + PAGE_BYTES / sizeof *lent;
    fill(data, EXCHANGED, 1);
    __atomic_store_n(&lent[0], WRITTEN, __ATOMIC_RELEASE);
    while (__atomic_load_n(&lent[0], __ATOMIC_ACQUIRE) != COPIED)
        ;
    if (!is_filled(data, EXCHANGED, 3))
        return program_failed(NAME, "node 0 has copied something else");
    __atomic_store_n(&lent[0], SEEN, __ATOMIC_RELEASE);
    return PROGRAM_OK;
}

/* Copies that are refused, with their errors. */
static int errors(uint64_t *borrowed, uint64_t *own, uint64_t lent_bytes)
{
    enum { NO_ACCESS = -14, INVALID = -22 };
    char *there = (char *)borrowed, *here = (char *)own;
    char *constant = mmap(NULL, PAGE_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *missing = mmap(NULL, PAGE_BYTES, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(missing, PAGE_BYTES);
    const struct {
        void *to;
        void *from;
        uint64_t bytes;
        int64_t expected;
    } tries[] = {
        {here, there, 0, INVALID},
        {here, there, 100, INVALID},
        {here + 8, there, 64, INVALID},
        {here, there + 8, 64, INVALID},
        {here, here + PAGE_BYTES, 64, INVALID},
        {there, there + PAGE_BYTES, 64, INVALID},
        {here, there + lent_bytes - 64, 128, NO_ACCESS},
        {here, there, UINT64_MAX - 63, NO_ACCESS},
        {missing, there, 64, NO_ACCESS},
        {there, missing, 64, NO_ACCESS},
        {constant, there, 64, NO_ACCESS},
        {there, constant, 64, 0},
        {here, there + lent_bytes - 64, 64, 0},
    };
    for (unsigned at = 0; at < sizeof tries / sizeof *tries; at++) {
        int64_t found = window_rdma(tries[at].to, tries[at].from, tries[at].bytes);
        if (found != tries[at].expected)
            return program_failed(NAME, "try %u: %" PRId64, at, found);
    }
    printf("PASS errors\n");
    return program_flush(NAME);
}

static void report(bool json, bool is_first, uint64_t bytes, uint64_t blocks, const times *times)
{
    double out = (double)times->out / (double)blocks, in = (double)times->in / (double)blocks;
    double to_mb_per_s = 1e3 * (double)bytes;
    if (json)
        printf("%s{\"bytes\": %" PRIu64 ", \"in_ns\": %.1f, \"in_mb_per_s\": %.2f, \"out_ns\": %.1f"
               ", \"out_mb_per_s\": %.2f}",
               is_first ? "" : ", ", bytes, in, to_mb_per_s / in, out, to_mb_per_s / out);
    else
        printf("%" PRIu64 " bytes: in %.1f ns, %.1f MB/s; out %.1f ns, %.1f MB/s\n", bytes, in, to_mb_per_s / in,
               out, to_mb_per_s / out);
}

int main(int argc, char **argv)
{
    option_sizes sizes = {.count = 1, .at = {PAGE_BYTES}};
    uint64_t blocks = 10;
    uint64_t llc_bytes = 0;
    bool exchanges = false, tries = false, json = false;
    const option options[] = {
        {"block-bytes", OPTION_SIZES, &sizes, "N,..", "sizes of blocks (4K)", LINE_BYTES, AREA_BYTES},
        {"blocks", OPTION_NUMBER, &blocks, "N", "of each size (10)", 1, UINT32_MAX},
        {"exchange", OPTION_FLAG, &exchanges, NULL, "check what both nodes see", 0, 0},
        {"overwrite", OPTION_BYTES, &llc_bytes, "N", "check copies over what a cache of N bytes has modified", 4096,
         AREA_BYTES / 2},
        {"errors", OPTION_FLAG, &tries, NULL, "try what a copy must not do", 0, 0},
        {"json", OPTION_FLAG, &json, NULL, "one line of JSON", 0, 0},
        {0},
    };
    const command_line line = {NAME, "[options]", about, options, NULL};
    int status = options_parse(&line, argc, argv);
    if (status != OPTIONS_GO_ON)
        return status;
    for (unsigned at = 0; at < sizes.count; at++)
        if (sizes.at[at] % LINE_BYTES != 0)
            return options_usage(&line, "--block-bytes are multiples of 64");
    if (program_nid() != 0)
        return exchanges && program_nid() == 1 ? be_copied() : PROGRAM_OK;
    window_memory memory = {0};
    uint64_t *borrowed = node_borrow(NAME, AREA_BYTES), *own = node_own(NAME, 2 * AREA_BYTES);
    if (!borrowed || !own || window_borrow(&memory) < 0)
        return PROGRAM_FAILED;
    if (exchanges)
        return exchange(borrowed, own);
    if (llc_bytes > 0 && !overwrite(borrowed, own, llc_bytes))
        return program_failed(NAME, "a copy was lost to what the caches had before");
    if (llc_bytes > 0)
        return printf("PASS overwrite\n"), program_flush(NAME);
    if (tries)
        return errors(borrowed, own, memory.bytes);
    if (json)
        printf("{\"sizes\": [");
    for (unsigned at = 0; at < sizes.count; at++) {
        uint64_t bytes = sizes.at[at];
        times times = {0, 0};
        if (!copy_blocks(borrowed, own, bytes, blocks, &times))
            return PROGRAM_FAILED;
        report(json, at == 0, bytes, blocks, &times);
    }
    if (json)
        printf("]}\n");
    return program_flush(NAME);
}
