/* Edge lists (good, bad, compressed, cut), the generator, partitions, parts. */
#define _POSIX_C_SOURCE 200809L
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "../graph/graph.h"
#include "check.h"

static char folder[128];
static char path[192];

static void write_bytes(const char *name, const void *bytes, size_t length)
{
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *file = fopen(path, "wb");
    CHECK(file && fwrite(bytes, 1, length, file) == length && fclose(file) == 0);
}

/* Reads `text` as file graph.txt; true if it is a graph. */
static bool parse(const char *text, size_t length, bool undirected, graph *g, graph_error *error)
{
    memset(error, 0, sizeof *error);
    write_bytes("graph.txt", text, length);
    bool good = graph_read_edge_list(g, path, undirected, error) == 0;
    CHECK(good == (error->text[0] == '\0'));
    CHECK(good || (g->vertices == 0 && g->from == NULL && g->ids == NULL));
    return good;
}

static void check_error(const char *text, size_t length, const char *expected)
{
    graph g;
    graph_error error;
    char whole[1024];
    CHECK(!parse(text, length, false, &g, &error));
    snprintf(whole, sizeof whole, "%s%s", path, expected);
    if (strcmp(error.text, whole) != 0) {
        fprintf(stderr, "expected: %s\nfound:    %s\n", whole, error.text);
        exit(1);
    }
}

#define CHECK_ERROR(text, expected) check_error(text, sizeof(text) - 1, expected)

static void test_good_lists(void)
{
    graph g;
    graph_error error;
    const char text[] = "# comment\n\n  7\t18446744073709551615  \r\n"
                        "18446744073709551615 7\n   # indented\n7 7\n7 0";
    CHECK(parse(text, sizeof text - 1, false, &g, &error));
    CHECK(g.vertices == 3 && g.edges == 4);
    CHECK(g.ids[0] == 7 && g.ids[1] == UINT64_MAX && g.ids[2] == 0);
    const uint32_t from[] = {0, 1, 0, 0}, to[] = {1, 0, 0, 2};
    CHECK(memcmp(g.from, from, sizeof from) == 0 && memcmp(g.to, to, sizeof to) == 0);
    graph_free(&g);

    CHECK(parse(text, sizeof text - 1, true, &g, &error));
    CHECK(g.vertices == 3 && g.edges == 7); /* the loop stays one edge */
    CHECK(g.from[1] == g.to[0] && g.to[1] == g.from[0]);
    graph_free(&g);

    CHECK(parse("00000000000000000000000001 2\n", 29, false, &g, &error));
    CHECK(g.ids[0] == 1 && g.ids[1] == 2);
    graph_free(&g);
}

static void test_bad_lines(void)
{
    CHECK_ERROR("1 2\n# c\nabc\n", ":3: expected 'from to', found 'abc'");
    CHECK_ERROR("1 2\n1\n", ":2: expected 'from to', found '1'");
    CHECK_ERROR("1 2\n1 \n", ":2: expected 'from to', found '1 '");
    CHECK_ERROR("1 2 3\n", ":1: expected 'from to', found '1 2 3'");
    CHECK_ERROR("1 -2\n", ":1: expected 'from to', found '1 -2'");
    CHECK_ERROR("1,2\n", ":1: expected 'from to', found '1,2'");
    CHECK_ERROR("1 2x\n", ":1: expected 'from to', found '1 2x'");
    CHECK_ERROR("1 2\n3 4\n5\t\x01\xff", ":3: expected 'from to', found '5 ?" "?'");
    CHECK_ERROR("1\0002\n", ":1: expected 'from to', found '1?2'");
    CHECK_ERROR("aaaaaaaaaabbbbbbbbbbccccccccccddddddddddeeee\n",
                ":1: expected 'from to', found 'aaaaaaaaaabbbbbbbbbbccccccccccdddddddddd...'");
    CHECK_ERROR("1 18446744073709551616\n",
                ":1: expected ids of at most 64 bits, found '1 18446744073709551616'");
    CHECK_ERROR("99999999999999999999999 1\n",
                ":1: expected ids of at most 64 bits, found '99999999999999999999999 1'");
    CHECK_ERROR("", ": the graph is empty: no 'from to' line");
    CHECK_ERROR("# only\n#comments", ": the graph is empty: no 'from to' line");
}

