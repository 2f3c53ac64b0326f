/*
 * tsm_real: applications on local or borrowed memory, which do real work and check it (TSM, Figure 9): beside kernels
 * that only have access patterns like those of applications.
 */
#include <inttypes.h>
#include <string.h>

#include "../../program.h"
#include "../node.h"
#include "real.h"

#define NAME "tsm_real"

static const char about[] =
    "Runs an application on the node's own memory, or on memory that it borrows:\n"
    "\n"
    "  compress  finds matches in a text by hash chains, writes them by Huffman codes, and expands that again\n"
    "  sort      sorts records of 64 bytes by their keys, in runs that are merged\n"
    "  lisp      interprets a program that places queens on a board, and collects its cells\n"
    "\n"
    "Before the clock starts it makes the input and fills the caches with something else.\n"
    "\n"
    "  rackmem sim exec tsm-sim -n 2 -- tsm_real.rv64 --application sort --remote\n";

static const application *const applications[] = {&compressor, &sorter, &interpreter};

static const application *find(const char *name)
{
    for (unsigned i = 0; i < sizeof applications / sizeof *applications; i++)
        if (strcmp(applications[i]->name, name) == 0)
            return applications[i];
    return NULL;
}

/* Reads as much of other memory as the last-level cache holds. */
static bool empty_caches(uint64_t llc_bytes)
{
    uint64_t sum = 0;
    const volatile uint64_t *other = node_own(NAME, llc_bytes);
    for (uint64_t at = 0; other && at < llc_bytes / sizeof *other; at += LINE_BYTES / sizeof *other)
        sum += other[at];
    return other && sum == 0;
}

static int run(const application *a, uint64_t bytes, uint64_t llc_bytes, bool remote, bool json)
{
    uint64_t needed = a->memory(bytes);
    arena all = {.at = remote ? node_borrow(NAME, needed) : node_own(NAME, needed), .left = needed};
    if (!all.at)
        return PROGRAM_FAILED;
    if (!a->prepare(&all, bytes))
        return program_failed(NAME, "%s: %" PRIu64 " bytes are not enough", a->name, needed);
    if (!empty_caches(llc_bytes))
        return PROGRAM_FAILED;
    uint64_t begin = node_ns();
    a->work();
    uint64_t ns = node_ns() - begin;
    result found;
    if (!a->is_right(&found))
        return program_failed(NAME, "%s: the result is wrong", a->name);
    if (json)
        printf("{\"application\": \"%s\", \"remote\": %s, \"bytes\": %" PRIu64 ", \"ns\": %" PRIu64
               ", \"result\": %" PRIu64 ", \"check\": %" PRIu32 "}\n",
               a->name, remote ? "true" : "false", bytes, ns, found.number, found.check);
    else
        printf("%s of %" PRIu64 " bytes: %" PRIu64 ", check %08" PRIx32 "\n%s memory: %.1f us\n", a->name, bytes,
               found.number, found.check, remote ? "borrowed" : "local", (double)ns / 1000);
    return program_flush(NAME);
}

int main(int argc, char **argv)
{
    const char *name = "sort";
    uint64_t bytes = 1 << 19, llc_bytes = 2 << 20;
    bool remote = false, json = false;
    const option options[] = {
        {"application", OPTION_TEXT, &name, "NAME", "which (sort)", 0, 0},
        {"remote", OPTION_FLAG, &remote, NULL, "on borrowed memory", 0, 0},
        {"bytes", OPTION_BYTES, &bytes, "N", "the text, the records, or the cells (512K)", 1 << 14, 1 << 28},
        {"llc-bytes", OPTION_BYTES, &llc_bytes, "N", "last-level cache (2M)", 1 << 12, 1 << 30},
        {"json", OPTION_FLAG, &json, NULL, "one line of JSON", 0, 0},
        {0},
    };
    const command_line line = {NAME, "[options]", about, options, NULL};
    int status = options_parse(&line, argc, argv);
    if (status != OPTIONS_GO_ON)
        return status;
    const application *a = find(name);
    if (!a)
        return options_usage(&line, "--application is compress, sort or lisp");
    return program_nid() == 0 ? run(a, bytes, llc_bytes, remote, json) : PROGRAM_OK;
}
