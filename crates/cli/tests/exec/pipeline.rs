//! Pipelines: the cycles in which instructions came to their stages, for people to look at.

use std::fs;
use std::path::Path;

use tempfile::TempDir;

use super::{greeting, on_sonuma, prebuilt, rackmem, text, write};

/// The stages of O3PipeView, in their order.
const STAGES: [&str; 7] = ["fetch", "decode", "rename", "dispatch", "issue", "complete", "retire"];

/// Reads a file as Konata does: each instruction's sequence number and the ticks of its stages.
fn o3_pipe_view(file: &Path) -> Vec<(u64, Vec<u64>)> {
    let mut instructions: Vec<(u64, Vec<u64>)> = Vec::new();
    for line in fs::read_to_string(file).unwrap().lines() {
        let fields: Vec<&str> = line.split(':').collect();
        let tick = fields[2].parse().expect("a tick");
        assert_eq!((fields[0], tick % 1000), ("O3PipeView", 0), "{line}");
        if fields[1] == "fetch" {
            assert!(fields[3].starts_with("0x") && fields[4] == "0" && fields.len() == 7, "{line}");
            instructions.push((fields[5].parse().expect("a sequence number"), Vec::new()));
        }
        let (_, ticks) = instructions.last_mut().expect("it begins with a fetch");
        assert_eq!(fields[1], STAGES[ticks.len()], "{line}");
        ticks.push(tick);
        if fields[1] == "retire" {
            let stored: u64 = fields[4].parse().expect("a tick");
            assert!(fields[3] == "store" && (stored == 0 || stored >= tick && tick > 0), "{line}");
        }
    }
    instructions
}

#[test]
fn a_pipeline_has_every_instruction_of_every_core() {
    let dir = TempDir::new().unwrap();
    let hello = prebuilt().join("hello.rv64");
    let hello = hello.to_str().unwrap();
    let alone = on_sonuma(dir.path(), &["-n", "2", "--report", "alone.json", hello]);
    let whole = ["--pipeline", "view", "--pipeline-instructions", "1000000"];
    let args = [&["-n", "2", "--report", "report.json"], &whole[..], &[hello]].concat();
    let done = on_sonuma(dir.path(), &args);
    assert_eq!((&done.status, &done.stdout), (&alone.status, &alone.stdout), "{done:?}");
    let [report, without] =
        ["report.json", "alone.json"].map(|name| fs::read(dir.path().join(name)).unwrap());
    assert!(report == without, "it changes nothing");
    let report: serde_json::Value = serde_json::from_slice(&report).unwrap();
    for node in [0, 1] {
        let instructions = o3_pipe_view(&dir.path().join(format!("view/node{node}-core0.log")));
        for ((number, ticks), expected) in instructions.iter().zip(1..) {
            assert_eq!((*number, ticks.len()), (expected, STAGES.len()));
            let reached: Vec<u64> = ticks.iter().copied().filter(|&tick| tick != 0).collect();
            let is_whole = ticks[6] == 0 || reached.len() == STAGES.len();
            assert!(reached.is_sorted() && is_whole, "instruction {number}: {ticks:?}");
        }
        let count = instructions.iter().filter(|(_, ticks)| ticks[6] != 0).count();
        assert_eq!(report["stats"][format!("node[{node}].core[0].retired")], count as f64);
        assert!(count < instructions.len(), "wrong paths are there");
    }
    let few = ["--pipeline", "few", "--pipeline-instructions", "100", hello];
    let done = text(&on_sonuma(dir.path(), &few).stderr);
    assert!(done.contains("wrote 100 instructions into 1 file of few"), "{done}");
    assert!(done.contains("room for 100 instructions: all are whole up to cycle "), "{done}");
    assert_eq!(o3_pipe_view(&dir.path().join("few/node0-core0.log")).len(), 100);
}

#[test]
fn a_pipeline_of_a_part_has_the_instructions_of_that_part() {
    let dir = TempDir::new().unwrap();
    let hello = prebuilt().join("hello.rv64");
    // In some of these places, instructions outside of the part have their timing, too.
    for begin in ["2k", "3k", "3500", "4k"] {
        let part = ["--fast-forward", begin, "--measure", "1k", "--pipeline", "view"];
        let report = ["--report", "report.json", hello.to_str().unwrap()];
        on_sonuma(dir.path(), &[&part[..], &report].concat());
        let instructions = o3_pipe_view(&dir.path().join("view/node0-core0.log"));
        let retired = instructions.iter().filter(|(_, ticks)| ticks[6] != 0).count();
        let report = fs::read(dir.path().join("report.json")).unwrap();
        let report: serde_json::Value = serde_json::from_slice(&report).unwrap();
        assert_eq!(report["part"]["instructions"], retired, "{begin}");
        assert!(retired >= 1000);
    }
}

#[test]
fn a_pipeline_that_cannot_be_shown_says_why() {
    let dir = TempDir::new().unwrap();
    write(&dir, "prog.rv64", &greeting(0));
    write(&dir, "file", b"");
    for (args, status, said) in [
        (&["sonuma", "--pipeline", "file/view", "prog.rv64"][..], 1, "cannot make file/view: "),
        (&["--functional", "--pipeline", "view", "prog.rv64"], 2, "leave out --functional"),
        (&["rack-torus", "--pipeline", "view", "prog.rv64"], 2, "which executes nothing"),
        (&["sonuma", "--pipeline-window", "1us..2us", "prog.rv64"], 2, "--pipeline <DIR>"),
        (
            &["sonuma", "--pipeline", "view", "--pipeline-window", "9ms..10ms", "prog.rv64"],
            1,
            "no pipeline to show: no core retired an instruction then",
        ),
    ] {
        let done = rackmem(dir.path(), &[&["sim", "exec"], args].concat());
        assert_eq!(done.status.code(), Some(status), "{done:?}");
        assert!(text(&done.stderr).contains(said), "{}", text(&done.stderr));
    }
}
