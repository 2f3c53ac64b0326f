/*
 * deoi_nic: how fast is the network interface card of another node? (DEOI, HPCC 2016, section IV-B)
 *
 * Node 0 drives the card of node 1: frames to and fro as NetPIPE has them, and streams out and in. The
 * other end of the wire answers as card.h says.
 */
#include <card.h>
#include <inttypes.h>
#include <string.h>

#include "../program.h"
#include "../tsm/node.h"

#define NAME "deoi_nic"

static const char about[] =
    "Drives the network interface card of the next node: half a round trip of a frame, by size, and\n"
    "the bandwidth of streams. Frames are IP packets with their headers.\n"
    "\n"
    "  rackmem sim exec deoi-cores -n 2 -- deoi_nic.rv64 --sizes 64,1024 --rounds 20\n";

enum { ENTRIES = 64, WARM_UP = 2 };

/* Fills a frame of so many bytes, to be answered with so many copies. */
static void fill(unsigned char *frame, uint32_t bytes, uint32_t copies, uint32_t round)
{
    memcpy(frame, &copies, sizeof copies);
    for (uint32_t at = sizeof copies; at < bytes; at++)
        frame[at] = (unsigned char)(at * 7 + round);
}

/* Whether a frame has come back as it was. */
static bool is_whole(const unsigned char *frame, uint32_t bytes, uint32_t round)
{
    for (uint32_t at = sizeof(uint32_t); at < bytes; at++)
        if (frame[at] != (unsigned char)(at * 7 + round))
            return false;
    return true;
}

/* How a measurement ended. */
typedef enum outcome {
    WHOLE,
    DAMAGED, /* a frame did not come back as it was */
    TIMEOUT, /* no interrupt */
    TOO_LONG /* the card does not send such a frame */
} outcome;

/* Takes half a round trip in ns. */
static outcome ping_pong(card_driver *card, uint32_t bytes, uint64_t rounds, double *ns)
{
    uint64_t begin = 0;
    for (uint64_t round = 0; round < rounds + WARM_UP; round++) {
        if (round == WARM_UP)
            begin = node_ns();
        unsigned char *frame = card_begin(card);
        if (!frame)
            return TIMEOUT;
        if (round < WARM_UP)
            fill(frame, bytes, 1, (uint32_t)round);
        else
            *(volatile uint32_t *)(void *)frame = 1;
        if (card_post(card, bytes) < 0)
            return TOO_LONG;
        card_send(card);
        do {
            if (!card_wait(card, CARD_RECEIVED))
                return TIMEOUT;
        } while (card_received(card) == 0);
        uint32_t found = 0;
        const unsigned char *answer = card_take(card, &found);
        if (found != bytes || (round < WARM_UP && !is_whole(answer, bytes, (uint32_t)round)))
            return DAMAGED;
        card_give(card);
    }
    *ns = (double)(node_ns() - begin) / 2 / (double)rounds;
    return WHOLE;
}

/* Sends so many frames that nobody answers. */
static outcome stream_out(card_driver *card, uint32_t bytes, uint64_t frames, uint64_t *ns)
{
    uint64_t begin = node_ns();
    for (uint64_t number = 0; number < frames; number++) {
        unsigned char *frame = card_begin(card);
        if (!frame)
            return TIMEOUT;
        *(volatile uint32_t *)(void *)frame = 0;
        if (card_post(card, bytes) < 0)
            return TOO_LONG;
        card_send(card);
    }
    while (card_unsent(card) > 0)
        if (!card_wait(card, CARD_SENT))
            return TIMEOUT;
    *ns = node_ns() - begin;
    return WHOLE;
}

