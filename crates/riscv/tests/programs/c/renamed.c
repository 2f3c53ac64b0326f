// Files that are open without their content: they are the same ones, whatever becomes of their names.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void write_file(const char *name, const char *text)
{
    int file = open(name, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    write(file, text, strlen(text));
    close(file);
}

static const char *link_of(int file)
{
    static char name[64];
    snprintf(name, sizeof name, "/proc/self/fd/%d", file);
    return name;
}

static void show(const char *what, int path)
{
    struct stat status, other;
    char text[32] = {0};
    int file = open(link_of(path), O_RDONLY), error = errno;
    printf("%s: %zd %s", what, file < 0 ? -error : read(file, text, sizeof text - 1), text);
    printf(", %d", fstat(path, &status));
    printf(", mode %o, %d names, %ld bytes", status.st_mode, (int)status.st_nlink, (long)status.st_size);
    if (file >= 0)
        printf(", the same %d", fstat(file, &other) == 0 && other.st_ino == status.st_ino);
    puts("");
    close(file);
}

static void text_of(const char *what, int link)
{
    struct stat status;
    char text[32] = {0};
    ssize_t length = readlinkat(link, "", text, sizeof text - 1);
    printf("%s: %zd %s, %d", what, length, text, fstat(link, &status));
    printf(", mode %o, %d names\n", status.st_mode, (int)status.st_nlink);
}

int main(void)
{
    struct stat status;
    write_file("one", "first");
    int path = open("one", O_PATH);
    show("as it was", path);
    rename("one", "two");
    show("renamed", path);
    write_file("one", "another");
    show("another has its name", path);
    printf("chmod %d, truncate %d\n", chmod(link_of(path), 0640), truncate(link_of(path), 4));
    show("changed", path);
    stat("two", &status);
    printf("it is %o, %ld bytes", status.st_mode, (long)status.st_size);
    stat("one", &status);
    printf(", and the other %o, %ld bytes\n", status.st_mode, (long)status.st_size);
    mkdir("folder", 0700);
    rename("two", "folder/three");
    rename("folder", "moved");
    show("in a folder", path);
    int again = open(link_of(path), O_PATH);
    link("moved/three", "four");
    show("two names", again);
    unlink("moved/three");
    show("one of them", again);
    write_file("five", "the fifth");
    rename("five", "four");
    show("replaced", path);
    show("again", again);
    close(path);
    show("the other is closed", again);

    symlink("somewhere", "link");
    int link = open("link", O_PATH | O_NOFOLLOW);
    text_of("link", link);
    rename("link", "other link");
    text_of("renamed", link);
    symlink("elsewhere", "link");
    text_of("another has its name", link);
    int same = open(link_of(link), O_PATH);
    unlink("other link");
    text_of("without a name", same);

    mkfifo("fifo", 0600);
    int fifo = open("fifo", O_PATH);
    rename("fifo", "other fifo");
    int reads = open("other fifo", O_RDONLY | O_NONBLOCK), writes = open(link_of(fifo), O_WRONLY | O_NONBLOCK);
    char text[8] = {0};
    printf("fifo %d %d, %zd", reads >= 0, writes >= 0, write(writes, "fifo", 4));
    printf(" %zd %s\n", read(reads, text, 7), text);
    return 0;
}
