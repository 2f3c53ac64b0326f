// What a program learns of its machine: it has to be the model's.
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void show(const char *name)
{
    char bytes[128];
    int file = open(name, O_RDONLY);
    ssize_t count = file < 0 ? -1 : read(file, bytes, sizeof bytes - 1);
    char *end = count > 0 ? memchr(bytes, '\n', count) : NULL;
    if (end != NULL)
        *end = 0;
    printf("%s: %s\n", name, end == NULL ? "nothing" : bytes);
    close(file);
}

int main(void)
{
    printf("%ld of %ld processors, %ld MiB\n", sysconf(_SC_NPROCESSORS_ONLN),
           sysconf(_SC_NPROCESSORS_CONF), sysconf(_SC_PHYS_PAGES) / 256);
    show("/proc/cpuinfo");
    show("/proc/meminfo");
    show("/proc/self/comm");
    show("/proc/../sys/devices/system/cpu/online");
    show("/proc/sys/no_such");
    char bytes[8] = "full", zeros[8] = {0};
    int zero = open("/dev/zero", O_RDONLY), null = open("/dev/null", O_RDWR);
    int random = open("/dev/urandom", O_RDONLY), again = open("/dev/urandom", O_RDONLY);
    printf("%zd %d\n", read(zero, bytes, 8), memcmp(bytes, zeros, 8));
    printf("%zd %zd\n", write(null, bytes, 8), read(null, bytes, 8));
    printf("%zd %d\n", read(random, bytes, 8), memcmp(bytes, zeros, 8) == 0);
    printf("%zd %d\n", read(again, zeros, 8), memcmp(bytes, zeros, 8) == 0);
    char link[64] = {0};
    printf("%zd %s\n", readlink("/proc/self/exe", link, sizeof link - 1), strrchr(link, '/'));
    return 0;
}
