//! `rackmem bench sim` as its user sees it.

use std::process::{Command, Output};

fn bench_sim(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rackmem"));
    command.args(["bench", "sim", "--quick"]).args(arguments);
    command.output().expect("rackmem runs")
}

#[test]
fn json_has_the_host_the_networks_the_chips_and_the_programs() {
    let output = bench_sim(&["--json"]);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let figures: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert!(figures["host"].as_str().unwrap().contains("core"), "{figures}");
    let (noc, chip) = (figures["noc"].as_array().unwrap(), figures["chip"].as_array().unwrap());
    assert_eq!(noc.len(), 6);
    let placements: Vec<&str> = chip.iter().map(|row| row["placement"].as_str().unwrap()).collect();
    assert_eq!(placements, ["split", "split", "edge", "edge", "per-tile", "per-tile", "split"]);
    let threads: Vec<_> = chip.iter().map(|row| row["threads"].as_u64().unwrap()).collect();
    assert_eq!(threads, [1, 2, 1, 2, 1, 2, 1]);
    assert_eq!(chip[6]["workload"], "sync-read");
    for row in noc.iter().chain(chip) {
        assert!(row["cycles_per_second"].as_f64().unwrap() > 0.0, "{row}");
    }
    let programs = figures["exec"].as_array().unwrap();
    let of = |row: &serde_json::Value| (row["nodes"].as_u64(), row["cores_per_node"].as_u64());
    let shapes: Vec<_> = programs.iter().map(of).collect();
    let shape = |nodes, cores| (Some(nodes), Some(cores));
    let (rack, chip) = (shape(8, 1), shape(1, 64));
    assert_eq!(shapes, [shape(1, 1), shape(1, 1), rack, rack, chip, chip]);
    for row in programs {
        assert!(row["instructions_per_second"].as_f64().unwrap() > 0.0, "{row}");
    }
}

#[test]
fn the_table_begins_with_the_host() {
    let output = bench_sim(&[]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.starts_with("rackmem "), "{text}");
    assert!(
        text.contains("cycles/s") && text.contains("torus:8x8x8") && text.contains("programs"),
        "{text}"
    );
}

#[test]
fn what_bench_takes_does_not_go_with_sim() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rackmem"));
    let output = command.args(["bench", "--progress", "inline", "sim"]).output().unwrap();
    assert_eq!(output.status.code(), Some(2));
}
