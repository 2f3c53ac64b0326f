/* Files as they are, or compressed by gzip. */
#ifndef GRAPH_INPUT_H
#define GRAPH_INPUT_H

#include <stddef.h>

typedef struct input input;

/* Opens a file to be read in blocks of `block_bytes`; NULL if that fails, with a reason. */
input *input_open(const char *path, unsigned block_bytes, const char **why);

/* Reads up to `size` bytes; 0 at the end of the file, -1 with a reason if something is wrong. */
int input_read(input *in, void *bytes, unsigned size, const char **why);

void input_close(input *in);

#endif
