// Where mappings, signals, numbers of files and descriptors meet their limits.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

enum { PAGE = 4096, MIB = 1 << 20 };

static char *mapped(const char *name, size_t bytes, int *file)
{
    *file = open(name, O_RDWR | O_CREAT | O_TRUNC, 0644);
    ftruncate(*file, bytes);
    return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, *file, 0);
}

static char *anonymous(size_t bytes)
{
    return mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

static void show(const char *what, int file)
{
    char text[8] = {0};
    pread(file, text, 7, 0);
    printf("%s %s\n", what, text);
}

// A mapping that is moved over another one takes its place.
static void moved(void)
{
    int one, two;
    char *shared = mapped("one", PAGE, &one), *other = anonymous(PAGE);
    strcpy(shared, "file");
    strcpy(other, "memory");
    mremap(other, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, shared);
    printf("moved %s\n", shared);
    strcpy(shared, "SECRET");
    show("first", one);
    shared = mapped("one", PAGE, &one);
    other = mapped("two", PAGE, &two);
    strcpy(shared, "one");
    strcpy(other, "two");
    mremap(shared, PAGE, PAGE, MREMAP_MAYMOVE | MREMAP_FIXED, other);
    strcpy(other, "ONE");
    show("first", one);
    show("second", two);
}

// A name that takes its own place, and a write that ends early.
static void kept(void)
{
    int file, again;
    struct stat before, after;
    char *shared = mapped("three", PAGE, &file);
    stat("three", &before);
    printf("rename %d, ", rename("three", "three"));
    stat("three", &after);
    strcpy(shared, "kept");
    again = open("three", O_RDONLY);
    show(before.st_ino == after.st_ino ? "the same" : "another", again);
    shared = mapped("four", 3 * MIB, &file);
    strcpy(shared + 2 * MIB, "dirty");
    char *short_of = anonymous(4 * MIB);
    munmap(short_of + MIB, 3 * MIB);
    write(file, short_of, 3 * MIB);
    printf("behind the write '%s'\n", shared + 2 * MIB);
}

static void ignore(int signal)
{
    (void)signal;
}

// A wait with a timeout does not begin again, whatever the handler asks for.
static void waits(void)
{
    struct sigaction action = {.sa_handler = ignore, .sa_flags = SA_RESTART};
    struct itimerval timer = {{0, 10000}, {0, 10000}}, none = {{0, 0}, {0, 0}};
    struct timespec time = {.tv_nsec = 50000000};
    int word = 0;
    sigaction(SIGALRM, &action, NULL);
    setitimer(ITIMER_REAL, &timer, NULL);
    long result = syscall(SYS_futex, &word, FUTEX_WAIT, 0, &time, NULL, 0);
    printf("futex %ld, %d\n", result, errno == EINTR);
    setitimer(ITIMER_REAL, &none, NULL);
}

static int same(const char *one, const char *other)
{
    struct stat a, b;
    return stat(one, &a) == 0 && stat(other, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

// Files are different ones if their numbers are, and a pipe that finds no room takes none.
static void numbers(void)
{
    int ends[2][2];
    struct stat pipes[2], output, null;
    for (int i = 0; i < 2; i++) {
        pipe(ends[i]);
        fstat(ends[i][0], &pipes[i]);
    }
    fstat(STDOUT_FILENO, &output);
    stat("/dev/null", &null);
    printf("same: %d %d %d %d %d\n", same("/proc/version", "/proc/uptime"), same("/dev/null", "/dev/zero"),
           same("one", "/proc/version"), pipes[0].st_ino == pipes[1].st_ino,
           output.st_dev == null.st_dev && output.st_ino == null.st_ino);
    while (pipe(ends[0]) == 0)
        ;
    while (dup(0) >= 0)
        ;
    close(5);
    printf("pipe %d, %d; ", pipe(ends[0]), errno == EMFILE);
    printf("dup %d\n", dup(0));
}

int main(void)
{
    moved();
    kept();
    waits();
    numbers();
    const char *names[] = {"one", "two", "three", "four"};
    for (int i = 0; i < 4; i++)
        unlink(names[i]);
    return 0;
}
