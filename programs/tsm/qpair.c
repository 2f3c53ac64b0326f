/*
 * tsm_qpair: how fast are queue pairs in hardware? (TSM, section 5, figures 10 and 11)
 *
 * Nodes 0 and 1 exchange messages by size: to and fro for the latency, half a round trip, and from 0 to
 * 1 for the bandwidth. With --isolation node 0 tries what a connection must not do.
 */
#include <inttypes.h>
#include <pair.h>
#include <string.h>

#include "../program.h"
#include "node.h"

#define NAME "tsm_qpair"

static const char about[] =
    "Exchanges messages between nodes 0 and 1 by queue pairs in hardware: half a round trip by size, and\n"
    "the bandwidth of a stream.\n"
    "\n"
    "  rackmem sim exec thunder-cores -n 2 -- tsm_qpair.rv64 --sizes 64,16K --rounds 10\n";

enum { REGION_BYTES = 256 << 10, WARM_UP = 2, AHEAD = 8 };

static void fill(unsigned char *message, uint64_t bytes, uint64_t round)
{
    for (uint64_t at = 0; at < bytes; at++)
        message[at] = (unsigned char)(at * 7 + round);
}

static bool is_whole(const unsigned char *message, uint64_t bytes, uint64_t round)
{
    for (uint64_t at = 0; at < bytes; at++)
        if (message[at] != (unsigned char)(at * 7 + round))
            return false;
    return true;
}

/* Takes the completions of sends until fewer than `entries` are left. No buffer is posted. */
static bool drain(pair_connection *pair, uint64_t entries)
{
    while (pair->open[0] >= entries)
        if (pair_wait(pair).status != PAIR_DONE)
            return false;
    return true;
}

/* Waits for the completion of a message that has come; those of sends are taken meanwhile. There is
 * room for an answer then. */
static bool wait_received(pair_connection *pair, uint64_t bytes)
{
    pair_completion done;
    do
        done = pair_wait(pair);
    while (!done.is_receive && done.status == PAIR_DONE);
    return done.status == PAIR_DONE && done.bytes == bytes && drain(pair, pair->hardware.entries);
}

/* One end of messages to and fro. Half a round trip in ns; negative if a message was damaged. */
static double ping_pong(pair_connection *pair, unsigned char *out, unsigned char *in, uint64_t bytes,
                        uint64_t rounds)
{
    bool is_first = program_nid() == 0;
    uint64_t begin = 0;
    fill(out, bytes, 1);
    for (uint64_t round = 0; round < rounds + WARM_UP; round++) {
        if (round == WARM_UP)
            begin = node_ns();
        if (is_first && !pair_send(pair, out, bytes, round))
            return -1;
        if (!wait_received(pair, bytes) || (round == 0 && !is_whole(in, bytes, 1)))
            return -1;
        bool goes_on = round + 1 < rounds + WARM_UP;
        if ((goes_on && !pair_receive(pair, in, bytes, round)) ||
            (!is_first && !pair_send(pair, out, bytes, round)))
            return -1;
    }
    return (double)(node_ns() - begin) / 2 / (double)rounds;
}

/* A stream from node 0 to node 1. Time in ns until all sends have completed; 0 if one did not. */
static uint64_t stream(pair_connection *pair, unsigned char *out, unsigned char *in, uint64_t bytes,
                       uint64_t messages)
{
    bool is_first = program_nid() == 0;
    uint64_t entries = pair->hardware.entries, ahead = entries < AHEAD ? entries : AHEAD;
    if (!drain(pair, 1))
        return 0;
    uint64_t begin = node_ns(), posted = 0, done = 0;
    while (done < messages) {
        for (; posted < messages && posted < done + ahead; posted++)
            if (!(is_first ? pair_send(pair, out, bytes, posted) : pair_receive(pair, in, bytes, posted)))
                return 0;
        pair_completion completion = pair_wait(pair);
        if (completion.status != PAIR_DONE)
            return 0;
        done += completion.is_receive != is_first;
    }
    return node_ns() - begin;
}

