// Calls answer names that lead out of the run's folder in the same way, whatever is there.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

static const char *name;

static void said(const char *call, long result)
{
    printf("%s(%s) %ld %d\n", call, name, result < 0 ? -1 : 0, result < 0 ? errno : 0);
}

static void opens(void)
{
    said("open", open(name, O_RDONLY));
    said("write", open(name, O_WRONLY));
    said("make", open(name, O_RDWR | O_CREAT, 0600));
    said("make to read", open(name, O_RDONLY | O_CREAT, 0600));
    said("make anew", open(name, O_WRONLY | O_CREAT | O_EXCL, 0600));
    said("empty", open(name, O_RDONLY | O_TRUNC));
    said("a folder", open(name, O_RDONLY | O_DIRECTORY));
    said("no link", open(name, O_RDONLY | O_NOFOLLOW));
    said("its path", open(name, O_PATH));
    said("the link's path", open(name, O_PATH | O_NOFOLLOW));
}

static void looks(void)
{
    struct stat status;
    struct statx more;
    struct statfs system;
    char text[256];
    said("stat", stat(name, &status));
    said("lstat", lstat(name, &status));
    said("statx", statx(AT_FDCWD, name, 0, STATX_ALL, &more));
    said("statfs", statfs(name, &system));
    said("access", access(name, F_OK));
    said("readlink", readlink(name, text, sizeof text));
    said("chdir", chdir(name));
    chdir("/rackmem");
    said("execve", execve(name, (char *[]){"x", NULL}, NULL));
}

static void changes(void)
{
    said("mkdir", mkdir(name, 0700));
    said("mkfifo", mkfifo(name, 0600));
    said("mknod", mknod(name, S_IFREG | 0600, 0));
    said("unlink", unlink(name));
    said("rmdir", rmdir(name));
    said("rename from", rename(name, "new"));
    said("rename to", rename("in", name));
    said("rename to new", syscall(SYS_renameat2, AT_FDCWD, "in", AT_FDCWD, name, 1));
    said("link from", link(name, "new"));
    said("link followed", linkat(AT_FDCWD, name, AT_FDCWD, "new", AT_SYMLINK_FOLLOW));
    said("link to", link("in", name));
    said("symlink", symlink("in", name));
    said("chmod", chmod(name, 0600));
    said("chown", chown(name, -1, -1));
    said("times", utimensat(AT_FDCWD, name, NULL, 0));
    said("truncate", truncate(name, 0));
}

static void sockets(void)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int one = socket(AF_UNIX, SOCK_STREAM, 0), other = socket(AF_UNIX, SOCK_STREAM, 0);
    strncpy(address.sun_path, name, sizeof address.sun_path - 1);
    said("bind", bind(one, (struct sockaddr *)&address, sizeof address));
    said("connect", connect(other, (struct sockaddr *)&address, sizeof address));
    close(one);
    close(other);
}

// The files of the folder as they were, whatever calls have made of them.
static void begin(void)
{
    const char *links[][2] = {
        {"..", "up"}, {"../beside", "link"}, {"link/file", "file"}, {"up/beside/../run/in", "chain"}, {"../beside/loop", "loop"},
    };
    unlink("new");
    for (size_t i = 0; i < sizeof links / sizeof *links; i++) {
        unlink(links[i][1]);
        symlink(links[i][0], links[i][1]);
    }
    close(open("in", O_WRONLY | O_CREAT, 0600));
}

int main(void)
{
    const char *places[] = {
        "../beside",          "../beside/",           "../beside/file",          "../beside/file/",
        "../beside/none",     "../beside/file/none",  "../beside/folder/.",      "../beside/folder/..",
        "../beside/folder/x", "../beside/../run/in",  "../beside/link/../in",    "../beside/link/in",
        "up/beside",          "up/beside/../run/in",  "link",                    "link/",
        "link/file",          "link/../run/in",       "file",                    "file/x",
        "chain",              "loop/folder/../x",     "/rackmem/../beside/file", "/rackmem/up/beside/../run/in",
        "/lib/../bin/../lib", "/bin/../lib/library",  "/lib/link/../lib/library", "../lib/../beside",
    };
    for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
        name = places[i];
        void (*parts[])(void) = {opens, looks, changes, sockets};
        for (size_t part = 0; part < sizeof parts / sizeof *parts; part++) {
            begin();
            parts[part]();
        }
    }
    begin();
    name = "in";
    opens();
    return 0;
}
