/*
 * tsm_share: what do two nodes see of memory that one lends to the other? (TSM §2.1.2, §2.2)
 */
#include <inttypes.h>
#include <pthread.h>
#include <string.h>

#include "../program.h"
#include "node.h"

#define NAME "tsm_share"

static const char about[] =
    "Two nodes use the memory that node 1 lends to node 0:\n"
    "\n"
    "  --share policy    node 0 reads a word, writes 0 to it, node 1 writes 1, node 0 reads again:\n"
    "                    0 with a cached copy that stores update, 1 if stores drop it\n"
    "  --share atomics   two threads of node 0 count there, atomically\n"
    "  --share message   a message of 64 bytes that a core stores and the other node's core finds\n"
    "\n"
    "  rackmem sim exec pcie-ntb -n 2 -- tsm_share.rv64 --share policy\n";

enum { WORDS = 8, LINES = 64, ROUNDS = 32, ADDITIONS = 200 };

/* A line that one node writes to and the other one looks at. */
typedef volatile uint64_t line[WORDS];

/* Waits until the other node has stored a value, of which the caches keep no coherent copy: the lender
 * finds it by coherence with what others write to its memory. */
static void await(const volatile uint64_t *word, uint64_t value)
{
    while (__atomic_load_n(word, __ATOMIC_ACQUIRE) != value)
        ;
}

/* ---- Write policy -------------------------------------------------------------------------- */

/* The lines under test, and two by which the nodes tell each other how far they are: each node's flag is
 * in its own memory, where the other one writes it as borrower. */
typedef struct shared {
    line tested[LINES];
    line flag;
} shared;

static void tell(shared *borrowed, uint64_t value)
{
    borrowed->flag[0] = value;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
}

/* Node 0. */
static int policy_borrower(shared *borrowed, shared *lent, bool json)
{
    uint64_t first = 0, again = 0;
    await(&lent->flag[0], 1);
    for (unsigned i = 0; i < LINES; i++)
        first += borrowed->tested[i][0];
    /* Like the others, it is written when the cache has it. */
    (void)borrowed->flag[0];
    for (unsigned i = 0; i < LINES; i++)
        borrowed->tested[i][0] = 0;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    tell(borrowed, 1);
    await(&lent->flag[0], 2);
    for (unsigned i = 0; i < LINES; i++)
        again += borrowed->tested[i][0];
    if (first != 7 * LINES || again % LINES != 0)
        return program_failed(NAME, "read %" PRIu64 " and then %" PRIu64, first, again);
    if (json)
        printf("{\"share\": \"policy\", \"reread\": %" PRIu64 "}\n", again / LINES);
    else
        printf("read again: %" PRIu64 "\n", again / LINES);
    return program_flush(NAME);
}

/* Node 1. */
static int policy_lender(shared *borrowed, shared *lent)
{
    for (unsigned i = 0; i < LINES; i++)
        lent->tested[i][0] = 7;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    tell(borrowed, 1);
    await(&lent->flag[0], 1);
    for (unsigned i = 0; i < LINES; i++)
        lent->tested[i][0] = 1;
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    tell(borrowed, 2);
    return PROGRAM_OK;
}

/* ---- Atomics ------------------------------------------------------------------------------- */

/* A compare-and-swap is a load-reserved and a store-conditional there. */
static void *count(void *at)
{
    uint64_t *word = at;
    for (unsigned i = 0; i < ADDITIONS; i++) {
        uint64_t old = __atomic_load_n(word, __ATOMIC_RELAXED);
        while (!__atomic_compare_exchange_n(word, &old, old + 1, true, __ATOMIC_RELAXED,
                                            __ATOMIC_RELAXED))
            ;
    }
    return NULL;
}

static int atomics(bool json)
{
    uint64_t *word = node_borrow(NAME, LINE_BYTES);
    if (!word)
        return PROGRAM_FAILED;
    pthread_t other;
    bool both = pthread_create(&other, NULL, count, word) == 0;
    count(word);
    if (both)
        pthread_join(other, NULL);
    uint64_t expected = both ? 2 * ADDITIONS : ADDITIONS;
    bool works = *(volatile uint64_t *)word == expected;
    if (json)
        printf("{\"share\": \"atomics\", \"works\": %d, \"threads\": %d}\n", works, both ? 2 : 1);
    else
        printf("atomics in borrowed memory: %s\n", works ? "work" : "lose counts");
    return program_flush(NAME);
}

/* ---- Messages ------------------------------------------------------------------------------ */

/* A message is a line whose last word is its number: the receiver looks at that. */
static void send(volatile uint64_t *to, uint64_t number)
{
    for (unsigned word = 0; word < WORDS; word++)
        to[word] = number;
}

static int messages(bool json)
{
    shared *borrowed = node_borrow(NAME, sizeof *borrowed);
    shared *lent = node_lent(NAME, sizeof *lent);
    if (!borrowed || !lent)
        return PROGRAM_FAILED;
    bool first = program_nid() == 0;
    uint64_t begin = 0;
    for (uint64_t round = 1; round <= 2 * ROUNDS; round++) {
        /* The first half warms up. */
        if (round == ROUNDS + 1)
            begin = node_ns();
        uint64_t slot = round % LINES;
        if (first)
            send(borrowed->tested[slot], round);
        await(&lent->tested[slot][WORDS - 1], round);
        if (!first)
            send(borrowed->tested[slot], round);
    }
    double one_way_ns = (double)(node_ns() - begin) / (double)ROUNDS / 2;
    if (!first)
        return PROGRAM_OK;
    if (json)
        printf("{\"share\": \"message\", \"one_way_ns\": %.1f}\n", one_way_ns);
    else
        printf("a message takes %.0f ns\n", one_way_ns);
    return program_flush(NAME);
}

static int policy(bool json)
{
    shared *lent = node_lent(NAME, sizeof *lent);
    shared *borrowed = node_borrow(NAME, sizeof *borrowed);
    if (!lent || !borrowed)
        return PROGRAM_FAILED;
    return program_nid() == 0 ? policy_borrower(borrowed, lent, json)
                              : policy_lender(borrowed, lent);
}

int main(int argc, char **argv)
{
    const char *share = "policy";
    bool json = false;
    const option options[] = {
        {"share", OPTION_TEXT, &share, "WHAT", "policy, atomics or message (policy)", 0, 0},
        {"json", OPTION_FLAG, &json, NULL, "one line of JSON", 0, 0},
        {0},
    };
    const command_line line = {NAME, "[options]", about, options, NULL};
    int status = options_parse(&line, argc, argv);
    if (status != OPTIONS_GO_ON)
        return status;
    if (program_nodes() != 2)
        return program_failed(NAME, "is for two nodes; use -n 2");
    if (strcmp(share, "policy") == 0)
        return policy(json);
    if (strcmp(share, "message") == 0)
        return messages(json);
    if (strcmp(share, "atomics") == 0)
        return program_nid() == 0 ? atomics(json) : PROGRAM_OK;
    return options_usage(&line, "--share is policy, atomics or message");
}
