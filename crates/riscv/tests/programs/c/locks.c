// Locks on files: of open files, of ranges of bytes, and threads that wait for them.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static int one, two;

static void said(const char *what, int result)
{
    printf("%s %d %d\n", what, result, result < 0 ? errno : 0);
}

static void pause_ms(int ms)
{
    nanosleep(&(struct timespec){.tv_nsec = ms * 1000000}, NULL);
}

static int range(int file, int command, int kind, int whence, long start, long length)
{
    struct flock lock = {.l_type = kind, .l_whence = whence, .l_start = start, .l_len = length};
    return fcntl(file, command, &lock);
}

// The lock that is in the way of another one.
static void ask(const char *what, int file, int command, int kind, long start, long length)
{
    struct flock lock = {.l_type = kind, .l_whence = SEEK_SET, .l_start = start, .l_len = length};
    int result = fcntl(file, command, &lock);
    printf("%s %d: %d %d %ld %ld %d\n", what, result, lock.l_type, lock.l_whence, (long)lock.l_start,
           (long)lock.l_len, lock.l_pid == getpid() ? 1 : lock.l_pid);
}

static void whole(void)
{
    said("shared", flock(one, LOCK_SH));
    said("shared too", flock(two, LOCK_SH | LOCK_NB));
    said("stronger in vain", flock(one, LOCK_EX | LOCK_NB));
    said("which has lost it", flock(two, LOCK_EX | LOCK_NB));
    said("locked", flock(one, LOCK_SH | LOCK_NB));
    said("free", flock(two, LOCK_UN));
    int copy = dup(one);
    said("exclusive", flock(one, LOCK_EX | LOCK_NB));
    said("by a copy", flock(copy, LOCK_EX | LOCK_NB));
    close(one);
    said("kept by a copy", flock(two, LOCK_EX | LOCK_NB));
    close(copy);
    said("free with the last", flock(two, LOCK_EX | LOCK_NB));
    one = open("file", O_RDWR);
    said("none of ranges", range(one, F_SETLK, F_WRLCK, SEEK_SET, 0, 0));
    said("no operation", flock(one, 3));
    said("no file", flock(99, LOCK_EX));
    said("both", flock(one, LOCK_EX | LOCK_NB | LOCK_SH));
    range(one, F_SETLK, F_UNLCK, SEEK_SET, 0, 0);
    flock(two, LOCK_UN);
}

