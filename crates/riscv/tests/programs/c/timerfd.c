// Timers that are read: with read, poll and epoll, by threads that wait.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/timerfd.h>
#include <time.h>
#include <unistd.h>

enum { MS = 1000000 };

static struct itimerspec every(long first_ns, long period_ns)
{
    return (struct itimerspec){.it_value = {.tv_nsec = first_ns}, .it_interval = {.tv_nsec = period_ns}};
}

static long elapsed_ns(struct timespec from)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (now.tv_sec - from.tv_sec) * 1000000000 + now.tv_nsec - from.tv_nsec;
}

static void set(int timer, long first_ns, long period_ns)
{
    struct itimerspec new = every(first_ns, period_ns);
    if (timerfd_settime(timer, 0, &new, NULL) != 0)
        printf("not set\n");
}

static void *read_it(void *timer)
{
    uint64_t count = 0;
    ssize_t length = read(*(int *)timer, &count, sizeof count);
    printf("thread reads %zd, %d\n", length, (int)count);
    return NULL;
}

static void reads(void)
{
    struct timespec from;
    uint64_t count[2] = {0};
    int timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC);
    printf("flags %d %d\n", fcntl(timer, F_GETFD), fcntl(timer, F_GETFL) & (O_ACCMODE | O_NONBLOCK));
    clock_gettime(CLOCK_MONOTONIC, &from);
    set(timer, 5 * MS, 0);
    printf("once %zd", read(timer, count, sizeof count));
    printf(", %d, after 5 ms %d\n", (int)count[0], elapsed_ns(from) >= 5 * MS);

    pthread_t thread;
    set(timer, 5 * MS, 0);
    pthread_create(&thread, NULL, read_it, &timer);
    pthread_join(thread, NULL);

    // One that is not set wakes the thread that waits as soon as it is.
    pthread_create(&thread, NULL, read_it, &timer);
    nanosleep(&(struct timespec){.tv_nsec = 2 * MS}, NULL);
    set(timer, 1, 0);
    pthread_join(thread, NULL);

    // Periods that are over are counted, and only once.
    set(timer, 2 * MS, 2 * MS);
    nanosleep(&(struct timespec){.tv_nsec = 11 * MS}, NULL);
    read(timer, count, 8);
    printf("several %d\n", count[0] >= 5);
    struct itimerspec old;
    timerfd_gettime(timer, &old);
    printf("period %ld, left %d\n", old.it_interval.tv_nsec, old.it_value.tv_nsec > 0 && old.it_value.tv_nsec <= 2 * MS);

    // A timer that is set anew forgets that it was due.
    nanosleep(&(struct timespec){.tv_nsec = 3 * MS}, NULL);
    fcntl(timer, F_SETFL, O_NONBLOCK);
    struct itimerspec none = every(0, 7);
    timerfd_settime(timer, 0, &none, &old);
    printf("old period %ld\n", old.it_interval.tv_nsec);
    printf("nothing %d\n", read(timer, count, 8) < 0 && errno == EAGAIN);
    timerfd_gettime(timer, &old);
    printf("period %ld, left %ld\n", old.it_interval.tv_nsec, old.it_value.tv_nsec);

    // A loop that looks at the clock has the timer as soon as its time is over.
    clock_gettime(CLOCK_MONOTONIC, &from);
    set(timer, MS, 0);
    while (elapsed_ns(from) < 2 * MS)
        ;
    printf("due %zd\n", read(timer, count, 8));
    printf("once %d\n", read(timer, count, 8) < 0 && errno == EAGAIN);
    close(timer);
}

static void clocks(void)
{
    struct timespec now;
    uint64_t count = 0;
    int real = timerfd_create(CLOCK_REALTIME, TFD_NONBLOCK), boot = timerfd_create(CLOCK_BOOTTIME, 0);
    printf("flags %x\n", (unsigned)fcntl(real, F_GETFL) & O_NONBLOCK);
    clock_gettime(CLOCK_REALTIME, &now);
    struct itimerspec past = {.it_value = {.tv_sec = now.tv_sec - 3}, .it_interval = {.tv_sec = 1}};
    past.it_value.tv_nsec = now.tv_nsec;
    timerfd_settime(real, TFD_TIMER_ABSTIME, &past, NULL);
    printf("past %zd", read(real, &count, sizeof count));
    printf(", %d\n", (int)count);
    struct itimerspec later = {.it_value = {.tv_sec = now.tv_sec + 1000}}, left;
    timerfd_settime(real, TFD_TIMER_ABSTIME | TFD_TIMER_CANCEL_ON_SET, &later, &left);
    printf("old period %ld\n", (long)left.it_interval.tv_sec);
    timerfd_gettime(real, &left);
    printf("left %d\n", left.it_value.tv_sec >= 998 && left.it_value.tv_sec <= 1000);

    clock_gettime(CLOCK_BOOTTIME, &now);
    struct itimerspec soon = {.it_value = now};
    soon.it_value.tv_sec += soon.it_value.tv_nsec / 998000000;
    soon.it_value.tv_nsec = (soon.it_value.tv_nsec + 2 * MS) % 1000000000;
    timerfd_settime(boot, TFD_TIMER_ABSTIME, &soon, NULL);
    printf("absolute %zd", read(boot, &count, sizeof count));
    printf(", %d\n", (int)count);
    close(real);
    close(boot);
}

