//! `rackmem reproduce`.

mod common;

use std::path::Path;

use common::Host;
use rackmem_cli::reproduce;
use rackmem_experiments::document::Output;
use rackmem_experiments::papers::PAPERS;
use rackmem_experiments::run::{Run, Work};
use rackmem_experiments::{Effort, model};
use rackmem_sim::statistics::schema;
use serde_json::{Value, json};

#[test]
fn parameters_are_read_off_the_machine_without_a_run() {
    let host = Host::new();
    let dir = host.racks().join("results");
    let out = dir.to_str().unwrap();
    let json = host.ok(&["reproduce", "manycore-ni/table2", "--quick", "--json", "--out", out]);
    let outcome: Value = serde_json::from_str(&json).unwrap();
    let claims = outcome["claims"].as_array().unwrap();
    let hop = claims.iter().find(|claim| claim["id"] == "manycore-ni/table2/noc/mesh-hop").unwrap();
    assert_eq!((&hop["verdict"], &hop["published"]), (&Value::from("holds"), &hop["measured"]));
    assert_eq!(outcome["summary"]["kinds"]["parameter"]["missed"], 0);
    assert_eq!(outcome["summary"]["counted"]["holds"], 0);
    let written = std::fs::read_to_string(dir.join("results.json")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&written).unwrap(), outcome);
    let text = host.ok(&["reproduce", "manycore-ni/table2", "--quick"]);
    assert!(text.contains("parameters 51 of 51\n"), "{text}");
}

#[test]
fn unknown_papers_and_parts_are_wrong_usage() {
    let host = Host::new();
    for (args, complaint) in [
        (
            &["reproduce", "manycore"][..],
            "there is no paper 'manycore' here; there are manycore-ni, sonuma, cache-integrated-ni, \
             tsm, deoi, and 'all'",
        ),
        (&["reproduce", "manycore-ni/fig8"], "manycore-ni has no part 'fig8'; there are table1,"),
        (
            &["reproduce", "sonuma/fig10"],
            "sonuma has no part 'fig10'; there are interface, table1,",
        ),
        (
            &["reproduce", "cache-integrated-ni/fig8"],
            "cache-integrated-ni has no part 'fig8'; there are interface, table1, stream, bitonic,",
        ),
        (
            &["reproduce", "cache-integrated-ni", "--graph", "x"],
            "cache-integrated-ni has no graphs; --graph is for sonuma",
        ),
        (&["reproduce", "--graph", "x"], "manycore-ni has no graphs; --graph is for sonuma"),
        (&["reproduce", "tsm", "--cores", "executed"], "tsm has no --cores; it is for manycore-ni"),
        (&["reproduce", "all/table1"], "there is no paper 'all/table1'"),
        (&["reproduce", "--jobs", "0"], "0 is not in 1..=1024"),
        (&["reproduce", "--slow"], "unexpected argument '--slow'"),
    ] {
        let found = host.fails(2, args);
        assert!(found.contains(complaint), "{args:?}: {found}");
    }
}

/// A folder that cannot be made is found before the first run, of which nothing is said.
#[test]
fn results_have_a_folder_before_there_are_any() {
    let host = Host::new();
    let file = host.racks().join("file");
    std::fs::write(&file, "").unwrap();
    let inside = host.racks().join("inside");
    std::fs::create_dir_all(&inside).unwrap();
    std::fs::write(inside.join("reports"), "").unwrap();
    for (what, out) in
        [("manycore-ni/table3", &file), ("manycore-ni/table3", &inside), ("all", &file)]
    {
        let args = ["reproduce", what, "--quick", "--out", out.to_str().unwrap()];
        let found = host.fails(1, &args);
        assert!(found.contains("cannot make ") && !found.contains("of a chip"), "{found}");
    }
}

#[test]
fn a_table_is_reproduced() {
    let host = Host::new();
    let out = host.racks().join("out");
    let to = out.to_str().unwrap();
    let text = host.ok(&["reproduce", "manycore-ni/table3", "--quick", "--json", "--out", to]);
    statistics_are_known(&out);
    let result: serde_json::Value = serde_json::from_str(&text).unwrap();
    let claims = result["claims"].as_array().unwrap();
    let total = claims.iter().find(|claim| claim["id"] == "manycore-ni/table3/ni-split/total");
    let total = total.unwrap();
    assert_eq!((&total["verdict"], &total["published"]), (&"holds".into(), &447.0.into()));
    assert!(claims.iter().all(|claim| claim["verdict"] == "holds" || claim["why"].is_string()));
}

