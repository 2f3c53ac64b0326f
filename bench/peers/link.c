/* A bare link between two hosts: the floor for one-sided operations over TCP.
 *
 *     link serve ADDRESS              in one host
 *     link ask ADDRESS SAMPLES        in the other; prints the rows
 *
 * The server copies what it is asked for out of its memory: no check, no right, no second client, no encryption. Both
 * ends poll, write what they have with one system call, and read with one. */
#include "bench.h"
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <string.h>
#include <sys/socket.h>

enum { PORT = 7999, READ = 256 * KB };

struct request {
    uint64_t offset, size;
};

static char segment[MB], in[4 * MB], out[4 * MB], local[MB];
static int link_fd;

static void put(const char *bytes, size_t size) {
    while (size) {
        ssize_t sent = send(link_fd, bytes, size, MSG_DONTWAIT | MSG_NOSIGNAL);
        if (sent > 0)
            bytes += sent, size -= (size_t)sent;
        else if (errno != EAGAIN)
            exit(1);
    }
}

/* Polls until something has come behind the `have` bytes that wait. */
static size_t take_in(size_t have) {
    for (;;) {
        ssize_t got = recv(link_fd, in + have, READ, MSG_DONTWAIT);
        if (got > 0) return have + (size_t)got;
        if (got == 0) exit(0);
        if (errno != EAGAIN) exit(1);
    }
}

static size_t drop(size_t taken, size_t have) {
    memmove(in, in + taken, have - taken);
    return have - taken;
}

static void serve(void) {
    for (size_t have = 0;;) {
        have = take_in(have);
        size_t at = 0, staged = 0;
        for (struct request r; have - at >= sizeof r; at += sizeof r) {
            memcpy(&r, in + at, sizeof r);
            memcpy(out + staged, &r, sizeof r);
            memcpy(out + staged + sizeof r, segment + r.offset, r.size);
            staged += sizeof r + r.size;
            if (staged > 2 * MB) put(out, staged), staged = 0;
        }
        have = drop(at, have);
        put(out, staged);
    }
}

/* `count` reads with up to `window` in flight. */
static void read_all(size_t size, long count, long window) {
    size_t have = 0, reply = sizeof(struct request) + size;
    for (long posted = 0, done = 0; done < count;) {
        size_t staged = 0;
        for (; posted < count && posted - done < window; posted++, staged += sizeof(struct request)) {
            struct request r = {(uint64_t)(posted % WINDOW) * (size > 8 * KB ? 0 : size), size};
            memcpy(out + staged, &r, sizeof r);
        }
        put(out, staged);
        have = take_in(have);
        size_t at = 0;
        for (; have - at >= reply; at += reply, done++) memcpy(local, in + at + sizeof(struct request), size);
        have = drop(at, have);
    }
}

static double read_ns(int samples, size_t size, long count, long window) {
    return MEDIAN_NS(samples, 1, read_all(size, count, window)) / (double)count;
}

int main(int argc, char **argv) {
    if (argc < 3) return fprintf(stderr, "link serve|ask ADDRESS [SAMPLES]\n"), 2;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(PORT)};
    int fd = socket(AF_INET, SOCK_STREAM, 0), one = 1;
    if (fd < 0 || inet_pton(AF_INET, argv[2], &address.sin_addr) != 1) return perror("link"), 1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    pin(argv[1][0] == 's' ? 1 : 0);
    if (argv[1][0] == 's') {
        if (bind(fd, (void *)&address, sizeof address) != 0 || listen(fd, 1) != 0) return perror("link"), 1;
        link_fd = accept(fd, NULL, NULL);
    } else {
        while (connect(fd, (void *)&address, sizeof address) != 0) usleep(10000);
        link_fd = fd;
    }
    setsockopt(link_fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    if (argv[1][0] == 's') serve();
    int samples = argc > 3 ? atoi(argv[3]) : 21;
    row_us("get_latency", 8, "tcp", read_ns(samples, 8, 200, 1));
    row_us("get_latency", 64, "tcp", read_ns(samples, 64, 200, 1));
    row_us("get_latency", 4 * KB, "tcp", read_ns(samples, 4 * KB, 200, 1));
    row_us("get_latency", MB, "tcp", read_ns(samples, MB, 5, 1));
    row_mops("op_rate", 8, "tcp", read_ns(samples, 8, 20000, WINDOW));
    row_mops("op_rate", 64, "tcp", read_ns(samples, 64, 20000, WINDOW));
    row_mops("op_rate", 4 * KB, "tcp", read_ns(samples, 4 * KB, 2000, WINDOW));
    row_gb_per_s("get_bandwidth", 8 * KB, "tcp", read_ns(samples, 8 * KB, 1000, WINDOW));
    return 0;
}