/* What a connection must not do: a status each. */
static int isolation(pair_connection *pair, unsigned char *memory)
{
    static unsigned char other[64];
    pair_connection stranger;
    if (pair_open(&stranger, 1, 7, memory, REGION_BYTES) < 0)
        return program_failed(NAME, "cannot open another connection");
    const struct {
        pair_connection *by;
        const void *message;
        uint64_t bytes;
        pair_status expected;
    } tries[] = {
        {pair, other, sizeof other, PAIR_NO_ACCESS},
        {pair, memory + REGION_BYTES - 8, 64, PAIR_NO_ACCESS},
        {pair, memory, 0, PAIR_NO_ACCESS},
        {&stranger, memory, 64, PAIR_REFUSED},
        {pair, memory, 8192, PAIR_TOO_LONG},
        {pair, memory, 64, PAIR_DONE},
    };
    for (unsigned at = 0; at < sizeof tries / sizeof *tries; at++) {
        pair_send(tries[at].by, tries[at].message, tries[at].bytes, at);
        pair_completion done = pair_wait(tries[at].by);
        if (done.status != tries[at].expected || done.id != at || done.is_receive)
            return program_failed(NAME, "try %u: status %u, id %" PRIu64, at, (unsigned)done.status, done.id);
    }
    printf("PASS isolation\n");
    return program_flush(NAME);
}

/* The other end of it: two buffers, of which a message is too long for the first. */
static int be_tried(pair_connection *pair, unsigned char *in)
{
    pair_completion done[2];
    for (unsigned at = 0; at < 2; at++) {
        if (!pair_receive(pair, in, 4096, at))
            return program_failed(NAME, "cannot post a buffer");
        done[at] = pair_wait(pair);
    }
    bool is_right = done[0].status == PAIR_TOO_LONG && done[0].bytes == 8192 && done[1].status == PAIR_DONE &&
                    done[1].bytes == 64;
    return is_right ? PROGRAM_OK : program_failed(NAME, "the buffers' completions are wrong");
}

static int failed(void)
{
    return program_failed(NAME, "a message was damaged, or a descriptor refused");
}

int main(int argc, char **argv)
{
    option_sizes sizes = {.count = 1, .at = {64}};
    uint64_t rounds = 10, messages = 0;
    bool tries = false, json = false;
    const option options[] = {
        {"sizes", OPTION_SIZES, &sizes, "N,..", "bytes of messages (64)", 1, 128 << 10},
        {"rounds", OPTION_NUMBER, &rounds, "N", "of each size (10)", 1, UINT32_MAX},
        {"messages", OPTION_NUMBER, &messages, "N", "of a stream of each size (0: none)", 0, UINT32_MAX},
        {"isolation", OPTION_FLAG, &tries, NULL, "try what a connection must not do", 0, 0},
        {"json", OPTION_FLAG, &json, NULL, "one line of JSON", 0, 0},
        {0},
    };
    const command_line line = {NAME, "[options]", about, options, NULL};
    int status = options_parse(&line, argc, argv);
    if (status != OPTIONS_GO_ON)
        return status;
    uint32_t nid = (uint32_t)program_nid();
    if (nid > 1)
        return PROGRAM_OK;
    unsigned char *memory = node_own(NAME, REGION_BYTES);
    if (!memory)
        return PROGRAM_FAILED;
    unsigned char *in = memory + REGION_BYTES / 2;
    pair_connection pair;
    int64_t error = pair_open(&pair, 1 - nid, 0, memory, REGION_BYTES);
    if (error < 0)
        return program_failed(NAME, "cannot open a queue pair: %s",
                              error == -38 || error == -19 ? "the machine has none (use thunder-cores)"
                                                           : strerror((int)-error));
    if (tries)
        return nid == 0 ? isolation(&pair, memory) : be_tried(&pair, in);
    bool prints = nid == 0;
    if (prints && json)
        printf("{\"sizes\": [");
    for (unsigned at = 0; at < sizes.count; at++) {
        uint64_t bytes = sizes.at[at], ns = 0;
        if (!pair_receive(&pair, in, bytes, 0))
            return failed();
        double latency = ping_pong(&pair, memory, in, bytes, rounds);
        if (latency < 0)
            return failed();
        if (prints && json)
            printf("%s{\"bytes\": %" PRIu64 ", \"latency_ns\": %.1f", at > 0 ? ", " : "", bytes, latency);
        else if (prints)
            printf("%" PRIu64 " bytes: %.1f ns one way\n", bytes, latency);
        if (messages > 0) {
            ns = stream(&pair, memory, in, bytes, messages);
            if (ns == 0)
                return failed();
            double mb_per_s = (double)(bytes * messages) / (double)ns * 1e3;
            if (prints && json)
                printf(", \"mb_per_s\": %.2f", mb_per_s);
            else if (prints)
                printf("%" PRIu64 " bytes: %.1f MB/s\n", bytes, mb_per_s);
        }
        if (prints && json)
            printf("}");
    }
    if (prints && json)
        printf("]}\n");
    return program_flush(NAME);
}
