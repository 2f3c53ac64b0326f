//! Counters, copies, queues, lock and counter barrier through the safe face, in every way of progress,
//! between threads, and between processes of which some are killed.

mod support;

use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use rackmem::client::{
    Acquired, Address, Barrier, Context, Copier, Counter, CounterBarrier, Lock, MrQueue, Notify,
    Queue,
};
use rackmem::protocol::Progress;
use support::{BOUND, TestRack, eventually};

const SEGMENT_BYTES: u64 = 64 * 1024;

/// Of the lock, which the children of a test share.
const LOCK: u64 = 4096;
const LOCK_FLAG: u64 = 8192;
const PARTICIPANTS: u32 = 16;
/// Written by a child, one word each: how far it has come.
const PROGRESS_OF: u64 = 16384;
const RING: u64 = 20480;
const RESPONSE: u64 = 24576;

#[test]
fn child() {
    match support::role() {
        Some((role, args)) if role == "daemon" => support::be_daemon(&args),
        Some((role, args)) => be_member(&role, &args),
        None => {}
    }
}

fn spawn(rack: &TestRack, role: &str, nid: u16, ctx_id: u16, progress: Progress) -> Child {
    Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "child", "--nocapture"])
        .env("RACKMEM_TEST_ROLE", role)
        .env("RACKMEM_TEST_ARGS", format!("{nid} {ctx_id} {}", progress.name()))
        .env("RACKMEM_RACK", rack.rack.name())
        .stdout(Stdio::null())
        .spawn()
        .unwrap()
}

/// A node that does what its role says, and then lives on until it is killed.
fn be_member(role: &str, args: &[String]) {
    let (nid, ctx_id) = (args[0].parse().unwrap(), args[1].parse().unwrap());
    let options = rackmem::client::OpenOptions::from_env().unwrap().node(nid).context(ctx_id);
    let progress = Progress::from_name(&args[2]).unwrap();
    let context = Context::open(&options.progress(progress).segment_bytes(SEGMENT_BYTES)).unwrap();
    context.wait_joined(0, Some(Instant::now() + BOUND)).unwrap();
    let report = |step: u64| {
        let mut qp = context.queue_pair(2).unwrap();
        qp.write(0, PROGRESS_OF + 8 * u64::from(nid), &step.to_ne_bytes()).unwrap();
    };
    match role {
        "holder" | "waiter" => {
            let mut lock = lock_of(&context);
            report(1);
            lock.acquire().unwrap();
            report(2);
        }
        "barrier" => {
            let mut all = barrier_of(&context, 1, 0);
            report(1);
            all.wait().unwrap();
            report(2);
        }
        "reader" => {
            let mut ring = ring_of(&context);
            report(1);
            let mut item = [0];
            assert!(ring.get(&mut item).unwrap());
            report(item[0]);
        }
        other => panic!("no role {other}"),
    }
    std::thread::sleep(BOUND);
}

fn lock_of(context: &Context) -> Lock {
    let qp = context.queue_pair(4).unwrap();
    Lock::open(context, qp, Address::new(0, LOCK), PARTICIPANTS, LOCK_FLAG).unwrap()
}

fn barrier_of(context: &Context, threads: u16, thread: u16) -> CounterBarrier {
    CounterBarrier::open(context, context.queue_pair(4).unwrap(), 0, threads, thread).unwrap()
}

fn ring_of(context: &Context) -> MrQueue {
    let qp = context.queue_pair(4).unwrap();
    MrQueue::open(context, qp, Address::new(0, RING), 8, 1, RESPONSE).unwrap()
}

