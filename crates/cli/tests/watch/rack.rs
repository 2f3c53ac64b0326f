//! Metrics of the daemons of a rack.

use std::fs;
use std::process::Command;

use serde_json::Value;

use crate::client::{metrics, port_in};
use crate::common::{Host, kill, until};
use crate::operations::{ATOMICS, ERRORS, LAST, READS, Run, WRITES};
use crate::text::Page;

/// The ports of the daemons of the default rack, as their logs say.
fn ports(host: &Host, daemons: u16) -> Vec<u16> {
    let port = |nid: u16| {
        let log = host.racks().join(format!("default/node-{nid}.log"));
        port_in(&fs::read_to_string(log).unwrap()).expect("the log says where")
    };
    (0..daemons).map(port).collect()
}

fn series(name: &str, nid: u16) -> String {
    format!("rackmem_node_{name}{{rack=\"default\",node=\"{nid}\"}}")
}

fn of(page: &Page, name: &str, nid: u16) -> u64 {
    page.value(&series(name, nid)) as u64
}

fn status(host: &Host) -> Value {
    serde_json::from_str(&host.ok(&["status", "--json"])).unwrap()
}

/// Checks the page against what `rackmem status --json` says of a node that does nothing meanwhile.
fn check_against_status(page: &Page, host: &Host, nid: u16) {
    let status = status(host);
    let node = &status["nodes"][usize::from(nid)]["status"];
    let list = |name: &str| node[name].as_array().unwrap();
    let sum = |of: &str, name: &str| list(of).iter().map(|one| one[name].as_u64().unwrap()).sum();
    let number = |path: &str| node.pointer(path).unwrap().as_u64().unwrap();
    let up = list("peers_up").len() as u64;
    for (name, expected) in [
        ("up", 1),
        ("rack_nodes", number("/nodes")),
        ("links_up", up),
        ("links_down", number("/nodes") - 1 - up),
        ("contexts", list("contexts").len() as u64),
        ("segment_bytes", sum("contexts", "segment_bytes")),
        ("members", sum("contexts", "clients")),
        ("queue_pairs", list("qps").len() as u64),
        ("queue_entries", sum("qps", "entries")),
        ("in_flight", sum("qps", "outstanding")),
        ("operations_total", number("/total/ops")),
        ("operation_bytes_total", number("/total/bytes")),
        ("operation_errors_total", number("/total/errors")),
        ("served_packets_total", number("/served_packets")),
        ("served_bytes_total", number("/served_bytes")),
    ] {
        assert_eq!(of(page, name, nid), expected, "{name} of node {nid}");
    }
    let uptime = page.value(&series("uptime_seconds", nid));
    assert!(uptime > 0.0 && uptime <= number("/uptime_ms") as f64 / 1000.0);
}

#[test]
fn counters_rise_by_what_was_done_and_stay_when_processes_end() {
    let host = Host::new();
    host.ok(&["up", "--nodes", "2", "--metrics", "127.0.0.1:0"]);
    let ports = ports(&host, 2);
    let mut before = metrics(ports[0]);
    assert_eq!(of(&before, "operations_total", 0), 0);
    for progress in ["inline", "daemon", "packet"] {
        let served_before = metrics(ports[1]);
        let run = Run::start(&host, progress, 5);
        let during = metrics(ports[0]);
        during.follows(&before);
        let rise = |page: &Page, name: &str| of(page, name, 0) - of(&before, name, 0);
        let done = READS + WRITES + ATOMICS;
        assert_eq!(rise(&during, "operations_total"), 5 * (done + ERRORS), "{progress}");
        let bytes = 64 * READS + 8 * (WRITES + ATOMICS);
        assert_eq!(rise(&during, "operation_bytes_total"), 5 * bytes, "{progress}");
        assert_eq!(rise(&during, "operation_errors_total"), 5 * ERRORS, "{progress}");
        assert_eq!((of(&during, "queue_pairs", 0), of(&during, "queue_entries", 0)), (1, 64));
        for nid in [0, 1] {
            check_against_status(&metrics(ports[usize::from(nid)]), &host, nid);
        }
        // What `rackmem top` sums over queue pairs is the same as long as none has ended.
        let top = host.ok(&["top", "--once", "--json", "--interval", "0.05"]);
        let top: Value = serde_json::from_str(&top).unwrap();
        assert_eq!(top["nodes"][0]["qps"][0]["ops"], 5 * (done + ERRORS));
        run.end();
        until("the queue pair has ended", || of(&metrics(ports[0]), "queue_pairs", 0) == 0);
        let after = metrics(ports[0]);
        after.follows(&during);
        assert_eq!(rise(&after, "operations_total"), 5 * (done + ERRORS) + LAST, "{progress}");
        check_against_status(&after, &host, 0);
        let served = metrics(ports[1]);
        let served = |name: &str| of(&served, name, 1) - of(&served_before, name, 1);
        let by_packets = if progress == "packet" { 5 * bytes + 8 * LAST } else { 0 };
        assert_eq!(served("served_bytes_total"), by_packets, "{progress}");
        before = after;
    }
    host.ok(&["down"]);
    host.assert_nothing_left();
}