#[test]
fn parameters_of_the_other_paper_hold() {
    let host = Host::new();
    let json = host.ok(&["reproduce", "sonuma/table1", "--json"]);
    let outcome: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(outcome["paper"], "sonuma");
    assert_eq!(outcome["summary"]["kinds"]["parameter"]["missed"], 0);
    let complaint = host.fails(1, &["reproduce", "sonuma", "--graph", "/no/such/graph"]);
    assert!(complaint.contains("cannot read /no/such/graph: "), "{complaint}");
}

/// Mechanisms and locks of the third paper: programs run, and print what checks read.
#[test]
fn chips_with_cache_integrated_interfaces_are_reproduced() {
    let host = Host::new();
    let of = |part| -> Value {
        let json = host.ok(&["reproduce", part, "--quick", "--json"]);
        serde_json::from_str(&json).unwrap()
    };
    let out = host.racks().join("out");
    host.ok(&[
        "reproduce",
        "cache-integrated-ni/interface",
        "--quick",
        "--out",
        out.to_str().unwrap(),
    ]);
    statistics_are_known(&out);
    let interface = of("cache-integrated-ni/interface");
    assert_eq!(interface["summary"]["kinds"]["functional"]["missed"], 0, "{}", interface["claims"]);
    let table = of("cache-integrated-ni/table1");
    let claims = table["claims"].as_array().unwrap();
    let wanted = "cache-integrated-ni/sect541/remote-store/one-way-latency";
    let one_way = claims.iter().find(|claim| claim["id"] == wanted).unwrap();
    assert_eq!((&one_way["verdict"], &one_way["published"]), (&"fitted".into(), &35.0.into()));
    for claim in claims {
        let why = claim["why"].as_str().unwrap();
        assert!(!why.contains("no '") && !why.contains("nothing is counted"), "{claim}");
    }
}

/// Reports have no statistic that the schema does not explain.
fn statistics_are_known(out: &Path) {
    for report in std::fs::read_dir(out.join("reports")).unwrap() {
        let text = std::fs::read_to_string(report.unwrap().path()).unwrap();
        let report: Value = serde_json::from_str(&text).unwrap();
        for path in report["stats"].as_object().unwrap().keys() {
            assert!(schema().has(path), "{path} is not in statistics.toml");
        }
    }
}

/// All programs of the paper with the arguments that the model gives them, on the runtime: that
/// whatever expressions look for is there.
#[test]
fn programs_print_what_expressions_read() {
    let host = Host::new();
    let paper = PAPERS.iter().find(|paper| paper.name == "sonuma").unwrap();
    let document = paper.document().unwrap();
    let mut session =
        reproduce::session(&document, Effort::Quick, None, &reproduce::Options::default());
    loop {
        let planned = session.plan();
        if planned.is_empty() {
            break;
        }
        for run in planned {
            let report = printed(&host, &run);
            session.add(run, Ok(report));
        }
    }
    for judged in session.outcome(vec![]).claims {
        let is_there = !judged.why.contains("no '") && !judged.why.contains("no row");
        assert!(is_there, "{}: {}", judged.id, judged.why);
    }
    host.assert_nothing_left();
}

/// The report of a program of a run, on a rack of its own; that of tests, on the model.
fn printed(host: &Host, run: &Run) -> Value {
    let Work::Program(execution) = &run.work else { panic!("{} is no program", run.name) };
    // Tests are for the model: the command has none of them built in.
    if execution.output == Output::Tests {
        return model::make(run).unwrap();
    }
    let nodes = execution.nodes.to_string();
    let program = format!(":{}", execution.program);
    let mut command = vec!["run", "-n", &nodes, "--no-prefix", "--", &program];
    command.extend(execution.arguments.iter().map(String::as_str));
    let output: Value = serde_json::from_str(&host.ok(&command)).unwrap();
    json!({ "output": output, "cycles": 0, "stats": {} })
}

