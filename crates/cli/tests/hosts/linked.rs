//! Programs that use memory of nodes on other hosts. Their daemons have to be linked over TCP.

use serde_json::Value;

use crate::common::until;
use crate::rig::Rig;

/// Links of a node, as `rackmem info --json` shows them.
pub fn links(rig: &Rig, nid: u16) -> Vec<Value> {
    let info: Value = serde_json::from_str(&rig.ok_on(nid, &["info", "--json"])).unwrap();
    info[0]["links"].as_array().unwrap().clone()
}

fn up(nodes: u16) -> Rig {
    let rig = Rig::new(nodes);
    rig.up();
    until_linked(&rig, nodes);
    rig
}

pub fn until_linked(rig: &Rig, nodes: u16) {
    let is_up = |link: &Value| link["state"] == "up";
    let others = usize::from(nodes) - 1;
    until("all nodes are linked", || {
        (0..nodes).all(|nid| links(rig, nid).iter().filter(|link| is_up(link)).count() == others)
    });
}

#[test]
fn links_say_what_they_are() {
    let rig = up(2);
    for nid in 0..2 {
        let [link] = &links(&rig, nid)[..] else { panic!("{:?}", links(&rig, nid)) };
        assert_eq!((&link["path"], &link["sealed"]), (&"tcp".into(), &true.into()));
        assert!(link["address"].as_str().unwrap().ends_with(":7400"), "{link}");
    }
    let table = rig.ok_on(0, &["info"]);
    assert!(table.contains("encrypted"), "{table}");
    rig.down();
    rig.assert_nothing_left();
}

#[test]
fn programs_reach_memory_of_other_hosts() {
    let rig = up(2);
    let launcher = rig.launcher();
    for progress in ["inline", "daemon", "packet"] {
        let mut args = vec!["run", "--launcher", &launcher, "--progress", progress, "--", ":hello"];
        let out = rig.ok(&args);
        assert!(out.contains("node 0 of 2") && out.contains("node 1 of 2"), "{progress}: {out}");
        args.pop();
        args.extend([":pagerank", "--kronecker", "8"]);
        rig.ok(&args);
        rig.assert_only_daemons();
    }
    rig.down();
    rig.assert_nothing_left();
}

#[test]
fn a_host_that_goes_down_is_named() {
    let rig = up(2);
    rig.ok_on(1, &["down"]);
    until("node 0 has noticed", || links(&rig, 0)[0]["state"] == "down");
    let status = rig.fails_on(0, &["status"]);
    assert!(status.out.contains("node 0 has no link to node 1 (127."), "{status:?}");
    assert!(status.out.contains("   1  does not answer"), "{status:?}");
    assert!(status.err.ends_with("rackmem: node 1 does not answer\n"), "{status:?}");
    let status = rig.fails_on(0, &["status", "--json"]).out;
    let status: Value = serde_json::from_str(&status).unwrap();
    let error = status["nodes"][1]["error"].as_str().unwrap();
    assert!(error.starts_with("no link from node 0 to 127."), "{error}");
    let top: Value =
        serde_json::from_str(&rig.ok_on(0, &["top", "--once", "--interval=0.1", "--json"]))
            .unwrap();
    assert_eq!(top["nodes"][1]["answers"], false);
    rig.ok_on(1, &["up", "--node", "1"]);
    until("they are linked again", || links(&rig, 0)[0]["state"] == "up");
    rig.down();
    rig.assert_nothing_left();
}

