//! Errors name the process that does not answer, and no wait outlasts it: daemons that are stopped or
//! dead, processes that joined and died, limits on open files.

mod support;

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::Instant;

use rackmem::Status;
use rackmem::client::{Context, OpenOptions};
use rackmem::control;
use rackmem::protocol::Progress;
use rackmem::status::LinkState;
use rackmem::transport::Channel;
use support::{BOUND, Stopped, TestRack, Wire, eventually};

const BYTES: u64 = 4096;

#[test]
fn child() {
    let Some((role, args)) = support::role() else { return };
    match role.as_str() {
        "daemon" => support::be_daemon(&args),
        "short-lived" => be_short_lived(),
        "poor" => be_poor(&args),
        "writer" => be_writer(),
        "daemon-of-a-taken-name" => be_daemon_of_a_taken_name(),
        _ => panic!("no role {role}"),
    }
}

fn start(rack: &TestRack, role: &str, args: &str) -> Child {
    command(rack, role, args).spawn().unwrap()
}

fn command(rack: &TestRack, role: &str, args: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command
        .args(["--exact", "child", "--nocapture"])
        .env("RACKMEM_TEST_ROLE", role)
        .env("RACKMEM_TEST_ARGS", args)
        .env("RACKMEM_RACK", rack.rack.name())
        .stdout(Stdio::null());
    command
}

/// Of the same host; that of another is not seen.
#[test]
fn a_stopped_daemon_is_named() {
    let rack = TestRack::start_on(Wire::Shm, "stopped", 2);
    rack.rack.create_context(0, 0o600).unwrap();
    let context = Context::open(&rack.options(0, 0).segment_bytes(BYTES)).unwrap();
    let daemon = rack.daemons[1].as_ref().unwrap();
    let stopped = Stopped::new(daemon);
    let is_named = |error: rackmem::Error| {
        let text = error.to_string();
        assert_eq!(error.errno(), libc::ETIMEDOUT, "{text}");
        assert!(text.contains(&format!("(process {}) is stopped", daemon.id())), "{text}");
        assert!(text.contains("the daemon of node 1"), "{text}");
    };
    is_named(control::status(&rack.rack, 1).unwrap_err());
    is_named(Context::open(&rack.options(1, 0)).unwrap_err());
    // A waiter for its node, for as long as the test may take.
    is_named(context.wait_joined(1, Some(Instant::now() + BOUND)).unwrap_err());
    // All are asked, and the others answer.
    let mut all = control::status_of(&rack.rack, &[0, 1], &[0, 1]);
    is_named(all.pop().unwrap().unwrap_err());
    assert_eq!(all.pop().unwrap().unwrap().nid, 0);
    // Not even connections are taken any more.
    let path = rack.rack.socket_path(1);
    let mut waiting = Vec::new();
    let full = loop {
        match Channel::connect(&path) {
            Ok(channel) => waiting.push(channel),
            Err(error) => break error,
        }
    };
    assert_eq!(full.kind(), std::io::ErrorKind::WouldBlock);
    is_named(control::status(&rack.rack, 1).unwrap_err());
    drop(waiting);
    drop(stopped);
    let status = || control::status(&rack.rack, 1);
    eventually("the daemon goes on", || status().is_ok());
}

/// The role `writer`: joins as node 0 and writes to node 1 until it is told to end.
fn be_writer() {
    let options =
        OpenOptions::from_env().unwrap().node(0).segment_bytes(BYTES).progress(Progress::Packet);
    let context = Context::open(&options).unwrap();
    context.wait_joined(1, Some(Instant::now() + BOUND)).unwrap();
    let mut qp = context.queue_pair(8).unwrap();
    let end = context.word(0).unwrap();
    while end.load(Ordering::Acquire) == 0 {
        qp.write(1, 8, &[1; 8]).unwrap();
    }
}

