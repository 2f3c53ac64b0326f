//! Signals between threads that run at the same time.

use super::{compiled, rackmem, text};

/// Threads compute until others tell them by signals to end.
const SPINNING: &[u8] = br#"
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <unistd.h>
static volatile sig_atomic_t begun, told;
static void handler(int signal) { told = signal; }
static void *spin(void *asynchronous)
{
    if (asynchronous) pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
    begun = 1;
    while (asynchronous || !told)
        ;
    return "told";
}
static void *kill_process(void *x)
{
    kill(getpid(), SIGUSR2);
    return x;
}
int main(void)
{
    pthread_t thread;
    void *result;
    signal(SIGUSR1, handler);
    signal(SIGUSR2, handler);
    pthread_create(&thread, NULL, spin, NULL);
    while (!begun)
        ;
    pthread_kill(thread, SIGUSR1);
    pthread_join(thread, &result);
    printf("%s, %d\n", (char *)result, (int)told);

    begun = 0;
    pthread_create(&thread, NULL, spin, "asynchronous");
    while (!begun)
        ;
    pthread_cancel(thread);
    pthread_join(thread, &result);
    printf("cancelled %d\n", result == PTHREAD_CANCELED);

    sigset_t mask, old;
    sigemptyset(&mask);
    sigaddset(&mask, SIGUSR2);
    pthread_sigmask(SIG_BLOCK, &mask, &old);
    pthread_create(&thread, NULL, kill_process, NULL);
    pthread_sigmask(SIG_SETMASK, &old, NULL);
    while (told != SIGUSR2)
        ;
    pthread_join(thread, NULL);
    printf("process told %d\n", (int)told);
    return 0;
}
"#;

#[test]
fn a_thread_that_computes_is_told_at_once() {
    let Some(dir) = compiled("spinning", SPINNING) else { return };
    // Each thread has a core, they take turns on one, and without timing.
    let chip = ["manycore-ni", "--set", "tiles.columns=2", "--set", "memory.controllers=8"];
    let fast = ["--fast-forward", "1G", "--max-cycles", "100M"];
    for machine in [
        &["cache-integrated", "--max-cycles", "10M"][..],
        &["sonuma", "--max-cycles", "50M"],
        &[&chip[..], &fast].concat(),
        &["--functional", "--max-instructions", "100M"],
    ] {
        let args = [&["sim", "exec"], machine, &["spinning.rv64"]].concat();
        let done = rackmem(dir.path(), &args);
        let printed = "told, 10\ncancelled 1\nprocess told 12\n";
        assert_eq!(text(&done.stdout), printed, "{machine:?}: {}", text(&done.stderr));
    }
}
