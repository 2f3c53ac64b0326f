// Permissions of files and the mask of the process, numbers of names, and what may be done with files.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

static void said(const char *what, int result)
{
    printf("%s %d %d\n", what, result, result < 0 ? errno : 0);
}

static void show(const char *name)
{
    struct stat found;
    struct statx more;
    if (lstat(name, &found) != 0) {
        printf("%s is not there: %d\n", name, errno);
        return;
    }
    statx(AT_FDCWD, name, AT_SYMLINK_NOFOLLOW, STATX_BASIC_STATS, &more);
    printf("%s %o %ld, %o %u\n", name, found.st_mode, (long)found.st_nlink, more.stx_mode, more.stx_nlink);
}

static void show_open(const char *what, int file)
{
    struct stat found;
    fstat(file, &found);
    printf("%s %o %ld\n", what, found.st_mode, (long)found.st_nlink);
}

int main(void)
{
    umask(022);
    printf("mask %o\n", umask(027));
    printf("mask %o\n", umask(01027));
    int file = open("one", O_RDWR | O_CREAT, 0666);
    show("one");
    close(open("two", O_WRONLY | O_CREAT | O_TRUNC, 0755));
    show("two");
    close(open("two", O_WRONLY | O_CREAT | O_TRUNC, 0600));
    show("two");
    umask(0);
    close(open("three", O_RDONLY | O_CREAT | O_EXCL, 01666));
    show("three");
    mkdir("folder", 01777);
    show("folder");
    mkdir("folder/inner", 0700);
    show("folder/inner");
    show("folder");
    umask(077);
    mkdir("closed", 0777);
    show("closed");
    mkfifo("pipe", 0666);
    show("pipe");
    mknod("node", S_IFREG | 0644, 0);
    show("node");
    symlink("one", "link");
    show("link");

    said("chmod", chmod("one", 0604));
    show("one");
    said("by a link", chmod("link", 0640));
    show("one");
    said("fchmod", fchmod(file, 0400));
    show_open("open", file);
    said("written", write(file, "text", 4));
    said("folder", chmod("folder", 0711));
    show("folder");
    int folder = open("folder", O_RDONLY | O_DIRECTORY);
    said("open folder", fchmod(folder, 0750));
    show_open("open folder", folder);
    said("in it", fchmodat(folder, "inner", 0500, 0));
    show("folder/inner");
    said("missing", chmod("missing", 0600));
    said("no file", fchmod(99, 0600));

    said("x", access("two", X_OK));
    said("no x", access("one", X_OK));
    chmod("one", 0700);
    said("x now", access("one", X_OK));
    said("folder", access("folder", R_OK | W_OK | X_OK));

    said("second name", link("one", "other"));
    show("one");
    show("other");
    chmod("other", 0444);
    show("one");
    unlink("one");
    show_open("open", file);
    unlink("other");
    show_open("open", file);
    rmdir("folder/inner");
    show("folder");
    int memory = memfd_create("memory", 0);
    show_open("memory", memory);
    fchmod(memory, 0600);
    show_open("memory", memory);
    const char *names[] = {"two", "three", "link", "pipe", "node"};
    for (int i = 0; i < 5; i++)
        unlink(names[i]);
    rmdir("folder");
    rmdir("closed");
    return 0;
}
