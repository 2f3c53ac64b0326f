// Threads that wait in calls on descriptors, which others close or have stand for other files meanwhile.
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "show.h"

// The descriptor that the other thread's call is about, and its thread number.
static int file;
static volatile int sleeper;

// Result and error of the call, and the bytes that it has read.
static long result;
static int error;
static unsigned char bytes[16];

// Bytes of a pipe on Linux, and more than connections hold.
#define PIPE_BYTES (1 << 16)
#define MUCH (8 << 20)
static char block[MUCH];
static long count;

enum how { CLOSE, REPLACE };

static void pause_ms(int ms)
{
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

// Waits until the other thread sleeps in its call. Where the system does not tell of threads, it is never late.
static void until_asleep(void)
{
    char name[64], state = 0;
    while (sleeper == 0)
        pause_ms(1);
    snprintf(name, sizeof name, "/proc/self/task/%d/stat", sleeper);
    for (FILE *stat; (stat = fopen(name, "r")) && state != 'S'; pause_ms(1)) {
        if (fscanf(stat, "%*d (%*[^)]) %c", &state) != 1)
            state = 0;
        fclose(stat);
    }
    pause_ms(20);
}

static void call_ends(long value)
{
    result = value;
    error = value < 0 ? errno : 0;
}

static void *reads(void *unused)
{
    (void)unused;
    sleeper = syscall(SYS_gettid);
    call_ends(read(file, bytes, sizeof bytes));
    return NULL;
}

static void *writes(void *unused)
{
    (void)unused;
    sleeper = syscall(SYS_gettid);
    call_ends(write(file, block, count));
    return NULL;
}

static void *receives(void *unused)
{
    (void)unused;
    struct iovec piece = {bytes, 4};
    struct msghdr message = {.msg_iov = &piece, .msg_iovlen = 1};
    sleeper = syscall(SYS_gettid);
    call_ends(recvmsg(file, &message, MSG_WAITALL));
    return NULL;
}

static void *accepts(void *unused)
{
    (void)unused;
    sleeper = syscall(SYS_gettid);
    call_ends(accept(file, NULL, NULL));
    return NULL;
}

static int limit_ms;

static void *polls(void *unused)
{
    (void)unused;
    struct pollfd polled = {.fd = file, .events = POLLIN};
    sleeper = syscall(SYS_gettid);
    call_ends(poll(&polled, 1, limit_ms));
    bytes[0] = polled.revents;
    return NULL;
}

static void *selects(void *unused)
{
    (void)unused;
    fd_set set;
    FD_ZERO(&set);
    FD_SET(file, &set);
    sleeper = syscall(SYS_gettid);
    call_ends(select(file + 1, &set, NULL, NULL, NULL));
    bytes[0] = FD_ISSET(file, &set);
    return NULL;
}

static void *waits_for_events(void *unused)
{
    (void)unused;
    struct epoll_event event;
    sleeper = syscall(SYS_gettid);
    call_ends(epoll_wait(file, &event, 1, -1));
    bytes[0] = event.data.u32;
    return NULL;
}

static void *moves(void *target)
{
    sleeper = syscall(SYS_gettid);
    call_ends(splice(file, NULL, *(int *)target, NULL, 3, 0));
    return NULL;
}

// A thread that waits in a call on `number`.
static pthread_t begin(void *(*call)(void *), int number, void *argument)
{
    pthread_t thread;
    file = number;
    sleeper = 0;
    result = 0;
    memset(bytes, 0, sizeof bytes);
    pthread_create(&thread, NULL, call, argument);
    until_asleep();
    return thread;
}

static void end(const char *what, enum how how, pthread_t thread)
{
    pthread_join(thread, NULL);
    printf("%s, %s: %ld error %d bytes %d %d %d %d\n", what, how == CLOSE ? "closed" : "replaced",
           result, error, bytes[0], bytes[1], bytes[2], bytes[3]);
}

// Closes a descriptor, or has it stand for what another one does.
static void take(int number, enum how how, int other)
{
    if (how == CLOSE)
        close(number);
    else
        dup2(other, number);
}

static void give_back(int number, enum how how)
{
    if (how == REPLACE)
        close(number);
}

enum kind { PIPE, UNIX, TCP };
static const char *const names[] = {"pipe", "unix", "tcp"};

static int server_at(struct sockaddr_in *at)
{
    socklen_t length = sizeof *at;
    int server = socket(AF_INET, SOCK_STREAM, 0);
    *at = (struct sockaddr_in){.sin_family = AF_INET};
    inet_pton(AF_INET, "127.0.0.1", &at->sin_addr);
    if (bind(server, (struct sockaddr *)at, length) || listen(server, 4) ||
        getsockname(server, (struct sockaddr *)at, &length))
        perror("listen");
    return server;
}

static int client_of(const struct sockaddr_in *at)
{
    int client = socket(AF_INET, SOCK_STREAM, 0);
    if (connect(client, (const struct sockaddr *)at, sizeof *at))
        perror("connect");
    return client;
}

// The first end reads, and the second one writes.
static void connect_pair(int ends[2], enum kind kind)
{
    struct sockaddr_in at;
    if (kind == PIPE)
        pipe(ends);
    else if (kind == UNIX)
        socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    else {
        int server = server_at(&at);
        ends[0] = client_of(&at);
        ends[1] = accept(server, NULL, NULL);
        close(server);
    }
}

static void close_pair(int ends[2])
{
    close(ends[0]);
    close(ends[1]);
}

static void reading(enum kind kind, enum how how)
{
    int ends[2], other[2];
    connect_pair(ends, kind);
    connect_pair(other, kind);
    write(other[1], "other", 5);
    pthread_t thread = begin(reads, ends[0], NULL);
    take(ends[0], how, other[0]);
    // The end is open as long as the call waits.
    SHOW(write(ends[1], "own", 3));
    end(names[kind], how, thread);
    // And no longer.
    if (kind == PIPE)
        SHOW(poll(&(struct pollfd){.fd = ends[1]}, 1, -1));
    else
        SHOW(read(ends[1], bytes, sizeof bytes));
    SHOW(read(other[0], bytes, sizeof bytes));
    give_back(ends[0], how);
    close(ends[1]);
    close_pair(other);
}

static void writing(enum kind kind, enum how how)
{
    int ends[2], other[2];
    connect_pair(ends, kind);
    connect_pair(other, kind);
    count = kind == PIPE ? 2 * PIPE_BYTES : MUCH;
    if (kind == PIPE)
        SHOW(write(ends[1], block, PIPE_BYTES));
    pthread_t thread = begin(writes, ends[1], NULL);
    take(ends[1], how, other[1]);
    long whole = 0, part;
    while ((part = read(ends[0], block, MUCH)) > 0)
        whole += part;
    end(names[kind], how, thread);
    printf("whole %ld, then %ld\n", whole, part);
    SHOW(recv(other[0], bytes, 1, MSG_DONTWAIT) < 0);
    give_back(ends[1], how);
    close(ends[0]);
    close_pair(other);
}

static void receiving(enum kind kind, enum how how)
{
    int ends[2], other[2];
    connect_pair(ends, kind);
    connect_pair(other, kind);
    write(other[1], "other", 5);
    write(ends[1], "ab", 2);
    pthread_t thread = begin(receives, ends[0], NULL);
    take(ends[0], how, other[0]);
    write(ends[1], "cd", 2);
    end("parts", how, thread);
    give_back(ends[0], how);
    close(ends[1]);
    close_pair(other);
}

static void accepting(enum how how)
{
    struct sockaddr_in at, other_at;
    int server = server_at(&at), other = server_at(&other_at);
    int first = client_of(&other_at);
    pthread_t thread = begin(accepts, server, NULL);
    take(server, how, other);
    int client = client_of(&at);
    pthread_join(thread, NULL);
    SHOW(write(client, "own", 3));
    SHOW(read(result, bytes, sizeof bytes));
    printf("accepted, %s: %d\n", how == CLOSE ? "closed" : "replaced", bytes[0]);
    // Nobody listens any more.
    int late = socket(AF_INET, SOCK_STREAM, 0);
    SHOW(connect(late, (struct sockaddr *)&at, sizeof at));
    close(late);
    close(result);
    close(client);
    close(first);
    give_back(server, how);
    close(other);
}

// Linux looks its descriptors up again when the file of before has an event, or when the time is over.
static void polling(void *(*call)(void *), const char *what, enum how how, int is_late)
{
    int ends[2], other[2];
    pipe(ends);
    pipe(other);
    write(other[1], "other", 5);
    limit_ms = is_late ? 1000 : -1;
    pthread_t thread = begin(call, ends[0], NULL);
    take(ends[0], how, other[0]);
    pause_ms(20);
    SHOW(result);
    if (!is_late)
        write(ends[1], "own", 3);
    end(what, how, thread);
    give_back(ends[0], how);
    close(ends[1]);
    close_pair(other);
}

static void watching(enum how how)
{
    int ends[2], other[2], epoll = epoll_create1(0), second = epoll_create1(0);
    pipe(ends);
    pipe(other);
    write(other[1], "other", 5);
    epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &(struct epoll_event){.events = EPOLLIN, .data.u32 = 1});
    epoll_ctl(second, EPOLL_CTL_ADD, other[0], &(struct epoll_event){.events = EPOLLIN, .data.u32 = 2});
    pthread_t thread = begin(waits_for_events, epoll, NULL);
    take(epoll, how, second);
    write(ends[1], "own", 3);
    end("epoll", how, thread);
    give_back(epoll, how);
    close(second);
    close_pair(ends);
    close_pair(other);
}

