//! `rackmem noc` as its user sees it.

use std::process::{Command, Output};

fn noc(arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_rackmem"));
    command.arg("noc").args(arguments);
    let has = |option: &str| arguments.contains(&option);
    if !has("--measure") && !has("--again") {
        command.args(["--measure", "2000", "--warm-up", "500"]);
    }
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
    assert_eq!(report["experiment"]["spec"]["topology"], "mesh:8x8");
}

#[test]
fn a_sweep_is_a_list_in_order_and_the_same_every_time() {
    let arguments = ["--topology", "mesh:4x4", "--sweep", "0.1..0.9:0.2", "--vcs", "2", "--json"];
    let reports = [json(&arguments), json(&arguments)];
    assert_eq!(reports[0], reports[1]);
    let list = reports[0].as_array().unwrap().iter();
    let rates: Vec<f64> = list.map(|r| r["experiment"]["rate"].as_f64().unwrap()).collect();
    assert_eq!(rates, [0.1, 0.3, 0.5, 0.7, 0.9]);
}

#[test]
fn a_table_names_its_units_and_what_is_saturated() {
    let output = noc(&["--sweep", "0.1,0.9"]);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("mesh:8x8, xy, 5-stage, 8 VCs of 8 flits"), "{text}");
    assert!(text.contains("flits per endpoint and cycle"), "{text}");
    let rows: Vec<Vec<&str>> = text.lines().map(|line| line.split_whitespace().collect()).collect();
    let head = rows.iter().position(|row| row.first() == Some(&"offered")).expect("a head");
    assert_eq!(rows[head].last(), Some(&"saturated"));
    let ends = [1, 2].map(|row| *rows[head + row].last().unwrap());
    assert_eq!(ends, ["no", "yes"], "{text}");
    assert_eq!(rows[head].iter().filter(|&&name| name == "+-").count(), 2, "{text}");
}

/// The interval of a long run has the mean of another seed's; a run that is too short has none.
#[test]
fn means_have_a_confidence_interval() {
    let runs = ["1", "2", "3", "4"].map(|seed| {
        json(&[
            "--rate",
            "0.3",
            "--measure",
            "20000",
            "--topology",
            "mesh:4x4",
            "--seed",
            seed,
            "--json",
        ])
    });
    for (mean, half_width) in
        [("latency_mean_cycles", "latency_half_width_cycles"), ("accepted", "accepted_half_width")]
    {
        let of = |run: &serde_json::Value, name: &str| run[name].as_f64().expect("a number");
        let overall = runs.iter().map(|run| of(run, mean)).sum::<f64>() / 4.0;
        for run in &runs {
            let (mean, half_width) = (of(run, mean), of(run, half_width));
            assert!(half_width > 0.0 && half_width < 0.02 * mean, "{mean} +- {half_width}");
            assert!((mean - overall).abs() < 2.0 * half_width, "{mean} +- {half_width}: {overall}");
        }
    }
    let short = json(&["--rate", "0.01", "--measure", "10", "--topology", "mesh:2x2", "--json"]);
    assert!(short["latency_half_width_cycles"].is_null(), "{short}");
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
        (&["--router", "6-stage"], "1-stage, 3-stage, 4-stage, 5-stage"),
        (&["--allocator", "eyeslip"], "did you mean `islip`"),
        (&["--dateline", "enter"], "did you mean `entry`"),
        (&["--topology", "crossbar:4", "--concentration", "2"], "cannot have several endpoints"),
        (&["--concentration", "0"], "`concentration` is zero"),
        (&["--traffic", "hot-spot:2"], "a share from 0 to 1"),
        (&["--traffic", "hot-spot:0.1:64"], "endpoints of the network"),
        (&["--traffic-matrix", "no-such-file"], "no-such-file"),
        (&["--again", "Cargo.toml"], "what `rackmem noc --json` prints"),
        (&["--traffic", "unifrom"], "did you mean `uniform`"),
        (&["--topology", "mesh:4x8", "--traffic", "transpose"], "as many rows as columns"),
        (&["--rate", "2"], "at most 1"),
        (&["--buffers", "0"], "`buffer_flits` is zero"),
        (&["--vcs", "33"], "at most 32"),
        (&["--vnets", "4000000000"], "1..=32"),
        (&["--vnets", "32", "--vcs", "2"], "at most 32"),
        (&["--sweep", "0.1..0.2"], "FROM..TO:STEP"),
        (&["--again", "run.json", "--rate", "0.3"], "cannot be used with"),
        (&["--again", "run.json", "--no-self"], "cannot be used with"),
        (&["--again", "run.json", "--traffic-matrix", "m"], "cannot be used with"),
        (&["--topology", "mesh:1x1", "--no-self"], "(--no-self), and `mesh:1x1` has one"),
    ] {
        let output = noc(arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        assert!(error.contains(said), "{arguments:?}: {error}");
    }
}