static void test_bad_files(void)
{
    graph g;
    graph_error error;
    CHECK(graph_read_edge_list(&g, "/nonexistent/graph.txt", false, &error) != 0);
    CHECK(strcmp(error.text, "/nonexistent/graph.txt: No such file or directory") == 0);
    CHECK(graph_read_edge_list(&g, "/tmp", false, &error) != 0);
    CHECK(strcmp(error.text, "/tmp: Is a directory") == 0);

    size_t length = 300000;
    char *line = malloc(length);
    CHECK(line);
    memset(line, ' ', length);
    memcpy(line, "1 2\n3", 5);
    memcpy(line + length - 3, " 4\n", 3);
    check_error(line, length, ":2: line longer than 262143 bytes");
    memset(line + 4, '#', length - 4);
    check_error(line, length, ":2: line longer than 262143 bytes");
    free(line);
}

/* Many lines, so that every kind of block boundary falls somewhere into a line. */
static char *make_list(uint32_t lines, size_t *length)
{
    char *text = malloc((size_t)lines * 48);
    CHECK(text);
    *length = 0;
    for (uint32_t i = 0; i < lines; i++)
        *length += (size_t)snprintf(text + *length, 48, "%u %llu\n", i % 1000,
                                    (unsigned long long)i * i * UINT64_C(1000003));
    return text;
}

static void check_list(const graph *g, uint32_t lines)
{
    CHECK(g->edges == lines);
    for (uint32_t i = 0; i < lines; i++) {
        CHECK(g->ids[g->from[i]] == i % 1000);
        CHECK(g->ids[g->to[i]] == (uint64_t)i * i * UINT64_C(1000003));
    }
    for (uint32_t v = 0, next = 0; v < g->vertices; v++) /* numbered by first appearance */
        for (;; next++) {
            CHECK(next < 2 * lines);
            uint32_t end = next % 2 ? g->to[next / 2] : g->from[next / 2];
            CHECK(end <= v);
            if (end == v)
                break;
        }
}

static void test_gzip(void)
{
    enum { LINES = 100000 };
    size_t length;
    char *text = make_list(LINES, &length);
    graph g;
    graph_error error;
    CHECK(parse(text, length, false, &g, &error));
    check_list(&g, LINES);
    graph_free(&g);
    CHECK(parse(text, length - 1, false, &g, &error)); /* no newline at the end */
    check_list(&g, LINES);
    graph_free(&g);

    char zipped[192];
    snprintf(zipped, sizeof zipped, "%s/graph.gz", folder);
    gzFile file = gzopen(zipped, "wb");
    CHECK(file && gzwrite(file, text, (unsigned)length) == (int)length && gzclose(file) == Z_OK);
    CHECK(graph_read_edge_list(&g, zipped, false, &error) == 0);
    check_list(&g, LINES);
    graph_free(&g);

    FILE *raw = fopen(zipped, "rb");
    size_t size = raw ? fread(text, 1, length, raw) : 0;
    CHECK(size > 1000 && fclose(raw) == 0);
    for (size_t cut = 2; cut < size; cut += cut < 20 || cut > size - 20 ? 1 : size / 31) {
        char expected[256];
        write_bytes("cut.gz", text, cut);
        snprintf(expected, sizeof expected, "%s: the gzip file is truncated", path);
        CHECK(graph_read_edge_list(&g, path, false, &error) != 0);
        CHECK(strcmp(error.text, expected) == 0);
    }
    text[size / 2] ^= 0x55;
    write_bytes("damaged.gz", text, size);
    CHECK(graph_read_edge_list(&g, path, false, &error) != 0);
    CHECK(strncmp(error.text, path, strlen(path)) == 0);
    free(text);
}

static void test_kronecker(void)
{
    graph a, b, c;
    graph_error error;
    CHECK(graph_kronecker(&a, 10, 16, 1, false, &error) == 0);
    CHECK(graph_kronecker(&b, 10, 16, 1, false, &error) == 0);
    CHECK(graph_kronecker(&c, 10, 16, 2, false, &error) == 0);
    CHECK(a.vertices == 1024 && a.edges == 16384 && b.edges == 16384 && a.ids[1023] == 1023);
    CHECK(memcmp(a.from, b.from, a.edges * sizeof *a.from) == 0);
    CHECK(memcmp(a.to, b.to, a.edges * sizeof *a.to) == 0);
    CHECK(memcmp(a.from, c.from, a.edges * sizeof *a.from) != 0);

    /* Skewed, as Kronecker graphs are: some vertex has far more than the mean of 16 edges. */
    uint32_t degree[1024] = {0}, largest = 0;
    for (uint32_t e = 0; e < a.edges; e++) {
        CHECK(a.from[e] < 1024 && a.to[e] < 1024);
        degree[a.from[e]]++;
    }
    for (uint32_t v = 0; v < 1024; v++)
        largest = degree[v] > largest ? degree[v] : largest;
    CHECK(largest > 160);
    graph_free(&a);
    graph_free(&b);
    graph_free(&c);

    CHECK(graph_kronecker(&a, 4, 4, 1, true, &error) == 0);
    CHECK(a.edges > 64 && a.edges <= 128);
    graph_free(&a);
    CHECK(graph_kronecker(&a, 0, 16, 1, false, &error) != 0);
    CHECK(graph_kronecker(&a, 31, 16, 1, false, &error) != 0);
    CHECK(graph_kronecker(&a, 10, 0, 1, false, &error) != 0);
}

