//! `rackmem run` over several hosts: what starts where, and that nothing outlives it. Its programs use no memory of
//! other nodes.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, Stdio};

use crate::common::{Done, is_alive, kill, until};
use crate::rig::Rig;

fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines
}

/// Arguments of a run of a script on all hosts.
fn shell<'a>(launcher: &'a str, script: &'a str) -> Vec<&'a str> {
    vec!["run", "--launcher", launcher, "--", "sh", "-c", script]
}

#[test]
fn each_process_finds_its_place() {
    let rig = Rig::new(3);
    rig.up();
    let script = "echo $RACKMEM_RACK $RACKMEM_NODE $RACKMEM_NODES $RACKMEM_PROGRESS 'a  b' $(pwd)";
    let launcher = rig.launcher();
    let mut args =
        vec!["run", "-n2", "--progress=daemon", "--launcher", &launcher, "--", "sh", "-c"];
    args.push(script);
    let here = std::env::current_dir().unwrap();
    let expected = |nid: u16| format!("[{nid}] lab {nid} 2 daemon a  b {}", here.display());
    assert_eq!(sorted(&rig.ok(&args)), [expected(0), expected(1)]);
    rig.assert_only_daemons();
    rig.down();
    rig.assert_nothing_left();
}

#[test]
fn hosts_run_different_programs() {
    let rig = Rig::new(2);
    rig.up();
    let launcher = rig.launcher();
    let args = ["run", "-n1", "--launcher", &launcher, "sh", "-c", "echo $0 $RACKMEM_NODES", "a"];
    let more = [":", "-n", "1", "--", "sh", "-c", "echo $0 $RACKMEM_NODE", "b"];
    assert_eq!(sorted(&rig.ok(&[&args[..], &more].concat())), ["[0] a 2", "[1] b 1"]);
    rig.down();
    rig.assert_nothing_left();
}

#[test]
fn all_are_in_the_same_context() {
    let rig = Rig::new(2);
    rig.up();
    let script = "cd $RACKMEM_DIR/lab/contexts; echo $RACKMEM_CONTEXT $(cat *.id)";
    let out = rig.ok(&shell(&rig.launcher(), script));
    let contexts: Vec<&str> = sorted(&out).into_iter().map(|line| &line[4..]).collect();
    assert_eq!(contexts.len(), 2);
    assert_eq!(contexts[0], contexts[1]);
    rig.down();
    rig.assert_nothing_left();
}

#[test]
fn nodes_of_this_host_need_no_launcher() {
    let rig = Rig::new(2);
    rig.up();
    let launcher = format!("{} LAUNCHED=yes", rig.launcher());
    let args = shell(&launcher, "echo $RACKMEM_NODE $LAUNCHED");
    assert_eq!(sorted(&rig.ok_on(0, &args)), ["[0] 0", "[1] 1 yes"]);
    assert_eq!(sorted(&rig.ok_on(1, &args)), ["[0] 0 yes", "[1] 1"]);
    // By its name the rack is the same one.
    let mut by_name = rig.host.command(&[&["--rack", "lab"], &args[..]].concat());
    let done = Done::from(by_name.env("RACKMEM_DIR", rig.racks(0)).output().unwrap());
    assert_eq!(sorted(&done.out), ["[0] 0", "[1] 1 yes"], "{done:?}");
    rig.assert_only_daemons();
    rig.down();
    rig.assert_nothing_left();
}

#[test]
fn a_shell_of_another_host_gets_the_same_words() {
    let rig = Rig::new(2);
    // Like the real one it joins the words, and lets a shell take them apart.
    let script = format!(
        "#!/bin/sh\nRACKMEM_DIR={}$1\nexport RACKMEM_DIR\nshift\nexec sh -c \"$*\"\n",
        rig.path("h")
    );
    rig.write("ssh", &script, 0o755);
    let launcher = format!("{} {{node}}", rig.path("ssh"));
    rig.ok(&["up", "--hosts", "--launcher", &launcher]);
    let args = ["run", "--launcher", &launcher, "--", "printf", "%s|", "it's", "a  $HOME", ""];
    assert_eq!(sorted(&rig.ok(&args)), ["[0] it's|a  $HOME||", "[1] it's|a  $HOME||"]);
    rig.ok(&["down", "--hosts", "--launcher", &launcher]);
    rig.assert_nothing_left();
}

#[test]
fn standard_input_goes_to_node_0() {
    let rig = Rig::new(2);
    rig.up();
    let launcher = rig.launcher();
    for nid in 0..2 {
        let mut command = rig.on(nid, &shell(&launcher, "wc -c"));
        let mut run = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        run.stdin.take().unwrap().write_all(b"12345").unwrap();
        let done = Done::from(run.wait_with_output().unwrap());
        assert_eq!(sorted(&done.out), ["[0] 5", "[1] 0"]);
    }
    rig.down();
    rig.assert_nothing_left();
}

#[test]
fn the_first_failure_ends_the_run_with_its_status() {
    let rig = Rig::new(3);
    rig.up();
    let launcher = rig.launcher();
    let script = "test $RACKMEM_NODE = 1 && exit 7; exec sleep 1000";
    assert_eq!(
        rig.fails(7, &shell(&launcher, script)),
        "rackmem: node 1 ended with status 7; the other 2 processes were ended\n"
    );
    rig.assert_only_daemons();
    let script =
        "test $RACKMEM_NODE = 1 && kill -SEGV $$; trap '' TERM; while :; do sleep 1000; done";
    let complaint = rig.fails(128 + 11, &shell(&launcher, script));
    assert!(complaint.contains("node 1 ended with status 139; the other 2"), "{complaint}");
    rig.assert_only_daemons();
    let complaint = rig.fails(127, &["run", "--launcher", &launcher, "--", "no-such-program"]);
    assert!(
        complaint.contains("cannot start 'no-such-program': there is no such program"),
        "{complaint}"
    );
    let complaint = rig.fails(127, &["run", "--launcher", "no-such-launcher", "--", "true"]);
    assert!(
        complaint.contains("cannot start 'no-such-launcher': there is no such program"),
        "{complaint}"
    );
    rig.down();
    rig.assert_nothing_left();
}

