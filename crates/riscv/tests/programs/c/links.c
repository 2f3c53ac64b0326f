// Names of files: second ones, links, and files that are made to be read.
#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static int is_listed(const char *folder, const char *name)
{
    DIR *dir = opendir(folder);
    if (!dir)
        return -1;
    int found = 0;
    for (struct dirent *entry; (entry = readdir(dir));)
        found |= strcmp(entry->d_name, name) == 0;
    closedir(dir);
    return found;
}

int main(void)
{
    char text[256], name[64];
    struct stat status, other;
    int file = open("made", O_RDONLY | O_CREAT, 0644);
    printf("made to be read: %d, %zd bytes\n", file >= 0, read(file, text, 8));
    printf("again: %d, exclusive: %d\n", open("made", O_RDONLY | O_CREAT, 0644) >= 0,
           open("made", O_RDONLY | O_CREAT | O_EXCL, 0644) < 0 && errno == EEXIST);

    FILE *out = fopen("one", "w");
    fputs("content\n", out);
    fclose(out);
    printf("link %d", link("one", "two"));
    stat("one", &status);
    stat("two", &other);
    printf(", the same file %d\n", status.st_ino == other.st_ino);
    printf("symbolic %d", symlink("one", "three"));
    ssize_t length = readlink("three", text, sizeof text);
    printf(", %.*s\n", (int)length, text);
    lstat("three", &status);
    printf("is a link %d", S_ISLNK(status.st_mode));
    FILE *in = fopen("three", "r");
    printf(", %s", fgets(text, sizeof text, in));
    fclose(in);
    printf("dangling %d", symlink("nowhere", "four"));
    printf(", %d\n", open("four", O_RDONLY) < 0 && errno == ENOENT);
    printf("errors: %d", link("one", "two") < 0 && errno == EEXIST);
    printf(" %d", link("none", "five") < 0 && errno == ENOENT);
    printf(" %d", symlink("one", "three") < 0 && errno == EEXIST);
    printf(" %d", symlink("", "six") < 0 && errno == ENOENT);
    printf(" %d\n", linkat(AT_FDCWD, "one", AT_FDCWD, "seven", 1) < 0 && errno == EINVAL);
    unlink("one");
    in = fopen("two", "r");
    printf("still there: %s", fgets(text, sizeof text, in));

    // The machine's own folders.
    printf("listed: %d %d %d", is_listed("/dev", "null"), is_listed("/proc", "self"), is_listed("/proc/self", "maps"));
    snprintf(name, sizeof name, "%d", fileno(in));
    printf(" %d %d\n", is_listed("/proc/self/fd", name), is_listed("/proc/self/fd", "99"));
    printf("missing: %d %d\n", open("/dev/fd/99", O_RDONLY) < 0 && errno == ENOENT,
           open("/dev", O_WRONLY) < 0 && errno == EISDIR);
    snprintf(name, sizeof name, "/proc/self/fd/%d", fileno(in));
    length = readlink(name, text, sizeof text);
    char *last = length > 0 ? memrchr(text, '/', (size_t)length) : NULL;
    printf("descriptor: %.*s\n", last ? (int)(text + length - last) : 0, last ? last : "");
    printf("in /: %d, %s", chdir("/"), getcwd(text, sizeof text));
    printf(", %d", access("dev/null", R_OK));
    printf(", %d", chdir("/dev"));
    printf(", %s, %d", getcwd(text, sizeof text), access("null", R_OK));
    printf(", %d", access("../proc/cpuinfo", R_OK));
    printf(", %d\n", chdir("/dev/null") < 0 && errno == ENOTDIR);
    return 0;
}