fn kill(child: &mut Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

/// Node 0 of a new context, for each way of progress.
fn each_way(rack: &TestRack, mut test: impl FnMut(Context, u16, Progress)) {
    for (ctx_id, progress) in (0..).zip(Progress::ALL) {
        rack.rack.create_context(ctx_id, 0o600).unwrap();
        let options = rack.options(0, ctx_id).segment_bytes(SEGMENT_BYTES).progress(progress);
        test(Context::open(&options).unwrap(), ctx_id, progress);
    }
}

/// Waits until node `nid` says that it has come so far, and this node's daemon knows of it, too.
fn wait_until(context: &Context, nid: u64, step: u64) {
    let word = context.word(PROGRESS_OF + 8 * nid).unwrap();
    eventually("the child gets so far", || word.load(Ordering::Acquire) == step);
    let mut qp = context.queue_pair(2).unwrap();
    eventually("the child is known", || qp.read(nid as u16, 0, &mut [0; 8]).is_ok());
}

#[test]
fn the_lock_of_a_killed_holder_goes_to_the_next() {
    let rack = TestRack::start("dead-holder", 2);
    each_way(&rack, |context, ctx_id, progress| {
        let mut lock = lock_of(&context);
        for round in 0..2 {
            let mut holder = spawn(&rack, "holder", 1, ctx_id, progress);
            wait_until(&context, 1, 2);
            assert_eq!(lock.try_acquire().unwrap(), None);
            if round == 0 {
                // It waits while the holder dies.
                let killed = std::thread::scope(|threads| {
                    let waits = threads.spawn(|| lock.acquire());
                    std::thread::sleep(Duration::from_millis(60));
                    kill(&mut holder);
                    let since = Instant::now();
                    assert_eq!(waits.join().unwrap().unwrap(), Acquired::FromTheDead);
                    since.elapsed()
                });
                assert!(killed < BOUND / 4, "{killed:?} by {}", progress.name());
            } else {
                kill(&mut holder);
                let mut found = None;
                eventually("it is found to be dead", || {
                    found = lock.try_acquire().unwrap();
                    found.is_some()
                });
                assert_eq!(found, Some(Acquired::FromTheDead));
            }
            lock.release().unwrap();
            assert_eq!(lock.acquire().unwrap(), Acquired::InOrder, "it is told once");
            lock.release().unwrap();
            context.word(PROGRESS_OF + 8).unwrap().store(0, Ordering::Relaxed);
        }
    });
}

#[test]
fn a_killed_waiter_does_not_stop_the_others() {
    let rack = TestRack::start("dead-waiter", 3);
    each_way(&rack, |context, ctx_id, progress| {
        let mut lock = lock_of(&context);
        lock.acquire().unwrap();
        let mut first = spawn(&rack, "waiter", 1, ctx_id, progress);
        wait_until(&context, 1, 1);
        std::thread::sleep(Duration::from_millis(50)); // it asks before the other does
        let mut second = spawn(&rack, "waiter", 2, ctx_id, progress);
        wait_until(&context, 2, 1);
        std::thread::sleep(Duration::from_millis(50));
        kill(&mut first);
        lock.release().unwrap();
        wait_until(&context, 2, 2);
        kill(&mut second);
        assert_eq!(lock.acquire().unwrap(), Acquired::FromTheDead, "{}", progress.name());
        lock.release().unwrap();
    });
}

#[test]
fn who_waits_at_a_barrier_learns_of_a_killed_member() {
    let rack = TestRack::start("dead-member", 2);
    each_way(&rack, |context, ctx_id, progress| {
        let mut all = barrier_of(&context, 1, 0);
        let mut member = spawn(&rack, "barrier", 1, ctx_id, progress);
        wait_until(&context, 1, 1);
        all.wait().unwrap();
        wait_until(&context, 1, 2);
        std::thread::scope(|threads| {
            let waits = threads.spawn(|| all.wait());
            std::thread::sleep(Duration::from_millis(60));
            kill(&mut member);
            let error = waits.join().unwrap().unwrap_err();
            assert_eq!(error.errno(), libc::EHOSTDOWN, "{}: {error}", progress.name());
        });
    });
}

#[test]
fn an_item_that_a_killed_reader_asked_for_goes_to_the_next() {
    let rack = TestRack::start("dead-reader", 3);
    each_way(&rack, |context, ctx_id, progress| {
        let mut ring = ring_of(&context);
        let mut first = spawn(&rack, "reader", 1, ctx_id, progress);
        wait_until(&context, 1, 1);
        std::thread::sleep(Duration::from_millis(50));
        let mut second = spawn(&rack, "reader", 2, ctx_id, progress);
        wait_until(&context, 2, 1);
        std::thread::sleep(Duration::from_millis(50));
        kill(&mut first);
        let mut byte = [0];
        let mut qp = context.queue_pair(2).unwrap();
        eventually("it is lost", || qp.read(1, 0, &mut byte).is_err());
        assert!(ring.put(&[77]).unwrap());
        wait_until(&context, 2, 77);
        kill(&mut second);
        let mut none = [0];
        let error = ring.get(&mut none).unwrap_err();
        assert_eq!(error.errno(), libc::EHOSTDOWN, "nobody is left to put: {error}");
    });
}

/// Processor time that a process has used, in ticks of a hundredth of a second.
fn ticks(child: &Child) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    let after_name = stat.rsplit_once(')').unwrap().1;
    let fields: Vec<&str> = after_name.split_whitespace().collect();
    fields[11].parse::<u64>().unwrap() + fields[12].parse::<u64>().unwrap()
}

