//! Lenders, borrowers and the monitor in processes of their own that are killed in every state: data
//! that has a living copy survives, everybody notices, and nothing is leaked.

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use rackmem::rack::Rack;
use rackmem_fabric::Address;
use rackmem_fabric::net::SILENCE;
use rackmem_fabric::net::access::Access;
use rackmem_lease::agent::{Agent, Config, Event, MonitorAt};
use rackmem_lease::{ANSWER, TAKEOVER, Wanted, borrow};
use rustix::process::{Pid, Signal, kill_process};

use support::*;

/// Times that each process is killed.
const ROUNDS: usize = 12;

/// Roles of the processes that this file starts; without a role it is no test.
#[test]
fn child() {
    let Ok(role) = std::env::var("RACKMEM_TEST_ROLE") else { return };
    let args = std::env::var("RACKMEM_TEST_ARGS").unwrap();
    let args: Vec<&str> = args.split(' ').collect();
    let rack = Rack::named(Some(args[0])).unwrap();
    match role.as_str() {
        "lender" => be_agent(Config {
            name: Some(args[1].to_owned()),
            listen: (args[3] == "tcp").then(|| "127.0.0.1:0".to_owned()),
            access: Access::insecure(),
            monitor: args
                .get(4)
                .map_or(MonitorAt::Embedded, |at| MonitorAt::Address(at.parse().unwrap())),
            ..Config::lender(rack, args[2].parse::<u64>().unwrap() * PAGE)
        }),
        "monitor" => be_agent(Config {
            listen: Some(args[1].to_owned()),
            access: Access::insecure(),
            ..Config::monitor(rack)
        }),
        "borrower" => be_borrower(&rack, args[1].parse().unwrap(), args[2] == "tcp"),
        "counter" => kill_borrowers(&rack, args[1]),
        role => panic!("no role {role}"),
    }
}

fn be_agent(config: Config) {
    let _agent = Agent::start(config, |event| {
        if let Event::Listens(address) = event {
            println!("\nat {address}");
        }
    })
    .unwrap();
    println!("\nready");
    // Until it is killed, or the test has ended.
    let _ = std::io::stdin().read_line(&mut String::new());
}

/// Borrows, writes, reads and gives back, for ever.
fn be_borrower(rack: &Rack, pages: u64, only_network: bool) {
    for seed in 0_u8.. {
        let wanted = Wanted { only_network, ..wanted(rack, pages) };
        let Ok(borrowed) = borrow(&wanted) else { continue };
        if seed == 0 {
            println!("\nready");
        }
        fill(&*borrowed.store(), seed);
        check(&*borrowed.store(), seed);
        borrowed.release().unwrap();
        if seed == 255 {
            be_borrower(rack, pages, only_network);
        }
    }
}

struct Process {
    child: Child,
    out: BufReader<ChildStdout>,
    _in: ChildStdin,
}

impl Process {
    fn start(role: &str, args: &str) -> Process {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "child", "--nocapture"])
            .env("RACKMEM_TEST_ROLE", role)
            .env("RACKMEM_TEST_ARGS", args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let input = child.stdin.take().unwrap();
        Process { child, out, _in: input }
    }

    fn ready(role: &str, args: &str) -> Process {
        let mut process = Process::start(role, args);
        process.line("ready");
        process
    }

    /// The rest of the next line that begins with `start`.
    fn line(&mut self, start: &str) -> String {
        loop {
            let mut line = String::new();
            assert!(self.out.read_line(&mut line).unwrap() > 0, "the child has ended");
            if let Some(rest) = line.trim_end().strip_prefix(start) {
                return rest.trim().to_owned();
            }
        }
    }

    fn kill(mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.child), signal).unwrap();
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Descriptors of this process.
fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

/// Different each time, up to so many microseconds.
fn a_moment(round: usize, most_us: u64) -> Duration {
    Duration::from_micros((round as u64 * 7919 * 31) % most_us)
}

