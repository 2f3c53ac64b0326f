// Sockets of datagrams: to whom they go, how long they are, and what calls tell of them.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <unistd.h>

#include "show.h"

#define LONGEST 65507
static char block[LONGEST + 1], read_block[LONGEST + 1];

static struct sockaddr_in place(const char *ip, int port)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_port = htons(port)};
    inet_pton(AF_INET, ip, &at.sin_addr);
    return at;
}

static struct sockaddr_in own(int file)
{
    struct sockaddr_in at;
    socklen_t length = sizeof at;
    getsockname(file, (struct sockaddr *)&at, &length);
    return at;
}

static int bound(const char *ip)
{
    struct sockaddr_in at = place(ip, 0);
    int file = socket(AF_INET, SOCK_DGRAM, 0);
    if (bind(file, (struct sockaddr *)&at, sizeof at))
        perror("bind");
    return file;
}

// Binds a socket of datagrams, and a stream to the same port. Streams of other programs of a host may have
// that port: then another one is tried.
static int bound_beside(int *stream)
{
    for (int tries = 100;; tries--) {
        int file = bound("127.0.0.1");
        struct sockaddr_in at = own(file);
        *stream = socket(AF_INET, SOCK_STREAM, 0);
        int failed = bind(*stream, (struct sockaddr *)&at, sizeof at);
        if (!failed || !tries) {
            printf("a stream at the port of datagrams: %d\n", failed);
            return file;
        }
        close(*stream);
        close(file);
    }
}

static long send_to(int file, const char *text, struct sockaddr_in to)
{
    return sendto(file, text, strlen(text), 0, (struct sockaddr *)&to, sizeof to);
}

static int join(int file, struct sockaddr_in to)
{
    return connect(file, (struct sockaddr *)&to, sizeof to);
}

// Receives a datagram, and says whether it is of `from`.
static void receive(const char *what, int file, int room, int flags, int from)
{
    struct sockaddr_in at = {0}, expected = own(from);
    socklen_t length = sizeof at;
    memset(read_block, 0, 16);
    long count = recvfrom(file, read_block, room, flags, (struct sockaddr *)&at, &length);
    printf("%s: %ld '%.15s' %s:%d %d of it %d error %d\n", what, count, read_block, inet_ntoa(at.sin_addr),
           at.sin_port != 0, (int)length, at.sin_port == expected.sin_port, count < 0 ? errno : 0);
}

static int option(int file, int level, int name)
{
    int value = -1;
    socklen_t length = sizeof value;
    return getsockopt(file, level, name, &value, &length) ? -errno : value;
}

static int events(int file, int wanted)
{
    struct pollfd polled = {.fd = file, .events = wanted};
    poll(&polled, 1, 0);
    return polled.revents;
}

static void kinds(void)
{
    int file = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK, IPPROTO_UDP);
    SHOW(option(file, SOL_SOCKET, SO_TYPE));
    SHOW(option(file, SOL_SOCKET, SO_PROTOCOL));
    SHOW(option(file, SOL_SOCKET, SO_ACCEPTCONN));
    SHOW(option(file, SOL_SOCKET, SO_ERROR));
    SHOW(option(file, IPPROTO_TCP, TCP_NODELAY));
    SHOW(socket(AF_INET, SOCK_DGRAM, IPPROTO_TCP));
    SHOW(socket(AF_INET, SOCK_STREAM, IPPROTO_UDP));
    SHOW(listen(file, 1));
    SHOW(accept(file, NULL, NULL));
    SHOW(ntohs(own(file).sin_port));
    SHOW(events(file, POLLIN | POLLOUT));
    SHOW(recv(file, block, 1, 0));
    SHOW(write(file, block, 1));
    SHOW(send_to(file, "x", place("127.0.0.1", 0)));
    SHOW(shutdown(file, SHUT_RD));
    close(file);
}

