// Stream sockets: how connections begin and end, and options that say how long calls wait.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include "show.h"

#define AT(address) (struct sockaddr *)&(address), sizeof(address)

static char buffer[1 << 20];

static struct sockaddr_un unix_name(const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    strcpy(address.sun_path + 1, name);
    return address;
}

static int events(int file)
{
    struct pollfd one = {.fd = file, .events = POLLIN | POLLOUT | POLLRDHUP};
    poll(&one, 1, 0);
    return one.revents;
}

static struct sockaddr_in server_at;

static int inet_server(int backlog)
{
    struct sockaddr_in any = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
    socklen_t length = sizeof server_at;
    int server = socket(AF_INET, SOCK_STREAM, 0);
    if (bind(server, AT(any)) || listen(server, backlog) ||
        getsockname(server, (struct sockaddr *)&server_at, &length))
        perror("listen");
    return server;
}

static void inet_pair(int ends[2])
{
    int server = inet_server(8);
    ends[0] = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(ends[0], AT(server_at)))
        perror("connect");
    ends[1] = accept(server, NULL, NULL);
    close(server);
}

static int unix_server(const char *name, int backlog)
{
    struct sockaddr_un address = unix_name(name);
    int server = socket(AF_UNIX, SOCK_STREAM, 0);
    if (bind(server, AT(address)) || listen(server, backlog))
        perror("listen");
    return server;
}

static int unix_client(void)
{
    return socket(AF_UNIX, SOCK_STREAM, 0);
}

static void limit(int file, int option, long seconds, long micros)
{
    struct timeval time = {seconds, micros};
    SHOW(setsockopt(file, SOL_SOCKET, option, &time, sizeof time));
}

static volatile int rings;

static void ring(int signal)
{
    (void)signal;
    static const char message[] = "the call does not end\n";
    if (++rings == 50) {
        if (write(1, message, sizeof message - 1))
            _exit(1);
    }
}

static void alarms(long micros, int repeats, int flags)
{
    struct sigaction action = {.sa_handler = ring, .sa_flags = flags};
    struct itimerval timer = {{0, repeats ? micros : 0}, {0, micros}};
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
}

// A signal ends a call that has a limit, even if others would begin again.
static void limits(void)
{
    int ends[2], server = inet_server(1);
    inet_pair(ends);
    limit(ends[1], SO_RCVTIMEO, 2, 0);
    limit(server, SO_RCVTIMEO, 2, 0);
    alarms(30000, 1, SA_RESTART);
    SHOW(read(ends[1], buffer, 1));
    SHOW(accept(server, NULL, NULL));
    alarms(0, 0, 0);
    limit(ends[1], SO_RCVTIMEO, 0, 30000);
    SHOW(read(ends[1], buffer, 1));
    // No time at all.
    limit(ends[1], SO_RCVTIMEO, -1, 0);
    limit(server, SO_RCVTIMEO, -1, 500);
    alarms(500000, 0, 0);
    SHOW(read(ends[1], buffer, 1));
    SHOW(accept(server, NULL, NULL));
    alarms(0, 0, 0);
    struct timeval time = {7, 7};
    socklen_t length = sizeof time;
    SHOW(getsockopt(server, SOL_SOCKET, SO_RCVTIMEO, &time, &length));
    printf("%ld %ld\n", (long)time.tv_sec, (long)time.tv_usec);
}

static void show_linger(int file)
{
    struct linger linger;
    socklen_t length = sizeof linger;
    SHOW(getsockopt(file, SOL_SOCKET, SO_LINGER, &linger, &length));
    printf("linger %d %d\n", linger.l_onoff, linger.l_linger);
}

static void options(void)
{
    int one = socket(AF_INET, SOCK_STREAM, 0);
    show_linger(one);
    struct linger linger = {7, 3};
    SHOW(setsockopt(one, SOL_SOCKET, SO_LINGER, &linger, sizeof linger));
    show_linger(one);
    linger = (struct linger){0, 9};
    SHOW(setsockopt(one, SOL_SOCKET, SO_LINGER, &linger, sizeof linger));
    show_linger(one);
    SHOW(socket(AF_INET, SOCK_STREAM, 300));
    SHOW(socket(AF_UNIX, SOCK_STREAM, 300));
    SHOW(socket(0x10002, SOCK_STREAM, 0));
}

// After both directions are shut down, bytes of the other end end the connection.
static void shut_down_both(void)
{
    int ends[2];
    inet_pair(ends);
    SHOW(shutdown(ends[0], SHUT_RDWR));
    for (int count = 0; count < 3; count++) {
        SHOW(write(ends[1], buffer, 100));
        usleep(2000);
    }
    printf("%x %x\n", events(ends[0]), events(ends[1]));
    // With one direction only they arrive.
    inet_pair(ends);
    SHOW(shutdown(ends[0], SHUT_RD));
    SHOW(write(ends[1], buffer, 100));
    SHOW(write(ends[1], buffer, 100));
    SHOW(recv(ends[0], buffer, sizeof buffer, MSG_DONTWAIT) > 0);
}

