// epoll watches open files until their last descriptor is closed, while descriptors are copied and closed.
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

static int epoll;

static void control(const char *what, int operation, int file, uint32_t events, uint64_t data)
{
    struct epoll_event wanted = {.events = events, .data.u64 = data};
    int result = epoll_ctl(epoll, operation, file, &wanted);
    printf("%s %d %d\n", what, result, result < 0 ? errno : 0);
}

// The data of all events that are there, as a sum, and their bits.
static void events(const char *what, int timeout)
{
    struct epoll_event found[8];
    int count = epoll_wait(epoll, found, 8, timeout);
    uint64_t sum = 0;
    uint32_t bits = 0;
    for (int i = 0; i < count; i++) {
        sum += found[i].data.u64;
        bits |= found[i].events;
    }
    printf("%s: %d of %d, %x\n", what, count, (int)sum, bits);
}

static void copied(void)
{
    int ends[2];
    pipe(ends);
    control("add", EPOLL_CTL_ADD, ends[0], EPOLLIN, 1);
    int copy = dup(ends[0]);
    close(ends[0]);
    events("nothing to read", 0);
    write(ends[1], "x", 1);
    events("by its copy", 0);
    control("delete a closed one", EPOLL_CTL_DEL, ends[0], 0, 0);
    control("delete its copy", EPOLL_CTL_DEL, copy, 0, 0);
    control("change its copy", EPOLL_CTL_MOD, copy, EPOLLIN, 4);
    control("add its copy", EPOLL_CTL_ADD, copy, EPOLLIN, 2);
    control("once more", EPOLL_CTL_ADD, copy, EPOLLIN, 2);
    events("both", 0);

    int counter = eventfd(1, 0);
    printf("the same number %d\n", counter == ends[0]);
    control("another file", EPOLL_CTL_ADD, counter, EPOLLIN, 16);
    events("all", 0);
    control("without it", EPOLL_CTL_DEL, counter, 0, 0);
    events("both", 0);
    dup2(copy, ends[0]);
    control("it is back", EPOLL_CTL_ADD, ends[0], EPOLLIN, 32);
    control("change", EPOLL_CTL_MOD, ends[0], EPOLLIN, 64);
    events("changed", 0);
    close(copy);
    events("both yet", 0);
    close(ends[0]);
    events("closed", 0);
    close(ends[1]);
}

// Copies that come and go are no news of an open file.
static void news(void)
{
    int ends[2];
    pipe(ends);
    control("add", EPOLL_CTL_ADD, ends[0], EPOLLIN | EPOLLET, 1);
    write(ends[1], "x", 1);
    events("news", 0);
    events("no news", 0);
    int copy = dup(ends[1]), other = dup(ends[0]);
    events("copied", 0);
    dup2(ends[1], copy);
    dup2(ends[0], other);
    events("copied again", 0);
    close(copy);
    close(other);
    events("copies are closed", 0);
    dup2(ends[0], ends[1]);
    events("nobody writes", 0);
    events("no news", 0);
    close(ends[1]);
    close(ends[0]);
    events("closed", 0);
}

static int ends[2];

static void *write_later(void *argument)
{
    usleep(20000);
    write(ends[1], "x", 1);
    return argument;
}

static void waits(void)
{
    pthread_t thread;
    socketpair(AF_UNIX, SOCK_STREAM, 0, ends);
    control("add", EPOLL_CTL_ADD, ends[0], EPOLLIN | EPOLLONESHOT, 1);
    int copy = fcntl(ends[0], F_DUPFD, 20);
    close(ends[0]);
    pthread_create(&thread, NULL, write_later, NULL);
    events("waited", -1);
    pthread_join(thread, NULL);
    events("once", 0);
    dup2(copy, ends[0]);
    control("once more", EPOLL_CTL_MOD, ends[0], EPOLLIN | EPOLLONESHOT, 2);
    close(ends[0]);
    events("once more", 0);
    close(copy);
    close(ends[1]);
    events("closed", 0);
}

int main(void)
{
    epoll = epoll_create1(0);
    copied();
    news();
    waits();
    return 0;
}