#[test]
fn who_waits_leaves_the_core_to_others() {
    /// A waiter that polls uses sixty ticks of it, less what others take of the cores.
    const WATCHED: Duration = Duration::from_millis(600);
    const MOST_TICKS: u64 = 10;
    let rack = TestRack::start("waits-asleep", 4);
    each_way(&rack, |context, ctx_id, progress| {
        let mut lock = lock_of(&context);
        lock.acquire().unwrap();
        ring_of(&context);
        let roles = ["waiter", "reader", "barrier"];
        let spawned = (1..).zip(roles).map(|(nid, role)| spawn(&rack, role, nid, ctx_id, progress));
        let mut waiters: Vec<Child> = spawned.collect();
        for nid in 1..=3 {
            wait_until(&context, nid, 1);
        }
        std::thread::sleep(Duration::from_millis(100)); // they spin at first
        // Of all before any is killed: the others learn of that, and have more to do.
        let all = || -> Vec<u64> { waiters.iter().map(ticks).collect() };
        let used = || -> Vec<u64> {
            let before = all();
            std::thread::sleep(WATCHED);
            all().iter().zip(before).map(|(after, before)| after - before).collect()
        };
        // Time for which the host holds a core back counts as that of the process on it, which a poller always is.
        let watched: Vec<_> = (0..3).map(|_| used()).collect();
        let is_quiet = watched.iter().any(|used| used.iter().all(|ticks| *ticks <= MOST_TICKS));
        assert!(is_quiet, "{}: {watched:?} ticks of {roles:?}", progress.name());
        waiters.iter_mut().for_each(kill);
    });
}

/// Threads of all nodes: no counter loses an arrival, no thread leaves a barrier early, and the data that
/// the lock guards is whole.
#[test]
fn threads_of_several_nodes_meet() {
    const THREADS: u16 = 3;
    const TURNS: u32 = 50;
    let rack = TestRack::start("threads", 2);
    for (ctx_id, progress) in (0..).zip(Progress::ALL) {
        rack.rack.create_context(ctx_id, 0o600).unwrap();
        let contexts = rack.open_all(ctx_id, SEGMENT_BYTES, progress);
        let (arrived, guarded) = (AtomicU32::new(0), AtomicU32::new(0));
        let opened = std::sync::Barrier::new(2 * usize::from(THREADS));
        let meet = |context: &Context, thread: u16| {
            let mut all = barrier_of(context, THREADS, thread);
            let (qp, flag) = (context.queue_pair(4).unwrap(), LOCK_FLAG + 16 * u64::from(thread));
            let mut lock =
                Lock::open(context, qp, Address::new(1, LOCK), PARTICIPANTS, flag).unwrap();
            opened.wait();
            for turn in 1..=TURNS {
                assert_eq!(lock.acquire().unwrap(), Acquired::InOrder);
                let seen = guarded.load(Ordering::Relaxed);
                std::hint::spin_loop();
                guarded.store(seen + 1, Ordering::Relaxed);
                lock.release().unwrap();
                arrived.fetch_add(1, Ordering::SeqCst);
                all.wait().unwrap();
                assert!(arrived.load(Ordering::SeqCst) >= 2 * u32::from(THREADS) * turn);
            }
            opened.wait(); // nobody leaves before
        };
        std::thread::scope(|threads| {
            for context in &contexts {
                for thread in 0..THREADS {
                    let meet = &meet;
                    threads.spawn(move || meet(context, thread));
                }
            }
        });
        assert_eq!(guarded.into_inner(), 2 * u32::from(THREADS) * TURNS);
    }
}

