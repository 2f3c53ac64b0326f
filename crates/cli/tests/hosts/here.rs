//! This host's part of a rack: which nodes start, join and stop.

use std::fs;

use serde_json::Value;

use crate::common::{is_alive, kill, until};
use crate::rig::Rig;

/// Numbers of the nodes that answer to `rackmem status`; of the others, all that are missing are named.
fn nodes(rig: &Rig) -> Vec<u64> {
    let done = rig.run(&["status", "--json"]);
    let status: Value = serde_json::from_str(&done.out).unwrap();
    let nodes = status["nodes"].as_array().unwrap();
    let answers = |node: &&Value| node["answers"] == true;
    let answering: Vec<u64> =
        nodes.iter().filter(answers).map(|node| node["nid"].as_u64().unwrap()).collect();
    assert_eq!(done.status, Some(i32::from(answering.len() < nodes.len())), "{done:?}");
    answering
}

#[test]
fn the_nodes_of_this_host_come_up_and_go_down() {
    let rig = Rig::new(2);
    assert!(rig.ok(&["up"]).starts_with("rack 'lab' of 2 nodes: nodes 0, 1 are up here, "));
    assert_eq!(nodes(&rig), [0, 1]);
    assert!(
        rig.host
            .ok(&["status", "--rack", "lab"])
            .starts_with("rack 'lab': 2 of 2 nodes on this host")
    );
    let info: Value = serde_json::from_str(&rig.ok(&["info", "--json"])).unwrap();
    assert_eq!(info[1]["links"][0]["nid"], 0);
    let complaint = rig.fails(1, &["up"]);
    assert_eq!(complaint, "rackmem: nodes 0, 1 of rack 'lab' are up already\n");
    assert_eq!(rig.ok(&["down"]), "rack 'lab' is down: 2 daemons stopped\n");
    assert!(rig.fails(1, &["down"]).contains("rack 'lab' is not up"));
    let complaint = rig.fails(1, &["status"]);
    assert!(
        complaint.contains("not up on this host: start its nodes with `rackmem up --rack-file /"),
        "{complaint}"
    );
    rig.assert_nothing_left();
}

#[test]
fn nodes_of_other_hosts_are_left_to_them() {
    let rig = Rig::new(1);
    let file = fs::read_to_string(rig.file()).unwrap();
    let own = file.split('"').nth(5).unwrap().to_owned();
    // An address of documentation: no host has it.
    rig.write_nodes(&["192.0.2.1:7400", &own]);
    let said = rig.ok(&["up"]);
    assert!(said.starts_with("rack 'lab' of 2 nodes: node 1 is up here, "), "{said}");
    assert!(said.ends_with("no link yet to node 0\n"), "{said}");
    assert_eq!(nodes(&rig), [1]);
    let complaint = rig.fails(1, &["up", "--node", "0"]);
    assert!(complaint.contains("192.0.2.1:7400, which is not of this host"), "{complaint}");
    assert!(rig.fails(1, &["up", "--node", "2"]).contains("has no node 2: its nodes are 0 to 1"));
    rig.ok(&["down"]);
    rig.write_nodes(&["192.0.2.1:7400"]);
    assert!(rig.fails(1, &["up"]).contains("no node of /"));
    rig.assert_nothing_left();
}

#[test]
fn nodes_start_and_stop_one_by_one() {
    let rig = Rig::new(3);
    assert!(rig.ok(&["up", "--node", "1"]).contains(": node 1 is up here"));
    assert_eq!(
        rig.fails(1, &["up", "--node", "1"]),
        "rackmem: node 1 of rack 'lab' is up already\n"
    );
    assert!(rig.ok(&["up"]).contains(": nodes 0, 2 are up here"));
    assert_eq!(nodes(&rig), [0, 1, 2]);
    assert_eq!(rig.ok(&["down", "--node", "1"]), "1 node of rack 'lab' stopped\n");
    assert_eq!(nodes(&rig), [0, 2]);
    let complaint = rig.fails(1, &["down", "--node", "1"]);
    assert!(complaint.contains("node 1 of rack 'lab' is not up on this host"), "{complaint}");
    rig.ok(&["down", "--node", "0", "--node", "2"]);
    rig.assert_nothing_left();
}

#[test]
fn a_node_whose_daemon_died_is_started_again() {
    let rig = Rig::new(2);
    rig.ok(&["up"]);
    let lock = rig.host.racks().join("lab/node-1.lock");
    let daemon: u32 = fs::read_to_string(lock).unwrap().trim().parse().unwrap();
    kill(daemon, "KILL");
    until("the daemon is gone", || !is_alive(daemon));
    assert!(rig.fails(1, &["status"]).ends_with("rackmem: node 1 does not answer\n"));
    assert!(rig.ok(&["up"]).contains(": node 1 is up here"));
    rig.ok(&["status"]);
    rig.ok(&["down"]);
    rig.assert_nothing_left();
}

#[test]
fn another_file_of_the_same_name_is_refused() {
    let rig = Rig::new(2);
    rig.ok(&["up", "--node", "0"]);
    let text = fs::read_to_string(rig.file()).unwrap();
    rig.write("rack.toml", &format!("{text}[[node]]\naddress = \"127.0.0.1:7\"\n"), 0o644);
    let complaint = rig.fails(1, &["up", "--node", "1"]);
    assert!(
        complaint.contains("is up already (node 0), from a rack file with another text"),
        "{complaint}"
    );
    rig.ok(&["down"]);
    rig.host.ok(&["up", "--nodes", "1", "--rack", "lab"]);
    let complaint = rig.fails(1, &["up"]);
    assert!(complaint.contains("is up already, without a rack file"), "{complaint}");
    rig.host.ok(&["down", "--rack", "lab"]);
    rig.assert_nothing_left();
}

#[test]
fn the_environment_names_the_file() {
    let rig = Rig::new(1);
    let run = |args: &[&str]| {
        let mut command = rig.host.command(args);
        let output = command.env("RACKMEM_RACK_FILE", rig.file()).output().unwrap();
        assert!(output.status.success(), "{args:?}: {output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    run(&["up"]);
    // Of the program's environment the name of the rack is left.
    let out = run(&["run", "--", "sh", "-c", "echo $RACKMEM_RACK $RACKMEM_RACK_FILE"]);
    assert_eq!(out, "lab\n");
    // A name on the command line comes first.
    run(&["up", "--rack", "other", "--nodes", "1"]);
    run(&["down", "--rack", "other"]);
    run(&["down"]);
    rig.assert_nothing_left();
}

#[test]
fn contexts_made_by_hand_are_the_same_on_each_host() {
    let rig = Rig::new(2);
    rig.up();
    let incarnation = |nid: u16| {
        rig.ok_on(nid, &["context", "create", "7"]);
        let contexts = rig.contexts(nid);
        let id = contexts.iter().find(|name| name.ends_with(".id")).unwrap();
        fs::read_to_string(rig.racks(nid).join("lab/contexts").join(id)).unwrap()
    };
    assert_eq!(incarnation(0), incarnation(1));
    (0..2).for_each(|nid| _ = rig.ok_on(nid, &["context", "remove", "7"]));
    rig.assert_only_daemons();
    rig.down();
    rig.assert_nothing_left();
}
