/* A client that uses Redis as a cache in front of a slow store, as in DEOI (section IV.C): it asks for
 * keys at random; what the cache does not have costs a wait for the store, and is then put into the
 * cache. One request at a time, so the store has a concurrency of one.
 *
 * rcache fill SOCKET KEYS BYTES                        sets all keys
 * rcache run SOCKET KEYS BYTES STORE_US SECONDS SEED   prints a line of JSON
 *
 * Every value is checked: it is made of its key. */

#define _GNU_SOURCE
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

enum { PIPELINE = 64, MAX_BYTES = 1 << 16, MAX_SAMPLES = 1 << 22 };

static int server;
static char input[2 * MAX_BYTES];
static size_t input_used, input_read;

static void fail(const char *what)
{
    fprintf(stderr, "rcache: %s\n", what);
    exit(1);
}

static double now(void)
{
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + (double)time.tv_nsec * 1e-9;
}

static uint64_t mix(uint64_t *state)
{
    uint64_t z = *state += 0x9e3779b97f4a7c15u;
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
    z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
    return z ^ (z >> 31);
}

/* The value of a key: bytes that do not compress. */
static void make_value(uint64_t key, char *value, size_t bytes)
{
    uint64_t state = key;
    for (size_t at = 0; at < bytes; at += 8) {
        uint64_t word = mix(&state);
        memcpy(value + at, &word, bytes - at < 8 ? bytes - at : 8);
    }
}

static void send_all(const char *from, size_t bytes)
{
    while (bytes > 0) {
        ssize_t sent = send(server, from, bytes, MSG_NOSIGNAL);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            fail("the server is gone");
        from += sent;
        bytes -= (size_t)sent;
    }
}

static char next_byte(void)
{
    if (input_read == input_used) {
        ssize_t got;
        do
            got = recv(server, input, sizeof input, 0);
        while (got < 0 && errno == EINTR);
        if (got <= 0)
            fail("the server is gone");
        input_used = (size_t)got;
        input_read = 0;
    }
    return input[input_read++];
}

static void read_line(char *line, size_t bytes)
{
    size_t used = 0;
    for (char byte; (byte = next_byte()) != '\n';)
        if (used + 1 < bytes)
            line[used++] = byte;
    line[used] = 0;
}

static size_t set_request(char *to, uint64_t key, const char *value, size_t bytes)
{
    char name[32];
    int length = snprintf(name, sizeof name, "key:%012llu", (unsigned long long)key);
    size_t used = (size_t)sprintf(to, "*3\r\n$3\r\nSET\r\n$%d\r\n%s\r\n$%zu\r\n", length, name, bytes);
    memcpy(to + used, value, bytes);
    memcpy(to + used + bytes, "\r\n", 2);
    return used + bytes + 2;
}

static void expect_ok(void)
{
    char line[256];
    read_line(line, sizeof line);
    if (line[0] != '+')
        fail(line);
}

static void fill(uint64_t keys, size_t bytes)
{
    static char request[PIPELINE * (MAX_BYTES / 8 + 128)];
    static char value[MAX_BYTES];
    for (uint64_t key = 0; key < keys;) {
        size_t used = 0;
        int count = 0;
        for (; key < keys && count < PIPELINE && used + bytes + 128 < sizeof request; key++, count++) {
            make_value(key, value, bytes);
            used += set_request(request + used, key, value, bytes);
        }
        send_all(request, used);
        while (count-- > 0)
            expect_ok();
    }
}

/* Whether the cache has the key; its value must be the right one. */
static int get(uint64_t key, const char *expected, size_t bytes)
{
    char request[128], line[64];
    send_all(request, (size_t)sprintf(request, "*2\r\n$3\r\nGET\r\n$16\r\nkey:%012llu\r\n",
                                      (unsigned long long)key));
    read_line(line, sizeof line);
    if (line[0] != '$')
        fail(line);
    long length = atol(line + 1);
    if (length < 0)
        return 0;
    int same = (size_t)length == bytes;
    for (long at = 0; at < length; at++)
        same &= next_byte() == expected[(size_t)at % bytes];
    next_byte();
    next_byte();
    if (!same)
        fail("a value is not what was put there");
    return 1;
}

static void wait_us(double us)
{
    for (double end = now() + us * 1e-6; now() < end;)
        ;
}

static int ascending(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static void run(uint64_t keys, size_t bytes, double store_us, double seconds, uint64_t seed)
{
    static char request[MAX_BYTES + 128], value[MAX_BYTES];
    static float samples[MAX_SAMPLES];
    uint64_t state = seed, gets = 0, hits = 0;
    double begin = now(), end = begin + seconds, time = begin;
    while (time < end) {
        uint64_t key = mix(&state) % keys;
        make_value(key, value, bytes);
        double asked = now();
        if (get(key, value, bytes)) {
            hits++;
        } else {
            wait_us(store_us);
            send_all(request, set_request(request, key, value, bytes));
            expect_ok();
        }
        time = now();
        if (gets < MAX_SAMPLES)
            samples[gets] = (float)((time - asked) * 1e6);
        gets++;
    }
    size_t count = gets < MAX_SAMPLES ? gets : MAX_SAMPLES;
    if (count == 0)
        fail("no request was answered in time");
    qsort(samples, count, sizeof samples[0], ascending);
    printf("{\"gets_per_s\": %.1f, \"hits\": %.4f, \"p50_us\": %.1f, \"p99_us\": %.1f}\n",
           (double)gets / (time - begin), (double)hits / (double)gets, (double)samples[count / 2],
           (double)samples[count - 1 - count / 100]);
}

int main(int argc, char **argv)
{
    if (argc < 5)
        fail("usage: rcache fill|run SOCKET KEYS BYTES [STORE_US SECONDS SEED]");
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    if (strlen(argv[2]) >= sizeof address.sun_path)
        fail("the socket's path is too long");
    strcpy(address.sun_path, argv[2]);
    server = socket(AF_UNIX, SOCK_STREAM, 0);
    if (server < 0 || connect(server, (struct sockaddr *)&address, sizeof address))
        fail("no server listens there");
    uint64_t keys = strtoull(argv[3], NULL, 10);
    size_t bytes = strtoull(argv[4], NULL, 10);
    if (keys == 0 || bytes == 0 || bytes > MAX_BYTES / 8)
        fail("keys and bytes are out of range");
    if (!strcmp(argv[1], "fill"))
        fill(keys, bytes);
    else if (!strcmp(argv[1], "run") && argc == 8)
        run(keys, bytes, atof(argv[5]), atof(argv[6]), strtoull(argv[7], NULL, 10));
    else
        fail("usage: rcache fill|run SOCKET KEYS BYTES [STORE_US SECONDS SEED]");
    return 0;
}
