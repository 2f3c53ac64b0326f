//! Built-in programs, `bench`, `demo` and `top` on real racks: that they work, never how fast.

mod common;

use std::fs;
use std::process::Stdio;

use common::{Host, until};
use serde_json::Value;

#[test]
fn hello_gives_each_node_a_number_of_its_own() {
    let host = Host::new();
    for progress in ["inline", "daemon", "packet"] {
        let out = host.ok(&["run", "-n", "3", "--progress", progress, "--", ":hello"]);
        let mut lines: Vec<&str> = out.lines().collect();
        lines.sort_unstable();
        let mut numbers = Vec::new();
        for (node, line) in lines.iter().enumerate() {
            let said = line.strip_prefix(&format!("[{node}] node {node} of 3 took number "));
            numbers.push(said.unwrap_or_else(|| panic!("{line}")));
        }
        numbers.sort_unstable();
        assert_eq!(numbers, ["0", "1", "2"]);
    }
    host.assert_nothing_left();
}

#[test]
fn arguments_and_statuses_of_programs_pass_through() {
    let host = Host::new();
    let help = host.ok(&["run", "-n", "1", "--", ":pagerank", "--help"]);
    assert!(help.starts_with("usage: pagerank "), "{help}");
    let complaint = host.fails(2, &["run", "-n", "1", "--", ":pagerank", "--nonsense"]);
    assert!(complaint.starts_with("pagerank: unknown option '--nonsense'"), "{complaint}");
    host.assert_nothing_left();
}

#[test]
fn the_demo_computes_the_same_ranks_four_times() {
    let host = Host::new();
    let report = host.ok(&["demo", "--scale", "8", "--nodes", "3", "--json", "--no-model"]);
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["agree"], true);
    assert_eq!(report["nodes"], 3);
    assert_eq!(report["vertices"], 256);
    assert_eq!(report["top"].as_array().unwrap().len(), 10);
    let variants = report["variants"].as_array().unwrap();
    let names: Vec<_> = variants.iter().map(|variant| variant["variant"].as_str()).collect();
    assert_eq!(names, [Some("serial"), Some("shm"), Some("bulk"), Some("fine")]);
    let remote = |i: usize| variants[i]["remote_operations"].as_u64().unwrap();
    assert_eq!((remote(0), remote(1)), (0, 0));
    assert!(remote(2) > 0 && remote(3) > remote(2));
    assert_eq!(report["model"], Value::Null);
    host.assert_nothing_left();
}

#[test]
fn the_demo_ends_with_the_model() {
    let host = Host::new();
    let report = host.ok(&["demo", "--scale", "4", "--nodes", "2", "--json"]);
    let report: Value = serde_json::from_str(&report).unwrap();
    assert_eq!(report["agree"], true);
    let model = &report["model"];
    assert_eq!((&model["machine"], &model["is_smaller"]), (&"sonuma".into(), &false.into()));
    assert_eq!((&model["vertices"], &model["supersteps"]), (&16.into(), &1.into()));
    let variants = model["variants"].as_array().unwrap();
    let names: Vec<_> = variants.iter().map(|variant| variant["variant"].as_str()).collect();
    assert_eq!(names, [Some("serial"), Some("shm"), Some("bulk"), Some("fine")]);
    for variant in variants {
        assert!(variant["simulated_seconds"].as_f64() > Some(0.0), "{variant}");
    }
    let rows = report["published"].as_array().unwrap();
    let published: Vec<_> = rows.iter().map(|row| row["published_cycles"].as_f64()).collect();
    assert_eq!(published, [Some(710.0), Some(445.0), Some(447.0), Some(395.0)]);
    for row in rows {
        let [published, measured, ratio] =
            ["published_cycles", "measured_cycles", "ratio"].map(|key| row[key].as_f64().unwrap());
        assert!(measured > 0.0 && (measured / published - ratio).abs() < 1e-9, "{row}");
    }
    host.assert_nothing_left();
}

#[test]
fn the_model_takes_the_graph_of_a_file_as_well() {
    let host = Host::new();
    let files = tempfile::tempdir().unwrap();
    let graph = files.path().join("tail.txt");
    fs::write(&graph, "# a triangle and a tail\n1 2\n2 3\n3 1\n3 100\n").unwrap();
    let args = ["demo", "--nodes", "2", "--undirected", "--graph", graph.to_str().unwrap()];
    let table = host.ok(&args);
    let line = "tail.txt: 4 vertices, 8 edges, 1 superstep\n";
    assert!(table.contains(line) && table.contains("soNUMA"), "{table}");
    host.assert_nothing_left();
}

