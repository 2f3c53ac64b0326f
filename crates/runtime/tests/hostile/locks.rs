//! Line locks that are never given back.

use crate::support::raw::{self, Raw};
use crate::support::{BOUND, TestRack, eventually};
use rackmem::client::Context;
use rackmem::protocol::{Progress, Request, Response};
use rackmem::rack::Rack;
use rackmem::shm::line_lock::{BLOCK_BYTES, LOCK_COUNT, TICKET_SHIFT};
use rackmem::shm::mapping::Access;
use rackmem::shm::segment::{LOCKS_AT, Segment};
use std::os::fd::AsFd;
use std::process::Child;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use crate::start;

/// The role `locker`: takes every line lock of node 1's segment and keeps it.
pub(crate) fn be_locker(_: &[String]) {
    let rack = Rack::named(None).unwrap();
    let raw = Raw::connect(&rack, 0);
    raw.hello();
    let file = rack.open_context(0, false).unwrap();
    let open = Request::Open { ctx_id: 0, segment_bytes: 0, shared: true };
    let Some(got) = raw.call(&open, &[file.as_fd()]) else { panic!("no answer") };
    let Response::Opened { owner, .. } = got.message else { panic!("{:?}", got.message) };
    let got = raw.call(&Request::Peer { nid: 1 }, &[]).unwrap();
    let fd = got.fds.into_iter().next().expect("node 1 has joined");
    let segment = Segment::open(fd, Access::ReadWrite).unwrap();
    let base = segment.mapping().base();
    for index in 0..LOCK_COUNT {
        // SAFETY: the lock, of two words, lies in the mapping before the data.
        let [taken, done] = unsafe { &*base.add(LOCKS_AT + 16 * index).cast::<[AtomicU64; 2]>() };
        let ticket = done.load(Ordering::SeqCst) + 1;
        taken.store(ticket << TICKET_SHIFT | u64::from(owner), Ordering::SeqCst);
    }
    // SAFETY: the first word of the segment.
    unsafe { &*segment.data().cast::<AtomicU64>() }.store(1, Ordering::SeqCst);
    // SAFETY: stops this process.
    unsafe { libc::raise(libc::SIGSTOP) };
}

/// Starts a locker; returns when it has all locks and is stopped.
fn start_locker(rack: &TestRack, target: &Context) -> Child {
    target.word(0).unwrap().store(0, Ordering::SeqCst);
    let locker = start(rack, "locker", "");
    eventually("the locks are taken", || target.word(0).unwrap().load(Ordering::SeqCst) == 1);
    locker
}

#[test]
fn a_lock_that_is_never_given_back_delays_but_does_not_block() {
    let rack = TestRack::start("locker", 2);
    rack.rack.create_context(0, 0o600).unwrap();
    rack.rack.create_context(1, 0o600).unwrap();
    const BYTES: u64 = 64 * BLOCK_BYTES;
    let contexts = rack.open_all_shared(0, BYTES, Progress::Inline);
    for progress in Progress::ALL {
        let options = rack.options(0, 0).progress(progress).shared(true);
        let client = Context::open(&options).unwrap();
        let mut qp = client.queue_pair(4).unwrap();
        qp.write(1, 0, &[0]).unwrap();
        let mut locker = start_locker(&rack, &contexts[1]);
        for (what, block) in [("a write", 10u64), ("a read", 20), ("an atomic", 30)] {
            let start = Instant::now();
            match what {
                "a write" => qp.write(1, block * BLOCK_BYTES, &[1]).unwrap(),
                "a read" => qp.read(1, block * BLOCK_BYTES, &mut [0]).unwrap(),
                _ => _ = qp.fetch_add(1, block * BLOCK_BYTES, 1).unwrap(),
            }
            eprintln!("{what} past a stopped owner, {}: {:?}", progress.name(), start.elapsed());
            assert!(start.elapsed() < BOUND);
        }
        // Once the owner is dead, all its locks are free: 60 blocks do not take 60 times as long.
        let start = Instant::now();
        locker.kill().unwrap();
        locker.wait().unwrap();
        eventually("the locker is gone", || {
            raw::status(&rack.rack, 0).contexts.iter().any(|c| c.ctx_id == 0 && c.clients == 2)
        });
        qp.write(1, 0, &[1; BYTES as usize]).unwrap();
        eprintln!("everything past a dead owner, {}: {:?}", progress.name(), start.elapsed());
        assert!(start.elapsed() < BOUND);
    }
}
