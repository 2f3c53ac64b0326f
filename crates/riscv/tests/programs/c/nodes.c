// Pipes with names, files in memory, file systems, and what the scheduler says.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/timerfd.h>
#include <sys/times.h>
#include <sys/vfs.h>
#include <time.h>
#include <unistd.h>

static void *write_text(void *name)
{
    int end = open(name, O_WRONLY);
    printf("writer has it %d\n", end >= 0);
    write(end, "through a name", 15);
    close(end);
    return NULL;
}

static void ignore(int signal)
{
    (void)signal;
}

static void *signal_later(void *thread)
{
    nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL);
    pthread_kill(*(pthread_t *)thread, SIGUSR1);
    return NULL;
}

static void fifos(void)
{
    struct stat status;
    char bytes[32] = {0};
    printf("fifo %d\n", mkfifo("fifo", 0600));
    printf("is one %d\n", stat("fifo", &status) == 0 && S_ISFIFO(status.st_mode));
    printf("again %d\n", mkfifo("fifo", 0600) < 0 && errno == EEXIST);

    // The reader waits for the writer, and then the writer for the reader.
    pthread_t thread, self = pthread_self();
    pthread_create(&thread, NULL, write_text, "fifo");
    int from = open("fifo", O_RDONLY);
    printf("read %zd %s", read(from, bytes, sizeof bytes), bytes);
    pthread_join(thread, NULL);
    printf(", end %zd\n", read(from, bytes, sizeof bytes));
    close(from);
    pthread_create(&thread, NULL, write_text, "./fifo");
    nanosleep(&(struct timespec){.tv_nsec = 3000000}, NULL);
    from = open("fifo", O_RDONLY);
    pthread_join(thread, NULL);
    printf("read %zd\n", read(from, bytes, sizeof bytes));
    close(from);

    printf("no reader %d\n", open("fifo", O_WRONLY | O_NONBLOCK) < 0 && errno == ENXIO);
    from = open("fifo", O_RDONLY | O_NONBLOCK);
    struct pollfd list = {.fd = from, .events = POLLIN};
    printf("no writer: read %zd, poll %d\n", read(from, bytes, 1), poll(&list, 1, 0));
    int to = open("fifo", O_WRONLY | O_NONBLOCK);
    printf("empty %d\n", read(from, bytes, 1) < 0 && errno == EAGAIN);
    write(to, "ab", 2);
    printf("poll %d", poll(&list, 1, 0));
    printf(" %x\n", list.revents);
    printf("status %d, size %d\n", fstat(from, &status) == 0 && S_ISFIFO(status.st_mode), (int)status.st_size);
    close(to);
    printf("left %zd, end %zd", read(from, bytes, 9), read(from, bytes, 9));
    printf(", poll %d", poll(&list, 1, 0));
    printf(" %x\n", list.revents);
    close(from);

    int both = open("fifo", O_RDWR);
    write(both, "xyz", 3);
    list.fd = both;
    list.events = POLLIN | POLLOUT;
    printf("both %zd", read(both, bytes, 2));
    printf(" %d", poll(&list, 1, 0));
    printf(" %x\n", list.revents);
    printf("another %d\n", open("fifo", O_WRONLY) >= 0);

    // Nobody comes: a signal interrupts it, and whoever comes then meets nobody.
    printf("second %d\n", mknod("second", S_IFIFO | 0600, 0));
    struct sigaction action = {.sa_handler = ignore};
    sigaction(SIGUSR1, &action, NULL);
    pthread_create(&thread, NULL, signal_later, &self);
    printf("interrupted %d\n", open("second", O_RDONLY) < 0 && errno == EINTR);
    pthread_join(thread, NULL);
    printf("nobody %d\n", open("second", O_WRONLY | O_NONBLOCK) < 0 && errno == ENXIO);
    printf("folder %d\n", open("second", O_RDONLY | O_DIRECTORY) < 0 && errno == ENOTDIR);
    printf("remove %d %d\n", unlink("fifo"), unlink("second"));
    printf("gone %d\n", open("fifo", O_RDONLY) < 0 && errno == ENOENT);

    printf("file %d %d", mknod("plain", S_IFREG | 0600, 0), mknod("other", 0600, 0));
    printf(" %d %d\n", stat("plain", &status), S_ISREG(status.st_mode) && status.st_size == 0);
    printf("errors:");
    printf(" %d", mknod("plain", S_IFREG | 0600, 0) < 0 && errno == EEXIST);
    printf(" %d", mknod("folder", S_IFDIR | 0700, 0) < 0 && errno == EPERM);
    printf(" %d", mknod("what", 0030000 | 0600, 0) < 0 && errno == EINVAL);
    printf(" %d", mknod("no/where", S_IFREG | 0600, 0) < 0 && errno == ENOENT);
    printf(" %d\n", mknod("", S_IFREG | 0600, 0) < 0 && errno == ENOENT);
}

