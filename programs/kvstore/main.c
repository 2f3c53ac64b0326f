/*
 * kvstore: a key-value store whose clients never bother the server's processor.
 *
 * Node 0 is the server: it puts and erases all the time. The other nodes look keys up by remote
 * reads of the server's table (table.h) and check every value they get:
 *   - it is one that was put for this key, every byte of it;
 *   - it is not older than one they got before;
 *   - a key that is never erased is there.
 * Even keys are never erased; odd ones come and go.
 */
#include <inttypes.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "../graph/random.h"
#include "../options.h"
#include "../program.h"
#include "table.h"

#define NAME "kvstore"

enum { DONE_CHECK_PUTS = 64, ALIVE_CHECK_PUTS = 4096, YIELD_RETRIES = 64 };

static const char about[] =
    "A key-value store: node 0 puts, all other nodes look up by remote reads alone, at the same\n"
    "time, and check every value. Ends with status 1 if any is wrong.\n"
    "  rackmem run -n 4 -- :kvstore --keys 100000 --value-bytes 200\n"
    "  rackmem run -n 2 -- :kvstore --keys 1 --value-bytes 1000    as much conflict as can be\n";

typedef struct settings {
    uint64_t keys;
    uint64_t value_bytes;
    uint64_t lookups; /* of each client; 0: for `seconds` */
    double seconds;
    uint64_t seed;
    bool json;
} settings;

/* The report of a client to node 0: one line. */
typedef struct client_report {
    uint64_t done;
    uint64_t lookups;
    uint64_t found;
    uint64_t reads;
    uint64_t retries; /* entries read again because they were torn */
    uint64_t wrong;
    double seconds;
    uint64_t unused;
} client_report;

RACKMEM_STATIC_ASSERT(sizeof(client_report) == RACKMEM_LINE_BYTES, "one line");

typedef struct store {
    const settings *settings;
    rackmem_context *ctx;
    QP *qp;
    rackmem_barrier barrier;
    int nid;
    int nodes;
    uint64_t reports_offset;
    table table;
    void *entry; /* local buffer for one */
    unsigned char *value;
    unsigned char *expected;
} store;

/* The value of a key in its n-th generation: the generation, then bytes that follow from both. */
static void make_value(uint64_t key, uint64_t generation, unsigned char *value, uint64_t bytes)
{
    uint64_t state = random_mix(key) ^ generation;
    memcpy(value, &generation, sizeof generation);
    for (uint64_t at = sizeof generation; at < bytes; at += 8) {
        uint64_t word = random_next(&state);
        memcpy(value + at, &word, bytes - at < 8 ? (size_t)(bytes - at) : 8);
    }
}

/* ---- Server ------------------------------------------------------------------------------ */

typedef struct server {
    store *store;
    uint64_t version; /* of the latest put */
    uint64_t puts;
    uint64_t erasures;
    uint64_t *generation;      /* of each key, 0: never put */
    uint64_t *slot_of;         /* of each key, or NO_SLOT */
    unsigned char *slot_taken; /* of the table */
} server;

#define NO_SLOT UINT64_MAX

/* Writes an entry by a remote write to this very node: that is what makes its lines atomic. */
static int write_entry(server *s, uint64_t slot, uint64_t key, entry_state state, uint32_t length)
{
    store *st = s->store;
    table_encode(&st->table, st->entry, ++s->version, key, state, st->value, length);
    int error = rmc_write(st->qp, st->nid, table_slot_offset(&st->table, slot), st->entry,
                          table_entry_bytes(&st->table));
    return error ? program_operation_failed(NAME, "cannot write an entry", error) : 0;
}

/* Puts a new value for a key, in place or in the first free slot; -1 if there is none. */
static int put(server *s, uint64_t key)
{
    store *st = s->store;
    uint64_t slot = s->slot_of[key];
    for (unsigned probe = 0; slot == NO_SLOT && probe < TABLE_PROBES; probe++) {
        uint64_t candidate = table_slot(&st->table, key, probe);
        if (!s->slot_taken[candidate])
            slot = candidate;
    }
    if (slot == NO_SLOT)
        return -1;
    s->slot_taken[slot] = 1;
    s->slot_of[key] = slot;
    s->puts++;
    make_value(key, ++s->generation[key], st->value, st->table.value_bytes);
    return write_entry(s, slot, key, ENTRY_PRESENT, (uint32_t)st->table.value_bytes);
}

