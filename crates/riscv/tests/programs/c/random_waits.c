// Random calls on pipes, event counters, pairs of sockets and sets of epoll, none of which waits; what each gives is
// printed. The argument is the seed.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#define COUNT(array) (sizeof array / sizeof array[0])

enum { FILES = 10, SETS = 3 };

static uint64_t state;
static int files[FILES], sets[SETS];
// 'p': a pipe, 's': a pair of sockets, 'e': an event counter.
static char kinds[FILES];
static volatile int broken;

static unsigned any(unsigned below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(state >> 33) % below;
}

static void note(int signal)
{
    (void)signal;
    broken++;
}

static void said(long result)
{
    printf(" = %ld %d", result, result < 0 ? errno : 0);
    if (broken > 0)
        printf(" SIGPIPE %d", broken);
    broken = 0;
    printf("\n");
}

// Puts a descriptor at a place of its own number, so that numbers do not depend on what else is open.
static void put(int *slot, int number, int file)
{
    if (*slot >= 0)
        close(*slot);
    *slot = file < 0 ? -1 : dup2(file, number);
    if (file >= 0)
        close(file);
}

static void put_file(unsigned at, int file, char kind)
{
    put(&files[at], 40 + (int)at, file);
    kinds[at] = kind;
}

static void make(void)
{
    unsigned one = any(FILES), other = any(FILES);
    int ends[2] = {-1, -1};
    char kind = 'p';
    if (one == other)
        other = (one + 1) % FILES;
    switch (any(7)) {
    case 0:
    case 1:
    case 2:
        printf("pipe %u %u", one, other);
        said(pipe2(ends, O_NONBLOCK));
        break;
    case 3:
        printf("pair %u %u", one, other);
        kind = 's';
        said(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends));
        break;
    default: {
        unsigned first = any(3), flags = any(2) ? EFD_SEMAPHORE : 0;
        printf("event %u %u %u", one, first, flags);
        put_file(one, eventfd(first, EFD_NONBLOCK | flags), 'e');
        said(files[one] < 0 ? -1 : 0);
        return;
    }
    }
    put_file(one, ends[0], kind);
    put_file(other, ends[1], kind);
}

// Versions of Linux differ in what an event counter says of more bytes than it has, and a pair of sockets is full when
// its memory is.
static size_t some_length(char kind)
{
    static const size_t LENGTHS[] = {0, 1, 2, 8, 8, 100, 3000, 4095, 4096, 4097, 5000, 20000, 66000};
    size_t length = LENGTHS[any(COUNT(LENGTHS))], most = kind == 'e' ? 8 : kind == 's' ? 100 : length;
    return length < most ? length : most;
}

// Event counters are written in small numbers or in the largest ones.
static void fill(char *bytes, size_t length)
{
    static const uint64_t COUNTS[] = {0, 1, 2, 5, UINT64_MAX - 2, UINT64_MAX - 1, UINT64_MAX};
    memset(bytes, 'a' + (int)any(26), length);
    memcpy(bytes, &COUNTS[any(COUNT(COUNTS))], 8);
}

static unsigned sum_of(const char *bytes, size_t length)
{
    unsigned sum = 0;
    for (size_t i = 0; i < length; i++)
        sum = sum * 31 + (unsigned char)bytes[i];
    return sum;
}

static void transfer(void)
{
    static char bytes[66000 + 8];
    unsigned at = any(FILES), kind = any(7);
    size_t length = some_length(kinds[at]);
    int file = files[at];
    long result = 0;
    memset(bytes, 0, sizeof bytes);
    if (kind >= 4)
        fill(bytes, length + 8);
    struct iovec pieces[3] = {{bytes, length / 3}, {bytes, 0}, {bytes + length / 3, length - length / 3}};
    printf("transfer %u of %u %zu", kind, at, length);
    switch (kind) {
    case 0:
    case 1:
    case 2: result = read(file, bytes, length); break;
    case 3: result = readv(file, pieces, 3); break;
    case 4:
    case 5: result = write(file, bytes, length); break;
    default: result = writev(file, pieces, 3); break;
    }
    printf(" %x", sum_of(bytes, length));
    said(result);
}

static void end(void)
{
    unsigned at = any(FILES), to = any(FILES);
    switch (any(4)) {
    case 0:
        printf("close %u", at);
        said(files[at] < 0 ? 0 : close(files[at]));
        files[at] = -1;
        break;
    case 1:
        printf("shutdown %u", at);
        said(shutdown(files[at], (int)any(3)));
        break;
    default:
        printf("dup %u %u", at, to);
        if (at != to)
            put_file(to, files[at] < 0 ? -1 : dup(files[at]), kinds[at]);
        said(files[to] < 0 ? -1 : 0);
    }
}

