//! Processes that are killed: peers get errors in bounded time, what was held is given back, and a
//! restart works.

mod support;

use std::time::{Duration, Instant};

use rackmem::Status;
use rackmem::client::Context;
use rackmem::protocol::Progress;
use support::{BOUND, TestRack, eventually};

const SEGMENT_BYTES: u64 = 256 * 1024;

#[test]
fn child() {
    match support::role() {
        Some((role, args)) if role == "daemon" => support::be_daemon(&args),
        Some((role, args)) if role == "writer" => be_writer(&args),
        Some((role, _)) => panic!("no role {role}"),
        None => {}
    }
}

/// Node 1: writes lines of one value to all of node 0's segment, for ever.
fn be_writer(args: &[String]) {
    let (ctx_id, progress) = (args[0].parse().unwrap(), Progress::from_name(&args[1]).unwrap());
    let options = rackmem::client::OpenOptions::from_env().unwrap();
    let options = options.node(1).context(ctx_id).progress(progress).segment_bytes(SEGMENT_BYTES);
    let context = Context::open(&options).unwrap();
    context.wait_joined(0, Some(Instant::now() + BOUND)).unwrap();
    let mut qp = context.queue_pair(64).unwrap();
    let mut lines = context.buffer(SEGMENT_BYTES as usize).unwrap();
    for round in 0u64.. {
        for line in lines.chunks_mut(64) {
            line.fill(round as u8);
        }
        let written = qp.write(0, 0, &lines);
        context.word(0).unwrap().store(round, std::sync::atomic::Ordering::Release);
        if written.is_err() {
            return;
        }
    }
}

/// Node 0 of a context, and a writer at node 1 that is at work.
fn with_writer(rack: &TestRack, ctx_id: u16, progress: Progress) -> (Context, std::process::Child) {
    let options = rack.options(0, ctx_id).segment_bytes(SEGMENT_BYTES).progress(progress);
    let context = Context::open(&options).unwrap();
    let writer = spawn_writer(rack, ctx_id, progress);
    // The node's last process may have died: that is told at once.
    eventually("the writer has joined", || context.wait_joined(1, Some(Instant::now())).is_ok());
    (context, writer)
}

fn spawn_writer(rack: &TestRack, ctx_id: u16, progress: Progress) -> std::process::Child {
    std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture"])
        .env("RACKMEM_TEST_ROLE", "writer")
        .env("RACKMEM_TEST_ARGS", format!("{ctx_id} {}", progress.name()))
        .env("RACKMEM_RACK", rack.rack.name())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap()
}

/// Reads node 1's round counter until it moves.
fn wait_at_work(qp: &mut rackmem::client::QueuePair) {
    let mut read = || {
        let mut word = [0; 8];
        qp.read(1, 0, &mut word).map(|()| u64::from_ne_bytes(word))
    };
    let before = read();
    eventually("the writer is at work", || read().is_ok() && read() != before);
}

#[test]
fn a_killed_client_is_lost_and_a_new_one_works() {
    let rack = TestRack::start("killed-client", 2);
    for (ctx_id, progress) in (0..).zip(Progress::ALL) {
        rack.rack.create_context(ctx_id, 0o600).unwrap();
        let (context, mut writer) = with_writer(&rack, ctx_id, progress);
        let mut qp = context.queue_pair(16).unwrap();
        wait_at_work(&mut qp);
        assert_eq!(context.losses(), 0);
        writer.kill().unwrap();
        writer.wait().unwrap();
        let mut byte = [0; 8];
        eventually("reads of the killed node fail", || qp.read(1, 0, &mut byte).is_err());
        let after = qp.read(1, 0, &mut byte);
        assert_eq!(after, Err(Status::NodeLost), "{}", progress.name());
        // Whatever the killed process had locked can be written again.
        let all = vec![1; SEGMENT_BYTES as usize];
        qp.write(0, 0, &all).unwrap();
        let mut again = spawn_writer(&rack, ctx_id, progress);
        eventually("the new client is there", || qp.read(1, 0, &mut byte).is_ok());
        wait_at_work(&mut qp);
        let losses = context.losses();
        assert!(losses > 0);
        again.kill().unwrap();
        again.wait().unwrap();
        eventually("the loss is counted", || context.losses() > losses);
    }
}

/// Kills at many different moments, so that some of them fall between lock and unlock.
#[test]
fn no_lock_outlives_its_process() {
    let rack = TestRack::start("locks", 2);
    rack.rack.create_context(0, 0o600).unwrap();
    let options = rack.options(0, 0).segment_bytes(SEGMENT_BYTES);
    let context = Context::open(&options).unwrap();
    let mut qp = context.queue_pair(4).unwrap();
    for round in 0..15u32 {
        let mut writer = spawn_writer(&rack, 0, Progress::Inline);
        let mut word = [0; 8];
        eventually("the writer is there", || qp.read(1, 0, &mut word).is_ok());
        wait_at_work(&mut qp);
        std::thread::sleep(Duration::from_micros(u64::from(round) * 137));
        writer.kill().unwrap();
        writer.wait().unwrap();
        qp.write(0, 0, &vec![round as u8; SEGMENT_BYTES as usize]).unwrap();
        eventually("the writer is gone", || qp.read(1, 0, &mut word).is_err());
    }
}

#[test]
fn a_node_that_leaves_answers_no_context() {
    let rack = TestRack::start("leaving", 2);
    for (ctx_id, progress) in (0..).zip(Progress::ALL) {
        rack.rack.create_context(ctx_id, 0o600).unwrap();
        let mut contexts = rack.open_all(ctx_id, 4096, progress);
        let mut qp = contexts[0].queue_pair(4).unwrap();
        qp.write(1, 0, &[1]).unwrap();
        drop(contexts.pop());
        assert_eq!(qp.write(1, 0, &[1]), Err(Status::NoContext), "{}", progress.name());
        assert_eq!(contexts[0].losses(), 0);
    }
}

