// Stream sockets: TCP over loopback, Unix sockets, and waiting for them.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <unistd.h>

#include "show.h"

static struct sockaddr_in inet(const char *ip, int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
    inet_pton(AF_INET, ip, &address.sin_addr);
    return address;
}

static struct sockaddr_un unix_name(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strcpy(address.sun_path, path);
    return address;
}

#define AT(address) (struct sockaddr *)&(address), sizeof(address)

static int ready(int file, int wanted)
{
    struct pollfd one = {.fd = file, .events = wanted};
    return poll(&one, 1, 0) < 0 ? -1 : one.revents;
}

static const int ALL = POLLIN | POLLOUT | POLLRDHUP;

// Waits for one of these events, or for an end of the connection.
static void await(int file, int wanted)
{
    poll(&(struct pollfd){.fd = file, .events = wanted}, 1, -1);
}

static int listen_at(const char *ip, int *port)
{
    struct sockaddr_in address = inet(ip, 0);
    socklen_t length = sizeof address;
    int one = 1, server = socket(AF_INET, SOCK_STREAM, 0);
    setsockopt(server, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (bind(server, AT(address)) || listen(server, 8) ||
        getsockname(server, (struct sockaddr *)&address, &length))
        perror("listen");
    *port = ntohs(address.sin_port);
    return server;
}

// A connection over TCP: the client's end and the server's.
static void connect_pair(int ends[2])
{
    int port, server = listen_at("127.0.0.1", &port);
    struct sockaddr_in to = inet("127.0.0.1", port);
    ends[0] = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(ends[0], AT(to)))
        perror("connect");
    ends[1] = accept(server, NULL, NULL);
    close(server);
}

static void kinds(void)
{
    puts("kinds");
    SHOW(socket(77, SOCK_STREAM, 0));
    SHOW(socket(AF_INET, SOCK_STREAM, IPPROTO_UDP));
    SHOW(socket(AF_INET, 77, 0));
    SHOW(socket(AF_UNIX, SOCK_STREAM, 7));
    int pair[2];
    SHOW(socketpair(AF_INET, SOCK_STREAM, 0, pair));
    int file = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, IPPROTO_TCP);
    printf("flags %d %d\n", fcntl(file, F_GETFD), fcntl(file, F_GETFL) == (O_RDWR | O_NONBLOCK));
    struct stat status;
    fstat(file, &status);
    printf("socket %d %o\n", S_ISSOCK(status.st_mode), status.st_mode & 0777);
    char link[64] = {0}, path[64], expected[64];
    sprintf(path, "/proc/self/fd/%d", file);
    sprintf(expected, "socket:[%lu]", (unsigned long)status.st_ino);
    readlink(path, link, sizeof link - 1);
    printf("link %d\n", strcmp(link, expected));
    SHOW(open(path, O_RDWR));
    SHOW(lseek(file, 0, SEEK_CUR));
    SHOW(pread(file, path, 1, 0));
    SHOW(listen(0, 1));
    SHOW(accept(file, NULL, NULL));
    SHOW(getpeername(file, (struct sockaddr *)path, &(socklen_t){16}));
    SHOW(shutdown(file, SHUT_WR));
    SHOW(recv(file, path, 1, 0));
    SHOW(send(file, path, 1, MSG_NOSIGNAL));
    printf("fresh %x\n", ready(file, ALL));
    close(file);
    file = socket(AF_UNIX, SOCK_STREAM, 0);
    SHOW(recv(file, path, 1, 0));
    SHOW(send(file, path, 1, 0));
    SHOW(listen(file, 1));
    printf("fresh %x\n", ready(file, ALL));
    close(file);
}

