// Handlers: of signals that a program sends itself, of its threads, and of faults.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t handled;
static atomic_int done;
static sigjmp_buf back;

static void note(int signal)
{
    handled += signal;
}

static void leave(int signal, siginfo_t *info, void *context)
{
    (void)context;
    printf("signal %d, code %d, address %p\n", signal, info->si_code, info->si_addr);
    siglongjmp(back, 1);
}

static void set(int signal, int flags, void (*handler)(int))
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    sigaction(signal, &action, NULL);
}

static void *wait_in_read(void *ends)
{
    char byte;
    ssize_t count = read(*(int *)ends, &byte, 1);
    printf("read: %zd, interrupted %d\n", count, count < 0 && errno == EINTR);
    atomic_store(&done, 1);
    return NULL;
}

int main(void)
{
    double kept = 2.5;
    set(SIGUSR1, 0, note);
    raise(SIGUSR1);
    printf("%d handled, %g kept\n", (int)handled, kept);

    sigset_t mask, old;
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR1);
    sigprocmask(SIG_BLOCK, &mask, &old);
    raise(SIGUSR1);
    printf("%d while it is blocked\n", (int)handled);
    sigset_t pending;
    sigpending(&pending);
    printf("pending %d\n", sigismember(&pending, SIGUSR1));
    sigsuspend(&old);
    printf("%d after sigsuspend, %d\n", (int)handled, errno == EINTR);
    sigprocmask(SIG_SETMASK, NULL, &pending);
    printf("blocked again %d\n", sigismember(&pending, SIGUSR1));
    sigprocmask(SIG_SETMASK, &old, NULL);

    static char stack[16384];
    stack_t alternate = {.ss_sp = stack, .ss_size = sizeof stack};
    sigaltstack(&alternate, NULL);
    struct sigaction action = {.sa_sigaction = leave, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    sigaction(SIGSEGV, &action, NULL);
    for (volatile int round = 0; round < 2; round++)
        if (sigsetjmp(back, 1) == 0)
            *(volatile char *)8 = 1;

    int ends[2];
    pthread_t thread;
    pipe(ends);
    pthread_create(&thread, NULL, wait_in_read, ends);
    // A signal that comes before the read does not interrupt it.
    while (!atomic_load(&done)) {
        pthread_kill(thread, SIGUSR1);
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    pthread_join(thread, NULL);
    handled = 0;
    set(SIGUSR1, SA_RESTART, note);
    pthread_create(&thread, NULL, wait_in_read, ends);
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    pthread_kill(thread, SIGUSR1);
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    write(ends[1], "x", 1);
    pthread_join(thread, NULL);
    printf("%d for the read that goes on\n", (int)handled);

    close(ends[0]);
    signal(SIGPIPE, SIG_IGN);
    printf("%zd, %d\n", write(ends[1], "x", 1), errno == EPIPE);
    set(SIGPIPE, SA_RESETHAND, note);
    printf("%zd, %d\n", write(ends[1], "x", 1), errno == EPIPE);
    fflush(stdout);
    write(ends[1], "x", 1);
    puts("never");
    return 0;
}
