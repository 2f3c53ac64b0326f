// Random calls on mapped files, and loads and stores beside them; what each gives is printed. The argument is the seed.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

#define COUNT(array) (sizeof array / sizeof array[0])

// The first pages are those of two files in shared mappings, each page at its own place. The others are private, and of
// a file that does not change, as private pages may show changes or not.
enum { PAGE = 4096, PAGES = 14, FILES = 2, FILE_PAGES = 4, SHARED = FILES * FILE_PAGES };

static uint64_t state;
static int files[FILES + 1];
static char *area;
static sigjmp_buf begin;
static volatile int signalled;
static char *volatile faulted;

static unsigned any(unsigned below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(state >> 33) % below;
}

static void said(long result)
{
    printf(" = %ld %d\n", result, result < 0 ? errno : 0);
}

static void note(int signal, siginfo_t *info, void *context)
{
    (void)context;
    signalled = signal * 100 + info->si_code;
    faulted = info->si_addr;
    siglongjmp(begin, 1);
}

static void fault(const char *at)
{
    printf(" fault %d at %ld\n", signalled, (long)(faulted - at));
}

static unsigned sum_of(const char *bytes, size_t length)
{
    unsigned sum = 0;
    for (size_t i = 0; i < length; i++)
        sum = sum * 31 + (unsigned char)bytes[i];
    return sum;
}

static char *page(void)
{
    return area + any(PAGES) * PAGE;
}

// A length of some pages that ends in the part of the area.
static size_t some_length(const char *from)
{
    static const size_t LENGTHS[] = {PAGE, PAGE, 2 * PAGE, 3 * PAGE, 100, PAGE + 1};
    size_t length = LENGTHS[any(COUNT(LENGTHS))];
    long at = (from - area) / PAGE, end = at < SHARED ? at / FILE_PAGES * FILE_PAGES + FILE_PAGES : PAGES;
    size_t most = (size_t)((end - at) * PAGE);
    return length < most ? length : most;
}

static long place(const void *at)
{
    return at == MAP_FAILED ? -1 : ((const char *)at - area) / PAGE;
}

static void map(void)
{
    static const int PROTECTIONS[] = {PROT_READ, PROT_READ | PROT_WRITE, PROT_READ | PROT_WRITE};
    char *at = page();
    size_t length = some_length(at);
    int protection = PROTECTIONS[any(COUNT(PROTECTIONS))], with = any(5) ? FILES : -1;
    int flags = MAP_FIXED | MAP_PRIVATE;
    long offset = (long)any(FILE_PAGES) * PAGE;
    if (place(at) < SHARED && with >= 0) {
        with = (int)place(at) / FILE_PAGES;
        offset = place(at) % FILE_PAGES * PAGE;
        flags = MAP_FIXED | MAP_SHARED;
    }
    if (with < 0)
        flags |= MAP_ANONYMOUS;
    printf("map %ld %zu %d %x of %d from %ld", place(at), length, protection, flags, with, offset);
    void *mapped = mmap(at, length, protection, flags, with < 0 ? -1 : files[with], with < 0 ? 0 : offset);
    said(place(mapped));
}

static void load(void)
{
    volatile char *at = page() + any(PAGE);
    printf("load %ld", (long)((char *)at - area));
    if (sigsetjmp(begin, 1)) {
        fault((char *)at);
        return;
    }
    said(*at);
}

// An address in a page; in the last one of a file one before its end, as bytes behind it are lost at some time.
static char *within(char *first, unsigned offset)
{
    long number = place(first), at = number % FILE_PAGES * PAGE + (long)offset;
    if (number >= SHARED)
        return first + offset;
    return at < lseek(files[number / FILE_PAGES], 0, SEEK_END) ? first + offset : first;
}