/* Has the other end send so many frames. Time in ns until the last one is here. */
static outcome stream_in(card_driver *card, uint32_t bytes, uint64_t frames, uint64_t *ns)
{
    unsigned char *request = card_begin(card);
    if (!request)
        return TIMEOUT;
    fill(request, bytes, (uint32_t)frames, 0);
    uint64_t begin = node_ns();
    if (card_post(card, bytes) < 0)
        return TOO_LONG;
    card_send(card);
    for (uint64_t have = 0; have < frames;) {
        if (!card_wait(card, CARD_RECEIVED))
            return TIMEOUT;
        uint32_t some = card_received(card);
        for (uint32_t number = 0; number < some; number++) {
            uint32_t found = 0;
            const unsigned char *frame = card_take(card, &found);
            if (found != bytes || (have + number == 0 && !is_whole(frame, bytes, 0)))
                return DAMAGED;
        }
        card_give(card);
        have += some;
    }
    *ns = node_ns() - begin;
    return WHOLE;
}

static int failed(const card_driver *card, outcome how)
{
    if (how == TOO_LONG)
        return program_failed(NAME, "the card sends no frames longer than %u bytes (nic.mtu)", (unsigned)card->mtu);
    return program_failed(NAME, how == TIMEOUT ? "no interrupt of the card for 1 s" : "a frame came back damaged");
}

static double mbps(uint32_t bytes, uint64_t frames, uint64_t ns)
{
    return (double)bytes * 8e3 * (double)frames / (double)ns;
}

int main(int argc, char **argv)
{
    option_sizes sizes = {.count = 1, .at = {64}};
    uint64_t rounds = 10, frames = 0, bytes = 1500;
    bool json = false;
    const option options[] = {
        {"sizes", OPTION_SIZES, &sizes, "N,..", "bytes of frames to and fro (64)", 4, 1500},
        {"rounds", OPTION_NUMBER, &rounds, "N", "of each size (10)", 1, UINT32_MAX},
        {"frames", OPTION_NUMBER, &frames, "N", "of a stream out and one in (0: none)", 0, UINT32_MAX},
        {"frame-bytes", OPTION_BYTES, &bytes, "N", "bytes of frames of streams (1500)", 4, 1500},
        {"json", OPTION_FLAG, &json, NULL, "one line of JSON", 0, 0},
        {0},
    };
    const command_line line = {NAME, "[options]", about, options, NULL};
    int status = options_parse(&line, argc, argv);
    if (status != OPTIONS_GO_ON)
        return status;
    if (program_nid() != 0)
        return PROGRAM_OK;
    card_driver card;
    int64_t error = card_open(&card, ENTRIES);
    if (error < 0)
        return program_failed(NAME, "cannot borrow a card: %s",
                              error == -38 || error == -19 ? "the machine has none (use deoi-cores)"
                                                           : strerror((int)-error));
    if (json)
        printf("{\"sizes\": [");
    for (unsigned at = 0; at < sizes.count; at++) {
        double ns = 0;
        outcome how = ping_pong(&card, (uint32_t)sizes.at[at], rounds, &ns);
        if (how != WHOLE)
            return failed(&card, how);
        if (json)
            printf("%s{\"bytes\": %" PRIu64 ", \"latency_ns\": %.1f}", at > 0 ? ", " : "", sizes.at[at], ns);
        else
            printf("%" PRIu64 " bytes: %.1f ns one way\n", sizes.at[at], ns);
    }
    if (json)
        printf("]");
    if (frames > 0) {
        uint64_t out_ns = 0, in_ns = 0;
        outcome how = stream_out(&card, (uint32_t)bytes, frames, &out_ns);
        if (how == WHOLE)
            how = stream_in(&card, (uint32_t)bytes, frames, &in_ns);
        if (how != WHOLE)
            return failed(&card, how);
        double out = mbps((uint32_t)bytes, frames, out_ns), in = mbps((uint32_t)bytes, frames, in_ns);
        if (json)
            printf(", \"out_mbps\": %.1f, \"in_mbps\": %.1f", out, in);
        else
            printf("frames of %" PRIu64 " bytes: %.1f Mbps out, %.1f Mbps in\n", bytes, out, in);
    }
    if (json)
        printf("}\n");
    return program_flush(NAME);
}
