//! Racks over several hosts whose packets travel by UCX; without UCX these tests say so, and pass.

mod support;

use std::time::Duration;

use rackmem::client::Context;
use rackmem::protocol::Progress;
use rackmem::status::{LinkPath, LinkState, LinkStatus};
use rackmem_fabric::ucx::Engine;
use support::{TestRack, Wire, eventually};

#[test]
fn child() {
    if let Some((role, args)) = support::role() {
        assert_eq!(role, "daemon");
        support::be_daemon(&args);
    }
}

/// Whether there is UCX; if not, it says why.
fn is_there() -> bool {
    Engine::load().map_err(|error| eprintln!("not tested: {error}")).is_ok()
}

fn link(rack: &TestRack, nid: u16, peer: u16) -> Option<LinkStatus> {
    let status = rackmem::control::status(&rack.rack, nid).ok()?;
    status.links.into_iter().find(|link| link.nid == peer)
}

/// Starts node 1 again by the rack's file without these lines.
fn restart_without(rack: &mut TestRack, lines: &str) {
    let dir = rack.rack.dir().to_owned();
    let text = std::fs::read_to_string(dir.join("rack.toml")).unwrap();
    assert!(text.contains(lines), "{text}");
    std::fs::write(dir.join("other.toml"), text.replace(lines, "")).unwrap();
    rack.kill_daemon(1);
    rack.start_daemon_by(1, "other.toml");
}

#[test]
fn links_say_that_they_are_ucx_and_why() {
    if !is_there() {
        return;
    }
    let mut rack = TestRack::start_on(Wire::Ucx, "ucx-shown", 2);
    let shown = link(&rack, 0, 1).unwrap();
    assert_eq!((shown.path, shown.state, shown.sealed), (LinkPath::Ucx, LinkState::Up, false));
    assert!(shown.path_why.starts_with("UCX 1."), "{shown:?}");
    restart_without(&mut rack, "link = \"ucx\"\n");
    eventually("both ends know that the files differ", || {
        let knows = |link: LinkStatus| link.why.contains("`link` differs");
        link(&rack, 1, 0).is_some_and(knows) && link(&rack, 0, 1).is_some_and(knows)
    });
    rack.kill_daemon(1);
    rack.start_daemon(1);
    rack.wait_linked();
}

/// Packets travel by UCX, and not by the connection that stays beside it.
#[test]
fn packets_do_not_take_the_connection() {
    if !is_there() {
        return;
    }
    let rack = TestRack::start_on(Wire::Ucx, "ucx-carries", 2);
    rack.rack.create_context(0, 0o600).unwrap();
    let contexts = rack.open_all(0, 1 << 20, Progress::Packet);
    let mut qp = contexts[0].queue_pair(8).unwrap();
    let port = link(&rack, 0, 1).unwrap().address.parse::<std::net::SocketAddr>().unwrap().port();
    let before = received_by(port);
    let bytes = vec![7; 1 << 20];
    for _ in 0..8 {
        qp.write(1, 0, &bytes).unwrap();
    }
    assert!(received_by(port) - before < 1 << 20, "packets have taken the connection");
}

/// Bytes that connections to a port have received, as `ss` tells; 0 without it.
fn received_by(port: u16) -> u64 {
    let filter = format!("sport = :{port}");
    let Ok(told) = std::process::Command::new("ss").args(["-tniH", &filter]).output() else {
        eprintln!("not looked at: there is no ss");
        return 0;
    };
    let text = String::from_utf8_lossy(&told.stdout);
    let bytes = text.split_whitespace().filter_map(|word| word.strip_prefix("bytes_received:"));
    bytes.filter_map(|bytes| bytes.parse::<u64>().ok()).sum()
}

#[test]
fn a_killed_peer_is_lost_and_found_again() {
    if !is_there() {
        return;
    }
    let mut rack = TestRack::start_on(Wire::Ucx, "ucx-killed", 2);
    for round in 0..3 {
        rack.rack.create_context(round, 0o600).unwrap();
        let contexts = rack.open_all(round, 1 << 20, Progress::Packet);
        let mut qp = contexts[0].queue_pair(64).unwrap();
        let mut bytes = vec![0; 1 << 20];
        qp.read(1, 0, &mut bytes).unwrap();
        let killed = std::thread::scope(|scope| {
            let reader = scope.spawn(|| while qp.read(1, 0, &mut bytes).is_ok() {});
            std::thread::sleep(Duration::from_millis(20));
            rack.kill_daemon(1);
            reader.join()
        });
        killed.unwrap();
        drop((qp, contexts));
        rack.start_daemon(1);
        rack.wait_linked();
    }
}

/// A daemon that has nothing to do sleeps, and is woken by a message of UCX.
#[test]
fn idle_daemons_sleep_and_are_woken() {
    if !is_there() {
        return;
    }
    let rack = TestRack::start_on(Wire::Ucx, "ucx-idle", 2);
    rack.rack.create_context(0, 0o600).unwrap();
    let contexts: Vec<Context> = rack.open_all(0, 4096, Progress::Packet);
    let mut qp = contexts[0].queue_pair(8).unwrap();
    let pids = [0, 1].map(|nid: usize| rack.daemons[nid].as_ref().unwrap().id());
    for round in 0..5u64 {
        eventually("both workers sleep", || pids.iter().all(|pid| is_worker_asleep(*pid)));
        assert_eq!(qp.fetch_add(1, 0, 1), Ok(round));
    }
}

/// Whether the thread `rmc` of a process waits for events.
fn is_worker_asleep(pid: u32) -> bool {
    let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
    let is_it = |path: &std::path::Path| {
        let name = std::fs::read_to_string(path.join("comm")).unwrap_or_default();
        let stat = std::fs::read_to_string(path.join("stat")).unwrap_or_default();
        name.trim() == "rmc" && stat.rsplit_once(") ").is_some_and(|(_, s)| s.starts_with('S'))
    };
    threads.flatten().any(|thread| is_it(&thread.path()))
}

/// Without a transport that notices dead peers there is no link, and it is said why.
#[test]
fn transports_that_do_not_notice_dead_peers_are_refused() {
    if !is_there() {
        return;
    }
    let mut rack = TestRack::start_on(Wire::Ucx, "ucx-refused", 2);
    rack.kill_daemon(1);
    rack.start_daemon_with(1, "rack.toml", "self");
    eventually("the missing transport is named", || {
        link(&rack, 1, 0).is_some_and(|link| link.why.contains("notices a dead peer"))
    });
}