// A client of TCP that gives up is not accepted.
static void give_up(void)
{
    int server = inet_server(0), first = socket(AF_INET, SOCK_STREAM, 0);
    SHOW(connect(first, AT(server_at)));
    fcntl(server, F_SETFL, O_NONBLOCK);
    for (int count = 0; count < 5000; count++) {
        int client = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
        if (connect(client, AT(server_at)) == 0 || errno != EINPROGRESS)
            printf("%d: %d\n", count, errno);
        close(client);
    }
    struct sockaddr_in none = {.sin_family = AF_UNSPEC};
    int client = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
    SHOW(connect(client, AT(server_at)));
    printf("%x\n", events(client));
    SHOW(connect(client, AT(none)));
    SHOW(accept(server, NULL, NULL) >= 0);
    SHOW(accept(server, NULL, NULL));
}

static void unix_full(void)
{
    struct sockaddr_un full = unix_name("full"), other = unix_name("other");
    int server = unix_server("full", 0), second = unix_server("other", 4);
    int first = unix_client(), client = unix_client();
    SHOW(connect(first, AT(full)));
    // A limit, and a signal: the socket can connect elsewhere.
    limit(client, SO_SNDTIMEO, 0, 30000);
    SHOW(connect(client, AT(full)));
    printf("%x\n", events(client));
    SHOW(connect(client, AT(other)));
    printf("%x\n", events(client));
    client = unix_client();
    alarms(30000, 0, 0);
    SHOW(connect(client, AT(full)));
    close(client);
    SHOW(fcntl(server, F_SETFL, O_NONBLOCK));
    SHOW(accept(server, NULL, NULL) >= 0);
    SHOW(accept(server, NULL, NULL));
    SHOW(accept(second, NULL, NULL) >= 0);
}

static void *take(void *server)
{
    usleep(20000);
    return accept(*(int *)server, NULL, NULL) < 0 ? NULL : server;
}

static void *stop(void *server)
{
    usleep(20000);
    shutdown(*(int *)server, SHUT_RDWR);
    return NULL;
}

static void unix_listeners(void)
{
    struct sockaddr_un name = unix_name("listener");
    int server = unix_server("listener", 0), first = unix_client(), second = unix_client();
    pthread_t thread;
    SHOW(connect(first, AT(name)));
    pthread_create(&thread, NULL, take, &server);
    SHOW(connect(second, AT(name)));
    pthread_join(thread, NULL);
    // An accepted socket cannot listen, and stays connected.
    int accepted = accept(server, NULL, NULL);
    SHOW(listen(accepted, 1));
    SHOW(write(accepted, "hi", 2));
    SHOW(recv(second, buffer, 9, MSG_DONTWAIT));
    SHOW(write(second, "you", 3));
    SHOW(recv(accepted, buffer, 9, MSG_DONTWAIT));
    // A listener that is shut down keeps those that wait.
    int third = unix_client(), fourth = unix_client();
    SHOW(connect(third, AT(name)));
    SHOW(shutdown(server, SHUT_WR));
    printf("%x\n", events(server));
    SHOW(shutdown(server, SHUT_RD));
    SHOW(connect(fourth, AT(name)));
    printf("%x\n", events(server));
    SHOW(accept(server, NULL, NULL) >= 0);
    SHOW(accept(server, NULL, NULL));
    server = unix_server("waits", 1);
    pthread_create(&thread, NULL, stop, &server);
    SHOW(accept(server, NULL, NULL));
    pthread_join(thread, NULL);
    printf("%x\n", events(server));
}

static long fill(int file)
{
    long written = 0, count;
    while ((count = send(file, buffer, 4096, MSG_DONTWAIT)) > 0)
        written += count;
    return written;
}

static long drain(int file)
{
    long read = 0, count;
    while ((count = recv(file, buffer, sizeof buffer, MSG_DONTWAIT)) > 0)
        read += count;
    printf("end %ld %d\n", count, count < 0 ? errno : 0);
    return read;
}

// A Unix socket that is closed loses nothing that was written.
static void unix_closed(void)
{
    for (int how = 0; how < 4; how++) {
        int ends[2];
        socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
        if (how & 1)
            SHOW(write(ends[1], "x", 1));
        long written = fill(ends[0]);
        if (how & 2)
            SHOW(shutdown(ends[0], SHUT_WR));
        close(ends[0]);
        SHOW(send(ends[1], "x", 1, MSG_NOSIGNAL));
        printf("%x\n", events(ends[1]));
        printf("all %d\n", drain(ends[1]) == written);
        SHOW(read(ends[1], buffer, 1));
    }
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    setvbuf(stdout, NULL, _IOLBF, 0);
    limits();
    options();
    shut_down_both();
    give_up();
    unix_full();
    unix_listeners();
    unix_closed();
    return 0;
}
