// Calls on pipes and event counters whose memory meets a page that cannot be used: pages of a pipe move as a whole.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#define PAGE 4096
#define PAGES 4

static char *bad; // The page that cannot be used; those before it can.
static char got[PAGES * PAGE];
static int ends[2];

static void say(const char *what, long result)
{
    int waiting = -1;
    ioctl(ends[0], FIONREAD, &waiting);
    printf("%s: %ld %s, %d in the pipe\n", what, result, result < 0 ? strerror(errno) : "", waiting);
}

static void empty(void)
{
    long count, sum = 0;
    while ((count = read(ends[0], got, sizeof got)) > 0)
        for (long i = 0; i < count; i++)
            sum += got[i];
    say("emptied", sum);
}

static void write_torn(void)
{
    say("write", write(ends[1], bad - 100, 200));
    say("write at the page", write(ends[1], bad, 200));
    say("write of a page and more", write(ends[1], bad - PAGE - 50, PAGE + 100));
    empty();
    say("write of 10", write(ends[1], bad - 10, 10));
    say("write behind them", write(ends[1], bad - 100, 200));
    say("write behind them and on a page", write(ends[1], bad - 300, PAGE + 200));
    empty();
    struct iovec few[] = {{got, 50}, {bad - 10, 20}}, page[] = {{got, PAGE}, {bad, 20}};
    say("write of pieces", writev(ends[1], few, 2));
    say("write of a page in pieces", writev(ends[1], page, 2));
    empty();
    say("write of all that fits", write(ends[1], bad - 100, 20 * PAGE));
    say("write of pages", write(ends[1], bad - 3 * PAGE, 20 * PAGE));
    empty();
}

static void read_torn(void)
{
    write(ends[1], bad - 10, 10);
    say("read", read(ends[0], bad - 2, 10));
    say("read of less", read(ends[0], bad - 2, 3));
    say("read of what has a place", read(ends[0], bad - 2, 2));
    struct iovec few[] = {{got, 4}, {bad, 6}}, both[] = {{got, 4}, {got + 100, 6}};
    say("read in pieces", readv(ends[0], few, 2));
    say("read in good pieces", readv(ends[0], both, 2));
    write(ends[1], bad - PAGE, PAGE);
    write(ends[1], bad - 10, 10);
    say("read of two pages", read(ends[0], bad - PAGE - 5, PAGE + 10));
    say("read of the second", read(ends[0], bad - 5, 10));
    empty();
    write(ends[1], bad - 2 * PAGE, 2 * PAGE);
    say("read of a part", read(ends[0], got, PAGE - 3));
    say("read of the rest and the next", read(ends[0], bad - 10, 20));
    say("read of the next", read(ends[0], bad - 10, 20));
    empty();
}

static void count_torn(void)
{
    int counter = eventfd(0, EFD_NONBLOCK);
    uint64_t one = 1, count = 0;
    memcpy(bad - sizeof one, &one, sizeof one);
    say("add from a part", write(counter, bad - 4, 8));
    say("add from the page", write(counter, bad, 8));
    say("add from too little", write(counter, bad - 4, 4));
    struct iovec pieces[] = {{bad - 8, 8}, {bad, 8}};
    say("add pieces", writev(counter, pieces, 2));
    read(counter, &count, sizeof count);
    printf("counted %d\n", (int)count);
}

int main(void)
{
    char *area = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    bad = area + (PAGES - 1) * PAGE;
    for (char *at = area; at < bad; at++)
        *at = (char)(1 + (at - area) % 100);
    munmap(bad, PAGE);
    pipe2(ends, O_NONBLOCK);
    write_torn();
    read_torn();
    count_torn();
    return 0;
}
