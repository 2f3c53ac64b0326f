// Pipes, event counters, and waiting for several of them.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/select.h>
#include <time.h>
#include <unistd.h>

static int ends[2], event;

static void pause_ms(int ms)
{
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

static void *write_later(void *text)
{
    pause_ms(2);
    write(ends[1], text, strlen(text));
    return NULL;
}

static void *count_later(void *unused)
{
    uint64_t three = 3;
    (void)unused;
    pause_ms(2);
    write(event, &three, sizeof three);
    return NULL;
}

static long elapsed_ms(struct timespec from)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (now.tv_sec - from.tv_sec) * 1000 + (now.tv_nsec - from.tv_nsec) / 1000000;
}

int main(void)
{
    char bytes[16] = {0};
    pthread_t thread;
    struct timespec from;
    printf("pipe %d\n", pipe2(ends, O_CLOEXEC));
    printf("flags %d %d\n", fcntl(ends[0], F_GETFD), fcntl(ends[1], F_GETFL) & O_ACCMODE);
    pthread_create(&thread, NULL, write_later, "text");
    printf("read %zd", read(ends[0], bytes, sizeof bytes));
    printf(" %s\n", bytes);
    pthread_join(thread, NULL);

    struct pollfd list[3] = {{.fd = ends[0], .events = POLLIN},
                             {.fd = ends[1], .events = POLLOUT},
                             {.fd = -1, .events = POLLIN}};
    printf("poll %d: %x %x\n", poll(list, 3, -1), list[0].revents, list[1].revents);
    clock_gettime(CLOCK_MONOTONIC, &from);
    printf("poll %d", poll(list, 1, 5));
    printf(" after 5 ms %d\n", elapsed_ms(from) >= 5);
    pthread_create(&thread, NULL, write_later, "more");
    printf("poll %d", poll(list, 1, -1));
    printf(": %x\n", list[0].revents);
    pthread_join(thread, NULL);
    list[2].fd = 99;
    printf("poll %d: %x\n", poll(list + 2, 1, 0), list[2].revents);

    fd_set set;
    FD_ZERO(&set);
    FD_SET(ends[0], &set);
    printf("select %d", select(ends[0] + 1, &set, NULL, NULL, NULL));
    printf(" %d\n", FD_ISSET(ends[0], &set) != 0);
    read(ends[0], bytes, sizeof bytes);
    struct timeval soon = {.tv_usec = 1000};
    printf("select %d", select(ends[0] + 1, &set, NULL, NULL, &soon));
    printf(" %d\n", FD_ISSET(ends[0], &set) != 0);

    fcntl(ends[0], F_SETFL, O_NONBLOCK);
    printf("nonblocking %zd %d\n", read(ends[0], bytes, 1), errno == EAGAIN);

    event = eventfd(0, EFD_NONBLOCK);
    int epoll = epoll_create1(EPOLL_CLOEXEC);
    struct epoll_event wanted = {.events = EPOLLIN, .data.u64 = 7}, found[4];
    printf("add %d", epoll_ctl(epoll, EPOLL_CTL_ADD, event, &wanted));
    printf(" %d %d\n", epoll_ctl(epoll, EPOLL_CTL_ADD, event, &wanted), errno == EEXIST);
    wanted.events = EPOLLIN | EPOLLET;
    wanted.data.u64 = 8;
    epoll_ctl(epoll, EPOLL_CTL_ADD, ends[0], &wanted);
    printf("epoll %d\n", epoll_wait(epoll, found, 4, 0));
    pthread_create(&thread, NULL, count_later, NULL);
    printf("epoll %d", epoll_wait(epoll, found, 4, -1));
    printf(": %x %d\n", found[0].events, (int)found[0].data.u64);
    pthread_join(thread, NULL);
    uint64_t count = 0;
    printf("event %zd", read(event, &count, sizeof count));
    printf(" %d\n", (int)count);
    write(ends[1], "abc", 3);
    printf("edge %d", epoll_wait(epoll, found, 4, 10));
    printf(" %d, again %d\n", (int)found[0].data.u64, epoll_wait(epoll, found, 4, 1));
    write(ends[1], "d", 1);
    printf("edge %d\n", epoll_wait(epoll, found, 4, 10));
    close(ends[1]);
    printf("hang-up %d", epoll_wait(epoll, found, 4, -1));
    printf(": %x\n", found[0].events);
    printf("left %zd, end %zd\n", read(ends[0], bytes, 9), read(ends[0], bytes, 9));
    printf("delete %d\n", epoll_ctl(epoll, EPOLL_CTL_DEL, ends[0], NULL));
    printf("epoll %d\n", epoll_wait(epoll, found, 4, 0));
    int one = eventfd(2, EFD_SEMAPHORE);
    read(one, &count, sizeof count);
    printf("semaphore %d\n", (int)count);
    printf("wrong %d %d\n", epoll_ctl(epoll, EPOLL_CTL_ADD, 77, &wanted), errno == EBADF);
    return 0;
}
