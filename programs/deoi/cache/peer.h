/* A connection to a server. All calls that fail have said why on stderr. */
#ifndef DEOI_CACHE_PEER_H
#define DEOI_CACHE_PEER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cache.h"
#include "resp.h"

/* What is said of a server that takes longer than the settings allow. */
#define PEER_IS_SILENT "it does not answer"

typedef struct cache_peer {
    const cache_settings *set;
    int fd;
    resp_bytes in, out;
} cache_peer;

/* Nanoseconds of a clock that never jumps. */
uint64_t peer_now_ns(void);

/* Says what the server of the settings does. Returns false. */
bool peer_failed(const cache_settings *set, const char *what);

/* Connects, once the server listens. */
bool peer_connect(cache_peer *p, const cache_settings *set);

/* Sends what is in `out`. This, and each wait below, takes no longer than an answer may. */
bool peer_send(cache_peer *p);

/* Reads once, and waits if there is nothing. */
bool peer_receive(cache_peer *p);

/* Takes an answer out of what has arrived, if there is a whole one. An error of the server is a failure. */
bool peer_take(cache_peer *p, resp_answer *a, bool *is_whole);

/* Waits for an answer. */
bool peer_wait(cache_peer *p, resp_answer *a);

#endif