#[test]
fn a_stopped_daemon_is_named_to_those_whose_operations_it_has() {
    for nid in [0, 1] {
        let rack = TestRack::start(&format!("stalled-{nid}"), 2);
        rack.rack.create_context(0, 0o600).unwrap();
        let target = Context::open(&rack.options(1, 0).segment_bytes(BYTES)).unwrap();
        let mut writer = command(&rack, "writer", "").stderr(Stdio::piped()).spawn().unwrap();
        let written = target.word(8).unwrap();
        eventually("the writer writes", || written.load(Ordering::Acquire) != 0);
        let daemon = rack.daemons[nid].as_ref().unwrap();
        let stopped = Stopped::new(daemon);
        let mut lines = BufReader::new(writer.stderr.take().unwrap()).lines();
        let (sender, receiver) = std::sync::mpsc::channel();
        std::thread::spawn(move || sender.send(lines.next().unwrap().unwrap()));
        let said = receiver.recv_timeout(BOUND).unwrap();
        let name = format!("the daemon of node {nid} (process {}) is stopped", daemon.id());
        assert!(said.contains(&name), "{said}");
        drop(stopped);
        let mut qp = target.queue_pair(8).unwrap();
        qp.write(0, 0, &1_u64.to_ne_bytes()).unwrap();
        assert!(support::wait(&mut writer).success());
    }
}

/// Its host still answers probes. Both nodes' daemons find each other again, whichever of them was stopped.
#[test]
fn a_stopped_daemon_of_another_host_is_lost_and_comes_back() {
    for (progress, stopped_nid) in Progress::ALL.into_iter().zip([0, 1, 2]) {
        let name = format!("far-stopped-{}", progress.name());
        let rack = TestRack::start_on(Wire::Sealed, &name, 3);
        rack.rack.create_context(0, 0o600).unwrap();
        let contexts = rack.open_all(0, BYTES, progress);
        let others: Vec<u16> = (0..3).filter(|nid| *nid != stopped_nid).collect();
        let [asker, third] = others[..] else { unreachable!() };
        let mut qp = contexts[usize::from(asker)].queue_pair(8).unwrap();
        qp.write(stopped_nid, 0, &[1; 8]).unwrap();
        let stopped = Stopped::new(rack.daemons[usize::from(stopped_nid)].as_ref().unwrap());
        // By itself, and in company.
        assert_eq!(qp.write(stopped_nid, 0, &[2; 8]), Err(Status::NodeLost), "{name}");
        let ended = qp.scope(|scope| {
            for at in 0..4 {
                scope.write(stopped_nid, 8 * at, &[3; 8]);
            }
        });
        assert!(ended.is_err(), "{name}");
        qp.write(third, 0, &[4; 8]).unwrap();
        let link = |nid: u16, peer: u16| {
            let status = control::status(&rack.rack, nid).unwrap();
            status.links.into_iter().find(|link| link.nid == peer).unwrap()
        };
        let lost = link(asker, stopped_nid);
        assert_eq!(lost.state, LinkState::Down, "{lost:?}");
        assert!(!lost.why.is_empty(), "{lost:?}");
        assert_eq!(link(asker, third).state, LinkState::Up);
        drop(stopped);
        rack.wait_linked();
        let bytes = &mut [0; 8];
        eventually("it answers again", || qp.read(stopped_nid, 0, bytes).is_ok());
    }
}

/// Operations that are under way by a queue pair's own links end when the daemons' link does.
#[test]
fn what_waits_for_a_stopped_daemon_of_another_host_ends() {
    const LONG: usize = 4 << 20;
    let rack = TestRack::start_on(Wire::Keys, "far-stalled", 2);
    rack.rack.create_context(0, 0o600).unwrap();
    let contexts = rack.open_all(0, LONG as u64, Progress::Inline);
    let mut qp = contexts[0].queue_pair(8).unwrap();
    qp.write(1, 0, &[1; 8]).unwrap();
    let mut read = vec![0; LONG];
    let mut stopped = None;
    let ended = qp.scope(|scope| {
        stopped = Some(Stopped::new(rack.daemons[1].as_ref().unwrap()));
        scope.read(1, 0, &mut read);
    });
    assert_eq!(ended, Err(Status::NodeLost));
    drop(stopped);
    rack.wait_linked();
    eventually("it answers again", || qp.write(1, 0, &[2; 8]).is_ok());
}

