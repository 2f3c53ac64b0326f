/* pagerank: ranks the vertices of a graph in up to four ways and compares them. */
#include <stdlib.h>
#include <string.h>

#include "../options.h"
#include "../program.h"
#include "report.h"

/* Ranks that differ by more, relatively, are wrong: rounding alone stays far below. */
#define TOLERANCE 1e-9

static const char about[] =
    "Computes PageRank (soNUMA, section 7.5) and prints times and the ten highest ranks.\n"
    "\n"
    "GRAPH is a list of edges, one 'from to' per line, plain or gzip, as SNAP publishes them:\n"
    "lines that start with # are comments, ids are any numbers of up to 64 bits. Without GRAPH,\n"
    "--kronecker generates one. Ranks add up to 1, vertices without outgoing edges included.\n"
    "\n"
    "Variants:\n"
    "  serial  one thread; what speed-ups refer to\n"
    "  shm     threads that share the memory of one node\n"
    "  bulk    one process per node; each pulls its peers' results once per superstep\n"
    "  fine    one process per node; one remote read per edge between nodes\n"
    "          (with --node-threads, several threads share a node's edges)\n"
    "  all     these four, compared with each other\n"
    "\n"
    "bulk and fine need a rack:\n"
    "  rackmem run -n 4 -- :pagerank soc-Epinions1.txt.gz --undirected\n"
    "  rackmem run -n 2 -- :pagerank --kronecker 16 --variant bulk,fine --json\n"
    "  pagerank --variant serial,shm --threads 2 graph.txt\n";

typedef struct arguments {
    const char *graph;
    const char *variants;
    const char *kronecker;
    const char *ranks;
    bool undirected;
    bool json;
    uint64_t supersteps;
    uint64_t threads;
    uint64_t node_threads;
    uint64_t seed;
} arguments;

/* Parses "bulk,fine"; false if there is a name that is none. */
static bool parse_variants(const char *text, bool wanted[VARIANT_COUNT])
{
    for (;;) {
        size_t length = strcspn(text, ",");
        bool all = length == 3 && memcmp(text, "all", 3) == 0, known = all;
        for (unsigned i = 0; i < VARIANT_COUNT; i++) {
            const char *name = pagerank_variant_names[i];
            if (all || (strlen(name) == length && memcmp(name, text, length) == 0))
                known = wanted[i] = true;
        }
        if (!known)
            return false;
        if (text[length] == '\0')
            return true;
        text += length + 1;
    }
}

/* Parses "SCALE[:EDGEFACTOR]". */
static bool parse_kronecker(const char *text, unsigned *scale, unsigned *edge_factor)
{
    char *end;
    unsigned long first = strtoul(text, &end, 10), second = 16;
    bool fine = *text >= '0' && *text <= '9';
    if (fine && *end == ':') {
        const char *rest = end + 1;
        fine = *rest >= '0' && *rest <= '9';
        second = strtoul(rest, &end, 10);
    }
    if (!fine || *end != '\0' || first > 31 || second > 1u << 31)
        return false;
    *scale = (unsigned)first;
    *edge_factor = (unsigned)second;
    return true;
}

static int load(const arguments *a, graph *g, unsigned scale, unsigned edge_factor)
{
    graph_error error;
    int failed = a->graph
                     ? graph_read_edge_list(g, a->graph, a->undirected, &error)
                     : graph_kronecker(g, scale, edge_factor, a->seed, a->undirected, &error);
    return failed ? program_failed(PAGERANK_NAME, "%s", error.text) : PROGRAM_OK;
}

/* Node 0: prints and stores what came out, and checks that the variants agree. */
static int finish(const pagerank_report *report, const arguments *a)
{
    if (a->json)
        pagerank_print_json(report);
    else
        pagerank_print_table(report);
    int status = program_flush(PAGERANK_NAME);
    if (status == PROGRAM_OK && a->ranks)
        status = pagerank_write_ranks(report, a->ranks);
    for (unsigned i = 0; i < VARIANT_COUNT; i++) {
        double difference =
            report->ran[i] ? pagerank_difference(report, (pagerank_variant)i) : 0;
        if (!(difference <= TOLERANCE))
            status = program_failed(PAGERANK_NAME, "the ranks of %s are wrong: off by %.1e",
                                    pagerank_variant_names[i], difference);
    }
    return status;
}

