/*
 * tsm_arenas: a key-value cache in two arenas, one of the node's own memory and one of borrowed memory, which it
 * gets while it runs (DEOI §IV-C). Items, their chains and the list of their use are linked across both.
 */
#define _DEFAULT_SOURCE
#include <inttypes.h>
#include <string.h>
#include <time.h>

#include "../program.h"
#include "node.h"

#define NAME "tsm_arenas"

static const char about[] =
    "Asks a key-value cache for random keys. A miss takes as long as a database, and then the item is stored in the\n"
    "place of the one that was used longest ago. Once its own memory is full, the cache borrows more.\n"
    "\n"
    "  rackmem sim exec deoi-cores -n 2 -- tsm_arenas.rv64 --own-bytes 256K --borrowed-bytes 128K\n";

enum { NONE = UINT32_MAX, INTERVALS = 8, BORROW_AT = 4, WORD = 8 };

typedef struct item {
    uint64_t key;
    uint32_t next;         /* of its bucket */
    uint32_t newer, older; /* in the order of use */
    uint32_t unused;
    uint64_t value[];
} item;

typedef struct cache {
    char *own, *borrowed;
    uint32_t own_items, items; /* those of its own memory come first */
    uint32_t used;
    uint32_t newest, oldest;
    uint32_t *buckets;
    uint32_t mask;
    uint64_t item_bytes, value_words;
} cache;

typedef struct run {
    uint64_t own_bytes, borrowed_bytes, value_bytes, keys, gets, database_us;
    bool json, all;
} run;

typedef struct counts {
    uint64_t gets, hits, hit_ns, ns;
} counts;

static item *at(const cache *c, uint32_t number)
{
    char *arena = number < c->own_items ? c->own : c->borrowed;
    return (item *)(arena + (number < c->own_items ? number : number - c->own_items) * c->item_bytes);
}

static uint64_t word_of(uint64_t key, uint64_t word)
{
    return (key + 1) * 0x9e3779b97f4a7c15u + word;
}

static uint32_t *bucket_of(const cache *c, uint64_t key)
{
    return &c->buckets[(uint32_t)(word_of(key, 0) >> 32) & c->mask];
}

static void unlink_use(cache *c, item *i)
{
    *(i->newer == NONE ? &c->newest : &at(c, i->newer)->older) = i->older;
    *(i->older == NONE ? &c->oldest : &at(c, i->older)->newer) = i->newer;
}

static void use(cache *c, uint32_t number)
{
    item *i = at(c, number);
    i->newer = NONE;
    i->older = c->newest;
    *(c->newest == NONE ? &c->oldest : &at(c, c->newest)->newer) = number;
    c->newest = number;
}

/* The item of a key, which is the one used last from now on; NONE. */
static uint32_t find(cache *c, uint64_t key)
{
    uint32_t number = *bucket_of(c, key);
    while (number != NONE && at(c, number)->key != key)
        number = at(c, number)->next;
    if (number != NONE && number != c->newest) {
        unlink_use(c, at(c, number));
        use(c, number);
    }
    return number;
}

/* The place of a new item: a free one, or that of the item used longest ago. */
static uint32_t place(cache *c)
{
    if (c->used < c->items)
        return c->used++;
    uint32_t number = c->oldest;
    item *i = at(c, number);
    uint32_t *link = bucket_of(c, i->key);
    while (*link != number)
        link = &at(c, *link)->next;
    *link = i->next;
    unlink_use(c, i);
    return number;
}

static void store(cache *c, uint64_t key)
{
    uint32_t number = place(c);
    item *i = at(c, number);
    uint32_t *bucket = bucket_of(c, key);
    i->key = key;
    i->next = *bucket;
    *bucket = number;
    for (uint64_t word = 0; word < c->value_words; word++)
        i->value[word] = word_of(key, word);
    use(c, number);
}

static bool is_right(const cache *c, uint32_t number, uint64_t key)
{
    const item *i = at(c, number);
    bool right = true;
    for (uint64_t word = 0; word < c->value_words; word++)
        right &= i->value[word] == word_of(key, word);
    return right;
}

/* Asks for one key; false if its value is wrong. */
static bool get(cache *c, const run *r, uint64_t key, counts *n)
{
    uint64_t begin = node_ns();
    uint32_t number = find(c, key);
    n->gets++;
    if (number != NONE) {
        bool right = is_right(c, number, key);
        n->hits++;
        n->hit_ns += node_ns() - begin;
        return right;
    }
    struct timespec query = {.tv_sec = (time_t)(r->database_us / 1000000),
                             .tv_nsec = (long)(r->database_us % 1000000 * 1000)};
    nanosleep(&query, NULL);
    store(c, key);
    return true;
}