/// Daemons ask each other for their state, and none waits long for another.
#[test]
fn the_state_of_a_node_of_another_host_is_known_or_why_not() {
    let mut rack = TestRack::start_on(Wire::Sealed, "far-asked", 3);
    let ask = |rack: &TestRack| control::status_of(&rack.rack, &[1], &[0, 1, 2]);
    for (nid, status) in (0..).zip(ask(&rack)) {
        let status = status.unwrap();
        assert_eq!((status.nid, status.nodes), (nid, 3));
        assert_eq!(Some(status.pid), rack.daemons[usize::from(nid)].as_ref().map(Child::id));
    }
    for nid in [0, 2] {
        let stopped = Stopped::new(rack.daemons[nid].as_ref().unwrap());
        let error = ask(&rack).swap_remove(nid).unwrap_err();
        assert!([libc::ETIMEDOUT, libc::ENETUNREACH].contains(&error.errno()), "{error}");
        eventually("the link is lost", || {
            let asked = ask(&rack).swap_remove(nid).unwrap_err();
            asked.to_string().starts_with("no link from node 1 to 127.")
        });
        assert!(ask(&rack).swap_remove(2 - nid).is_ok());
        drop(stopped);
        rack.wait_linked();
        assert!(ask(&rack).into_iter().all(|status| status.is_ok()));
    }
    rack.kill_daemon(0);
    eventually("its node is called in vain", || {
        let error = ask(&rack).swap_remove(0).unwrap_err().to_string();
        error.contains(" calls: ") && error.contains("refused")
    });
}

/// Of the same host; a link to another ends for any reason.
#[test]
fn a_dead_daemon_is_named() {
    let mut rack = TestRack::start_on(Wire::Shm, "dead", 2);
    rack.rack.create_context(0, 0o600).unwrap();
    let context = Context::open(&rack.options(0, 0).segment_bytes(BYTES)).unwrap();
    rack.kill_daemon(1);
    let error = context.wait_joined(1, Some(Instant::now() + BOUND)).unwrap_err();
    assert_eq!(error.errno(), libc::EHOSTDOWN, "{error}");
    assert!(error.to_string().contains("the daemon of node 1 is gone"), "{error}");
}

/// The role `short-lived`: joins as node 1, and ends without leaving.
fn be_short_lived() {
    let options = OpenOptions::from_env().unwrap().node(1).context(0).segment_bytes(BYTES);
    std::mem::forget(Context::open(&options).unwrap());
    std::process::exit(0);
}

#[test]
fn who_joined_and_died_is_not_waited_for() {
    let rack = TestRack::start("joined-and-died", 2);
    rack.rack.create_context(0, 0o600).unwrap();
    let context = Context::open(&rack.options(0, 0).segment_bytes(BYTES)).unwrap();
    assert!(support::wait(&mut start(&rack, "short-lived", "")).success());
    eventually("the daemons have heard of the death", || {
        context.wait_joined(1, Some(Instant::now())).is_err()
    });
    // Neither by waiters for it, nor by waiters for all.
    for error in [
        context.wait_joined(1, Some(Instant::now() + BOUND)).unwrap_err(),
        Context::open_all(&rack.options(0, 0)).unwrap_err(),
    ] {
        assert_eq!(error.errno(), libc::EHOSTDOWN, "{error}");
        let text = error.to_string();
        assert!(text.contains("node 1 joined context 0") && text.contains("ended"), "{text}");
    }
    // A new process may take its place.
    let _again = Context::open(&rack.options(1, 0).segment_bytes(BYTES)).unwrap();
    eventually("the new one is there", || context.wait_joined(1, Some(Instant::now())).is_ok());
}

fn limit_files(most: u64) {
    let few = rustix::process::Rlimit { current: Some(most), maximum: Some(most) };
    rustix::process::setrlimit(rustix::process::Resource::Nofile, few).unwrap();
}

/// The role `poor <files> <daemon|client>`: must fail, and say why.
fn be_poor(args: &[String]) {
    let limit = args[0].parse().unwrap();
    let error = if args[1] == "daemon" {
        limit_files(limit);
        let config = rackmem::daemon::Config {
            rack: rackmem::rack::Rack::named(None).unwrap(),
            nids: vec![3],
            pin_core: None,
            spin: std::time::Duration::from_micros(20),
            share_core: false,
            rack_file: None,
            faults: None,
        };
        rackmem::daemon::run(config).unwrap_err()
    } else {
        let context =
            Context::open(&OpenOptions::from_env().unwrap().segment_bytes(BYTES)).unwrap();
        limit_files(limit);
        let mut queue_pairs = Vec::new();
        loop {
            match context.queue_pair(4) {
                Ok(pair) => queue_pairs.push(pair),
                Err(error) => break error,
            }
        }
    };
    assert_eq!(error.errno(), libc::EMFILE, "{error}");
    let text = error.to_string();
    assert!(text.contains(&format!("{limit} files open")) && text.contains("ulimit"), "{text}");
}

