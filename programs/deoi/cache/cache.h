/* The two roles of deoi_cache. */
#ifndef DEOI_CACHE_CACHE_H
#define DEOI_CACHE_CACHE_H

#include <stdbool.h>
#include <stdint.h>

#define CACHE_NAME "deoi_cache"

enum { CACHE_MOST_CLIENTS = 64, CACHE_MOST_VALUE = 64 << 10, CACHE_MOST_INTERVALS = 100 };

typedef struct cache_settings {
    const char *role;
    uint64_t port;
    const char *host;                      /* of the server */
    uint64_t wait_ms;                      /* for it to listen */
    uint64_t answer_ms;                    /* for it to answer; 0: no limit */
    uint64_t connections, keys, value_bytes, database_us;
    uint64_t initial_bytes, additional_bytes;
    uint64_t gets, intervals, seed;
    bool json;
} cache_settings;

/* Serves until a client says SHUTDOWN. Returns an exit status, as do all below. */
int cache_serve(const cache_settings *set);

/* Fills the server, measures, and stops it. */
int cache_load(const cache_settings *set);

#endif
