/* The server and the client of deoi_cache over loopback, and all that they may be told wrong. */
#define _DEFAULT_SOURCE
#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../deoi/cache/cache.h"
#include "check.h"

enum { TEXT_BYTES = 4096, MOST_SECONDS = 120 };

static const cache_settings small = {
    .host = "127.0.0.1", .wait_ms = 10000, .answer_ms = 60000, .connections = 3, .keys = 300, .value_bytes = 512,
    .database_us = 10, .initial_bytes = 64 << 10, .additional_bytes = 64 << 10, .gets = 2000, .intervals = 4,
    .seed = 1, .json = true,
};

static struct sockaddr_in address_of(uint64_t port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return address;
}

/* A socket at a port that nobody has. */
static int bound(uint64_t *port)
{
    struct sockaddr_in own = address_of(0);
    socklen_t length = sizeof own;
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    CHECK(fd >= 0 && setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) == 0);
    CHECK(bind(fd, (struct sockaddr *)&own, sizeof own) == 0 && listen(fd, 8) == 0);
    CHECK(getsockname(fd, (struct sockaddr *)&own, &length) == 0);
    *port = ntohs(own.sin_port);
    return fd;
}

typedef struct child {
    pid_t pid;
    int out, err; /* what it prints */
} child;

static child begin(int (*role)(const cache_settings *), const cache_settings *set)
{
    int out[2], err[2];
    CHECK(pipe(out) == 0 && pipe(err) == 0);
    fflush(NULL);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        alarm(MOST_SECONDS);
        dup2(out[1], 1);
        dup2(err[1], 2);
        int status = role(set);
        fflush(NULL);
        _exit(status);
    }
    close(out[1]);
    close(err[1]);
    return (child){pid, out[0], err[0]};
}

static void read_all(int fd, char text[TEXT_BYTES])
{
    size_t count = 0;
    ssize_t got;
    while ((got = read(fd, text + count, TEXT_BYTES - 1 - count)) > 0)
        count += (size_t)got;
    text[count] = '\0';
    close(fd);
}

/* Its exit status, and what it has printed. */
static int ended(const child *c, char out[TEXT_BYTES], char err[TEXT_BYTES])
{
    int status;
    read_all(c->out, out);
    read_all(c->err, err);
    CHECK(waitpid(c->pid, &status, 0) == c->pid && WIFEXITED(status));
    return WEXITSTATUS(status);
}

static cache_settings with_port(void)
{
    cache_settings set = small;
    close(bound(&set.port));
    return set;
}

static int connected(uint64_t port)
{
    struct sockaddr_in server = address_of(port);
    for (;;) {
        int fd = socket(AF_INET, SOCK_STREAM, 0);
        CHECK(fd >= 0);
        if (connect(fd, (struct sockaddr *)&server, sizeof server) == 0)
            return fd;
        close(fd);
        usleep(1000);
    }
}

/* Sends a request and compares the answer. */
static void ask_bytes(int fd, const char *request, size_t bytes, const char *expected)
{
    char text[TEXT_BYTES];
    size_t count = 0, length = strlen(expected);
    CHECK(write(fd, request, bytes) == (ssize_t)bytes);
    while (count < length) {
        ssize_t got = read(fd, text + count, sizeof text - 1 - count);
        CHECK(got > 0);
        count += (size_t)got;
    }
    text[count] = '\0';
    if (strcmp(text, expected) != 0)
        fprintf(stderr, "%s is answered by %s, not %s", request, text, expected);
    CHECK(strcmp(text, expected) == 0);
}

static void ask(int fd, const char *request, const char *expected)
{
    ask_bytes(fd, request, strlen(request), expected);
}

enum { LARGE_BYTES = 1000000, LARGE_GETS = 600 };

/* Kilobytes of memory that a process has used at most. */
static long peak_kb(pid_t pid)
{
    char name[32], line[256];
    long kb = -1;
    snprintf(name, sizeof name, "/proc/%d/status", (int)pid);
    FILE *f = fopen(name, "r");
    CHECK(f != NULL);
    while (fgets(line, sizeof line, f))
        if (strncmp(line, "VmHWM:", 6) == 0)
            kb = strtol(line + 6, NULL, 10);
    fclose(f);
    return kb;
}

static void read_count(int fd, char *to, size_t bytes)
{
    ssize_t got;
    for (size_t count = 0; count < bytes; count += (size_t)got)
        CHECK((got = read(fd, to + count, bytes - count)) > 0);
}

