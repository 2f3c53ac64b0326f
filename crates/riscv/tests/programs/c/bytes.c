// Names of files that are no UTF-8: made, listed, linked, entered, renamed, and shown by the links below /proc/self/fd.
#define _GNU_SOURCE
#include "show.h"
#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#define ODD "x\xff\xc3"
// The UTF-8 of the last character of all.
#define LAST "\xf4\x8f\xbf\xbf"

static void show_bytes(const char *what, const char *name)
{
    printf("%s:", what);
    for (; *name != 0; name++)
        printf(" %02x", *name & 0xff);
    printf("\n");
}

static void list(const char *name)
{
    DIR *folder = opendir(name);
    int odd = 0, last = 0, all = 0;
    for (struct dirent *entry; (entry = readdir(folder)) != NULL; all++) {
        odd += strcmp(entry->d_name, ODD) == 0;
        last += strcmp(entry->d_name, LAST) == 0;
    }
    closedir(folder);
    printf("%d entries, %d %d\n", all, odd, last);
}

int main(void)
{
    char text[4096] = "", path[64];
    mkdir("folder", 0700);
    SHOW(chdir("folder"));
    int file = open(ODD, O_CREAT | O_RDWR, 0600);
    SHOW(write(file, "text", 4));
    SHOW(mkdir(LAST, 0700));
    SHOW(access("x\xff", F_OK));
    SHOW(access(ODD, F_OK));
    list(".");
    SHOW(symlink(ODD "/" LAST, "link"));
    SHOW(readlink("link", text, sizeof text));
    show_bytes("link", text);
    SHOW(chdir(LAST));
    SHOW(rename("../" ODD, ODD));
    memset(text, 0, sizeof text);
    getcwd(text, sizeof text);
    show_bytes("current", strrchr(text, '/'));
    memset(text, 0, sizeof text);
    snprintf(path, sizeof path, "/proc/self/fd/%d", file);
    readlink(path, text, sizeof text);
    show_bytes("open", strrchr(text, '/'));
    struct sockaddr_un address = {AF_UNIX, "s\xfe"};
    SHOW(bind(socket(AF_UNIX, SOCK_STREAM, 0), (struct sockaddr *)&address, sizeof address));
    SHOW(unlink("s\xfe"));
    memset(text, 0x80, sizeof text);
    text[256] = 0;
    SHOW(open(text, O_CREAT | O_RDWR, 0600));
    text[255] = 0;
    SHOW(close(open(text, O_CREAT | O_RDWR, 0600)));
    SHOW(unlink(text));
    text[250] = 0;
    SHOW(memfd_create(text, 0));
    text[249] = 0;
    SHOW(close(memfd_create(text, 0)));
    SHOW(unlink(ODD));
    SHOW(rmdir("../" LAST));
    return 0;
}
