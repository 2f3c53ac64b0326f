//! `rackmem sim`.

mod common;

use common::Host;

#[test]
fn machines_are_listed_and_shown() {
    let host = Host::new();
    let list = host.ok(&["sim", "machines"]);
    for name in [
        "manycore-ni ",
        "manycore-ni-noc-out ",
        "manycore-ni-numa ",
        "rack-torus ",
        "deoi ",
        "thunder ",
    ] {
        assert!(list.contains(name), "{list}");
    }
    let shown = host.ok(&["sim", "show", "manycore-ni", "--set", "noc.vcs=4"]);
    assert!(shown.contains("\nvcs = 4\n"), "{shown}");
    let path = host.racks().join("mine.toml");
    std::fs::write(&path, &shown).unwrap();
    assert_eq!(host.ok(&["sim", "show", path.to_str().unwrap()]), shown);
}

/// Settings that make a run short: four cores, a few reads.
const SHORT: [&str; 10] = [
    "--set",
    "workload.kind=sync-read",
    "--set",
    "workload.cores=4",
    "--set",
    "workload.transfer_bytes=64",
    "--set",
    "workload.warmup_reads=4",
    "--set",
    "run.reads=8",
];

#[test]
fn a_run_reports_where_the_time_goes_and_leaves_its_files() {
    let host = Host::new();
    let out = host.racks().join("out");
    let files = ["--trace", "1", "--out", out.to_str().unwrap()];
    let text = host.ok(&[&["sim", "run", "manycore-ni"], &SHORT[..], &files[..]].concat());
    for row in ["latency of a 64 B read", "WQ entry transfer", "RRPP servicing", "remote reads"] {
        assert!(text.contains(row), "{text}");
    }
    for name in ["machine.toml", "stats.json", "report.json", "links.svg", "trace.json"] {
        assert!(out.join(name).is_file(), "{name}");
    }
    let trace = std::fs::read_to_string(out.join("trace.json")).unwrap();
    assert!(trace.contains("read memory"), "{trace}");
    // The resolved file is a machine, and the same one.
    let again = host.ok(&["sim", "show", out.join("machine.toml").to_str().unwrap()]);
    assert_eq!(again, std::fs::read_to_string(out.join("machine.toml")).unwrap());
}

#[test]
fn a_sweep_has_a_row_for_each_machine_in_order() {
    let host = Host::new();
    let vary = ["--vary", "ni.placement=edge,split", "--vary", "network.hops=1,2", "--csv"];
    let csv = host.ok(&[&["sim", "sweep", "manycore-ni"], &SHORT[..], &vary[..]].concat());
    let starts: Vec<String> = csv
        .lines()
        .skip(1)
        .map(|line| line.split(',').take(2).collect::<Vec<_>>().join(","))
        .collect();
    assert_eq!(starts, ["edge,1", "edge,2", "split,1", "split,2"], "{csv}");
}

#[test]
fn chips_of_a_rack_give_the_same_result_on_any_number_of_threads() {
    let host = Host::new();
    let run = |threads: &str| {
        let args = [
            &["sim", "run", "manycore-ni", "--json", "--set", "network.remote=nodes"][..],
            &["--set", "run.window_cycles=3000", "--set", "run.max_windows=2"],
            &["--set", "tiles.columns=4", "--set", "tiles.rows=4", "--set", "memory.controllers=4"],
            &["--set", threads],
        ];
        let report = host.ok(&args.concat());
        report.lines().filter(|line| !line.contains("seconds")).collect::<Vec<_>>().join("\n")
    };
    let one = run("run.threads=1");
    assert!(one.contains("core.reads"), "{one}");
    assert_eq!(one, run("run.threads=2"));
}

#[test]
fn a_machine_that_does_not_get_on_is_given_up() {
    let host = Host::new();
    // Patience for less than a read takes.
    let args = ["--set", "run.watchdog_cycles=1", "--set", "memory.latency_ns=1e6"];
    let found = host.fails(1, &[&["sim", "run", "manycore-ni"], &SHORT[..], &args[..]].concat());
    assert!(found.contains("no progress for") || found.contains("everything waits"), "{found}");
    assert!(found.contains("run.watchdog_cycles"), "{found}");
}

#[test]
fn wrong_machines_are_wrong_usage() {
    let host = Host::new();
    for (args, complaint) in [
        (
            &["sim", "run", "manycore-nl"][..],
            "no machine and no file 'manycore-nl'; did you mean manycore-ni?",
        ),
        (
            &["sim", "run", "manycore-ni", "--set", "noc.vcz=3"],
            "--set: noc.vcz: no such key; did you mean noc.vcs?",
        ),
        (&["sim", "run", "manycore-ni", "--set", "noc.vcs"], "expected path=value"),
        (
            &["sim", "show", "manycore-ni", "--set", "noc.routing=north"],
            "expected one of `xy`, `yx`",
        ),
        (&["sim", "run", "manycore-ni", "--set", "noc.vcs=0"], "noc.vcs: is 0, must be at least 1"),
        (&["sim", "sweep", "manycore-ni"], "--vary"),
        (&["sim", "sweep", "manycore-ni", "--vary", "noc.vcs=2,x"], "noc.vcs: invalid type"),
        (
            &["sim", "sweep", "manycore-ni", "--vary", "noc.vcs=2", "--csv", "--json"],
            "cannot be used with",
        ),
        (
            &["sim", "sweep", "manycore-ni", "--vary", "noc.vcs=2", "--vary", "noc.vcs=3"],
            "noc.vcs is varied twice",
        ),
        (&["sim", "fly"], "unrecognized subcommand"),
    ] {
        let found = host.fails(2, args);
        assert!(found.contains(complaint), "{args:?}: {found}");
    }
}

/// A rack of 64 nodes for a moment.
const SMALL_RACK: [&str; 4] =
    ["--set", "rack.topology=torus:4x4x4", "--set", "run.window_cycles=4000"];

#[test]
fn a_rack_reports_latency_by_hops_and_where_packets_wait() {
    let host = Host::new();
    let text = host.ok(&[&["sim", "run", "rack-torus"], &SMALL_RACK[..]].concat());
    for row in [
        "64 nodes, uniform reads of 512 B, 8 outstanding per node",
        "accepted per source",
        "busiest link",
        "hops  requests  no load",
        "request  ",
        "reply    ",
    ] {
        assert!(text.contains(row), "{row}: {text}");
    }
    let json = host.ok(&[&["sim", "run", "rack-torus", "--json"], &SMALL_RACK[..]].concat());
    let report: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(report["rack"]["by_hops"].as_array().unwrap().len(), 6);
    let refused = host.fails(1, &["sim", "run", "rack-torus", "--trace", "1"]);
    assert!(refused.contains("simplified nodes record no events"), "{refused}");
}

#[test]
fn a_sweep_over_load_shows_where_a_rack_saturates() {
    let host = Host::new();
    let load = ["--set", "traffic.loop=open", "--vary", "traffic.offered_gbps=4,60", "--csv"];
    let csv = host.ok(&[&["sim", "sweep", "rack-torus"], &SMALL_RACK[..], &load[..]].concat());
    let rows: Vec<&str> = csv.lines().collect();
    assert!(rows[0].ends_with("offered_gbps,accepted_gbps,link_mean,link_max,saturated"), "{csv}");
    assert!(rows[1].ends_with(",0") && rows[2].ends_with(",1"), "{csv}");
}