static void moving(enum how how)
{
    int ends[2], other[2], to[2], other_to[2];
    pipe(ends);
    pipe(other);
    pipe(to);
    pipe(other_to);
    write(other[1], "other", 5);
    int target = to[1];
    pthread_t thread = begin(moves, ends[0], &target);
    take(ends[0], how, other[0]);
    take(to[1], how, other_to[1]);
    write(ends[1], "own", 3);
    end("splice", how, thread);
    SHOW(read(to[0], bytes, sizeof bytes));
    SHOW(read(to[0], bytes, sizeof bytes));
    give_back(ends[0], how);
    give_back(to[1], how);
    close(ends[1]);
    close(to[0]);
    close_pair(other);
    close_pair(other_to);
}

static void counting(enum how how)
{
    int own = eventfd(0, 0), copy = dup(own), other = eventfd(7, 0);
    unsigned long long one = 1;
    pthread_t thread = begin(reads, own, NULL);
    take(own, how, other);
    write(copy, &one, sizeof one);
    end("event", how, thread);
    give_back(own, how);
    close(copy);
    close(other);
}

static void *opens(void *unused)
{
    (void)unused;
    sleeper = syscall(SYS_gettid);
    call_ends(open("fifo", O_RDONLY));
    return NULL;
}

// The name stands for another pipe before the other end is open.
static void opening(void)
{
    mkfifo("fifo", 0600);
    pthread_t thread = begin(opens, 0, NULL);
    rename("fifo", "moved");
    mkfifo("fifo", 0600);
    int other = open("fifo", O_RDWR), writer = open("moved", O_WRONLY);
    pthread_join(thread, NULL);
    write(other, "other", 5);
    write(writer, "own", 3);
    SHOW(read(result, bytes, sizeof bytes));
    close(result);
    close(other);
    close(writer);
}

