/* The server: one thread, which takes the requests of all connections in turn. */
#define _GNU_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <unistd.h>

#include "../../program.h"
#include "cache.h"
#include "resp.h"
#include "store.h"

enum { READ_BYTES = 16 << 10, BACKLOG = 64 };

typedef struct connection {
    resp_bytes in, out;
    bool is_ending; /* when all answers have left */
} connection;

typedef struct server {
    store store;
    unsigned count; /* of connections */
    bool is_stopping;
    struct pollfd polls[1 + CACHE_MOST_CLIENTS]; /* the listener, then connections */
    connection connections[CACHE_MOST_CLIENTS];
} server;

typedef bool (*handler)(server *s, resp_bytes *out, const resp_word words[], size_t count);

static bool is_word(const resp_word *w, const char *text)
{
    return w->bytes == strlen(text) && strncasecmp(w->at, text, w->bytes) == 0;
}

static bool ping(server *s, resp_bytes *out, const resp_word words[], size_t count)
{
    (void)s;
    return count > 1 ? resp_add_value(out, words[1].at, words[1].bytes) : bytes_print(out, "+PONG\r\n");
}

static bool get(server *s, resp_bytes *out, const resp_word words[], size_t count)
{
    (void)count;
    const item *i = store_get(&s->store, words[1].at, words[1].bytes);
    return i ? resp_add_value(out, i->bytes + i->key_bytes, i->value_bytes) : bytes_add(out, "$-1\r\n", 5);
}

static bool set(server *s, resp_bytes *out, const resp_word words[], size_t count)
{
    (void)count;
    switch (store_set(&s->store, words[1].at, words[1].bytes, words[2].at, words[2].bytes)) {
    case STORE_DONE:
        return bytes_add(out, "+OK\r\n", 5);
    case STORE_TOO_LARGE:
        return bytes_print(out, "-OOM the item is larger than 'maxmemory'\r\n");
    case STORE_NO_MEMORY:
        break;
    }
    return bytes_print(out, "-OOM the node has no memory for the item\r\n");
}

static bool del(server *s, resp_bytes *out, const resp_word words[], size_t count)
{
    unsigned deleted = 0;
    for (size_t i = 1; i < count; i++)
        deleted += store_delete(&s->store, words[i].at, words[i].bytes);
    return bytes_print(out, ":%u\r\n", deleted);
}

static bool dbsize(server *s, resp_bytes *out, const resp_word words[], size_t count)
{
    (void)words, (void)count;
    return bytes_print(out, ":%zu\r\n", s->store.items);
}

static bool info(server *s, resp_bytes *out, const resp_word words[], size_t count)
{
    (void)words, (void)count;
    char text[256];
    const store *st = &s->store;
    int length = snprintf(text, sizeof text,
                          "used_memory:%" PRIu64 "\r\nmaxmemory:%" PRIu64 "\r\nevicted_keys:%" PRIu64
                          "\r\nconnected_clients:%u\r\n",
                          st->used_bytes, st->most_bytes, st->evicted, s->count);
    return resp_add_value(out, text, (size_t)length);
}

/* Digits alone; false if there are others. */
static bool number_in(const resp_word *w, uint64_t *number)
{
    char text[20];
    if (w->bytes == 0 || w->bytes >= sizeof text)
        return false;
    memcpy(text, w->at, w->bytes);
    text[w->bytes] = '\0';
    char *end;
    *number = strtoull(text, &end, 10);
    return text[0] >= '0' && text[0] <= '9' && *end == '\0';
}

static bool config_set(server *s, resp_bytes *out, const resp_word words[], size_t count)
{
    uint64_t most_bytes;
    bool is_policy = count == 4 && is_word(&words[2], "maxmemory-policy");
    if (is_policy && is_word(&words[3], "allkeys-lru"))
        return bytes_add(out, "+OK\r\n", 5);
    if (is_policy || count != 4 || !is_word(&words[2], "maxmemory") || !number_in(&words[3], &most_bytes))
        return bytes_print(out, "-ERR CONFIG SET knows 'maxmemory BYTES' and 'maxmemory-policy allkeys-lru'\r\n");
    store_limit(&s->store, most_bytes);
    return bytes_add(out, "+OK\r\n", 5);
}

/* Of all settings but one redis-benchmark is told that they are empty. */
static bool config(server *s, resp_bytes *out, const resp_word words[], size_t count)
{
    if (is_word(&words[1], "set"))
        return config_set(s, out, words, count);
    if (!is_word(&words[1], "get") || count != 3)
        return bytes_print(out, "-ERR CONFIG knows GET and SET\r\n");
    char text[24] = "";
    if (is_word(&words[2], "maxmemory"))
        snprintf(text, sizeof text, "%" PRIu64, s->store.most_bytes);
    return bytes_add(out, "*2\r\n", 4) && resp_add_value(out, words[2].at, words[2].bytes) &&
           resp_add_value(out, text, strlen(text));
}

static bool stop(server *s, resp_bytes *out, const resp_word words[], size_t count)
{
    (void)out, (void)words, (void)count;
    s->is_stopping = true;
    return true;
}