static void memory(void)
{
    char bytes[32] = {0}, link[64] = {0}, name[300];
    int file = memfd_create("some name", MFD_CLOEXEC);
    printf("memfd %d, flags %d\n", fcntl(file, F_GETFD), fcntl(file, F_GETFL) & O_ACCMODE);
    snprintf(name, sizeof name, "/proc/self/fd/%d", file);
    printf("link %zd %s\n", readlink(name, link, sizeof link - 1), link);
    struct stat status;
    printf("write %zd %zd\n", write(file, "in memory", 9), pwrite(file, "far", 3, 10000));
    fstat(file, &status);
    printf("size %d, place %d, file %d\n", (int)status.st_size, (int)lseek(file, 0, SEEK_CUR), S_ISREG(status.st_mode));
    printf("read %zd", pread(file, bytes, sizeof bytes, 9990));
    printf(" %s, hole %d\n", bytes + 10, bytes[0] == 0 && bytes[9] == 0);
    printf("end %d, before %d\n", (int)lseek(file, -1, SEEK_END), lseek(file, -1, SEEK_SET) < 0 && errno == EINVAL);

    // A file that is cut and grows again has zeros there.
    printf("cut %d", ftruncate(file, 2));
    printf(" %d", ftruncate(file, 20));
    memset(bytes, 1, sizeof bytes);
    printf(", read %zd", pread(file, bytes, sizeof bytes, 0));
    printf(" %s, zero %d\n", bytes, bytes[2] == 0 && bytes[8] == 0);
    printf("allocate %d", posix_fallocate(file, 0, 8192));
    fstat(file, &status);
    printf(" %d\n", (int)status.st_size);
    char *shared = mmap(NULL, 8192, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    strcpy(shared + 5000, "mapped");
    pwrite(file, "written", 8, 6000);
    printf("mapping %zd", pread(file, bytes, 7, 5000));
    printf(" %s %s\n", bytes, shared + 6000);
    close(file);
    printf("stays %s\n", shared + 5000);
    munmap(shared, 8192);

    int one = memfd_create("", 0), two = memfd_create("", 0);
    struct stat other;
    fstat(one, &status), fstat(two, &other);
    printf("two %d\n", status.st_ino != other.st_ino);
    memset(name, 'n', sizeof name - 1);
    name[250] = 0;
    printf("errors: %d", memfd_create(name, 0) < 0 && errno == EINVAL);
    name[249] = 0;
    printf(" %d", memfd_create(name, 0) >= 0);
    printf(" %d", memfd_create("m", 0x80) < 0 && errno == EINVAL);
    printf(" %d\n", syscall(SYS_memfd_create, 8, 0) < 0 && errno == EFAULT);
    close(one), close(two);
}

static void systems(void)
{
    struct statfs one, two;
    int ends[2], file = memfd_create("m", 0), plain = open("plain", O_RDONLY);
    printf("statfs %d %d", statfs(".", &one), statfs("plain", &two));
    printf(", same %d, name %d\n", one.f_type == two.f_type && one.f_blocks == two.f_blocks, (int)one.f_namelen);
    printf("sizes %d %d\n", one.f_bsize == one.f_frsize, one.f_bavail <= one.f_bfree && one.f_bfree <= one.f_blocks);
    printf("fstatfs %d", fstatfs(plain, &two));
    printf(", same %d\n", one.f_type == two.f_type);
    printf("proc %d", statfs("/proc/self/maps", &two));
    printf(" %lx %ld\n", (long)two.f_type, (long)two.f_blocks);
    printf("sys %d", statfs("/sys", &two));
    printf(" %lx\n", (long)two.f_type);
    printf("memory %d", fstatfs(file, &two));
    printf(" %lx\n", (long)two.f_type);
    if (pipe(ends) == 0)
        printf("pipe %d", fstatfs(ends[0], &two));
    printf(" %lx %d\n", (long)two.f_type, (int)two.f_namelen);
    printf("timer %d", fstatfs(timerfd_create(CLOCK_MONOTONIC, 0), &two));
    printf(" %lx\n", (long)two.f_type);
    printf("errors: %d", statfs("nothing", &one) < 0 && errno == ENOENT);
    printf(" %d", statfs("plain/below", &one) < 0 && errno == ENOTDIR);
    printf(" %d", syscall(SYS_statfs, ".", 8) < 0 && errno == EFAULT);
    printf(" %d\n", fstatfs(77, &one) < 0 && errno == EBADF);
}

static void schedule(void)
{
    struct sched_param parameter = {.sched_priority = 7};
    struct rusage usage;
    struct tms times_used;
    printf("policy %d", sched_getscheduler(0));
    printf(" %d", sched_getparam(getpid(), &parameter));
    printf(" %d\n", parameter.sched_priority);
    printf("errors:");
    printf(" %d", syscall(SYS_sched_getscheduler, -1) < 0 && errno == EINVAL);
    printf(" %d", syscall(SYS_sched_getscheduler, 0x7ffffff0) < 0 && errno == ESRCH);
    printf(" %d", syscall(SYS_sched_getparam, 0, NULL) < 0 && errno == EINVAL);
    printf(" %d", syscall(SYS_sched_getparam, 0x7ffffff0, &parameter) < 0 && errno == ESRCH);
    printf(" %d", syscall(SYS_sched_setscheduler, 0, 0, NULL) < 0 && errno == EINVAL);
    printf(" %d", getrusage(RUSAGE_CHILDREN, &usage) == 0 && usage.ru_utime.tv_sec == 0);
    printf(" %d", getrusage(RUSAGE_THREAD, &usage));
    printf(" %d", getrusage(2, &usage) < 0 && errno == EINVAL);
    printf(" %d\n", times(&times_used) != (clock_t)-1 && times_used.tms_cutime == 0);
}

int main(void)
{
    setvbuf(stdout, NULL, _IONBF, 0);
    fifos();
    memory();
    systems();
    schedule();
    return 0;
}
