// Calls that name a file by its descriptor, which may be without content: by its link below /proc/self/fd, or with an
// empty path.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { FACCESSAT2 = 439 };

static void said(const char *what, long result)
{
    printf("%s %ld %d\n", what, result < 0 ? -1 : result, result < 0 ? errno : 0);
}

static void opened(const char *what, int file)
{
    printf("%s %d %d\n", what, file >= 0, file < 0 ? errno : 0);
    if (file >= 0)
        close(file);
}

static const char *link_of(int file)
{
    static char name[64];
    snprintf(name, sizeof name, "/proc/self/fd/%d", file);
    return name;
}

static void by_link(int file)
{
    struct stat status;
    said("chmod", chmod(link_of(file), 0640));
    said("truncate", truncate(link_of(file), 3));
    said("stat", stat(link_of(file), &status));
    printf("mode %o, %d bytes\n", status.st_mode, S_ISREG(status.st_mode) ? (int)status.st_size : 0);
    said("access", access(link_of(file), R_OK));
    opened("open", open(link_of(file), O_RDONLY | O_NONBLOCK));
    opened("write", open(link_of(file), O_WRONLY | O_NONBLOCK | O_TRUNC));
    opened("make", open(link_of(file), O_RDWR | O_CREAT, 0600));
    opened("no link", open(link_of(file), O_RDONLY | O_NOFOLLOW));
    opened("its path", open(link_of(file), O_PATH));
    said("link", linkat(AT_FDCWD, link_of(file), AT_FDCWD, "new", AT_SYMLINK_FOLLOW));
    said("remove", unlink("new"));
    said("link to what is there", linkat(AT_FDCWD, link_of(file), AT_FDCWD, "other", AT_SYMLINK_FOLLOW));
    said("link of the link", linkat(AT_FDCWD, link_of(file), AT_FDCWD, "new", 0));
}

static void by_empty_path(int file)
{
    struct stat status;
    struct statx more;
    char text[64];
    said("fstatat", fstatat(file, "", &status, AT_EMPTY_PATH));
    printf("mode %o\n", status.st_mode);
    said("not followed", fstatat(file, "", &status, AT_EMPTY_PATH | AT_SYMLINK_NOFOLLOW));
    said("without the flag", fstatat(file, "", &status, 0));
    said("statx", statx(file, "", AT_EMPTY_PATH, STATX_BASIC_STATS, &more));
    printf("mode %o\n", more.stx_mode);
    said("without the flag", statx(file, "", 0, STATX_BASIC_STATS, &more));
    said("fchownat", fchownat(file, "", -1, -1, AT_EMPTY_PATH));
    said("without the flag", fchownat(file, "", -1, -1, 0));
    said("another flag", fchownat(file, "", -1, -1, 0x2));
    said("utimensat", syscall(SYS_utimensat, file, "", NULL, AT_EMPTY_PATH));
    said("without the flag", syscall(SYS_utimensat, file, "", NULL, 0));
    said("without a path", syscall(SYS_utimensat, file, NULL, NULL, 0));
    said("with the flag", syscall(SYS_utimensat, file, NULL, NULL, AT_EMPTY_PATH));
    said("faccessat", syscall(FACCESSAT2, file, "", R_OK, AT_EMPTY_PATH));
    said("without the flag", syscall(FACCESSAT2, file, "", R_OK, 0));
    said("another flag", syscall(FACCESSAT2, file, "", R_OK, 0x2));
    said("readlinkat", readlinkat(file, "", text, sizeof text));
    said("without the flag", linkat(file, "", AT_FDCWD, "new", 0));
}

int main(void)
{
    setvbuf(stdout, NULL, _IOLBF, 0);
    int ends[2], gone, made;
    close(open("file", O_WRONLY | O_CREAT, 0600));
    close(open("other", O_WRONLY | O_CREAT, 0600));
    symlink("file", "link");
    mkdir("folder", 0700);
    mkfifo("fifo", 0600);
    pipe(ends);
    close(open("gone", O_WRONLY | O_CREAT, 0600));
    gone = open("gone", O_PATH);
    made = open("gone", O_RDWR);
    unlink("gone");
    const struct {
        const char *name;
        int file;
    } all[] = {
        {"path of a file", open("file", O_PATH)},
        {"read file", open("file", O_RDONLY)},
        {"written file", open("file", O_RDWR)},
        {"path of a link", open("link", O_PATH | O_NOFOLLOW)},
        {"path behind a link", open("link", O_PATH)},
        {"path of a folder", open("folder", O_PATH | O_DIRECTORY)},
        {"folder", open("folder", O_RDONLY)},
        {"path without a name", gone},
        {"file without a name", made},
        {"memory", memfd_create("memory", 0)},
        {"pipe", ends[0]},
        {"none", 99},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        printf("%s\n", all[i].name);
        by_link(all[i].file);
        by_empty_path(all[i].file);
    }
    // Only a link of what has a name is made; without privileges some kernels refuse that, too.
    for (int i = 0; i < 5; i++) {
        int result = linkat(all[i].file, "", AT_FDCWD, "new", AT_EMPTY_PATH);
        printf("link %d: %d\n", i, result == 0 || errno == ENOENT);
        unlink("new");
    }
    struct stat status;
    int fifo = open("fifo", O_PATH);
    puts("path of a pipe");
    said("chmod", chmod(link_of(fifo), 0640));
    said("stat", fstatat(fifo, "", &status, AT_EMPTY_PATH));
    printf("mode %o\n", status.st_mode);
    opened("open", open(link_of(fifo), O_RDONLY | O_NONBLOCK));
    opened("to write", open(link_of(fifo), O_WRONLY | O_NONBLOCK));
    puts("current folder");
    said("fstatat", fstatat(AT_FDCWD, "", &status, AT_EMPTY_PATH));
    said("fchownat", fchownat(AT_FDCWD, "", -1, -1, AT_EMPTY_PATH));
    said("utimensat", syscall(SYS_utimensat, AT_FDCWD, "", NULL, AT_EMPTY_PATH));
    said("without a path", syscall(SYS_utimensat, AT_FDCWD, NULL, NULL, 0));
    // A mapping shows what a link of its descriptor cuts off.
    int file = open("file", O_RDWR), path = open("file", O_PATH);
    truncate(link_of(file), 6);
    char *shared = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    shared[0] = shared[5] = 'x';
    said("truncate", truncate(link_of(path), 2));
    said("and longer", truncate(link_of(file), 6));
    printf("%d %d\n", shared[0], shared[5]);
    return 0;
}