static int erase(server *s, uint64_t key)
{
    uint64_t slot = s->slot_of[key];
    s->slot_of[key] = NO_SLOT;
    s->slot_taken[slot] = 0;
    s->erasures++;
    return write_entry(s, slot, key, ENTRY_ERASED, 0);
}

/* Every key once, so that clients find them. */
static int fill_table(server *s)
{
    for (uint64_t key = 0; key < s->store->settings->keys; key++) {
        int status = put(s, key);
        if (status < 0 && key % 2 == 0)
            return program_failed(NAME, "no free slot for key %" PRIu64, key);
        if (status > 0)
            return status;
    }
    return 0;
}

static const client_report *report_of(const store *st, int nid)
{
    const char *segment = rackmem_segment(st->ctx);
    return (const client_report *)(const void *)(segment + st->reports_offset) + nid;
}

static bool is_done(const store *st, int nid)
{
    return __atomic_load_n(&report_of(st, nid)->done, __ATOMIC_ACQUIRE) != 0;
}

static bool are_all_done(const store *st)
{
    for (int nid = 1; nid < st->nodes; nid++)
        if (!is_done(st, nid))
            return false;
    return true;
}

/* Fails if a client that is not done cannot be reached any more. */
static int look_after_clients(store *st)
{
    for (int nid = 1; nid < st->nodes; nid++) {
        if (is_done(st, nid))
            continue;
        int error = rmc_read(st->qp, nid, 0, st->value, 8);
        if (error != 0 && !is_done(st, nid))
            return program_operation_failed(NAME, "a client is gone", error);
    }
    return 0;
}

/* Puts and erases until all clients are done. */
static int serve(server *s)
{
    store *st = s->store;
    const settings *set = st->settings;
    uint64_t state = random_mix(set->seed);
    int status = 0;
    for (uint64_t i = 1; status == 0; i++) {
        uint64_t draw = random_next(&state), key = draw % set->keys;
        bool erases = key % 2 == 1 && draw >> 62 == 0 && s->slot_of[key] != NO_SLOT;
        status = erases ? erase(s, key) : put(s, key);
        if (status < 0)
            status = 0; /* an odd key that stays away */
        if (i % DONE_CHECK_PUTS == 0 && are_all_done(st))
            break;
        if (status == 0 && i % ALIVE_CHECK_PUTS == 0)
            status = look_after_clients(st);
    }
    return status;
}

static int run_server(server *s)
{
    store *st = s->store;
    int status = fill_table(s);
    int error = status == 0 ? rackmem_barrier_wait(&st->barrier) : 0;
    if (error != 0)
        return program_operation_failed(NAME, "barrier", error);
    s->puts = s->erasures = 0;
    return status == 0 ? serve(s) : status;
}

/* ---- Client ------------------------------------------------------------------------------ */

typedef struct client {
    store *store;
    client_report report;
    uint64_t *seen; /* latest generation of each key */
    double deadline;
} client;

/* Reads one slot until it is not torn. Returns 0, or 1 after saying what failed. */
static int read_entry(client *c, uint64_t slot, entry_state *state, uint64_t *key,
                      uint32_t *length)
{
    store *st = c->store;
    uint64_t offset = table_slot_offset(&st->table, slot);
    for (uint64_t retries = 0;; retries++) {
        int error = rmc_read(st->qp, 0, offset, st->entry, table_entry_bytes(&st->table));
        if (error != 0)
            return program_operation_failed(NAME, "cannot read an entry", error);
        c->report.reads++;
        *state = table_decode(&st->table, st->entry, key, st->value, length);
        if (*state != ENTRY_TORN)
            return 0;
        c->report.retries++;
        if (retries % YIELD_RETRIES == YIELD_RETRIES - 1) {
            sched_yield(); /* the server may be waiting for this very processor */
            if (program_seconds() > c->deadline + 60)
                return program_failed(NAME, "an entry is torn all the time");
        }
    }
}

/* Looks a key up; its value is in store->value if it is found. */
static int lookup(client *c, uint64_t key, bool *found, uint32_t *length)
{
    store *st = c->store;
    *found = false;
    for (unsigned probe = 0; probe < TABLE_PROBES; probe++) {
        entry_state state;
        uint64_t stored;
        int status = read_entry(c, table_slot(&st->table, key, probe), &state, &stored, length);
        if (status != 0 || state == ENTRY_NEVER_USED)
            return status;
        if (state == ENTRY_PRESENT && stored == key) {
            *found = true;
            return 0;
        }
    }
    return 0;
}

