// Writing to pipes: a writer that waits writes all, and pieces that are short together are written at once.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#define MUCH (3 << 20)
#define HELD (1 << 16)

static unsigned char bytes[MUCH], got[MUCH];

// Reads to the end; returns how many bytes are what was written.
static void *read_all(void *end)
{
    size_t count = 0;
    ssize_t step;
    while (count < MUCH && (step = read(*(int *)end, got + count, MUCH - count)) > 0)
        count += (size_t)step;
    return (void *)(memcmp(bytes, got, count) == 0 ? count : 0);
}

static void write_whole(const char *name, const struct iovec *pieces, int count)
{
    int ends[2];
    pthread_t reader;
    void *right;
    pipe(ends);
    pthread_create(&reader, NULL, read_all, &ends[0]);
    ssize_t written = writev(ends[1], pieces, count);
    close(ends[1]);
    pthread_join(reader, &right);
    printf("%s: %zd written, %zu right\n", name, written, (size_t)right);
    close(ends[0]);
}

static void write_short(void)
{
    int ends[2];
    pipe2(ends, O_NONBLOCK);
    printf("filled: %zd\n", write(ends[1], bytes, HELD - 1000));
    struct iovec long_ones[] = {{bytes, 800}, {bytes + 800, 800}};
    ssize_t written = writev(ends[1], long_ones, 2);
    printf("more than there is room for: %zd %s\n", written, strerror(errno));
    struct iovec short_ones[] = {{bytes, 500}, {bytes + 500, 400}};
    printf("less: %zd\n", writev(ends[1], short_ones, 2));
    printf("nothing: %zd\n", writev(ends[1], short_ones, 0));
}

int main(void)
{
    for (size_t i = 0; i < MUCH; i++)
        bytes[i] = (unsigned char)(i % 251);
    struct iovec one = {bytes, MUCH};
    write_whole("one piece", &one, 1);
    struct iovec three[] = {{bytes, 40000}, {bytes + 40000, 40000}, {bytes + 80000, MUCH - 80000}};
    write_whole("three pieces", three, 3);
    write_short();
}