static void ranges(void)
{
    // All descriptors of a process have the same ranges.
    said("process", range(one, F_SETLK, F_WRLCK, SEEK_SET, 0, 10));
    said("again", range(two, F_SETLK, F_WRLCK, SEEK_SET, 5, 10));
    ask("of the process", two, F_GETLK, F_WRLCK, 0, 0);
    ask("of a file", two, F_OFD_GETLK, F_WRLCK, 0, 0);
    said("file", range(two, F_OFD_SETLK, F_WRLCK, SEEK_SET, 14, 1));
    said("beside", range(two, F_OFD_SETLK, F_WRLCK, SEEK_SET, 15, 5));
    // A hole, and what joins again.
    said("hole", range(one, F_SETLK, F_UNLCK, SEEK_SET, 4, 4));
    ask("before", two, F_OFD_GETLK, F_RDLCK, 0, 100);
    ask("behind", two, F_OFD_GETLK, F_RDLCK, 5, 100);
    ask("in it", two, F_OFD_GETLK, F_RDLCK, 4, 4);
    said("filled", range(one, F_SETLK, F_WRLCK, SEEK_SET, 4, 4));
    ask("joined", two, F_OFD_GETLK, F_RDLCK, 9, 1);
    said("weaker", range(one, F_SETLK, F_RDLCK, SEEK_SET, 2, 3));
    ask("weak", two, F_OFD_GETLK, F_WRLCK, 3, 1);
    ask("read beside", two, F_OFD_GETLK, F_RDLCK, 3, 1);
    ask("file's", one, F_GETLK, F_WRLCK, 15, 0);
    // Ends, signs and places.
    lseek(one, 100, SEEK_SET);
    said("here", range(one, F_OFD_SETLK, F_WRLCK, SEEK_CUR, -10, 20));
    ask("here", two, F_OFD_GETLK, F_WRLCK, 50, 1000);
    said("back", range(one, F_OFD_SETLK, F_WRLCK, SEEK_SET, 300, -50));
    ask("back", two, F_OFD_GETLK, F_WRLCK, 200, 1000);
    said("end", range(one, F_OFD_SETLK, F_WRLCK, SEEK_END, 0, 0));
    ask("end", two, F_OFD_GETLK, F_WRLCK, 5000, 0);
    said("before 0", range(one, F_SETLK, F_WRLCK, SEEK_SET, -1, 5));
    said("back before 0", range(one, F_SETLK, F_WRLCK, SEEK_SET, 3, -5));
    said("too far", range(one, F_SETLK, F_WRLCK, SEEK_SET, LONG_MAX, 2));
    said("last", range(one, F_OFD_SETLK, F_WRLCK, SEEK_SET, LONG_MAX, 1));
    said("no place", range(one, F_SETLK, F_WRLCK, 7, 0, 0));
    said("no kind", range(one, F_SETLK, 7, SEEK_SET, 0, 0));
    ask("no kind", one, F_GETLK, F_UNLCK, 0, 0);
    struct flock named = {.l_type = F_WRLCK, .l_pid = 1};
    said("a process", fcntl(one, F_OFD_SETLK, &named));
    int reads = open("file", O_RDONLY), writes = open("file", O_WRONLY);
    said("read only", range(reads, F_SETLK, F_WRLCK, SEEK_SET, 900, 1));
    said("write only", range(writes, F_SETLK, F_RDLCK, SEEK_SET, 900, 1));
    // Any descriptor that is closed takes the ranges of the process along, and none of a file.
    close(reads);
    ask("gone", writes, F_OFD_GETLK, F_WRLCK, 0, 14);
    ask("stays", writes, F_GETLK, F_WRLCK, 0, 50);
    ask("stays", writes, F_GETLK, F_WRLCK, 95, 1);
    close(one);
    ask("gone", writes, F_GETLK, F_WRLCK, 95, 1);
    close(two);
    ask("free", writes, F_GETLK, F_WRLCK, 0, 0);
    close(writes);
    one = open("file", O_RDWR);
    two = open("file", O_RDWR);
}

static volatile int has;

static void *lock_whole(void *unused)
{
    (void)unused;
    has = flock(two, LOCK_EX) == 0;
    return NULL;
}

static void *lock_range(void *unused)
{
    (void)unused;
    has = range(two, F_OFD_SETLKW, F_WRLCK, SEEK_SET, 10, 10) == 0;
    return NULL;
}

// A thread that waits long before it can have the lock.
static pthread_t begin(void *(*work)(void *))
{
    pthread_t thread;
    has = 0;
    pthread_create(&thread, NULL, work, NULL);
    pause_ms(20);
    return thread;
}

static void end(const char *what, pthread_t thread, int before)
{
    pthread_join(thread, NULL);
    printf("%s: before %d, then %d\n", what, before, has);
}

static void waits(void)
{
    flock(one, LOCK_EX);
    pthread_t thread = begin(lock_whole);
    int before = has;
    flock(one, LOCK_UN);
    end("given back", thread, before);
    flock(two, LOCK_UN);
    // A mapping keeps the open file, and its lock.
    flock(one, LOCK_EX);
    char *bytes = mmap(NULL, 4096, PROT_READ, MAP_SHARED, one, 0);
    close(one);
    one = open("file", O_RDWR);
    said("kept by a mapping", flock(one, LOCK_EX | LOCK_NB));
    thread = begin(lock_whole);
    before = has;
    munmap(bytes, 4096);
    end("mapping", thread, before);
    // The last descriptor of an open file.
    close(one);
    one = two;
    two = open("file", O_RDWR);
    thread = begin(lock_whole);
    before = has;
    close(one);
    end("closed", thread, before);
    flock(two, LOCK_UN);
    one = open("file", O_RDWR);
    // A part of a range is not enough.
    range(one, F_SETLK, F_WRLCK, SEEK_SET, 0, 100);
    thread = begin(lock_range);
    range(one, F_SETLK, F_UNLCK, SEEK_SET, 10, 5);
    pause_ms(20);
    before = has;
    range(one, F_SETLK, F_UNLCK, SEEK_SET, 15, 5);
    end("range", thread, before);
    range(one, F_SETLK, F_UNLCK, SEEK_SET, 0, 0);
    range(two, F_OFD_SETLK, F_UNLCK, SEEK_SET, 0, 0);
}

