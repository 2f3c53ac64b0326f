/* Fails in the way that the first argument names. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static volatile int sink;

static __attribute__((noinline)) void follow(int *pointer)
{
    sink = *pointer;
}

static __attribute__((noinline)) int dive(int depth)
{
    volatile char frame[1024];
    frame[0] = (char)depth;
    return depth < 0 ? 0 : dive(depth + 1) + frame[0];
}

static void *in_thread(void *argument)
{
    sink = dive(0);
    return argument;
}

int main(int argc, char **argv)
{
    pthread_t thread;
    if (argc < 2)
        return 1;
    if (!strcmp(argv[1], "pointer"))
        follow((int *)16);
    if (!strcmp(argv[1], "stack"))
        sink = dive(0);
    if (!strcmp(argv[1], "thread") && !pthread_create(&thread, NULL, in_thread, NULL))
        pthread_join(thread, NULL);
    if (!strcmp(argv[1], "abort"))
        abort();
    return 0;
}