/* The fault in the outcome of a lookup, or NULL. */
static const char *examine(client *c, uint64_t key, bool found, uint32_t length)
{
    store *st = c->store;
    uint64_t generation;
    if (!found)
        return key % 2 == 0 ? "is missing" : NULL;
    if (length != st->table.value_bytes)
        return "has a wrong length";
    memcpy(&generation, st->value, sizeof generation);
    make_value(key, generation, st->expected, length);
    if (memcmp(st->value, st->expected, length) != 0)
        return "has a wrong value";
    if (generation < c->seen[key])
        return "has a value older than one seen before";
    c->seen[key] = generation;
    return NULL;
}

static int look_up_all(client *c)
{
    const settings *set = c->store->settings;
    uint64_t state = random_mix(set->seed + (uint64_t)c->store->nid);
    double start = program_seconds();
    c->deadline = start + set->seconds;
    for (;;) {
        if (set->lookups ? c->report.lookups >= set->lookups
                         : c->report.lookups % 64 == 0 && program_seconds() >= c->deadline)
            break;
        uint64_t key = random_next(&state) % set->keys;
        bool found;
        uint32_t length = 0;
        int status = lookup(c, key, &found, &length);
        if (status != 0)
            return status;
        c->report.lookups++;
        c->report.found += found;
        const char *wrong = examine(c, key, found, length);
        if (wrong && c->report.wrong++ == 0)
            program_failed(NAME, "key %" PRIu64 " %s", key, wrong);
    }
    c->report.seconds = program_seconds() - start;
    return 0;
}

static int run_client(client *c)
{
    store *st = c->store;
    int error = rackmem_barrier_wait(&st->barrier);
    if (error != 0)
        return program_operation_failed(NAME, "barrier", error);
    int status = look_up_all(c);
    if (status != 0)
        return status;
    c->report.done = 1;
    uint64_t offset = st->reports_offset + (uint64_t)st->nid * sizeof c->report;
    error = rmc_write(st->qp, 0, offset, &c->report, sizeof c->report);
    return error ? program_operation_failed(NAME, "cannot report to node 0", error) : 0;
}

/* ---- Both -------------------------------------------------------------------------------- */

static int open_store(store *st, const settings *set)
{
    int nodes = program_nodes();
    st->settings = set;
    st->reports_offset = rackmem_barrier_bytes(nodes);
    st->table = table_make(st->reports_offset + (uint64_t)nodes * sizeof(client_report), set->keys,
                           set->value_bytes);
    /* Clients have nothing to be read but the barrier; the table is the server's. */
    uint64_t bytes = program_nid() == 0 ? st->table.offset + table_bytes(&st->table)
                                        : st->table.offset;
    if (rackmem_init(&st->ctx, (size_t)bytes) != 0)
        return program_call_failed(NAME, "cannot join the rack");
    st->nid = rackmem_nid(st->ctx);
    st->nodes = rackmem_nodes(st->ctx);
    if (st->nodes < 2)
        return program_failed(NAME, "needs two nodes or more: rackmem run -n 2 -- :kvstore");
    if (rackmem_qp_create(st->ctx, 64, &st->qp) != 0)
        return program_call_failed(NAME, "cannot make a queue pair");
    int error = rackmem_barrier_open(&st->barrier, st->ctx, st->qp, 0, NULL, 0);
    if (error != 0)
        return program_operation_failed(NAME, "cannot make a barrier", error);
    st->entry = rackmem_alloc(st->ctx, table_entry_bytes(&st->table));
    st->value = rackmem_alloc(st->ctx, TABLE_MAX_VALUE);
    st->expected = rackmem_alloc(st->ctx, TABLE_MAX_VALUE);
    if (!st->entry || !st->value || !st->expected)
        return program_call_failed(NAME, "no memory for an entry");
    return 0;
}