#[test]
fn the_demo_takes_a_graph_and_says_what_is_wrong_with_one() {
    let host = Host::new();
    let files = tempfile::tempdir().unwrap();
    let graph = files.path().join("graph.txt");
    fs::write(&graph, "# a triangle and a tail\n1 2\n2 3\n3 1\n3 100\n").unwrap();
    let args = ["demo", "--no-model", "--nodes", "2", "--graph", graph.to_str().unwrap()];
    let table = host.ok(&args);
    assert!(table.contains("4 vertices, 4 edges, 30 supersteps"), "{table}");
    assert!(table.contains("\n1  3 "), "{table}");
    let table = host.ok(&[&args[..], &["--undirected"]].concat());
    assert!(table.contains("4 vertices, 8 edges, 30 supersteps"), "{table}");

    fs::write(&graph, "1 2\n2 three\n").unwrap();
    let complaint = host.fails(1, &["demo", "--graph", graph.to_str().unwrap()]);
    assert!(complaint.contains("graph.txt:2: "), "{complaint}");
    // A gzip file whose only block, stored as it is, breaks off in the middle of an edge.
    let header = [0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0xff];
    let stored = [1, 20, 0, !20, 0xff];
    let broken = [&header[..], &stored[..], b"1 2\n2 3\n3 "].concat();
    fs::write(&graph, broken).unwrap();
    let complaint = host.fails(1, &["demo", "--graph", graph.to_str().unwrap()]);
    assert!(complaint.contains("graph.txt: the gzip file is truncated"), "{complaint}");

    let complaint = host.fails(1, &["demo", "--graph", "/no/such/graph"]);
    assert_eq!(
        complaint,
        "rackmem: cannot read /no/such/graph: No such file or directory (os error 2)\n"
    );
    host.assert_nothing_left();
}

#[test]
fn bench_prints_rows() {
    let host = Host::new();
    let rows = host.ok(&["bench", "--quick", "--json", "--progress", "inline"]);
    let rows: Vec<Value> = serde_json::from_str(&rows).unwrap();
    for metric in [
        ("get_latency", "us"),
        ("fetch_add_latency", "us"),
        ("op_rate", "Mops/s"),
        ("get_bandwidth", "GB/s"),
    ] {
        let row = rows.iter().find(|row| row["metric"] == metric.0).expect(metric.0);
        assert_eq!((&row["unit"], &row["path"]), (&metric.1.into(), &"inline".into()));
        assert!(row["value"].as_f64().unwrap() > 0.0 && row["size_bytes"].is_u64());
    }
    host.assert_nothing_left();
}

#[test]
fn top_shows_queue_pairs_at_work() {
    let host = Host::new();
    host.ok(&["up", "--nodes", "2"]);
    let args = ["run", "-n2", "--progress=daemon", "--", ":netpipe", "--seconds=1000", "--sizes=8"];
    let mut run = host.command(&args).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let measure = || {
        let text = host.ok(&["top", "--once", "--json", "--interval", "0.05"]);
        serde_json::from_str::<Value>(&text).unwrap()
    };
    until("both nodes work", || {
        let measurement = measure();
        let nodes = measurement["nodes"].as_array().unwrap();
        nodes.len() == 2 && nodes.iter().all(|node| node["ops_per_second"].as_f64() > Some(0.0))
    });
    let table = host.ok(&["top", "--interval", "0.05"]);
    assert!(table.starts_with("rack 'default': 2 nodes, "), "{table}");
    assert!(table.contains("daemon"), "{table}");
    common::kill(run.id(), "TERM");
    run.wait().unwrap();
    host.ok(&["down"]);
    host.assert_nothing_left();
}

#[test]
fn the_manual_and_completions_are_made_from_the_command_line() {
    let host = Host::new();
    let man = host.ok(&["man"]);
    assert!(man.contains(".TH rackmem 1") && man.contains("rackmem\\-run"), "{man}");
    let run = host.ok(&["man", "run"]);
    assert!(run.contains(".TH rackmem-run 1") && run.contains("context\\-size"), "{run}");
    assert!(host.fails(2, &["man", "nothing"]).contains("there is no command 'nothing'"));
    let pages = tempfile::tempdir().unwrap();
    host.ok(&["man", "--write", pages.path().to_str().unwrap()]);
    let names = fs::read_dir(pages.path()).unwrap().map(|entry| entry.unwrap().file_name());
    let names: Vec<String> = names.map(|name| name.into_string().unwrap()).collect();
    assert!(names.len() > 15 && names.contains(&"rackmem-sim.1".to_owned()), "{names:?}");
    for shell in ["bash", "zsh", "fish"] {
        assert!(host.ok(&["completion", shell]).contains("context-size"));
    }
}