/* Many large answers are wanted at once: the server makes them as they leave. */
static void test_large_answers(void)
{
    char out[TEXT_BYTES], err[TEXT_BYTES], gets[LARGE_GETS * 7 + 1];
    cache_settings set = with_port();
    child server = begin(cache_serve, &set);
    int fd = connected(set.port);
    char *large = malloc(LARGE_BYTES + 12);
    CHECK(large != NULL);
    static const char head[] = "*3\r\n$3\r\nset\r\n$1\r\nk\r\n$1000000\r\n";
    memset(large, 'x', LARGE_BYTES);
    CHECK(write(fd, head, strlen(head)) == (ssize_t)strlen(head));
    CHECK(write(fd, large, LARGE_BYTES) == LARGE_BYTES);
    ask(fd, "\r\n", "+OK\r\n");
    long before = peak_kb(server.pid);
    for (size_t i = 0; i < LARGE_GETS; i++)
        memcpy(gets + 7 * i, "get k\r\n", 8);
    CHECK(write(fd, gets, sizeof gets - 1) == (ssize_t)sizeof gets - 1);
    for (size_t i = 0; i < LARGE_GETS; i++) {
        read_count(fd, large, LARGE_BYTES + 12);
        CHECK(memcmp(large, "$1000000\r\nx", 11) == 0 && memcmp(large + LARGE_BYTES + 9, "x\r\n", 3) == 0);
    }
    CHECK(peak_kb(server.pid) < before + 64 * 1024);
    ask(fd, "shutdown\r\n", "");
    CHECK(ended(&server, out, err) == 0 && err[0] == '\0');
    free(large);
    close(fd);
}

