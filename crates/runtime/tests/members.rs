//! Many at a node: threads with queue pairs of their own, several queue pairs of a thread, several
//! processes in one context.

mod support;

use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use rackmem::Status;
use rackmem::client::{Context, OpenOptions};
use rackmem::protocol::Progress;
use support::{BOUND, TestRack, eventually};

const BYTES: u64 = 64 * 1024;

/// Words of node 1's segment by which test and child talk.
const ARRIVED: u64 = 0;
const LEAVE: u64 = 8;
const SUM: u64 = 16;

#[test]
fn child() {
    match support::role() {
        Some((role, args)) if role == "daemon" => support::be_daemon(&args),
        Some((role, args)) if role == "second" => be_second(&args),
        Some((role, args)) if role == "rival" => be_rival(&args),
        Some((role, _)) => panic!("no role {role}"),
        None => {}
    }
}

fn each_way(name: &str, test: impl Fn(&TestRack, u16, Progress)) {
    let rack = TestRack::start(name, 2);
    for (ctx_id, progress) in (0..).zip(Progress::ALL) {
        rack.rack.create_context(ctx_id, 0o600).unwrap();
        test(&rack, ctx_id, progress);
    }
}

#[test]
fn every_thread_has_its_queue_pair() {
    const THREADS: u64 = 6;
    const ROUNDS: u64 = 300;
    each_way("threads", |rack, ctx_id, progress| {
        let contexts = rack.open_all(ctx_id, BYTES, progress);
        std::thread::scope(|threads| {
            for thread in 0..THREADS {
                let context = &contexts[thread as usize % 2];
                threads.spawn(move || {
                    let mut qp = context.queue_pair(16).unwrap();
                    let place = 4096 + thread * 1000;
                    for round in 0..ROUNDS {
                        let bytes = [(thread * 32 + round % 32) as u8; 300];
                        let mut back = [[0; 100]; 3];
                        qp.write(1, place, &bytes).unwrap();
                        qp.fetch_add(1, SUM, 1).unwrap();
                        qp.scope(|scope| {
                            for (i, piece) in (0..).zip(&mut back) {
                                scope.read(1, place + 100 * i, piece);
                            }
                        })
                        .unwrap();
                        assert_eq!(back.as_flattened(), bytes);
                    }
                });
            }
        });
        let sum = contexts[1].word(SUM).unwrap().load(Ordering::Relaxed);
        assert_eq!(sum, THREADS * ROUNDS, "{}", progress.name());
    });
}

#[test]
fn a_thread_may_have_many_queue_pairs() {
    each_way("many-qps", |rack, ctx_id, progress| {
        let contexts = rack.open_all(ctx_id, BYTES, progress);
        let mut qps: Vec<_> =
            (0..40).map(|i| contexts[0].queue_pair(2 << (i % 7)).unwrap()).collect();
        for round in 0..10u64 {
            for (i, qp) in (0u64..).zip(&mut qps) {
                qp.write(1, 64 * i, &(round * 100 + i).to_ne_bytes()).unwrap();
            }
            for (i, qp) in (0u64..).zip(qps.iter_mut().rev()) {
                let mut word = [0; 8];
                qp.read(1, 64 * i, &mut word).unwrap();
                assert_eq!(u64::from_ne_bytes(word), round * 100 + i);
            }
            // Pairs that go leave the others alone, and their numbers are not mixed up.
            qps.remove(round as usize);
        }
        let status = rackmem::control::status(&rack.rack, 0).unwrap();
        let mine = status.qps.iter().filter(|qp| qp.ctx_id == ctx_id).count();
        assert_eq!(mine, qps.len());
    });
}

#[test]
fn a_member_has_a_limited_number_of_queue_pairs() {
    support::allow_many_descriptors();
    let rack = TestRack::start("limits", 1);
    rack.rack.create_context(0, 0o600).unwrap();
    // Those by packets are limited for the node, too: no member gets one that is never served.
    let mut members = Vec::new();
    let error = loop {
        let options = rack.options(0, 0).segment_bytes(BYTES).progress(Progress::Packet);
        let member = Context::open(&options).unwrap();
        let mut qps = Vec::new();
        let error = loop {
            match member.queue_pair(2) {
                Ok(qp) => qps.push(qp),
                Err(error) => break error,
            }
        };
        assert_eq!(error.errno(), libc::ENOSPC, "{error}");
        let is_full = qps.len() < 256;
        members.push((qps, member));
        if is_full {
            break error;
        }
        assert!(members.len() <= 16);
    };
    assert!(error.to_string().contains("by packets"), "{error}");
    let (qps, _) = &mut members[15];
    qps[255].write(0, 0, &[1]).unwrap();
}

