// Controls of descriptors that programs rarely use, and addresses that none has.
#define _GNU_SOURCE
#include "show.h"
#include <fcntl.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

static long control(int file, int command, long argument)
{
    return syscall(SYS_fcntl, file, command, argument);
}

static void signals(void)
{
    int ends[2], event = eventfd(0, 0), on = 1, off = 0;
    pipe(ends);
    SHOW(ioctl(ends[0], FIOASYNC, &on));
    SHOW(control(ends[0], F_GETFL, 0) & O_ASYNC);
    SHOW(ioctl(ends[0], FIOASYNC, &off));
    SHOW(control(ends[0], F_GETFL, 0) & O_ASYNC);
    SHOW(ioctl(event, FIOASYNC, &off));
    SHOW(ioctl(event, FIOASYNC, &on));
    SHOW(ioctl(ends[0], FIOASYNC, NULL));
    SHOW(control(ends[1], F_GETOWN, 0));
    SHOW(control(ends[1], F_SETOWN, 0));
    SHOW(control(ends[1], F_GETSIG, 0));
    SHOW(control(ends[1], F_SETSIG, 0));
    SHOW(control(99, F_GETSIG, 0));
}

static void closed(void)
{
    int file = open("/dev/null", O_RDWR);
    SHOW(dup2(file, 40));
    SHOW(dup2(file, 41));
    SHOW(syscall(SYS_close_range, 40, 40, 2));
    SHOW(fcntl(40, F_GETFD));
    SHOW(syscall(SYS_close_range, 41, 41, 2 | 4));
    SHOW(fcntl(41, F_GETFD));
    SHOW(syscall(SYS_close_range, 41, 41, 8));
}

static void nodes(void)
{
    struct stat found;
    SHOW(mknod("socket", S_IFSOCK | 0640, 0));
    SHOW(stat("socket", &found));
    printf("%o\n", found.st_mode);
    SHOW(mknod("socket", S_IFSOCK | 0640, 0));
    SHOW(open("socket", O_RDONLY));
    SHOW(unlink("socket"));
}

static void addresses(void)
{
    char *none = (char *)-4096L;
    int file = open("/dev/null", O_RDWR);
    SHOW(read(file, none, 1));
    SHOW(write(file, none, 1));
    SHOW(truncate("/", 0));
}

int main(void)
{
    signals();
    closed();
    nodes();
    addresses();
    return 0;
}
