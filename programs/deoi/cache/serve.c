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

enum { READ_BYTES = 16 << 10, BACKLOG = 64, MOST_OUT_BYTES = 1 << 20, REST_MS = 1000 };

typedef struct connection {
    resp_bytes in, out;
    bool is_ending; /* when all answers have left */
    bool has_more;  /* requests may be in `in` that wait for answers to leave */
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
    if (words[1].bytes + words[2].bytes > STORE_MOST_BYTES)
        return bytes_print(out, "-ERR key and value exceed %d bytes\r\n", STORE_MOST_BYTES);
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
    enum { MOST_DIGITS = 19 };
    *number = 0;
    for (size_t i = 0; i < w->bytes && i < MOST_DIGITS; i++) {
        if (w->at[i] < '0' || w->at[i] > '9')
            return false;
        *number = *number * 10 + (uint64_t)(w->at[i] - '0');
    }
    return w->bytes > 0 && w->bytes <= MOST_DIGITS;
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
    char name[65];
    resp_printable(&words[0], name, sizeof name);
    return bytes_print(out, "-ERR unknown command '%s'\r\n", name);
}

/* Takes all requests that are whole, as long as their answers are not too many to keep. */
static void take_requests(server *s, connection *c)
{
    resp_word words[RESP_MOST_WORDS];
    size_t count;
    const char *wrong;
    c->has_more = false;
    while (!c->is_ending && !s->is_stopping) {
        c->has_more = c->out.end - c->out.begin > MOST_OUT_BYTES;
        if (c->has_more)
            return;
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
    s->polls[0].events = POLLIN;
}

static void accept_connection(server *s)
{
    int fd = accept4(s->polls[0].fd, NULL, NULL, SOCK_NONBLOCK), one = 1;
    if (fd < 0) {
        /* Until a connection ends or some time has passed, as the one that waits would be reported at once. */
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
            s->polls[0].events = 0;
        return;
    }
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

/* False: the system cannot wait for connections. */
static bool serve_once(server *s)
{
    int ready = poll(s->polls, 1 + s->count, s->polls[0].events != 0 ? -1 : REST_MS);
    if (ready < 0)
        return errno == EINTR;
    if (ready == 0)
        s->polls[0].events = POLLIN;
    for (unsigned i = s->count; i-- > 0;) {
        struct pollfd *p = &s->polls[1 + i];
        connection *c = &s->connections[i];
        bool goes_on = true;
        if (p->revents & (POLLIN | POLLHUP | POLLERR) && p->events == POLLIN)
            goes_on = read_requests(s, c, p->fd);
        /* Answers come before more requests, so that a client that reads nothing takes no more memory. */
        goes_on = send_answers(c, p->fd) && goes_on;
        while (goes_on && c->has_more && c->out.begin == c->out.end) {
            take_requests(s, c);
            goes_on = send_answers(c, p->fd);
        }
        p->events = c->out.begin < c->out.end ? POLLOUT : POLLIN;
        if (!goes_on)
            end_connection(s, i);
    }
    if (s->polls[0].revents & POLLIN)
        accept_connection(s);
    return true;
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
    int status = PROGRAM_OK;
    while (!s.is_stopping && status == PROGRAM_OK)
        if (!serve_once(&s))
            status = program_failed(CACHE_NAME, "cannot wait for connections: %s", strerror(errno));
    while (s.count > 0)
        end_connection(&s, 0);
    close(fd);
    return status;
}
