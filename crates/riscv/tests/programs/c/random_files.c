// Random calls on a few names and descriptors; what each gives is printed. The argument is the seed.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sendfile.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#define COUNT(array) (sizeof array / sizeof array[0])

static const char *const NAMES[] = {"a", "b", "c", "d", "d/a", "d/b", "d/e", "d/e/a", "l", "m", "./a", "d/../b",
                                    "a/", "d/", "l/", "d/.", "a/b", "gone/a", "", "d/e/", "d/e/..", "m/a", "."};
static const char *const TEXTS[] = {"a", "d", "b", "d/a", "l", "m", "gone", "d/e"};
static uint64_t state;
static int files[6];

static unsigned any(unsigned below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (unsigned)(state >> 33) % below;
}

static const char *name(void)
{
    return NAMES[any(any(3) ? 10 : COUNT(NAMES))];
}

static int *slot(void)
{
    return &files[any(COUNT(files))];
}

static void said(long result)
{
    printf(" = %ld %d\n", result, result < 0 ? errno : 0);
}

static void show(int result, const struct stat *found)
{
    if (result < 0) {
        said(result);
        return;
    }
    int is_folder = S_ISDIR(found->st_mode);
    printf(" = %o %ld %ld\n", found->st_mode, is_folder ? 0 : (long)found->st_size, (long)found->st_nlink);
}

// Rights to execute are those of the owner, whoever executes QEMU.
static int some_mode(void)
{
    int mode = 0600 | (int)any(0200);
    return mode & 0100 ? mode : mode & ~0011;
}

static int is_folder(int file)
{
    struct stat found;
    return fstat(file, &found) == 0 && S_ISDIR(found.st_mode);
}

