// Bytes that go from file to file: sendfile, copy_file_range, splice and tee.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/sendfile.h>
#include <unistd.h>

static char text[3000];

static int file(const char *name, size_t length)
{
    int file = open(name, O_RDWR | O_CREAT | O_TRUNC, 0600);
    if (write(file, text, length) != (ssize_t)length)
        printf("not written\n");
    lseek(file, 0, SEEK_SET);
    return file;
}

// Whether a file has these bytes of the text at a place.
static int has(int file, off_t at, size_t from, size_t length)
{
    char bytes[sizeof text];
    return pread(file, bytes, length, at) == (ssize_t)length && memcmp(bytes, text + from, length) == 0;
}

static void *drain(void *end)
{
    char bytes[5000];
    size_t total = 0;
    for (ssize_t length; (length = read(*(int *)end, bytes, sizeof bytes)) > 0;)
        total += (size_t)length;
    printf("drained %zu\n", total);
    return NULL;
}

static void send(void)
{
    int from = file("from", sizeof text), to = file("to", 0), ends[2];
    off_t place = 1000;
    printf("sendfile %zd", sendfile(to, from, NULL, 100));
    printf(", at %d and %d, %d\n", (int)lseek(from, 0, SEEK_CUR), (int)lseek(to, 0, SEEK_CUR), has(to, 0, 0, 100));
    printf("from a place %zd", sendfile(to, from, &place, 5000));
    printf(", %d, at %d, %d\n", (int)place, (int)lseek(from, 0, SEEK_CUR), has(to, 100, 1000, 2000));
    printf("at the end %zd, of nothing %zd\n", sendfile(to, from, &place, 10), sendfile(to, from, NULL, 0));
    if (pipe2(ends, O_NONBLOCK) < 0)
        return;
    printf("into a pipe %zd", sendfile(ends[1], from, NULL, 500));
    char bytes[600];
    printf(", %d\n", read(ends[0], bytes, sizeof bytes) == 500 && memcmp(bytes, text + 100, 500) == 0);
    printf("errors:");
    place = 0;
    printf(" %d", sendfile(77, from, NULL, 1) < 0 && errno == EBADF);
    printf(" %d", sendfile(to, 77, NULL, 1) < 0 && errno == EBADF);
    printf(" %d", sendfile(ends[0], from, NULL, 1) < 0 && errno == EBADF);
    printf(" %d", sendfile(to, ends[1], NULL, 1) < 0 && errno == EBADF);
    printf(" %d", sendfile(to, ends[0], NULL, 1) < 0 && errno == EINVAL);
    printf(" %d", sendfile(to, ends[0], &place, 1) < 0 && errno == ESPIPE);
    place = -1;
    printf(" %d", sendfile(to, from, &place, 1) < 0 && errno == EINVAL);
    printf(" %d", sendfile(to, from, (off_t *)8, 1) < 0 && errno == EFAULT);
    int appended = open("to", O_WRONLY | O_APPEND), event = eventfd(0, EFD_NONBLOCK);
    printf(" %d", sendfile(appended, from, NULL, 1) < 0 && errno == EINVAL);
    printf(" %d", sendfile(event, from, NULL, 8) < 0 && errno == EINVAL);
    int null = open("/dev/null", O_RDWR);
    printf(" %d %zd", sendfile(to, null, NULL, 8) < 0 && errno == EINVAL, sendfile(null, from, NULL, 8));
    close(ends[0]);
    signal(SIGPIPE, SIG_IGN);
    lseek(from, 0, SEEK_SET);
    printf(" %d\n", sendfile(ends[1], from, NULL, 1) < 0 && errno == EPIPE);
    close(ends[1]), close(from), close(to), close(appended), close(event), close(null);
}

// More than a pipe holds: the writer waits.
static void send_much(void)
{
    int from = file("from", 0), ends[2];
    for (int i = 0; i < 100; i++)
        write(from, text, sizeof text);
    lseek(from, 0, SEEK_SET);
    if (pipe(ends) < 0)
        return;
    pthread_t thread;
    pthread_create(&thread, NULL, drain, &ends[0]);
    size_t total = 0;
    for (ssize_t length; (length = sendfile(ends[1], from, NULL, 1 << 20)) > 0;)
        total += (size_t)length;
    close(ends[1]);
    pthread_join(thread, NULL);
    printf("sent %zu\n", total);
    close(ends[0]), close(from);
}

