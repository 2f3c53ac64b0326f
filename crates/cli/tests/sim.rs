//! `rackmem sim`.

mod common;
#[path = "common/traces.rs"]
mod traces;

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
    let trace = host.racks().join("trace.json");
    let files = ["--trace", trace.to_str().unwrap(), "--out", out.to_str().unwrap()];
    let text = host.ok(&[&["sim", "run", "manycore-ni"], &SHORT[..], &files[..]].concat());
    for row in ["latency of a 64 B read", "WQ entry transfer", "RRPP servicing", "remote reads"] {
        assert!(text.contains(row), "{text}");
    }
    for name in ["machine.toml", "stats.json", "report.json"] {
        assert!(out.join(name).is_file(), "{name}");
    }
    let trace = std::fs::read_to_string(trace).unwrap();
    assert!(trace.contains("read memory") && trace.contains("remote read"), "{trace}");
    // The resolved file is a machine, and the same one.
    let again = host.ok(&["sim", "show", out.join("machine.toml").to_str().unwrap()]);
    assert_eq!(again, std::fs::read_to_string(out.join("machine.toml")).unwrap());
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
        host.ok(&args.concat())
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
    let trace = ["--trace", "trace.json"];
    let refused = host.fails(1, &[&["sim", "run", "rack-torus"], &trace[..]].concat());
    assert!(refused.contains("simplified nodes record no events"), "{refused}");
}

#[test]
fn a_trace_shows_messages_and_reads_of_both_workloads() {
    let host = Host::new();
    let path = host.racks().join("trace.json");
    let file = path.to_str().unwrap();
    for (kind, short) in [
        ("workload.kind=sync-read", &["--set", "run.reads=8"][..]),
        (
            "workload.kind=async-read",
            &["--set", "run.window_cycles=4000", "--set", "run.max_windows=2"],
        ),
    ] {
        let args = ["sim", "run", "manycore-ni", "--set", kind, "--set", "workload.cores=4"];
        let small = ["--set", "workload.transfer_bytes=64"];
        let trace = ["--trace", file, "--trace-window", "200ns..900ns"];
        host.ok(&[&args[..], short, &small[..], &trace[..]].concat());
        let events = traces::checked_trace(&path);
        let count = |phase: &str, category: &str| {
            let is = |event: &&serde_json::Value| event["ph"] == phase && event["cat"] == category;
            events.iter().filter(is).count()
        };
        assert!(count("b", "read") > 0 && count("b", "message") > 20, "{kind}");
        assert_eq!(count("s", "flow"), count("b", "message"), "{kind}");
    }
}

#[test]
fn a_trace_of_nothing_is_an_error() {
    let host = Host::new();
    let path = host.racks().join("trace.json");
    let trace = ["--trace", path.to_str().unwrap(), "--trace-window", "900ms..901ms"];
    let found = host.fails(1, &[&["sim", "run", "manycore-ni"], &SHORT[..], &trace[..]].concat());
    assert!(found.contains("nothing to trace") && !path.exists(), "{found}");
    let found = host.fails(1, &["sim", "run", "manycore-ni", "--trace", "no/where"]);
    assert!(found.contains("cannot write no/where") && !found.contains("simulated in"), "{found}");
    let found = host.fails(2, &["sim", "run", "manycore-ni", "--trace", "3"]);
    assert!(found.contains("a trace is of a time"), "{found}");
}

#[test]
fn a_report_is_enough_to_run_again() {
    let host = Host::new();
    let first = host.ok(&[&["sim", "run", "manycore-ni", "--json"], &SHORT[..]].concat());
    let report: serde_json::Value = serde_json::from_str(&first).unwrap();
    let path = host.racks().join("again.toml");
    std::fs::write(&path, report["recipe"]["machine"].as_str().unwrap()).unwrap();
    assert_eq!(host.ok(&["sim", "run", path.to_str().unwrap(), "--json"]), first);
}

#[test]
fn a_setting_that_is_gone_names_its_successor() {
    let host = Host::new();
    let found = host.fails(2, &["sim", "run", "manycore-ni", "--set", "run.stable_percent=1"]);
    assert!(found.contains("run.stable_percent: is gone"), "{found}");
    assert!(found.contains("run.precision_percent"), "{found}");
}

/// A pipe that nobody writes to, and a device without an end.
#[test]
fn what_never_ends_is_refused_by_its_name() {
    let host = Host::new();
    let [pipe, folder] = ["pipe", "runs"].map(|name| host.racks().join(name));
    std::fs::create_dir(&folder).unwrap();
    let [noc, dram] = ["noc", "dram"].map(|name| host.racks().join("references").join(name));
    [&noc, &dram].iter().for_each(|folder| std::fs::create_dir_all(folder).unwrap());
    for place in [&pipe, &folder.join("a.json"), &noc.join("a.cfg"), &dram.join("dramsim3.csv")] {
        let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
        let kind = rustix::fs::FileType::Fifo;
        rustix::fs::mknodat(rustix::fs::CWD, place, kind, mode, 0).unwrap();
    }
    let [pipe, folder] = [&pipe, &folder].map(|path| path.to_str().unwrap());
    let references = noc.parent().unwrap().to_str().unwrap();
    let edges = format!("edges:{pipe}");
    for (status, args) in [
        (1, &["report", pipe][..]),
        (1, &["report", folder]),
        (1, &["report", "/dev/zero"]),
        (2, &["sweep", pipe, "--vary", "seed=1"]),
        (2, &["sim", "run", "/dev/zero"]),
        (126, &["sim", "exec", "sonuma", pipe]),
        (126, &["sim", "exec", "sonuma", "/dev/zero"]),
        (2, &["sim", "exec", pipe]),
        (126, &["sim", "exec", "--functional", "/dev/zero"]),
        (125, &["sim", "exec", "sonuma", "--restore", pipe]),
        (2, &["sim", "litmus", pipe]),
        (2, &["noc", "--topology", &edges]),
        (2, &["noc", "--topology", "edges:/dev/zero"]),
        (1, &["reproduce", "sonuma", "--quick", "--graph", pipe]),
        (
            1,
            &[
                "accuracy",
                "--quick",
                "--paper",
                "sonuma",
                "--out",
                folder,
                "--references",
                references,
            ],
        ),
    ] {
        let found = host.fails(status, args);
        let named = ["/pipe", "/a.json", "/a.cfg", "/dramsim3.csv", "/dev/zero"];
        assert!(named.iter().any(|name| found.contains(name)), "{args:?}: {found}");
        assert!(args[0] == "noc" || found.lines().count() == 1, "{args:?}: {found}");
    }
}

/// The key is right, and a key with the same unit is no better one.
#[test]
fn a_setting_that_nothing_reads_is_not_mistaken_for_another() {
    let host = Host::new();
    for args in
        [&["sim", "exec", "manycore-ni"][..], &["sim", "exec", "sonuma"], &["sim", "run", "sonuma"]]
    {
        let found = host.fails(2, &[args, &["--set", "run.watchdog_cycles=5"]].concat());
        assert!(found.contains("nothing reads it"), "{found}");
        assert!(!found.contains("did you mean"), "{found}");
    }
}