static void polls(void)
{
    uint64_t count = 0;
    int timer = timerfd_create(CLOCK_MONOTONIC, 0), copy = dup(timer);
    struct pollfd list = {.fd = timer, .events = POLLIN | POLLOUT};
    printf("poll %d\n", poll(&list, 1, 0));
    set(copy, 3 * MS, 0);
    printf("poll %d", poll(&list, 1, -1));
    printf(": %x\n", list.revents);
    printf("still %d\n", poll(&list, 1, 0));
    fd_set from, to;
    FD_ZERO(&from);
    FD_ZERO(&to);
    FD_SET(timer, &from);
    FD_SET(timer, &to);
    printf("select %d", select(timer + 1, &from, &to, NULL, NULL));
    printf(" %d %d\n", FD_ISSET(timer, &from) != 0, FD_ISSET(timer, &to) != 0);
    read(copy, &count, sizeof count);
    printf("read %d, poll %d\n", (int)count, poll(&list, 1, 0));
    close(copy);

    int level = epoll_create1(0), edge = epoll_create1(0);
    struct epoll_event wanted = {.events = EPOLLIN, .data.u64 = 1}, found;
    epoll_ctl(level, EPOLL_CTL_ADD, timer, &wanted);
    wanted.events = EPOLLIN | EPOLLET;
    epoll_ctl(edge, EPOLL_CTL_ADD, timer, &wanted);
    printf("epoll %d %d\n", epoll_wait(level, &found, 1, 0), epoll_wait(edge, &found, 1, 0));
    set(timer, 20 * MS, 20 * MS);
    printf("epoll %d", epoll_wait(level, &found, 1, -1));
    printf(": %x\n", found.events);
    // One that was not read is due no second time, which would be an edge.
    printf("edge %d", epoll_wait(edge, &found, 1, -1));
    printf(", again %d\n", epoll_wait(edge, &found, 1, 70));
    read(timer, &count, sizeof count);
    printf("read %d", count >= 3);
    printf(", edge %d", epoll_wait(edge, &found, 1, -1));
    printf(", again %d", epoll_wait(edge, &found, 1, 70));
    // To look at it is enough, too.
    struct itimerspec left;
    timerfd_gettime(timer, &left);
    printf(", edge %d\n", epoll_wait(edge, &found, 1, -1));
    close(timer);
    printf("closed %d\n", epoll_wait(level, &found, 1, 30));
}

static void errors(void)
{
    int ends[2], timer = timerfd_create(CLOCK_MONOTONIC, 0);
    char bytes[8] = {0};
    struct itimerspec wrong = every(1000000000, 0), right = every(1, 0);
    printf("errors:");
    printf(" %d", timerfd_create(CLOCK_PROCESS_CPUTIME_ID, 0) < 0 && errno == EINVAL);
    printf(" %d", timerfd_create(CLOCK_MONOTONIC, 1) < 0 && errno == EINVAL);
    printf(" %d", timerfd_settime(timer, 0, &wrong, NULL) < 0 && errno == EINVAL);
    printf(" %d", timerfd_settime(timer, 4, &right, NULL) < 0 && errno == EINVAL);
    printf(" %d", timerfd_settime(timer, 0, NULL, NULL) < 0 && errno == EFAULT);
    printf(" %d", timerfd_settime(77, 0, &right, NULL) < 0 && errno == EBADF);
    printf(" %d", timerfd_gettime(77, &right) < 0 && errno == EBADF);
    if (pipe(ends) == 0)
        printf(" %d", timerfd_settime(ends[0], 0, &right, NULL) < 0 && errno == EINVAL);
    printf(" %d", timerfd_gettime(ends[0], &right) < 0 && errno == EINVAL);
    printf(" %d", read(timer, bytes, 7) < 0 && errno == EINVAL);
    printf(" %d\n", write(timer, bytes, 8) < 0 && errno == EINVAL);
}

int main(void)
{
    setvbuf(stdout, NULL, _IONBF, 0);
    reads();
    clocks();
    polls();
    errors();
    return 0;
}
