/* Lowers its limit on open files to the descriptors that it has, and forks. The child uses memory of its parent and new
 * memory. Says "ok" at the end. With "for-good" the limit cannot be raised again: then there may be no fork. */

#include "borrowed.h"

#include <errno.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
    int is_for_good = argc > 1 && !strcmp(argv[1], "for-good");
    const size_t bytes = 16 * MIB;
    char *memory = map(bytes);
    fill(memory, bytes, 1);
    int next = dup(0);
    CHECK(next > 0 && close(next) == 0);
    struct rlimit limit, after;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = next;
    if (is_for_good)
        limit.rlim_max = next;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0);
    CHECK(dup(0) < 0);
    pid_t child = fork();
    CHECK(child >= 0 || (is_for_good && errno == EAGAIN));
    if (child < 0) {
        puts("no fork");
        return 0;
    }
    if (child == 0) {
        CHECK(is_filled(memory, bytes, 1));
        char *more = map(bytes);
        fill(more, bytes, 2);
        fill(memory, bytes, 3);
        CHECK(is_filled(more, bytes, 2));
        CHECK(getrlimit(RLIMIT_NOFILE, &after) == 0 && after.rlim_cur == limit.rlim_cur);
        CHECK(dup(0) < 0);
        _exit(0);
    }
    int status;
    CHECK(waitpid(child, &status, 0) == child && status == 0);
    CHECK(is_filled(memory, bytes, 1));
    puts("ok");
    return 0;
}
