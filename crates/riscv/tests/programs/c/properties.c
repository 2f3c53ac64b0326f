// Properties of threads and processes: names, priorities, policies, cores, limits, clocks.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static void say(const char *what, long result)
{
    printf("%s %ld %s\n", what, result, result == -1 ? strerror(errno) : "");
}

static void say_name(const char *whose)
{
    char name[16];
    memset(name, 'x', sizeof name);
    prctl(PR_GET_NAME, name);
    printf("name of %s: %s\n", whose, name);
}

static void *thread(void *argument)
{
    say_name("a thread, at first");
    prctl(PR_SET_NAME, "second");
    say_name("a thread");
    return argument;
}

static void names(void)
{
    char comm[20] = "";
    prctl(PR_SET_NAME, "a name of more than 15 bytes");
    say_name("the first thread");
    int file = open("/proc/self/comm", O_RDONLY);
    printf("comm %ld", (long)read(file, comm, sizeof comm - 1));
    printf(" %s", comm);
    close(file);
    pthread_t other;
    pthread_create(&other, NULL, thread, NULL);
    pthread_join(other, NULL);
    say_name("the first thread, still");
    say("no name", prctl(PR_SET_NAME, 1));
    say("a name without letters", prctl(PR_SET_NAME, ""));
    say_name("the first thread, without letters");
}

static void priorities(void)
{
    say("priority", getpriority(PRIO_PROCESS, 0));
    say("set", setpriority(PRIO_PROCESS, 0, 7));
    say("priority", getpriority(PRIO_PROCESS, 0));
    say("raise", setpriority(PRIO_PROCESS, 0, 7));
    say("far", setpriority(PRIO_PROCESS, 0, 100));
    say("priority", getpriority(PRIO_PROCESS, getpid()));
    say("no such", getpriority(9, 0));
    say("nobody", getpriority(PRIO_PROCESS, 999999));
}

static void *policy_of_a_thread(void *argument)
{
    say("policy of a thread", syscall(SYS_sched_getscheduler, 0));
    return argument;
}

static void policies(void)
{
    struct sched_param none = {0}, one = {1};
    say("policy", syscall(SYS_sched_getscheduler, 0));
    say("batch", syscall(SYS_sched_setscheduler, 0, SCHED_BATCH, &none));
    say("policy", syscall(SYS_sched_getscheduler, 0));
    say("other", syscall(SYS_sched_setscheduler, 0, SCHED_OTHER, &one));
    say("unknown", syscall(SYS_sched_setscheduler, 0, 99, &none));
    say("back", syscall(SYS_sched_setscheduler, 0, SCHED_OTHER, &none));
    say("reset", syscall(SYS_sched_setscheduler, 0, SCHED_BATCH | SCHED_RESET_ON_FORK, &none));
    say("policy", syscall(SYS_sched_getscheduler, 0));
    say("the same", syscall(SYS_sched_setparam, 0, &none));
    pthread_t other;
    pthread_create(&other, NULL, policy_of_a_thread, NULL);
    pthread_join(other, NULL);
    say("policy", syscall(SYS_sched_getscheduler, 0));
    say("highest", sched_get_priority_max(SCHED_FIFO));
    say("lowest", sched_get_priority_min(SCHED_RR));
    say("highest of none", sched_get_priority_max(99));
}

static void cores(void)
{
    cpu_set_t set, found;
    CPU_ZERO(&set);
    say("no core", sched_setaffinity(0, sizeof set, &set));
    sched_getaffinity(0, sizeof found, &found);
    int first = 0;
    while (!CPU_ISSET(first, &found))
        first++;
    CPU_SET(first, &set);
    say("one core", sched_setaffinity(0, sizeof set, &set));
    CPU_ZERO(&found);
    sched_getaffinity(0, sizeof found, &found);
    printf("cores %d %d\n", CPU_COUNT(&found), CPU_ISSET(first, &found));
    say("nobody's", sched_setaffinity(999999, sizeof set, &set));
    say("nowhere", syscall(SYS_sched_setaffinity, 0, sizeof set, 1));
}

