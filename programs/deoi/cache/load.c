/* The client: a web server with its database. */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "../../graph/random.h"
#include "../../program.h"
#include "cache.h"
#include "peer.h"
#include "report.h"

enum { BATCH = 16, KEY_ROOM = 24, NUMBER_ROOM = 24, WORD = 8, WORDS_OF_LINE = 8 };
enum { MICROSECOND = 1000, MILLISECOND = 1000000, SECOND = 1000000000 }; /* ns */

typedef enum doing {
    IDLE,
    GETS,
    QUERIES, /* of the database */
    SETS
} doing;

typedef struct client {
    cache_peer peer;
    doing doing;
    uint64_t key;
    uint64_t at_ns; /* of its request; the end of its query */
} client;

typedef struct load {
    const cache_settings *set;
    unsigned count;                       /* of clients */
    client clients[CACHE_MOST_CLIENTS];   /* the one after them asks what has been evicted */
    struct pollfd polls[CACHE_MOST_CLIENTS];
    uint64_t random;
    uint64_t begun, done; /* GETs */
    uint64_t hits;        /* of the interval */
    uint64_t begin_ns;    /* of the interval */
    uint64_t intervals;   /* that are over */
    uint64_t asked;       /* intervals whose evictions are known */
    cache_report report;
} load;

static cache_peer *control(load *l)
{
    return &l->clients[l->count].peer;
}

/* -- Keys and values */

/* The name of a key as it is in requests. */
static resp_word name_of(uint64_t key, char text[KEY_ROOM])
{
    static const char prefix[] = "key:";
    char *at = text + KEY_ROOM;
    do
        *--at = (char)('0' + key % 10);
    while ((key /= 10) > 0);
    at -= sizeof prefix - 1;
    memcpy(at, prefix, sizeof prefix - 1);
    return (resp_word){at, (size_t)(text + KEY_ROOM - at)};
}

static uint64_t word_of(uint64_t key, size_t number)
{
    return (key + 1) * UINT64_C(0x9e3779b97f4a7c15) + number;
}

static resp_word value_of(const load *l, uint64_t key)
{
    static uint64_t value[CACHE_MOST_VALUE / WORD];
    for (size_t i = 0; i * WORD < l->set->value_bytes; i++)
        value[i] = word_of(key, i);
    return (resp_word){(const char *)value, l->set->value_bytes};
}

/* Compares the length and one word of each line. */
static bool is_right(const load *l, uint64_t key, const resp_word *found)
{
    bool is_right = found->bytes == l->set->value_bytes;
    for (size_t i = 0; (i + 1) * WORD <= found->bytes; i += WORDS_OF_LINE) {
        uint64_t part;
        memcpy(&part, found->at + i * WORD, WORD);
        is_right = is_right && part == word_of(key, i);
    }
    return is_right;
}

/* -- Requests */

static bool no_memory(const load *l)
{
    return peer_failed(l->set, "no memory for a request");
}

static bool is_ok(const load *l, const resp_answer *a)
{
    return a->kind == '+' || peer_failed(l->set, "it answers a request to set something with no OK");
}

static bool add_set(const load *l, cache_peer *p, uint64_t key)
{
    char text[KEY_ROOM];
    const resp_word words[] = {{"SET", 3}, name_of(key, text), value_of(l, key)};
    return resp_add_request(&p->out, words, 3) || no_memory(l);
}

static bool configure(load *l, const char *name, const char *to)
{
    resp_answer a;
    cache_peer *p = control(l);
    const resp_word words[] = {{"CONFIG", 6}, {"SET", 3}, {name, strlen(name)}, {to, strlen(to)}};
    return (resp_add_request(&p->out, words, 4) || no_memory(l)) && peer_send(p) && peer_wait(p, &a) && is_ok(l, &a);
}

static bool limit(load *l, uint64_t most_bytes)
{
    char text[NUMBER_ROOM];
    snprintf(text, sizeof text, "%" PRIu64, most_bytes);
    return configure(l, "maxmemory", text);
}

