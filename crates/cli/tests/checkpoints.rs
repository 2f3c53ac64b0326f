//! `rackmem sim exec --checkpoint` and `--restore` as their user sees them.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

use tempfile::TempDir;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Executes `state_test` with standard input, after these options of `sim exec`.
fn state_test(dir: &Path, options: &[&str], program: bool) -> Output {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../programs/prebuilt");
    let path = folder.join("state_test.rv64");
    let machine = ["sim", "exec", "manycore-ni", "--set", "network.remote=nodes"];
    let small = ["--set", "ni.completion=acknowledged", "--set", "tiles.columns=2"];
    let smaller = ["--set", "tiles.rows=2", "--set", "memory.controllers=2"];
    let named: &[&str] = if program { &["--", path.to_str().unwrap(), "in", "out"] } else { &[] };
    let mut command = Command::new(env!("CARGO_BIN_EXE_rackmem"));
    command.current_dir(dir).args(machine).args(small).args(smaller).args(options).args(named);
    command.stdin(fs::File::open(dir.join("numbers")).unwrap()).output().unwrap()
}

#[test]
fn a_program_goes_on_from_a_checkpoint() {
    let dir = TempDir::new().unwrap();
    for (name, count) in [("in", 20), ("numbers", 300)] {
        let lines: String = (1..=count).map(|number| format!("{number}\n")).collect();
        fs::write(dir.path().join(name), lines).unwrap();
    }
    let run = |options: &[&str], program| {
        let done = state_test(dir.path(), options, program);
        assert_eq!(done.status.code(), Some(0), "{options:?}: {}", text(&done.stderr));
        text(&done.stdout)
    };
    let after = ["--fast-forward", "700k"];
    let whole = run(&[&after[..], &["--report", "whole.json"]].concat(), true);
    assert!(whole.contains("standard input: 45150"), "{whole}");
    let first = run(&[&after[..], &["--checkpoint", "here"]].concat(), true);
    for _ in 0..2 {
        let rest = run(&["--restore", "here", "--report", "rest.json"], false);
        assert_eq!(format!("{first}{rest}"), whole);
        let report = |name| -> serde_json::Value {
            serde_json::from_slice(&fs::read(dir.path().join(name)).unwrap()).unwrap()
        };
        let (whole, mut rest) = (report("whole.json"), report("rest.json"));
        let restored = rest.as_object_mut().unwrap().remove("restored").unwrap();
        assert_eq!(restored["machine"], "manycore-ni");
        assert_eq!(rest, whole);
    }
    // A trace begins where the program goes on, unless it is of another time, which has to come.
    run(&["--restore", "here", "--trace", "trace.json"], false);
    assert!(dir.path().join("trace.json").exists());
    let early = ["--restore", "here", "--trace", "early.json", "--trace-window", "0us..5us"];
    let done = state_test(dir.path(), &early, false);
    assert_eq!(done.status.code(), Some(2));
    assert!(text(&done.stderr).contains("the run begins with cycle"), "{}", text(&done.stderr));
    assert_eq!(text(&done.stdout), "");
    let short = state_test(dir.path(), &["--restore", "here", "--measure", "1k"], false);
    assert!(text(&short.stderr).contains("measured: 1"), "{}", text(&short.stderr));
    fs::write(dir.path().join("numbers"), "").unwrap();
    let done = state_test(dir.path(), &["--restore", "here"], false);
    assert_eq!(done.status.code(), Some(125));
    assert!(text(&done.stderr).contains("standard input: has less"), "{}", text(&done.stderr));
}

#[test]
fn options_of_checkpoints_that_cannot_be_are_refused() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("in"), "1\n").unwrap();
    fs::write(dir.path().join("numbers"), "1\n").unwrap();
    for (options, program, status, why) in [
        (&["--checkpoint", "here"][..], true, 2, "--fast-forward"),
        (&["--measure", "5k"], true, 2, "give one of them"),
        (&["--sample", "10k", "--measure", "5k"], true, 2, "cannot be used with"),
        (&["--sample", "100k"], true, 125, "samples are of programs of one thread"),
        (&["--restore", "in", "--fast-forward", "5k"], false, 2, "cannot be used with"),
        (&["--restore", "in"], true, 2, "leave them out"),
        (&["--restore", "in"], false, 125, "in: is no checkpoint"),
        (&["--restore", "nothing"], false, 125, "nothing: No such file"),
        (&["--fast-forward", "1G", "--checkpoint", "here"], true, 125, "give --fast-forward less"),
        // Found before the program is executed, which is shorter than that.
        (&["--fast-forward", "1G", "--checkpoint", "no/where"], true, 1, "cannot write no/where"),
    ] {
        let done = state_test(dir.path(), options, program);
        let complaint = text(&done.stderr);
        assert_eq!(done.status.code(), Some(status), "{options:?}: {complaint}");
        assert!(complaint.contains(why), "{options:?}: {complaint}");
        assert!(!dir.path().join("here").exists());
    }
}
