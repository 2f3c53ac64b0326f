// epoll_wait into memory that ends: events that are not written are there for the next call.
#define _GNU_SOURCE
#include "show.h"
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <unistd.h>

enum { PAGE = 4096, FILES = 4 };

// How many events are written where only `room` of them fit, and their data.
static void wait_for(int epoll, char *end, int room)
{
    struct epoll_event *events = (struct epoll_event *)end - room;
    int count = epoll_wait(epoll, events, FILES, 0);
    SHOW(count);
    for (int i = 0; i < count; i++)
        printf(" %d", (int)events[i].data.u64);
    printf("\n");
}

static void watch(uint32_t how, char *end)
{
    int epoll = epoll_create1(0), files[FILES];
    for (int i = 0; i < FILES; i++) {
        struct epoll_event wanted = {.events = EPOLLIN | how, .data.u64 = (uint64_t)i};
        files[i] = eventfd(1, 0);
        SHOW(epoll_ctl(epoll, EPOLL_CTL_ADD, files[i], &wanted));
    }
    wait_for(epoll, end, 0);
    wait_for(epoll, end, 1);
    wait_for(epoll, end, 0);
    wait_for(epoll, end, 2);
    wait_for(epoll, end, FILES);
    wait_for(epoll, end, FILES);
    for (int i = 0; i < FILES; i++)
        close(files[i]);
    close(epoll);
}

int main(void)
{
    char *pages = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    char *end = pages + PAGE;
    if (mprotect(end, PAGE, PROT_NONE) < 0)
        return 1;
    watch(0, end);
    watch(EPOLLET, end);
    watch(EPOLLONESHOT, end);
    return 0;
}
