//! Bells: a process cannot wake or block another by its event descriptor.

use crate::support::raw::{self, Raw};
use crate::support::{self, TestRack, eventually};
use rackmem::client::Context;
use rackmem::protocol::Progress;
use std::os::fd::OwnedFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::bystander::StopAtEnd;

const WAKE_UPS: u32 = 50;

/// Threads that compete with the daemon for what is to be read.
const EATERS: usize = 4;

/// Largest count of an event: the next write has to wait.
const FULL: u64 = u64::MAX - 1;

/// Makes reads of the description, which the daemon's descriptor shares, block. Takes away all that there is
/// to read, and wakes all sleepers on it, until it is stopped.
fn abuse(event: &OwnedFd, stop: &AtomicBool) {
    rustix::io::ioctl_fionbio(event, false).unwrap();
    let ring = || _ = rustix::io::write(event, &1u64.to_ne_bytes());
    std::thread::scope(|threads| {
        let eat = || {
            while !stop.load(Ordering::Relaxed) {
                let _ = rustix::io::read(event, &mut [0u8; 8]);
            }
        };
        let eaters: Vec<_> = (0..EATERS).map(|_| threads.spawn(eat)).collect();
        // Enough to get the daemon into a read, if it reads. No more, or that would end it.
        for _ in 0..WAKE_UPS {
            ring();
            std::thread::sleep(Duration::from_micros(300));
        }
        while !stop.load(Ordering::Relaxed) {
            std::thread::sleep(Duration::from_millis(1));
        }
        while !eaters.iter().all(|eater| eater.is_finished()) {
            ring();
            std::thread::yield_now();
        }
    });
}

/// Leaves the description as full as it can be: the next write waits.
fn fill(event: &OwnedFd) {
    rustix::io::ioctl_fionbio(event, true).unwrap();
    let _ = rustix::io::read(event, &mut [0u8; 8]);
    rustix::io::write(event, &FULL.to_ne_bytes()).unwrap();
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
    let stop = AtomicBool::new(false);
    let (raw, [_segment, _flag, event]) = Raw::member(&rack.rack, 0, 0, 0);
    std::thread::scope(|threads| {
        threads.spawn(|| abuse(&event, &stop));
        let _stop = StopAtEnd(&stop);
        works_after_sleep(&context);
        assert_eq!(raw::status(&rack.rack, 0).nid, 0);
    });
    fill(&event);
    works_after_sleep(&context);
    // It keeps its bell, which rings no more.
    drop(raw);
    eventually("the process is gone", || raw::status(&rack.rack, 0).contexts[0].clients == 1);
    works_after_sleep(&context);
    let mut daemon = rack.daemons[0].take().unwrap();
    // SAFETY: signals a child of this process.
    unsafe { libc::kill(daemon.id() as libc::pid_t, libc::SIGTERM) };
    support::wait(&mut daemon);
}
