#include "report.h"

#include <errno.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../graph/random.h"
#include "../program.h"

enum { TOP = 10 };

const char *const pagerank_variant_names[VARIANT_COUNT] = {"serial", "shm", "bulk", "fine"};

static pagerank_variant first_variant(const pagerank_report *report)
{
    unsigned variant = 0;
    while (variant + 1 < VARIANT_COUNT && !report->ran[variant])
        variant++;
    return (pagerank_variant)variant;
}

static const double *first_ranks(const pagerank_report *report)
{
    return report->results[first_variant(report)].ranks;
}

double pagerank_difference(const pagerank_report *report, pagerank_variant variant)
{
    const double *expected = first_ranks(report);
    const double *ranks = report->results[variant].ranks;
    double largest = 0;
    for (uint32_t v = 0; v < report->job->graph->vertices; v++) {
        double difference = fabs(ranks[v] - expected[v]) / expected[v];
        if (!(difference <= largest)) /* also if it is not a number */
            largest = difference;
    }
    return largest;
}

/* Whether a comes before b in the list of best vertices: by rank, then by id. */
static bool is_above(const graph *g, const double *ranks, uint32_t a, uint32_t b)
{
    return ranks[a] > ranks[b] || (ranks[a] == ranks[b] && g->ids[a] < g->ids[b]);
}

/* The vertices of highest rank, best first; returns how many. */
static unsigned top_vertices(const graph *g, const double *ranks, uint32_t top[TOP])
{
    unsigned count = 0;
    for (uint32_t v = 0; v < g->vertices; v++) {
        unsigned place = count;
        while (place > 0 && is_above(g, ranks, v, top[place - 1]))
            place--;
        if (place == TOP)
            continue;
        count += count < TOP;
        memmove(&top[place + 1], &top[place], (count - 1 - place) * sizeof top[0]);
        top[place] = v;
    }
    return count;
}

static double per_second(const pagerank_result *result)
{
    return result->seconds > 0 ? (double)result->remote_operations / result->seconds : 0;
}

static double speedup(const pagerank_report *report, const pagerank_result *result)
{
    return result->seconds > 0 ? report->results[VARIANT_SERIAL].seconds / result->seconds : 0;
}

void pagerank_print_table(const pagerank_report *report)
{
    const graph *g = report->job->graph;
    bool compared = report->ran[VARIANT_SERIAL];
    printf("%s: %u vertices, %u edges; %d node%s, %u supersteps\n\n", report->input, g->vertices,
           g->edges, report->nodes, report->nodes == 1 ? "" : "s", report->job->supersteps);
    printf("variant         time   remote ops      Mops/s  speed-up  difference\n");
    for (unsigned i = 0; i < VARIANT_COUNT; i++) {
        const pagerank_result *result = &report->results[i];
        if (!report->ran[i])
            continue;
        printf("%-9s %8.2f ms  %11" PRIu64 "  %10.2f  ", pagerank_variant_names[i],
               result->seconds * 1e3, result->remote_operations, per_second(result) * 1e-6);
        if (compared)
            printf("%7.2fx", speedup(report, result));
        else
            printf("%8s", "-");
        if (i == first_variant(report))
            printf("  %10s\n", "-");
        else
            printf("  %10.1e\n", pagerank_difference(report, (pagerank_variant)i));
    }

    uint32_t top[TOP + 1];
    const double *ranks = first_ranks(report);
    unsigned count = top_vertices(g, ranks, top);
    printf("\n      vertex                rank\n");
    for (unsigned i = 0; i < count; i++)
        printf("%4u  %-20" PRIu64 "  %.6e\n", i + 1, g->ids[top[i]], ranks[top[i]]);
}

/* Ties every bit of a rank to its vertex, in any order of the vertices. */
static uint64_t checksum(const graph *g, const double *ranks)
{
    uint64_t sum = 0;
    for (uint32_t v = 0; v < g->vertices; v++) {
        uint64_t bits;
        memcpy(&bits, &ranks[v], sizeof bits);
        sum += random_mix(random_mix(g->ids[v] + 1) ^ bits);
    }
    return sum;
}