#[test]
fn a_limit_on_open_files_is_named() {
    let rack = TestRack::start("files", 3);
    rack.rack.create_context(0, 0o600).unwrap();
    for args in ["24 client", "40 client"] {
        assert!(support::wait(&mut start(&rack, "poor", args)).success(), "{args}");
    }
    drop(rack);
    let rack = TestRack::start("files-of-daemons", 4);
    for args in ["16 daemon", "24 daemon"] {
        assert!(support::wait(&mut start(&rack, "poor", args)).success(), "{args}");
    }
}

/// The role `daemon-of-a-taken-name`: must fail, and say which file is in its way.
fn be_daemon_of_a_taken_name() {
    let rack = rackmem::rack::Rack::named(None).unwrap();
    let path = rack.socket_path(0);
    let config = rackmem::daemon::Config {
        rack,
        nids: vec![0],
        pin_core: None,
        spin: std::time::Duration::from_micros(20),
        share_core: false,
        rack_file: None,
        faults: None,
    };
    let text = rackmem::daemon::run(config).unwrap_err().to_string();
    assert!(text.contains(path.to_str().unwrap()) && text.contains("no socket"), "{text}");
}

#[test]
fn a_file_in_the_place_of_a_daemons_socket_stays() {
    let mut rack = TestRack::start("taken-name", 1);
    rack.kill_daemon(0);
    let path = rack.rack.socket_path(0);
    std::fs::remove_file(&path).unwrap();
    std::fs::write(&path, "mine").unwrap();
    assert!(support::wait(&mut start(&rack, "daemon-of-a-taken-name", "")).success());
    assert_eq!(std::fs::read(&path).unwrap(), b"mine");
    std::fs::remove_file(&path).unwrap();
}

/// A member that may write the context's file does not put the others out by what it writes there.
#[test]
fn members_do_not_decide_which_context_it_is() {
    let rack = TestRack::start("rewritten", 2);
    rack.rack.create_context(0, 0o600).unwrap();
    let contexts = rack.open_all(0, BYTES, Progress::Daemon);
    let mut qp = contexts[0].queue_pair(4).unwrap();
    for text in ["1\n", "", "99999999999999999999\n"] {
        std::fs::write(rack.rack.context_path(0), text).unwrap();
        let late = Context::open(&rack.options(1, 0)).unwrap();
        late.wait_joined(0, Some(Instant::now() + BOUND)).unwrap();
        qp.write(1, 0, b"still one context").unwrap();
        let mut bytes = [0; 17];
        late.read_own(0, &mut bytes).unwrap();
        assert_eq!(&bytes, b"still one context");
    }
}

/// A process that may write a segment's control page does not bring a node back from the dead for the daemons.
/// Only members of the same host map it.
#[test]
fn members_do_not_decide_who_is_alive() {
    for progress in [Progress::Daemon, Progress::Packet] {
        let rack = TestRack::start_on(Wire::Shm, &format!("undead-{}", progress.name()), 2);
        rack.rack.create_context(0, 0o600).unwrap();
        let mut contexts = rack.open_all(0, BYTES, progress);
        let (raw, _fds) = support::raw::Raw::member(&rack.rack, 0, 0, 0);
        let asked = raw.call(&rackmem::protocol::Request::Peer { nid: 1 }, &[]).unwrap();
        let fd = asked.fds.into_iter().next().unwrap();
        let access = rackmem::shm::mapping::Access::ReadWrite;
        let segment = rackmem::shm::segment::Segment::open(fd, access).unwrap();
        let mut qp = contexts[0].queue_pair(4).unwrap();
        qp.write(1, 0, &[1]).unwrap();
        drop(contexts.pop());
        // SAFETY: the word lies in the mapping, which lives as long as the segment.
        let state = unsafe { &*segment.state_word() };
        // Until node 0's daemon has heard of it, too.
        eventually("node 1 has left", || {
            state.store(1, std::sync::atomic::Ordering::SeqCst);
            qp.write(1, 0, &[2]) == Err(rackmem::Status::NoContext)
        });
        for _ in 0..100 {
            state.store(1, std::sync::atomic::Ordering::SeqCst);
            assert_eq!(qp.write(1, 0, &[2]), Err(rackmem::Status::NoContext));
        }
    }
}
