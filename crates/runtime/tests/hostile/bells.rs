//! Bells: what a process does with its event descriptor wakes and blocks nobody else.

use crate::support::raw::{self, Raw};
use crate::support::{self, TestRack, eventually};
use rackmem::client::Context;
use rackmem::protocol::Progress;
use std::os::fd::OwnedFd;
use std::time::Duration;

/// Largest count of an event: the next write has to wait.
const FULL: u64 = u64::MAX - 1;

/// What one process can do to the description that it shares with the daemon: let reads of it wait,
/// wake who sleeps on it, and take away what there is to read.
fn abuse(event: &OwnedFd) {
    rustix::io::ioctl_fionbio(event, true).unwrap();
    let _ = rustix::io::write(event, &FULL.to_ne_bytes());
    let _ = rustix::io::read(event, &mut [0u8; 8]);
    for _ in 0..10 {
        let _ = rustix::io::write(event, &1u64.to_ne_bytes());
        let _ = rustix::io::read(event, &mut [0u8; 8]);
        rustix::io::ioctl_fionbio(event, false).unwrap();
        std::thread::yield_now();
        rustix::io::ioctl_fionbio(event, true).unwrap();
    }
    rustix::io::ioctl_fionbio(event, false).unwrap();
}

/// The worker is given time to fall asleep, so that it has to be woken each time.
fn works_after_sleep(context: &Context) {
    let mut qp = context.queue_pair(4).unwrap();
    for round in 0..20u8 {
        std::thread::sleep(Duration::from_millis(2));
        qp.write(0, 0, &[round]).unwrap();
    }
}

#[test]
fn a_bell_cannot_be_muffled_and_the_end_still_comes() {
    let mut rack = TestRack::start("bells", 1);
    rack.rack.create_context(0, 0o600).unwrap();
    let options = rack.options(0, 0).segment_bytes(4096).progress(Progress::Daemon);
    let context = Context::open(&options.shared(true)).unwrap();
    let stop = std::sync::atomic::AtomicBool::new(false);
    let (raw, [_segment, _flag, event]) = Raw::member(&rack.rack, 0, 0, 0);
    std::thread::scope(|threads| {
        threads.spawn(|| {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                abuse(&event);
                // The daemon, having waked up, finds nothing and a description that lets it wait.
                std::thread::sleep(Duration::from_micros(500));
            }
        });
        works_after_sleep(&context);
        assert_eq!(raw::status(&rack.rack, 0).nid, 0);
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
    });
    // It keeps its bell, and rings it no more.
    abuse(&event);
    drop(raw);
    eventually("the process is gone", || raw::status(&rack.rack, 0).contexts[0].clients == 1);
    works_after_sleep(&context);
    let mut daemon = rack.daemons[0].take().unwrap();
    // SAFETY: signals a child of this process.
    unsafe { libc::kill(daemon.id() as libc::pid_t, libc::SIGTERM) };
    support::wait(&mut daemon);
}