static void options(void)
{
    puts("options");
    int file = socket(AF_INET, SOCK_STREAM, 0), value, one = 5;
    socklen_t length;
#define OPTION(level, option)                                                                      \
    value = -1, length = sizeof value;                                                             \
    SHOW(getsockopt(file, level, option, &value, &length));                                        \
    printf("  %d %d\n", value, (int)length)
    OPTION(SOL_SOCKET, SO_TYPE);
    OPTION(SOL_SOCKET, SO_ERROR);
    OPTION(SOL_SOCKET, SO_ACCEPTCONN);
    OPTION(SOL_SOCKET, SO_DOMAIN);
    OPTION(SOL_SOCKET, SO_PROTOCOL);
    OPTION(SOL_SOCKET, SO_REUSEADDR);
    SHOW(setsockopt(file, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one));
    OPTION(SOL_SOCKET, SO_REUSEADDR);
    SHOW(setsockopt(file, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one));
    OPTION(SOL_SOCKET, SO_KEEPALIVE);
    OPTION(IPPROTO_TCP, TCP_NODELAY);
    SHOW(setsockopt(file, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one));
    OPTION(IPPROTO_TCP, TCP_NODELAY);
    OPTION(IPPROTO_TCP, TCP_KEEPIDLE);
    SHOW(setsockopt(file, IPPROTO_TCP, TCP_KEEPIDLE, &one, sizeof one));
    OPTION(IPPROTO_TCP, TCP_KEEPIDLE);
    SHOW(setsockopt(file, SOL_SOCKET, SO_SNDBUF, &(int){65536}, sizeof(int)));
    OPTION(SOL_SOCKET, SO_SNDBUF);
    SHOW(setsockopt(file, SOL_SOCKET, SO_KEEPALIVE, &one, 2));
    SHOW(setsockopt(file, SOL_SOCKET, 4711, &one, sizeof one));
    SHOW(setsockopt(0, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one));
    struct timeval time = {.tv_sec = 1, .tv_usec = 4000};
    SHOW(setsockopt(file, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time));
    memset(&time, 0, sizeof time);
    length = sizeof time;
    getsockopt(file, SOL_SOCKET, SO_RCVTIMEO, &time, &length);
    printf("timeout %ld %ld %d\n", (long)time.tv_sec, (long)time.tv_usec, (int)length);
    close(file);
    file = socket(AF_UNIX, SOCK_STREAM, 0);
    OPTION(SOL_SOCKET, SO_DOMAIN);
    SHOW(setsockopt(file, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one));
    close(file);
}

// What an accepted socket has of the one that listened.
static void inherited(int server, struct sockaddr *to, socklen_t bytes)
{
    struct linger linger = {.l_onoff = 1, .l_linger = 0};
    struct timeval time = {.tv_sec = 7};
    int one = 1, value = -1, client = socket(to->sa_family, SOCK_STREAM, 0);
    setsockopt(server, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof one);
    setsockopt(server, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    setsockopt(server, SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
    SHOW(connect(client, to, bytes));
    int accepted = accept(server, NULL, NULL);
    getsockopt(accepted, SOL_SOCKET, SO_KEEPALIVE, &value, &(socklen_t){sizeof value});
    getsockopt(accepted, SOL_SOCKET, SO_LINGER, &linger, &(socklen_t){sizeof linger});
    getsockopt(accepted, SOL_SOCKET, SO_RCVTIMEO, &time, &(socklen_t){sizeof time});
    printf("inherited %d %d %ld\n", value, linger.l_onoff, (long)time.tv_sec);
    close(client);
    close(accepted);
}

static void names(void)
{
    puts("names");
    int port, server = listen_at("127.0.0.1", &port);
    printf("port %d\n", port >= 32768);
    struct sockaddr_in to = inet("127.0.0.1", port), found;
    socklen_t length = sizeof found;
    int other = socket(AF_INET, SOCK_STREAM, 0);
    SHOW(bind(other, AT(to)));
    SHOW(bind(other, (struct sockaddr *)&to, 8));
    struct sockaddr_in far = inet("192.0.2.7", 0);
    SHOW(bind(other, AT(far)));
    SHOW(bind(server, AT(to)));
    SHOW(connect(server, AT(to)));
    SHOW(listen(other, 5));
    SHOW(connect(other, AT(to)));
    close(other);

    int client = socket(AF_INET, SOCK_STREAM, 0);
    getsockname(client, (struct sockaddr *)&found, &length);
    printf("unbound %s %d %d\n", inet_ntoa(found.sin_addr), found.sin_port, (int)length);
    SHOW(connect(client, AT(to)));
    SHOW(connect(client, AT(to)));
    getsockname(client, (struct sockaddr *)&found, &length);
    int own = ntohs(found.sin_port);
    printf("client %s %d\n", inet_ntoa(found.sin_addr), own != port);
    getpeername(client, (struct sockaddr *)&found, &length);
    printf("peer %s %d\n", inet_ntoa(found.sin_addr), ntohs(found.sin_port) == port);
    memset(&found, 0, sizeof found);
    length = sizeof found;
    int accepted = accept4(server, (struct sockaddr *)&found, &length, SOCK_NONBLOCK);
    printf("accepted %s %d %d\n", inet_ntoa(found.sin_addr), ntohs(found.sin_port) == own,
           (int)length);
    length = 4;
    getsockname(accepted, (struct sockaddr *)&found, &length);
    printf("length %d\n", (int)length);
    SHOW(fcntl(accepted, F_GETFL) == (O_RDWR | O_NONBLOCK));
    SHOW(accept4(server, NULL, NULL, 77));
    close(accepted);
    close(client);
    inherited(server, AT(to));
    close(server);
    // Nobody listens there any more.
    client = socket(AF_INET, SOCK_STREAM, 0);
    SHOW(connect(client, AT(to)));
    server = listen_at("127.0.0.1", &port);
    to = inet("0.0.0.0", port);
    SHOW(connect(client, AT(to)));
    close(client);
    close(server);
}

static void bytes(int ends[2])
{
    char buffer[64] = {0};
    struct iovec pieces[2] = {{buffer, 3}, {buffer + 8, 5}};
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = 2};
    int count;
    printf("idle %x %x\n", ready(ends[0], ALL), ready(ends[1], ALL));
    SHOW(write(ends[0], "one two three", 13));
    printf("has %x\n", ready(ends[1], ALL));
    SHOW(ioctl(ends[1], FIONREAD, &count));
    printf("bytes %d\n", count);
    SHOW(recv(ends[1], buffer, 3, MSG_PEEK));
    printf("peeked %.3s\n", buffer);
    SHOW(recvmsg(ends[1], &message, 0));
    printf("pieces %.3s %.5s %d %d\n", buffer, buffer + 8, message.msg_flags,
           (int)message.msg_controllen);
    SHOW(readv(ends[1], pieces, 2));
    printf("pieces %.3s %.2s\n", buffer, buffer + 8);
    SHOW(recv(ends[1], buffer, 1, MSG_DONTWAIT));
    SHOW(ioctl(ends[1], FIONBIO, &(int){1}));
    SHOW(read(ends[1], buffer, 1));
    SHOW(ioctl(ends[1], FIONBIO, &(int){0}));
    memcpy(buffer, "abc     defgh", 13);
    SHOW(sendmsg(ends[1], &message, 0));
    SHOW(writev(ends[1], pieces, 2));
    SHOW(recv(ends[0], buffer, 16, MSG_WAITALL));
    printf("all %.16s\n", buffer);
    SHOW(send(ends[0], "x", 1, MSG_OOB | MSG_DONTWAIT) < 0 ? 0 : 0);
    SHOW(read(ends[0], buffer, 0));
    SHOW(send(ends[0], "", 0, 0));
    struct timeval time = {.tv_usec = 3000};
    setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &time, sizeof time);
    SHOW(recv(ends[0], buffer, 1, 0));
    // Until there is no room for more.
    long total = 0, received = 0;
    static char block[50000];
    for (ssize_t sent; (sent = send(ends[0], block, sizeof block, MSG_DONTWAIT)) > 0;)
        total += sent;
    printf("full %d %d %x\n", errno, total >= 100000, ready(ends[0], POLLOUT));
    while (received < total)
        received += read(ends[1], block, sizeof block);
    printf("received %d\n", received == total);
    await(ends[0], POLLOUT);
    printf("room %x\n", ready(ends[0], POLLOUT));
}