static bool ask_evicted(load *l)
{
    const resp_word words[] = {{"INFO", 4}, {"stats", 5}};
    cache_peer *p = control(l);
    return (resp_add_request(&p->out, words, 2) || no_memory(l)) && peer_send(p);
}

/* The count in what INFO says. */
static bool evicted_of(const load *l, const resp_answer *a, uint64_t *evicted)
{
    static const char name[] = "evicted_keys:";
    const char *at = a->kind == '$' && !a->is_none ? memmem(a->text.at, a->text.bytes, name, sizeof name - 1) : NULL;
    if (at == NULL)
        return peer_failed(l->set, "its INFO has no evicted_keys");
    *evicted = 0;
    const char *end = a->text.at + a->text.bytes;
    for (at += sizeof name - 1; at < end && *at >= '0' && *at <= '9'; at++)
        *evicted = *evicted * 10 + (uint64_t)(*at - '0');
    return true;
}

static bool wait_evicted(load *l, uint64_t *evicted)
{
    resp_answer a;
    return ask_evicted(l) && peer_wait(control(l), &a) && evicted_of(l, &a, evicted);
}

/* -- The initial region: keys in their order, as which of them it holds makes no difference to random ones */

static bool fill(load *l)
{
    uint64_t key = 0, before, evicted;
    cache_peer *p = control(l);
    resp_answer a;
    if (!wait_evicted(l, &before))
        return false;
    evicted = before;
    while (evicted == before && key < l->set->keys) {
        uint64_t begin = key;
        for (; key < begin + BATCH && key < l->set->keys; key++)
            if (!add_set(l, p, key))
                return false;
        if (!peer_send(p))
            return false;
        for (uint64_t i = begin; i < key; i++)
            if (!peer_wait(p, &a) || !is_ok(l, &a))
                return false;
        if (!wait_evicted(l, &evicted))
            return false;
    }
    l->report.first_items = key - (evicted - before);
    l->report.evicted = evicted;
    return true;
}

/* -- Measurement */

static bool begin_get(load *l, client *c)
{
    char text[KEY_ROOM];
    c->doing = IDLE;
    if (l->begun == l->set->gets)
        return true;
    l->begun++;
    c->key = random_below(&l->random, (uint32_t)l->set->keys);
    const resp_word words[] = {{"GET", 3}, name_of(c->key, text)};
    c->doing = GETS;
    c->at_ns = peer_now_ns();
    return (resp_add_request(&c->peer.out, words, 2) || no_memory(l)) && peer_send(&c->peer);
}

/* Ends the interval if its last GET is done. */
static bool count_get(load *l, bool is_hit, uint64_t now)
{
    l->hits += is_hit;
    l->done++;
    if (l->done != (l->intervals + 1) * l->set->gets / l->set->intervals)
        return true;
    uint64_t before = l->intervals * l->set->gets / l->set->intervals;
    cache_interval *n = &l->report.intervals[l->intervals++];
    *n = (cache_interval){.gets = l->done - before, .hits = l->hits, .ns = now - l->begin_ns};
    l->begin_ns = now;
    l->hits = 0;
    return ask_evicted(l);
}

static bool end_get(load *l, client *c, const resp_answer *a, uint64_t now)
{
    if (a->kind != '$')
        return peer_failed(l->set, "it answers GET with something else");
    if (!a->is_none && !is_right(l, c->key, &a->text)) {
        program_failed(CACHE_NAME, "the value of key %" PRIu64 " is wrong", c->key);
        return false;
    }
    if (!count_get(l, !a->is_none, now))
        return false;
    if (a->is_none) {
        c->doing = QUERIES;
        c->at_ns = now + l->set->database_us * MICROSECOND;
        return true;
    }
    l->report.hit_ns += now - c->at_ns;
    return begin_get(l, c);
}

/* The answer to a client has arrived, or a part of it. */
static bool take_answer(load *l, client *c)
{
    resp_answer a;
    bool is_whole;
    if (!peer_receive(&c->peer) || !peer_take(&c->peer, &a, &is_whole))
        return false;
    if (!is_whole)
        return true;
    return c->doing == GETS ? end_get(l, c, &a, peer_now_ns()) : is_ok(l, &a) && begin_get(l, c);
}

