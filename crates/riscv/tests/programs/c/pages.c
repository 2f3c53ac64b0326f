// Pages that may not be used: what a handler is told of them, and what moves and asks for them.
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define PAGE 4096

static sigjmp_buf back;
static volatile int code;

static void leave(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)context;
    code = info->si_code;
    siglongjmp(back, 1);
}

// 0 if a page can be written, or the code of the fault.
static int fault(volatile char *at)
{
    if (sigsetjmp(back, 1) != 0)
        return code;
    *at = *at;
    return 0;
}

static int readable(volatile char *at)
{
    if (sigsetjmp(back, 1) != 0)
        return code;
    (void)*at;
    return 0;
}

static void say(const char *what, long result)
{
    printf("%s %ld %s\n", what, result, result == -1 ? strerror(errno) : "");
}

static char *map(void *at, size_t bytes, int protection)
{
    int fixed = at == NULL ? 0 : MAP_FIXED;
    return mmap(at, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | fixed, -1, 0);
}

int main(void)
{
    struct sigaction action = {.sa_sigaction = leave, .sa_flags = SA_SIGINFO};
    sigaction(SIGSEGV, &action, NULL);
    char *area = map(NULL, 16 * PAGE, PROT_NONE);
    printf("reserved %d, ", fault(area) == SEGV_ACCERR);
    mprotect(area, 2 * PAGE, PROT_READ | PROT_WRITE);
    strcpy(area, "first"), strcpy(area + PAGE, "second");
    mprotect(area + PAGE, PAGE, PROT_NONE);
    printf("taken back %d, ", fault(area + PAGE) == SEGV_ACCERR);
    munmap(area + 2 * PAGE, PAGE);
    printf("gone %d, ", fault(area + 2 * PAGE) == SEGV_MAPERR);
    printf("the last address %d\n", fault((char *)-1) == SEGV_MAPERR);

    mprotect(area, PAGE, PROT_READ);
    char *moved = mremap(area, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, area + 4 * PAGE);
    printf("moved %d %s, writable %d\n", moved == area + 4 * PAGE, moved, fault(moved) == 0);
    char *grown = mremap(moved, PAGE, 2 * PAGE, MREMAP_MAYMOVE);
    printf("grown %s, writable %d %d, readable %d\n", grown, fault(grown) == 0, fault(grown + PAGE) == 0,
           readable(grown + PAGE) == 0);
    char *hidden = mremap(area + PAGE, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, area + 8 * PAGE);
    printf("hidden %d", readable(hidden) == SEGV_ACCERR);
    mprotect(hidden, PAGE, PROT_READ);
    printf(" %s\n", hidden);
    char *far = mremap(area + 10 * PAGE, 2 * PAGE, 3 * PAGE, MREMAP_MAYMOVE);
    printf("reserved, moved %d %d\n", far != MAP_FAILED, readable(far + 2 * PAGE) == SEGV_ACCERR);

    char *two = map(NULL, 3 * PAGE, PROT_READ | PROT_WRITE);
    munmap(two + PAGE, PAGE);
    say("lock", mlock(two, 2 * PAGE));
    say("lock one", mlock(two + 5, 10));
    say("unlock", munlock(two + PAGE, PAGE));
    say("lock all", mlockall(1 << 20));
    say("resident", mincore(two, PAGE, (unsigned char *)-1));
    say("not all", mincore(two, 2 * PAGE, (unsigned char *)two));
    munlock(two, PAGE);
    strcpy(two, "kept");
    say("discard", madvise(two, PAGE, MADV_DONTNEED));
    printf("discarded %d\n", two[0] == 0);
    say("neither shared nor private", mmap(NULL, PAGE, PROT_READ, MAP_ANONYMOUS, -1, 0) == MAP_FAILED ? -1 : 0);
    return 0;
}
