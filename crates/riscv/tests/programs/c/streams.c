// Reading from stream sockets and writing to them: parts of what a call asks for.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include "show.h"

// More than a connection holds at first, and more than one of Linux ever holds.
#define MUCH (3 << 20)
#define MORE (32 << 20)

static unsigned char block[MUCH];

// Bytes of it until it repeats: no buffer has a multiple of them.
#define REPEATED 104729

enum kind { TCP, UNIX, PIPE };

// The first end writes, and the second one reads.
static void connect_pair(int ends[2], enum kind kind)
{
    if (kind == UNIX) {
        socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
        return;
    }
    if (kind == PIPE) {
        int pair[2];
        pipe(pair);
        ends[0] = pair[1], ends[1] = pair[0];
        return;
    }
    struct sockaddr_in to = {.sin_family = AF_INET};
    socklen_t length = sizeof to;
    inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
    int server = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(server, (struct sockaddr *)&to, length) || listen(server, 1) ||
        getsockname(server, (struct sockaddr *)&to, &length))
        perror("listen");
    ends[0] = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(ends[0], (struct sockaddr *)&to, length))
        perror("connect");
    ends[1] = accept(server, NULL, NULL);
    close(server);
}

static void close_pair(int ends[2])
{
    close(ends[0]);
    close(ends[1]);
}

// Waits for one of these events, or for an end of the connection.
static void await(int file, int wanted)
{
    poll(&(struct pollfd){.fd = file, .events = wanted}, 1, -1);
}

static volatile sig_atomic_t broken;

static void on_broken(int signal)
{
    (void)signal;
    broken++;
}

static void on_alarm(int signal)
{
    (void)signal;
}

static void alarms(int microseconds)
{
    struct timeval time = {.tv_usec = microseconds};
    struct itimerval timer = {time, time};
    setitimer(ITIMER_REAL, &timer, NULL);
}

// The other end is closed while a call has more to write.
static void nobody_reads(void)
{
    int ends[2];
    struct iovec pieces[3] = {{"a", 1}, {"b", 1}, {"c", 1}};
    connect_pair(ends, TCP);
    close(ends[1]);
    SHOW(writev(ends[0], pieces, 3));
    printf("signals %d\n", (int)broken);
    await(ends[0], 0);
    SHOW(writev(ends[0], pieces, 3));
    printf("signals %d\n", (int)broken);
    close(ends[0]);
    connect_pair(ends, TCP);
    close(ends[1]);
    SHOW(write(ends[0], block, MUCH) > 0);
    printf("signals %d\n", (int)broken);
    SHOW(write(ends[0], block, MUCH));
    printf("signals %d\n", (int)broken);
    close(ends[0]);
    connect_pair(ends, UNIX);
    close(ends[1]);
    SHOW(writev(ends[0], pieces, 3));
    printf("signals %d\n", (int)broken);
    close(ends[0]);
    connect_pair(ends, TCP);
    SHOW(shutdown(ends[0], SHUT_WR));
    SHOW(send(ends[0], "", 0, MSG_NOSIGNAL));
    close_pair(ends);
}

// The connection is reset behind bytes that have arrived.
static void reset_behind(void)
{
    int ends[2];
    char first[10], second[10];
    struct iovec pieces[2] = {{first, 10}, {second, 10}};
    connect_pair(ends, TCP);
    write(ends[1], "unread", 6);
    write(ends[0], "0123456789", 10);
    close(ends[0]);
    await(ends[1], 0);
    SHOW(readv(ends[1], pieces, 2));
    SHOW(read(ends[1], first, 10));
    SHOW(read(ends[1], first, 10));
    close(ends[1]);
}

// Bytes that a call cannot put where it should are there for the next one.
static void bad_memory(enum kind kind)
{
    int ends[2];
    char buffer[16] = {0}, *page = mmap(NULL, 8192, PROT_READ | PROT_WRITE,
                                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    munmap(page + 4096, 4096);
    connect_pair(ends, kind);
    write(ends[0], "abcdefgh", 8);
    await(ends[1], POLLIN);
    SHOW(read(ends[1], (void *)8, 8));
    if (kind != PIPE) {
        SHOW(recv(ends[1], (void *)8, 8, 0));
        SHOW(recv(ends[1], (void *)8, 8, MSG_WAITALL));
        SHOW(read(ends[1], page + 4092, 8));
    }
    SHOW(read(ends[1], buffer, 9));
    printf("kept %s\n", buffer);
    SHOW(write(ends[0], (void *)8, 8));
    if (kind != PIPE) {
        struct iovec pieces[2] = {{page, 10}, {page, -1}};
        struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 2};
        SHOW(sendmsg(ends[0], &message, 0));
        SHOW(recvmsg(ends[1], &message, 0));
        SHOW(writev(ends[0], pieces, 2));
    }
    munmap(page, 4096);
    close_pair(ends);
}

// Every so many bytes, one is looked at.
#define STEP 61

static unsigned long sum, total;

