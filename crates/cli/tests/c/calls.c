/* System calls on borrowed memory: what they return and move is what they return and move without borrowing. */

#include "borrowed.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/io_uring.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/statfs.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <sys/un.h>
#include <sys/utsname.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define LARGE (64 * MIB)

/* Two large buffers, most of which is away at any time. */
static char *out, *in;
static int file;

static void expect(ssize_t got, size_t wanted, const char *what)
{
    if (got != (ssize_t)wanted) {
        fprintf(stderr, "%s: %zd instead of %zu: %s\n", what, got, wanted, strerror(errno));
        _Exit(3);
    }
}

#define ALL(call) expect(call, LARGE, #call)

/* Checks that all of `out` came to `in`, and forgets it. */
static void arrived(void)
{
    CHECK(is_filled(in, LARGE, 1));
    CHECK(madvise(in, LARGE, MADV_DONTNEED) == 0);
}

static void files(void)
{
    FILE *stream = tmpfile();
    CHECK(stream);
    file = fileno(stream);
    ALL(write(file, out, LARGE));
    CHECK(lseek(file, 0, SEEK_CUR) == LARGE && lseek(file, 0, SEEK_SET) == 0);
    ALL(read(file, in, LARGE));
    arrived();
    expect(read(file, in, LARGE), 0, "read at the end");
    ALL(pread(file, in, LARGE, 0));
    arrived();
    expect(pread(file, in, LARGE, LARGE - 5000), 5000, "pread of the end");
    CHECK(ftruncate(file, 0) == 0);
    ALL(pwrite(file, out, LARGE, 0));
    struct iovec parts[3] = {{out, MIB}, {out + MIB, 7}, {out + MIB + 7, LARGE - MIB - 7}};
    struct iovec into[3] = {{in, 5}, {in + 5, 40 * MIB}, {in + 40 * MIB + 5, LARGE - 40 * MIB - 5}};
    CHECK(lseek(file, 0, SEEK_SET) == 0);
    ALL(writev(file, parts, 3));
    CHECK(lseek(file, 0, SEEK_SET) == 0);
    ALL(readv(file, into, 3));
    arrived();
    ALL(pwritev(file, parts, 3, 0));
    ALL(preadv(file, into, 3, 0));
    arrived();
    ALL(syscall(SYS_pread64, file, in, LARGE, 0));
    arrived();
    /* Appended as a whole, and a read that is not page by page. */
    CHECK(fcntl(file, F_SETFL, O_APPEND) == 0);
    ALL(write(file, out, LARGE));
    CHECK(fcntl(file, F_SETFL, 0) == 0);
    expect(pread(file, in + 3, LARGE - 8, 3 + LARGE), LARGE - 8, "pread at an odd place");
    CHECK(!memcmp(in + 3, out + 3, LARGE - 8));
    CHECK(madvise(in, LARGE, MADV_DONTNEED) == 0);

    /* Streams hand large requests on by themselves. */
    rewind(stream);
    expect(fwrite(out, 1, LARGE, stream), LARGE, "fwrite");
    rewind(stream);
    expect(fread(in, 1, LARGE, stream), LARGE, "fread");
    arrived();
    CHECK(ftruncate(file, 0) == 0);
    rewind(stream);
    char *text = malloc(MIB + 1);
    memset(text, 'x', MIB);
    text[MIB] = 0;
    push_out();
    CHECK(fputs(text, stream) >= 0);
    push_out();
    CHECK(fprintf(stream, "<%s>%d", text, 7) == (int)MIB + 3);
    push_out();
    CHECK(fflush(stream) == 0 && dprintf(file, "%s", text) == (int)MIB);
    expect(pread(file, in, LARGE, 0), 3 * MIB + 3, "what was printed");
    CHECK(in[MIB] == '<' && in[2 * MIB + 1] == '>' && in[2 * MIB + 2] == '7' && in[3 * MIB + 2] == 'x');
    free(text);
    CHECK(madvise(in, LARGE, MADV_DONTNEED) == 0);
    fclose(stream);
}

/* --- what goes through another thread --- */

static int ends[2];
static int is_by_message;

static void *send_all(void *argument)
{
    (void)argument;
    struct iovec parts[2] = {{out, LARGE - 100}, {out + LARGE - 100, 100}};
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 2};
    if (is_by_message)
        ALL(sendmsg(ends[0], &message, 0));
    else
        ALL(write(ends[0], out, LARGE));
    return NULL;
}

