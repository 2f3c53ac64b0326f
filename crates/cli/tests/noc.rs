//! `rackmem noc` as its user sees it.

use std::process::{Command, Output};

fn noc(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rackmem"));
    command.arg("noc").args(["--measure", "2000", "--warm-up", "500"]).args(arguments);
    command.output().expect("rackmem runs")
}

fn json(arguments: &[&str]) -> serde_json::Value {
    let output = noc(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).expect("JSON")
}

#[test]
fn one_load_is_an_object() {
    let report = json(&["--rate", "0.05", "--json"]);
    let latency = report["latency_mean_cycles"].as_f64().unwrap();
    // Zero load: 5 cycles a hop for 5.25 hops, and 7 besides.
    assert!((33.25..35.0).contains(&latency), "{latency}");
    assert_eq!(report["saturated"], false);
    assert_eq!(report["topology"], "mesh:8x8");
}

#[test]
fn a_sweep_is_a_list_in_order_and_the_same_every_time() {
    let arguments = ["--topology", "mesh:4x4", "--sweep", "0.1..0.9:0.2", "--vcs", "2", "--json"];
    let reports = [json(&arguments), json(&arguments)];
    assert_eq!(reports[0], reports[1]);
    let rates: Vec<f64> =
        reports[0].as_array().unwrap().iter().map(|r| r["rate"].as_f64().unwrap()).collect();
    assert_eq!(rates, [0.1, 0.3, 0.5, 0.7, 0.9]);
}

#[test]
fn a_table_names_its_units_and_what_is_saturated() {
    let output = noc(&["--sweep", "0.1,0.9"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("mesh:8x8, xy, 5-stage, 8 VCs of 8 flits"), "{text}");
    assert_eq!(text.matches("saturated").count(), 1, "{text}");
    assert!(text.contains("flits per endpoint and cycle"), "{text}");
}

#[test]
fn what_is_not_possible_is_said_with_status_2() {
    for (arguments, said) in [
        (&["--topology", "mash:8x8"][..], "did you mean `mesh`"),
        (&["--topology", "mesh:0x8"], "too small"),
        (&["--topology", "mesh:900x900"], "at most 4096"),
        (&["--routing", "o1trun"], "did you mean `o1turn`"),
        (&["--routing", "o1turn", "--vcs", "1"], "virtual network 0 has 1"),
        (&["--topology", "torus:4x4", "--routing", "yx"], "can deadlock"),
        (&["--router", "4-stage"], "3-stage"),
        (&["--traffic", "unifrom"], "did you mean `uniform`"),
        (&["--topology", "mesh:4x8", "--traffic", "transpose"], "as many rows as columns"),
        (&["--rate", "2"], "at most 1"),
        (&["--buffers", "0"], "`buffer_flits` is zero"),
        (&["--vcs", "33"], "at most 32"),
        (&["--sweep", "0.1..0.2"], "FROM..TO:STEP"),
    ] {
        let output = noc(arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        assert!(error.contains(said), "{arguments:?}: {error}");
    }
}
