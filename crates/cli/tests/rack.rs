//! `rackmem up`, `status`, `down`: daemons, the state that is shown of them, and files left behind.

mod common;

use std::fs;
use std::process::Command;

use common::{Host, is_alive, kill, until};
use serde_json::Value;

#[test]
fn a_rack_comes_up_answers_and_goes_down() {
    let host = Host::new();
    assert!(host.ok(&["up", "--nodes", "3"]).starts_with("rack 'default' is up: 3 nodes"));
    let status: Value = serde_json::from_str(&host.ok(&["status", "--json"])).unwrap();
    assert_eq!(status["rack"], "default");
    for (nid, node) in status["nodes"].as_array().unwrap().iter().enumerate() {
        assert_eq!(node["answers"], true);
        assert_eq!(node["status"]["nid"], nid);
        assert_eq!(node["status"]["peers_up"].as_array().unwrap().len(), 2);
    }
    let table = host.ok(&["status"]);
    assert!(table.starts_with("rack 'default': 3 nodes, 0 contexts\n"), "{table}");
    assert_eq!(host.processes().len(), 3);
    assert_eq!(host.ok(&["down"]), "rack 'default' is down: 3 daemons stopped\n");
    host.assert_nothing_left();
}

#[test]
fn racks_with_names_stand_beside_each_other() {
    let host = Host::new();
    host.ok(&["up", "--nodes", "1"]);
    host.ok(&["--rack", "other", "up", "--nodes", "2", "--pin", "--spin", "5"]);
    assert!(host.ok(&["status", "--rack", "other"]).contains("'other': 2 nodes"));
    host.ok(&["down"]);
    assert!(host.ok(&["status", "--rack", "other"]).contains("'other': 2 nodes"));
    host.ok(&["down", "--rack", "other"]);
    host.assert_nothing_left();
}

#[test]
fn a_second_up_is_refused_and_changes_nothing() {
    let host = Host::new();
    host.ok(&["up", "--nodes", "2"]);
    let before = [host.daemon(0), host.daemon(1)];
    let complaint = host.fails(1, &["up", "--nodes", "4"]);
    assert_eq!(
        complaint,
        "rackmem: rack 'default' is up already (2 daemons): stop it with `rackmem down` first\n"
    );
    assert_eq!([host.daemon(0), host.daemon(1)], before);
    host.ok(&["status"]);
    host.ok(&["down"]);
    host.assert_nothing_left();
}

#[test]
fn of_many_ups_at_once_one_succeeds() {
    let host = Host::new();
    let ups: Vec<_> =
        (0..4).map(|_| host.command(&["up", "--nodes", "2"]).spawn().unwrap()).collect();
    let statuses = ups.into_iter().map(|mut up| up.wait().unwrap().code().unwrap());
    assert_eq!(statuses.filter(|&status| status == 0).count(), 1);
    host.ok(&["status"]);
    assert_eq!(host.processes().len(), 2);
    host.ok(&["down"]);
    host.assert_nothing_left();
}

#[test]
fn without_a_rack_commands_say_so() {
    let host = Host::new();
    assert!(host.fails(1, &["down"]).contains("rack 'default' is not up"));
    for args in [&["status"][..], &["top", "--once"], &["context", "list"]] {
        let complaint = host.fails(1, args);
        assert!(complaint.contains("start it with `rackmem up --nodes N`"), "{complaint}");
    }
    host.assert_nothing_left();
}

#[test]
fn a_node_that_does_not_answer_is_named() {
    let host = Host::new();
    host.ok(&["up", "--nodes", "2"]);
    let daemon = host.daemon(1);
    kill(daemon, "KILL");
    until("the daemon is gone", || !is_alive(daemon));
    let done = host.run(&["status"]);
    assert_eq!(done.status, Some(1));
    assert!(done.out.contains("does not answer"), "{}", done.out);
    assert_eq!(done.err, "rackmem: node 1 does not answer\n");
    assert!(host.fails(1, &["up", "--nodes", "2"]).contains("up already (1 daemon)"));
    assert_eq!(host.ok(&["down"]), "rack 'default' is down: 1 daemon stopped\n");
    host.assert_nothing_left();
}

#[test]
fn a_stopped_daemon_is_named_and_can_be_taken_down() {
    let host = Host::new();
    host.ok(&["up", "--nodes", "3"]);
    let daemon = host.daemon(1);
    kill(daemon, "STOP");
    let done = host.run(&["status"]);
    assert_eq!(done.status, Some(1));
    let named = format!("the daemon of node 1 (process {daemon}) is stopped");
    assert!(done.err.contains(&named), "{}", done.err);
    assert!(done.err.ends_with("rackmem: node 1 does not answer\n"), "{}", done.err);
    assert_eq!(host.ok(&["down"]), "rack 'default' is down: 3 daemons stopped\n");
    host.assert_nothing_left();
}

