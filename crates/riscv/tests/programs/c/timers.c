// Timers that send signals: to programs that compute, that sleep in calls, and to threads of their own.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static volatile sig_atomic_t handled, code, value;
static atomic_int called;

static void note(int signal, siginfo_t *info, void *context)
{
    (void)signal, (void)context;
    code = info->si_code;
    value = info->si_value.sival_int;
    handled++;
}

static void set(int signal, int flags)
{
    struct sigaction action = {.sa_sigaction = note, .sa_flags = flags | SA_SIGINFO};
    sigaction(signal, &action, NULL);
}

static void call(union sigval with)
{
    atomic_fetch_add(&called, with.sival_int);
}

static struct itimerval every(long first_us, long period_us)
{
    return (struct itimerval){.it_value = {.tv_usec = first_us}, .it_interval = {.tv_usec = period_us}};
}

static void intervals(void)
{
    struct itimerval old, none = {0}, timer = every(500, 0);
    set(SIGALRM, 0);
    setitimer(ITIMER_REAL, &timer, NULL);
    while (!handled)
        ;
    printf("handled %d, code %x\n", (int)handled, (unsigned)code);

    timer = every(2000, 1000);
    setitimer(ITIMER_REAL, &timer, NULL);
    while (handled < 4)
        pause();
    setitimer(ITIMER_REAL, &none, &old);
    // On a busy host more come meanwhile.
    printf("paused until 4: %d, period %ld us\n", handled >= 4, (long)old.it_interval.tv_usec);

    alarm(50);
    printf("alarm left %u", alarm(20));
    printf(", %u", alarm(0));
    printf(", %u\n", alarm(0));

    handled = 0;
    set(SIGVTALRM, 0);
    set(SIGPROF, 0);
    timer = every(300, 0);
    setitimer(ITIMER_VIRTUAL, &timer, NULL);
    setitimer(ITIMER_PROF, &timer, NULL);
    while (handled < 2)
        ;
    printf("virtual and profile %d\n", (int)handled);
    printf("errors:");
    timer = every(1000000, 0);
    printf(" %d", setitimer(ITIMER_REAL, &timer, NULL) < 0 && errno == EINVAL);
    printf(" %d", setitimer(3, &none, NULL) < 0 && errno == EINVAL);
    printf(" %d", getitimer(3, &old) < 0 && errno == EINVAL);
    getitimer(ITIMER_REAL, &old);
    printf(" %d\n", old.it_value.tv_sec == 0 && old.it_value.tv_usec == 0);
}

// A signal interrupts a call that waits, or the call goes on. One that comes before the call is followed by others.
static void interrupted(void)
{
    struct itimerval timer = every(1000, 1000), none = {0};
    struct timespec rest = {0};
    setitimer(ITIMER_REAL, &timer, NULL);
    int result = nanosleep(&(struct timespec){.tv_sec = 100}, &rest);
    int error = errno;
    setitimer(ITIMER_REAL, &none, NULL);
    printf("sleep %d %d, rest %ld\n", result, error == EINTR, (long)rest.tv_sec);
    setitimer(ITIMER_REAL, &timer, NULL);
    rest.tv_sec = 7;
    result = clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &(struct timespec){.tv_sec = 1L << 40}, &rest);
    setitimer(ITIMER_REAL, &none, NULL);
    printf("absolute sleep %d, rest untouched %d\n", result == EINTR, rest.tv_sec == 7);

    int ends[2];
    char byte = 0;
    if (pipe(ends) < 0)
        return;
    setitimer(ITIMER_REAL, &timer, NULL);
    ssize_t count = read(ends[0], &byte, 1);
    error = errno;
    setitimer(ITIMER_REAL, &none, NULL);
    printf("read %zd %d\n", count, error == EINTR);
    alarm(1);
    printf("sleep leaves %u\n", sleep(100) >= 98);
}

