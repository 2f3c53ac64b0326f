/* Command lines, right and wrong. Messages of wrong ones go to stderr, which is closed here. */
#include <string.h>

#include "../options.h"
#include "../program.h"
#include "../samples.h"
#include "check.h"

static bool flag;
static uint64_t number, bytes, limit;
static double seconds;
static const char *text, *operand;
static option_sizes sizes;

static const option options[] = {
    {"flag", OPTION_FLAG, &flag, NULL, "a flag", 0, 0},
    {"number", OPTION_NUMBER, &number, "N", "a number", 1, 100},
    {"bytes", OPTION_BYTES, &bytes, "BYTES", "bytes", 0, 0},
    {"limit", OPTION_BYTES, &limit, "BYTES", "bytes or inf", 0, UINT64_MAX},
    {"seconds", OPTION_SECONDS, &seconds, "S", "seconds", 0, 0},
    {"text", OPTION_TEXT, &text, "TEXT", "text", 0, 0},
    {"sizes", OPTION_SIZES, &sizes, "LIST", "sizes", 1, 1 << 20},
    {0},
};

static int parse(const char *a, const char *b)
{
    char program[] = "test", first[200], second[200];
    char *argv[] = {program, first, second, NULL};
    const command_line line = {"test", "[OPTIONS] FILE", "About.\n", options, &operand};
    snprintf(first, sizeof first, "%s", a);
    snprintf(second, sizeof second, "%s", b ? b : "");
    operand = NULL;
    return options_parse(&line, b ? 3 : 2, argv);
}

static void check_sizes(const char *list, unsigned count, uint64_t first, uint64_t last)
{
    CHECK(parse("--sizes", list) == OPTIONS_GO_ON);
    CHECK(sizes.count == count && sizes.at[0] == first && sizes.at[count - 1] == last);
}

int main(void)
{
    fclose(stderr);
    CHECK(parse("--flag", "--number=7") == OPTIONS_GO_ON && flag && number == 7);
    CHECK(parse("--bytes", "4K") == OPTIONS_GO_ON && bytes == 4096);
    CHECK(parse("--bytes=3G", NULL) == OPTIONS_GO_ON && bytes == UINT64_C(3) << 30);
    CHECK(parse("--limit", "inf") == OPTIONS_GO_ON && limit == UINT64_MAX);
    CHECK(parse("--limit", "0") == OPTIONS_GO_ON && limit == 0);
    CHECK(parse("--seconds", "0.25") == OPTIONS_GO_ON && seconds > 0.2 && seconds < 0.3);
    check_sizes("64", 1, 64, 64);
    check_sizes("64,1K,3", 3, 64, 3);
    check_sizes("8..1M", 18, 8, 1 << 20);
    check_sizes("1,2..9,1M", 5, 1, 1 << 20);

    static const char *const wrong[][2] = {
        {"-", NULL}, {"-x", NULL}, {"--", "--number"}, {"--nix", NULL}, {"--flag=1", NULL},
        {"--number", NULL}, {"--number", "0"}, {"--number", "101"}, {"--number", "x"},
        {"--number", "-1"}, {"--number", "5K"}, {"--number=", NULL}, {"--bytes", "inf"},
        {"--bytes", "1KK"}, {"--bytes", "99999999999999999999"}, {"--bytes", "18014398509481984K"},
        {"--seconds", "0"}, {"--seconds", "1s"}, {"--seconds", "nan"}, {"--sizes", ""},
        {"--sizes", "8,"}, {"--sizes", "8..4"}, {"--sizes", "0..4"}, {"--sizes", "8.."},
        {"--sizes", "2M"}, {"a", "b"},
    };
    for (unsigned i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
        int status = parse(wrong[i][0], wrong[i][1]);
        if (i == 2) /* after "--", everything is an operand */
            CHECK(status == OPTIONS_GO_ON && operand != NULL);
        else
            CHECK(status == PROGRAM_USAGE);
    }

    /* Samples last long enough, and are neither too few nor too many. */
    for (double operation = 1e-10; operation < 10; operation *= 3) {
        sample_plan plan = sample_plan_make(operation, 0.1);
        CHECK(plan.batch >= 1 && plan.samples >= SAMPLES_LEAST && plan.samples <= SAMPLES_MOST);
        CHECK(operation < 1e-9 || (double)plan.batch * operation >= SAMPLE_SECONDS * 0.7);
    }
    double values[] = {3, 1, 2};
    samples_sort(values, 3);
    CHECK(samples_quantile(values, 3, 0.5) > 1.5 && samples_quantile(values, 3, 0.5) < 2.5);
    CHECK(samples_quantile(values, 3, 1) > 2.5);
    puts("options: ok");
    return 0;
}
