//! The C side between real processes and within one, under AddressSanitizer and
//! UndefinedBehaviorSanitizer, in every progress mode.

mod support;

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, OnceLock};

use rackmem::protocol::Progress;
use support::TestRack;
use support::c::{self, Compiler, SANITIZE};

const SEGMENT_BYTES: u64 = 4 << 20;

#[test]
fn child() {
    if let Some((role, args)) = support::role() {
        assert_eq!(role, "daemon");
        support::be_daemon(&args);
    }
}

fn flags() -> Vec<&'static str> {
    let mut flags = vec!["-Wall", "-Wextra", "-Wpedantic", "-Werror", "-O1"];
    flags.extend(SANITIZE);
    flags
}

/// The program of a source, compiled once.
fn program(source: &'static str) -> PathBuf {
    static PROGRAMS: Mutex<BTreeMap<&str, Arc<OnceLock<PathBuf>>>> = Mutex::new(BTreeMap::new());
    let place = PROGRAMS.lock().unwrap().entry(source).or_default().clone();
    let link = || Compiler::c11().link(&c::source(source), &source.replace(".c", ""), &flags());
    place.get_or_init(link).clone()
}

/// Runs a program on a rack, in a context of its own for each way of progress.
fn each_way(name: &str, nodes: u16, source: &'static str, segment_bytes: u64, args: &[&str]) {
    let rack = TestRack::start(name, nodes);
    let program = program(source);
    for (ctx_id, progress) in (0..).zip(Progress::ALL) {
        rack.rack.create_context(ctx_id, 0o600).unwrap();
        c::run_on_nodes(&rack, ctx_id, progress, segment_bytes, &program, args);
    }
    for nid in 0..nodes {
        let status = rackmem::control::status(&rack.rack, nid).unwrap();
        assert!(status.contexts.is_empty() && status.qps.is_empty(), "{status:?}");
    }
}

#[test]
fn access_library() {
    each_way("access", 2, "access_processes.c", 0, &[]);
}

#[test]
fn operations_on_all_nodes_in_flight_together() {
    each_way("mixture", 3, "access_mixture.c", 0, &[]);
}

#[test]
fn every_opener_says_what_was_wrong_with_the_call() {
    each_way("openers", 1, "openers.c", 1 << 16, &[]);
}

#[test]
fn registered_memory_is_the_memory_that_the_program_has() {
    each_way("registered", 1, "registered.c", 1 << 20, &[]);
}

#[test]
fn messages_and_barriers_of_two() {
    each_way("messages-2", 2, "messaging_processes.c", SEGMENT_BYTES, &["20"]);
}

#[test]
fn messages_and_barriers_of_three() {
    each_way("messages-3", 3, "messaging_processes.c", SEGMENT_BYTES, &["20", "7"]);
}

#[test]
fn send_and_receive_of_queue_pairs() {
    each_way("two-sided", 2, "two_sided_processes.c", SEGMENT_BYTES, &[]);
}

#[test]
fn a_lost_member_is_no_dead_end() {
    each_way("messages-lost", 3, "messaging_processes.c", SEGMENT_BYTES, &["lost"]);
}

/// Everything on one machine without a rack: see `c/loopback.h`.
fn within_one_process(source: &str) {
    let compiler = Compiler::c11();
    let program = c::scratch_dir().join(source.replace(".c", ""));
    let mut arguments = flags();
    arguments.extend(["-pthread", "-o", program.to_str().unwrap()]);
    compiler.compile(&c::source(source), &arguments);
    // A seed, so that every run is the same; and the rest of the time for other tests.
    c::run_alone(&program, &["1", "short"]);
}

#[test]
fn messaging_within_one_process() {
    within_one_process("messaging_loopback.c");
}

#[test]
fn barriers_within_one_process() {
    within_one_process("barrier_loopback.c");
}

/// Counters, queues, lock and counter barrier as they are, under every interleaving of a few processes,
/// and with a death at every point: see `c/interleave.h`. Without sanitizers, which know no coroutines.
#[test]
fn synchronisation_under_every_interleaving() {
    let source = "sync_interleavings.c";
    let program = c::scratch_dir().join("sync_interleavings");
    let arguments =
        ["-Wall", "-Wextra", "-Werror", "-O1", "-U_FORTIFY_SOURCE", "-fno-stack-protector"];
    let output = ["-o", program.to_str().unwrap()];
    Compiler::c11().compile(&c::source(source), &[&arguments[..], &output[..]].concat());
    c::run_alone(&program, &["1", "short"]);
}