static void print_json_variant(const pagerank_report *report, pagerank_variant variant)
{
    const pagerank_result *result = &report->results[variant];
    double sum = 0;
    for (uint32_t v = 0; v < report->job->graph->vertices; v++)
        sum += result->ranks[v];
    printf("{\"variant\":\"%s\",\"seconds\":%.9f,\"superstep_seconds\":%.9f"
           ",\"remote_operations\":%" PRIu64 ",\"remote_operations_per_second\":%.0f",
           pagerank_variant_names[variant], result->seconds,
           result->seconds / report->job->supersteps, result->remote_operations,
           per_second(result));
    if (report->ran[VARIANT_SERIAL])
        printf(",\"speedup\":%.4f", speedup(report, result));
    printf(",\"difference\":%.3e,\"rank_sum\":%.17g,\"checksum\":\"%016" PRIx64 "\"}",
           pagerank_difference(report, variant), sum,
           checksum(report->job->graph, result->ranks));
}

/* Edges of the largest part over those of a mean one: all that a perfect machine loses; 0 if there
 * is no memory to count them. */
static double imbalance(const pagerank_job *job)
{
    const graph *g = job->graph;
    graph_partition p;
    graph_error error;
    if (graph_partition_make(&p, g->vertices, job->threads, job->seed, &error) != 0)
        return 0;
    uint64_t largest = 0, *edges = calloc(p.parts, sizeof *edges);
    for (uint32_t e = 0; edges && e < g->edges; e++) {
        uint64_t count = ++edges[p.slot[g->to[e]] / p.stride];
        largest = count > largest ? count : largest;
    }
    free(edges);
    graph_partition_free(&p);
    return g->edges ? (double)largest * job->threads / g->edges : 0;
}

void pagerank_print_json(const pagerank_report *report)
{
    const pagerank_job *job = report->job;
    printf("{\"program\":\"pagerank\",\"graph\":");
    program_json_text(stdout, report->input);
    printf(",\"vertices\":%u,\"edges\":%u,\"nodes\":%d,\"threads\":%u,\"node_threads\":%u"
           ",\"supersteps\":%u,\"seed\":%" PRIu64 ",\"imbalance\":%.6f,\"variants\":[",
           job->graph->vertices, job->graph->edges, report->nodes, job->threads,
           job->node_threads, job->supersteps, job->seed, imbalance(job));
    const char *separator = "";
    for (unsigned i = 0; i < VARIANT_COUNT; i++) {
        if (!report->ran[i])
            continue;
        printf("%s", separator);
        print_json_variant(report, (pagerank_variant)i);
        separator = ",";
    }

    uint32_t top[TOP + 1];
    const double *ranks = first_ranks(report);
    unsigned count = top_vertices(job->graph, ranks, top);
    printf("],\"top\":[");
    for (unsigned i = 0; i < count; i++)
        printf("%s{\"id\":%" PRIu64 ",\"rank\":%.17g}", i == 0 ? "" : ",",
               job->graph->ids[top[i]], ranks[top[i]]);
    printf("]}\n");
}

int pagerank_write_ranks(const pagerank_report *report, const char *path)
{
    const graph *g = report->job->graph;
    const double *ranks = first_ranks(report);
    FILE *file = fopen(path, "w");
    if (!file)
        return program_failed(PAGERANK_NAME, "%s: %s", path, strerror(errno));
    for (uint32_t v = 0; v < g->vertices; v++)
        fprintf(file, "%" PRIu64 " %.17g\n", g->ids[v], ranks[v]);
    bool failed = ferror(file) != 0;
    if (fclose(file) != 0 || failed)
        return program_failed(PAGERANK_NAME, "%s: cannot write the ranks: %s", path,
                              strerror(errno));
    return PROGRAM_OK;
}
