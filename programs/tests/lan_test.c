/*
 * lan_test: sockets between the nodes of a run. Node 0 serves, every other node is its client:
 *
 *   ping ROUNDS BYTES   so many bytes to and fro; the client prints the shortest round trip
 *   bulk BYTES          a stream to the server, which checks it and answers with a byte
 *   refused             nobody listens: the server's program sleeps, or is at its end
 *   ends                the server ends with bytes that it has not read
 */
#define _DEFAULT_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { PORT = 7000, BUFFER = 1 << 16, MILLISECOND = 1000000, MICROSECOND = 1000 };

static unsigned char buffer[BUFFER];

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000 * MILLISECOND + (uint64_t)now.tv_nsec;
}

static void sleep_ns(long ns)
{
    struct timespec time = {0, ns};
    nanosleep(&time, NULL);
}

static int failed(const char *what)
{
    printf("FAIL %s: %s\n", what, strerror(errno));
    return 1;
}

static struct sockaddr_in address_of(unsigned node)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    address.sin_addr.s_addr = htonl((10u << 24) + node + 1);
    return address;
}

static int listening(int backlog)
{
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&own, sizeof own) != 0 || listen(fd, backlog) != 0)
        return -1;
    return fd;
}

/* One try; errno says why there is none. */
static int connected_once(void)
{
    struct sockaddr_in server = address_of(0);
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    if (fd < 0 || setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one) != 0)
        return -1;
    if (connect(fd, (struct sockaddr *)&server, sizeof server) == 0)
        return fd;
    int why = errno;
    close(fd);
    errno = why;
    return -1;
}

/* Tries until the server listens. */
static int connected(void)
{
    for (;;) {
        int fd = connected_once();
        if (fd >= 0 || errno != ECONNREFUSED)
            return fd;
        sleep_ns(50 * MICROSECOND);
    }
}

/* Reads so many bytes, or all there are. */
static size_t read_all(int fd, unsigned char *to, size_t bytes)
{
    size_t done = 0;
    while (done < bytes) {
        ssize_t got = read(fd, to + done, bytes - done);
        if (got <= 0)
            break;
        done += (size_t)got;
    }
    return done;
}

static bool write_all(int fd, const unsigned char *from, size_t bytes)
{
    size_t done = 0;
    while (done < bytes) {
        ssize_t put = write(fd, from + done, bytes - done);
        if (put <= 0)
            return false;
        done += (size_t)put;
    }
    return true;
}

static unsigned char pattern(uint64_t at)
{
    return (unsigned char)((at * 0x9e3779b97f4a7c15u) >> 56);
}

static int serve_ping(int fd, unsigned rounds, size_t bytes)
{
    for (unsigned round = 0; round < rounds; round++)
        if (read_all(fd, buffer, bytes) != bytes || !write_all(fd, buffer, bytes))
            return failed("ping");
    return 0;
}

static int ping(unsigned rounds, size_t bytes)
{
    int fd = connected();
    uint64_t shortest = UINT64_MAX;
    if (fd < 0)
        return failed("connect");
    for (unsigned round = 0; round < rounds; round++) {
        uint64_t begin = now_ns();
        if (!write_all(fd, buffer, bytes) || read_all(fd, buffer, bytes) != bytes)
            return failed("ping");
        uint64_t time = now_ns() - begin;
        shortest = time < shortest ? time : shortest;
    }
    printf("round trip %" PRIu64 " ns\n", shortest);
    return 0;
}

static int serve_bulk(int fd, uint64_t bytes)
{
    for (uint64_t at = 0; at < bytes;) {
        ssize_t got = read(fd, buffer, BUFFER);
        if (got <= 0)
            return failed("read");
        for (ssize_t i = 0; i < got; i++, at++)
            if (buffer[i] != pattern(at))
                return printf("FAIL byte %" PRIu64 "\n", at), 1;
    }
    return write_all(fd, buffer, 1) ? 0 : failed("write");
}

static int bulk(uint64_t bytes)
{
    int fd = connected();
    if (fd < 0)
        return failed("connect");
    uint64_t begin = now_ns();
    for (uint64_t at = 0; at < bytes;) {
        size_t part = bytes - at < BUFFER ? (size_t)(bytes - at) : BUFFER;
        for (size_t i = 0; i < part; i++)
            buffer[i] = pattern(at + i);
        if (!write_all(fd, buffer, part))
            return failed("write");
        at += part;
    }
    if (read_all(fd, buffer, 1) != 1)
        return failed("answer");
    printf("bulk %" PRIu64 " ns\n", now_ns() - begin);
    return 0;
}

/* The server's program is there for a millisecond. */
static int refused(void)
{
    for (int turn = 0; turn < 2; turn++) {
        if (connected_once() >= 0 || errno != ECONNREFUSED)
            return failed("refused");
        sleep_ns(2 * MILLISECOND);
    }
    printf("PASS refused\n");
    return 0;
}

/* Waits for bytes that never come, from a server that does not read. */
static int ends(void)
{
    int fd = connected();
    if (fd < 0 || !write_all(fd, buffer, 100))
        return failed("connect");
    ssize_t got = read(fd, buffer, 1);
    if (got >= 0 || errno != ECONNRESET)
        return printf("FAIL ends: %zd, %s\n", got, strerror(errno)), 1;
    printf("PASS ends\n");
    return 0;
}

static int serve(const char *test, uint64_t first, size_t second, unsigned clients)
{
    if (strcmp(test, "refused") == 0) {
        sleep_ns(MILLISECOND);
        return 0;
    }
    int listener = listening((int)clients);
    if (listener < 0)
        return failed("listen");
    for (unsigned client = 0; client < clients; client++) {
        int fd = accept(listener, NULL, NULL), status = 0;
        if (fd < 0)
            return failed("accept");
        if (strcmp(test, "ends") == 0) {
            sleep_ns(MILLISECOND);
            return 0;
        }
        status = strcmp(test, "ping") == 0 ? serve_ping(fd, (unsigned)first, second) :
                                             serve_bulk(fd, first);
        if (status != 0)
            return status;
    }
    return 0;
}

int main(int argc, char **argv)
{
    const char *node = getenv("RACKMEM_NODE"), *nodes = getenv("RACKMEM_NODES");
    const char *test = argc > 1 ? argv[1] : "";
    uint64_t first = argc > 2 ? strtoull(argv[2], NULL, 0) : 0;
    size_t second = argc > 3 ? strtoull(argv[3], NULL, 0) : 0;
    if (node == NULL || nodes == NULL)
        return 2;
    if (atoi(node) == 0)
        return serve(test, first, second, (unsigned)atoi(nodes) - 1);
    if (strcmp(test, "ping") == 0 && second <= BUFFER)
        return ping((unsigned)first, second);
    if (strcmp(test, "bulk") == 0)
        return bulk(first);
    if (strcmp(test, "refused") == 0)
        return refused();
    return strcmp(test, "ends") == 0 ? ends() : 2;
}
