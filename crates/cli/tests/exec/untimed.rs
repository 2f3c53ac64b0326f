//! Programs whose caches matter while they are executed without timing: copies of borrowed memory are not coherent, and
//! programs drive them out by what they touch.

use super::{compiled, rackmem, text};

/// Node 0 stores to memory that node 1 lends, and drives it out: in the way that its argument names.
const DRIVEN_OUT: &[u8] = br#"
#include <inttypes.h>
#include <pthread.h>
#include <rackmem/region.h>
#include <stdio.h>
#include <stdlib.h>
#include <window.h>
enum { LLC_WORDS = (64 << 10) / 8, DATA = 64 };
static volatile uint64_t own[2][4 * LLC_WORDS], *borrowed, *lent;
static volatile uint64_t to[8] __attribute__((aligned(64)));
static volatile int done;
static void drive_out(int who)
{
    __atomic_thread_fence(__ATOMIC_SEQ_CST);
    for (int i = 0; i < 8 * LLC_WORDS; i += 8)
        (void)own[who][i % (4 * LLC_WORDS)];
}
static void compute(int count)
{
    for (int i = 0; i < count; i++)
        own[0][i % 64] = i;
}
static void *work(void *x)
{
    for (int i = 0; i < DATA; i++)
        borrowed[DATA + i] = i + 1;
    drive_out(1);
    __atomic_store_n(&done, 1, __ATOMIC_RELEASE);
    while (done != 2)
        ;
    return x;
}
static int lender(void)
{
    uint64_t old = 0;
    while (lent[0] != 42)
        ;
    for (int i = 0; i < DATA; i++)
        old += lent[DATA + i] != (uint64_t)i + 1;
    printf("%" PRIu64 " words are old\n", old);
    borrowed[0] = 43;
    drive_out(0);
    return 0;
}
static int copy(void)
{
    window_engine engine;
    borrowed[0] = 42;
    compute(40000);
    drive_out(0);
    if (window_open_engine(&engine) != 0)
        return 1;
    int64_t posted = window_copy((void *)to, (void *)borrowed, 64, 64);
    while (*(volatile uint64_t *)engine.done < (uint64_t)posted)
        ;
    printf("copied %" PRIu64 "\n", to[0]);
    return posted < 0;
}
int main(int count, char **args)
{
    int way = atoi(args[1]), node = atoi(getenv("RACKMEM_NODE"));
    window_memory b, l;
    pthread_t thread;
    if (count < 2 || window_borrow(&b) != 0 || window_lent(&l) != 0)
        return 1;
    borrowed = (void *)b.address;
    lent = (void *)l.address;
    if (node == 1)
        return way == 2 ? 0 : lender();
    if (way == 2)
        return copy();
    if (way == 1) {
        pthread_create(&thread, NULL, work, NULL);
        while (!__atomic_load_n(&done, __ATOMIC_ACQUIRE))
            ;
    } else {
        for (int i = 0; i < DATA; i++)
            borrowed[DATA + i] = i + 1;
    }
    drive_out(0);
    rackmem_region_begin();
    borrowed[0] = 42;
    rackmem_region_end();
    compute(30000);
    drive_out(0);
    while (lent[0] != 43)
        ;
    puts("told");
    done = 2;
    return way == 1 && pthread_join(thread, NULL);
}
"#;

#[test]
fn what_a_program_drives_out_is_at_the_lender() {
    let Some(dir) = compiled("out", DRIVEN_OUT) else { return };
    let said = |way: &str, forward: &[&str]| {
        let small = ["llc.size_bytes=64K", "l1.size_bytes=8K", "memory.size_bytes=128M"];
        let mut args = vec!["sim", "exec", "tsm-sim", "-n", "2", "--max-instructions", "20M"];
        args.extend(small.iter().flat_map(|setting| ["--set", setting]));
        args.extend(forward);
        args.extend(["--", "out.rv64", way]);
        let done = rackmem(dir.path(), &args);
        let said = text(&done.stdout);
        let mut lines: Vec<String> = said.lines().map(str::to_owned).collect();
        lines.sort_unstable();
        (lines, text(&done.stderr))
    };
    for (way, expected) in [
        ("0", &["[0] told", "[1] 0 words are old"][..]),
        ("1", &["[0] told", "[1] 0 words are old"]),
        ("2", &["[0] copied 42"]),
    ] {
        let places = (100_000..400_000).step_by(30_000).map(|place| place.to_string());
        for place in places.chain(["region", "1G"].map(str::to_owned)) {
            let (lines, errors) = said(way, &["--fast-forward", &place]);
            assert_eq!(lines, expected, "{way} {place}: {errors}");
        }
        assert_eq!(said(way, &[]).0, expected, "{way}");
    }
}