static void halves(int ends[2])
{
    char buffer[8] = {0};
    SHOW(write(ends[0], "last", 4));
    SHOW(shutdown(ends[0], SHUT_WR));
    printf("half %x %x\n", ready(ends[0], ALL), ready(ends[1], ALL));
    SHOW(send(ends[0], "x", 1, MSG_NOSIGNAL));
    SHOW(read(ends[1], buffer, 8));
    SHOW(read(ends[1], buffer, 8));
    SHOW(read(ends[1], buffer, 8));
    SHOW(write(ends[1], "answer", 6));
    SHOW(read(ends[0], buffer, 8));
    printf("answer %.6s\n", buffer);
    SHOW(shutdown(ends[1], 7));
    SHOW(shutdown(ends[1], SHUT_RDWR));
    printf("both %x %x\n", ready(ends[0], ALL), ready(ends[1], ALL));
    SHOW(read(ends[0], buffer, 8));
    close(ends[0]);
    close(ends[1]);
}

static volatile sig_atomic_t broken;

static void on_broken(int signal)
{
    (void)signal;
    broken++;
}

static void closing(int ends[2], int ends_2[2])
{
    char buffer[8];
    int error = 0;
    socklen_t length = sizeof error;
    // The other end is closed with all read: this one may write once more.
    close(ends[1]);
    printf("closed %x\n", ready(ends[0], ALL));
    SHOW(read(ends[0], buffer, 8));
    SHOW(send(ends[0], "x", 1, MSG_NOSIGNAL));
    await(ends[0], 0);
    printf("reset %x\n", ready(ends[0], ALL));
    SHOW(write(ends[0], "x", 1));
    printf("signals %d\n", (int)broken);
    SHOW(read(ends[0], buffer, 8));
    close(ends[0]);
    // And with bytes that it has not read.
    SHOW(write(ends_2[0], "unread", 6));
    close(ends_2[1]);
    await(ends_2[0], 0);
    printf("lost %x\n", ready(ends_2[0], ALL));
    SHOW(read(ends_2[0], buffer, 8));
    SHOW(read(ends_2[0], buffer, 8));
    SHOW(write(ends_2[0], "x", 1));
    printf("signals %d\n", (int)broken);
    SHOW(getsockopt(ends_2[0], SOL_SOCKET, SO_ERROR, &error, &length));
    printf("error %d\n", error);
    close(ends_2[0]);
}

