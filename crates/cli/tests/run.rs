//! `rackmem run`: output, exit statuses, and that nothing outlives it.

mod common;

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Command, Stdio};

use common::{Done, Host, is_alive, kill, until};

fn shell<'a>(nodes: &'a str, script: &'a str) -> Vec<&'a str> {
    vec!["run", "-n", nodes, "--", "sh", "-c", script]
}

/// Lines in any order: those of different nodes have none.
fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

#[test]
fn output_has_the_node_in_front_of_each_line() {
    let host = Host::new();
    let script = "echo out $RACKMEM_NODE; echo err $RACKMEM_NODE >&2; printf 'no end'";
    let done = host.run(&shell("2", script));
    assert_eq!(done.status, Some(0), "{done:?}");
    assert_eq!(sorted(&done.out), ["[0] no end", "[0] out 0", "[1] no end", "[1] out 1"]);
    assert_eq!(sorted(&done.err), ["[0] err 0", "[1] err 1"]);
    host.assert_nothing_left();
}

#[test]
fn nodes_run_different_programs() {
    let host = Host::new();
    let script = "echo $0 $RACKMEM_NODE of $RACKMEM_NODES";
    let args = ["run", "-n", "1", "sh", "-c", script, "a", ":", "-n", "2", "--", "sh", "-c"];
    let out = host.ok(&[&args[..], &[script, "b"]].concat());
    assert_eq!(sorted(&out), ["[0] a 0 of 3", "[1] b 1 of 3", "[2] b 2 of 3"]);
    for (args, status, said) in [
        (&["-n", "1", "true", ":", "false"][..], 2, "how many processes of false? Say -n N before"),
        (&["true", ":", "-n", "1", "false"], 2, "how many processes of true?"),
        (&["-n", "1", "true", ":"], 2, "a program is missing after ':'"),
        (&["-n", "1", "true", ":", "-n", "1", ":nothing"], 127, "no built-in program"),
        (&["-n", "1", "true", ":", "-n", "1", "/no/where"], 127, "cannot start '/no/where'"),
        (&["-n", "1", "true", ":", "-n", "1", "false"], 1, "node 1 ended with status 1"),
        (&["-n", "4000", "true", ":", "-n", "97", "true"], 2, "are 4097 in all"),
    ] {
        let done = host.run(&[&["run"], args].concat());
        assert_eq!(done.status, Some(status), "{done:?}");
        assert!(done.err.contains(said), "{done:?}");
    }
    host.assert_nothing_left();
}

#[test]
fn output_passes_through_unchanged_if_asked_or_from_a_single_node() {
    let host = Host::new();
    assert_eq!(host.ok(&shell("1", "printf 'a\\nb'")), "a\nb");
    assert_eq!(host.ok(&["run", "-n", "2", "--no-prefix", "--", "echo", "x"]), "x\nx\n");
    host.assert_nothing_left();
}

#[test]
fn much_output_arrives_whole_and_in_order() {
    let host = Host::new();
    let out = host.ok(&shell("2", "seq 1 20000"));
    for nid in 0..2 {
        let prefix = format!("[{nid}] ");
        let numbers = out.lines().filter_map(|line| line.strip_prefix(&prefix));
        let numbers = numbers.map(|number| number.parse::<u32>().unwrap());
        assert!(numbers.eq(1..=20000), "node {nid}");
    }
    host.assert_nothing_left();
}

