//! Hostile clients: whatever they send or write, the daemon lives, the other clients' operations
//! stay right, and no memory outside the hostile client's own contexts is read or changed.

#[path = "../support/mod.rs"]
mod support;

mod attach;
mod bells;
mod bystander;
mod descriptors;
mod links;
mod locks;
mod queues;
#[path = "../../../../tests/seeds.rs"]
mod seeds;

use std::process::Child;
use std::time::{Duration, Instant};
use support::{BOUND, TestRack};

#[test]
fn child() {
    let Some((role, args)) = support::role() else { return };
    match role.as_str() {
        "daemon" => support::be_daemon(&args),
        "poor-daemon" => attach::be_poor_daemon(&args),
        "poster" => queues::be_poster(&args),
        "locker" => locks::be_locker(&args),
        "stranger" => descriptors::be_stranger(&args),
        "other-user" => descriptors::be_other_user(&args),
        _ => panic!("no role {role}"),
    }
}

/// Starts this binary in a role, on a rack.
fn start(rack: &TestRack, role: &str, args: &str) -> Child {
    std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture"])
        .env("RACKMEM_TEST_ROLE", role)
        .env("RACKMEM_TEST_ARGS", args)
        .env("RACKMEM_RACK", rack.rack.name())
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap()
}

/// Waits for a child to end, in bounded time.
fn wait(mut child: Child) -> std::process::ExitStatus {
    let deadline = Instant::now() + 3 * BOUND;
    loop {
        if let Some(status) = child.try_wait().unwrap() {
            return status;
        }
        if Instant::now() > deadline {
            let _ = child.kill();
            let _ = child.wait();
            panic!("a child hangs");
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// A small generator, for children that get a seed.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, n: u64) -> u64 {
        (self.next() >> 8) % n
    }
}

// Well-behaved clients that share the daemons with hostile ones -----------------------------------