static void *lock_process(void *unused)
{
    (void)unused;
    has = range(two, F_SETLKW, F_WRLCK, SEEK_SET, 10, 10) == 0 ? 1 : -errno;
    return NULL;
}

// A thread waits for the lock of a file whose descriptor is closed meanwhile, and then stands for another one.
static void replaced(const char *what, void *(*work)(void *))
{
    two = open("file", O_RDWR);
    flock(one, LOCK_EX);
    range(one, F_OFD_SETLK, F_WRLCK, SEEK_SET, 0, 0);
    pthread_t thread = begin(work);
    int before = has, number = two;
    close(two);
    int other = open("other", O_RDWR | O_CREAT, 0600), third = open("other", O_RDWR), fourth = open("file", O_RDWR);
    flock(one, LOCK_UN);
    range(one, F_OFD_SETLK, F_UNLCK, SEEK_SET, 0, 0);
    end(what, thread, before);
    printf("the number %d\n", other == number);
    // Nothing is locked any more: neither the other file, nor the one that is closed now.
    said("other", flock(third, LOCK_EX | LOCK_NB));
    ask("other", third, F_OFD_GETLK, F_WRLCK, 0, 0);
    said("file", flock(fourth, LOCK_EX | LOCK_NB));
    ask("file", fourth, F_OFD_GETLK, F_WRLCK, 0, 0);
    close(other);
    close(third);
    close(fourth);
}

static volatile int interrupts;

static void interrupt(int signal)
{
    (void)signal;
    interrupts++;
}

static void *free_later(void *unused)
{
    (void)unused;
    while (interrupts == 0)
        pause_ms(1);
    pause_ms(10);
    range(one, F_OFD_SETLK, F_UNLCK, SEEK_SET, 0, 0);
    return NULL;
}

static void signals(void)
{
    struct sigaction action = {.sa_handler = interrupt};
    struct itimerval timer = {{0, 0}, {0, 20000}};
    sigaction(SIGALRM, &action, NULL);
    flock(one, LOCK_EX);
    setitimer(ITIMER_REAL, &timer, NULL);
    said("interrupted", flock(two, LOCK_SH));
    range(one, F_OFD_SETLK, F_WRLCK, SEEK_SET, 0, 0);
    setitimer(ITIMER_REAL, &timer, NULL);
    said("interrupted", range(two, F_SETLKW, F_RDLCK, SEEK_SET, 0, 0));
}

// A call that begins again after the handler.
static void begun_again(void)
{
    struct sigaction action = {.sa_handler = interrupt, .sa_flags = SA_RESTART};
    struct itimerval timer = {{0, 0}, {0, 20000}};
    sigset_t alarm;
    pthread_t thread;
    sigaction(SIGALRM, &action, NULL);
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    range(one, F_OFD_SETLK, F_WRLCK, SEEK_SET, 0, 0);
    sigprocmask(SIG_BLOCK, &alarm, NULL);
    pthread_create(&thread, NULL, free_later, NULL);
    sigprocmask(SIG_UNBLOCK, &alarm, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
    said("begun again", range(two, F_SETLKW, F_RDLCK, SEEK_SET, 0, 0));
    printf("interrupts %d\n", interrupts);
}

int main(int count, char **words)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    one = open("file", O_RDWR | O_CREAT | O_TRUNC, 0644);
    two = open("file", O_RDWR);
    ftruncate(one, 5000);
    if (count > 1 && strcmp(words[1], "again") == 0) {
        begun_again();
        return 0;
    }
    whole();
    ranges();
    waits();
    close(two);
    replaced("whole", lock_whole);
    replaced("range", lock_range);
    replaced("process", lock_process);
    two = open("file", O_RDWR);
    signals();
    return 0;
}
