/*
 * Edge lists of strangers: read, or refused with a reason that names the file; a graph that was read is what its
 * numbers say.
 */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../../programs/graph/graph.h"

static void require(int is_so)
{
    if (!is_so)
        abort();
}

static void read_once(const char *path, int is_undirected)
{
    graph g;
    graph_error error = {{0}};
    if (graph_read_edge_list(&g, path, is_undirected, &error) != 0) {
        require(strncmp(error.text, path, strlen(path)) == 0 && g.edges == 0 && !g.from);
        return;
    }
    require(g.edges > 0 && g.vertices > 0);
    for (uint32_t edge = 0; edge < g.edges; edge++)
        require(g.from[edge] < g.vertices && g.to[edge] < g.vertices);
    graph_free(&g);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static int file = -1;
    static char path[32];
    if (file < 0) {
        file = memfd_create("edges", 0);
        snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    }
    require(ftruncate(file, 0) == 0 && pwrite(file, data, size, 0) == (ssize_t)size);
    read_once(path, size % 2 == 0);
    return 0;
}
