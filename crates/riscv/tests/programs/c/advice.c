// Advice on the use of files, room in files, and calls on pieces of memory with flags.
#define _GNU_SOURCE
#include "show.h"
#include <fcntl.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

static int file, ends[2], waiter, event;

static long left(void)
{
    int bytes = -1;
    return ioctl(file, FIONREAD, &bytes) < 0 ? -1 : bytes;
}

static void advice(void)
{
    SHOW(fsync(file));
    SHOW(fsync(ends[0]));
    SHOW(fdatasync(event));
    SHOW(posix_fadvise(file, 0, 100, 9));
    SHOW(posix_fadvise(ends[0], 0, 100, 0));
    SHOW(readahead(file, 0, 100));
    SHOW(readahead(ends[0], 0, 100));
    SHOW(sync_file_range(file, 0, 100, 8));
    SHOW(sync_file_range(ends[0], 0, 100, 0));
    SHOW(left());
    SHOW(lseek(file, 10, SEEK_SET));
    SHOW(left());
}

static long size(void)
{
    struct stat status;
    return fstat(file, &status) < 0 ? -1 : status.st_size;
}

// Changes of a file of which a page is mapped and has been stored to, and that writes append to.
static void stored(void)
{
    int appended = open("appended", O_RDWR | O_CREAT | O_TRUNC | O_APPEND, 0600);
    char block[4096], *page = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, appended, 0);
    memset(block, 'a', sizeof block);
    SHOW(write(appended, block, sizeof block));
    page[0] = 'x';
    SHOW(fallocate(appended, FALLOC_FL_KEEP_SIZE, 0, 4096));
    SHOW(pread(appended, block, 1, 0));
    printf("%d %d\n", page[0], block[0]);
    SHOW(fallocate(appended, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 100, 50));
    SHOW(pread(appended, block, sizeof block, 0));
    printf("%d %d %d %d\n", page[99], page[100], block[149], block[150]);
    SHOW(ftruncate(appended, 10));
    SHOW(ftruncate(appended, 4096));
    SHOW(pread(appended, block, sizeof block, 0));
    printf("%d %d %d %d\n", page[9], page[10], block[0], block[4095]);
}

// Zeros in a file in memory take no room.
static void sparse(void)
{
    int memory = memfd_create("sparse", 0);
    char bytes[3] = "abc";
    SHOW(ftruncate(memory, 1L << 40));
    SHOW(pwrite(memory, bytes, 3, 4095));
    SHOW(pwrite(memory, bytes, 3, (1L << 40) - 3));
    SHOW(fallocate(memory, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 4096, (1L << 40) - 4097));
    SHOW(pread(memory, bytes, 3, 4095));
    printf("%d %d %d\n", bytes[0], bytes[1], bytes[2]);
    SHOW(pread(memory, bytes, 3, (1L << 40) - 3));
    printf("%d %d %d\n", bytes[0], bytes[1], bytes[2]);
}

static void room(void)
{
    char *page = mmap(NULL, 4096, PROT_READ, MAP_SHARED, file, 0);
    SHOW(fallocate(file, FALLOC_FL_KEEP_SIZE, 0, 100000));
    SHOW(size());
    SHOW(fallocate(file, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE, 2, 3));
    printf("%c%c%d%d%d%c\n", page[0], page[1], page[2], page[3], page[4], page[5]);
    SHOW(fallocate(file, FALLOC_FL_PUNCH_HOLE, 2, 3));
    SHOW(fallocate(file, 0, 0, 5000));
    SHOW(size());
    SHOW(fallocate(file, 0, -1, 5000));
    SHOW(fallocate(file, 0, 1, 0));
    SHOW(fallocate(ends[1], 0, 0, 5000));
    SHOW(fallocate(file, 0x1000, 0, 5000));
    SHOW(lseek(file, 20, SEEK_DATA));
    SHOW(lseek(file, 5000, SEEK_DATA));
    SHOW(lseek(file, 5000, SEEK_HOLE));
}

static void orders(void)
{
    char bytes[8];
    SHOW(pread(99, bytes, 8, -1));
    SHOW(pread(99, bytes, 8, 0));
    SHOW(pwrite(ends[0], bytes, 8, 0));
    SHOW(pwrite(ends[0], bytes, 0, 0));
    SHOW(read(event, bytes, 0));
    SHOW(write(event, bytes, 7));
    SHOW(read(waiter, bytes, 0));
    SHOW(write(waiter, bytes, 1));
    SHOW(readlink("file", bytes, 0));
    SHOW(open("other", O_CREAT | O_DIRECTORY, 0600));
    SHOW(access("other", F_OK));
}

// Unlike the other calls, QEMU has none of these.
static void flags(void)
{
    char one[4] = "abc", other[4] = "def";
    struct iovec pieces[2] = {{one, 3}, {other, 3}}, empty = {one, 0};
    SHOW(lseek(file, 1, SEEK_SET));
    SHOW(pwritev2(file, pieces, 2, 10, 0));
    SHOW(pwritev2(file, pieces, 2, -1, RWF_DSYNC));
    SHOW(pwritev2(file, pieces, 2, 0, RWF_APPEND));
    SHOW(size());
    SHOW(lseek(file, 0, SEEK_CUR));
    SHOW(pwritev2(file, pieces, 2, -1, RWF_APPEND | RWF_SYNC));
    SHOW(lseek(file, 0, SEEK_CUR));
    SHOW(preadv2(file, pieces, 2, 5, RWF_HIPRI));
    printf("%s%s\n", one, other);
    SHOW(preadv2(file, pieces, 2, -1, RWF_NOWAIT));
    SHOW(preadv2(file, pieces, 2, -2, 0));
    SHOW(preadv2(file, pieces, 2, 0, 0x10000));
    SHOW(preadv2(file, &empty, 1, 0, 0x10000));
    SHOW(preadv2(ends[0], pieces, 2, 0, 0));
    SHOW(preadv2(ends[0], pieces, 2, -1, RWF_NOWAIT));
    SHOW(pwritev2(ends[1], pieces, 2, -1, 0));
    SHOW(preadv2(ends[0], pieces, 2, -1, RWF_NOWAIT));
    SHOW(preadv2(99, NULL, 2, -1, 0));
    SHOW(fcntl(file, F_GETFL) & (O_APPEND | O_NONBLOCK));
}

static void populate(void)
{
    char *pages = mmap(NULL, 4 * 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    mprotect(pages + 4096, 4096, PROT_NONE);
    mprotect(pages + 2 * 4096, 4096, PROT_READ);
    munmap(pages + 3 * 4096, 4096);
    for (int advice = 22; advice <= 23; advice++)
        for (int page = 0; page < 4; page++)
            SHOW(madvise(pages + page * 4096, 4096, advice));
    SHOW(madvise(pages + 2 * 4096, 2 * 4096, 22));
}

int main(int count, char **arguments)
{
    file = open("file", O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (pipe(ends) < 0 || write(file, "0123456789", 10) != 10)
        return 1;
    waiter = epoll_create1(0);
    event = eventfd(0, EFD_NONBLOCK);
    if (count > 1 && strcmp(arguments[1], "flags") == 0) {
        flags();
        populate();
        return 0;
    }
    lseek(file, 0, SEEK_SET);
    advice();
    room();
    stored();
    sparse();
    orders();
    return 0;
}