static pthread_t sending(void)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, send_all, NULL) == 0);
    return thread;
}

static void streams_between_threads(void)
{
    CHECK(socketpair(AF_UNIX, SOCK_STREAM, 0, ends) == 0);
    pthread_t thread = sending();
    ALL(recv(ends[1], in, LARGE, MSG_WAITALL));
    CHECK(pthread_join(thread, NULL) == 0);
    arrived();
    is_by_message = 1;
    thread = sending();
    struct iovec into[2] = {{in, 10 * MIB}, {in + 10 * MIB, LARGE - 10 * MIB}};
    struct msghdr message = {.msg_iov = into, .msg_iovlen = 2};
    ALL(recvmsg(ends[1], &message, MSG_WAITALL));
    CHECK(pthread_join(thread, NULL) == 0);
    arrived();
    /* Data that are there are taken, and no more are waited for. */
    CHECK(write(ends[0], out, 5 * PAGE) == (ssize_t)(5 * PAGE));
    expect(read(ends[1], in, LARGE), 5 * PAGE, "read of a socket");
    expect(recv(ends[1], in, LARGE, MSG_DONTWAIT), -1, "recv of nothing");
    CHECK(errno == EAGAIN && is_filled(in, 5 * PAGE, 1));
    CHECK(madvise(in, LARGE, MADV_DONTNEED) == 0);
    /* As much as fits, without waiting. */
    CHECK(fcntl(ends[0], F_SETFL, O_NONBLOCK) == 0);
    ssize_t some = write(ends[0], out, LARGE);
    CHECK(some > 0 && some < (ssize_t)LARGE);
    expect(write(ends[0], out, LARGE), -1, "write into a full socket");
    CHECK(errno == EAGAIN && close(ends[0]) == 0);
    expect(recv(ends[1], in, LARGE, MSG_WAITALL), (size_t)some, "recv to the end");
    CHECK(is_filled(in, (size_t)some & ~7ul, 1) && close(ends[1]) == 0);
    CHECK(madvise(in, LARGE, MADV_DONTNEED) == 0);

    is_by_message = 0;
    int pipes[2];
    CHECK(pipe(pipes) == 0);
    ends[0] = pipes[1];
    thread = sending();
    for (size_t done = 0; done < LARGE;) {
        ssize_t got = read(pipes[0], in + done, LARGE - done);
        CHECK(got > 0);
        done += (size_t)got;
    }
    CHECK(pthread_join(thread, NULL) == 0);
    arrived();
    close(pipes[0]), close(pipes[1]);
}

/* A datagram is one call: it arrives whole, or cut off, and with its name and descriptors. */
static void datagrams(int kind)
{
    enum { BYTES = 150000 };
    CHECK(socketpair(AF_UNIX, kind, 0, ends) == 0);
    for (int round = 0; round < 3; round++) {
        struct iovec parts[2] = {{out, 70000}, {out + 70000, BYTES - 70000}};
        char *control = map(256 * 1024);
        struct msghdr *message = (struct msghdr *)(control + 200000);
        *message = (struct msghdr){.msg_iov = parts, .msg_iovlen = 2, .msg_control = control};
        message->msg_controllen = CMSG_SPACE(sizeof(int));
        struct cmsghdr *head = CMSG_FIRSTHDR(message);
        head->cmsg_level = SOL_SOCKET, head->cmsg_type = SCM_RIGHTS, head->cmsg_len = CMSG_LEN(sizeof(int));
        *(int *)CMSG_DATA(head) = ends[1];
        push_out();
        expect(sendmsg(ends[0], message, 0), BYTES, "sendmsg of a datagram");
        push_out();
        memset(control, 0, 4096);
        message->msg_controllen = 4096;
        struct iovec into[2] = {{in, 30000}, {in + 30000, BYTES}};
        message->msg_iov = into;
        push_out();
        expect(recvmsg(ends[1], message, 0), BYTES, "recvmsg of a datagram");
        CHECK(is_filled(in, BYTES, 1) && !(message->msg_flags & MSG_TRUNC));
        head = CMSG_FIRSTHDR(message);
        CHECK(head && head->cmsg_type == SCM_RIGHTS && fcntl(*(int *)CMSG_DATA(head), F_GETFD) >= 0);
        close(*(int *)CMSG_DATA(head));
        push_out();
        expect(send(ends[0], out, BYTES, 0), BYTES, "send of a datagram");
        expect(send(ends[0], out, 8, 0), 8, "send of another");
        expect(recv(ends[1], in, 4096, MSG_TRUNC), BYTES, "recv of the beginning");
        expect(recv(ends[1], in, LARGE, 0), 8, "recv of the other");
        munmap(control, 256 * 1024);
    }
    close(ends[0]), close(ends[1]);
    CHECK(madvise(in, LARGE, MADV_DONTNEED) == 0);
}

