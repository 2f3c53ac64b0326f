/*
 * Duties of cache-integrated network interfaces (CINI §3): every mechanism, and what each kind
 * of packet does at each kind of line (Figure 5), tried by all cores with their neighbours. The way
 * from core to core is that from a core to its neighbour, the last one's being the first.
 *
 *     rackmem sim exec cache-integrated -- scr_test.rv64 [TEST]
 *     rackmem sim exec cache-integrated -- scr_test.rv64 --wrong double-write
 *
 * A test ends when all cores have passed it; the first one says so. --wrong does one thing that a
 * program must not do, and which has to end it.
 */
#include <inttypes.h>
#include <string.h>

#include "../program.h"
#include "scr_test.h"

#define NAME "scr_test"

static const char about[] =
    "Tests scratchpads in caches, command buffers, counters, queues and acknowledgements.\n"
    "\n"
    "  rackmem sim exec cache-integrated -- scr_test.rv64\n"
    "  rackmem sim exec cache-integrated -- scr_test.rv64 --wrong overflow\n";

static const char *wanted;
static const char *wrong;

/* All that run, in this order. */
static const test *const tables[] = {
    scr_memory, scr_commands, scr_copies, scr_counters, scr_queues, scr_acks, scr_syslib,
};
enum { TABLES = sizeof tables / sizeof *tables };

static const test *find(const test *table, const char *name)
{
    while (table->name && strcmp(table->name, name) != 0)
        table++;
    return table->name ? table : NULL;
}

static bool is_there(const char *name)
{
    for (unsigned i = 0; i < TABLES; i++)
        if (find(tables[i], name))
            return true;
    return find(scr_on_demand, name);
}

/* ---- Set-up ------------------------------------------------------------------------------ */

static void lay_out(chip *c)
{
    scr_pad *pad = &c->self->pad;
    for (int i = 0; i < COMMANDS; i++)
        CHECK((c->command[i] = scr_alloc_command(pad)));
    for (int i = 0; i < COUNTERS; i++)
        CHECK((c->counter[i] = scr_alloc_counter(pad, -1, NULL)));
    for (int i = 0; i < FLAGS; i++)
        CHECK((c->flag[i] = scr_alloc(pad, SCR_WORD_BYTES, SCR_LINE_BYTES)));
    CHECK((c->sr_queue = scr_alloc_sr_queue(pad, SR_ITEMS, 1)));
    CHECK((c->long_queue = scr_alloc_sr_queue(pad, LONG_ITEMS, 4)));
    CHECK((c->mr_queue = scr_alloc_mr_queue(pad, MR_ITEMS, 1)));
    CHECK((c->mr_pairs = scr_alloc_mr_queue(pad, 4, 2)));
    CHECK((c->saved = scr_alloc(pad, 4 * SCR_LINE_BYTES, 4 * SCR_LINE_BYTES)));
    CHECK((c->source = scr_alloc(pad, AREA_BYTES, SCR_LINE_BYTES)));
    CHECK((c->target = scr_alloc(pad, AREA_BYTES, SCR_LINE_BYTES)));
    for (uint64_t i = 0; i < AREA_BYTES; i++)
        c->source[i] = pattern(c->number, i);
}

static void pass(chip *c, const test *t)
{
    t->run(c);
    meet(c);
    if (c->number == 0) {
        printf("PASS %s\n", t->name);
        fflush(stdout); /* so far it went, whatever comes */
    }
    meet(c);
}

static void work(sys_member *self, void *argument)
{
    (void)argument;
    chip c = {.self = self, .number = self->number, .members = self->team->members};
    c.next = (c.number + 1) % c.members;
    c.previous = (c.number + c.members - 1) % c.members;
    lay_out(&c);
    meet(&c);
    if (wrong) {
        if (c.number == 0) {
            find(scr_mistakes, wrong)->run(&c);
            CHECK(stays_zero(c.flag[0]));
        }
        meet(&c);
        return;
    }
    const test *only = wanted ? find(scr_on_demand, wanted) : NULL;
    if (only)
        pass(&c, only);
    for (unsigned i = 0; i < TABLES; i++)
        for (const test *t = tables[i]; t->name; t++)
            if (!wanted || strcmp(wanted, t->name) == 0)
                pass(&c, t);
}

int main(int argc, char **argv)
{
    uint64_t cores = 4;
    const option options[] = {
        {"cores", OPTION_NUMBER, &cores, "N", "that take part (4)", 1, MOST_CORES},
        {"wrong", OPTION_TEXT, &wrong, "WHAT", "do something that must not be done", 0, 0},
        {0},
    };
    const command_line line = {NAME, "[OPTIONS] [TEST]", about, options, &wanted};
    int status = options_parse(&line, argc, argv);
    if (status != OPTIONS_GO_ON)
        return status;
    if (wanted && !is_there(wanted))
        return options_usage(&line, "there is no such test");
    if (wrong && !find(scr_mistakes, wrong))
        return options_usage(&line, "--wrong: there is no such mistake");
    status = chip_run(NAME, (unsigned)cores, work, NULL);
    if (status == 0 && wrong)
        return program_failed(NAME, "nobody has noticed %s", wrong);
    if (status == 0)
        printf("%s: passed on %" PRIu64 " cores\n", NAME, cores);
    return status == 0 ? program_flush(NAME) : status;
}
