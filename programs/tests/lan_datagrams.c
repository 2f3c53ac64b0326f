/*
 * lan_datagrams: datagrams between the nodes of a run. Node 0 answers each by itself, and every other node is its client:
 *
 *   ROUNDS BYTES   so many bytes to and fro; the client prints the shortest round trip
 */
#define _DEFAULT_SOURCE
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
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

static unsigned char pattern(uint64_t at)
{
    return (unsigned char)((at * 0x9e3779b97f4a7c15u) >> 56);
}

/* Answers each datagram by itself, until the empty one of each client has come. */
static int serve(unsigned clients)
{
    struct sockaddr_in own = {.sin_family = AF_INET, .sin_port = htons(PORT)}, from;
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    if (fd < 0 || bind(fd, (struct sockaddr *)&own, sizeof own) != 0)
        return failed("bind");
    while (clients > 0) {
        socklen_t length = sizeof from;
        ssize_t got = recvfrom(fd, buffer, BUFFER, 0, (struct sockaddr *)&from, &length);
        if (got < 0 || sendto(fd, buffer, (size_t)got, 0, (struct sockaddr *)&from, length) != got)
            return failed("datagram");
        clients -= got == 0;
    }
    return 0;
}

/* Sends a datagram until somebody is there, and takes the answer. */
static bool exchanged(int fd, size_t bytes)
{
    for (;;) {
        if (send(fd, buffer, bytes, 0) == (ssize_t)bytes) {
            ssize_t got = recv(fd, buffer, BUFFER, 0);
            if (got >= 0)
                return (size_t)got == bytes;
        }
        if (errno != ECONNREFUSED)
            return false;
        sleep_ns(50 * MICROSECOND);
    }
}

static int ask(unsigned rounds, size_t bytes)
{
    struct sockaddr_in server = address_of(0);
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    uint64_t shortest = UINT64_MAX;
    if (fd < 0 || connect(fd, (struct sockaddr *)&server, sizeof server) != 0)
        return failed("connect");
    for (unsigned round = 0; round < rounds; round++) {
        for (size_t i = 0; i < bytes; i++)
            buffer[i] = pattern(round + i);
        uint64_t sent = now_ns();
        if (!exchanged(fd, bytes))
            return failed("datagram");
        uint64_t time = now_ns() - sent;
        shortest = time < shortest ? time : shortest;
        for (size_t i = 0; i < bytes; i++)
            if (buffer[i] != pattern(round + i))
                return printf("FAIL byte %zu of a datagram\n", i), 1;
    }
    if (!exchanged(fd, 0))
        return failed("last datagram");
    printf("round trip %" PRIu64 " ns\n", shortest);
    return 0;
}

int main(int argc, char **argv)
{
    const char *node = getenv("RACKMEM_NODE"), *nodes = getenv("RACKMEM_NODES");
    if (argc != 3 || node == NULL || nodes == NULL)
        return 2;
    size_t bytes = strtoull(argv[2], NULL, 0);
    if (bytes > BUFFER)
        return 2;
    if (atoi(node) == 0)
        return serve((unsigned)atoi(nodes) - 1);
    return ask((unsigned)atoi(argv[1]), bytes);
}