/// A thread touches more and more memory while another one calls the operating system.
const STREAM: &[u8] = br#"
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include <window.h>
static volatile uint64_t own[1 << 19];
static volatile int begun, ends;
static void *stream(void *x)
{
    begun = 1;
    while (!ends)
        for (int i = 0; i < 1 << 19; i += 8)
            (void)own[i];
    return x;
}
int main(void)
{
    pthread_t thread;
    window_memory b;
    if (window_borrow(&b) != 0)
        return 1;
    if (atoi(getenv("RACKMEM_NODE")) != 0)
        return 0;
    pthread_create(&thread, NULL, stream, NULL);
    while (!begun)
        ;
    getppid();
    *(volatile uint64_t *)b.address = 1;
    ends = 1;
    puts("ends");
    return pthread_join(thread, NULL);
}
"#;

#[test]
fn a_core_that_touches_much_holds_no_other_one_up() {
    let Some(dir) = compiled("stream", STREAM) else { return };
    for machine in ["tsm-sim", "deoi-cores"] {
        let small = ["--set", "memory.size_bytes=128M", "--set", "window.lent_bytes=16M"];
        let args = [&["sim", "exec", machine, "-n", "2"][..], &small].concat();
        let forward = ["--fast-forward", "1G", "--max-cycles", "40M", "--", "stream.rv64"];
        let done = rackmem(dir.path(), &[&args[..], &forward].concat());
        assert_eq!(text(&done.stdout), "[0] ends\n", "{machine}: {}", text(&done.stderr));
    }
}

/// A program that reads borrowed memory after much of its own, and then again in the region.
const READ_LAST: &[u8] = br#"
#include <inttypes.h>
#include <rackmem/region.h>
#include <stdio.h>
#include <stdlib.h>
#include <window.h>
static volatile uint64_t own[1 << 19];
int main(void)
{
    window_memory b;
    uint64_t begin, end;
    if (atoi(getenv("RACKMEM_NODE")) != 0)
        return 0;
    if (window_borrow(&b) != 0)
        return 1;
    volatile uint64_t *borrowed = (void *)b.address;
    for (int i = 0; i < 1 << 19; i += 8)
        own[i] = i;
    for (int i = 0; i < 3 * 2048; i += 8)
        (void)borrowed[i % 2048];
    rackmem_region_begin();
    __asm__ volatile("rdcycle %0" : "=r"(begin));
    for (int i = 0; i < 2048; i += 8)
        (void)borrowed[i];
    __asm__ volatile("rdcycle %0" : "=r"(end));
    rackmem_region_end();
    printf("%" PRIu64 "\n", (end - begin) / 256);
    return 0;
}
"#;

#[test]
fn borrowed_memory_that_was_read_last_is_in_the_caches() {
    let Some(dir) = compiled("last", READ_LAST) else { return };
    let cycles = |forward: &[&str]| {
        let machine = ["sim", "exec", "tsm-sim", "-n", "2", "--set", "memory.size_bytes=128M"];
        let done = rackmem(dir.path(), &[&machine[..], forward, &["--", "last.rv64"]].concat());
        let said = text(&done.stdout);
        said.trim_start_matches("[0] ").trim_end().parse::<u64>().expect(&said)
    };
    assert!(cycles(&[]) < 8);
    assert!(cycles(&["--fast-forward", "region"]) < 8);
}

/// A thread that looks for its signal again and again, which comes while the caches are warmed.
const TOLD: &[u8] = br#"
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/time.h>
static volatile int told;
static volatile uint64_t touched[1 << 17];
static void handler(int signal) { told = signal; }
int main(void)
{
    signal(SIGALRM, handler);
    for (int i = 0; i < 1 << 17; i += 8)
        touched[i] = i;
    struct itimerval alarm = {{0, 0}, {0, 100}};
    setitimer(ITIMER_REAL, &alarm, NULL);
    while (!told)
        ;
    puts("told");
    return 0;
}
"#;

#[test]
fn a_signal_that_comes_at_a_change_of_pace_is_handled() {
    let Some(dir) = compiled("told", TOLD) else { return };
    for after in (100_000..300_000).step_by(10_000) {
        let after = after.to_string();
        let args = ["sim", "exec", "sonuma", "--max-cycles", "20M", "--fast-forward", &after];
        let done = rackmem(dir.path(), &[&args[..], &["--", "told.rv64"]].concat());
        assert_eq!(text(&done.stdout), "told\n", "after {after}: {}", text(&done.stderr));
    }
}