static void resets(void)
{
    puts("resets");
    int ends[2], value = 0;
    char buffer[8];
    socklen_t length = sizeof value;
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    connect_pair(ends);
    setsockopt(ends[1], SOL_SOCKET, SO_LINGER, &now, sizeof now);
    SHOW(write(ends[1], "kept", 4));
    close(ends[1]);
    await(ends[0], 0);
    SHOW(getsockopt(ends[0], SOL_SOCKET, SO_ERROR, &value, &length));
    printf("error %d\n", value);
    SHOW(getpeername(ends[0], (struct sockaddr *)buffer, &length));
    close(ends[0]);
}

static void later(void)
{
    puts("later");
    int port, server = listen_at("127.0.0.1", &port), error;
    struct sockaddr_in to = inet("127.0.0.1", port);
    socklen_t length = sizeof error;
    fcntl(server, F_SETFL, O_NONBLOCK);
    SHOW(accept(server, NULL, NULL));
    int client = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    SHOW(connect(client, AT(to)));
    await(client, POLLOUT);
    await(server, POLLIN);
    printf("connected %x %x\n", ready(client, ALL), ready(server, ALL));
    SHOW(getsockopt(client, SOL_SOCKET, SO_ERROR, &error, &length));
    printf("error %d\n", error);
    SHOW(connect(client, AT(to)));
    SHOW(connect(client, AT(to)));
    int accepted = accept(server, NULL, NULL);
    printf("accepted %d\n", accepted > 0);
    close(server);
    close(client);
    client = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    SHOW(connect(client, AT(to)));
    await(client, 0);
    printf("refused %x\n", ready(client, ALL));
    SHOW(getsockopt(client, SOL_SOCKET, SO_ERROR, &error, &length));
    printf("error %d\n", error);
    close(client);
    close(accepted);
}

static void *echo(void *argument)
{
    int server = *(int *)argument, client = accept(server, NULL, NULL);
    static char buffer[30000];
    for (ssize_t count; (count = read(client, buffer, sizeof buffer)) > 0;)
        for (ssize_t done = 0; done < count;)
            done += write(client, buffer + done, count - done);
    close(client);
    return NULL;
}

static unsigned long sum, total;

static void *drain(void *argument)
{
    int client = *(int *)argument;
    static unsigned char buffer[70000];
    for (ssize_t count; (count = read(client, buffer, sizeof buffer)) > 0; total += count)
        for (ssize_t at = 0; at < count; at++)
            sum = sum * 31 + buffer[at];
    return NULL;
}

static void threads(void)
{
    puts("threads");
    int port, server = listen_at("127.0.0.1", &port);
    struct sockaddr_in to = inet("127.0.0.1", port);
    pthread_t echoer, drainer;
    pthread_create(&echoer, NULL, echo, &server);
    int client = socket(AF_INET, SOCK_STREAM, 0);
    SHOW(connect(client, AT(to)));
    pthread_create(&drainer, NULL, drain, &client);
    static unsigned char block[300000];
    unsigned state = 7;
    for (int round = 0; round < 4; round++) {
        for (size_t at = 0; at < sizeof block; at++)
            block[at] = state = state * 1103515245 + 12345;
        for (size_t done = 0; done < sizeof block;)
            done += write(client, block + done, sizeof block - done);
    }
    SHOW(shutdown(client, SHUT_WR));
    pthread_join(echoer, NULL);
    pthread_join(drainer, NULL);
    printf("drained %lu %lx\n", total, sum);
    close(client);
    close(server);
}