static void copy(void)
{
    int from = file("from", sizeof text), to = file("to", 0), ends[2];
    off_t in = 500, out = 4000;
    printf("copy %zd", copy_file_range(from, NULL, to, NULL, 200, 0));
    printf(", at %d and %d, %d\n", (int)lseek(from, 0, SEEK_CUR), (int)lseek(to, 0, SEEK_CUR), has(to, 0, 0, 200));
    printf("places %zd", copy_file_range(from, &in, to, &out, 9000, 0));
    printf(", %d and %d, %d %d\n", (int)in, (int)out, has(to, 4000, 500, 2500), (int)lseek(from, 0, SEEK_CUR));
    printf("at the end %zd", copy_file_range(from, &in, to, &out, 1, 0));
    in = 0, out = 100;
    printf(", in itself %zd", copy_file_range(from, &in, from, &out, 100, 0));
    printf(" %d\n", has(from, 100, 0, 100));
    printf("errors:");
    printf(" %d", copy_file_range(77, NULL, to, NULL, 1, 0) < 0 && errno == EBADF);
    printf(" %d", copy_file_range(from, NULL, 77, NULL, 1, 0) < 0 && errno == EBADF);
    printf(" %d", copy_file_range(from, NULL, to, NULL, 1, 8) < 0 && errno == EINVAL);
    in = 0, out = 99;
    printf(" %d", copy_file_range(from, &in, from, &out, 100, 0) < 0 && errno == EINVAL);
    printf(" %d", copy_file_range(from, (off_t *)8, to, NULL, 1, 0) < 0 && errno == EFAULT);
    int folder = open(".", O_RDONLY), reads = open("to", O_RDONLY), appended = open("to", O_WRONLY | O_APPEND);
    printf(" %d", copy_file_range(folder, NULL, to, NULL, 1, 0) < 0 && errno == EISDIR);
    printf(" %d", copy_file_range(from, NULL, reads, NULL, 1, 0) < 0 && errno == EBADF);
    printf(" %d", copy_file_range(from, NULL, appended, NULL, 1, 0) < 0 && errno == EBADF);
    if (pipe(ends) == 0)
        printf(" %d", copy_file_range(from, NULL, ends[1], NULL, 1, 0) < 0 && errno == EINVAL);
    int memory = memfd_create("m", 0);
    printf(" %d\n", copy_file_range(from, NULL, memory, NULL, 1, 0) < 0 && errno == EXDEV);
    close(from), close(to), close(folder), close(reads), close(appended), close(memory), close(ends[0]), close(ends[1]);
}

// Mappings have what was copied, and what they have is copied.
static void mapped(void)
{
    int from = file("from", 0), to = file("to", 0);
    ftruncate(from, 8192), ftruncate(to, 8192);
    char *source = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, from, 0);
    char *target = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, to, 0);
    strcpy(source + 5000, "by a mapping");
    strcpy(target + 6000, "stays");
    off_t in = 4096, out = 0;
    printf("mapped %zd", copy_file_range(from, &in, to, &out, 4096, 0));
    printf(": %s, %s\n", target + 904, target + 6000);
    strcpy(source, "sent");
    printf("mapped %zd", sendfile(to, from, NULL, 5));
    printf(": %s\n", target);
    munmap(source, 8192), munmap(target, 8192);
    close(from), close(to);
}

