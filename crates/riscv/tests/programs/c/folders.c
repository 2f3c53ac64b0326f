// Files and folders below the current one, by all of their calls.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static void list(const char *name)
{
    struct dirent **names;
    int count = scandir(name, &names, NULL, alphasort);
    printf("%s: %d:", name, count);
    for (int at = 0; at < count; at++)
        printf(" %s/%d", names[at]->d_name, names[at]->d_type);
    puts("");
}

static void fails(const char *what, long result)
{
    printf("%s: %ld, %s\n", what, result, result < 0 ? strerror(errno) : "fine");
}

int main(void)
{
    char bytes[32] = {0}, first[300], second[300];
    fails("mkdir", mkdir("calls", 0755));
    fails("mkdir again", mkdir("calls", 0755));
    fails("chdir", chdir("calls"));
    fails("missing", open("missing", O_RDONLY));
    int file = open("a", O_RDWR | O_CREAT | O_EXCL, 0644);
    fails("exclusive", open("a", O_RDWR | O_CREAT | O_EXCL, 0644));
    struct iovec pieces[2] = {{"hello ", 6}, {"world", 5}};
    fails("writev", writev(file, pieces, 2));
    fails("pwrite", pwrite(file, "W", 1, 6));
    fails("pread", pread(file, bytes, 5, 6));
    puts(bytes);
    fails("lseek", lseek(file, 0, SEEK_CUR));
    fails("end", lseek(file, -2, SEEK_END));
    fails("before", lseek(file, -20, SEEK_SET));
    fails("ftruncate", ftruncate(file, 8));
    fails("fsync", fsync(file));
    struct stat status, same;
    fails("stat", stat("a", &status));
    fails("fstat", fstat(file, &same));
    printf("%d bytes, regular %d, same %d\n", (int)status.st_size, S_ISREG(status.st_mode),
           status.st_ino == same.st_ino && status.st_dev == same.st_dev);
    struct statx extended;
    fails("statx", statx(AT_FDCWD, "a", 0, STATX_BASIC_STATS, &extended));
    printf("%d bytes\n", (int)extended.stx_size);
    int copy = dup(file), other = dup3(file, 20, O_CLOEXEC);
    lseek(copy, 2, SEEK_SET);
    printf("%d shares the place: %ld, %d\n", other, (long)lseek(file, 0, SEEK_CUR),
           fcntl(other, F_GETFD));
    close(copy);
    close(other);
    int append = open("a", O_WRONLY | O_APPEND);
    fails("append", write(append, "!!", 2));
    fails("no read", read(append, bytes, 1));
    close(append);
    fails("read only", write(open("a", O_RDONLY), "x", 1));
    fails("access", access("a", R_OK | W_OK));
    fails("no access", access("b", F_OK));
    fails("fchmod", fchmod(file, 0644));
    fails("fchown", fchown(file, -1, -1));
    fails("chmod", chmod("a", 0644));
    fails("no chmod", chmod("b", 0644));
    fails("no chown", lchown("b", -1, -1));
    fails("futimens", futimens(file, NULL));
    fails("no utimensat", utimensat(AT_FDCWD, "b", NULL, 0));
    fails("bad fchmod", fchmod(99, 0644));
    fails("flock", flock(file, LOCK_EX));
    struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};
    fails("lock", fcntl(file, F_SETLK, &lock));
    fails("who locks", fcntl(file, F_GETLK, &lock));
    printf("nobody: %d\n", lock.l_type == F_UNLCK);
    int root = open("/", O_RDONLY | O_DIRECTORY);
    fstat(root, &same);
    printf("/ is a folder: %d\n", S_ISDIR(same.st_mode));
    fails("fallocate", fallocate(file, 0, 0, 100));
    fails("shorter", fallocate(file, 0, 0, 10));
    fstat(file, &status);
    printf("%d bytes\n", (int)status.st_size);
    fails("rename", rename("a", "b"));
    fails("no replacement", renameat2(AT_FDCWD, "b", AT_FDCWD, "b", RENAME_NOREPLACE));
    fails("renamed", rename("a", "c"));
    mkdir("d", 0700);
    close(open("d/e", O_CREAT | O_WRONLY, 0600));
    list(".");
    list("d");
    list("b");
    int folder = open("d", O_RDONLY | O_DIRECTORY);
    fails("openat", openat(folder, "e", O_RDONLY) > 0 ? 0 : -1);
    fails("unlinkat", unlinkat(folder, "e", 0));
    fails("fchdir", fchdir(folder));
    getcwd(first, sizeof first);
    printf("%s\n", first + strlen(first) - 7);
    fails("chdir", chdir(".."));
    fails("no fchdir", fchdir(file));
    fails("a folder", open("d", O_WRONLY));
    fails("no folder", open("b/x", O_RDONLY));
    fails("no folder", open("b", O_RDONLY | O_DIRECTORY));
    fails("unlink", unlink("d"));
    fails("chdir", chdir("d"));
    getcwd(first, sizeof first);
    chdir("..");
    getcwd(second, sizeof second);
    printf("%s\n", first + strlen(second));
    fails("getcwd", getcwd(first, 3) ? 0 : -1);
    fails("rmdir", rmdir("."));
    chdir("..");
    fails("rmdir", rmdir("calls"));
    unlink("calls/b");
    rmdir("calls/d");
    fails("rmdir", rmdir("calls"));
    fails("bad descriptor", close(99));
    fails("bad address", write(1, (void *)8, 1));
    fails("pipe", lseek(0, 0, SEEK_SET) < 0 ? 0 : 0);
    return 0;
}
