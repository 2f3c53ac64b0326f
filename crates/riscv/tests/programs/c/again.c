// Descriptors that are opened again by their links below /proc/self/fd, and files that are open without their content.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static void said(const char *what, long result)
{
    printf("%s %ld %d\n", what, result < 0 ? -1 : result, result < 0 ? errno : 0);
}

// Whether a descriptor, or an error.
static void opened(const char *what, int file)
{
    printf("%s %d %d\n", what, file >= 0, file < 0 ? errno : 0);
}

static int again(int file, int flags)
{
    char name[64];
    snprintf(name, sizeof name, "/proc/self/fd/%d", file);
    return open(name, flags, 0600);
}

static void shows(const char *what, int file)
{
    char bytes[64] = {0};
    long count = read(file, bytes, 5);
    said(what, count);
    printf("  %s, at %ld\n", bytes, (long)lseek(file, 0, SEEK_CUR));
}

static void regular(void)
{
    struct stat one, two;
    int file = open("text", O_RDWR | O_CREAT | O_TRUNC, 0600);
    said("write", write(file, "hello world", 11));
    int reads = again(file, O_RDONLY), appends = again(file, O_WRONLY | O_APPEND);
    shows("own place", reads);
    shows("old place", file);
    said("read only", write(reads, "x", 1));
    said("write only", read(appends, &one, 1));
    said("appended", write(appends, "!", 1));
    said("flags", fcntl(appends, F_GETFL) & (O_ACCMODE | O_APPEND));
    opened("a copy shares", dup(file));
    opened("exclusive", again(file, O_RDWR | O_CREAT | O_EXCL));
    opened("not exclusive", again(file, O_RDWR | O_CREAT));
    opened("no folder", again(file, O_RDONLY | O_DIRECTORY));
    opened("a link", again(file, O_RDONLY | O_NOFOLLOW));
    opened("none", again(99, O_RDONLY));
    // One that has no name any more.
    unlink("text");
    int gone = again(file, O_RDWR);
    shows("without a name", gone);
    fstat(file, &one);
    fstat(gone, &two);
    printf("the same %d, names %d, %ld bytes\n", one.st_ino == two.st_ino, (int)two.st_nlink, (long)two.st_size);
    close(again(file, O_WRONLY | O_TRUNC));
    fstat(file, &one);
    printf("emptied %ld\n", (long)one.st_size);
    file = open("readable", O_RDONLY | O_CREAT, 0600);
    int writes = again(file, O_WRONLY);
    said("written", write(writes, "text", 4));
    shows("what it has", file);
}

static int entries(int folder)
{
    DIR *list = fdopendir(folder);
    int count = 0;
    while (list != NULL && readdir(list) != NULL)
        count++;
    return count;
}

static void others(void)
{
    char bytes[16] = {0};
    int ends[2], folder = open(".", O_RDONLY | O_DIRECTORY);
    int other = again(folder, O_RDONLY);
    printf("the same entries %d\n", entries(folder) == entries(other));
    opened("folder", again(folder, O_WRONLY));
    pipe(ends);
    int writes = again(ends[0], O_WRONLY), reads = again(ends[1], O_RDONLY | O_NONBLOCK);
    said("pipe", read(reads, bytes, 1));
    close(ends[1]);
    said("into it", write(writes, "pipe", 4));
    said("wrong way", read(writes, bytes, 1));
    said("out of it", read(reads, bytes, 2));
    said("rest", read(ends[0], bytes + 2, 2));
    puts(bytes);
    close(writes);
    said("its end", read(ends[0], bytes, 1));
    opened("event", again(eventfd(0, 0), O_RDWR));
    opened("epoll", again(epoll_create1(0), O_RDWR));
    int memory = memfd_create("memory", 0);
    opened("no folder", again(memory, O_RDWR | O_DIRECTORY));
    said("closed on exec", fcntl(again(memory, O_RDWR | O_CLOEXEC), F_GETFD));
    said("not closed", fcntl(again(memory, O_RDWR), F_GETFD));
    opened("another name", open("/proc/self/fd/00", O_RDONLY));
    opened("a sign", open("/proc/self/fd/+0", O_RDONLY));
    opened("null", again(open("/dev/null", O_RDONLY), O_WRONLY));
    said("to null", write(again(open("/dev/null", O_RDONLY), O_WRONLY), "x", 1));
    int version = open("/proc/version", O_RDONLY);
    read(version, bytes, 8);
    said("made", read(again(version, O_RDONLY), bytes, 5));
    printf("%.5s\n", bytes);
}

