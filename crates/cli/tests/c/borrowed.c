/* Uses of memory by unmodified programs: each of its parts is named by an argument. Says "ok" at the end. */

#include "borrowed.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

/* --- malloc in threads, beside a shadow of what should be there --- */

enum { THREADS = 4, BLOCKS = 1500, STEPS = 12000 };

struct block {
    char *memory;
    size_t bytes;
    uint64_t seed;
};

static size_t some_size(uint64_t *state)
{
    uint64_t kind = next_random(state) % 100;
    size_t most = kind < 70 ? 512 : kind < 97 ? 16384 : 600000;
    return next_random(state) % most;
}

static void *stress(void *argument)
{
    uint64_t state = (uintptr_t)argument;
    struct block *blocks = calloc(BLOCKS, sizeof *blocks);
    CHECK(blocks);
    for (int step = 0; step < STEPS; step++) {
        struct block *block = &blocks[next_random(&state) % BLOCKS];
        CHECK(is_filled(block->memory, block->bytes, block->seed));
        size_t bytes = some_size(&state);
        switch (next_random(&state) % 5) {
        case 0:
            free(block->memory);
            block->memory = malloc(bytes);
            break;
        case 1:
            free(block->memory);
            block->memory = calloc(1, bytes);
            CHECK(is_zero(block->memory, bytes));
            break;
        case 2: {
            size_t both = bytes < block->bytes ? bytes : block->bytes;
            block->memory = realloc(block->memory, bytes + 1);
            CHECK(is_filled(block->memory, both & ~7ul, block->seed));
            break;
        }
        case 3: {
            void *memory;
            size_t alignment = 8ul << next_random(&state) % 12;
            CHECK(posix_memalign(&memory, alignment, bytes) == 0);
            CHECK((uintptr_t)memory % alignment == 0);
            free(block->memory);
            block->memory = memory;
            break;
        }
        default:
            continue;
        }
        CHECK(block->memory || bytes == 0);
        block->bytes = bytes;
        block->seed = next_random(&state);
        fill(block->memory, bytes, block->seed);
    }
    for (int i = 0; i < BLOCKS; i++) {
        CHECK(is_filled(blocks[i].memory, blocks[i].bytes, blocks[i].seed));
        free(blocks[i].memory);
    }
    free(blocks);
    return NULL;
}

static void part_malloc(void)
{
    pthread_t threads[THREADS];
    for (uintptr_t i = 0; i < THREADS; i++)
        CHECK(pthread_create(&threads[i], NULL, stress, (void *)(i + 1)) == 0);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    for (int i = 0; i < 4; i++) {
        char *dirty = malloc(16 * MIB);
        fill(dirty, 16 * MIB, 1);
        free(dirty);
        char *clean = calloc(16, MIB);
        CHECK(is_zero(clean, 16 * MIB));
        free(clean);
    }
    volatile size_t too_much = SIZE_MAX / 2;
    CHECK(malloc(too_much) == NULL && errno == ENOMEM);
    CHECK(calloc(too_much, 4) == NULL && errno == ENOMEM);
}

/* --- mappings --- */