#[test]
fn counters_never_fall_while_they_are_read() {
    let host = Host::new();
    host.ok(&["up", "--nodes", "2", "--metrics", "127.0.0.1:0"]);
    let port = ports(&host, 2)[0];
    let (stop, stopped) = std::sync::mpsc::channel::<()>();
    let reader = std::thread::spawn(move || {
        let mut last = metrics(port);
        let mut pages = 1;
        while stopped.try_recv() == Err(std::sync::mpsc::TryRecvError::Empty) {
            let page = metrics(port);
            page.follows(&last);
            last = page;
            pages += 1;
        }
        pages
    });
    for progress in ["inline", "packet", "daemon"] {
        Run::start(&host, progress, 300).end();
    }
    drop(stop);
    assert!(reader.join().expect("no counter has fallen") > 3);
    let expected = 3 * (300 * (READS + WRITES + ATOMICS + ERRORS) + LAST);
    until("all is counted", || of(&metrics(port), "operations_total", 0) == expected);
    host.ok(&["down"]);
    host.assert_nothing_left();
}

/// One process is the daemon of all nodes, and has one page.
#[test]
fn nodes_of_one_process_share_a_page() {
    let host = Host::new();
    host.ok(&["up", "--nodes", "3", "--together", "--metrics", "127.0.0.1:0"]);
    let page = metrics(ports(&host, 1)[0]);
    for nid in 0..3 {
        check_against_status(&page, &host, nid);
    }
    host.ok(&["down"]);
    host.assert_nothing_left();
}

/// Every local user may read a page, as the book says.
#[test]
fn other_users_of_the_host_read_the_page() {
    use std::os::unix::process::CommandExt;
    if !rustix::process::geteuid().is_root() {
        eprintln!("not tested: only root has processes of other users");
        return;
    }
    let host = Host::new();
    host.ok(&["up", "--nodes", "1", "--metrics", "127.0.0.1:0"]);
    let port = ports(&host, 1)[0];
    let script = format!(
        "exec 3<>/dev/tcp/127.0.0.1/{port}; printf 'GET /metrics HTTP/1.0\\r\\n\\r\\n' >&3; cat <&3"
    );
    let output = Command::new("bash").args(["-c", &script]).uid(65534).gid(65534).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let (_, body) = text.split_once("\r\n\r\n").expect("a response");
    check_against_status(&Page::parse(body), &host, 0);
    host.ok(&["down"]);
    host.assert_nothing_left();
}

#[test]
fn a_daemon_that_is_gone_has_no_page_and_the_others_say_so() {
    let host = Host::new();
    host.ok(&["up", "--nodes", "2", "--metrics", "127.0.0.1:0"]);
    let ports = ports(&host, 2);
    kill(host.daemon(1), "KILL");
    until("the link is down", || of(&metrics(ports[0]), "links_down", 0) == 1);
    // The kernel closes what a killed process had open piece by piece: its link may be gone before its page.
    let page = ("127.0.0.1", ports[1]);
    until("its page is gone", || std::net::TcpStream::connect(page).is_err());
    host.ok(&["down"]);
    host.assert_nothing_left();
}

#[test]
fn places_where_no_page_can_be_are_refused() {
    let host = Host::new();
    for arguments in [&["up", "--nodes", "2"][..], &["lend", "16M"], &["monitor"]] {
        let refused = host.fails(2, &[arguments, &["--metrics", "0.0.0.0:9469"]].concat());
        assert!(refused.contains("by a reverse proxy"), "{refused}");
    }
    let refused = host.fails(2, &["up", "--nodes", "3", "--metrics", "127.0.0.1:65534"]);
    assert!(refused.contains("the metrics of node 2 have no port"), "{refused}");
    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = taken.local_addr().unwrap().to_string();
    for arguments in [&["up", "--nodes", "1"][..], &["lend", "16M"], &["monitor"]] {
        let refused = host.fails(1, &[arguments, &["--metrics", &address]].concat());
        let named = refused.contains(&format!("cannot listen at {address}"));
        assert!(named && refused.contains("choose another port"), "{refused}");
    }
    host.assert_nothing_left();
}
