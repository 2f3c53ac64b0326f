// Files without names, names that change places, and names of open files below /proc.
#define _GNU_SOURCE
#include "show.h"
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { NOREPLACE = 1, EXCHANGE = 2 };

static char link_name[64];

static const char *of(int file)
{
    snprintf(link_name, sizeof link_name, "/proc/self/fd/%d", file);
    return link_name;
}

static void show_link(const char *what, int file)
{
    char text[4096] = "";
    long length = readlink(of(file), text, sizeof text - 1);
    printf("%s: %s\n", what, length < 0 ? "none" : strrchr(text, '/') + 1);
}

static long links(int file)
{
    struct stat status;
    return fstat(file, &status) < 0 ? -1 : (long)status.st_nlink;
}

static int is_same(int file, const char *name)
{
    struct stat one, other;
    return fstat(file, &one) == 0 && stat(name, &other) == 0 && one.st_ino == other.st_ino;
}

static void nameless(void)
{
    int file = open(".", O_TMPFILE | O_RDWR, 0640), other;
    SHOW(links(file));
    SHOW(write(file, "text", 4));
    SHOW(linkat(AT_FDCWD, of(file), AT_FDCWD, "named", AT_SYMLINK_FOLLOW));
    SHOW(links(file));
    SHOW(is_same(file, "named"));
    SHOW(open("named", O_TMPFILE | O_RDWR, 0600));
    SHOW(open("nothing", O_TMPFILE | O_RDWR, 0600));
    SHOW(open(".", O_TMPFILE | O_RDONLY, 0600));
    SHOW(open(".", O_TMPFILE | O_RDWR | O_CREAT, 0600));
    other = open(".", O_TMPFILE | O_WRONLY | O_EXCL, 0600);
    SHOW(linkat(AT_FDCWD, of(other), AT_FDCWD, "other", AT_SYMLINK_FOLLOW));
    SHOW(read(other, link_name, 1));
    close(other);
    symlink(".", "way");
    SHOW(open("way", O_TMPFILE | O_WRONLY | O_NOFOLLOW, 0600));
    unlink("way");
    close(file);
    SHOW(unlink("named"));
}

static void exchanged(void)
{
    mkdir("folder", 0700);
    close(open("folder/in", O_CREAT | O_RDWR, 0600));
    close(open("file", O_CREAT | O_RDWR, 0600));
    int folder = open("folder", O_RDONLY | O_DIRECTORY);
    SHOW(syscall(SYS_renameat2, AT_FDCWD, "folder", AT_FDCWD, "file", EXCHANGE));
    SHOW(access("file/in", F_OK));
    SHOW(faccessat(folder, "in", F_OK, 0));
    SHOW(syscall(SYS_renameat2, AT_FDCWD, "file", AT_FDCWD, "file/in", EXCHANGE));
    SHOW(syscall(SYS_renameat2, AT_FDCWD, "file", AT_FDCWD, "nothing", EXCHANGE));
    SHOW(syscall(SYS_renameat2, AT_FDCWD, "folder/", AT_FDCWD, "file", EXCHANGE));
    SHOW(syscall(SYS_renameat2, AT_FDCWD, "folder", AT_FDCWD, "file/", EXCHANGE));
    SHOW(syscall(SYS_renameat2, AT_FDCWD, "folder", AT_FDCWD, ".", EXCHANGE));
    SHOW(syscall(SYS_renameat2, AT_FDCWD, "folder", AT_FDCWD, "file", EXCHANGE | NOREPLACE));
    SHOW(syscall(SYS_renameat2, AT_FDCWD, "folder", AT_FDCWD, "file", 8));
    SHOW(syscall(SYS_renameat2, AT_FDCWD, "folder", AT_FDCWD, "file", NOREPLACE));
    SHOW(syscall(SYS_renameat2, AT_FDCWD, "folder", AT_FDCWD, "folder", EXCHANGE));
    close(folder);
}

static void named(void)
{
    int file = open("one", O_CREAT | O_RDWR, 0600), folder;
    show_link("at first", file);
    SHOW(unlink(of(file)));
    SHOW(rename(of(file), "two"));
    SHOW(rename("one", of(file)));
    SHOW(rename(of(file), of(file)));
    SHOW(rmdir(of(file)));
    SHOW(mkdir(of(file), 0700));
    SHOW(symlink("one", of(file)));
    SHOW(link("one", of(file)));
    SHOW(unlink("/proc/self/fd/77"));
    SHOW(rmdir("/proc/self/fd"));
    rename("one", "two");
    show_link("renamed", file);
    link("two", "three");
    unlink("two");
    show_link("removed", file);
    int again = open(of(file), O_RDONLY);
    show_link("opened again", again);
    unlink("three");
    symlink("file", "way");
    file = open("way/in", O_RDWR);
    rename("file", "moved");
    show_link("by a link", file);
    folder = open("moved", O_RDONLY | O_DIRECTORY);
    show_link("folder", folder);
    unlink("moved/in");
    rmdir("moved");
    show_link("removed", folder);
    show_link("in it", file);
}

// A link that is moved takes the folder that it leads to nowhere.
static void moved_link(void)
{
    mkdir("d1", 0700);
    mkdir("x", 0700);
    mkdir("x/d1", 0700);
    symlink("d1", "l");
    close(open("x/f", O_CREAT | O_RDWR, 0600));
    close(open("d1/mark", O_CREAT | O_RDWR, 0600));
    SHOW(chdir("d1"));
    SHOW(renameat2(AT_FDCWD, "../l", AT_FDCWD, "../x/f", EXCHANGE));
    SHOW(access("mark", F_OK));
    SHOW(rename("../x/f", "../x/g"));
    SHOW(access("mark", F_OK));
    SHOW(chdir(".."));
    SHOW(renameat2(AT_FDCWD, "d1", AT_FDCWD, "x/d1", EXCHANGE));
    SHOW(access("x/d1/mark", F_OK));
}

int main(void)
{
    nameless();
    exchanged();
    named();
    moved_link();
    return 0;
}