static void internet(void)
{
    char *names = map(MIB);
    struct sockaddr_in *own = (void *)names, *other = (void *)(names + 8 * PAGE);
    socklen_t *size = (void *)(names + 16 * PAGE);
    int one = socket(AF_INET, SOCK_DGRAM, 0), two = socket(AF_INET, SOCK_DGRAM, 0);
    own->sin_family = AF_INET, own->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    push_out();
    CHECK(bind(one, (void *)own, sizeof *own) == 0 && bind(two, (void *)own, sizeof *own) == 0);
    *size = sizeof *own;
    push_out();
    CHECK(getsockname(one, (void *)own, size) == 0 && *size == sizeof *own && own->sin_port);
    push_out();
    expect(sendto(two, out, 60000, 0, (void *)own, sizeof *own), 60000, "sendto");
    *size = sizeof *other;
    push_out();
    expect(recvfrom(one, in, LARGE, 0, (void *)other, size), 60000, "recvfrom");
    CHECK(is_filled(in, 60000, 1) && *size == sizeof *other);
    int *value = (int *)(names + 24 * PAGE);
    *size = sizeof *value;
    push_out();
    CHECK(getsockopt(one, SOL_SOCKET, SO_TYPE, value, size) == 0 && *value == SOCK_DGRAM && *size == 4);
    push_out();
    CHECK(setsockopt(one, SOL_SOCKET, SO_REUSEADDR, value, sizeof *value) == 0);
    CHECK(connect(two, (void *)own, sizeof *own) == 0);
    struct mmsghdr *list = (void *)(names + 32 * PAGE);
    struct iovec parts[2] = {{out, 500}, {out + 20 * MIB, 900}};
    for (int i = 0; i < 2; i++)
        list[i].msg_hdr = (struct msghdr){.msg_iov = &parts[i], .msg_iovlen = 1};
    push_out();
    CHECK(sendmmsg(two, list, 2, 0) == 2 && list[1].msg_len == 900);
    struct iovec into[2] = {{in, MIB}, {in + 20 * MIB, MIB}};
    list[0].msg_hdr.msg_iov = &into[0], list[1].msg_hdr.msg_iov = &into[1];
    push_out();
    CHECK(recvmmsg(one, list, 2, MSG_WAITFORONE, NULL) == 2 && list[1].msg_len == 900);
    CHECK(!memcmp(in + 20 * MIB, out + 20 * MIB, 900));
    close(one), close(two);
    munmap(names, MIB);
    CHECK(madvise(in, LARGE, MADV_DONTNEED) == 0);
}

/* --- small things, each on a page of its own that is away --- */

static char *pages;
static int pages_used;

/* Memory on a page of its own. */
static void *page(const char *text)
{
    char *memory = pages + 2 * PAGE * (size_t)pages_used++;
    CHECK(pages_used < 128);
    strcpy(memory + PAGE - 8, text); /* over the border of pages */
    return memory + PAGE - 8;
}