static int run_variants(pagerank_report *report, const bool wanted[VARIANT_COUNT], bool alone)
{
    const pagerank_job *job = report->job;
    pagerank_rack rack;
    bool with_rack = wanted[VARIANT_BULK] || wanted[VARIANT_FINE];
    int status = PROGRAM_OK;
    if (with_rack && (status = pagerank_rack_open(&rack, job)) != PROGRAM_OK)
        return status;
    for (unsigned i = 0; i < VARIANT_COUNT && status == PROGRAM_OK; i++) {
        pagerank_result *result = &report->results[i];
        if (!wanted[i])
            continue;
        if (i == VARIANT_SERIAL && alone)
            status = pagerank_serial(job, result);
        else if (i == VARIANT_SHM && alone)
            status = pagerank_shm(job, result);
        else if (i == VARIANT_BULK)
            status = pagerank_bulk(&rack, job, result);
        else if (i == VARIANT_FINE)
            status = pagerank_fine(&rack, job, result);
        report->ran[i] = status == PROGRAM_OK;
        if (result->ranks) /* at node 0 */
            pagerank_normalise(job->graph, result->ranks);
    }
    if (with_rack)
        pagerank_rack_close(&rack);
    return status;
}

int main(int argc, char **argv)
{
    arguments a = {.variants = "all", .supersteps = 30, .node_threads = 1, .seed = 1};
    a.threads = (uint64_t)program_nodes();
    const option options[] = {
        {"variant", OPTION_TEXT, &a.variants, "LIST",
         "serial, shm, bulk, fine, several with commas, or all (default)", 0, 0},
        {"kronecker", OPTION_TEXT, &a.kronecker, "SCALE[:E]",
         "generate 2^SCALE vertices, E edges for each (default 16)\n"
         "with the parameters of Graph500", 0, 0},
        {"undirected", OPTION_FLAG, &a.undirected, NULL, "every line is an edge both ways", 0, 0},
        {"supersteps", OPTION_NUMBER, &a.supersteps, "N", "how often to compute all ranks (30)",
         1, 1000000},
        {"threads", OPTION_NUMBER, &a.threads, "N", "threads of shm (as many as nodes)", 1, 1024},
        {"node-threads", OPTION_NUMBER, &a.node_threads, "N",
         "threads of fine in every node, each with a queue pair (1)", 1, 1024},
        {"seed", OPTION_NUMBER, &a.seed, "N", "of the generator and the random partition (1)",
         0, 0},
        {"ranks", OPTION_TEXT, &a.ranks, "FILE",
         "write 'id rank' lines with all digits (of the first\nvariant, if there are several)",
         0, 0},
        {"json", OPTION_FLAG, &a.json, NULL, "print one line of JSON", 0, 0},
        {0},
    };
    const command_line line = {PAGERANK_NAME, "[OPTIONS] GRAPH | --kronecker SCALE[:E]", about,
                               options, &a.graph};
    int status = options_parse(&line, argc, argv);
    if (status != OPTIONS_GO_ON)
        return status;

    bool wanted[VARIANT_COUNT] = {false};
    unsigned scale = 0, edge_factor = 0;
    if (!parse_variants(a.variants, wanted))
        return options_usage(&line, "--variant: expected serial, shm, bulk, fine or all");
    if (a.kronecker && !parse_kronecker(a.kronecker, &scale, &edge_factor))
        return options_usage(&line, "--kronecker: expected SCALE[:EDGEFACTOR], such as 16:8");
    if (!a.graph == !a.kronecker)
        return options_usage(&line, a.graph ? "expected a GRAPH or --kronecker, not both"
                                            : "expected a GRAPH or --kronecker");

    bool is_first = program_nid() == 0;
    if (!is_first && !wanted[VARIANT_BULK] && !wanted[VARIANT_FINE])
        return PROGRAM_OK; /* nothing for this node to do */

    graph g;
    status = load(&a, &g, scale, edge_factor);
    if (status != PROGRAM_OK)
        return status;
    const pagerank_job job = {.graph = &g,
                              .supersteps = (unsigned)a.supersteps,
                              .threads = (unsigned)a.threads,
                              .node_threads = (unsigned)a.node_threads,
                              .seed = a.seed};
    char generated[64];
    snprintf(generated, sizeof generated, "Kronecker %u:%u", scale, edge_factor);
    pagerank_report report = {.input = a.graph ? a.graph : generated,
                              .job = &job,
                              .nodes = program_nodes()};
    status = run_variants(&report, wanted, is_first);
    if (status == PROGRAM_OK && is_first)
        status = finish(&report, &a);
    for (unsigned i = 0; i < VARIANT_COUNT; i++)
        free(report.results[i].ranks);
    graph_free(&g);
    return status;
}