static void exchange(void)
{
    // Streams and datagrams have ports of their own.
    int stream, one = bound_beside(&stream);
    int two = bound("0.0.0.0"), three = socket(AF_INET, SOCK_DGRAM, 0);
    SHOW(send_to(one, "first", own(two)));
    SHOW(send_to(three, "second", place("127.0.0.1", ntohs(own(two).sin_port))));
    SHOW(own(three).sin_port != 0 && own(three).sin_addr.s_addr == 0);
    SHOW(sendto(one, NULL, 0, 0, (struct sockaddr *)&(struct sockaddr_in){0}, 0));
    struct sockaddr_in to = own(two);
    SHOW(sendto(one, "", 0, 0, (struct sockaddr *)&to, sizeof to));
    SHOW(events(two, POLLIN));
    int waiting = -1;
    SHOW(ioctl(two, FIONREAD, &waiting));
    printf("waiting %d\n", waiting);
    receive("peeked", two, 3, MSG_PEEK, one);
    receive("cut", two, 3, 0, one);
    receive("whole length", two, 3, MSG_TRUNC, three);
    receive("empty", two, 16, 0, one);
    receive("none", two, 16, MSG_DONTWAIT, one);
    SHOW(events(two, POLLIN));
    int again = socket(AF_INET, SOCK_DGRAM, 0);
    to = own(one);
    SHOW(bind(again, (struct sockaddr *)&to, sizeof to));
    SHOW(bind(one, (struct sockaddr *)&to, sizeof to));
    close(again);
    close(stream);
    close(one);
    close(two);
    close(three);
}

static void lengths(void)
{
    int one = bound("127.0.0.1"), two = bound("127.0.0.1");
    join(one, own(two));
    for (int at = 0; at < LONGEST; at++)
        block[at] = at * 7;
    SHOW(write(one, block, LONGEST));
    SHOW(write(one, block, LONGEST + 1));
    SHOW(send(one, block, 0, 0));
    SHOW(write(one, block, 5000));
    SHOW(read(two, read_block, sizeof read_block));
    SHOW(memcmp(block, read_block, LONGEST));
    SHOW(recv(two, read_block, 10, 0));
    SHOW(read(two, read_block, 4999));
    SHOW(recv(two, read_block, 10, MSG_DONTWAIT));
    // Pieces of user memory make one datagram.
    struct iovec pieces[] = {{"ab", 2}, {"", 0}, {"cde", 3}};
    char first[2], second[2];
    struct iovec places[] = {{first, 2}, {second, 2}};
    struct sockaddr_in from;
    struct msghdr sent = {.msg_iov = pieces, .msg_iovlen = 3};
    struct msghdr message = {.msg_name = &from, .msg_namelen = sizeof from, .msg_iov = places, .msg_iovlen = 2};
    SHOW(sendmsg(one, &sent, 0));
    SHOW(recvmsg(two, &message, 0));
    printf("%.2s %.2s flags %x from %d\n", first, second, message.msg_flags, from.sin_port == own(one).sin_port);
    SHOW(writev(one, pieces, 3));
    SHOW(readv(two, places, 1));
    SHOW(writev(one, &(struct iovec){(void *)8, 4}, 1));
    close(one);
    close(two);
}