#[test]
fn a_node_that_is_not_up_is_named() {
    let rig = Rig::new(2);
    rig.ok_on(0, &["up", "--node", "0"]);
    let complaint = rig.fails(1, &shell(&rig.launcher(), "exec sleep 1000"));
    assert!(
        complaint.contains("[1] rackmem: node 1 of rack 'lab' is not up on this host: start it"),
        "{complaint}"
    );
    let complaint = rig.fails(1, &["down", "--hosts", "--launcher", &rig.launcher()]);
    assert!(
        complaint.ends_with("rackmem: it failed for node 1: the launcher ended with status 1\n"),
        "{complaint}"
    );
    let complaint = rig.fails(1, &["up", "--hosts", "--launcher", "false"]);
    assert_eq!(complaint, "rackmem: it failed for nodes 0, 1: the launcher ended with status 1\n");
    rig.assert_nothing_left();
}

/// Starts a run whose processes do not end by themselves, and waits until all are there.
fn endless_run(rig: &Rig, launcher: &str) -> Child {
    let args = shell(launcher, "echo ready; exec sleep 1000");
    let mut run = rig.on(0, &args).stdout(Stdio::piped()).spawn().unwrap();
    let lines = BufReader::new(run.stdout.as_mut().unwrap()).lines().take(2);
    assert_eq!(lines.map(Result::unwrap).filter(|line| line.ends_with("ready")).count(), 2);
    run
}

#[test]
fn signals_end_everything() {
    let rig = Rig::new(2);
    rig.up();
    for (signal, status) in [("INT", 130), ("TERM", 143)] {
        let mut run = endless_run(&rig, &rig.launcher());
        kill(run.id(), signal);
        assert_eq!(run.wait().unwrap().code(), Some(status));
        rig.assert_only_daemons();
    }
    rig.down();
    rig.assert_nothing_left();
}

#[test]
fn nothing_survives_a_killed_run_and_the_next_one_clears_up() {
    let rig = Rig::new(2);
    rig.up();
    let mut run = endless_run(&rig, &rig.launcher());
    kill(run.id(), "KILL");
    run.wait().unwrap();
    until("only daemons are left", || rig.processes().len() == 2);
    // The part on the other host has cleaned up behind itself.
    assert_eq!(rig.contexts(1), Vec::<String>::new());
    assert_eq!(rig.contexts(0).len(), 3);
    rig.ok_on(0, &shell(&rig.launcher(), "true"));
    rig.assert_only_daemons();
    rig.down();
    rig.assert_nothing_left();
}

/// A child of a process that has this text in its command line.
fn child_with(parent: u32, text: &str) -> Option<u32> {
    let children =
        std::fs::read_to_string(format!("/proc/{parent}/task/{parent}/children")).ok()?;
    children.split_whitespace().filter_map(|pid| pid.parse().ok()).find(|pid| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(text)
    })
}

#[test]
fn a_killed_launcher_ends_the_program_behind_it() {
    let rig = Rig::new(2);
    rig.up();
    // It stays in front of the run that it has started, in another session, and passes its output on.
    let script =
        format!("#!/bin/sh\nRACKMEM_DIR={}$1 setsid -w sh -c \"$2\" | cat\n", rig.path("h"));
    rig.write("ssh", &script, 0o755);
    let launcher = format!("{} {{node}}", rig.path("ssh"));
    let mut run = endless_run(&rig, &launcher);
    let launched = child_with(run.id(), &rig.path("ssh")).unwrap();
    kill(launched, "KILL");
    assert_eq!(run.wait().unwrap().code(), Some(128 + 9));
    rig.assert_only_daemons();
    rig.down();
    rig.assert_nothing_left();
}

#[test]
fn a_part_of_a_run_ends_when_nobody_reads_its_output() {
    let rig = Rig::new(2);
    rig.up();
    let args =
        ["run", "--as-node=1", "--nodes=2", "--context=600:5", "--directory=/", "--", "sh", "-c"];
    let script = "echo ready; echo $$; exec sleep 1000";
    let mut part = rig.on(1, &[&args[..], &[script]].concat());
    let mut part = part.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(part.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "ready");
    let program: u32 = lines.next().unwrap().unwrap().parse().unwrap();
    assert!(rig.contexts(1).contains(&"600".to_owned()));
    // Another context with this number would not be the one that the run means.
    let other = [&args[..4], &["--directory=/", "--", "true"]].concat();
    let other = [&other[..3], &["--context=600:6"], &other[4..]].concat();
    let done = Done::from(rig.on(1, &other).output().unwrap());
    assert!(
        done.err.contains("context 600 of rack 'lab' on this host belongs to something else"),
        "{done:?}"
    );
    drop(lines);
    assert_eq!(part.wait().unwrap().code(), Some(129));
    until("the program has ended", || !is_alive(program));
    rig.assert_only_daemons();
    rig.down();
    rig.assert_nothing_left();
}