static void limits(void)
{
    struct rlimit limit = {10, 1024};
    say("limit", setrlimit(RLIMIT_NOFILE, &limit));
    int last = -1, next;
    while ((next = dup(1)) >= 0)
        last = next;
    say("descriptors", last);
    say("above", dup2(1, 10));
    say("from there", fcntl(1, F_DUPFD, 10));
    limit.rlim_cur = 0;
    say("asked", getrlimit(RLIMIT_NOFILE, &limit));
    printf("limits %ld %ld\n", (long)limit.rlim_cur, (long)limit.rlim_max);
    limit.rlim_max = 5;
    say("above the most", setrlimit(RLIMIT_NOFILE, &limit));
    limit = (struct rlimit){20, 21};
    say("core", setrlimit(RLIMIT_CORE, &limit));
    limit.rlim_max = 22;
    say("more", setrlimit(RLIMIT_CORE, &limit));
    say("no such", getrlimit((__typeof__(RLIMIT_CORE))99, &limit));
    while (last > 2)
        close(last--);
}

static void clocks(void)
{
    struct timespec time;
    clockid_t own;
    say("no clock", syscall(SYS_clock_gettime, 99, &time));
    say("none by number", syscall(SYS_clock_gettime, -1, 0));
    say("its steps", syscall(SYS_clock_getres, 99, 0));
    say("thread's", pthread_getcpuclockid(pthread_self(), &own));
    say("its time", clock_gettime(own, &time));
    say("TAI", syscall(SYS_clock_gettime, CLOCK_TAI, &time));
    struct timeval now;
    gettimeofday(&now, NULL);
    printf("near %d\n", time.tv_sec - now.tv_sec < 100 && now.tv_sec - time.tv_sec < 100);
    struct timezone zone;
    say("only a zone", syscall(SYS_gettimeofday, 0, &zone));
    say("sleep of none", syscall(SYS_clock_nanosleep, 99, 0, &time, 0));
    say("of a coarse one", syscall(SYS_clock_nanosleep, CLOCK_MONOTONIC_COARSE, 0, &time, 0));
}

static void descriptors(void)
{
    int ends[2];
    pipe(ends);
    say("mark", ioctl(ends[0], FIOCLEX));
    say("flags", fcntl(ends[0], F_GETFD));
    say("unmark", ioctl(ends[0], FIONCLEX));
    say("flags", fcntl(ends[0], F_GETFD));
    say("capacity", fcntl(ends[0], F_GETPIPE_SZ));
    say("more", fcntl(ends[1], F_SETPIPE_SZ, 100000));
    char bytes[131072];
    fcntl(ends[1], F_SETFL, O_NONBLOCK);
    say("written", write(ends[1], bytes, sizeof bytes));
    say("full", write(ends[1], bytes, 1));
    say("less", fcntl(ends[1], F_SETPIPE_SZ, 4096));
    say("no pipe", fcntl(open("/dev/null", O_RDONLY), F_GETPIPE_SZ));
}

static void *after_the_first(void *unused)
{
    (void)unused;
    sched_yield();
    struct rlimit limit;
    say("priority of the process", getpriority(PRIO_PROCESS, getpid()));
    say("its limits", prlimit(getpid(), RLIMIT_NOFILE, NULL, &limit));
    limit.rlim_cur = 0;
    setrlimit(RLIMIT_NOFILE, &limit);
    say("none is left", dup(1));
    fflush(stdout);
    _exit(0);
}

int main(void)
{
    names();
    priorities();
    policies();
    cores();
    limits();
    clocks();
    descriptors();
    pthread_t other;
    pthread_create(&other, NULL, after_the_first, NULL);
    pthread_exit(NULL);
}