static void without_content(void)
{
    struct stat status;
    char bytes[64] = {0};
    int path = open("readable", O_PATH | O_RDWR | O_TRUNC);
    struct pollfd polled = {.fd = path, .events = POLLIN};
    struct iovec piece = {bytes, 1};
    said("stat", fstat(path, &status));
    printf("%ld bytes, mode %o\n", (long)status.st_size, status.st_mode);
    said("flags", fcntl(path, F_GETFL) & (O_PATH | O_ACCMODE));
    said("other flags", fcntl(path, F_SETFL, O_NONBLOCK));
    said("read", read(path, bytes, 1));
    said("readv", readv(path, &piece, 1));
    said("pread", pread(path, bytes, 1, 0));
    said("write", write(path, bytes, 1));
    said("seek", lseek(path, 0, SEEK_SET));
    said("cut", ftruncate(path, 0));
    said("chmod", fchmod(path, 0600));
    said("chown", fchown(path, -1, -1));
    said("sync", fsync(path));
    said("flock", flock(path, LOCK_SH));
    said("lock", fcntl(path, F_SETLK, &(struct flock){.l_type = F_RDLCK}));
    said("ioctl", ioctl(path, FIONREAD, bytes));
    said("map", mmap(NULL, 4096, PROT_READ, MAP_PRIVATE, path, 0) == MAP_FAILED ? -1 : 0);
    said("list", getdents64(path, bytes, sizeof bytes));
    said("poll", poll(&polled, 1, 0));
    printf("%x\n", polled.revents);
    said("no folder", openat(path, "x", O_RDONLY));
    said("to enter", fchdir(path));
    said("empty path", fstatat(path, "", &status, AT_EMPTY_PATH));
    said("copy", read(dup(path), bytes, 1));
    shows("opened", again(path, O_RDONLY));
    opened("missing", open("missing", O_PATH));
    opened("not made", open("missing", O_PATH | O_CREAT, 0600));
    opened("no folder", open("readable", O_PATH | O_DIRECTORY));

    mkdir("below", 0700);
    close(open("below/file", O_WRONLY | O_CREAT, 0640));
    int folder = open("below", O_PATH | O_DIRECTORY);
    said("folder", fstat(folder, &status));
    said("list", getdents64(folder, bytes, sizeof bytes));
    said("in it", fstatat(folder, "file", &status, 0));
    printf("mode %o\n", status.st_mode);
    opened("in it", openat(folder, "file", O_RDONLY));
    opened("again", again(folder, O_RDONLY));
    said("enter", fchdir(folder));
    said("there", access("file", F_OK));
    chdir("..");

    symlink("readable", "link");
    int link = open("link", O_PATH | O_NOFOLLOW);
    said("link", fstat(link, &status));
    printf("is one %d\n", S_ISLNK(status.st_mode));
    memset(bytes, 0, sizeof bytes);
    said("its text", readlinkat(link, "", bytes, sizeof bytes));
    puts(bytes);
    opened("to follow", again(link, O_RDONLY));
    int same = again(link, O_PATH);
    unlink("link");
    said("the same link", fstat(same, &status));
    printf("is one %d\n", S_ISLNK(status.st_mode));
    said("once more", again(link, O_PATH | O_CLOEXEC) >= 0);
    symlink("readable", "link");
    said("followed", fstat(open("link", O_PATH), &status));
    printf("is one %d\n", S_ISLNK(status.st_mode));
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    regular();
    others();
    without_content();
    return 0;
}
