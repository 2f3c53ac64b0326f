#define _POSIX_C_SOURCE 200809L
#include "program.h"

#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int program_failed(const char *program, const char *format, ...)
{
    char text[1024]; /* one write, so that lines of several nodes do not mix */
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    fprintf(stderr, "%s: %s\n", program, text);
    return PROGRAM_FAILED;
}

/* A number that `rackmem run` has set; nonsense is left for rackmem_init to complain about. */
static int from_environment(const char *name, int otherwise)
{
    const char *text = getenv(name);
    long value = text ? strtol(text, NULL, 10) : otherwise;
    return value >= 0 && value <= RACKMEM_MAX_NODES ? (int)value : otherwise;
}

int program_nid(void)
{
    return from_environment("RACKMEM_NODE", 0);
}

int program_nodes(void)
{
    int nodes = from_environment("RACKMEM_NODES", 1);
    return nodes > 0 ? nodes : 1;
}

double program_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

void program_json_text(FILE *out, const char *text)
{
    putc('"', out);
    for (const char *p = text; *p; p++) {
        unsigned char c = (unsigned char)*p;
        if (c == '"' || c == '\\')
            fprintf(out, "\\%c", c);
        else if (c < ' ')
            fprintf(out, "\\u%04x", c);
        else
            putc(c, out);
    }
    putc('"', out);
}

int program_flush(const char *program)
{
    if (fflush(stdout) == 0 && !ferror(stdout))
        return PROGRAM_OK;
    return program_failed(program, "cannot write the output: %s", strerror(errno));
}