static void test_partition(void)
{
    graph g;
    graph_error error;
    CHECK(graph_kronecker(&g, 9, 8, 3, false, &error) == 0);
    g.vertices = 510; /* not a multiple of the parts; edges beyond it go */
    uint32_t kept = 0;
    for (uint32_t e = 0; e < g.edges; e++)
        if (g.from[e] < g.vertices && g.to[e] < g.vertices) {
            g.from[kept] = g.from[e];
            g.to[kept++] = g.to[e];
        }
    g.edges = kept;

    const uint32_t parts_of[] = {1, 2, 3, 7, 509, 510, 600};
    for (unsigned i = 0; i < sizeof parts_of / sizeof parts_of[0]; i++) {
        uint32_t parts = parts_of[i], seen = 0, edges = 0, moved = 0;
        graph_partition p, again;
        CHECK(graph_partition_make(&p, g.vertices, parts, 5, &error) == 0);
        CHECK(graph_partition_make(&again, g.vertices, parts, 5, &error) == 0);
        CHECK(memcmp(p.slot, again.slot, g.vertices * sizeof *p.slot) == 0);
        CHECK(p.stride % 8 == 0 && p.stride == graph_stride(g.vertices, parts));
        graph_partition_free(&again);
        uint32_t *vertex_of = malloc((size_t)parts * p.stride * sizeof *vertex_of);
        CHECK(vertex_of);
        memset(vertex_of, 0xff, (size_t)parts * p.stride * sizeof *vertex_of);
        for (uint32_t v = 0; v < g.vertices; v++) {
            CHECK(p.slot[v] / p.stride < parts && vertex_of[p.slot[v]] == UINT32_MAX);
            CHECK(p.slot[v] % p.stride < graph_part_size(&p, p.slot[v] / p.stride));
            vertex_of[p.slot[v]] = v;
            moved += p.slot[v] != v;
        }
        CHECK((moved == 0) == (parts == 1));
        for (uint32_t number = 0; number < parts; number++) {
            graph_part part;
            CHECK(graph_part_make(&part, &g, &p, number, &error) == 0);
            CHECK(part.vertices - g.vertices / parts <= 1);
            for (uint32_t index = 0; index < part.vertices; index++) {
                uint32_t v = vertex_of[number * p.stride + index];
                uint32_t e = part.start[index], out = 0;
                for (uint32_t j = 0; j < g.edges; j++) {
                    out += g.from[j] == v;
                    if (g.to[j] == v)
                        CHECK(e < part.start[index + 1] && part.source[e++] == p.slot[g.from[j]]);
                }
                CHECK(e == part.start[index + 1] && out == part.out_degree[index]);
            }
            seen += part.vertices;
            edges += part.start[part.vertices];
            graph_part_free(&part);
        }
        CHECK(seen == g.vertices && edges == g.edges);
        free(vertex_of);
        graph_partition_free(&p);
    }
    graph_free(&g);
}

static void make_folder(void)
{
    const char *base = getenv("TMPDIR");
    /* Errors hold a whole path, for which they have so much room. */
    if (!base || !*base || strlen(base) > 64)
        base = "/tmp";
    snprintf(folder, sizeof folder, "%s/rackmem-graph-XXXXXX", base);
    CHECK(mkdtemp(folder));
}

int main(void)
{
    make_folder();
    test_good_lists();
    test_bad_lines();
    test_bad_files();
    test_gzip();
    test_kronecker();
    test_partition();
    static const char *const names[] = {"graph.txt", "graph.gz", "cut.gz", "damaged.gz"};
    for (unsigned i = 0; i < 4; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        remove(path);
    }
    CHECK(rmdir(folder) == 0);
    puts("graph: ok");
    return 0;
}