/* Node 0, after the last report: prints the sums. */
static int print_result(const store *st, const server *s)
{
    const settings *set = st->settings;
    client_report sum = {0};
    for (int nid = 1; nid < st->nodes; nid++) {
        const client_report *r = report_of(st, nid);
        sum.lookups += r->lookups;
        sum.found += r->found;
        sum.reads += r->reads;
        sum.retries += r->retries;
        sum.wrong += r->wrong;
        sum.seconds = r->seconds > sum.seconds ? r->seconds : sum.seconds;
    }
    double seconds = sum.seconds > 0 ? sum.seconds : 1e-9;
    if (set->json)
        printf("{\"program\":\"kvstore\",\"clients\":%d,\"keys\":%" PRIu64
               ",\"value_bytes\":%" PRIu64 ",\"entry_lines\":%" PRIu64
               ",\"seconds\":%.6f,\"lookups\":%" PRIu64 ",\"lookups_per_second\":%.0f"
               ",\"found\":%" PRIu64 ",\"reads\":%" PRIu64 ",\"retries\":%" PRIu64
               ",\"wrong\":%" PRIu64 ",\"puts\":%" PRIu64 ",\"erasures\":%" PRIu64 "}\n",
               st->nodes - 1, set->keys, set->value_bytes, st->table.lines, sum.seconds,
               sum.lookups, (double)sum.lookups / seconds, sum.found, sum.reads, sum.retries,
               sum.wrong, s->puts, s->erasures);
    else
        printf("%d client%s, %" PRIu64 " keys, values of %" PRIu64 " bytes (%" PRIu64
               " lines an entry)\n"
               "lookups   %12" PRIu64 "   %.3f M/s in %.2f s, %.1f%% found\n"
               "reads     %12" PRIu64 "   %.2f a lookup\n"
               "retries   %12" PRIu64 "   entries read while they were written\n"
               "wrong     %12" PRIu64 "\n"
               "puts      %12" PRIu64 "   %.3f M/s\n"
               "erasures  %12" PRIu64 "\n",
               st->nodes - 1, st->nodes == 2 ? "" : "s", set->keys, set->value_bytes,
               st->table.lines, sum.lookups, (double)sum.lookups / seconds * 1e-6, sum.seconds,
               100 * (double)sum.found / (double)(sum.lookups ? sum.lookups : 1), sum.reads,
               (double)sum.reads / (double)(sum.lookups ? sum.lookups : 1), sum.retries,
               sum.wrong, s->puts, (double)s->puts / seconds * 1e-6, s->erasures);
    int status = program_flush(NAME);
    return sum.wrong ? program_failed(NAME, "%" PRIu64 " lookups went wrong", sum.wrong) : status;
}

static int run_as_server(store *st)
{
    uint64_t keys = st->settings->keys;
    server s = {.store = st,
                .generation = calloc(keys, sizeof *s.generation),
                .slot_of = malloc(keys * sizeof *s.slot_of),
                .slot_taken = calloc(st->table.slots, 1)};
    int status;
    if (!s.generation || !s.slot_of || !s.slot_taken) {
        status = program_failed(NAME, "not enough memory for %" PRIu64 " keys", keys);
    } else {
        for (uint64_t key = 0; key < keys; key++)
            s.slot_of[key] = NO_SLOT;
        status = run_server(&s);
        if (status == 0)
            status = print_result(st, &s);
    }
    free(s.generation);
    free(s.slot_of);
    free(s.slot_taken);
    return status;
}

static int run_as_client(store *st)
{
    client c = {.store = st, .seen = calloc(st->settings->keys, sizeof *c.seen)};
    int status = c.seen ? run_client(&c)
                        : program_failed(NAME, "not enough memory for %" PRIu64 " keys",
                                         st->settings->keys);
    free(c.seen);
    return status == 0 && c.report.wrong ? PROGRAM_FAILED : status;
}

int main(int argc, char **argv)
{
    settings set = {.keys = 10000, .value_bytes = 32, .seconds = 1, .seed = 1};
    const option options[] = {
        {"keys", OPTION_NUMBER, &set.keys, "N", "keys in the store (10000)", 1, 1u << 28},
        {"value-bytes", OPTION_BYTES, &set.value_bytes, "BYTES",
         "size of values (32); up to 40, an entry is one line", 8, TABLE_MAX_VALUE},
        {"seconds", OPTION_SECONDS, &set.seconds, "S", "how long clients look up (1)", 0, 0},
        {"lookups", OPTION_NUMBER, &set.lookups, "N", "so many by each client, instead of a time",
         1, 0},
        {"seed", OPTION_NUMBER, &set.seed, "N", "of the keys' order (1)", 0, 0},
        {"json", OPTION_FLAG, &set.json, NULL, "print one line of JSON", 0, 0},
        {0},
    };
    const command_line line = {NAME, "[OPTIONS]", about, options, NULL};
    int status = options_parse(&line, argc, argv);
    if (status != OPTIONS_GO_ON)
        return status;

    store st = {0};
    status = open_store(&st, &set);
    if (status == 0)
        status = st.nid == 0 ? run_as_server(&st) : run_as_client(&st);
    rackmem_close(st.ctx);
    return status;
}