static int same_file(int one, int other)
{
    struct stat a, b;
    return fstat(one, &a) == 0 && fstat(other, &b) == 0 && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

static void open_one(void)
{
    static const int FLAGS[] = {O_CREAT, O_CREAT, O_CREAT, O_EXCL, O_TRUNC, O_APPEND, O_DIRECTORY, O_NOFOLLOW};
    const char *path = name();
    int *file = slot(), flags = (int)any(3), mode = some_mode();
    for (unsigned i = any(4); i > 0; i--)
        flags |= FLAGS[any(COUNT(FLAGS))];
    if (flags & O_DIRECTORY)
        flags &= ~O_CREAT;
    printf("open %s %o %o", path, flags, mode);
    if (*file >= 0)
        close(*file);
    *file = open(path, flags, mode);
    said(*file < 0 ? -1 : 0);
}

// A file without a name, which perhaps gets one.
static void nameless(void)
{
    const char *path = any(2) ? "." : name(), *other = name();
    int *file = slot(), exclusive = any(4) ? 0 : O_EXCL, mode = some_mode();
    char link[40];
    printf("nameless %s %o %o", path, exclusive, mode);
    if (*file >= 0)
        close(*file);
    *file = open(path, O_TMPFILE | O_RDWR | exclusive, mode);
    said(*file < 0 ? -1 : 0);
    if (*file < 0 || any(2))
        return;
    snprintf(link, sizeof link, "/proc/self/fd/%d", *file);
    printf("named %s", other);
    said(linkat(AT_FDCWD, link, AT_FDCWD, other, AT_SYMLINK_FOLLOW));
}

// The last part of the name that an open file has now, or had. Of one without, it is the file system's own number.
static void named(int file)
{
    char link[40], text[4096] = "";
    snprintf(link, sizeof link, "/proc/self/fd/%d", file);
    int result = readlink(link, text, sizeof text - 1) < 0 ? -1 : 0;
    const char *last = strrchr(text, '/');
    // The first folder has a name of its own everywhere.
    int has_own = last == NULL || last[1] == '#' || is_folder(file);
    printf("name %s", has_own ? "" : last + 1);
    said(result);
}

static void transfer(void)
{
    static char bytes[5000];
    int file = *slot();
    size_t length = any(any(4) ? 40 : sizeof bytes), at = any(6000);
    unsigned kind = any(6);
    // The place in a folder may be any, and may be too large for a read.
    if (is_folder(file))
        kind = 2 + any(2);
    struct iovec pieces[3] = {{bytes, length / 3}, {bytes + 100, 0}, {bytes + 200, length / 2}};
    ssize_t result = 0;
    printf("transfer %u %zu %zu", kind, length, at);
    memset(bytes, kind % 2 ? (int)any(26) + 'a' : 0, sizeof bytes);
    switch (kind) {
    case 0: result = read(file, bytes, length); break;
    case 1: result = write(file, bytes, length); break;
    case 2: result = pread(file, bytes, length, (off_t)at); break;
    case 3: result = pwrite(file, bytes, length, (off_t)at); break;
    case 4: result = readv(file, pieces, 3); break;
    default: result = writev(file, pieces, 3); break;
    }
    unsigned sum = 0;
    for (size_t i = 0; i < sizeof bytes; i++)
        sum = sum * 31 + (unsigned char)bytes[i];
    printf(" %x", sum);
    said(result);
}

static void place(void)
{
    static const int FROM[] = {SEEK_SET, SEEK_CUR, SEEK_END, 9};
    int file = *slot();
    long at = (long)any(8000) - 2000;
    switch (any(4)) {
    case 0:
    case 1: {
        int from = FROM[any(any(8) ? 3 : 4)];
        // The places in a folder are the file system's own.
        if (is_folder(file))
            from = SEEK_SET, at = 0;
        printf("seek %d %ld", from, at);
        said(lseek(file, at, from));
        break;
    }
    case 2:
        printf("ftruncate %ld", at);
        said(ftruncate(file, at));
        break;
    default: {
        const char *path = name();
        printf("truncate %s %ld", path, at);
        said(truncate(path, at));
    }
    }
}

static void names(void)
{
    const char *path = name(), *other = name();
    if (*other == 0)
        other = "c";
    switch (any(8)) {
    case 0:
        printf("unlink %s", path);
        said(unlink(path));
        break;
    case 1:
        printf("rmdir %s", path);
        said(rmdir(path));
        break;
    case 2: {
        int mode = 0700 | (int)any(0100);
        printf("mkdir %s %o", path, mode);
        said(mkdir(path, mode));
        break;
    }
    case 3:
        printf("rename %s %s", path, other);
        said(rename(path, other));
        break;
    case 4: {
        static const unsigned FLAGS[] = {1, 2, 2, 3, 8};
        unsigned flags = FLAGS[any(COUNT(FLAGS))];
        printf("renameat2 %s %s %u", path, other, flags);
        said(syscall(SYS_renameat2, AT_FDCWD, path, AT_FDCWD, other, flags));
        break;
    }
    case 5: {
        int flags = any(2) ? AT_SYMLINK_FOLLOW : 0;
        printf("link %s %s %d", path, other, flags);
        said(linkat(AT_FDCWD, path, AT_FDCWD, other, flags));
        break;
    }
    case 6: {
        const char *text = TEXTS[any(COUNT(TEXTS))];
        printf("symlink %s %s", text, path);
        said(symlink(text, path));
        break;
    }
    default: {
        char text[8] = {0};
        size_t most = 1 + any(6);
        printf("readlink %s %zu", path, most);
        ssize_t result = readlink(path, text, most);
        printf(" %s", text);
        said(result);
    }
    }
}

static void look(void)
{
    struct stat found;
    const char *path = name();
    int file = *slot();
    switch (any(7)) {
    case 0:
        printf("stat %s", path);
        show(stat(path, &found), &found);
        break;
    case 1:
        printf("lstat %s", path);
        show(lstat(path, &found), &found);
        break;
    case 2:
        printf("fstat");
        show(fstat(file, &found), &found);
        break;
    case 3: {
        struct statx more = {0};
        int flags = (any(2) ? AT_SYMLINK_NOFOLLOW : 0) | (any(2) ? AT_EMPTY_PATH : 0);
        int folder = any(2) ? file : AT_FDCWD;
        printf("statx %d %s %d", folder == AT_FDCWD, path, flags);
        int result = statx(folder, path, flags, STATX_BASIC_STATS, &more);
        found = (struct stat){.st_mode = more.stx_mode, .st_size = (long)more.stx_size, .st_nlink = more.stx_nlink};
        show(result, &found);
        break;
    }
    case 4: {
        static const int HOW[] = {F_OK, R_OK, W_OK, X_OK, R_OK | X_OK, 8};
        int how = HOW[any(COUNT(HOW))];
        printf("access %s %d", path, how);
        said(access(path, how));
        break;
    }
    case 5: {
        struct stat open_one;
        printf("same %s", path);
        int is_same = stat(path, &found) == 0 && fstat(file, &open_one) == 0 && found.st_ino == open_one.st_ino;
        said(is_same);
        break;
    }
    default: {
        int mode = some_mode() | 0100;
        // The folder itself keeps its permissions.
        if (path[0] == '.' || path[strlen(path) - 1] == '.')
            path = "a";
        printf("chmod %s %o", path, mode);
        said(any(2) || is_folder(file) ? chmod(path, mode) : fchmod(file, mode));
    }
    }
}

static int by_name(const void *one, const void *other)
{
    return strcmp(*(char *const *)one, *(char *const *)other);
}

// All entries of a folder from where it is, in order.
static void list(int file)
{
    static char bytes[4096];
    char *found[64];
    size_t count = 0;
    long length;
    printf("list");
    while ((length = syscall(SYS_getdents64, file, bytes + 0, sizeof bytes)) > 0)
        for (long at = 0; at < length && count < COUNT(found);) {
            char *entry = bytes + at;
            unsigned short size;
            memcpy(&size, entry + 16, sizeof size);
            found[count] = malloc(300);
            snprintf(found[count++], 300, "%s:%d", entry + 19, entry[18]);
            at += size;
        }
    qsort(found, count, sizeof found[0], by_name);
    for (size_t i = 0; i < count; i++) {
        printf(" %s", found[i]);
        free(found[i]);
    }
    said(length);
}

static void descriptors(void)
{
    int *file = slot(), *other = slot(), none = -1;
    switch (any(6)) {
    case 0:
        printf("flags");
        said(fcntl(*file, F_GETFL));
        break;
    case 1:
        printf("append");
        said(fcntl(*file, F_SETFL, any(2) ? O_APPEND : 0));
        break;
    case 2:
        printf("dup");
        if (file != other && *other >= 0)
            close(*other);
        if (file != other)
            *other = dup(*file);
        said(*other < 0 ? -1 : 0);
        break;
    case 3: {
        off_t from = any(3000);
        int with = (int)any(2);
        size_t length = any(3000);
        if (same_file(*file, *other) || is_folder(*other))
            other = &none;
        printf("sendfile %d %ld %zu", with, (long)from, length);
        ssize_t result = sendfile(*file, *other, with ? &from : NULL, length);
        printf(" %ld", (long)from);
        said(result);
        break;
    }
    case 4: {
        off_t from = any(3000);
        size_t length = any(3000);
        printf("copy %ld %zu", (long)from, length);
        said(copy_file_range(*other, any(2) ? &from : NULL, *file, NULL, length, 0));
        break;
    }
    default: {
        off_t from = any(9000), length = any(5000);
        static const int MODES[] = {0, 0, 1, 2, 3, 0x10, 0x11, 0x1000};
        int mode = MODES[any(COUNT(MODES))];
        printf("fallocate %x %ld %ld", mode, (long)from, (long)length);
        said(fallocate(*file, mode, from, length));
    }
    }
}

int main(int count, char **words)
{
    state = count > 1 ? strtoul(words[1], NULL, 10) : 0;
    umask(022);
    for (unsigned i = 0; i < COUNT(files); i++)
        files[i] = -1;
    mkdir("d", 0755);
    for (int i = 0; i < 400; i++) {
        printf("%d ", i);
        switch (any(17)) {
        case 0:
        case 1:
        case 2: open_one(); break;
        case 3:
        case 4:
        case 5: transfer(); break;
        case 6:
        case 7: place(); break;
        case 8:
        case 9:
        case 10:
        case 11: names(); break;
        case 12:
        case 13: look(); break;
        case 14: descriptors(); break;
        case 15: any(2) ? nameless() : named(*slot()); break;
        default: {
            int *file = slot();
            if (any(2)) {
                list(*file);
            } else {
                int other = open(any(2) ? "d" : ".", O_RDONLY | O_DIRECTORY);
                list(other);
                close(other);
            }
        }
        }
    }
    return 0;
}
