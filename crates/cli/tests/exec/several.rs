//! Nodes of one run that execute different programs.

use std::fs;

use rackmem_riscv::encode::{i, opcode};
use serde_json::{Value, json};
use tempfile::TempDir;

use super::{elf, greeting, on_sonuma, prebuilt, rackmem, text, write};

/// A folder with a program that ends with each of these statuses, `p0` and so on; it says "hi" before.
fn folder(statuses: &[i32]) -> TempDir {
    let dir = TempDir::new().unwrap();
    for (number, &status) in statuses.iter().enumerate() {
        write(&dir, &format!("p{number}"), &greeting(status));
    }
    dir
}

fn report(dir: &TempDir) -> Value {
    let report = fs::read_to_string(dir.path().join("report.json")).unwrap();
    serde_json::from_str(&report).unwrap()
}

#[test]
fn a_report_has_all_programs_and_where_they_ran() {
    let dir = folder(&[0, 0]);
    write(&dir, "other", &[greeting(0), b"more".to_vec()].concat());
    let args = [
        &["--report", "report.json", "--env", "A=1", "p0", "x:"][..],
        &[":", "-n", "2", "--env", "B=2", "--env", "C=3", "p1", "-n", "--"],
        &[":", "--", "other"],
    ];
    let done = on_sonuma(dir.path(), &args.concat());
    let mut lines: Vec<String> = text(&done.stdout).lines().map(str::to_owned).collect();
    lines.sort_unstable();
    let expected = ["[0] hi", "[1] hi", "[2] hi", "[3] hi"];
    assert_eq!(lines, expected, "{done:?}");
    let report = report(&dir);
    let alone = |value: &Value| {
        let mut value = value.clone();
        value["program_hash"] = Value::Null;
        value
    };
    let programs: Vec<Value> = report["programs"].as_array().unwrap().iter().map(alone).collect();
    let expected = [
        json!({"program": "p0", "program_hash": null, "arguments": ["x:"], "environment": ["A=1"], "nodes": 1}),
        json!({"program": "p1", "program_hash": null, "arguments": ["-n", "--"],
               "environment": ["B=2", "C=3"], "nodes": 2}),
        json!({"program": "other", "program_hash": null, "arguments": [], "environment": [], "nodes": 1}),
    ];
    assert_eq!(programs, expected);
    assert_eq!((&report["program"], &report["arguments"]), (&json!("p0"), &json!(["x:"])));
    let hashes: Vec<_> =
        report["programs"].as_array().unwrap().iter().map(|one| &one["program_hash"]).collect();
    assert!(hashes[0] == hashes[1] && hashes[1] != hashes[2], "{hashes:?}");
    assert_eq!(report["nodes"].as_array().map(Vec::len), Some(4));
}

#[test]
fn the_program_that_fails_is_named() {
    let dir = folder(&[0, 7]);
    write(&dir, "wild", &elf(&[i(opcode::LOAD, 3, 10, 0, 8)]));
    write(&dir, "loop", &elf(&[0x6f]));
    write(&dir, "text", b"no program");
    for (args, status, said) in [
        (&["-n", "2", "p0", ":", "p1"][..], 7, "p1: node 2 ended with status 7 in cycle "),
        (&["p0", ":", "wild"], 125, "wild: node 1, core 0 at 0x10078 (ld a0,8(zero)): load from"),
        (&["p0", ":", "loop"], 125, "p0, loop: it loops for ever"),
        (&["p0", ":", "--begin", "1e30s", "p0"], 2, "--begin: must be at most "),
        (&["--restore", "c", ":", "p0"], 2, "p0: the checkpoint has its program"),
        (&["p0", ":", "missing"], 127, "missing: No such file"),
        (&["p0", ":", "text"], 126, "text: no ELF file"),
        (&["--sample", "1k", "p0", ":", "p0"], 2, "--sample: is for one node"),
        (&["p0", ":"], 2, "a program is missing after ':'"),
        (&[":", "p0"], 2, "a program is missing before ':'"),
        (
            &["-n", "1000", "p0", ":", "-n", "25", "p0"],
            2,
            "--nodes: are 1025 in all, must be at most",
        ),
        (&["p0", ":", "--env", "X", "p0"], 2, "after ':': invalid value 'X' for '--env"),
        (
            &["p0", ":", "--max-cycles", "9", "p0"],
            2,
            "after ':': unexpected argument '--max-cycles'",
        ),
        (
            &["--fast-forward", "1", "--checkpoint", "c", "p0", ":", "p0"],
            125,
            "p0, p0: a checkpoint is of one program, and the nodes execute several",
        ),
    ] {
        let done = on_sonuma(dir.path(), args);
        let complaint = text(&done.stderr);
        assert_eq!(done.status.code(), Some(status), "{args:?}: {complaint}");
        assert!(complaint.contains(said), "{args:?}: {complaint}");
        let is_short = complaint.lines().count() == 1 || said.contains("loops");
        assert!(is_short, "{args:?}: {complaint}");
    }
    let done = rackmem(dir.path(), &["sim", "exec", "--functional", "p0", ":", "p1"]);
    assert_eq!(done.status.code(), Some(2));
    assert!(text(&done.stderr).contains("--functional executes one process"), "{done:?}");
}