/// A borrower is killed at any point of its life: its lender has everything back at once. That lender is in a process
/// of its own, which has no descriptors but those that are counted.
#[test]
fn borrowers_that_are_killed_leave_nothing() {
    for network in ["unix", "tcp"] {
        let rack = rack();
        let _cleaner = Cleaner(rack.clone());
        let mut counter = Process::start("counter", &format!("{} {network}", rack.name()));
        let mut said = String::new();
        counter.out.read_to_string(&mut said).unwrap();
        assert!(counter.child.wait().unwrap().success(), "{network}: {said}");
    }
}

fn kill_borrowers(rack: &Rack, network: &str) {
    let config = Config::lender(rack.clone(), 64 * PAGE);
    let listen = Some("127.0.0.1:0".to_owned());
    let (name, access) = (Some("a".to_owned()), Access::insecure());
    let lender = start(Config { name, listen, access, ..config });
    let before = descriptors();
    for round in 0..ROUNDS {
        let args = format!("{} 64 {network}", rack.name());
        let borrower = match round % 2 {
            0 => Process::ready("borrower", &args),
            _ => Process::start("borrower", &args),
        };
        std::thread::sleep(a_moment(round, 20_000));
        borrower.kill();
        until("all is given back", || leased(rack) == [("a".to_owned(), 0)]);
        // All of it can be borrowed again, and is clean. What the dead one asked for last may be
        // granted once more, and falls back.
        let mut borrowed = None;
        until("all can be borrowed again", || {
            borrowed = borrow(&wanted(rack, 64)).ok();
            borrowed.is_some()
        });
        let borrowed = borrowed.unwrap();
        let mut bytes = [1; PAGE as usize];
        borrowed.store().lane().unwrap().read(round as u64 * PAGE, &mut bytes).unwrap();
        assert_eq!(bytes, [0; PAGE as usize]);
        borrowed.release().unwrap();
        until("no descriptor is leaked", || descriptors() <= before);
    }
    drop(lender);
    assert!(!directory(rack).exists());
}

/// A lender is killed, sometimes with the monitor in it; the copy at the other one is whole.
#[test]
fn lenders_that_are_killed_are_survived_by_copies() {
    for network in ["unix", "tcp"] {
        let rack = rack();
        let _cleaner = Cleaner(rack.clone());
        let lender =
            |name: &str| Process::ready("lender", &format!("{} {name} 32 {network}", rack.name()));
        let mut lenders = std::collections::VecDeque::from([lender("l0"), lender("l1")]);
        for round in 0..ROUNDS {
            let twice = Wanted { copies: 2, only_network: network == "tcp", ..wanted(&rack, 32) };
            let mut borrowed = None;
            until("both lenders are known", || {
                borrowed = borrow(&twice).ok();
                borrowed.is_some()
            });
            let borrowed = borrowed.unwrap();
            let store = borrowed.store();
            fill(&*store, round as u8);
            let writer = std::thread::spawn({
                let store = store.clone();
                move || (0..20).for_each(|_| fill(&*store, round as u8))
            });
            std::thread::sleep(a_moment(round, 3000));
            // The first has the monitor now and then, or else the last.
            let victim = if round % 3 == 0 { lenders.pop_back() } else { lenders.pop_front() };
            victim.unwrap().kill();
            writer.join().unwrap();
            check(&*store, round as u8);
            until("the loss is noticed", || borrowed.state().is_degraded);
            assert!(!borrowed.state().is_lost);
            until("the monitor knows the one lease", || matches!(leased(&rack)[..], [(_, 32)]));
            lenders.push_back(lender(&format!("l{}", round + 2)));
            borrowed.release().unwrap();
        }
    }
}