// The last set watches the first one, and no file: which of two sets learns first of a change is not specified.
static void watch(void)
{
    static const unsigned EVENTS[] = {EPOLLIN, EPOLLOUT, EPOLLIN | EPOLLOUT, 0, EPOLLRDHUP | EPOLLIN, EPOLLPRI};
    static const unsigned HOW[] = {0, 0, EPOLLET, EPOLLET, EPOLLONESHOT, EPOLLET | EPOLLONESHOT};
    static const int OPERATIONS[] = {EPOLL_CTL_ADD, EPOLL_CTL_ADD, EPOLL_CTL_ADD, EPOLL_CTL_MOD, EPOLL_CTL_DEL};
    unsigned at = any(FILES + 1), set = at < FILES ? any(SETS - 1) : SETS - 1;
    int operation = OPERATIONS[any(COUNT(OPERATIONS))], file = at < FILES ? files[at] : sets[0];
    unsigned how = HOW[any(COUNT(HOW))];
    // When a pair of sockets has changed is a matter of its memory, too.
    if (at < FILES && kinds[at] == 's')
        file = -1;
    struct epoll_event event = {.events = EVENTS[any(COUNT(EVENTS))] | how, .data.u32 = at};
    printf("watch %u %d of %d %x", set, operation, file, event.events);
    said(epoll_ctl(sets[set], operation, file, &event));
}

static void wait_for_set(void)
{
    struct epoll_event found[16] = {0};
    unsigned set = any(SETS);
    int most = any(3) ? 16 : 1 + (int)any(3);
    int count = epoll_wait(sets[set], found, most, 0);
    printf("wait %u %d:", set, most);
    for (int i = 0; i < count; i++)
        printf(" %u:%x", found[i].data.u32, found[i].events);
    said(count);
}

static void look(void)
{
    if (any(2)) {
        struct pollfd polled[FILES + SETS];
        short events = (short)(any(2) ? POLLIN | POLLOUT | POLLRDHUP : any(0x400));
        for (unsigned i = 0; i < COUNT(polled); i++)
            polled[i] = (struct pollfd){i < FILES ? files[i] : sets[i - FILES], events, 0};
        int count = poll(polled, COUNT(polled), 0);
        printf("poll %x:", events);
        for (unsigned i = 0; i < COUNT(polled); i++)
            printf(" %x", polled[i].revents);
        said(count);
        return;
    }
    fd_set asked[3];
    struct timeval none = {0};
    for (unsigned i = 0; i < COUNT(asked); i++)
        FD_ZERO(&asked[i]);
    for (unsigned i = 0; i < FILES; i++)
        for (unsigned j = 0; j < COUNT(asked); j++)
            if (files[i] >= 0)
                FD_SET(files[i], &asked[j]);
    int count = select(40 + FILES, &asked[0], &asked[1], &asked[2], &none);
    printf("select:");
    for (unsigned i = 0; i < FILES; i++)
        for (unsigned j = 0; j < COUNT(asked); j++)
            printf("%s%d", j ? "" : " ", files[i] >= 0 && FD_ISSET(files[i], &asked[j]));
    said(count);
}

static void control(void)
{
    static const int SIZES[] = {1, 4096, 5000, 16384, 65536, 131072};
    unsigned at = any(FILES);
    int waiting = -1;
    switch (any(4)) {
    case 0:
        printf("waiting %u", at);
        int result = ioctl(files[at], FIONREAD, &waiting);
        printf(" %d", waiting);
        said(result);
        break;
    case 1: {
        int size = SIZES[any(COUNT(SIZES))];
        printf("size %u %d", at, size);
        said(fcntl(files[at], F_SETPIPE_SZ, size));
        break;
    }
    case 2:
        printf("size %u", at);
        said(fcntl(files[at], F_GETPIPE_SZ));
        break;
    default:
        // Event counters have a place since Linux 6.0 only.
        printf("seek %u", at);
        said(kinds[at] == 'e' ? 0 : lseek(files[at], 0, SEEK_CUR));
    }
}

int main(int count, char **words)
{
    state = count > 1 ? strtoul(words[1], NULL, 10) : 0;
    signal(SIGPIPE, note);
    for (unsigned i = 0; i < FILES; i++)
        files[i] = -1;
    for (int i = 0; i < SETS; i++) {
        sets[i] = -1;
        put(&sets[i], 60 + i, epoll_create1(0));
    }
    for (int i = 0; i < 5; i++)
        make();
    for (int i = 0; i < 400; i++) {
        printf("%d ", i);
        switch (any(20)) {
        case 0: make(); break;
        case 1:
        case 2: end(); break;
        case 3:
        case 4:
        case 5:
        case 6: watch(); break;
        case 7:
        case 8:
        case 9:
        case 10: wait_for_set(); break;
        case 11:
        case 12: look(); break;
        case 13: control(); break;
        default: transfer();
        }
    }
    return 0;
}