static int borrow(cache *c, const run *r)
{
    window_memory memory = {0};
    int64_t error = window_ask(r->borrowed_bytes, WINDOW_ANY, &memory);
    if (error < 0)
        return program_failed(NAME, "cannot borrow %" PRIu64 " bytes: %s", r->borrowed_bytes, strerror((int)-error));
    c->borrowed = (char *)(uintptr_t)memory.address;
    c->items += (uint32_t)(r->borrowed_bytes / c->item_bytes);
    return PROGRAM_OK;
}

static int make(cache *c, const run *r)
{
    c->value_words = r->value_bytes / WORD;
    c->item_bytes = sizeof(item) + r->value_bytes;
    c->own_items = c->items = (uint32_t)(r->own_bytes / c->item_bytes);
    c->newest = c->oldest = NONE;
    uint64_t buckets = 1;
    while (buckets < (r->own_bytes + r->borrowed_bytes) / c->item_bytes)
        buckets *= 2;
    c->mask = (uint32_t)(buckets - 1);
    c->own = node_own(NAME, r->own_bytes);
    c->buckets = c->own ? node_own(NAME, buckets * sizeof *c->buckets) : NULL;
    if (!c->buckets)
        return PROGRAM_FAILED;
    memset(c->buckets, 0xff, buckets * sizeof *c->buckets);
    return PROGRAM_OK;
}

static void report(const run *r, const cache *c, const counts n[INTERVALS])
{
    counts all = {0};
    if (r->json)
        printf("{\"items\": %" PRIu32 ", \"interval\": [", c->items);
    for (unsigned i = 0; i < INTERVALS; i++) {
        double share = (double)n[i].hits / (double)n[i].gets;
        double per_second = (double)n[i].gets * 1e9 / (double)n[i].ns;
        if (r->json)
            printf("%s{\"hit_ratio\": %.4f, \"gets_per_second\": %.0f}", i ? ", " : "", share, per_second);
        else
            printf("interval %u: %.1f %% hits, %.0f gets a second\n", i + 1, 100 * share, per_second);
        all.hits += n[i].hits;
        all.hit_ns += n[i].hit_ns;
    }
    double hit_ns = all.hits ? (double)all.hit_ns / (double)all.hits : 0;
    if (r->json)
        printf("], \"hit_ns\": %.1f}\n", hit_ns);
    else
        printf("a hit takes %.1f ns\n", hit_ns);
}

static int serve(const run *r)
{
    cache c = {0};
    counts n[INTERVALS] = {{0}};
    if (make(&c, r) != PROGRAM_OK)
        return PROGRAM_FAILED;
    uint64_t state = 0x1234567 + (uint64_t)program_nid();
    for (unsigned i = 0; i < INTERVALS; i++) {
        if (i == BORROW_AT && borrow(&c, r) != PROGRAM_OK)
            return PROGRAM_FAILED;
        uint64_t begin = node_ns();
        for (uint64_t done = 0; done < r->gets / INTERVALS; done++) {
            uint64_t key = node_random(&state) % r->keys;
            if (!get(&c, r, key, &n[i]))
                return program_failed(NAME, "the value of key %" PRIu64 " is wrong", key);
        }
        n[i].ns = node_ns() - begin;
    }
    report(r, &c, n);
    return program_flush(NAME);
}

int main(int argc, char **argv)
{
    run r = {.own_bytes = 256 << 10, .borrowed_bytes = 128 << 10, .value_bytes = 512, .keys = 1000,
             .gets = 8000, .database_us = 100};
    const option options[] = {
        {"own-bytes", OPTION_BYTES, &r.own_bytes, "N", "arena of the node's own memory (256K)", 4096, 1 << 30},
        {"borrowed-bytes", OPTION_BYTES, &r.borrowed_bytes, "N",
         "arena of borrowed memory, added after half of the requests (128K)", 4096, 1 << 30},
        {"value-bytes", OPTION_BYTES, &r.value_bytes, "N", "a value, a multiple of 8 (512)", WORD, 4096 - sizeof(item)},
        {"keys", OPTION_NUMBER, &r.keys, "N", "keys that are asked for (1000)", 1, UINT32_MAX},
        {"gets", OPTION_NUMBER, &r.gets, "N", "requests (8000)", INTERVALS, UINT32_MAX},
        {"database-us", OPTION_NUMBER, &r.database_us, "US", "time of a miss (100)", 0, 1000000},
        {"all", OPTION_FLAG, &r.all, NULL, "a cache on every node, not on node 0 alone", 0, 0},
        {"json", OPTION_FLAG, &r.json, NULL, "one line of JSON", 0, 0},
        {0},
    };
    const command_line line = {NAME, "[options]", about, options, NULL};
    int status = options_parse(&line, argc, argv);
    if (status != OPTIONS_GO_ON)
        return status;
    if (r.value_bytes % WORD != 0)
        return options_usage(&line, "--value-bytes is a multiple of 8");
    return program_nid() == 0 || r.all ? serve(&r) : PROGRAM_OK;
}
