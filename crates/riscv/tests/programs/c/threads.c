/* Four threads: atomics, a mutex, a barrier, a condition variable, thread-local variables. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum { THREADS = 4, ROUNDS = 5000 };

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static pthread_barrier_t barrier;
static long guarded;
static atomic_long counted;
static atomic_int highest;
static int ready;
static _Thread_local long mine;

static void raise_highest(int value)
{
    int seen = atomic_load(&highest);
    while (seen < value && !atomic_compare_exchange_weak(&highest, &seen, value))
        ;
}

static void *work(void *argument)
{
    long id = (long)argument;
    for (int i = 0; i < ROUNDS; i++) {
        atomic_fetch_add(&counted, 1);
        raise_highest((int)id * ROUNDS + i);
        pthread_mutex_lock(&lock);
        guarded += id;
        mine++;
        pthread_mutex_unlock(&lock);
    }
    pthread_barrier_wait(&barrier);
    pthread_mutex_lock(&lock);
    while (!ready)
        pthread_cond_wait(&changed, &lock);
    pthread_mutex_unlock(&lock);
    return (void *)mine;
}

int main(void)
{
    pthread_t threads[THREADS];
    long total = 0;
    pthread_barrier_init(&barrier, NULL, THREADS + 1);
    for (long i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, work, (void *)(i + 1)))
            return 1;
    pthread_barrier_wait(&barrier);
    pthread_mutex_lock(&lock);
    ready = 1;
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&lock);
    for (int i = 0; i < THREADS; i++) {
        void *result;
        pthread_join(threads[i], &result);
        total += (long)result;
    }
    printf("%ld %ld %ld %d\n", guarded, (long)counted, total, highest);
    return 0;
}