#[test]
fn programs_find_their_place_in_the_environment() {
    let host = Host::new();
    let script = "echo $RACKMEM_RACK $RACKMEM_NODE $RACKMEM_NODES $RACKMEM_CONTEXT \
                  $RACKMEM_CONTEXT_SIZE $RACKMEM_PROGRESS";
    host.ok(&["up", "--nodes", "3"]);
    host.ok(&["context", "create", "0"]);
    let options =
        ["run", "-n2", "--context-size=2M", "--progress=packet", "--", "sh", "-c", script];
    let out = host.ok(&options);
    assert_eq!(
        sorted(&out),
        ["[0] default 0 2 1 2097152 packet", "[1] default 1 2 1 2097152 packet"]
    );
    let out = host.ok(&["run", "--", "sh", "-c", "echo $RACKMEM_NODES"]);
    assert_eq!(sorted(&out), ["[0] 3", "[1] 3", "[2] 3"]);
    // The contexts of the runs are gone, the other one is not.
    assert!(host.ok(&["status"]).starts_with("rack 'default': 3 nodes, 1 context\n"));
    let complaint = host.fails(1, &["run", "-n", "4", "--", "true"]);
    assert!(complaint.contains("rack 'default' has 3 nodes, not 4"), "{complaint}");
    host.ok(&["down"]);
    host.assert_nothing_left();
}

#[test]
fn one_process_can_be_the_daemon_of_all_nodes() {
    let host = Host::new();
    let count = "ls $RACKMEM_DIR/$RACKMEM_RACK/*.log | wc -l";
    let run =
        |more: &[&str]| host.ok(&[&["run", "-n", "3"], more, &["--", "sh", "-c", count]].concat());
    assert_eq!(sorted(&run(&["--together"])), ["[0] 1", "[1] 1", "[2] 1"]);
    assert_eq!(sorted(&run(&[])), ["[0] 3", "[1] 3", "[2] 3"]);
    host.ok(&["up", "--nodes", "1"]);
    let complaint = host.fails(2, &["run", "--together", "--", "true"]);
    assert!(complaint.contains("this one is up"), "{complaint}");
    host.ok(&["down"]);
    host.assert_nothing_left();
}

#[test]
fn commands_without_a_rack_take_none() {
    let host = Host::new();
    host.fails(2, &["noc", "--rack", "x"]);
    let complaint = host.fails(2, &["--rack", "x", "man"]);
    assert!(complaint.contains("works on no rack"), "{complaint}");
}

#[test]
fn a_rack_that_is_named_must_be_up() {
    let host = Host::new();
    let complaint = host.fails(1, &["--rack", "nope", "run", "-n", "1", "--", "true"]);
    assert!(complaint.contains("rack 'nope' is not up"), "{complaint}");
    host.assert_nothing_left();
}

#[test]
fn standard_input_goes_to_node_0() {
    let host = Host::new();
    let mut command = host.command(&["run", "-n", "2", "--", "sh", "-c", "wc -c"]);
    let mut run = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    run.stdin.take().unwrap().write_all(b"12345").unwrap();
    let done = Done::from(run.wait_with_output().unwrap());
    assert_eq!(sorted(&done.out), ["[0] 5", "[1] 0"]);
    host.assert_nothing_left();
}

#[test]
fn the_first_failure_ends_the_run_with_its_status() {
    let host = Host::new();
    let script = "test $RACKMEM_NODE = 1 && exit 7; exec sleep 1000";
    assert_eq!(
        host.fails(7, &shell("3", script)),
        "rackmem: node 1 ended with status 7; the other 2 processes were ended\n"
    );
    let script = "test $RACKMEM_NODE = 0 && kill -SEGV $$; exec sleep 1000";
    assert_eq!(
        host.fails(128 + 11, &shell("2", script)),
        "rackmem: node 0 was killed by signal 11 (SIGSEGV); the other process was ended\n"
    );
    assert_eq!(host.fails(3, &shell("1", "exit 3")), "rackmem: node 0 ended with status 3\n");
    host.assert_nothing_left();
}

#[test]
fn processes_that_ignore_the_end_are_killed() {
    let host = Host::new();
    let script = "test $RACKMEM_NODE = 1 && sleep 0.2 && exit 5; trap '' TERM; \
                  while :; do sleep 1000; done";
    assert!(host.fails(5, &shell("2", script)).contains("node 1 ended with status 5"));
    host.assert_nothing_left();
}

#[test]
fn what_a_process_leaves_running_ends_with_it() {
    let host = Host::new();
    host.ok(&shell("2", "sleep 1000 & exit 0"));
    host.assert_nothing_left();
}