#[test]
fn the_node_that_speaks_for_all_has_said_what_is_wrong_when_another_ends_the_run() {
    let dir = TempDir::new().unwrap();
    let program = prebuilt().join("tsm_qpair.rv64");
    let run = ["sim", "exec", "thunder-cores", "-n", "2", "--", program.to_str().unwrap()];
    let done = rackmem(dir.path(), &[&run[..], &["--sizes", "0"]].concat());
    let complaint = text(&done.stderr);
    assert_eq!(done.status.code(), Some(2), "{complaint}");
    let said = "tsm_qpair: --sizes: expected sizes such as 64,4K or 8..1M from 1 to 131072, found '0'; \
                see tsm_qpair --help\n";
    assert!(complaint.contains(said), "{complaint}");
    assert!(complaint.contains("node 1 ended with status 2"), "{complaint}");
}

#[test]
fn a_program_begins_when_it_is_told_to() {
    let dir = folder(&[0, 0]);
    let args = ["--report", "report.json", "p0", ":", "-n", "2", "--begin", "3us", "p1"];
    on_sonuma(dir.path(), &args);
    let report = report(&dir);
    let (cycle, begin) =
        (|n: usize| report["nodes"][n]["cycle"].as_u64(), |n: usize| &report["nodes"][n]["begin"]);
    assert_eq!((begin(0), begin(1), begin(2)), (&Value::Null, &json!(6000), &json!(6000)));
    assert_eq!([1, 2].map(cycle), [cycle(0).map(|cycle| cycle + 6000); 2]);
    let cut = on_sonuma(dir.path(), &["--max-cycles", "5k", "p0", ":", "--begin", "3us", "p1"]);
    let complaint = text(&cut.stderr);
    assert!(complaint.ends_with("\nnode 1: has not begun, begins in cycle 6000\n"), "{complaint}");
    let wait = ["--fast-forward", "1", "--checkpoint", "c", "--begin", "3us", "p0"];
    let done = on_sonuma(dir.path(), &wait);
    assert_eq!(done.status.code(), Some(0), "{done:?}");
}

#[test]
fn a_trace_names_the_program_of_each_node() {
    let dir = folder(&[0, 0]);
    on_sonuma(dir.path(), &["--trace", "t.json", "p0", ":", "p1"]);
    let trace = fs::read_to_string(dir.path().join("t.json")).unwrap();
    let trace: Value = serde_json::from_str(&trace).unwrap();
    let events = trace["traceEvents"].as_array().unwrap().iter();
    let names: Vec<&str> = events
        .filter(|event| event["name"] == "process_name")
        .filter_map(|event| event["args"]["name"].as_str())
        .collect();
    assert_eq!(names, ["sonuma, node 0: p0", "sonuma, node 1: p1"]);
}
