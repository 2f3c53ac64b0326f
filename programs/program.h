/* The common part of the programs of this folder: say what failed, tell the time, write JSON. */
#ifndef PROGRAM_H
#define PROGRAM_H

#include <rackmem.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

/* Exit statuses. */
enum { PROGRAM_OK = 0, PROGRAM_FAILED = 1, PROGRAM_USAGE = 2 };

/* Prints "program: <printf text>". Returns PROGRAM_FAILED. */
int program_failed(const char *program, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Prints "program: doing: why" after a call to rackmem/runtime.h failed. Returns PROGRAM_FAILED. */
static inline int program_call_failed(const char *program, const char *doing)
{
    return program_failed(program, "%s: %s", doing, rackmem_last_error());
}

/* Likewise after a remote operation, a message or a barrier returned `error`. */
static inline int program_operation_failed(const char *program, const char *doing, int error)
{
    return program_failed(program, "%s: %s", doing, rackmem_strerror(error));
}

/* This node's number and how many there are, as known before rackmem_init: a program may need
 * them to size its segment. Without a rack: node 0 of 1. */
int program_nid(void);
int program_nodes(void);

/* Seconds since some moment in the past, from a clock that never jumps. */
double program_seconds(void);

/* Writes a string with quotes and escapes. */
void program_json_text(FILE *out, const char *text);

/* Whether everything printed so far has arrived; if not, says so. Returns an exit status. */
int program_flush(const char *program);

#endif