static void *drain(void *argument)
{
    int file = *(int *)argument;
    static unsigned char buffer[70000];
    for (ssize_t count; (count = read(file, buffer, sizeof buffer)) > 0; total += count)
        for (ssize_t at = (STEP - total % STEP) % STEP; at < count; at += STEP)
            sum = sum * 31 + buffer[at];
    return NULL;
}

// A call that waits writes all.
static void whole(enum kind kind)
{
    int ends[2], file = memfd_create("whole", 0);
    pthread_t reader;
    struct iovec pieces[4] = {{block, 500000}, {block + 7, 0}, {block + 9, 400001}, {block, 300000}};
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 4};
    sum = total = 0;
    connect_pair(ends, kind);
    pthread_create(&reader, NULL, drain, &ends[1]);
    SHOW(write(ends[0], block, MUCH));
    SHOW(send(ends[0], block + 1, MUCH - 1, 0));
    SHOW(writev(ends[0], pieces, 4));
    SHOW(sendmsg(ends[0], &message, 0));
    write(file, block, MUCH);
    lseek(file, 5, SEEK_SET);
    SHOW(sendfile(ends[0], file, NULL, MUCH + 1000));
    SHOW(lseek(file, 0, SEEK_CUR));
    off_t offset = 11;
    SHOW(sendfile(ends[0], file, &offset, 2 << 20));
    printf("offset %ld\n", (long)offset);
    shutdown(ends[0], SHUT_WR);
    pthread_join(reader, NULL);
    printf("drained %lu %lx\n", total, sum);
    close_pair(ends);
    close(file);
}

static void *fill(void *argument)
{
    int file = *(int *)argument;
    write(file, block, 200000);
    write(file, block + 200000, 800000);
    shutdown(file, SHUT_WR);
    return NULL;
}

// A call that waits for all gets all, or what there is before the end.
static void wait_for_all(enum kind kind)
{
    int ends[2];
    pthread_t writer;
    static unsigned char buffer[1500000];
    connect_pair(ends, kind);
    pthread_create(&writer, NULL, fill, &ends[0]);
    SHOW(recv(ends[1], buffer, 100000, MSG_WAITALL));
    SHOW(recv(ends[1], buffer + 100000, 20000, MSG_WAITALL | MSG_PEEK));
    SHOW(recv(ends[1], buffer + 100000, 200000, MSG_WAITALL));
    SHOW(recv(ends[1], buffer + 300000, 600000, MSG_WAITALL));
    SHOW(recv(ends[1], buffer + 900000, 600000, MSG_WAITALL));
    SHOW(recv(ends[1], buffer, 1, MSG_WAITALL));
    SHOW(memcmp(buffer, block, 1000000));
    pthread_join(writer, NULL);
    close_pair(ends);
}

// A time or a signal ends a call that has moved bytes. Linux lets the buffers of TCP grow while they are full.
static void parts(enum kind kind)
{
    int ends[2];
    char buffer[16] = {0}, *more = calloc(1, MORE);
    struct timeval time = {.tv_usec = 20000}, never = {0};
    connect_pair(ends, kind);
    setsockopt(ends[1], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
    write(ends[0], "abc", 3);
    SHOW(recv(ends[1], buffer, 10, MSG_WAITALL));
    SHOW(recv(ends[1], buffer, 10, MSG_WAITALL));
    setsockopt(ends[1], SOL_SOCKET, SO_RCVTIMEO, &never, sizeof never);
    write(ends[0], "defg", 4);
    alarms(10000);
    SHOW(recv(ends[1], buffer, 10, MSG_WAITALL));
    SHOW(recv(ends[1], buffer, 10, MSG_WAITALL));
    printf("parts %s\n", buffer);
    long count = write(ends[0], more, MORE);
    printf("some %d\n", count > 100000 && count < MORE);
    if (kind == UNIX)
        SHOW(write(ends[0], more, MORE));
    alarms(0);
    close_pair(ends);
    connect_pair(ends, kind);
    setsockopt(ends[0], SOL_SOCKET, SO_SNDTIMEO, &time, sizeof time);
    count = write(ends[0], more, MORE);
    printf("some %d\n", count > 100000 && count < MORE);
    if (kind == UNIX)
        SHOW(write(ends[0], more, MORE));
    close_pair(ends);
    free(more);
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    struct sigaction action = {.sa_handler = on_broken};
    sigaction(SIGPIPE, &action, NULL);
    action.sa_handler = on_alarm;
    sigaction(SIGALRM, &action, NULL);
    unsigned state = 7;
    for (size_t at = 0; at < REPEATED; at++)
        block[at] = (state = state * 1103515245 + 12345) >> 16;
    for (size_t at = REPEATED; at < sizeof block; at += REPEATED)
        memcpy(block + at, block, at + REPEATED < MUCH ? REPEATED : MUCH - at);
    nobody_reads();
    reset_behind();
    for (enum kind kind = TCP; kind <= PIPE; kind++)
        bad_memory(kind);
    for (enum kind kind = TCP; kind <= UNIX; kind++) {
        printf("kind %d\n", kind);
        whole(kind);
        wait_for_all(kind);
        parts(kind);
    }
    return 0;
}