#[test]
fn a_killed_daemon_is_lost_and_can_be_restarted() {
    let mut rack = TestRack::start("killed-daemon", 3);
    for (ctx_id, progress) in (0..).zip(Progress::ALL) {
        rack.rack.create_context(ctx_id, 0o600).unwrap();
        let contexts = rack.open_all(ctx_id, SEGMENT_BYTES, progress);
        let mut qps: Vec<_> = contexts.iter().map(|c| c.queue_pair(8).unwrap()).collect();
        let mut bytes = vec![0; SEGMENT_BYTES as usize];
        qps[0].read(1, 0, &mut bytes).unwrap();
        rack.kill_daemon(1);
        let eventually_fails = |qp: &mut rackmem::client::QueuePair, nid, what: &str| {
            let mut byte = [0];
            let start = Instant::now();
            let status = loop {
                match qp.read(nid, 0, &mut byte) {
                    Ok(()) => assert!(start.elapsed() < BOUND, "{what}: {}", progress.name()),
                    Err(status) => break status,
                }
            };
            assert_eq!(status, Status::NodeLost, "{what}: {}", progress.name());
        };
        eventually_fails(&mut qps[0], 1, "a peer reads the lost node");
        eventually_fails(&mut qps[1], 2, "a client of the lost node reads a peer");
        qps[0].read(2, 0, &mut bytes).expect("the others go on");
        drop(qps);
        drop(contexts);
        rack.start_daemon(1);
        rack.wait_linked();
    }
    // The rack that was put together again works.
    rack.rack.create_context(9, 0o600).unwrap();
    let contexts = rack.open_all(9, 4096, Progress::Packet);
    contexts[2].queue_pair(4).unwrap().write(1, 0, b"back").unwrap();
    let mut got = [0; 4];
    contexts[1].read_own(0, &mut got).unwrap();
    assert_eq!(&got, b"back");
}

#[test]
fn operations_under_way_complete_when_the_daemon_dies() {
    for progress in [Progress::Daemon, Progress::Packet] {
        let mut rack = TestRack::start(&format!("under-way-{}", progress.name()), 2);
        rack.rack.create_context(0, 0o600).unwrap();
        let contexts = rack.open_all(0, SEGMENT_BYTES, progress);
        for victim in [1, 0] {
            let mut qp = contexts[0].queue_pair(64).unwrap();
            let mut buffer = contexts[0].buffer(64 * 4096).unwrap();
            std::thread::scope(|threads| {
                let reader = threads.spawn(|| {
                    loop {
                        let done = qp.scope(|scope| {
                            for page in buffer.chunks_mut(4096) {
                                scope.read(1, 0, page);
                            }
                        });
                        if let Err(status) = done {
                            return status;
                        }
                    }
                });
                std::thread::sleep(Duration::from_millis(30));
                rack.kill_daemon(victim);
                assert_eq!(reader.join().unwrap(), Status::NodeLost, "{}", progress.name());
            });
            if victim == 1 {
                rack.start_daemon(1);
                rack.wait_linked();
                let options = rack.options(1, 0).segment_bytes(SEGMENT_BYTES).progress(progress);
                let back = Context::open(&options).unwrap();
                let joined = Instant::now() + BOUND;
                contexts[0].wait_joined(1, Some(joined)).unwrap();
                std::mem::forget(back);
            }
        }
    }
}

#[test]
fn a_sleeper_learns_of_the_loss_of_whom_it_waits_for() {
    let mut rack = TestRack::start("sleeper", 2);
    rack.rack.create_context(0, 0o600).unwrap();
    let (context, mut writer) = with_writer(&rack, 0, Progress::Daemon);
    let deadline = Some(Instant::now() + BOUND);
    std::thread::scope(|threads| {
        let waits = threads.spawn(|| context.sleep_until(&mut || false, Some(1), deadline));
        std::thread::sleep(Duration::from_millis(60));
        writer.kill().unwrap();
        writer.wait().unwrap();
        let error = waits.join().unwrap().unwrap_err();
        assert_eq!(error.errno(), 112, "{error}");
        let waits = threads.spawn(|| context.sleep_until(&mut || false, None, deadline));
        rack.kill_daemon(0);
        let error = waits.join().unwrap().unwrap_err();
        assert_eq!(error.errno(), 112, "{error}");
    });
}

#[test]
fn a_daemon_gives_back_all_that_dead_clients_had() {
    let rack = TestRack::start("reclaim", 2);
    rack.rack.create_context(0, 0o600).unwrap();
    let pid = rack.daemons[1].as_ref().unwrap().id();
    let open_files = || std::fs::read_dir(format!("/proc/{pid}/fd")).unwrap().count();
    let mapped = || {
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
        maps.lines().filter(|line| line.contains("memfd:")).count()
    };
    let before = (open_files(), mapped());
    for progress in Progress::ALL {
        let (context, mut writer) = with_writer(&rack, 0, progress);
        let mut qp = context.queue_pair(4).unwrap();
        wait_at_work(&mut qp);
        writer.kill().unwrap();
        writer.wait().unwrap();
        drop(qp);
        drop(context);
    }
    // Memory that the other node's daemon shared is closed when that node announces it.
    eventually("all is given back", || open_files() <= before.0 + 1 && mapped() <= before.1 + 1);
    let status = rackmem::control::status(&rack.rack, 1).unwrap();
    assert!(status.contexts.is_empty() && status.qps.is_empty(), "{status:?}");
}