static void splices(void)
{
    int from = file("from", sizeof text), to = file("to", 0), a[2], b[2];
    loff_t in = 100, out = 50;
    if (pipe(a) < 0 || pipe(b) < 0)
        return;
    printf("splice in %zd", splice(from, &in, a[1], NULL, 300, 0));
    printf(", %d\n", (int)in);
    printf("tee %zd, %zd\n", tee(a[0], b[1], 200, 0), tee(a[0], b[1], 20, SPLICE_F_NONBLOCK));
    printf("splice out %zd", splice(a[0], NULL, to, &out, 1000, SPLICE_F_MOVE));
    printf(", %d, %d\n", (int)out, has(to, 50, 100, 300));
    printf("between %zd", splice(b[0], NULL, a[1], NULL, 1000, 0));
    printf(", at %zd", splice(a[0], NULL, to, NULL, 150, 0));
    printf(" %d %d\n", (int)lseek(to, 0, SEEK_CUR), has(to, 0, 100, 150));
    printf("errors:");
    printf(" %d", splice(from, NULL, to, NULL, 1, 0) < 0 && errno == EINVAL);
    printf(" %d", splice(a[0], &in, to, NULL, 1, 0) < 0 && errno == ESPIPE);
    printf(" %d", splice(from, NULL, a[1], &in, 1, 0) < 0 && errno == ESPIPE);
    printf(" %d", splice(a[0], NULL, a[1], NULL, 1, 0) < 0 && errno == EINVAL);
    printf(" %d", splice(a[0], NULL, b[0], NULL, 1, 0) < 0 && errno == EBADF);
    printf(" %d", splice(77, NULL, b[1], NULL, 1, 0) < 0 && errno == EBADF);
    printf(" %d", splice(from, NULL, a[1], NULL, 1, 16) < 0 && errno == EINVAL);
    printf(" %d", tee(from, a[1], 1, 0) < 0 && errno == EINVAL);
    printf(" %d", tee(a[0], to, 1, 0) < 0 && errno == EINVAL);
    char bytes[100];
    read(a[0], bytes, sizeof bytes);
    printf(" %d\n", splice(a[0], NULL, to, NULL, 1, SPLICE_F_NONBLOCK) < 0 && errno == EAGAIN);

    // One that waits goes on when there is something, and ends with the writers.
    int epoll = epoll_create1(0);
    struct epoll_event wanted = {.events = EPOLLIN | EPOLLET}, found;
    epoll_ctl(epoll, EPOLL_CTL_ADD, b[0], &wanted);
    write(b[1], text, 10);
    printf("edge %d", epoll_wait(epoll, &found, 1, 0));
    printf(" %d\n", epoll_wait(epoll, &found, 1, 0));
    lseek(from, 0, SEEK_SET);
    splice(from, NULL, b[1], NULL, 10, 0);
    printf("edge %d\n", epoll_wait(epoll, &found, 1, 0));
    pthread_t thread;
    pthread_create(&thread, NULL, drain, &a[0]);
    printf("through %zd\n", splice(b[0], NULL, a[1], NULL, 100, 0));
    close(a[1]);
    pthread_join(thread, NULL);
    close(b[1]);
    printf("end %zd\n", splice(b[0], NULL, to, NULL, 100, 0));
    close(from), close(to), close(a[0]), close(b[0]), close(epoll);
}

// Writers of a pipe, which has room all the time, have an edge when a splice has emptied one of its pages.
static void edges(void)
{
    int ends[2], other[2], nothing = open("/dev/null", O_WRONLY), set = epoll_create1(0);
    struct epoll_event wanted = {.events = EPOLLOUT | EPOLLET}, found;
    pipe(ends), pipe(other);
    epoll_ctl(set, EPOLL_CTL_ADD, ends[1], &wanted);
    epoll_wait(set, &found, 1, 0);
    int targets[] = {other[1], nothing};
    for (int i = 0; i < 2; i++) {
        write(ends[1], text, 10);
        tee(ends[0], other[1], 10, 0);
        printf("edges %d", epoll_wait(set, &found, 1, 0));
        splice(ends[0], NULL, targets[i], NULL, 4, 0);
        printf(" %d", epoll_wait(set, &found, 1, 0));
        splice(ends[0], NULL, targets[i], NULL, 6, 0);
        printf(" %d", epoll_wait(set, &found, 1, 0));
        printf(" %d\n", epoll_wait(set, &found, 1, 0));
    }
    close(ends[0]), close(ends[1]), close(other[0]), close(other[1]), close(nothing), close(set);
}

int main(void)
{
    setvbuf(stdout, NULL, _IONBF, 0);
    for (size_t i = 0; i < sizeof text; i++)
        text[i] = (char)(i * i / 7 + i);
    send();
    send_much();
    copy();
    mapped();
    splices();
    edges();
    return 0;
}