/// The last lender ends before it has noticed that it is to be the monitor.
#[test]
fn a_killed_monitor_leaves_nothing_if_the_last_lender_ends() {
    let rack = rack();
    let _cleaner = Cleaner(rack.clone());
    for _ in 0..ROUNDS {
        let monitor = Process::ready("lender", &format!("{} first 8 unix", rack.name()));
        let (second, third) = (lend(&rack, "second", 8), lend(&rack, "third", 8));
        monitor.kill();
        drop(second);
        until("the third is the monitor", || leased(&rack) == [("third".to_owned(), 0)]);
        drop(third);
        assert!(!directory(&rack).exists());
        let monitor = Process::ready("lender", &format!("{} first 8 unix", rack.name()));
        let second = lend(&rack, "second", 8);
        monitor.kill();
        drop(second);
        assert!(!directory(&rack).exists());
    }
}

/// The only copy is lost: an error, at once, and a clear one.
#[test]
fn without_a_copy_the_loss_is_an_error() {
    for network in ["unix", "tcp"] {
        let rack = rack();
        let lender = Process::ready("lender", &format!("{} gone 32 {network}", rack.name()));
        let wanted = Wanted { only_network: network == "tcp", ..wanted(&rack, 32) };
        let borrowed = borrow(&wanted).unwrap();
        let store = borrowed.store();
        let mut lane = store.lane().unwrap();
        lane.write(0, &[1]).unwrap();
        let begun = Instant::now();
        lender.kill();
        until("the loss is noticed", || store.check().is_err());
        assert!(begun.elapsed() < SILENCE, "a dead process is noticed by its connections");
        let error = lane.read(0, &mut [0]).unwrap_err().to_string();
        assert!(error.contains("is lost, and with it the memory"), "{error}");
        // A child of fork has lanes of its own, and goes on with what is local.
        let mut late = store.lane().unwrap();
        assert_eq!(late.read(0, &mut [0]).unwrap_err().to_string(), error);
        drop(borrowed);
        let begun = Instant::now();
        let error = borrow(&wanted).unwrap_err().to_string();
        assert!(error.contains("rackmem lend"), "{error}");
        assert!(begun.elapsed() < TAKEOVER + SILENCE);
        // Files that the dead one has left do not disturb the next.
        drop(lend(&rack, "next", 32));
        assert!(!directory(&rack).exists());
    }
}

/// A lender that is stopped is waited for, and its answers are right when it is back; one that is not is given up.
#[test]
fn a_lender_that_is_stopped_is_waited_for() {
    let rack = rack();
    let _cleaner = Cleaner(rack.clone());
    let lender = Process::ready("lender", &format!("{} slow 32 tcp", rack.name()));
    let wanted = Wanted { only_network: true, ..wanted(&rack, 16) };
    let patient = borrow(&wanted).unwrap();
    let impatient = borrow(&Wanted { patience: 2 * ANSWER, ..wanted.clone() }).unwrap();
    fill(&*patient.store(), 3);
    let mut lane = impatient.store().lane().unwrap();
    lane.write(0, &[1]).unwrap();
    lender.signal(Signal::STOP);
    let waiter = std::thread::spawn({
        let store = patient.store();
        move || check(&*store, 3)
    });
    // The lender's threads stop one after the other.
    let error = (0..).find_map(|_| lane.read(0, &mut [0]).err()).unwrap().to_string();
    assert!(error.contains("could not be reached for"), "{error}");
    let error = borrow(&wanted).unwrap_err().to_string();
    assert!(error.contains("does not answer"), "{error}");
    lender.signal(Signal::CONT);
    waiter.join().unwrap();
    assert!(!patient.state().is_lost && impatient.state().is_lost);
}

