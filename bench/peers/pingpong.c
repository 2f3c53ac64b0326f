/* 16 bytes over TCP and back, one at a time: the median round trip in microseconds.
 *   pingpong serve PORT | pingpong HOST PORT SECONDS */
#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

enum { BYTES = 16, MAX_SAMPLES = 1 << 20 };

static double now_us(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1e6 + t.tv_nsec / 1e3;
}

static int by_value(const void *a, const void *b)
{
    float x = *(const float *)a, y = *(const float *)b;
    return (x > y) - (x < y);
}

static int bounce(int fd, char *bytes, int first)
{
    if (first && write(fd, bytes, BYTES) != BYTES)
        return 0;
    for (int got = 0; got < BYTES;) {
        ssize_t n = read(fd, bytes + got, BYTES - got);
        if (n <= 0)
            return 0;
        got += n;
    }
    return first || write(fd, bytes, BYTES) == BYTES;
}

static void fail(const char *what)
{
    perror(what);
    exit(1);
}

int main(int argc, char **argv)
{
    static float samples[MAX_SAMPLES];
    char bytes[BYTES] = {0};
    int one = 1, serve = argc == 3 && !strcmp(argv[1], "serve");
    if (!serve && argc != 4)
        return fprintf(stderr, "usage: pingpong serve PORT | pingpong HOST PORT SECONDS\n"), 2;
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(atoi(argv[2]))};
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (serve) {
        setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
        if (bind(fd, (void *)&at, sizeof at) || listen(fd, 1))
            fail("listen");
        if ((fd = accept(fd, NULL, NULL)) < 0)
            fail("accept");
    } else if (inet_pton(AF_INET, argv[1], &at.sin_addr) != 1 || connect(fd, (void *)&at, sizeof at)) {
        fail("connect");
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (serve) {
        while (bounce(fd, bytes, 0))
            ;
        return 0;
    }
    double end = now_us() + atof(argv[3]) * 1e6, before = now_us();
    int count = 0;
    while (before < end && count < MAX_SAMPLES) {
        if (!bounce(fd, bytes, 1))
            fail("ping-pong");
        double after = now_us();
        samples[count++] = after - before;
        before = after;
    }
    qsort(samples, count, sizeof *samples, by_value);
    printf("%.2f\n", samples[count / 2]);
    return 0;
}
