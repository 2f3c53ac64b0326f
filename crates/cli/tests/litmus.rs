//! `rackmem sim litmus` as its user sees it.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};

fn litmus(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rackmem"));
    command.args(["sim", "litmus"]).args(arguments).output().expect("rackmem runs")
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn file(dir: &Path, name: &str, text: &str) -> String {
    let path = dir.join(name);
    fs::write(&path, text).expect("there is room for it");
    path.to_str().expect("it is UTF-8").to_owned()
}

/// The example of the help, as a file.
fn example() -> String {
    let help = text(&litmus(&["--help"]).stdout);
    let from = help.find("  RISCV ").expect("the help has a test");
    let to = from + help[from..].find("\n\n").expect("it ends somewhere");
    help[from..to]
        .lines()
        .map(|line| line.strip_prefix("  ").unwrap_or(line).to_owned() + "\n")
        .collect()
}

#[test]
fn the_example_of_the_help_runs() {
    let dir = tempfile::tempdir().expect("there is room for temporary files");
    let mp = file(dir.path(), "mp.litmus", &example());
    let output = litmus(&[&mp, "--seeds", "300"]);
    let shown = text(&output.stdout);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    assert!(shown.contains("by RVWMO allowed; the formula held in "), "{shown}");
    for row in ["1:x8=0; 1:x9=0;", "1:x8=1; 1:x9=0;", "1:x8=1; 1:x9=1;"] {
        assert!(shown.contains(row), "{row} is not in {shown}");
    }
    let json = text(&litmus(&[&mp, "--seeds", "300", "--json"]).stdout);
    let json: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    let test = &json["tests"][0];
    let rows = test["outcomes"].as_array().expect("there are outcomes");
    let runs: u64 = rows.iter().filter_map(|row| row["runs"].as_u64()).sum();
    assert_eq!((runs, &test["by_rvwmo"]), (300, &"allowed".into()));
    let relaxed = rows.iter().find(|row| row["by_rvwmo"] == "relaxed").expect("one is relaxed");
    assert_eq!(relaxed["values"], serde_json::json!({ "1:x8": "1", "1:x9": "0" }));
    assert_eq!(relaxed["runs"], test["runs_with_formula"]);
}

#[test]
fn mistakes_are_named_with_their_line() {
    let dir = tempfile::tempdir().expect("there is room for temporary files");
    let wrong = file(dir.path(), "wrong.litmus", &example().replace("fence w,w", "fence w;w"));
    let output = litmus(&[&wrong]);
    assert_eq!(output.status.code(), Some(2));
    let error = text(&output.stderr);
    assert!(error.contains("wrong.litmus:9: expected `,`, found `;`"), "{error}");
    let missing = litmus(&["nowhere.litmus"]);
    assert_eq!(missing.status.code(), Some(2));
    assert!(text(&missing.stderr).contains("nowhere.litmus: "), "{}", text(&missing.stderr));
}

#[test]
fn the_built_in_set_is_summed_up_and_its_tests_can_be_had() {
    let output = litmus(&["--seeds", "1", "--json"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output.stderr));
    let json: serde_json::Value = serde_json::from_slice(&output.stdout).expect("JSON");
    let tests = json["total"]["tests"].as_u64().expect("it is a number");
    assert!(tests >= 300, "{tests}");
    assert_eq!(json["total"]["runs"], tests);
    assert_eq!(json["total"]["forbidden_seen"], 0);
    let shown = litmus(&["--show", "MP+fence.w.w+addr"]);
    let dir = tempfile::tempdir().expect("there is room for temporary files");
    let again = litmus(&[&file(dir.path(), "again.litmus", &text(&shown.stdout))]);
    assert!(text(&again.stdout).contains("by RVWMO forbidden; the formula held in 0 of 1000 runs"));
    let unknown = litmus(&["--show", "MP+nothing"]);
    assert_eq!(unknown.status.code(), Some(2));
}