static void small_things(void)
{
    pages = map(MIB);
    char dir[] = "/tmp/rackmem-calls-XXXXXX", path[64], other[64];
    CHECK(mkdtemp(dir));
    snprintf(path, sizeof path, "%s/file", dir), snprintf(other, sizeof other, "%s/other", dir);
    char *name = page(path), *second = page(other), *folder = page(dir);
    struct stat *status = page("");
    struct statfs *system_status = page("");
    push_out();
    int fd = open(name, O_CREAT | O_RDWR, 0600);
    CHECK(fd >= 0 && write(fd, "hello", 5) == 5);
    push_out();
    CHECK(stat(name, status) == 0 && status->st_size == 5);
    push_out();
    CHECK(fstat(fd, status) == 0 && status->st_size == 5);
    push_out();
    CHECK(statfs(folder, system_status) == 0 && system_status->f_bsize > 0);
    push_out();
    CHECK(access(name, R_OK) == 0 && symlink("aim", second) == 0);
    char *aim = page("???????");
    push_out();
    expect(readlink(second, aim, 4), 3, "readlink");
    CHECK(!memcmp(aim, "aim?", 4));
    push_out();
    CHECK(unlink(second) == 0 && rename(name, second) == 0 && rename(second, name) == 0);
    push_out();
    FILE *stream = fopen(name, "r");
    CHECK(stream && fgetc(stream) == 'h' && fclose(stream) == 0);
    push_out();
    DIR *list = opendir(folder);
    CHECK(list && readdir(list) && closedir(list) == 0);
    char *where = page("");
    push_out();
    CHECK(chdir(folder) == 0 && getcwd(where, 100) == where && !strcmp(where, dir) && chdir("/") == 0);
    push_out();
    CHECK(unlink(name) == 0 && rmdir(folder) == 0);

    int *pair = page("");
    push_out();
    CHECK(pipe(pair) == 0 && write(pair[1], "x", 1) == 1);
    struct pollfd *polled = page("");
    *polled = (struct pollfd){.fd = pair[0], .events = POLLIN};
    push_out();
    CHECK(poll(polled, 1, 1000) == 1 && polled->revents == POLLIN);
    struct timespec *time = page("");
    *time = (struct timespec){.tv_nsec = 1000};
    push_out();
    CHECK(ppoll(polled, 1, time, NULL) == 1 && nanosleep(time, NULL) == 0);
    fd_set *set = page("");
    FD_ZERO(set);
    FD_SET(pair[0], set);
    push_out();
    CHECK(select(pair[0] + 1, set, NULL, NULL, NULL) == 1 && FD_ISSET(pair[0], set));
    int poller = epoll_create1(0);
    struct epoll_event *event = page("");
    event->events = EPOLLIN, event->data.fd = 77;
    push_out();
    CHECK(epoll_ctl(poller, EPOLL_CTL_ADD, pair[0], event) == 0);
    struct epoll_event *events = map(1024 * sizeof *events);
    push_out();
    CHECK(epoll_wait(poller, events, 1024, 1000) == 1 && events->data.fd == 77);
    int *count = page("");
    push_out();
    CHECK(ioctl(pair[0], FIONREAD, count) == 0 && *count == 1);
    struct flock *lock = page("");
    lock->l_type = F_WRLCK;
    push_out();
    CHECK(fcntl(pair[1], F_GETFL, 0) >= 0);
    int temporary = memfd_create("lock", 0);
    CHECK(fcntl(temporary, F_GETLK, lock) == 0 && lock->l_type == F_UNLCK && close(temporary) == 0);
    struct utsname *names = map(PAGE);
    struct rusage *usage = page("");
    struct rlimit *limit = page("");
    struct itimerval *timer = page("");
    sigset_t *signals = page("");
    push_out();
    CHECK(uname(names) == 0 && !strcmp(names->sysname, "Linux"));
    CHECK(getrusage(RUSAGE_SELF, usage) == 0 && usage->ru_maxrss > 0);
    CHECK(getrlimit(RLIMIT_NOFILE, limit) == 0 && limit->rlim_max > 0);
    CHECK(getitimer(ITIMER_REAL, timer) == 0 && timer->it_value.tv_sec == 0);
    CHECK(sigprocmask(SIG_BLOCK, NULL, signals) == 0 && sigpending(signals) == 0);
    eventfd_t *value = page("");
    int events_fd = eventfd(5, 0);
    push_out();
    CHECK(eventfd_read(events_fd, value) == 0 && *value == 5 && close(events_fd) == 0);
    int *ended = page("");
    pid_t child = fork();
    if (child == 0)
        _exit(42);
    push_out();
    CHECK(waitpid(child, ended, 0) == child && WIFEXITED(*ended) && WEXITSTATUS(*ended) == 42);
    char *command = page("exit 6");
    push_out();
    CHECK(system(command) >> 8 == 6);
    close(pair[0]), close(pair[1]), close(poller);
    munmap(pages, MIB);
}

/* --- */