static void timers(void)
{
    handled = 0;
    set(SIGUSR1, 0);
    struct sigevent event = {.sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGUSR1, .sigev_value = {.sival_int = 77}};
    timer_t timer;
    timer_create(CLOCK_MONOTONIC, &event, &timer);
    struct itimerspec once = {.it_value = {.tv_nsec = 400000}}, left;
    timer_settime(timer, 0, &once, NULL);
    while (!handled)
        ;
    timer_gettime(timer, &left);
    printf("timer %d, code %d, value %d, left %ld, overrun %d\n", (int)handled, (int)code, (int)value,
           left.it_value.tv_nsec, timer_getoverrun(timer));

    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    timer_t absolute;
    event.sigev_value.sival_int = 78;
    timer_create(CLOCK_REALTIME, &event, &absolute);
    struct itimerspec past = {.it_value = {.tv_sec = now.tv_sec - 1}};
    timer_settime(absolute, TIMER_ABSTIME, &past, NULL);
    while (handled < 2)
        ;
    printf("past is due: %d\n", (int)value);
    timer_delete(absolute);

    // Those that come while the signal is blocked are counted.
    sigset_t set, old;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR1);
    sigprocmask(SIG_BLOCK, &set, &old);
    struct itimerspec often = {.it_value = {.tv_nsec = 1000000}, .it_interval = {.tv_nsec = 1000000}}, none = {0};
    timer_settime(timer, 0, &often, NULL);
    nanosleep(&(struct timespec){.tv_nsec = 20000000}, NULL);
    siginfo_t info;
    int signal = sigwaitinfo(&set, &info);
    timer_settime(timer, 0, &none, &left);
    printf("waited for %d, code %d, value %d, overrun %d, period %ld\n", signal == SIGUSR1, info.si_code,
           info.si_value.sival_int, info.si_overrun >= 10, left.it_interval.tv_nsec);
    struct timespec now_or_never = {0}, soon = {.tv_nsec = 1000000};
    // Another one may have come before the timer was stopped.
    while (sigtimedwait(&set, &info, &now_or_never) > 0)
        ;
    printf("none %d\n", sigtimedwait(&set, &info, &soon) < 0 && errno == EAGAIN);
    sigqueue(getpid(), SIGUSR1, (union sigval){.sival_int = 5});
    signal = sigtimedwait(&set, &info, &soon);
    printf("queued %d, code %d, value %d\n", signal == SIGUSR1, info.si_code, info.si_value.sival_int);
    sigprocmask(SIG_SETMASK, &old, NULL);

    printf("errors:");
    printf(" %d", timer_create(12345, &event, &absolute) < 0 && errno == EINVAL);
    event.sigev_signo = 65;
    printf(" %d", timer_create(CLOCK_MONOTONIC, &event, &absolute) < 0 && errno == EINVAL);
    event.sigev_signo = SIGUSR1;
    event.sigev_notify = 9;
    printf(" %d", syscall(SYS_timer_create, CLOCK_MONOTONIC, &event, &absolute) < 0 && errno == EINVAL);
    once.it_value.tv_nsec = 1000000000;
    printf(" %d", timer_settime(timer, 0, &once, NULL) < 0 && errno == EINVAL);
    printf(" %d", timer_delete(timer) == 0);
    printf(" %d\n", syscall(SYS_timer_delete, 1000) < 0 && errno == EINVAL);
}

static void *wait_for_signal(void *set)
{
    int signal = 0;
    sigwait(set, &signal);
    printf("thread has %d\n", signal == SIGUSR2);
    return NULL;
}

static void threads(void)
{
    struct sigevent event = {.sigev_notify = SIGEV_THREAD, .sigev_notify_function = call};
    event.sigev_value.sival_int = 1;
    timer_t timer;
    struct itimerspec often = {.it_value = {.tv_nsec = 500000}, .it_interval = {.tv_nsec = 500000}};
    timer_create(CLOCK_MONOTONIC, &event, &timer);
    timer_settime(timer, 0, &often, NULL);
    while (atomic_load(&called) < 3)
        nanosleep(&(struct timespec){.tv_nsec = 100000}, NULL);
    timer_delete(timer);
    printf("called in a thread\n");

    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &set, NULL);
    pthread_t thread;
    pthread_create(&thread, NULL, wait_for_signal, &set);
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    kill(getpid(), SIGUSR2);
    pthread_join(thread, NULL);
}

int main(int argc, char **argv)
{
    setvbuf(stdout, NULL, _IONBF, 0);
    intervals();
    interrupted();
    timers();
    threads();
    if (argc > 1 && strcmp(argv[1], "end") == 0) {
        signal(SIGALRM, SIG_DFL);
        struct itimerval timer = every(300, 0);
        setitimer(ITIMER_REAL, &timer, NULL);
        for (;;)
            ;
    }
    return 0;
}