static void test_requests(void)
{
    char out[TEXT_BYTES], err[TEXT_BYTES];
    cache_settings set = with_port();
    child server = begin(cache_serve, &set);
    int fd = connected(set.port), other = connected(set.port);
    ask(fd, "PING\r\nping hello\r\n", "+PONG\r\n$5\r\nhello\r\n");
    ask(fd, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$4\r\na\r\nb\r\n", "+OK\r\n");
    ask(other, "get k\r\nget x\r\ndbsize\r\n", "$4\r\na\r\nb\r\n$-1\r\n:1\r\n");
    ask(fd, "set l 1\r\ndel k l x\r\ndel k\r\n", "+OK\r\n:2\r\n:0\r\n");
    ask(fd, "config get maxmemory\r\nconfig set maxmemory 100000\r\nconfig get maxmemory\r\n",
        "*2\r\n$9\r\nmaxmemory\r\n$1\r\n0\r\n+OK\r\n*2\r\n$9\r\nmaxmemory\r\n$6\r\n100000\r\n");
    ask(fd, "config get save\r\n", "*2\r\n$4\r\nsave\r\n$0\r\n\r\n");
    ask(fd, "info\r\n", "$72\r\nused_memory:128\r\nmaxmemory:100000\r\nevicted_keys:0\r\nconnected_clients:2\r\n\r\n");
    ask(fd, "FLY me\r\n", "-ERR unknown command 'FLY'\r\n");
    ask(fd, "*1\r\n$6\r\n\x1b\r\n\x7f\xff~\r\n", "-ERR unknown command '?????~'\r\n");
    ask(fd, "get\r\nget a b\r\n", "-ERR wrong number of arguments for 'get'\r\n"
                                  "-ERR wrong number of arguments for 'get'\r\n");
    ask(fd, "config set maxmemory 10x\r\n",
        "-ERR CONFIG SET knows 'maxmemory BYTES' and 'maxmemory-policy allkeys-lru'\r\n");
    ask(fd, "config set maxmemory 18446744073709551616\r\n",
        "-ERR CONFIG SET knows 'maxmemory BYTES' and 'maxmemory-policy allkeys-lru'\r\n");
    ask_bytes(fd, "config set maxmemory 10\0\r\n", 26,
              "-ERR CONFIG SET knows 'maxmemory BYTES' and 'maxmemory-policy allkeys-lru'\r\n");
    ask(fd, "config set maxmemory 300\r\nset k 0123456789\r\n",
        "+OK\r\n+OK\r\n");
    ask(fd, "set k 0123456789012345678901234567890123456789012345678901234567890123456789"
            "0123456789012345678901234567890123456789012345678901234567890123456789\r\n",
        "-OOM the item is larger than 'maxmemory'\r\n");
    ask(fd, "get k\r\n", "$10\r\n0123456789\r\n");
    ask(other, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1048577\r\n", "-ERR Protocol error: invalid bulk length\r\n");
    CHECK(read(other, out, 1) == 0); /* the connection has no meaning any more */
    ask(fd, "shutdown\r\n", "");
    CHECK(read(fd, out, 1) == 0);
    CHECK(ended(&server, out, err) == 0 && err[0] == '\0');
    close(fd);
    close(other);
}

static double member(const char *json, const char *name)
{
    const char *at = strstr(json, name);
    CHECK(at != NULL);
    return strtod(at + strlen(name) + 1, NULL);
}

static void test_load(void)
{
    char out[TEXT_BYTES], err[TEXT_BYTES], nothing[TEXT_BYTES];
    cache_settings set = with_port();
    child server = begin(cache_serve, &set), client = begin(cache_load, &set);
    CHECK(ended(&client, out, err) == 0 && err[0] == '\0');
    CHECK(ended(&server, nothing, err) == 0);
    /* 99 of 300 keys in 64 KB, and some 200 in twice that. */
    CHECK(member(out, "\"first_items\"") > 90 && member(out, "\"first_items\"") < 102);
    CHECK(member(out, "\"hit_ratio\"") > 0.5 && member(out, "\"hit_ratio\"") < 0.7);
    double full_at = member(out, "\"full_at\"");
    CHECK(full_at >= 0.25 && full_at <= 1 && member(out, "\"evictions_per_get\"") < 0.4);
}

/* An interval for each GET: answers to INFO arrive together. */
static void test_short_intervals(void)
{
    char out[TEXT_BYTES], err[TEXT_BYTES], nothing[TEXT_BYTES];
    cache_settings set = with_port();
    set.connections = CACHE_MOST_CLIENTS - 1;
    set.keys = set.gets = set.intervals = 40;
    set.database_us = 0;
    set.json = false;
    child server = begin(cache_serve, &set), client = begin(cache_load, &set);
    int status = ended(&client, out, err);
    CHECK(status == 0 && err[0] == '\0' && ended(&server, nothing, err) == 0);
    CHECK(strstr(out, "interval 40: ") != NULL);
}

/* A line on stderr, and status 1. */
static void fails(const cache_settings *set, const char *expected)
{
    char out[TEXT_BYTES], err[TEXT_BYTES];
    child client = begin(cache_load, set);
    CHECK(ended(&client, out, err) == 1 && out[0] == '\0');
    if (strstr(err, expected) == NULL || strchr(err, '\n') != err + strlen(err) - 1)
        fprintf(stderr, "'%s' is not '%s'\n", err, expected);
    CHECK(strstr(err, expected) != NULL && strchr(err, '\n') == err + strlen(err) - 1);
}

/* A server of a client's two connections: it says this on the second one, and no more. */
static const char *saying;
static bool is_staying; /* the connections stay open then */
static int listener;

static int say(const cache_settings *set)
{
    char text[64];
    (void)set;
    accept(listener, NULL, NULL);
    int fd = accept(listener, NULL, NULL);
    if (fd < 0 || write(fd, saying, strlen(saying)) < 0 || (!is_staying && shutdown(fd, SHUT_WR) != 0))
        return 1;
    while (read(fd, text, sizeof text) > 0)
        ;
    return 0;
}

static void test_wrong_servers(void)
{
    static const char *const cases[][2] = {
        {"", "it has closed the connection"},
        {"+OK\r\n", "it has closed the connection"}, /* it dies after the first answer */
        {"-ERR no such thing\r\n", "ERR no such thing"},
        {"hello\r\n", "its answer is not of Redis' protocol"},
        {"+OK\r\n+OK\r\n+OK\r\n", "its INFO has no evicted_keys"},
        {":1\r\n", "it answers a request to set something with no OK"},
        {"-ERR a\x1b" "b\xff\n", "ERR a?b?\n"},
    };
    static const char *const silent[] = {
        "", "+OK\r\n+OK\r\n$14\r\nevi",
        "+OK\r\n+OK\r\n$14\r\nevicted_keys:0\r\n+OK\r\n$14\r\nevicted_keys:0\r\n+OK\r\n", /* GET is not answered */
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char out[TEXT_BYTES], err[TEXT_BYTES];
        cache_settings set = small;
        set.connections = 1;
        listener = bound(&set.port);
        saying = cases[i][0];
        child server = begin(say, &set);
        close(listener);
        fails(&set, cases[i][1]);
        CHECK(ended(&server, out, err) == 0);
    }
    is_staying = true;
    for (size_t i = 0; i < sizeof silent / sizeof *silent; i++) {
        char out[TEXT_BYTES], err[TEXT_BYTES];
        cache_settings set = small;
        set.connections = set.keys = 1;
        set.answer_ms = 20;
        listener = bound(&set.port);
        saying = silent[i];
        child server = begin(say, &set);
        close(listener);
        fails(&set, "it does not answer");
        CHECK(ended(&server, out, err) == 0);
    }
    cache_settings set = with_port();
    set.wait_ms = 1;
    fails(&set, "Connection refused");
    set.host = "localhost";
    fails(&set, "--host: expected an IPv4 address, found 'localhost'");
}

int main(void)
{
    alarm(MOST_SECONDS);
    test_requests();
    test_large_answers();
    test_load();
    test_short_intervals();
    test_wrong_servers();
    puts("cache: ok");
    return 0;
}