static volatile int has_seen;

// Makes no call before the other end of the connection has seen its end.
static void on_signal(int signal)
{
    (void)signal;
    while (!has_seen)
        ;
}

// The file is closed when a signal ends the call.
static void interrupted(void)
{
    int ends[2];
    struct sigaction action = {.sa_handler = on_signal};
    sigaction(SIGUSR1, &action, NULL);
    socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    pthread_t thread = begin(reads, ends[0], NULL);
    close(ends[0]);
    SHOW(poll(&(struct pollfd){.fd = ends[1], .events = POLLIN}, 1, 0));
    pthread_kill(thread, SIGUSR1);
    SHOW(read(ends[1], block, 1));
    has_seen = 1;
    end("interrupted", CLOSE, thread);
    close(ends[1]);
}

// So it is when its time is over.
static void late(void)
{
    int ends[2];
    struct timeval limit = {.tv_usec = 50000};
    socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    setsockopt(ends[0], SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    pthread_t thread = begin(reads, ends[0], NULL);
    close(ends[0]);
    SHOW(read(ends[1], block, 1));
    end("late", CLOSE, thread);
    close(ends[1]);
}

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    setvbuf(stdout, NULL, _IOLBF, 0);
    for (enum how how = CLOSE; how <= REPLACE; how++) {
        for (enum kind kind = PIPE; kind <= TCP; kind++) {
            reading(kind, how);
            writing(kind, how);
        }
        receiving(UNIX, how);
        receiving(TCP, how);
        accepting(how);
        polling(polls, "poll", how, 0);
        polling(polls, "late poll", how, 1);
        polling(selects, "select", how, 0);
        watching(how);
        moving(how);
        counting(how);
    }
    opening();
    interrupted();
    late();
    return 0;
}