#[test]
fn programs_that_cannot_be_started_are_named() {
    let host = Host::new();
    for (status, program, complaint) in [
        (127, "no-such-program", "cannot start 'no-such-program': there is no such program"),
        (127, "./no-such-file", "cannot start './no-such-file': there is no such file"),
        (126, "/proc/version", "cannot start '/proc/version': Permission denied"),
        (127, ":no-such", "there is no built-in program ':no-such'; there are :bench, "),
    ] {
        let found = host.fails(status, &["run", "-n", "2", "--", program]);
        assert!(found.contains(complaint), "{found}");
        assert_eq!(found.lines().count(), 1, "{found}");
    }
    host.assert_nothing_left();
}

/// Starts a run whose processes do not end by themselves, and waits until all are there.
fn endless_run(host: &Host) -> Child {
    let args = shell("2", "echo ready; exec sleep 1000");
    let mut run = host.command(&args).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(run.stdout.as_mut().unwrap()).lines().take(2);
    assert_eq!(lines.map(Result::unwrap).filter(|line| line.ends_with("ready")).count(), 2);
    run
}

#[test]
fn signals_end_everything() {
    let host = Host::new();
    for (signal, status) in [("INT", 130), ("TERM", 143)] {
        let mut run = endless_run(&host);
        kill(run.id(), signal);
        assert_eq!(run.wait().unwrap().code(), Some(status));
        host.assert_nothing_left();
    }
}

#[test]
fn nothing_survives_a_killed_run_and_the_next_one_clears_up() {
    let host = Host::new();
    let mut run = endless_run(&host);
    // The two that announced themselves may be within their exec, without an environment.
    until("all five processes are there", || host.processes().len() == 5);
    let processes = host.processes();
    kill(run.id(), "KILL");
    run.wait().unwrap();
    // By their numbers: one that is ending has no environment either, and still its locks.
    until("no process is left", || !processes.iter().copied().any(is_alive));
    assert_eq!(host.rack_names().len(), 1);
    host.ok(&["run", "-n", "1", "--", "true"]);
    host.assert_nothing_left();
}

#[test]
fn a_reader_that_goes_away_ends_the_run() {
    let host = Host::new();
    let mut command = host.command(&["run", "-n", "2", "--", "yes"]);
    let mut run = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut some = [0; 100];
    run.stdout.take().unwrap().read_exact(&mut some).unwrap();
    let done = Done::from(run.wait_with_output().unwrap());
    assert_eq!((done.status, done.err.as_str()), (Some(141), ""));
    host.assert_nothing_left();
}

#[test]
fn processes_can_be_pinned() {
    let host = Host::new();
    let list = "grep Cpus_allowed_list /proc/self/status | cut -f 2";
    let out = host.ok(&["run", "-n", "2", "--pin", "--", "sh", "-c", list]);
    assert!(out.lines().all(|line| line[4..].parse::<u32>().is_ok()), "{out}");
    host.assert_nothing_left();
}

#[test]
fn a_rack_that_goes_down_is_noticed_by_its_run() {
    let host = Host::new();
    host.ok(&["up", "--nodes", "2"]);
    let mut run = endless_run(&host);
    host.ok(&["down"]);
    kill(run.id(), "TERM");
    run.wait().unwrap();
    host.assert_nothing_left();
}

#[test]
fn programs_from_elsewhere_find_a_relative_directory() {
    let host = Host::new();
    let mut command = Command::new(env!("CARGO_BIN_EXE_rackmem"));
    host.environment(&mut command);
    command.env("RACKMEM_DIR", "racks").current_dir(host.racks());
    let output = command.args(["run", "-n", "1", "--", "sh", "-c", "cd /; echo $RACKMEM_DIR"]);
    let done = Done::from(output.output().unwrap());
    // The way to temporary files may lead through a link.
    let racks = host.racks().canonicalize().unwrap();
    assert_eq!(done.out, format!("{}/racks\n", racks.display()), "{done:?}");
    assert_eq!(fs::read_dir(host.racks().join("racks")).unwrap().count(), 0);
    until("the daemon is gone", || host.processes().is_empty());
}