/* Moves memory to where it was reserved, one half beside the other, and makes it accessible there. */
static void move_in_halves(void)
{
    char *memory = map(16 * MIB);
    char *to = mmap(NULL, 16 * MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(to != MAP_FAILED);
    fill(memory, 16 * MIB, 1);
    push_out();
    for (char *half = memory; half < memory + 16 * MIB; half += 8 * MIB) {
        char *there = to + (half - memory);
        CHECK(mremap(half, 8 * MIB, 8 * MIB, MREMAP_MAYMOVE | MREMAP_FIXED, there) == there);
    }
    CHECK(mprotect(to, 16 * MIB, PROT_READ | PROT_WRITE) == 0);
    CHECK(is_filled(to, 16 * MIB, 1) && munmap(to, 16 * MIB) == 0);
}

static void advise(void)
{
    char *memory = map(4 * MIB);
    fill(memory, 4 * MIB, 1);
    push_out();
    CHECK(madvise(memory, -(size_t)PAGE, MADV_DONTNEED) == -1 && errno == EINVAL);
    CHECK(madvise(memory, MIB, MADV_WIPEONFORK) == -1 && errno == EINVAL);
    CHECK(madvise(memory, MIB, MADV_DONTFORK) == 0 && is_filled(memory, 4 * MIB, 1));
    CHECK(munmap(memory + MIB, MIB) == 0);
    CHECK(madvise(memory, 4 * MIB, MADV_DONTNEED) == -1 && errno == ENOMEM);
    CHECK(is_zero(memory, MIB) && is_zero(memory + 2 * MIB, 2 * MIB));
    CHECK(munmap(memory, 4 * MIB) == 0);
}

static void part_maps(void)
{
    move_in_halves();
    advise();
    char *memory = map(16 * MIB);
    fill(memory, 16 * MIB, 1);
    push_out();
    char *moved = mremap(memory, 16 * MIB, 32 * MIB, MREMAP_MAYMOVE);
    CHECK(moved != MAP_FAILED && is_filled(moved, 16 * MIB, 1) && is_zero(moved + 16 * MIB, 16 * MIB));
    CHECK(mremap(moved, 32 * MIB, 16 * MIB, 0) == moved && is_filled(moved, 16 * MIB, 1));

    CHECK(madvise(moved + MIB, MIB, MADV_DONTNEED) == 0);
    CHECK(is_filled(moved, MIB, 1) && is_zero(moved + MIB, MIB));
    CHECK(is_filled(moved + 2 * MIB, MIB, 1 + 2 * MIB / 8));
    CHECK(madvise(moved, MIB, MADV_WILLNEED) == 0 && madvise(moved, MIB, MADV_HUGEPAGE) == 0);
    CHECK(madvise(moved + 1, PAGE, MADV_DONTNEED) == -1 && errno == EINVAL);

    CHECK(munmap(moved + 3 * MIB, MIB) == 0);
    CHECK(is_filled(moved + 4 * MIB, MIB, 1 + 4 * MIB / 8));
    char *again = mmap(moved + 3 * MIB, MIB, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    CHECK(again == moved + 3 * MIB && is_zero(again, MIB));

    /* A file in the place of borrowed memory, and the other way round. */
    FILE *file = tmpfile();
    CHECK(file && fwrite("in a file", 1, 10, file) == 10 && fflush(file) == 0);
    char *mapped = mmap(moved + 5 * MIB, PAGE, PROT_READ, MAP_PRIVATE | MAP_FIXED, fileno(file), 0);
    CHECK(mapped == moved + 5 * MIB && !strcmp(mapped, "in a file"));
    CHECK(mmap(moved + 5 * MIB, MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0)
          == mapped);
    CHECK(is_zero(mapped, MIB));
    fclose(file);

    char *shared = mmap(NULL, MIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    fill(shared, MIB, 2);
    push_out();
    CHECK(is_filled(shared, MIB, 2));
    CHECK(munmap(shared, MIB) == 0 && munmap(moved, 16 * MIB) == 0);
    CHECK(mmap(NULL, 0, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) == MAP_FAILED && errno == EINVAL);
}

/* --- mappings that are replaced while another thread reads them --- */

enum { REPLACED_PAGES = 256, REPLACEMENTS = 200, READERS = 2 };

static atomic_bool is_replaced;

static void *read_until_replaced(void *memory)
{
    while (!atomic_load(&is_replaced))
        for (int page = 0; page < REPLACED_PAGES; page++)
            (void)*(volatile char *)((char *)memory + (size_t)page * PAGE);
    return NULL;
}

static void replace(void *memory, int flags)
{
    const int access = PROT_READ | PROT_WRITE;
    CHECK(mmap(memory, (size_t)REPLACED_PAGES * PAGE, access, flags | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == memory);
    fill(memory, (size_t)REPLACED_PAGES * PAGE, 3);
    CHECK(is_filled(memory, (size_t)REPLACED_PAGES * PAGE, 3));
}

static void part_replaced(void)
{
    char *memory = map((size_t)REPLACED_PAGES * PAGE);
    pthread_t readers[READERS];
    for (int i = 0; i < READERS; i++)
        CHECK(pthread_create(&readers[i], NULL, read_until_replaced, memory) == 0);
    for (int round = 0; round < REPLACEMENTS; round++) {
        if (round % 4 == 0)
            push_out();
        replace(memory, MAP_SHARED);
        replace(memory, MAP_PRIVATE);
        replace(memory, MAP_PRIVATE);
    }
    atomic_store(&is_replaced, 1);
    for (int i = 0; i < READERS; i++)
        CHECK(pthread_join(readers[i], NULL) == 0);
}

/* --- fork --- */

static void expect_end(pid_t child, int status)
{
    int got;
    CHECK(child > 0 && waitpid(child, &got, 0) == child);
    CHECK(WIFEXITED(got) && WEXITSTATUS(got) == status);
}

/* A child that closes all descriptors from 3 on, as daemons do, and then forks. */
static void close_all(int way)
{
    char *memory = map(8 * MIB);
    fill(memory, 8 * MIB, 1);
    push_out();
    pid_t child = fork();
    if (child == 0) {
        for (int fd = 3; way == 0 && fd < 4096; fd++)
            close(fd);
        if (way == 1)
            CHECK(close_range(3, ~0U, 0) == 0);
        if (way == 2)
            closefrom(3);
        if (way == 3)
            CHECK(syscall(SYS_close_range, 3, ~0U, 0) == 0);
        CHECK(open("/dev/null", O_RDONLY) == 3);
        CHECK(is_filled(memory, 8 * MIB, 1));
        fill(memory, 4 * MIB, 5);
        pid_t grandchild = fork();
        if (grandchild == 0) {
            CHECK(is_filled(memory, 4 * MIB, 5));
            _exit(7);
        }
        expect_end(grandchild, 7);
        _exit(is_filled(memory, 4 * MIB, 5) ? 5 : 6);
    }
    fill(memory, 8 * MIB, 9);
    push_out();
    expect_end(child, 5);
    CHECK(is_filled(memory, 8 * MIB, 9) && munmap(memory, 8 * MIB) == 0);
}

static void part_fork(void)
{
    char *memory = map(8 * MIB), *heap = malloc(100000);
    fill(memory, 8 * MIB, 1);
    fill(heap, 100000, 2);
    for (int round = 0; round < 2; round++) {
        int ready[2];
        CHECK(pipe(ready) == 0);
        pid_t child = fork();
        if (child == 0) {
            char byte;
            CHECK(read(ready[0], &byte, 1) == 1); /* the parent has changed its memory */
            CHECK(is_filled(memory, 8 * MIB, 1) && is_filled(heap, 100000, 2));
            fill(memory, 4 * MIB, 5);
            pid_t grandchild = fork();
            if (grandchild == 0) {
                CHECK(is_filled(memory, 4 * MIB, 5) && is_filled(memory + 4 * MIB, 4 * MIB, 1 + MIB / 2));
                push_out();
                free(malloc(MIB));
                _exit(7);
            }
            expect_end(grandchild, 7);
            CHECK(is_filled(memory, 4 * MIB, 5) && is_filled(memory + 4 * MIB, 4 * MIB, 1 + MIB / 2));
            _exit(5);
        }
        CHECK(child > 0);
        fill(memory, 8 * MIB, 9);
        CHECK(madvise(memory, MIB, MADV_DONTNEED) == 0);
        push_out();
        CHECK(write(ready[1], "x", 1) == 1);
        expect_end(child, 5);
        CHECK(is_zero(memory, MIB) && is_filled(memory + MIB, 7 * MIB, 9 + MIB / 8));
        fill(memory, 8 * MIB, 1);
        close(ready[0]);
        close(ready[1]);
    }
    for (int way = 0; way < 4; way++)
        close_all(way);
}

/* --- programs that start programs --- */

static void part_exec(const char *self)
{
    char **words = malloc(4 * sizeof *words); /* in memory that leaves */
    words[0] = strdup(self), words[1] = strdup("echo"), words[2] = strdup("ok"), words[3] = NULL;
    push_out();
    pid_t child = fork();
    if (child == 0) {
        execv(self, words);
        _exit(9);
    }
    expect_end(child, 0);
    child = vfork();
    if (child == 0) {
        execv(self, words);
        _exit(9);
    }
    expect_end(child, 0);
    extern char **environ;
    push_out();
    CHECK(posix_spawn(&child, self, NULL, NULL, words, environ) == 0);
    expect_end(child, 0);
    CHECK(system("exit 4") >> 8 == 4);
    FILE *pipe = popen("echo from a pipe", "r");
    char line[64] = "";
    CHECK(pipe && fgets(line, sizeof line, pipe) && !strcmp(line, "from a pipe\n"));
    CHECK(pclose(pipe) == 0);
}

/* --- signals --- */

static volatile sig_atomic_t bus_code, bus_count;
static volatile uintptr_t bus_address;
static sigjmp_buf back;

static void on_bus(int signal, siginfo_t *info, void *context)
{
    (void)context;
    CHECK(signal == SIGBUS);
    bus_code = info->si_code;
    bus_address = (uintptr_t)info->si_addr;
    if (bus_count++ > 0)
        siglongjmp(back, 1);
}

static void on_segv(int signal)
{
    (void)signal;
    siglongjmp(back, 2);
}

static void part_signals(void)
{
    char *memory = map(16 * MIB);
    fill(memory, 16 * MIB, 1);
    stack_t stack = {.ss_sp = malloc(64 * 1024), .ss_size = 64 * 1024};
    CHECK(sigaltstack(&stack, NULL) == 0);
    struct sigaction action = {.sa_sigaction = on_bus, .sa_flags = SA_SIGINFO | SA_ONSTACK}, old;
    sigfillset(&action.sa_mask);
    CHECK(sigaction(SIGBUS, &action, NULL) == 0);
    CHECK(sigaction(SIGBUS, NULL, &old) == 0 && old.sa_sigaction == on_bus);
    push_out();
    CHECK(is_filled(memory, 16 * MIB, 1)); /* the program's handler sees nothing of that */
    CHECK(bus_count == 0);
    CHECK(raise(SIGBUS) == 0 && bus_count == 1 && bus_code == SI_TKILL);

    /* Beyond the end of a file: a real one. */
    FILE *file = tmpfile();
    CHECK(file && ftruncate(fileno(file), 1) == 0);
    char *mapped = mmap(NULL, 2 * PAGE, PROT_READ, MAP_SHARED, fileno(file), 0);
    if (sigsetjmp(back, 1) == 0) {
        (void)*(volatile char *)(mapped + PAGE);
        CHECK(!"reached");
    }
    CHECK(bus_count == 2 && bus_code == BUS_ADRERR && bus_address == (uintptr_t)mapped + PAGE);

    sigset_t all;
    sigfillset(&all);
    CHECK(pthread_sigmask(SIG_BLOCK, &all, NULL) == 0);
    push_out();
    CHECK(is_filled(memory, 16 * MIB, 1)); /* though all signals are blocked */
    CHECK(pthread_sigmask(SIG_UNBLOCK, &all, NULL) == 0);

    signal(SIGSEGV, on_segv);
    CHECK(mprotect(memory + MIB, MIB, PROT_READ) == 0);
    push_out();
    if (sigsetjmp(back, 1) == 0) {
        memory[MIB + 5] = 1;
        CHECK(!"reached");
    }
    CHECK(mprotect(memory + MIB, MIB, PROT_READ | PROT_WRITE) == 0);
    CHECK(is_filled(memory, 16 * MIB, 1) && bus_count == 2);
}

/* --- memory that is reserved first and used later --- */

enum { RESERVED = 1 << 30, USED = 32 << 20, STEP = 128 << 10 };

static void use_in_steps(char *memory, int (*allow)(char *))
{
    for (size_t at = 0; at < USED; at += STEP) {
        CHECK(allow(memory + at));
        CHECK(is_zero(memory + at, STEP));
        fill(memory + at, STEP, at / 8);
    }
    CHECK(is_filled(memory, USED, 0)); /* most of it was away meanwhile: nothing else is used here */
}

static int allow_access(char *at)
{
    return mprotect(at, STEP, PROT_READ | PROT_WRITE) == 0;
}

static int move_break(char *at)
{
    return sbrk(STEP) == at;
}

static void part_reserved(void)
{
    char *memory = mmap(NULL, RESERVED, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(memory != MAP_FAILED);
    use_in_steps(memory + 4 * MIB, allow_access);
    /* Given back and used again, in other pieces. */
    CHECK(mmap(memory + 5 * MIB, 2 * MIB, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0)
          == memory + 5 * MIB);
    CHECK(mprotect(memory, 6 * MIB, PROT_READ | PROT_WRITE) == 0);
    CHECK(is_zero(memory, 4 * MIB) && is_filled(memory + 4 * MIB, MIB, 0) && is_zero(memory + 5 * MIB, MIB));
    CHECK(mprotect(memory, 6 * MIB, PROT_NONE) == 0 && mprotect(memory, 6 * MIB, PROT_READ) == 0);
    CHECK(is_filled(memory + 4 * MIB, MIB, 0) && is_filled(memory + 7 * MIB, MIB, 3 * MIB / 8));
    CHECK(munmap(memory, RESERVED) == 0);
}

static void part_break(void)
{
    char *memory = sbrk(0);
    use_in_steps(memory, move_break);
    CHECK(brk(memory + MIB) == 0 && sbrk(0) == memory + MIB && sbrk(MIB) == memory + MIB);
    CHECK(is_filled(memory, MIB, 0) && is_zero(memory + MIB, MIB));
    CHECK(sbrk(PTRDIFF_MAX) == (void *)-1 && errno == ENOMEM);
}

/* --- a lender that dies --- */

static int input_has_ended(void)
{
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&input, 1, 0) == 1;
}

static void say_handled(int signal)
{
    (void)signal;
    CHECK(write(STDOUT_FILENO, "handled\n", 8) == 8);
}

/* Says "ready", and when a line comes in looks at everything, again and again, at least until the input ends. */
static void part_loss(void)
{
    char line[16];
    char *memory = map(16 * MIB);
    fill(memory, 16 * MIB, 1);
    printf("ready\n");
    fflush(stdout);
    CHECK(fgets(line, sizeof line, stdin));
    for (int left = 20; left > 0; left -= input_has_ended()) {
        CHECK(is_filled(memory, 16 * MIB, 1));
        fill(memory, 16 * MIB, 1);
    }
}

/* Memory that a child would share, and less private memory than any threshold. */
static void part_shared(void)
{
    char *memory = mmap(NULL, 16 * MIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(memory != MAP_FAILED);
    fill(memory, 16 * MIB, 1);
    CHECK(is_filled(memory, 16 * MIB, 1));
}

int main(int argc, char **argv)
{
    const char *part = argc > 1 ? argv[1] : "";
    if (!strcmp(part, "malloc"))
        part_malloc();
    else if (!strcmp(part, "maps"))
        part_maps();
    else if (!strcmp(part, "replaced"))
        part_replaced();
    else if (!strcmp(part, "fork"))
        part_fork();
    else if (!strcmp(part, "exec"))
        part_exec(argv[0]);
    else if (!strcmp(part, "signals"))
        part_signals();
    else if (!strcmp(part, "reserved"))
        part_reserved();
    else if (!strcmp(part, "break"))
        part_break();
    else if (!strcmp(part, "shared"))
        part_shared();
    else if (!strcmp(part, "loss-handled")) {
        struct sigaction once = {.sa_handler = say_handled, .sa_flags = SA_RESETHAND};
        CHECK(sigaction(SIGBUS, &once, NULL) == 0);
        part_loss();
    } else if (!strcmp(part, "loss-ignored")) {
        CHECK(signal(SIGBUS, SIG_IGN) == SIG_DFL && raise(SIGBUS) == 0);
        part_loss();
    } else if (!strcmp(part, "loss"))
        part_loss();
    else if (strcmp(part, "echo"))
        return 2;
    if (argc > 2)
        return strcmp(argv[2], "ok") != 0;
    printf("ok\n");
    return 0;
}
