#include "options.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program.h"

int options_usage(const command_line *line, const char *text)
{
    if (program_nid() == 0)
        fprintf(stderr, "%s: %s; see %s --help\n", line->program, text, line->program);
    return PROGRAM_USAGE;
}

static void print_help(const command_line *line)
{
    if (program_nid() != 0)
        return;
    printf("usage: %s %s\n\n%s\nOptions:\n", line->program, line->synopsis, line->about);
    for (const option *o = line->options; o->name; o++) {
        char head[64];
        snprintf(head, sizeof head, "--%s%s%s", o->name, o->value ? " " : "",
                 o->value ? o->value : "");
        printf("  %-22s", head);
        for (const char *p = o->help; *p; p++) {
            putchar(*p);
            if (*p == '\n')
                printf("%24s", "");
        }
        putchar('\n');
    }
    printf("  %-22sthis text\n\nExit status: 0 done, 1 failed, 2 wrong usage.\n", "--help");
}

/* Parses digits and, if allowed, a unit; returns the first character after them, or NULL. */
static const char *parse_number(const char *text, bool units, uint64_t *number)
{
    if (*text < '0' || *text > '9')
        return NULL;
    char *end;
    errno = 0;
    unsigned long long value = strtoull(text, &end, 10);
    if (errno != 0)
        return NULL;
    unsigned shift = 0;
    if (units && *end) {
        shift = *end == 'K' || *end == 'k' ? 10 : *end == 'M' ? 20 : *end == 'G' ? 30 : *end == 'T' ? 40 : 0;
        end += shift != 0;
    }
    if (value > UINT64_MAX >> shift)
        return NULL;
    *number = (uint64_t)value << shift;
    return end;
}

static bool within(const option *o, uint64_t number)
{
    return number >= o->least && (o->most == 0 || number <= o->most);
}

static bool add_size(const option *o, uint64_t size)
{
    option_sizes *sizes = o->variable;
    if (!within(o, size) || sizes->count == OPTION_MAX_SIZES)
        return false;
    sizes->at[sizes->count++] = size;
    return true;
}

static bool parse_sizes(const option *o, const char *text)
{
    option_sizes *sizes = o->variable;
    sizes->count = 0;
    for (;;) {
        uint64_t first, last;
        text = parse_number(text, true, &first);
        if (!text || !add_size(o, first))
            return false;
        if (strncmp(text, "..", 2) == 0) {
            text = parse_number(text + 2, true, &last);
            if (!text || first == 0 || last < first || !within(o, last))
                return false;
            while (first <= last / 2)
                if (!add_size(o, first *= 2))
                    return false;
        }
        if (*text == '\0')
            return true;
        if (*text++ != ',')
            return false;
    }
}

static bool parse_value(const option *o, const char *text)
{
    uint64_t number;
    const char *end;
    switch (o->type) {
    case OPTION_TEXT:
        *(const char **)o->variable = text;
        return true;
    case OPTION_SECONDS: {
        char *rest;
        double seconds = strtod(text, &rest);
        *(double *)o->variable = seconds;
        return rest != text && *rest == '\0' && seconds > 0 && seconds < 1e9;
    }
    case OPTION_SIZES:
        return parse_sizes(o, text);
    case OPTION_BYTES:
        if (strcmp(text, "inf") == 0 && o->most == UINT64_MAX) {
            *(uint64_t *)o->variable = UINT64_MAX;
            return true;
        }
        break;
    case OPTION_NUMBER:
    case OPTION_FLAG:
        break;
    }
    end = parse_number(text, o->type == OPTION_BYTES, &number);
    if (!end || *end != '\0' || !within(o, number))
        return false;
    *(uint64_t *)o->variable = number;
    return true;
}

static int wrong_value(const command_line *line, const option *o, const char *text)
{
    char message[256], limits[80] = "";
    static const char *const expected[] = {
        [OPTION_NUMBER] = "a number",
        [OPTION_BYTES] = "a number of bytes such as 4096 or 4K",
        [OPTION_SECONDS] = "a number of seconds above 0",
        [OPTION_SIZES] = "sizes such as 64,4K or 8..1M",
    };
    if (o->most != 0 && o->most != UINT64_MAX)
        snprintf(limits, sizeof limits, " from %llu to %llu", (unsigned long long)o->least,
                 (unsigned long long)o->most);
    else if (o->least != 0)
        snprintf(limits, sizeof limits, " from %llu", (unsigned long long)o->least);
    snprintf(message, sizeof message, "--%s: expected %s%s%s, found '%.60s'", o->name,
             expected[o->type], limits, o->most == UINT64_MAX ? " or inf" : "", text);
    return options_usage(line, message);
}

static const option *find_option(const command_line *line, const char *name, size_t length)
{
    for (const option *o = line->options; o->name; o++)
        if (strlen(o->name) == length && memcmp(o->name, name, length) == 0)
            return o;
    return NULL;
}

int options_parse(const command_line *line, int argc, char **argv)
{
    char message[160];
    bool only_operands = false;
    for (int i = 1; i < argc; i++) {
        const char *argument = argv[i];
        if (only_operands || argument[0] != '-') {
            if (!line->operand || *line->operand) {
                snprintf(message, sizeof message, "unexpected argument '%.60s'", argument);
                return options_usage(line, message);
            }
            *line->operand = argument;
            continue;
        }
        if (strcmp(argument, "--") == 0) {
            only_operands = true;
            continue;
        }
        if (strcmp(argument, "--help") == 0 || strcmp(argument, "-h") == 0) {
            print_help(line);
            return program_flush(line->program);
        }

        const char *name = strncmp(argument, "--", 2) == 0 ? argument + 2 : "";
        const char *value = NULL;
        size_t length = strcspn(name, "=");
        const option *o = find_option(line, name, length);
        if (!o) {
            snprintf(message, sizeof message, "unknown option '%.60s'", argument);
            return options_usage(line, message);
        }
        if (name[length] == '=')
            value = name + length + 1;
        if (o->type == OPTION_FLAG) {
            if (value) {
                snprintf(message, sizeof message, "--%s takes no value", o->name);
                return options_usage(line, message);
            }
            *(bool *)o->variable = true;
            continue;
        }
        if (!value && ++i < argc)
            value = argv[i];
        if (!value) {
            snprintf(message, sizeof message, "--%s needs a value: %s", o->name, o->value);
            return options_usage(line, message);
        }
        if (!parse_value(o, value))
            return wrong_value(line, o, value);
    }
    return OPTIONS_GO_ON;
}
