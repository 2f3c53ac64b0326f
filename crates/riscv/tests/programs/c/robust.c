// Robust mutexes of threads that end.
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/syscall.h>
#include <unistd.h>

static pthread_mutex_t mutexes[2];
static volatile int holds, is_waiting;

// Holds both, and ends when somebody waits for the second one.
static void *holder(void *argument)
{
    pthread_mutex_lock(&mutexes[0]);
    pthread_mutex_lock(&mutexes[1]);
    __atomic_store_n(&holds, 1, __ATOMIC_SEQ_CST);
    // A waiter sets the highest bit of the word.
    while ((__atomic_load_n((unsigned *)&mutexes[1], __ATOMIC_SEQ_CST) & 0x80000000) == 0 &&
           (__atomic_load_n((unsigned *)&mutexes[1] + 1, __ATOMIC_SEQ_CST) & 0x80000000) == 0)
        sched_yield();
    return argument;
}

static void *waiter(void *argument)
{
    while (!__atomic_load_n(&holds, __ATOMIC_SEQ_CST))
        sched_yield();
    int error = pthread_mutex_lock(&mutexes[1]);
    printf("waited %d\n", error == EOWNERDEAD);
    pthread_mutex_consistent(&mutexes[1]);
    printf("unlocked %d\n", pthread_mutex_unlock(&mutexes[1]));
    return argument;
}

int main(void)
{
    pthread_mutexattr_t robust;
    pthread_mutexattr_init(&robust);
    pthread_mutexattr_setrobust(&robust, PTHREAD_MUTEX_ROBUST);
    for (int i = 0; i < 2; i++)
        pthread_mutex_init(&mutexes[i], &robust);
    pthread_t threads[2];
    pthread_create(&threads[0], NULL, holder, NULL);
    pthread_create(&threads[1], NULL, waiter, NULL);
    pthread_join(threads[0], NULL);
    pthread_join(threads[1], NULL);
    int error = pthread_mutex_lock(&mutexes[0]);
    printf("not waited %d\n", error == EOWNERDEAD);
    printf("unlocked %d\n", pthread_mutex_unlock(&mutexes[0]));
    printf("not recovered %d\n", pthread_mutex_lock(&mutexes[0]) == ENOTRECOVERABLE);
    printf("size %ld\n", syscall(SYS_set_robust_list, NULL, 8L));
    return 0;
}