static void watching(void)
{
    puts("watching");
    int ends[2], many = epoll_create1(0);
    char buffer[8];
    struct epoll_event event = {.events = EPOLLIN | EPOLLRDHUP | EPOLLET, .data.u64 = 42}, found;
    connect_pair(ends);
    SHOW(epoll_ctl(many, EPOLL_CTL_ADD, ends[1], &event));
    SHOW(epoll_wait(many, &found, 1, 0));
    write(ends[0], "ab", 2);
    SHOW(epoll_wait(many, &found, 1, 1000));
    printf("event %x %d\n", found.events, (int)found.data.u64);
    SHOW(epoll_wait(many, &found, 1, 0));
    read(ends[1], buffer, 1);
    SHOW(epoll_wait(many, &found, 1, 0));
    write(ends[0], "c", 1);
    SHOW(epoll_wait(many, &found, 1, 1000));
    printf("event %x\n", found.events);
    shutdown(ends[0], SHUT_WR);
    SHOW(epoll_wait(many, &found, 1, 1000));
    printf("event %x\n", found.events);
    close(ends[0]);
    shutdown(ends[1], SHUT_WR);
    await(ends[1], 0);
    SHOW(epoll_wait(many, &found, 1, 1000));
    printf("event %x\n", found.events);
    close(ends[1]);
    SHOW(epoll_wait(many, &found, 1, 0));
    close(many);
    fd_set set;
    connect_pair(ends);
    FD_ZERO(&set);
    FD_SET(ends[1], &set);
    write(ends[0], "x", 1);
    SHOW(select(ends[1] + 1, &set, NULL, NULL, NULL));
    SHOW(FD_ISSET(ends[1], &set));
    close(ends[0]);
    close(ends[1]);
}

static void unix_sockets(void)
{
    puts("unix");
    unlink("listener.sock");
    int server = socket(AF_UNIX, SOCK_STREAM, 0), client = socket(AF_UNIX, SOCK_STREAM, 0);
    struct sockaddr_un to = unix_name("listener.sock"), found;
    socklen_t length = sizeof found;
    SHOW(connect(client, AT(to)));
    SHOW(bind(server, AT(to)));
    SHOW(connect(client, AT(to)));
    SHOW(listen(server, 4));
    int other = socket(AF_UNIX, SOCK_STREAM, 0);
    SHOW(bind(other, AT(to)));
    close(other);
    struct stat status;
    SHOW(stat("listener.sock", &status));
    printf("mode %o\n", status.st_mode);
    SHOW(open("listener.sock", O_RDWR));
    SHOW(connect(client, AT(to)));
    int accepted = accept(server, (struct sockaddr *)&found, &length);
    printf("accepted %d %d\n", accepted > 0, (int)length);
    length = sizeof found;
    getpeername(client, (struct sockaddr *)&found, &length);
    printf("peer %s %d\n", found.sun_path, (int)length);
    int ends[2] = {client, accepted};
    bytes(ends);
    halves(ends);
    inherited(server, AT(to));
    SHOW(rename("listener.sock", "renamed.sock"));
    client = socket(AF_UNIX, SOCK_STREAM, 0);
    SHOW(connect(client, AT(to)));
    to = unix_name("renamed.sock");
    SHOW(connect(client, AT(to)));
    SHOW(unlink("renamed.sock"));
    SHOW(connect(client, AT(to)));
    close(client);
    close(server);

    struct sockaddr_un hidden = {.sun_family = AF_UNIX, .sun_path = "\0hidden"};
    socklen_t hidden_length = offsetof(struct sockaddr_un, sun_path) + 7;
    server = socket(AF_UNIX, SOCK_STREAM, 0);
    SHOW(bind(server, (struct sockaddr *)&hidden, hidden_length));
    other = socket(AF_UNIX, SOCK_STREAM, 0);
    SHOW(bind(other, (struct sockaddr *)&hidden, hidden_length));
    SHOW(connect(other, (struct sockaddr *)&hidden, hidden_length));
    SHOW(listen(server, 0));
    SHOW(connect(other, (struct sockaddr *)&hidden, hidden_length));
    client = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0);
    SHOW(connect(client, (struct sockaddr *)&hidden, hidden_length));
    close(client);
    close(server);
    char buffer[8];
    SHOW(read(other, buffer, 8));
    close(other);
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    struct sigaction action = {.sa_handler = on_broken};
    sigaction(SIGPIPE, &action, NULL);
    int ends[2], ends_2[2];
    kinds();
    options();
    names();
    puts("bytes");
    connect_pair(ends);
    bytes(ends);
    puts("halves");
    halves(ends);
    puts("closing");
    connect_pair(ends);
    connect_pair(ends_2);
    closing(ends, ends_2);
    puts("closing of pairs");
    SHOW(socketpair(AF_UNIX, SOCK_STREAM, 0, ends));
    SHOW(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends_2));
    closing(ends, ends_2);
    resets();
    later();
    threads();
    watching();
    unix_sockets();
    return 0;
}
