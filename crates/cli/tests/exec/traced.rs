//! Traces of programs.

use std::fs;

use tempfile::TempDir;

use super::{compiled, on_sonuma, prebuilt, text, traces};

#[test]
fn a_trace_has_the_messages_of_every_node() {
    let dir = TempDir::new().unwrap();
    let hello = prebuilt().join("hello.rv64");
    let args = ["-n", "2", "--trace", "trace.json", hello.to_str().unwrap()];
    on_sonuma(dir.path(), &args);
    let events = traces::checked_trace(&dir.path().join("trace.json"));
    for node in [0, 1] {
        let begins = |event: &&serde_json::Value| event["ph"] == "b" && event["pid"] == node;
        assert!(events.iter().filter(begins).count() > 20, "node {node}");
    }
    assert!(events.iter().any(|event| event["ph"] == "f"));
    let args = ["--trace", "x.json", "--trace-window", "900ms..901ms", hello.to_str().unwrap()];
    let done = on_sonuma(dir.path(), &args);
    assert!(text(&done.stderr).contains("nothing to trace"), "{}", text(&done.stderr));
}

#[test]
fn a_file_that_cannot_be_written_is_refused_before_the_program_is_executed() {
    let dir = TempDir::new().unwrap();
    let hello = prebuilt().join("hello.rv64");
    for option in ["--trace", "--report"] {
        let done = on_sonuma(dir.path(), &[option, "no/where", hello.to_str().unwrap()]);
        let complaint = text(&done.stderr);
        assert_eq!(done.status.code(), Some(1), "{option}: {complaint}");
        assert!(complaint.contains("cannot write no/where: No such file"), "{option}: {complaint}");
        assert_eq!(text(&done.stdout), "", "{option}");
    }
}

/// A program whose functions are called as often as it says: directly, by recursion, in a handler, on two threads, and
/// left by `longjmp`.
const CALLS: &[u8] = br#"
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdio.h>
#include <time.h>
#include <rackmem/region.h>
#define KEPT __attribute__((noinline, noclone))
static jmp_buf back;
static volatile int total;
KEPT void leaf(int count) { total += count; }
KEPT void deep(int count) { if (count == 0) longjmp(back, 1); deep(count - 1); total++; }
KEPT void jumps(void) { if (setjmp(back) == 0) deep(5); leaf(1); }
KEPT void handler(int signal) { leaf(signal); }
void *worker(void *x)
{
    struct timespec time = {0, 2000};
    for (int i = 0; i < 3; i++) leaf(i);
    nanosleep(&time, NULL);
    return x;
}
int main(void)
{
    pthread_t thread;
    signal(SIGUSR1, handler);
    rackmem_region_begin();
    for (int i = 0; i < 10; i++) leaf(i);
    rackmem_region_end();
    jumps();
    raise(SIGUSR1);
    pthread_create(&thread, NULL, worker, NULL);
    leaf(0);
    pthread_join(thread, NULL);
    printf("%d\n", total);
    return 0;
}
"#;

#[test]
fn a_trace_shows_the_threads_of_a_program() {
    let Some(dir) = compiled("calls", CALLS) else { return };
    let alone = on_sonuma(dir.path(), &["--report", "alone.json", "calls.rv64"]);
    let trace = ["--trace", "trace.json", "--trace-window", "0us..100us"];
    let args = [&["--report", "report.json"], &trace[..], &["calls.rv64"]].concat();
    let done = on_sonuma(dir.path(), &args);
    assert_eq!((&done.status, &done.stdout), (&alone.status, &alone.stdout), "{done:?}");
    let [report, without] =
        ["report.json", "alone.json"].map(|name| fs::read(dir.path().join(name)).unwrap());
    assert!(report == without, "it changes nothing");
    let events = traces::checked_trace(&dir.path().join("trace.json"));
    let count = |category: &str, name: &str| {
        let wanted = |event: &&serde_json::Value| event["cat"] == category && event["name"] == name;
        events.iter().filter(wanted).count()
    };
    // Ten in the region, and one each after the jump, in the handler and beside the three of the other thread.
    for (function, times) in
        [("leaf", 16), ("deep", 6), ("jumps", 1), ("handler", 1), ("worker", 1), ("main", 1)]
    {
        assert_eq!(count("function", function), times, "{function}");
    }
    for (call, times) in [("tgkill", 1), ("rt_sigreturn", 1), ("exit", 1), ("exit_group", 1)] {
        assert_eq!(count("call", call), times, "{call}");
    }
    assert_eq!((count("handler", "signal"), count("region", "region of interest")), (1, 2));
    assert!(count("wait", "asleep") >= 2 && count("wait", "waits for its turn") >= 1);
    assert!(count("turn", "thread 1000") >= 2 && count("turn", "thread 1001") >= 2);
    assert!(count("flow", "cause") > 100 && count("core", "core 0: instructions per cycle") > 100);
    let is_late = |event: &serde_json::Value| event["ts"].as_f64().is_some_and(|us| us >= 100.0);
    let begins = events.iter().filter(|event| event["ph"] != "e" && event["ph"] != "f");
    assert!(begins.filter(|event| event["cat"] != "gets").all(|event| !is_late(event)));
}