static bool end_queries(load *l, uint64_t now)
{
    for (unsigned i = 0; i < l->count; i++) {
        client *c = &l->clients[i];
        if (c->doing != QUERIES || c->at_ns > now)
            continue;
        c->doing = SETS;
        if (!add_set(l, &c->peer, c->key) || !peer_send(&c->peer))
            return false;
    }
    return true;
}

/* Waits for an answer or the end of a query. */
static bool wait_for_something(load *l)
{
    uint64_t next = UINT64_MAX, now;
    for (unsigned i = 0; i < l->count; i++)
        if (l->clients[i].doing == QUERIES && l->clients[i].at_ns < next)
            next = l->clients[i].at_ns;
    bool is_query = next != UINT64_MAX;
    now = is_query ? peer_now_ns() : 0;
    if (!is_query)
        next = l->set->answer_ms * MILLISECOND;
    uint64_t ns = next > now ? next - now : 0;
    const struct timespec time = {.tv_sec = (time_t)(ns / SECOND), .tv_nsec = (long)(ns % SECOND)};
    int ready = ppoll(l->polls, l->count + 1, ns > 0 || is_query ? &time : NULL, NULL);
    if (ready < 0)
        return peer_failed(l->set, "cannot wait for it");
    return ready > 0 || is_query || peer_failed(l->set, PEER_IS_SILENT);
}

/* One read may bring the answers of several intervals. */
static bool take_evicted(load *l)
{
    resp_answer a;
    bool is_whole;
    if (!peer_receive(control(l)))
        return false;
    for (;;) {
        if (!peer_take(control(l), &a, &is_whole))
            return false;
        if (!is_whole)
            return true;
        if (l->asked == l->intervals)
            return peer_failed(l->set, "it answers more than it was asked");
        if (!evicted_of(l, &a, &l->report.intervals[l->asked++].evicted))
            return false;
    }
}

static bool measure(load *l)
{
    l->begin_ns = peer_now_ns();
    for (unsigned i = 0; i < l->count; i++)
        if (!begin_get(l, &l->clients[i]))
            return false;
    while (l->asked < l->set->intervals) {
        if (!wait_for_something(l))
            return false;
        for (unsigned i = 0; i < l->count; i++)
            if (l->polls[i].revents != 0 && !take_answer(l, &l->clients[i]))
                return false;
        if (l->polls[l->count].revents != 0 && !take_evicted(l))
            return false;
        if (!end_queries(l, peer_now_ns()))
            return false;
    }
    return true;
}

/* -- All of it */

static bool connect_all(load *l)
{
    for (unsigned i = 0; i <= l->count; i++) {
        if (!peer_connect(&l->clients[i].peer, l->set))
            return false;
        l->polls[i] = (struct pollfd){.fd = l->clients[i].peer.fd, .events = POLLIN};
    }
    return true;
}

/* The server's answer is that it is gone. */
static bool stop(load *l)
{
    const resp_word words[] = {{"SHUTDOWN", 8}, {"NOSAVE", 6}};
    cache_peer *p = control(l);
    char nothing[64];
    if (!(resp_add_request(&p->out, words, 2) || no_memory(l)) || !peer_send(p))
        return false;
    ssize_t got = read(p->fd, nothing, sizeof nothing);
    if (got < 0 && errno == EAGAIN)
        return peer_failed(l->set, PEER_IS_SILENT);
    return got <= 0 || peer_failed(l->set, "it does not stop");
}

int cache_load(const cache_settings *set)
{
    static load l;
    l.set = set;
    l.count = (unsigned)set->connections;
    l.random = set->seed;
    if (set->seed == 0 && getentropy(&l.random, sizeof l.random) != 0)
        return program_failed(CACHE_NAME, "the system has no random numbers");
    bool is_done = connect_all(&l) && configure(&l, "maxmemory-policy", "allkeys-lru") &&
                   limit(&l, set->initial_bytes) && fill(&l) &&
                   limit(&l, set->initial_bytes + set->additional_bytes) && measure(&l) && stop(&l);
    return is_done ? cache_print(set, &l.report) : PROGRAM_FAILED;
}
