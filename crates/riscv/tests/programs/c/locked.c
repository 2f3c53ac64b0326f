// Which pages are locked: advice to discard them is an error, and has discarded those before them.
#define _GNU_SOURCE
#include "show.h"
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { PAGE = 4096, PAGES = 4 };

static int more;

static char *map(int flags)
{
    int protection = PROT_READ | PROT_WRITE;
    char *at = mmap(NULL, PAGES * PAGE, protection, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
    if (at != MAP_FAILED)
        memset(at, 'x', PAGES * PAGE);
    return at;
}

// Discards all pages of a mapping; shows which of them are zeros then.
static void discard(char *at, int advice)
{
    SHOW(madvise(at, PAGES * PAGE, advice));
    for (int page = 0; page < PAGES; page++)
        printf("%d", at[page * PAGE] == 0);
    printf("\n");
    memset(at, 'x', PAGES * PAGE);
}

static void parts(void)
{
    char *at = map(0);
    SHOW(mlock(at + 2 * PAGE, PAGE));
    discard(at, MADV_DONTNEED);
    SHOW(mlock(at + PAGE, 1));
    discard(at, MADV_DONTNEED);
    SHOW(munlock(at + 2 * PAGE, PAGE));
    SHOW(madvise(at + 2 * PAGE, PAGE, MADV_DONTNEED));
    discard(at, 24);
    SHOW(munlock(at, PAGES * PAGE));
    discard(at, MADV_DONTNEED);
    SHOW(munmap(at, PAGES * PAGE));
}

static void flagged(void)
{
    char *at = map(MAP_LOCKED), *grown;
    discard(at, MADV_DONTNEED);
    grown = mremap(at, PAGES * PAGE, 2 * PAGES * PAGE, MREMAP_MAYMOVE);
    memset(grown, 'x', 2 * PAGES * PAGE);
    discard(grown, MADV_DONTNEED);
    discard(grown + PAGES * PAGE, MADV_DONTNEED);
    SHOW(munmap(grown + PAGES * PAGE, PAGES * PAGE));
    // There is room behind it now.
    SHOW(mremap(grown, PAGES * PAGE, 2 * PAGES * PAGE, 0) == grown);
    memset(grown, 'x', 2 * PAGES * PAGE);
    discard(grown + PAGES * PAGE, MADV_DONTNEED);
    SHOW(munmap(grown, 2 * PAGES * PAGE));
}

static void all(void)
{
    char *before = map(0), *after;
    SHOW(mlockall(MCL_CURRENT));
    after = map(0);
    discard(before, MADV_DONTNEED);
    discard(after, MADV_DONTNEED);
    SHOW(madvise((char *)((unsigned long)&more & -PAGE), PAGE, MADV_DONTNEED));
    SHOW(mlockall(MCL_FUTURE));
    discard(after, MADV_DONTNEED);
    after = map(0);
    discard(after, MADV_DONTNEED);
    SHOW(munlockall());
    discard(before, MADV_DONTNEED);
    discard(after, MADV_DONTNEED);
    discard(map(0), MADV_DONTNEED);
}

// The library's brk is an error in some libraries.
static int grow_to(char *end)
{
    return (char *)syscall(SYS_brk, end) == end;
}

static void heap(void)
{
    char *end = (char *)syscall(SYS_brk, NULL), *at;
    at = end + (-(unsigned long)end & (PAGE - 1));
    SHOW(grow_to(at + PAGES * PAGE));
    memset(at, 'x', PAGES * PAGE);
    SHOW(mlock(at, PAGES * PAGE));
    discard(at, MADV_DONTNEED);
    SHOW(grow_to(at + PAGE));
    SHOW(grow_to(at + PAGES * PAGE));
    SHOW(madvise(at, PAGE, MADV_DONTNEED));
    SHOW(madvise(at + PAGE, PAGE, MADV_DONTNEED));
}

int main(void)
{
    static char buffer[1 << 14];
    setvbuf(stdout, buffer, _IOFBF, sizeof buffer);
    parts();
    flagged();
    all();
    heap();
    return 0;
}
