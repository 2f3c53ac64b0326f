/* Calls with names whose last part is `.` or `..`, or has slashes behind it. Prints what each says. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static const char *const bases[] = {"empty", "full", "file", "link", "lost", "none", ".", ".."};
static const char *const ends[] = {"", "/", "//", "/.", "/./", "/..", "/..//", "/none/", "/none/."};

static int opened(const char *name, int flags)
{
    int file = open(name, flags, 0644);
    if (file >= 0)
        close(file);
    return file < 0 ? -1 : 0;
}

static int call(int number, const char *name)
{
    switch (number) {
    case 0:
        return rmdir(name);
    case 1:
        return unlink(name);
    case 2:
        return mkdir(name, 0755);
    case 3:
        return opened(name, O_WRONLY | O_CREAT);
    case 4:
        return opened(name, O_WRONLY | O_CREAT | O_EXCL);
    case 5:
        return opened(name, O_RDONLY | O_CREAT);
    case 6:
        return opened(name, O_RDONLY | O_CREAT | O_EXCL);
    case 7:
        return rename("moved", name);
    case 8:
        return rename(name, "new");
    case 9:
        return link("moved", name);
    default:
        return symlink("moved", name);
    }
}

/* The folder, of which nothing is open. Names go no further up than to the one above. */
static void set_up(void)
{
    mkdir("above", 0755);
    chdir("above");
    mkdir("top", 0755);
    chdir("top");
    mkdir("empty", 0755);
    mkdir("full", 0755);
    opened("full/file", O_WRONLY | O_CREAT);
    opened("file", O_WRONLY | O_CREAT);
    opened("moved", O_WRONLY | O_CREAT);
    symlink("full", "link");
    symlink("nowhere", "lost");
}

static void tear_down(void)
{
    static const char *const names[] = {
        "full/file", "new/file", "full/none", "full", "empty/none", "empty", "file",
        "moved",     "link",     "lost",      "none", "new",        "nowhere",
    };
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
        if (unlink(names[i]))
            rmdir(names[i]);
    chdir("..");
    if (unlink("none"))
        rmdir("none");
    rmdir("top");
    chdir("..");
    rmdir("above");
}

int main(void)
{
    char name[64];
    for (int number = 0; number <= 10; number++)
        for (unsigned base = 0; base < sizeof bases / sizeof *bases; base++)
            for (unsigned end = 0; end < sizeof ends / sizeof *ends; end++) {
                snprintf(name, sizeof name, "%s%s", bases[base], ends[end]);
                if (!strncmp(name, "../..", 5))
                    continue;
                set_up();
                int error = call(number, name) ? errno : 0;
                printf("%d %s: %s\n", number, name, strerror(error));
                tear_down();
            }
    return 0;
}