#[test]
fn a_limit_on_open_files_that_is_too_low_is_named() {
    let host = Host::new();
    for limit in ["16", "24", "40"] {
        let mut shell = std::process::Command::new("sh");
        let up = format!("ulimit -n {limit}; exec \"$0\" up --nodes 4");
        shell.args(["-c", &up, env!("CARGO_BIN_EXE_rackmem")]);
        host.environment(&mut shell);
        let done = shell.output().unwrap();
        let complaint = String::from_utf8_lossy(&done.stderr);
        assert_eq!(done.status.code(), Some(1), "{limit}: {complaint}");
        assert!(complaint.contains(&format!("{limit} files open")), "{limit}: {complaint}");
        assert!(complaint.contains("ulimit"), "{limit}: {complaint}");
    }
    host.assert_nothing_left();
}

/// Kills all daemons of the default rack, which leaves its directory.
fn crash(host: &Host, nodes: u16) {
    let daemons: Vec<u32> = (0..nodes).map(|nid| host.daemon(nid)).collect();
    for &daemon in &daemons {
        kill(daemon, "KILL");
    }
    until("the daemons are gone", || !daemons.iter().copied().any(is_alive));
}

#[test]
fn what_a_dead_rack_has_left_is_removed() {
    let host = Host::new();
    host.ok(&["up", "--nodes", "2"]);
    crash(&host, 2);
    let done = host.run(&["up", "--nodes", "1"]);
    assert_eq!(done.status, Some(0), "{done:?}");
    assert_eq!(done.err, "rackmem: removed what a dead rack 'default' had left\n");
    crash(&host, 1);
    assert_eq!(host.ok(&["down"]), "removed what a dead rack 'default' had left\n");
    host.assert_nothing_left();
}

#[test]
fn a_process_that_only_has_the_number_of_a_daemon_is_spared() {
    let host = Host::new();
    host.ok(&["up", "--nodes", "1"]);
    crash(&host, 1);
    let mut innocent = Command::new("sleep").arg("1000").spawn().unwrap();
    let lock = host.racks().join("default/node-0.lock");
    fs::write(lock, innocent.id().to_string()).unwrap();
    host.ok(&["down"]);
    assert!(innocent.try_wait().unwrap().is_none());
    innocent.kill().unwrap();
    innocent.wait().unwrap();
    host.assert_nothing_left();
}

#[test]
fn a_stubborn_daemon_is_killed() {
    let host = Host::new();
    host.ok(&["up", "--nodes", "2"]);
    kill(host.daemon(0), "STOP");
    let done = host.run(&["down"]);
    assert_eq!(done.status, Some(0), "{done:?}");
    assert!(done.err.contains("1 daemon did not end when asked"), "{}", done.err);
    host.assert_nothing_left();
}

#[test]
fn a_rack_that_cannot_be_started_leaves_nothing() {
    let host = Host::new();
    let mut shell = Command::new("sh");
    // Too few descriptors even to begin.
    shell.args(["-c", "ulimit -n 6; exec \"$0\" up --nodes 2", env!("CARGO_BIN_EXE_rackmem")]);
    host.environment(&mut shell);
    let output = shell.output().unwrap();
    assert_eq!(output.status.code(), Some(1));
    host.assert_nothing_left();
}

#[test]
fn a_daemon_by_itself_needs_a_rack_and_a_node_that_is_free() {
    let host = Host::new();
    let complaint = |node: &str| {
        let mut daemon = Command::new(env!("CARGO_BIN_EXE_rackmemd"));
        host.environment(&mut daemon);
        let output = daemon.args(["--node", node]).output().unwrap();
        assert_eq!(output.status.code(), Some(1));
        String::from_utf8(output.stderr).unwrap()
    };
    assert!(complaint("0").contains("rack 'default' is not up"));
    host.ok(&["up", "--nodes", "2"]);
    assert!(complaint("1").contains("the daemon of node 1 of rack 'default' runs already"));
    assert!(complaint("2").contains("node 2 is not in a rack of 2 nodes"));
    host.ok(&["status"]);
    host.ok(&["down"]);
    host.assert_nothing_left();
}

#[test]
fn wrong_usage_has_status_2() {
    let host = Host::new();
    for args in [
        &["up"][..],
        &["up", "--nodes", "0"],
        &["up", "--nodes", "4097"],
        &["nonsense"],
        &["top", "--json"],
        &["run", "-n", "2"],
        &["run", "-n", "1", "--context-size", "5X", "--", "true"],
        &["run", "--", "true"],
    ] {
        host.fails(2, args);
    }
    assert!(host.fails(1, &["--rack", "a/b", "status"]).contains("\"a/b\" is not a name"));
    for name in ["a b", "a;b", ".a", ""] {
        assert!(host.fails(1, &["--rack", name, "status"]).contains("is not a name"), "{name:?}");
    }
    assert!(host.fails(1, &["--rack=-x", "status"]).contains("\"-x\" is not a name"));
    host.assert_nothing_left();
}
