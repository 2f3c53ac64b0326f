// Arguments that are wrong, and what calls have done by then.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define BAD ((void *)16)

static void say(const char *what, long result)
{
    printf("%s %ld %s\n", what, result, result == -1 ? strerror(errno) : "");
}

static void times_to_wait(void)
{
    int ends[2];
    pipe(ends);
    struct pollfd ready = {ends[1], POLLOUT, 0};
    struct timespec wrong = {0, 1000000000}, none = {0, 0};
    say("poll", syscall(SYS_ppoll, &ready, 1, &wrong, NULL, 8));
    say("nowhere", syscall(SYS_ppoll, &ready, 1, BAD, NULL, 8));
    uint64_t set = 1ul << ends[1] | 1ul << 40;
    say("select", syscall(SYS_pselect6, ends[1] + 1, NULL, &set, NULL, &wrong, NULL));
    say("some", syscall(SYS_pselect6, ends[1] + 1, NULL, &set, NULL, &none, NULL));
    printf("left %d\n", set == 1ul << ends[1]);
    uint64_t mask = 0;
    say("size of a mask", syscall(SYS_ppoll, &ready, 1, &none, &mask, 4));
    say("to suspend", syscall(SYS_rt_sigsuspend, &mask, 4));
    close(ends[0]);
    close(ends[1]);
}

static void signals(void)
{
    uint64_t mask = 1ul << (SIGUSR1 - 1), now = 0;
    say("mask", syscall(SYS_rt_sigprocmask, SIG_BLOCK, &mask, BAD, 8));
    syscall(SYS_rt_sigprocmask, SIG_BLOCK, NULL, &now, 8);
    printf("blocked %d\n", now == mask);
    say("pending", syscall(SYS_rt_sigpending, &now, 16));
    static char place[65536];
    stack_t stack = {.ss_sp = place, .ss_size = sizeof place, .ss_flags = 3};
    say("stack", sigaltstack(&stack, NULL));
}

static void files(void)
{
    struct stat found;
    char text[256];
    close(open("file", O_CREAT | O_WRONLY, 0600));
    say("stat", syscall(SYS_newfstatat, AT_FDCWD, "file", &found, 1));
    say("statx", syscall(SYS_statx, AT_FDCWD, "file", 0x6000, 0x7ff, text));
    say("mask", syscall(SYS_statx, AT_FDCWD, "file", 0, 0x80000000u, text));
    struct timespec times[2] = {{0, 1000000000}, {0, UTIME_NOW}};
    say("times", utimensat(AT_FDCWD, "file", times, 0));
    say("of nothing", utimensat(AT_FDCWD, "nothing", times, 0));
    times[0].tv_nsec = UTIME_OMIT;
    say("of now", utimensat(AT_FDCWD, "file", times, 0));
    say("unlink", syscall(SYS_unlinkat, AT_FDCWD, "file", AT_SYMLINK_NOFOLLOW));
    say("again", unlink("file"));
    say("dup3", dup3(99, 98, 1));
}

static void futexes(void)
{
    int word = 0;
    struct timespec wrong = {0, -1};
    say("no bits", syscall(SYS_futex, &word, FUTEX_WAKE_BITSET, 1, NULL, NULL, 0));
    say("wait for none", syscall(SYS_futex, &word, FUTEX_WAIT_BITSET, 0, NULL, NULL, 0));
    say("time", syscall(SYS_futex, &word, FUTEX_WAIT, 1, &wrong, NULL, 0));
    say("requeue", syscall(SYS_futex, &word, FUTEX_REQUEUE, -1, 0, &word, 0));
    say("clock", syscall(SYS_futex, &word, FUTEX_WAKE | FUTEX_CLOCK_REALTIME, 1, NULL, NULL, 0));
}

int main(void)
{
    times_to_wait();
    signals();
    files();
    futexes();
    char bytes[8];
    say("random", syscall(SYS_getrandom, bytes, sizeof bytes, 6));
    return 0;
}
