/* Reads edge lists as published by SNAP (https://snap.stanford.edu/data). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "graph.h"
#include "input.h"
#include "random.h"

enum {
    BUFFER_BYTES = 1 << 18, /* also the longest line */
    FIRST_CAPACITY = 1 << 16,
    FIRST_TABLE_BITS = 14,
    EXCERPT_BYTES = 40      /* of a bad line, in its error message */
};

/* One slot of the table id -> vertex. */
typedef struct id_entry {
    uint64_t id;
    uint32_t vertex_plus_1; /* 0: free */
} id_entry;

typedef struct reader {
    const char *path;
    graph_error *error;
    graph *g;
    uint64_t line; /* number of the line being parsed, from 1 */
    uint32_t edge_capacity;
    uint32_t id_capacity;
    id_entry *table;
    unsigned table_bits;
    bool undirected;
} reader;

static int out_of_memory(reader *r)
{
    snprintf(r->error->text, sizeof r->error->text, "%s: not enough memory for the graph", r->path);
    return -1;
}

static int too_large(reader *r, const char *what)
{
    snprintf(r->error->text, sizeof r->error->text, "%s:%llu: more than %lu %s", r->path,
             (unsigned long long)r->line, (unsigned long)UINT32_MAX - 1, what);
    return -1;
}

static uint32_t next_capacity(uint32_t capacity)
{
    return capacity == 0 ? FIRST_CAPACITY : capacity > UINT32_MAX / 2 ? UINT32_MAX : capacity * 2;
}

static bool grow_edges(reader *r)
{
    size_t capacity = next_capacity(r->edge_capacity);
    uint32_t *from = realloc(r->g->from, capacity * sizeof *from);
    if (from)
        r->g->from = from;
    uint32_t *to = realloc(r->g->to, capacity * sizeof *to);
    if (to)
        r->g->to = to;
    if (!from || !to)
        return false;
    r->edge_capacity = (uint32_t)capacity;
    return true;
}

static bool grow_ids(reader *r)
{
    size_t capacity = next_capacity(r->id_capacity);
    uint64_t *ids = realloc(r->g->ids, capacity * sizeof *ids);
    if (!ids)
        return false;
    r->g->ids = ids;
    r->id_capacity = (uint32_t)capacity;
    return true;
}

/* The table's slot of an id, or the free slot where it belongs. */
static id_entry *find_id(id_entry *table, unsigned bits, uint64_t id)
{
    size_t mask = ((size_t)1 << bits) - 1;
    size_t i = (size_t)(random_mix(id) >> (64 - bits));
    while (table[i].vertex_plus_1 != 0 && table[i].id != id)
        i = (i + 1) & mask;
    return &table[i];
}

static bool grow_table(reader *r)
{
    unsigned bits = r->table ? r->table_bits + 1 : FIRST_TABLE_BITS;
    id_entry *bigger = calloc((size_t)1 << bits, sizeof *bigger);
    if (!bigger)
        return false;
    for (uint32_t v = 0; v < r->g->vertices; v++) {
        id_entry *entry = find_id(bigger, bits, r->g->ids[v]);
        entry->id = r->g->ids[v];
        entry->vertex_plus_1 = v + 1;
    }
    free(r->table);
    r->table = bigger;
    r->table_bits = bits;
    return true;
}

/* Sets *vertex to the number of an id, a new one if it is seen for the first time. */
static int vertex_of(reader *r, uint64_t id, uint32_t *vertex)
{
    id_entry *entry = find_id(r->table, r->table_bits, id);
    if (entry->vertex_plus_1 == 0) {
        if (r->g->vertices >= UINT32_MAX - 1)
            return too_large(r, "vertices");
        if (r->g->vertices == r->id_capacity && !grow_ids(r))
            return out_of_memory(r);
        if (r->g->vertices >= ((size_t)1 << r->table_bits) / 2) {
            if (!grow_table(r))
                return out_of_memory(r);
            entry = find_id(r->table, r->table_bits, id);
        }
        r->g->ids[r->g->vertices] = id;
        entry->id = id;
        entry->vertex_plus_1 = ++r->g->vertices;
    }
    *vertex = entry->vertex_plus_1 - 1;
    return 0;
}

static int add_edge(reader *r, uint32_t from, uint32_t to)
{
    graph *g = r->g;
    if (g->edges >= UINT32_MAX - 1)
        return too_large(r, "edges");
    if (g->edges == r->edge_capacity && !grow_edges(r))
        return out_of_memory(r);
    g->from[g->edges] = from;
    g->to[g->edges] = to;
    g->edges++;
    return 0;
}

/* "graph.txt:17: <what>, found 'abc'", with the start of the line between quotes. */
static int bad_line(reader *r, const char *line, const char *what)
{
    char excerpt[EXCERPT_BYTES + 4];
    size_t length = 0;
    while (line[length] != '\n' && line[length] != '\r')
        length++;
    size_t shown = length < EXCERPT_BYTES ? length : EXCERPT_BYTES;
    for (size_t i = 0; i < shown; i++) {
        unsigned char c = (unsigned char)line[i];
        excerpt[i] = (char)(c >= ' ' && c < 127 ? c : c == '\t' ? ' ' : '?');
    }
    strcpy(excerpt + shown, shown < length ? "..." : "");
    snprintf(r->error->text, sizeof r->error->text, "%s:%llu: %s, found '%s'", r->path,
             (unsigned long long)r->line, what, excerpt);
    return -1;
}

