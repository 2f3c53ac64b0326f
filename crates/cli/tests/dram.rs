//! `rackmem dram` as its user sees it.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

fn dram(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rackmem"));
    command.arg("dram").args(arguments).output().expect("rackmem runs")
}

fn json(arguments: &[&str]) -> serde_json::Value {
    let output = dram(&[arguments, &["--json"]].concat());
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

fn trace(dir: &Path, text: &str) -> String {
    let path = dir.join("trace");
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_owned()
}

#[test]
fn a_trace_has_a_latency_for_each_request() {
    let dir = tempfile::tempdir().unwrap();
    // A row is opened, used again, and closed for another one; a write to another bank.
    let trace =
        trace(dir.path(), "0x0 READ 0\n0x40 READ 100\n0x80000000 READ 200\n0x2000 WRITE 300\n");
    let csv = dir.path().join("latencies.csv");
    let report = json(&[&trace, "--device", "ddr3-1600", "--latencies", csv.to_str().unwrap()]);
    let lines = fs::read_to_string(csv).unwrap();
    // A clock to the bank's queue; then tRP, tRCD, CL or CWL, and the burst. The write waits for others for a clock.
    let expected = "index,arrival,address,kind,latency\n0,0,0x0,READ,27\n1,100,0x40,READ,16\n\
                    2,200,0x80000000,READ,38\n3,300,0x2000,WRITE,25\n";
    assert_eq!(lines, expected);
    assert_eq!(report["reads"]["mean"], 27.0);
    assert_eq!(report["row_conflicts"], 1);
    assert_eq!(report["timing_nck"]["trcd"], 11);
    assert_eq!(report["dram"]["scheduler"], "bank-queues");
    assert_eq!(report["traffic"]["trace"], trace.as_str());
}

#[test]
fn latencies_are_written_whole_or_not_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let csv = dir.path().join("latencies.csv");
    fs::write(&csv, "of an earlier run").unwrap();
    let mut command = Command::new(env!("CARGO_BIN_EXE_rackmem"));
    command.args(["dram", "--requests", "1000000000", "--latencies"]).arg(&csv);
    let mut child = command.stderr(Stdio::null()).spawn().unwrap();
    std::thread::sleep(Duration::from_secs(1));
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert_eq!(fs::read(&csv).unwrap(), b"of an earlier run");
    assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1);
    // A trace that cannot be read is such an end, too, and one stays as it is.
    let bad = trace(dir.path(), "0x0 READ 0\n0x40 RAED 100\n");
    let done = dram(&[&bad, "--latencies", csv.to_str().unwrap()]);
    let said = String::from_utf8_lossy(&done.stderr).into_owned();
    assert!(done.status.code() == Some(1) && said.contains("trace:2"), "{said}");
    assert_eq!(fs::read(&csv).unwrap(), b"of an earlier run");
    let done = dram(&[&bad, "--latencies", &bad]);
    assert_eq!(done.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&done.stderr).contains("is the trace; name another file"));
}

#[test]
fn standard_input_is_a_trace() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rackmem"));
    command.args(["dram", "-", "--json"]).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"LD 0x0\nST 4096\n").unwrap();
    let output = child.wait_with_output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((&report["reads"]["count"], &report["writes"]["count"]), (&1.into(), &1.into()));
}

#[test]
fn the_same_seed_is_the_same_run() {
    let of =
        |seed| json(&["--pattern", "random-write-third", "--requests", "2000", "--seed", seed]);
    assert_eq!(of("1"), of("1"));
    assert_ne!(of("1")["reads"], of("2")["reads"]);
    assert_eq!(of("2")["traffic"]["seed"], 2);
}

#[test]
fn settings_and_machines_are_taken() {
    let few = ["--requests", "2000"];
    let of = |more: &[&str]| json(&[&few[..], more].concat());
    assert_eq!(of(&["--set", "dram.trcd_nck=30"])["timing_nck"]["trcd"], 30);
    assert_eq!(of(&["--device", "sonuma"])["dram"]["grade"], "ddr3-1600");
    let ddr5 = of(&["--device", "ddr5-4800"]);
    assert_eq!((&ddr5["controllers"], &ddr5["timing_nck"]["burst"]), (&2.into(), &8.into()));
    assert!(of(&["--interval", "1", "--clocks", "1000"])["unfinished"].as_u64() > Some(0));
}

#[test]
fn a_table_names_what_is_measured() {
    let output =
        dram(&["--requests", "5000", "--pattern", "random-write-third", "--interval", "4"]);
    let text = String::from_utf8(output.stdout).unwrap();
    for part in ["DDR4-2400", "p99", "reads", "writes", "GB/s", "conflicts", "refreshes", "held up"]
    {
        assert!(text.contains(part), "{part}: {text}");
    }
    let list = String::from_utf8(dram(&["--list-devices"]).stdout).unwrap();
    assert_eq!(list.lines().count(), 7, "{list}");
}

#[test]
fn what_is_wrong_is_one_line() {
    let dir = tempfile::tempdir().unwrap();
    let one = |arguments: &[&str], status, said: &str| {
        let output = dram(arguments);
        let error = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(status), "{error}");
        assert!(error.contains(said), "{error}, not {said}");
        error
    };
    for (text, said) in [
        (
            "0x0 READ 1\n0x40 REED 2\n",
            "trace:2: 'REED' is neither read nor write; expected ADDRESS",
        ),
        ("0x0 READ 2\n0x40 READ 1\n", "trace:2: clock 1 after 2"),
        ("0x0 READ 2\n0x40 REA", "trace:2: has no end"),
        ("", "trace: has no requests"),
        ("0x400000000 READ 2\n", "trace:1: address 0x400000000 is beyond the memory"),
    ] {
        let error = one(&[&trace(dir.path(), text)], 1, said);
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    one(&["no-such-file"], 1, "no-such-file: No such file");
    one(&["--device", "ddr4-2040"], 2, "did you mean ddr4-2400?");
    for (name, meant) in [("hbm", "ddr"), ("sonum", "sonuma?"), ("lpddr5", "ddr5-4800?")] {
        let error = one(&["--device", name], 2, &format!("did you mean {meant}"));
        assert!(error.contains("--list-devices") && !error.contains("rack-torus"), "{error}");
    }
    one(&["--set", "dram.trcd_nk=3"], 2, "did you mean dram.trcd_nck?");
    one(&["--pattern", "randum"], 2, "did you mean random?");
    one(&["t", "--seed", "3"], 2, "cannot be used with");
}
