/*
 * deoi_cache: a key-value cache before a database, and the web server that asks it (DEOI §IV-C): Redis' part and that
 * of memtier_benchmark. Both speak Redis' protocol, so each works with Redis' own counterpart, too.
 */
#define _DEFAULT_SOURCE
#include <stdlib.h>
#include <string.h>

#include "../../options.h"
#include "../../program.h"
#include "cache.h"

static const char about[] =
    "serve: a cache in memory that speaks Redis' protocol. Above its limit of memory (CONFIG SET maxmemory) it drops\n"
    "the items that were used longest ago. A client stops it (SHUTDOWN).\n"
    "load: asks such a server, or Redis, for keys at random. A miss takes as long as a database, and then the item is\n"
    "stored. At first the items fill the initial region of memory, then the additional region is there, too. It\n"
    "changes the server's maxmemory, and stops the server at its end.\n"
    "\n"
    "  rackmem sim exec deoi-cores -n 1 deoi_cache.rv64 load --host 10.0.0.2 : -n 1 deoi_cache.rv64 serve\n";

/* The first of the words that is an option of `load` alone; NULL. */
static const char *of_load(char **words)
{
    while (*words != NULL && (strncmp(*words, "--", 2) != 0 || strncmp(*words, "--port", 6) == 0))
        words++;
    return *words;
}

int main(int argc, char **argv)
{
    cache_settings set = {.port = 6379, .host = "127.0.0.1", .wait_ms = 100, .answer_ms = 60000, .connections = 1,
                          .keys = 3000, .value_bytes = 512, .database_us = 100, .initial_bytes = 1 << 20, .gets = 4000,
                          .intervals = 10};
    const option options[] = {
        {"port", OPTION_NUMBER, &set.port, "N", "the server's port (6379)", 1, 65535},
        {"host", OPTION_TEXT, &set.host, "A", "load: the server's IPv4 address (127.0.0.1)", 0, 0},
        {"wait-ms", OPTION_NUMBER, &set.wait_ms, "MS", "load: so long may it take to listen (100)", 0, 100000},
        {"answer-ms", OPTION_NUMBER, &set.answer_ms, "MS", "load: and to answer (60000)", 1, 1000000},
        {"connections", OPTION_NUMBER, &set.connections, "N", "load: each has one request at a time (1)", 1,
         CACHE_MOST_CLIENTS - 1},
        {"keys", OPTION_NUMBER, &set.keys, "N", "load: keys that are asked for (3000)", 1, 1 << 30},
        {"value-bytes", OPTION_BYTES, &set.value_bytes, "N", "load: a value (512)", 1, CACHE_MOST_VALUE},
        {"database-us", OPTION_NUMBER, &set.database_us, "US", "load: time of the database for a query (100)", 0,
         1000000},
        {"initial-bytes", OPTION_BYTES, &set.initial_bytes, "N", "load: memory of the server at first (1M)", 4096,
         UINT64_C(1) << 40},
        {"additional-bytes", OPTION_BYTES, &set.additional_bytes, "N", "load: and besides, once that is full (0)", 0,
         UINT64_C(1) << 40},
        {"gets", OPTION_NUMBER, &set.gets, "N", "load: requests that are measured (4000)", 1, 1 << 30},
        {"intervals", OPTION_NUMBER, &set.intervals, "N", "load: in so many equal parts (10)", 1,
         CACHE_MOST_INTERVALS},
        {"seed", OPTION_NUMBER, &set.seed, "N", "load: of the order of keys (0: of the system)", 0, UINT32_MAX},
        {"json", OPTION_FLAG, &set.json, NULL, "load: one line of JSON", 0, 0},
        {0},
    };
    const command_line line = {CACHE_NAME, "serve|load [options]", about, options, &set.role};
    /* Only node 0 says what is wrong with a command line, and here every node has its own. */
    unsetenv("RACKMEM_NODE");
    int status = options_parse(&line, argc, argv);
    if (status != OPTIONS_GO_ON)
        return status;
    if (set.role != NULL && strcmp(set.role, "serve") == 0)
        return of_load(argv + 1) ? options_usage(&line, "serve has no option but --port") : cache_serve(&set);
    if (set.role == NULL || strcmp(set.role, "load") != 0)
        return options_usage(&line, "expected 'serve' or 'load'");
    return set.gets < set.intervals ? options_usage(&line, "--gets is less than --intervals") : cache_load(&set);
}
