/*
 * Command lines: a program describes its options once, in a table; parsing and --help both come
 * from it. Options are `--name value` or `--name=value`.
 */
#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

/* The type of an option is that of the variable it sets. */
typedef enum option_type {
    OPTION_FLAG,   /* bool; takes no value */
    OPTION_NUMBER, /* uint64_t */
    OPTION_BYTES,  /* uint64_t; K, M and G multiply by 1024; "inf" where the limit allows it */
    OPTION_SECONDS,/* double, above 0 */
    OPTION_TEXT,   /* const char * */
    OPTION_SIZES   /* option_sizes: "64,4K" or "8..1M" (doubling) */
} option_type;

enum { OPTION_MAX_SIZES = 64 };

typedef struct option_sizes {
    unsigned count;
    uint64_t at[OPTION_MAX_SIZES];
} option_sizes;

typedef struct option {
    const char *name; /* without the dashes */
    option_type type;
    void *variable;        /* holds the default before */
    const char *value;     /* what --help calls the value */
    const char *help;      /* may have several lines */
    uint64_t least, most;  /* of numbers, bytes and sizes; 0 and 0: any */
} option;

typedef struct command_line {
    const char *program;
    const char *synopsis; /* arguments, as shown after "usage: program" */
    const char *about;    /* what it does and how to use it: paragraphs */
    const option *options; /* ends with a name of NULL */
    const char **operand;  /* the one argument that is not an option; NULL: there is none */
} command_line;

enum { OPTIONS_GO_ON = -1 };

/* Sets the variables. Returns OPTIONS_GO_ON, or the exit status to leave with: after --help, or
 * after an error, which is on stderr then. Only node 0 prints. */
int options_parse(const command_line *line, int argc, char **argv);

/* Prints "program: text" and where to find help. Returns the exit status for wrong usage. */
int options_usage(const command_line *line, const char *text);

#endif