static void store(void)
{
    char *first = page();
    volatile char *at = within(first, any(any(2) ? PAGE : 200));
    char byte = (char)('A' + any(26));
    printf("store %ld", (long)((char *)at - area));
    if (sigsetjmp(begin, 1)) {
        fault((char *)at);
        return;
    }
    *at = byte;
    said(byte);
}

static void show_page(const char *at)
{
    if (sigsetjmp(begin, 1)) {
        printf(" %d", signalled);
        return;
    }
    (void)*(volatile const char *)at;
    printf(" %x", sum_of(at, PAGE));
}

static void show_area(void)
{
    printf("area");
    for (int i = 0; i < PAGES; i++)
        show_page(area + i * PAGE);
    printf("\n");
}

static void show_file(void)
{
    static char bytes[FILE_PAGES * 2 * PAGE];
    unsigned with = any(FILES);
    memset(bytes, 0, sizeof bytes);
    ssize_t length = pread(files[with], bytes, sizeof bytes, 0);
    printf("file %u %x", with, sum_of(bytes, sizeof bytes));
    said(length);
}

static void write_file(void)
{
    static char bytes[2 * PAGE];
    unsigned with = any(FILES);
    long at = any(FILE_PAGES * PAGE);
    size_t length = any(2) ? any(100) : any(sizeof bytes);
    memset(bytes, 'a' + (int)any(26), sizeof bytes);
    struct iovec pieces[] = {{bytes, length / 2}, {bytes, length - length / 2}};
    switch (any(3)) {
    case 0:
        printf("pwrite %u %zu to %ld", with, length, at);
        said(pwrite(files[with], bytes, length, at));
        break;
    case 1:
        printf("pwritev %u %zu to %ld", with, length, at);
        said(pwritev(files[with], pieces, 2, at));
        break;
    default:
        lseek(files[with], at, SEEK_SET);
        printf("write %u %zu to %ld", with, length, at);
        said(write(files[with], bytes, length));
    }
}

static void resize(void)
{
    unsigned with = any(FILES);
    long length = (long)(any(2) ? any(FILE_PAGES + 2) * PAGE : any(FILE_PAGES * PAGE));
    if (any(4) == 0) {
        int mode = any(2) ? FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE : 0;
        long at = any(FILE_PAGES * PAGE);
        printf("fallocate %u %d %ld %ld", with, mode, at, length);
        said(fallocate(files[with], mode, at, length));
        return;
    }
    printf("resize %u %ld", with, length);
    said(ftruncate(files[with], length));
}

static void move(void)
{
    char *from = area + (SHARED + any(PAGES - SHARED)) * PAGE, *to = area + (SHARED + any(PAGES - SHARED)) * PAGE;
    // Whether pages beside each other are one mapping is Linux's own matter.
    size_t old = any(4) ? PAGE : some_length(from), new = some_length(to);
    int flags = any(3) ? MREMAP_MAYMOVE | MREMAP_FIXED : 0;
    // What grows may meet whatever the C library has there.
    if (new > old)
        new = old;
    if (new > PAGE)
        flags = 0;
    printf("move %ld %zu to %ld %zu %d", place(from), old, place(to), new, flags);
    said(place(mremap(from, old, new, flags, to)));
}

