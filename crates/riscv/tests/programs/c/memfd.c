// Files in memory that are opened again by their links below /proc/self/fd: one content, and each descriptor has a place
// and flags of its own.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static void said(const char *what, long result)
{
    printf("%s %ld %d\n", what, result < 0 ? -1 : result, result < 0 ? errno : 0);
}

static int again(int file, int flags)
{
    char name[64];
    snprintf(name, sizeof name, "/proc/self/fd/%d", file);
    return open(name, flags, 0600);
}

static void shows(const char *what, int file)
{
    char bytes[32] = {0};
    ssize_t count = read(file, bytes, 5);
    printf("%s: %zd %s, at %ld, %ld in all\n", what, count, bytes, (long)lseek(file, 0, SEEK_CUR), (long)lseek(file, 0, SEEK_END));
}

int main(void)
{
    struct stat one, two;
    int file = memfd_create("memory", 0);
    said("write", write(file, "hello world", 11));
    int reads = again(file, O_RDONLY), writes = again(file, O_WRONLY), copy = dup(file);
    said("place", lseek(reads, 0, SEEK_CUR));
    shows("from the begin", reads);
    said("place of before", lseek(file, 0, SEEK_CUR));
    lseek(copy, 3, SEEK_SET);
    said("place of a copy", lseek(file, 0, SEEK_CUR));
    said("read only", write(reads, "x", 1));
    said("write only", read(writes, &one, 1));
    said("into it", write(writes, "HELLO", 5));
    lseek(reads, 0, SEEK_SET);
    shows("written", reads);
    int appends = again(file, O_RDWR | O_APPEND);
    said("append", write(appends, "!", 1));
    said("its place", lseek(appends, 0, SEEK_CUR));
    said("flags", fcntl(appends, F_GETFL) & (O_ACCMODE | O_APPEND));
    said("other flags", fcntl(file, F_GETFL) & (O_ACCMODE | O_APPEND));
    fstat(file, &one);
    fstat(appends, &two);
    printf("the same %d, %ld bytes, %d names\n", one.st_ino == two.st_ino, (long)two.st_size, (int)two.st_nlink);
    said("chmod", fchmod(reads, 0400));
    fstat(writes, &two);
    printf("mode %o\n", two.st_mode);
    said("chmod", fchmod(file, 0600));

    char *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    shared[0] = 'J';
    lseek(reads, 0, SEEK_SET);
    shows("by a mapping", reads);
    pwrite(writes, "Y", 1, 0);
    printf("%c\n", shared[0]);

    int path = again(file, O_PATH);
    said("without content", read(path, &one, 1));
    said("its status", fstat(path, &two));
    printf("the same %d\n", one.st_ino == two.st_ino);
    said("truncate", ftruncate(writes, 5));
    lseek(file, 0, SEEK_SET);
    shows("shorter", file);
    close(file);
    close(copy);
    lseek(reads, 0, SEEK_SET);
    shows("the first is closed", reads);
    int third = again(path, O_RDWR);
    shows("by its path", third);
    close(again(reads, O_RDWR | O_TRUNC));
    fstat(third, &two);
    printf("emptied %ld\n", (long)two.st_size);
    said("no folder", again(reads, O_RDONLY | O_DIRECTORY) < 0 ? -1 : 0);
    said("exclusive", again(reads, O_RDWR | O_CREAT | O_EXCL) < 0 ? -1 : 0);
    return 0;
}