/* Words that a command has, itself among them. */
static const struct command {
    const char *name;
    handler handle;
    size_t least, most;
} commands[] = {
    {"get", get, 2, 2},       {"set", set, 3, 3},   {"del", del, 2, RESP_MOST_WORDS}, {"ping", ping, 1, 2},
    {"dbsize", dbsize, 1, 1}, {"info", info, 1, 2}, {"config", config, 2, 4},         {"shutdown", stop, 1, 2},
};

/* False: there is no memory for the answer. */
static bool handle(server *s, resp_bytes *out, const resp_word words[], size_t count)
{
    for (size_t i = 0; i < sizeof commands / sizeof *commands; i++) {
        const struct command *c = &commands[i];
        if (!is_word(&words[0], c->name))
            continue;
        if (count >= c->least && count <= c->most)
            return c->handle(s, out, words, count);
        return bytes_print(out, "-ERR wrong number of arguments for '%s'\r\n", c->name);
    }
    int length = words[0].bytes < 64 ? (int)words[0].bytes : 64;
    return bytes_print(out, "-ERR unknown command '%.*s'\r\n", length, words[0].at);
}

/* Takes all requests that are whole. */
static void take_requests(server *s, connection *c)
{
    resp_word words[RESP_MOST_WORDS];
    size_t count;
    const char *wrong;
    while (!c->is_ending && !s->is_stopping) {
        resp_state state = resp_take_request(&c->in, words, &count, &wrong);
        if (state == RESP_PARTIAL)
            return;
        bool is_well = state == RESP_WHOLE ? count == 0 || handle(s, &c->out, words, count) :
                                             bytes_print(&c->out, "-ERR Protocol error: %s\r\n", wrong);
        c->is_ending = !is_well || state == RESP_WRONG;
    }
}

/* Sends what the socket takes; false if the connection is at its end. */
static bool send_answers(connection *c, int fd)
{
    while (c->out.begin < c->out.end) {
        ssize_t sent = send(fd, c->out.at + c->out.begin, c->out.end - c->out.begin, MSG_NOSIGNAL);
        if (sent < 0)
            return errno == EAGAIN || errno == EINTR;
        c->out.begin += (size_t)sent;
    }
    return !c->is_ending;
}

/* Reads once; false if the connection is at its end. */
static bool read_requests(server *s, connection *c, int fd)
{
    if (!bytes_room(&c->in, READ_BYTES))
        return false;
    ssize_t got = read(fd, c->in.at + c->in.end, c->in.room - c->in.end);
    if (got < 0)
        return errno == EAGAIN || errno == EINTR;
    c->in.end += (size_t)got;
    take_requests(s, c);
    return got > 0;
}

static void end_connection(server *s, unsigned number)
{
    connection *c = &s->connections[number];
    close(s->polls[1 + number].fd);
    free(c->in.at);
    free(c->out.at);
    s->count--;
    *c = s->connections[s->count];
    s->polls[1 + number] = s->polls[1 + s->count];
}

static void accept_connection(server *s)
{
    int fd = accept4(s->polls[0].fd, NULL, NULL, SOCK_NONBLOCK), one = 1;
    if (fd < 0)
        return;
    if (s->count == CACHE_MOST_CLIENTS) {
        static const char full[] = "-ERR max number of clients reached\r\n";
        (void)!send(fd, full, sizeof full - 1, MSG_NOSIGNAL);
        close(fd);
        return;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    s->connections[s->count] = (connection){0};
    s->polls[1 + s->count++] = (struct pollfd){.fd = fd, .events = POLLIN};
}

static void serve_once(server *s)
{
    if (poll(s->polls, 1 + s->count, -1) < 0)
        return;
    for (unsigned i = s->count; i-- > 0;) {
        struct pollfd *p = &s->polls[1 + i];
        connection *c = &s->connections[i];
        bool goes_on = true;
        if (p->revents & (POLLIN | POLLHUP | POLLERR) && p->events == POLLIN)
            goes_on = read_requests(s, c, p->fd);
        /* Answers come before more requests, so that a client that reads nothing takes no more memory. */
        goes_on = send_answers(c, p->fd) && goes_on;
        p->events = c->out.begin < c->out.end ? POLLOUT : POLLIN;
        if (!goes_on)
            end_connection(s, i);
    }
    if (s->polls[0].revents & POLLIN)
        accept_connection(s);
}

static int listening(uint64_t port)
{
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
        bind(fd, (struct sockaddr *)&own, sizeof own) != 0 || listen(fd, BACKLOG) != 0)
        return -1;
    return fd;
}

int cache_serve(const cache_settings *set)
{
    static server s;
    int fd = listening(set->port);
    if (fd < 0)
        return program_failed(CACHE_NAME, "cannot listen at port %" PRIu64 ": %s", set->port, strerror(errno));
    if (!store_make(&s.store))
        return program_failed(CACHE_NAME, "no memory");
    s.polls[0] = (struct pollfd){.fd = fd, .events = POLLIN};
    while (!s.is_stopping)
        serve_once(&s);
    while (s.count > 0)
        end_connection(&s, 0);
    close(fd);
    return PROGRAM_OK;
}