/// Experiments of a user: runs, quantities and values of his own.
#[test]
fn a_file_of_a_user_is_run() {
    let host = Host::new();
    let file = host.racks().join("mine.toml");
    let text = r#"
paper = "mine"
title = "Links of twice the width"
[let]
"cycles(width)" = "read(width).latency.mean_cycles"
[run.read]
parameters = "width"
name = "read/{width}"
machine = "manycore-ni"
set = { "noc.link_bytes" = "{width}", "workload.kind" = "sync-read", "run.reads" = 4, "workload.warmup_reads" = 4 }
[[part]]
name = "width"
title = "Width of links"
claim = [
    { id = "wider-is-faster", class = "order", relation = "<", left = "cycles(32)", right = "cycles(16)" },
    { id = "no-worse", class = "ratio", value = 1, relation = "<", measure = "cycles(32) / cycles(16)" },
]
"#;
    std::fs::write(&file, text).unwrap();
    let path = file.to_str().unwrap();
    let json = host.ok(&["reproduce", "--experiment", path, "--json"]);
    let outcome: Value = serde_json::from_str(&json).unwrap();
    assert_eq!(outcome["summary"]["counted"]["holds"], 2, "{outcome}");
    assert_eq!(outcome["claims"][0]["id"], "mine/wider-is-faster");
    let table = host.ok(&["reproduce", "mine/width", "--experiment", path]);
    assert!(table.contains("Width of links"), "{table}");
    std::fs::write(&file, text.replace("cycles(32)", "cycels(32)")).unwrap();
    let complaint = host.fails(1, &["reproduce", "--experiment", path]);
    assert!(
        complaint.contains(
            "mine.toml:15: wider-is-faster: there is no function 'cycels'; did you mean cycles?"
        ),
        "{complaint}"
    );
    std::fs::write(&file, text).unwrap();
    let complaint = host.fails(2, &["reproduce", "x/y", "--experiment", path]);
    assert!(complaint.contains("mine.toml is about 'mine', not about 'x'"), "{complaint}");
}

#[test]
fn other_values_of_open_parameters_give_a_band() {
    let host = Host::new();
    let part = ["sensitivity", "deoi/fig4", "--quick", "--parameter", "soc.port_ns"];
    let json: Value = serde_json::from_str(&host.ok(&[&part[..], &["--json"]].concat())).unwrap();
    assert_eq!(json["tried"], json!(["soc.port_ns = 50.0", "soc.port_ns = 90.0"]));
    let local = &json["claims"]["fig4/local-access"];
    let (least, most) = (local["least"].as_f64().unwrap(), local["most"].as_f64().unwrap());
    // The way to the memory and back is part of an access: 40 ns less and more of it.
    assert!((30.0..=50.0).contains(&(most - least)), "{local}");
    let text = host.ok(&part);
    assert!(text.contains("2 variations; ") && text.contains("fig4/local-access"), "{text}");
}

#[test]
fn wrong_studies_of_sensitivity_are_wrong_usage() {
    let host = Host::new();
    for (args, complaint) in [
        (&["sensitivity", "deo"][..], "there is no paper 'deo' here"),
        (
            &["sensitivity", "deoi", "--parameter", "soc.port"],
            "no open parameter is called 'soc.port'; did you mean soc.port_ns?",
        ),
        (&["sensitivity", "deoi/fig4", "--out", "x"], "a file of bands is of a whole paper"),
        (&["accuracy", "--out", "x", "--references", "/none"], "there is no folder /none"),
    ] {
        let error = host.fails(2, args);
        assert!(error.contains(complaint), "{args:?}: {error}");
    }
}

#[test]
fn seeds_give_a_spread() {
    let host = Host::new();
    let args = ["reproduce", "tsm/fig8", "--quick", "--seeds", "2", "--json"];
    let outcome: Value = serde_json::from_str(&host.ok(&args)).unwrap();
    let claims = outcome["claims"].as_array().unwrap();
    let with = claims.iter().filter(|claim| !claim["spread"].is_null()).count();
    let by_run = claims.iter().filter(|claim| claim["by_run"] == true).count();
    assert!(by_run > 0 && with == by_run, "{with} of {by_run}");
}
