// Mappings: reservations that cost nothing, growth, moves, files.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/times.h>
#include <unistd.h>

static sigjmp_buf back;

static void leave(int signal)
{
    (void)signal;
    siglongjmp(back, 1);
}

static int may_read(volatile char *at)
{
    if (sigsetjmp(back, 1) != 0)
        return 0;
    (void)*at;
    return 1;
}

static void *map(size_t bytes, int protection)
{
    return mmap(NULL, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

int main(void)
{
    const size_t page = 4096, large = (size_t)5 << 30;
    signal(SIGSEGV, leave);
    char *reserved = map(large, PROT_NONE);
    printf("reserved %d, readable %d\n", reserved != MAP_FAILED, may_read(reserved + page));
    char *far = reserved + large / 2;
    printf("protect %d", mprotect(far, 3 * page, PROT_READ | PROT_WRITE));
    far[page] = 1;
    printf(" %d %d %d\n", may_read(far), may_read(far - 1), may_read(far + 3 * page));
    printf("none %d", mprotect(far + page, page, PROT_NONE));
    printf(" %d", may_read(far + page));
    mprotect(far + page, page, PROT_READ);
    printf(" %d\n", far[page]);
    printf("fixed %d", mmap(far, page, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == far);
    printf(" %d %d\n", may_read(far), munmap(reserved, large));
    printf("gone %d\n", may_read(far + page));

    char *bytes = map(2 * page, PROT_READ | PROT_WRITE);
    strcpy(bytes, "kept");
    bytes[2 * page - 1] = 'x';
    char *moved = mremap(bytes, 2 * page, 600 * page, MREMAP_MAYMOVE);
    printf("grown %s %c %d\n", moved, moved[2 * page - 1], moved[600 * page - 1]);
    char *shrunk = mremap(moved, 600 * page, page, 0);
    printf("shrunk %d %s %d\n", shrunk == moved, shrunk, may_read(moved + page));
    printf("stack %d %d\n", mremap(&bytes - ((long)&bytes & (page - 1)) / 8, page, 2 * page, 0) == MAP_FAILED,
           errno == ENOMEM || errno == EFAULT);
    printf("discard %d", madvise(shrunk, page, MADV_DONTNEED));
    printf(" %d\n", shrunk[0]);
    int file = open("mapped", O_RDWR | O_CREAT | O_TRUNC, 0600);
    write(file, "text of a file", 14);
    char *text = mmap(NULL, 14, PROT_READ, MAP_PRIVATE, file, 0);
    printf("file %.14s %d\n", text, text[14]);
    text = mmap(NULL, 14, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
    text[0] = 'T';
    char first;
    pread(file, &first, 1, 0);
    printf("copy %c %c\n", text[0], first);
    unlink("mapped");
    printf("too much %d\n", map((size_t)1 << 46, PROT_READ | PROT_WRITE) == MAP_FAILED);
    struct rusage usage;
    struct tms times_used;
    printf("usage %d %d\n", getrusage(RUSAGE_SELF, &usage), times(&times_used) >= 0);
    return 0;
}
