/*
 * tsm_transfer: how fast do loads, stores and the DMA engine move blocks between two nodes? (TSM §2.1.2,
 * Table 2)
 *
 * Node 0 moves data between its own memory and that which it borrows of node 1: loads and DMA from there,
 * stores to there. Each block is a call of its own that is timed, but for DMA, whose blocks are
 * descriptors of a ring that is kept full.
 */
#include <inttypes.h>
#include <string.h>

#include "../program.h"
#include "node.h"

#define NAME "tsm_transfer"

static const char about[] =
    "Moves blocks between the node's own memory and borrowed memory, and tells the bandwidth.\n"
    "\n"
    "  rackmem sim exec pcie-ntb -n 2 -- tsm_transfer.rv64 --mechanism dma --block-bytes 4K\n";

enum { AREA_BYTES = 4 << 20, WORDS = 8 };

typedef struct transfer {
    uint64_t *borrowed;
    uint64_t *own;
    uint64_t area_bytes;
    uint64_t block_bytes;
    uint64_t blocks;
    uint64_t slowest_ns; /* block, of loads and stores */
} transfer;

/* Loads a block: one load for each line, whose words come along, and the sum of them. */
static uint64_t load_block(const uint64_t *from, uint64_t bytes)
{
    uint64_t sum = 0;
    for (uint64_t line = 0; line < bytes / LINE_BYTES; line++) {
        const volatile uint64_t *words = from + line * WORDS;
        for (unsigned word = 0; word < WORDS; word++)
            sum += words[word];
    }
    return sum;
}

static void store_block(uint64_t *to, uint64_t bytes, uint64_t value)
{
    for (uint64_t line = 0; line < bytes / LINE_BYTES; line++) {
        volatile uint64_t *words = to + line * WORDS;
        for (unsigned word = 0; word < WORDS; word++)
            words[word] = value;
    }
}

/* The place of a block: the area over and over. */
static uint64_t place(const transfer *t, uint64_t block)
{
    return block * t->block_bytes % t->area_bytes / sizeof(uint64_t);
}

static uint64_t by_core(transfer *t, bool stores)
{
    uint64_t sum = 0, begin = node_ns();
    for (uint64_t block = 0; block < t->blocks; block++) {
        uint64_t *at = t->borrowed + place(t, block), before = node_ns();
        if (stores)
            store_block(at, t->block_bytes, block);
        else
            sum += load_block(at, t->block_bytes);
        uint64_t ns = node_ns() - before;
        if (ns > t->slowest_ns)
            t->slowest_ns = ns;
    }
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    uint64_t end = node_ns();
    t->own[0] = sum;
    return end - begin;
}

/* Keeps the ring full: half of it is posted while the other half is carried out. */
static int by_dma(transfer *t, uint64_t *ns)
{
    window_engine engine;
    int64_t error = window_open_engine(&engine);
    if (error < 0)
        return program_failed(NAME, "the DMA engine: %s", strerror((int)-error));
    uint64_t begin = node_ns(), posted = 0;
    for (uint64_t block = 0; block < t->blocks;) {
        uint64_t at = place(t, block), bytes = t->block_bytes;
        uint64_t some = engine.descriptors / 8;
        if (some > t->blocks - block)
            some = t->blocks - block;
        uint64_t left = t->area_bytes / t->block_bytes - block % (t->area_bytes / t->block_bytes);
        if (some > left)
            some = left;
        int64_t result = window_copy(t->own + at, t->borrowed + at, some * bytes, bytes);
        if (result >= 0) {
            posted = (uint64_t)result;
            block += some;
        } else if (result == -11) {
            uint64_t done = window_done(&engine);
            while (window_done(&engine) == done)
                ;
        } else {
            return program_failed(NAME, "a copy: %s", strerror((int)-result));
        }
    }
    while (window_done(&engine) < posted)
        ;
    *ns = node_ns() - begin;
    return PROGRAM_OK;
}

int main(int argc, char **argv)
{
    const char *mechanism = "load";
    uint64_t block_bytes = 4096, bytes = 1 << 20;
    bool json = false;
    const option options[] = {
        {"mechanism", OPTION_TEXT, &mechanism, "HOW", "load, store or dma (load)", 0, 0},
        {"block-bytes", OPTION_BYTES, &block_bytes, "N", "size of a block (4K)", LINE_BYTES, 1 << 20},
        {"bytes", OPTION_BYTES, &bytes, "N", "bytes in all (1M)", LINE_BYTES, UINT64_MAX},
        {"json", OPTION_FLAG, &json, NULL, "one line of JSON", 0, 0},
        {0},
    };
    const command_line line = {NAME, "[options]", about, options, NULL};
    int status = options_parse(&line, argc, argv);
    if (status != OPTIONS_GO_ON)
        return status;
    bool loads = strcmp(mechanism, "load") == 0, stores = strcmp(mechanism, "store") == 0;
    if (!loads && !stores && strcmp(mechanism, "dma") != 0)
        return options_usage(&line, "--mechanism is load, store or dma");
    if (block_bytes % LINE_BYTES != 0 || AREA_BYTES % block_bytes != 0)
        return options_usage(&line, "--block-bytes is a power of two from 64 to 1M");
    if (program_nid() != 0)
        return PROGRAM_OK;
    /* Loads shall not find in the cache what they have loaded before. */
    uint64_t area = loads && bytes > AREA_BYTES ? bytes : AREA_BYTES;
    transfer t = {.area_bytes = area, .block_bytes = block_bytes, .blocks = bytes / block_bytes};
    t.borrowed = node_borrow(NAME, t.area_bytes);
    t.own = node_own(NAME, AREA_BYTES);
    if (!t.borrowed || !t.own)
        return PROGRAM_FAILED;
    uint64_t ns = 0;
    if (loads || stores)
        ns = by_core(&t, stores);
    else if (by_dma(&t, &ns) != PROGRAM_OK)
        return PROGRAM_FAILED;
    double mb_per_s = (double)(t.blocks * block_bytes) / (double)ns * 1e3;
    if (json)
        printf("{\"mechanism\": \"%s\", \"block_bytes\": %" PRIu64 ", \"blocks\": %" PRIu64
               ", \"ns\": %" PRIu64 ", \"slowest_block_ns\": %" PRIu64 ", \"mb_per_s\": %.3f}\n",
               mechanism, block_bytes, t.blocks, ns, t.slowest_ns, mb_per_s);
    else
        printf("%s, blocks of %" PRIu64 " bytes: %.1f MB/s\n", mechanism, block_bytes, mb_per_s);
    return program_flush(NAME);
}