/// A monitor of several hosts is killed and started again: leases do not notice.
#[test]
fn a_monitor_that_is_killed_takes_nothing_along() {
    let hosts = [rack(), rack(), rack()];
    let _cleaners = hosts.clone().map(Cleaner);
    let monitor = |at: &str| {
        let mut monitor = Process::start("monitor", &format!("{} {at}", hosts[0].name()));
        let at = monitor.line("at");
        monitor.line("ready");
        (monitor, at)
    };
    let (mut running, at) = monitor("127.0.0.3:0"); // nobody else takes a port there
    let _lenders: Vec<Process> = (1..3)
        .map(|n| {
            let args = format!("{} h{n} {} tcp {at}", hosts[n].name(), 16 + n);
            Process::ready("lender", &args)
        })
        .collect();
    let address: Address = at.parse().unwrap();
    let wanted =
        Wanted { monitor: Some(address.clone()), only_network: true, ..Wanted::new(20 * PAGE) };
    let leases = || {
        let ledger = rackmem_lease::ledger(None, Some(&address), None).unwrap();
        ledger.lenders.iter().map(|lender| lender.leases.len()).collect::<Vec<_>>()
    };
    let borrowed = borrow(&wanted).unwrap();
    for round in 0..ROUNDS / 3 {
        fill(&*borrowed.store(), round as u8);
        running.kill();
        std::thread::sleep(a_moment(round, 50_000));
        check(&*borrowed.store(), round as u8);
        running = monitor(&at).0;
        until("they have told the next one", || leases() == [1, 1]);
    }
    borrowed.release().unwrap();
    until("the monitor is told", || leases() == [0, 0]);
    std::io::stdout().flush().unwrap();
}

/// A child by `fork` ends nothing of its parent's by dropping its copy.
#[test]
fn a_child_by_fork_gives_nothing_back() {
    let rack = rack();
    let _lender = lend(&rack, "a", 8);
    let borrowed = borrow(&wanted(&rack, 8)).unwrap();
    fill(&*borrowed.store(), 1);
    // SAFETY: the child drops a value, which takes no lock that another thread may hold, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        drop(borrowed);
        // SAFETY: ends the child without its parent's destructors.
        unsafe { libc::_exit(0) };
    }
    let mut status = 0;
    // SAFETY: waits for the child from above.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0);
    check(&*borrowed.store(), 1);
    assert!(!borrowed.state().is_lost);
    assert_eq!(leased(&rack), [("a".to_owned(), 8)]);
}

/// A child by `fork` that has lanes has its parent's memory for as long as it wants, whatever becomes of the parent.
#[test]
fn a_lease_lasts_for_as_long_as_a_child_has_lanes() {
    let rack = rack();
    let lender = Process::ready("lender", &format!("{} a 32 tcp", rack.name()));
    let borrowed = borrow(&Wanted { only_network: true, ..wanted(&rack, 8) }).unwrap();
    let store = borrowed.store();
    fill(&*store, 1);
    let (mut ours, mut theirs) = UnixStream::pair().unwrap();
    store.before_fork();
    // SAFETY: the store is prepared for it; the child uses the store and a socket, and ends.
    let child = unsafe { libc::fork() };
    if child == 0 {
        store.after_fork_in_child();
        let mut lane = store.lane().unwrap();
        let mut read = |page: u64| lane.read(page * PAGE, &mut [0]).is_ok();
        let mut is_right = read(0);
        theirs.write_all(&[1]).unwrap();
        // The parent has given its memory back by then.
        theirs.read_exact(&mut [0]).unwrap();
        is_right &= (1..8).all(read);
        // SAFETY: ends the child without its parent's destructors.
        unsafe { libc::_exit(i32::from(!is_right)) };
    }
    store.after_fork_in_parent();
    ours.read_exact(&mut [0]).unwrap();
    borrowed.release().unwrap();
    ours.write_all(&[1]).unwrap();
    let mut status = 0;
    // SAFETY: waits for the child from above.
    assert_eq!(unsafe { libc::waitpid(child, &mut status, 0) }, child);
    assert_eq!(status, 0);
    until("the lease ends with the child", || leased(&rack) == [("a".to_owned(), 0)]);
    drop(lender);
}