/// Each host asks the daemons of the others.
#[test]
fn every_host_shows_all_nodes() {
    let rig = up(3);
    rig.ok_on(2, &["context", "create", "9"]);
    for nid in 0..3 {
        let status: Value = serde_json::from_str(&rig.ok_on(nid, &["status", "--json"])).unwrap();
        assert_eq!(status["nodes_here"], serde_json::json!([nid]));
        for (index, node) in (0..).zip(status["nodes"].as_array().unwrap()) {
            assert_eq!((&node["nid"], &node["status"]["nid"]), (&index.into(), &index.into()));
            let lock = rig.racks(index).join(format!("lab/node-{index}.lock"));
            let daemon = std::fs::read_to_string(lock).unwrap();
            assert_eq!(node["status"]["pid"].to_string(), daemon.trim());
        }
        let text = rig.ok_on(nid, &["status"]);
        assert!(text.starts_with("rack 'lab': 1 of 3 nodes on this host"), "{text}");
        let top = rig.ok_on(nid, &["top", "--once", "--interval=0.1", "--json"]);
        let top: Value = serde_json::from_str(&top).unwrap();
        let answers =
            top["nodes"].as_array().unwrap().iter().filter(|node| node["answers"] == true);
        assert_eq!(answers.count(), 3, "{top}");
    }
    rig.ok_on(2, &["context", "remove", "9"]);
    rig.down();
    rig.assert_nothing_left();
}

#[test]
fn a_node_of_another_host_is_measured_from_here() {
    let rig = up(3);
    let launcher = rig.launcher();
    let bench = |nid: u16, more: &[&str]| {
        let args = ["bench", "--launcher", &launcher, "--quick", "--progress", "daemon"];
        rig.ok_on(nid, &[&args[..], more].concat())
    };
    let rows: Value = serde_json::from_str(&bench(1, &["--node", "2", "--json"])).unwrap();
    let metrics: Vec<&str> =
        rows.as_array().unwrap().iter().map(|row| row["metric"].as_str().unwrap()).collect();
    assert!(metrics.contains(&"get_latency") && metrics.contains(&"op_rate"), "{rows}");
    assert!(rows.as_array().unwrap().iter().all(|row| row["value"].as_f64().unwrap() > 0.0));
    let table = bench(2, &[]);
    assert!(table.contains("; node 2 on ") && table.contains(", to node 0 (127."), "{table}");
    let complaint = rig.fails_on(1, &["bench", "--node", "3"]).err;
    assert_eq!(complaint, "rackmem: rack 'lab' has no node 3: its nodes are 0 to 2\n");
    rig.assert_only_daemons();
    rig.down();
    rig.assert_nothing_left();
}

#[test]
fn the_demonstration_has_the_answers_of_one_host() {
    let rig = up(2);
    let launcher = rig.launcher();
    let args = ["demo", "--no-model", "--scale", "8", "--json"];
    let demo = |text: String| -> Value { serde_json::from_str(&text).unwrap() };
    let over_hosts = demo(rig.ok_on(0, &[&args[..], &["--launcher", &launcher]].concat()));
    let here = demo(rig.host.ok(&[&args[..], &["--nodes", "2"]].concat()));
    for report in [&over_hosts, &here] {
        assert_eq!((&report["agree"], &report["nodes"]), (&true.into(), &2.into()), "{report}");
    }
    assert_eq!(over_hosts["top"], here["top"]);
    assert_eq!(over_hosts["addresses"].as_array().unwrap().len(), 2);
    let complaint = rig.fails_on(1, &["demo"]).err;
    assert!(complaint.contains("run this command on its host, which is 127."), "{complaint}");
    rig.assert_only_daemons();
    rig.down();
    rig.assert_nothing_left();
}

#[test]
fn a_rack_that_was_started_on_all_hosts_is_linked() {
    let rig = Rig::new(3);
    let done = rig.on(1, &["up", "--hosts", "--launcher", &rig.launcher()]).output().unwrap();
    assert!(done.status.success(), "{done:?}");
    // The command waits for the links, so its parts name none that is missing.
    assert!(!String::from_utf8(done.stdout).unwrap().contains("no link yet"));
    for nid in 0..3 {
        assert_eq!(links(&rig, nid).iter().filter(|link| link["state"] == "up").count(), 2);
        rig.ok_on(nid, &["status"]);
    }
    rig.down();
    rig.assert_nothing_left();
}