static void connected(void)
{
    int one = bound("127.0.0.1"), two = bound("127.0.0.1"), three = bound("127.0.0.1");
    SHOW(getpeername(one, (struct sockaddr *)&(struct sockaddr_in){0}, &(socklen_t){16}));
    SHOW(join(one, own(two)));
    SHOW(getpeername(one, (struct sockaddr *)&(struct sockaddr_in){0}, &(socklen_t){16}));
    // It hears its peer only, and may write to others.
    SHOW(send_to(three, "stranger", own(one)));
    SHOW(send_to(two, "peer", own(one)));
    receive("of the peer", one, 16, 0, two);
    receive("of nobody else", one, 16, MSG_DONTWAIT, three);
    SHOW(send_to(one, "to another", own(three)));
    receive("from a connected one", three, 16, 0, one);
    SHOW(write(one, "to the peer", 11));
    receive("from a connected one", two, 16, 0, one);
    SHOW(join(one, own(three)));
    SHOW(send_to(three, "now", own(one)));
    receive("of the new peer", one, 16, 0, three);
    SHOW(connect(one, &(struct sockaddr){.sa_family = AF_UNSPEC}, sizeof(struct sockaddr)));
    SHOW(write(one, "x", 1));
    SHOW(send_to(two, "any", own(one)));
    receive("of anybody", one, 16, 0, two);
    // Nobody is at a port any more.
    struct sockaddr_in gone = own(two);
    close(two);
    SHOW(send_to(one, "x", gone));
    SHOW(option(one, SOL_SOCKET, SO_ERROR));
    SHOW(join(one, gone));
    SHOW(write(one, "x", 1));
    SHOW(events(one, POLLIN));
    SHOW(recv(one, block, 1, MSG_DONTWAIT));
    SHOW(recv(one, block, 1, MSG_DONTWAIT));
    SHOW(write(one, "x", 1));
    SHOW(write(one, "x", 1));
    SHOW(option(one, SOL_SOCKET, SO_ERROR));
    SHOW(write(one, "x", 1));
    SHOW(option(one, SOL_SOCKET, SO_ERROR) == ECONNREFUSED);
    SHOW(shutdown(one, SHUT_RDWR));
    SHOW(events(one, POLLIN | POLLRDHUP));
    SHOW(recv(one, block, 1, 0));
    SHOW(write(one, "x", 1));
    close(one);
    close(three);
}

static int file;

static void *sends_later(void *to)
{
    struct timespec time = {.tv_nsec = 20000000};
    nanosleep(&time, NULL);
    send_to(file, "late", *(struct sockaddr_in *)to);
    return NULL;
}

static void waits(void)
{
    int one = bound("127.0.0.1"), epoll = epoll_create1(0);
    struct sockaddr_in at = own(one);
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.u32 = 7};
    pthread_t thread;
    file = bound("127.0.0.1");
    epoll_ctl(epoll, EPOLL_CTL_ADD, one, &event);
    for (int how = 0; how < 3; how++) {
        pthread_create(&thread, NULL, sends_later, &at);
        if (how == 1)
            SHOW(poll(&(struct pollfd){.fd = one, .events = POLLIN}, 1, -1));
        if (how == 2) {
            SHOW(epoll_wait(epoll, &event, 1, -1));
            SHOW(epoll_wait(epoll, &event, 1, 0));
        }
        receive("waited", one, 16, 0, file);
        pthread_join(thread, NULL);
    }
    struct timeval limit = {.tv_usec = 20000};
    setsockopt(one, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    receive("in vain", one, 16, 0, file);
    close(epoll);
    close(one);
    close(file);
}

// A full buffer loses the later datagrams: the first ones arrive, in their order.
static void lost(void)
{
    int one = bound("127.0.0.1"), two = bound("127.0.0.1"), count = 0, in_order = 1;
    join(one, own(two));
    for (int at = 0; at < 1000; at++) {
        memcpy(block, &at, sizeof at);
        if (write(one, block, 4000) != 4000)
            perror("write");
    }
    for (int number; recv(two, read_block, 4000, MSG_DONTWAIT) == 4000; count++) {
        memcpy(&number, read_block, sizeof number);
        in_order &= number == count;
    }
    printf("some are lost %d, some arrive %d, in order %d\n", count < 1000, count > 10, in_order);
    SHOW(write(one, "room", 4));
    receive("again", two, 16, 0, one);
    close(one);
    close(two);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    setvbuf(stdout, NULL, _IOLBF, 0);
    kinds();
    exchange();
    lengths();
    connected();
    waits();
    lost();
    return 0;
}