static void change(void)
{
    static const int PROTECTIONS[] = {PROT_NONE, PROT_READ, PROT_READ | PROT_WRITE, PROT_READ | PROT_WRITE};
    static const int ADVICE[] = {MADV_DONTNEED, MADV_DONTNEED, MADV_WILLNEED, MADV_POPULATE_READ, MADV_POPULATE_WRITE};
    static const int SYNCS[] = {MS_SYNC, MS_ASYNC, MS_SYNC | MS_INVALIDATE, 0};
    char *at = page();
    size_t length = some_length(at);
    switch (any(9)) {
    case 0:
    case 1: {
        int protection = PROTECTIONS[any(COUNT(PROTECTIONS))];
        printf("protect %ld %zu %d", place(at), length, protection);
        said(mprotect(at, length, protection));
        break;
    }
    case 2:
        printf("unmap %ld %zu", place(at), length);
        said(munmap(at, length));
        break;
    case 3:
    case 4: {
        int advice = ADVICE[any(COUNT(ADVICE))];
        // Private pages that are discarded show their file again.
        if (place(at) >= SHARED && advice == MADV_DONTNEED)
            advice = MADV_WILLNEED;
        printf("advise %ld %zu %d", place(at), length, advice);
        said(madvise(at, length, advice));
        break;
    }
    case 5:
        printf("lock %ld %zu", place(at), length);
        said(any(2) ? mlock(at, length) : munlock(at, length));
        break;
    case 6: {
        int flags = SYNCS[any(COUNT(SYNCS))];
        printf("sync %ld %zu %d", place(at), length, flags);
        said(msync(at, length, flags));
        break;
    }
    default: move();
    }
}

// A call that reads or writes what is mapped.
static void call(void)
{
    char *at = page();
    // A call that moves bytes from a file to itself may move them in any order, and one that fails may leave it longer.
    unsigned with = 0, kind = place(at) < FILE_PAGES ? 2 : any(3);
    // Bytes behind the end of a file are lost at some time.
    if (place(at) < SHARED && kind == 0)
        kind = 2;
    size_t length = some_length(at);
    long from = any(FILE_PAGES * PAGE);
    int ends[2];
    if (kind == 1 && from + (long)length > lseek(files[with], 0, SEEK_END))
        kind = 2;
    switch (kind) {
    case 0:
        printf("read %u %zu from %ld to %ld", with, length, from, place(at));
        said(pread(files[with], at, length, from));
        break;
    case 1:
        printf("write %u %zu to %ld from %ld", with, length, from, place(at));
        said(pwrite(files[with], at, length, from));
        break;
    default:
        if (pipe(ends) < 0)
            return;
        printf("pipe %zu from %ld", length, place(at));
        said(write(ends[1], at, length));
        close(ends[0]);
        close(ends[1]);
    }
}

// Whether the host has MADV_POPULATE_READ and MADV_POPULATE_WRITE, which are as old as Linux 5.14.
static int has_all_advice(void)
{
    char *at = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return madvise(at, PAGE, MADV_POPULATE_READ) == 0 || errno != EINVAL;
}

// The argument is the seed; without one the program fails if the host cannot run it.
int main(int count, char **words)
{
    if (count < 2)
        return !has_all_advice();
    static char bytes[FILE_PAGES * PAGE];
    struct sigaction action = {.sa_sigaction = note, .sa_flags = SA_SIGINFO | SA_NODEFER};
    state = strtoul(words[1], NULL, 10);
    sigaction(SIGSEGV, &action, NULL);
    sigaction(SIGBUS, &action, NULL);
    for (int i = 0; i <= FILES; i++) {
        char name[] = {'m', (char)('0' + i), 0};
        for (size_t j = 0; j < sizeof bytes; j++)
            bytes[j] = (char)('0' + i * 5 + (int)(j / PAGE));
        files[i] = i != 1 ? open(name, O_CREAT | O_RDWR, 0644) : memfd_create(name, 0);
        if (write(files[i], bytes, i > 0 ? PAGE + 100 : sizeof bytes) < 0)
            return 1;
    }
    area = mmap(NULL, (PAGES + 8) * PAGE, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    area += 4 * PAGE;
    for (int i = 0; i < 200; i++) {
        printf("%d ", i);
        switch (any(16)) {
        case 0:
        case 1:
        case 2: map(); break;
        case 3: load(); break;
        case 4:
        case 5:
        case 6: store(); break;
        case 7: show_file(); break;
        case 8:
        case 9: write_file(); break;
        case 10: resize(); break;
        case 11: call(); break;
        case 12: show_area(); break;
        default: change();
        }
    }
    show_area();
    return 0;
}