/// The role `second <ctx> <progress>`: another process at node 1 of the context, without a wish for
/// the size of the segment. Adds to a word, and stays until it is told to leave.
fn be_second(args: &[String]) {
    let progress = Progress::from_name(&args[1]).unwrap();
    let options = OpenOptions::from_env().unwrap().node(1).progress(progress).shared(true);
    let context = Context::open(&options.context(args[0].parse().unwrap())).unwrap();
    assert_eq!(context.segment_bytes(), BYTES);
    let mut qp = context.queue_pair(4).unwrap();
    // By its own node's memory, and by operations on its own node.
    context.word(SUM).unwrap().fetch_add(1, Ordering::Relaxed);
    qp.fetch_add(1, SUM, 1).unwrap();
    qp.write(0, SUM, &7u64.to_ne_bytes()).unwrap();
    context.word(ARRIVED).unwrap().store(1, Ordering::Release);
    let leave = context.word(LEAVE).unwrap();
    let deadline = Some(Instant::now() + BOUND);
    context.sleep_until(&mut || leave.load(Ordering::Acquire) == 1, None, deadline).unwrap();
}

fn spawn_second(rack: &TestRack, ctx_id: u16, progress: Progress) -> std::process::Child {
    spawn_role(rack, "second", &format!("{ctx_id} {}", progress.name()))
}

/// The role `rival <ctx>`: joins as node 1 without having asked whether it may.
fn be_rival(args: &[String]) {
    let options = OpenOptions::from_env().unwrap().node(1).context(args[0].parse().unwrap());
    let error = Context::open(&options).unwrap_err();
    assert_eq!(error.errno(), libc::EBUSY, "{error}");
    assert!(error.to_string().contains("is node 1 of context"), "{error}");
    // A read-only member is no rival.
    Context::open(&options.read_only(true)).unwrap();
}

fn spawn_role(rack: &TestRack, role: &str, args: &str) -> std::process::Child {
    std::process::Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture"])
        .env("RACKMEM_TEST_ROLE", role)
        .env("RACKMEM_TEST_ARGS", args)
        .env("RACKMEM_RACK", rack.rack.name())
        .stdout(std::process::Stdio::null())
        .spawn()
        .unwrap()
}

#[test]
fn a_second_process_is_refused_while_the_first_lives() {
    let rack = TestRack::start("rivals", 2);
    rack.rack.create_context(0, 0o600).unwrap();
    let first = rack.open_all(0, BYTES, Progress::Inline);
    // A process may join as often as it likes.
    drop(Context::open(&rack.options(1, 0)).unwrap());
    assert!(support::wait(&mut spawn_role(&rack, "rival", "0")).success());
    // The first has left.
    drop(first);
    Context::open(&rack.options(1, 0).segment_bytes(BYTES)).unwrap();
}

#[test]
fn two_processes_at_one_node_share_its_segment() {
    each_way("second", |rack, ctx_id, progress| {
        let contexts = rack.open_all_shared(ctx_id, BYTES, progress);
        let word = |offset| contexts[1].word(offset).unwrap();
        let mut qp = contexts[0].queue_pair(4).unwrap();

        let larger = rack.options(1, ctx_id).segment_bytes(2 * BYTES).shared(true);
        assert_eq!(Context::open(&larger).unwrap_err().errno(), libc::EEXIST);

        // One leaves, one is killed: the node stays.
        for is_killed in [false, true] {
            word(SUM).store(0, Ordering::Relaxed);
            word(LEAVE).store(0, Ordering::Relaxed);
            word(ARRIVED).store(0, Ordering::Relaxed);
            let mut second = spawn_second(rack, ctx_id, progress);
            eventually("the second has come", || word(ARRIVED).load(Ordering::Acquire) == 1);
            assert_eq!(qp.fetch_add(1, SUM, 1), Ok(2), "{}", progress.name());
            assert_eq!(contexts[0].word(SUM).unwrap().load(Ordering::Relaxed), 7);
            if is_killed {
                second.kill().unwrap();
                second.wait().unwrap();
            } else {
                // By a remote write, which wakes it.
                qp.write(1, LEAVE, &1u64.to_ne_bytes()).unwrap();
                assert!(support::wait(&mut second).success());
            }
            eventually("the daemon has noticed", || {
                let status = rackmem::control::status(&rack.rack, 1).unwrap();
                status.contexts.iter().any(|c| c.ctx_id == ctx_id && c.clients == 1)
            });
            qp.write(1, 4096, b"still here").unwrap();
            let mut bytes = [0; 10];
            contexts[1].read_own(4096, &mut bytes).unwrap();
            assert_eq!(&bytes, b"still here");
        }
    });
}

#[test]
fn a_node_is_gone_when_its_last_member_is() {
    each_way("last", |rack, ctx_id, progress| {
        let mut contexts = rack.open_all_shared(ctx_id, BYTES, progress);
        let mut second = spawn_second(rack, ctx_id, progress);
        let word = contexts[1].word(ARRIVED).unwrap();
        eventually("the second has come", || word.load(Ordering::Acquire) == 1);
        let mut qp = contexts[0].queue_pair(4).unwrap();
        drop(contexts.pop());
        qp.write(1, 4096, &[1]).expect("the second keeps the node in the context");
        second.kill().unwrap();
        second.wait().unwrap();
        let deadline = Instant::now() + BOUND;
        let status = loop {
            match qp.write(1, 4096, &[1]) {
                Ok(()) => assert!(Instant::now() < deadline),
                Err(status) => break status,
            }
            std::thread::sleep(Duration::from_millis(1));
        };
        assert_eq!(status, Status::NodeLost, "{}", progress.name());
    });
}
