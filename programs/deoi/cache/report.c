#include "report.h"

#include <inttypes.h>
#include <stdio.h>

#include "../../program.h"

static double rate(uint64_t gets, uint64_t ns)
{
    return ns ? (double)gets * 1e9 / (double)ns : 0;
}

static double share(uint64_t part, uint64_t whole)
{
    return whole ? (double)part / (double)whole : 0;
}

static void print_json(const cache_settings *set, const cache_report *r, const cache_interval *all, uint64_t full)
{
    printf("{\"keys\": %" PRIu64 ", \"value_bytes\": %" PRIu64 ", \"database_us\": %" PRIu64
           ", \"initial_bytes\": %" PRIu64 ", \"additional_bytes\": %" PRIu64 ", \"connections\": %" PRIu64
           ", \"first_items\": %" PRIu64,
           set->keys, set->value_bytes, set->database_us, set->initial_bytes, set->additional_bytes,
           set->connections, r->first_items);
    printf(", \"gets_per_second\": %.1f, \"hit_ratio\": %.4f, \"hit_ns\": %.1f, \"evictions_per_get\": %.4f, "
           "\"full_at\": ",
           rate(all->gets, all->ns), share(all->hits, all->gets), share(r->hit_ns, all->hits),
           share(all->evicted - r->evicted, all->gets));
    full ? printf("%.4f", (double)full / (double)set->intervals) : printf("null");
    for (uint64_t i = 0; i < set->intervals; i++) {
        const cache_interval *n = &r->intervals[i];
        uint64_t before = i ? n[-1].evicted : r->evicted;
        printf("%s{\"gets_per_second\": %.1f, \"hit_ratio\": %.4f, \"evictions_per_get\": %.4f}",
               i ? ", " : ", \"interval\": [", rate(n->gets, n->ns), share(n->hits, n->gets),
               share(n->evicted - before, n->gets));
    }
    printf("]}\n");
}

static void print_text(const cache_settings *set, const cache_report *r, const cache_interval *all, uint64_t full)
{
    printf("%" PRIu64 " items filled the initial region\n", r->first_items);
    for (uint64_t i = 0; i < set->intervals; i++) {
        const cache_interval *n = &r->intervals[i];
        uint64_t before = i ? n[-1].evicted : r->evicted;
        printf("interval %" PRIu64 ": %.0f GETs a second, %.1f %% hits, %.3f evictions a GET\n", i + 1,
               rate(n->gets, n->ns), 100 * share(n->hits, n->gets), share(n->evicted - before, n->gets));
    }
    printf("all: %.0f GETs a second, %.1f %% hits of %.1f us each, %.3f evictions a GET\n", rate(all->gets, all->ns),
           100 * share(all->hits, all->gets), share(r->hit_ns, all->hits) / 1000,
           share(all->evicted - r->evicted, all->gets));
    if (full)
        printf("memory was full in interval %" PRIu64 "\n", full);
    else
        printf("memory did not become full\n");
}

int cache_print(const cache_settings *set, const cache_report *r)
{
    cache_interval all = {0};
    uint64_t full = 0; /* the first interval with evictions */
    for (uint64_t i = 0; i < set->intervals; i++) {
        const cache_interval *n = &r->intervals[i];
        all.gets += n->gets;
        all.hits += n->hits;
        all.ns += n->ns;
        all.evicted = n->evicted;
        if (full == 0 && n->evicted > r->evicted)
            full = i + 1;
    }
    (set->json ? print_json : print_text)(set, r, &all, full);
    return program_flush(CACHE_NAME);
}