static const char *skip_blanks(const char *p)
{
    while (*p == ' ' || *p == '\t' || *p == '\r')
        p++;
    return p;
}

enum number { NUMBER_OK, NUMBER_NONE, NUMBER_TOO_LARGE };

static inline enum number parse_id(const char **cursor, uint64_t *id)
{
    const char *p = *cursor;
    uint64_t value = 0;
    unsigned digit;
    if ((unsigned)(*p - '0') > 9)
        return NUMBER_NONE;
    for (; (digit = (unsigned)(*p - '0')) <= 9; p++) {
        if (value >= UINT64_MAX / 10 && (value > UINT64_MAX / 10 || digit > UINT64_MAX % 10))
            return NUMBER_TOO_LARGE;
        value = value * 10 + digit;
    }
    *cursor = p;
    *id = value;
    return NUMBER_OK;
}

/* Parses whole lines; `end` follows a newline, which stops every loop over a line. */
static int parse_lines(reader *r, const char *p, const char *end)
{
    uint64_t last_id = 0;
    uint32_t last_vertex = UINT32_MAX; /* listings repeat `from`: no need to look it up again */

    for (; p < end; p++) { /* p is at the newline when a pass ends */
        const char *line = p;
        uint64_t ids[2];
        uint32_t from, to;
        enum number number;
        r->line++;
        p = skip_blanks(p);
        if (*p == '#')
            p = memchr(p, '\n', (size_t)(end - p));
        if (*p == '\n')
            continue;

        if ((number = parse_id(&p, &ids[0])) == NUMBER_OK) {
            if (*p == ' ' || *p == '\t') {
                p = skip_blanks(p);
                number = parse_id(&p, &ids[1]);
            } else {
                number = NUMBER_NONE;
            }
        }
        if (number == NUMBER_TOO_LARGE)
            return bad_line(r, line, "expected ids of at most 64 bits");
        if (number == NUMBER_NONE || *(p = skip_blanks(p)) != '\n')
            return bad_line(r, line, "expected 'from to'");

        if (ids[0] == last_id && last_vertex != UINT32_MAX)
            from = last_vertex;
        else if (vertex_of(r, ids[0], &from) != 0)
            return -1;
        last_id = ids[0];
        last_vertex = from;
        if (vertex_of(r, ids[1], &to) != 0 || add_edge(r, from, to) != 0)
            return -1;
        if (r->undirected && from != to && add_edge(r, to, from) != 0)
            return -1;
    }
    return 0;
}

static int read_failed(reader *r, const char *why)
{
    snprintf(r->error->text, sizeof r->error->text, "%s: %s", r->path, why);
    return -1;
}

/* Reads the file block by block and parses the lines that are complete. */
static int read_lines(reader *r, input *file, char *buffer)
{
    size_t kept = 0; /* bytes of a line that is not complete yet */
    for (;;) {
        const char *why;
        int got = input_read(file, buffer + kept, (unsigned)(BUFFER_BYTES - kept), &why);
        if (got < 0)
            return read_failed(r, why);
        if (got == 0)
            break;

        size_t filled = kept + (size_t)got, whole = filled;
        while (whole > kept && buffer[whole - 1] != '\n')
            whole--;
        if (whole == kept)
            whole = 0; /* the rest of a line, still without its newline */
        if (parse_lines(r, buffer, buffer + whole) != 0)
            return -1;
        kept = filled - whole;
        memmove(buffer, buffer + whole, kept);
        if (kept == BUFFER_BYTES) {
            snprintf(r->error->text, sizeof r->error->text, "%s:%llu: line longer than %d bytes",
                     r->path, (unsigned long long)r->line + 1, BUFFER_BYTES - 1);
            return -1;
        }
    }
    if (kept == 0)
        return 0;
    buffer[kept] = '\n'; /* the last line may lack its newline */
    return parse_lines(r, buffer, buffer + kept + 1);
}

int graph_read_edge_list(graph *g, const char *path, bool undirected, graph_error *error)
{
    reader r = {.path = path, .error = error, .g = g, .undirected = undirected};
    *g = (graph){0};

    const char *why;
    input *file = input_open(path, BUFFER_BYTES, &why);
    if (!file)
        return read_failed(&r, why);
    int status = -1;
    char *buffer = malloc(BUFFER_BYTES);
    if (!buffer || !grow_edges(&r) || !grow_ids(&r) || !grow_table(&r))
        out_of_memory(&r);
    else
        status = read_lines(&r, file, buffer);
    free(buffer);
    free(r.table);
    input_close(file);

    if (status == 0 && g->edges == 0) {
        snprintf(error->text, sizeof error->text, "%s: the graph is empty: no 'from to' line",
                 path);
        status = -1;
    }
    if (status != 0)
        graph_free(g);
    return status;
}

void graph_free(graph *g)
{
    free(g->ids);
    free(g->from);
    free(g->to);
    *g = (graph){0};
}
