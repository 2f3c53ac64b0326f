// Sets of epoll that watch each other, and events that only some files have.
#define _GNU_SOURCE
#include "show.h"
#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

static int watch(int set, int operation, int file, unsigned events)
{
    struct epoll_event event = {.events = events, .data.fd = file};
    return epoll_ctl(set, operation, file, &event);
}

static void wait_for(const char *what, int set)
{
    struct epoll_event events[4];
    int count = epoll_wait(set, events, 4, 0);
    printf("%s: %d", what, count);
    for (int i = 0; i < count; i++)
        printf(" %x of %d", events[i].events, events[i].data.fd);
    printf("\n");
}

static void nested(void)
{
    int ends[2], inner = epoll_create1(0), outer = epoll_create1(0), far = epoll_create1(0);
    char byte = 0;
    pipe(ends);
    SHOW(watch(outer, EPOLL_CTL_ADD, inner, EPOLLIN | EPOLLET));
    SHOW(watch(far, EPOLL_CTL_ADD, outer, EPOLLIN));
    wait_for("nothing", far);
    SHOW(watch(inner, EPOLL_CTL_ADD, ends[0], EPOLLIN));
    wait_for("nothing yet", outer);
    write(ends[1], "a", 1);
    wait_for("far", far);
    wait_for("outer", outer);
    wait_for("outer again", outer);
    wait_for("inner", inner);
    write(ends[1], "b", 1);
    wait_for("outer after a change", outer);
    struct pollfd polled = {outer, POLLIN | POLLRDNORM | POLLOUT, 0};
    SHOW(poll(&polled, 1, 0));
    read(ends[0], &byte, 1);
    read(ends[0], &byte, 1);
    wait_for("inner when empty", inner);
    wait_for("far when empty", far);
    SHOW(watch(inner, EPOLL_CTL_ADD, far, EPOLLIN));
    SHOW(watch(inner, EPOLL_CTL_ADD, inner, EPOLLIN));
    SHOW(watch(inner, EPOLL_CTL_ADD, outer, EPOLLIN));
    close(outer);
    wait_for("far without outer", far);
    SHOW(watch(inner, EPOLL_CTL_ADD, far, EPOLLIN));
}

static void chained(void)
{
    int sets[9];
    for (int i = 0; i < 9; i++)
        sets[i] = epoll_create1(0);
    for (int i = 0; i < 8; i++)
        if (watch(sets[i], EPOLL_CTL_ADD, sets[i + 1], EPOLLIN) < 0) {
            printf("ends with error %d: %d\n", errno, i > 3 && i < 7);
            break;
        }
    for (int i = 0; i < 9; i++)
        close(sets[i]);
}

// Each set watches all sets of the next level: there are more ways than anybody could follow.
static void wide(void)
{
    enum { LEVELS = 4, SETS = 40 };
    int sets[LEVELS][SETS], failed = 0;
    for (int level = 0; level < LEVELS; level++)
        for (int i = 0; i < SETS; i++)
            sets[level][i] = epoll_create1(0);
    for (int level = 0; level + 1 < LEVELS; level++)
        for (int i = 0; i < SETS; i++)
            for (int j = 0; j < SETS; j++)
                failed += watch(sets[level][i], EPOLL_CTL_ADD, sets[level + 1][j], EPOLLIN) < 0;
    SHOW(failed);
    wait_for("wide", sets[0][0]);
    for (int level = 0; level < LEVELS; level++)
        for (int i = 0; i < SETS; i++)
            close(sets[level][i]);
}

// An interest that was for one event has no other one, not even the end of the file.
static void once(void)
{
    int once[2], set = epoll_create1(0);
    pipe(once);
    SHOW(watch(set, EPOLL_CTL_ADD, once[0], EPOLLIN | EPOLLONESHOT));
    write(once[1], "a", 1);
    wait_for("once", set);
    close(once[1]);
    wait_for("once more", set);
    SHOW(watch(set, EPOLL_CTL_MOD, once[0], 0));
    wait_for("asked again", set);
}

static void exclusive(void)
{
    int set = epoll_create1(0), other = epoll_create1(0), event = eventfd(1, 0);
    SHOW(watch(set, EPOLL_CTL_ADD, event, EPOLLEXCLUSIVE | EPOLLIN | EPOLLONESHOT));
    SHOW(watch(set, EPOLL_CTL_ADD, other, EPOLLEXCLUSIVE | EPOLLIN));
    SHOW(watch(set, EPOLL_CTL_ADD, event, EPOLLEXCLUSIVE | EPOLLIN));
    SHOW(watch(set, EPOLL_CTL_MOD, event, EPOLLIN));
    SHOW(watch(set, EPOLL_CTL_MOD, event, EPOLLEXCLUSIVE | EPOLLIN));
    SHOW(watch(set, EPOLL_CTL_DEL, event, 0));
    SHOW(watch(99, EPOLL_CTL_ADD, event, 0));
    SHOW(watch(event, EPOLL_CTL_ADD, 99, 0));
    SHOW(watch(event, EPOLL_CTL_ADD, event, 0));
    SHOW(epoll_ctl(99, EPOLL_CTL_ADD, event, NULL));
    SHOW(watch(99, EPOLL_CTL_ADD, open(".", O_RDONLY), 0));
    struct pollfd polled = {event, -1, 0};
    SHOW(poll(&polled, 1, 0));
    printf("%x\n", polled.revents);
    struct itimerspec soon = {{0, 0}, {0, 1}};
    polled.fd = timerfd_create(CLOCK_MONOTONIC, 0);
    timerfd_settime(polled.fd, 0, &soon, NULL);
    SHOW(poll(&polled, 1, -1));
    printf("%x\n", polled.revents);
}

int main(void)
{
    nested();
    chained();
    wide();
    once();
    exclusive();
    return 0;
}