/// A network from a file, whose links are in its JSON: it can be run again without the file.
#[test]
fn a_list_of_links_is_a_topology() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &[u8]| {
        let file = dir.path().join(name);
        std::fs::write(&file, text).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let links = format!("edges:{}", write("links", b"0 1\n1 2 3\n2 3\n3 4\n4 0 # a ring\n"));
    let table = noc(&["--topology", &links]);
    let text = String::from_utf8(table.stdout).unwrap();
    assert!(text.contains("edges of 5 routers, up-down, 5-stage, 8 VCs of 8 flits"), "{text}");
    let sweep = ["--topology", &links, "--sweep", "0.1,0.2", "--json"];
    let first = String::from_utf8(noc(&sweep).stdout).unwrap();
    let reports: serde_json::Value = serde_json::from_str(&first).unwrap();
    let lines = &reports[0]["experiment"]["spec"]["topology"]["edges"];
    assert_eq!((&lines[0], &lines[3]), (&"0 1".into(), &"1 2 3".into()), "{reports}");
    let run = write("run.json", first.as_bytes());
    std::fs::remove_file(links.trim_start_matches("edges:")).unwrap();
    let again = noc(&["--again", &run, "--json"]);
    assert_eq!(String::from_utf8(again.stdout).unwrap(), first);
    let ring = format!("edges:{}", write("ring", b"0 1\n1 2\n2 3\n3 4\n4 0\n"));
    let bad = format!("edges:{}", write("bad", b"0 1\n1 \xff\n"));
    for (arguments, said) in [
        (&["--topology", &ring, "--routing", "minimal"][..], "another routing, such as up-down"),
        (&["--topology", &ring, "--routing", "xy"], "use up-down or minimal"),
        (&["--topology", &ring, "--traffic", "transpose"], "which `edges of 5 routers` has not"),
        (&["--topology", &bad], "bad:2: bytes that are no UTF-8 text"),
        (&["--topology", "edges:none-there"], "none-there: No such file"),
        (&["--topology", "edges"], "--topology edges:FILE"),
        (&["--routing", "up-down"], "use xy or minimal"),
    ] {
        let output = noc(arguments);
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {error}");
        assert!(error.contains(said), "{arguments:?}: {error}");
    }
}

#[test]
fn a_run_can_be_run_again_from_its_json() {
    let dir = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &[u8]| {
        let file = dir.path().join(name);
        std::fs::write(&file, text).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let matrix = write("matrix", b"0,1,2\n1,2,1\n3,0,0.5 # last\n");
    let arguments = ["--topology", "torus:2x2", "--traffic-matrix", &matrix, "--vcs", "2"];
    let options = ["--sweep", "0.1,0.2", "--packet-flits", "1:0.25,3:0.75", "--json"];
    let first = noc(&[&arguments[..], &options[..]].concat());
    assert!(first.status.success(), "{}", String::from_utf8_lossy(&first.stderr));
    let file = write("run.json", &first.stdout);
    let again = |file: &str| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_rackmem"));
        let output = command.args(["noc", "--json", "--again", file]).output().unwrap();
        (String::from_utf8(output.stdout).unwrap(), String::from_utf8(output.stderr).unwrap())
    };
    let text = String::from_utf8(first.stdout).unwrap();
    assert_eq!(again(&file), (text.clone(), String::new()));
    // A file of another version is run all the same, with a warning.
    let version = concat!("\"version\": \"", env!("CARGO_PKG_VERSION"), "\"");
    assert!(text.contains(version), "{text}");
    let old = text.replacen(version, "\"version\": \"0.0.1\"", 1);
    let (stdout, stderr) = again(&write("old.json", old.as_bytes()));
    assert_eq!(stdout, text);
    let warned = "old.json is of version 0.0.1, this is";
    assert!(stderr.contains("warning: ") && stderr.contains(warned), "{stderr}");
}

#[test]
fn a_bad_line_of_a_matrix_is_named() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("matrix");
    std::fs::write(&file, "0,1,1\n0,4,1\n").unwrap();
    let file = file.to_str().unwrap();
    let output = noc(&["--topology", "mesh:2x2", "--traffic-matrix", file]);
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(2), "{error}");
    assert!(error.contains(&format!("{file}:2: expected a source and a destination")), "{error}");
}