static void other_large_ones(void)
{
    ALL(getrandom(in, LARGE, 0));
    for (size_t i = 0; i < LARGE; i += MIB)
        CHECK(!is_zero(in + i, MIB));
    CHECK(madvise(in, LARGE, MADV_DONTNEED) == 0);
    struct iovec here = {in, LARGE}, there = {out, LARGE};
    ALL(process_vm_readv(getpid(), &here, 1, &there, 1, 0));
    arrived();
    here.iov_base = out, there.iov_base = in;
    ALL(process_vm_writev(getpid(), &here, 1, &there, 1, 0));
    arrived();
}

static void errors(void)
{
    char *none = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    fill(none, MIB, 9);
    CHECK(mprotect(none, MIB, PROT_NONE) == 0);
    push_out();
    int nowhere = memfd_create("nowhere", 0);
    expect(write(nowhere, none, PAGE), -1, "write of what may not be read");
    CHECK(errno == EFAULT && mprotect(none, MIB, PROT_READ) == 0);
    push_out();
    expect(write(nowhere, none, PAGE), PAGE, "write of what may be read");
    expect(pread(nowhere, none, PAGE, 0), -1, "pread to what may not be written");
    CHECK(errno == EFAULT);
    char *volatile wrong = (char *)16;
    expect(write(nowhere, wrong, 4), -1, "write of what is not there");
    CHECK(errno == EFAULT && open(wrong, O_RDONLY) == -1 && errno == EFAULT);
    expect(read(-1, in, LARGE), -1, "read of no file");
    CHECK(errno == EBADF);
    close(nowhere);
}

/* io_uring works, or is refused as by a kernel that has none; it must not fail later. */
static void rings(void)
{
    struct io_uring_params parameters;
    memset(&parameters, 0, sizeof parameters);
    int ring = (int)syscall(SYS_io_uring_setup, 4, &parameters);
    CHECK(ring >= 0 || errno == ENOSYS || errno == EPERM);
    printf(ring >= 0 ? "with io_uring\n" : "without io_uring\n");
    if (ring >= 0)
        close(ring);
}

/* --- signals in between --- */

static char *touched;
static volatile sig_atomic_t ticks;

/* Touches memory that is away, while the thread may be waiting for other such memory. */
static void on_tick(int signal)
{
    (void)signal;
    size_t at = (size_t)ticks++ * 37 * PAGE % (16 * MIB);
    CHECK(*(uint64_t *)(touched + at) == (5 + at / 8) * 0x9e3779b97f4a7c15u);
}

static void signals(void)
{
    touched = map(16 * MIB);
    fill(touched, 16 * MIB, 5);
    signal(SIGALRM, on_tick);
    struct itimerval often = {.it_interval = {.tv_usec = 300}, .it_value = {.tv_usec = 300}}, never = {0};
    CHECK(setitimer(ITIMER_REAL, &often, NULL) == 0);
    for (int round = 0; round < 20 || ticks < 100; round++) {
        CHECK(is_filled(out, 8 * MIB, 1));
        CHECK(is_filled(touched, 16 * MIB, 5));
    }
    CHECK(setitimer(ITIMER_REAL, &never, NULL) == 0);
    /* A thread is cancelled in a call that waits, and nothing is left behind. */
    CHECK(munmap(touched, 16 * MIB) == 0);
}

static void *wait_for_ever(void *argument)
{
    char byte;
    (void)argument;
    pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
    (void)!read(ends[1], in + (byte = 0), LARGE);
    return NULL;
}

static void cancelled(void)
{
    CHECK(pipe(ends) == 0);
    int writer = ends[1];
    ends[1] = ends[0];
    for (int round = 0; round < 100; round++) {
        pthread_t thread;
        void *result;
        CHECK(pthread_create(&thread, NULL, wait_for_ever, NULL) == 0);
        CHECK(pthread_cancel(thread) == 0 && pthread_join(thread, &result) == 0);
        CHECK(result == PTHREAD_CANCELED);
    }
    close(ends[0]), close(writer);
}

int main(void)
{
    out = map(LARGE), in = map(LARGE);
    fill(out, LARGE, 1);
    files();
    streams_between_threads();
    datagrams(SOCK_DGRAM);
    datagrams(SOCK_SEQPACKET);
    internet();
    other_large_ones();
    small_things();
    errors();
    rings();
    signals();
    cancelled();
    CHECK(is_filled(out, LARGE, 1));
    printf("ok\n");
    return 0;
}
