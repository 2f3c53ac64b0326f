// Shared mappings of files: what is written by a call and what is stored is one content.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <unistd.h>

enum { PAGE = 4096 };

static void show(const char *what, const char *text, size_t length)
{
    printf("%s: %.*s\n", what, (int)length, text);
}

static int fails(const void *result, int error)
{
    return result == MAP_FAILED && errno == error;
}

static void errors(int file, char *map)
{
    int reader = open("file", O_RDONLY), writer = open("file", O_WRONLY);
    printf("errors:");
    printf(" %d", fails(mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, reader, 0), EACCES));
    printf(" %d", fails(mmap(NULL, PAGE, PROT_READ, MAP_PRIVATE, writer, 0), EACCES));
    printf(" %d", fails(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, file, 100), EINVAL));
    printf(" %d", fails(mmap(NULL, PAGE, PROT_READ, MAP_SHARED, 99, 0), EBADF));
    printf(" %d", fails(mmap(NULL, PAGE, PROT_READ, 0, file, 0), EINVAL));
    printf(" %d", fails(mmap(NULL, 0, PROT_READ, MAP_SHARED, file, 0), EINVAL));
    printf(" %d", msync(map + 1, PAGE, MS_SYNC) < 0 && errno == EINVAL);
    printf(" %d", msync(map, PAGE, MS_SYNC | MS_ASYNC) < 0 && errno == EINVAL);
    printf(" %d", msync((void *)0x1000, PAGE, MS_SYNC) < 0 && errno == ENOMEM);
    char *shown = mmap(NULL, PAGE, PROT_READ, MAP_SHARED, reader, 4 * PAGE);
    printf(" %d\n", mprotect(shown, PAGE, PROT_READ | PROT_WRITE) < 0 && errno == EACCES);
    munmap(shown, PAGE);
    close(reader);
    close(writer);
}

int main(int argc, char **argv)
{
    char text[64] = {0};
    int file = open("file", O_RDWR | O_CREAT | O_TRUNC, 0644);
    if (ftruncate(file, 3 * PAGE + 100) < 0)
        return 1;
    char *map = mmap(NULL, 4 * PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    memcpy(map + PAGE - 3, "stored", 6);
    printf("read %zd\n", pread(file, text, 6, PAGE - 3));
    show("by a call", text, 6);
    printf("wrote %zd\n", pwrite(file, "CALL", 4, PAGE));
    show("by loads", map + PAGE - 3, 8);
    struct iovec pieces[] = {{(void *)"one", 3}, {(void *)"two", 3}};
    lseek(file, 2 * PAGE, SEEK_SET);
    printf("wrote %zd\n", writev(file, pieces, 2));
    show("pieces", map + 2 * PAGE, 6);

    // Another descriptor of the same file, and a private mapping of it.
    memcpy(map + 10, "fresh", 5);
    int other = open("file", O_RDONLY);
    printf("read %zd\n", pread(other, text, 5, 10));
    show("elsewhere", text, 5);
    memcpy(map + 10, "newer", 5);
    char *copy = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE, other, 0);
    show("private", copy + 10, 5);
    copy[10] = 'X';
    show("not shared", map + 10, 5);
    close(other);

    // Protection, pages that are discarded, and the end of the file.
    mprotect(map, PAGE, PROT_READ);
    if (pwrite(file, "under protection", 16, 100) < 0)
        return 1;
    show("read only", map + 100, 16);
    mprotect(map, PAGE, PROT_READ | PROT_WRITE);
    madvise(map, PAGE, MADV_DONTNEED);
    show("still there", map + 10, 5);
    if (ftruncate(file, PAGE + 2) < 0 || ftruncate(file, 4 * PAGE) < 0)
        return 1;
    printf("cut: %d %d %d\n", map[PAGE + 1], map[PAGE + 2], map[2 * PAGE]);
    errors(file, map);

    // A mapping writes at its offset, even if the file was opened to append.
    int appends = open("appended", O_RDWR | O_CREAT | O_APPEND, 0600);
    if (write(appends, "0123456789", 10) != 10)
        return 1;
    char *log = mmap(NULL, PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, appends, 0);
    log[0] = 'X';
    munmap(log, PAGE);
    if (write(appends, "end", 3) != 3)
        return 1;
    printf("read %zd\n", pread(appends, text, sizeof text, 0));
    show("appended", text, 13);
    close(appends);
    unlink("appended");

    // It lasts without the descriptor, grows and moves.
    close(file);
    strcpy(map + 3 * PAGE, "last page");
    msync(map, 4 * PAGE, MS_SYNC);
    map = mremap(map, 4 * PAGE, 5 * PAGE, MREMAP_MAYMOVE);
    show("moved", map + 3 * PAGE, 9);
    strcpy(map + 2 * PAGE, "after the move");
    munmap(map + PAGE, PAGE);
    strcpy(map + 20, "unmapped is written");
    munmap(map, PAGE);
    file = open("file", O_RDWR);
    printf("read %zd\n", pread(file, text, 19, 20));
    show("in the file", text, 19);
    printf("read %zd\n", pread(file, text, 14, 2 * PAGE));
    show("in the file", text, 14);
    // The second part of the mapping is still there when the program ends.
    strcpy(map + 3 * PAGE, "at the end");
    const char *how = argc > 1 ? argv[1] : "exit";
    if (strcmp(how, "signal") == 0)
        raise(SIGTERM);
    if (strcmp(how, "crash") == 0)
        *(volatile char *)8 = 1;
    if (strcmp(how, "timer") == 0) {
        alarm(1);
        pause();
    }
    return 0;
}