/// A third node copies between two others, whose receiver waits for all of it by one counter.
#[test]
fn a_copy_between_two_others_is_acknowledged_to_the_receiver() {
    const COUNTER: u64 = 0;
    const FLAG: u64 = 64;
    let (from, to, sizes) = (1001, 2003, [1, 100, 20_000]);
    let rack = TestRack::start("copies", 3);
    for (ctx_id, progress) in (0..).zip(Progress::ALL) {
        rack.rack.create_context(ctx_id, 0o600).unwrap();
        let contexts = rack.open_all(ctx_id, SEGMENT_BYTES, progress);
        let bytes: Vec<u8> = (0..20_000u32).map(|i| (i * 7 % 251) as u8).collect();
        contexts[1].write_own(from, &bytes).unwrap();
        let notify = [Notify::Flag(Address::new(2, FLAG))];
        let counter = Counter { value: 0, reset: 0, word: 1, notify: &notify };
        counter.open(&contexts[2], COUNTER).unwrap();
        let mut copier = Copier::open(&contexts[0], contexts[0].queue_pair(8).unwrap()).unwrap();
        let mut at = to;
        for size in sizes {
            let acknowledged = Some(Address::new(2, COUNTER));
            copier.copy(Address::new(2, at), Address::new(1, from), size, acknowledged).unwrap();
            at += size;
        }
        let mut qp = contexts[2].queue_pair(4).unwrap();
        let sum: u64 = sizes.iter().sum();
        Counter::add(&mut qp, Address::new(2, COUNTER), -(sum as i64)).unwrap();
        copier.flush().unwrap();
        assert_eq!(Counter::wait_flag(&contexts[2], &mut qp, FLAG, Some(0)).unwrap(), 1);
        let mut got = vec![0; 20_000];
        contexts[2].read_own(to + 101, &mut got).unwrap();
        assert_eq!(got, bytes, "{}", progress.name());
    }
}

#[test]
fn a_queue_tells_when_it_is_full_and_what_is_wrong_with_an_end() {
    let rack = TestRack::start("queues", 2);
    each_way(&rack, |context, _, progress| {
        let home = Address::new(0, 0);
        let open = |slots, words| {
            Queue::open(&context, context.queue_pair(4).unwrap(), home, slots, words)
        };
        let mut queue = open(2, 1).unwrap();
        assert!(queue.put(&[1]).unwrap() && queue.put(&[2]).unwrap());
        assert!(!queue.put(&[3]).unwrap(), "{}", progress.name());
        let mut item = [0];
        queue.get(&mut item).unwrap();
        assert!(item == [1] && queue.put(&[4]).unwrap());
        assert!(queue.try_get(&mut item).unwrap() && item == [2]);
        assert!(queue.try_get(&mut item).unwrap() && item == [4]);
        assert!(!queue.try_get(&mut item).unwrap());
        assert_eq!(queue.put(&[1, 2]).unwrap_err().errno(), libc::EINVAL);
        for (slots, words, text) in [(3, 1, "power of two"), (4, 1, "another size")] {
            let error = open(slots, words).err().expect("it is refused");
            assert!(error.errno() == libc::EINVAL && error.to_string().contains(text), "{error}");
        }
    });
}

#[test]
fn a_lock_has_no_more_participants_than_it_was_opened_for() {
    let rack = TestRack::start("participants", 1);
    each_way(&rack, |context, _, _| {
        let open = |flag| {
            let qp = context.queue_pair(4).unwrap();
            Lock::open(&context, qp, Address::new(0, LOCK), 1, flag)
        };
        let mut lock = open(LOCK_FLAG).unwrap();
        assert_eq!(lock.release().unwrap_err().errno(), libc::EPERM);
        assert_eq!(lock.acquire().unwrap(), Acquired::InOrder);
        assert_eq!(lock.acquire().unwrap_err().errno(), libc::EDEADLK);
        lock.release().unwrap();
        let error = open(LOCK_FLAG + 16).err().expect("it is refused");
        assert_eq!(error.errno(), libc::ENOSPC, "{error}");
        // The plain barrier takes care of its own, whatever else there is.
        let mut alone = Barrier::open(&context, context.queue_pair(2).unwrap(), 0, &[0]).unwrap();
        alone.wait().unwrap();
    });
}
