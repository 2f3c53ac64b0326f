//! `rackmem reproduce`.

mod common;

use common::Host;
use rackmem_cli::reproduce::results::Effort;
use rackmem_cli::reproduce::sonuma::experiment::Experiment;
use rackmem_cli::reproduce::sonuma::results::{Report, Results};
use rackmem_cli::reproduce::{claims, outcome, sonuma};
use serde_json::Value;

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
    assert_eq!(outcome["summary"]["missed"], 0);
    let written = std::fs::read_to_string(dir.join("results.json")).unwrap();
    assert_eq!(serde_json::from_str::<Value>(&written).unwrap(), outcome);
    let text = host.ok(&["reproduce", "manycore-ni/table2", "--quick"]);
    assert!(text.lines().last().unwrap().contains("checkable claims hold (100.0 %)"), "{text}");
}

#[test]
fn unknown_papers_and_parts_are_wrong_usage() {
    let host = Host::new();
    for (args, complaint) in [
        (
            &["reproduce", "manycore"][..],
            "there is no paper 'manycore' here; there are manycore-ni, sonuma, cache-integrated-ni, \
             tsm, deoi",
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
        (&["reproduce", "--jobs", "0"], "0 is not in 1..=1024"),
        (&["reproduce", "--slow"], "unexpected argument '--slow'"),
    ] {
        let found = host.fails(2, args);
        assert!(found.contains(complaint), "{args:?}: {found}");
    }
}

#[test]
fn a_table_is_reproduced() {
    let host = Host::new();
    let text = host.ok(&["reproduce", "manycore-ni/table3", "--quick", "--json"]);
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
    assert_eq!((&outcome["paper"], &outcome["summary"]["missed"]), (&"sonuma".into(), &0.into()));
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
    let interface = of("cache-integrated-ni/interface");
    assert_eq!(interface["summary"]["missed"], 0, "{}", interface["claims"]);
    let table = of("cache-integrated-ni/table1");
    let claims = table["claims"].as_array().unwrap();
    let wanted = "cache-integrated-ni/sect541/remote-store/one-way-latency";
    let one_way = claims.iter().find(|claim| claim["id"] == wanted).unwrap();
    assert_eq!((&one_way["verdict"], &one_way["published"]), (&"holds".into(), &35.0.into()));
    for claim in claims {
        let why = claim["why"].as_str().unwrap();
        assert!(!why.contains(" reports no ") && !why.contains(" counts no "), "{claim}");
    }
}

/// All programs of the paper with the arguments that the model gives them, on the runtime: that
/// whatever checks look for is there.
#[test]
fn programs_print_what_checks_read() {
    let host = Host::new();
    let run = |run: Experiment| {
        let nodes = run.nodes().to_string();
        let program = format!(":{}", run.program());
        let arguments = run.arguments(Effort::Quick, None);
        let mut command = vec!["run", "-n", &nodes, "--no-prefix", "--", &program];
        command.extend(arguments.iter().map(String::as_str));
        let output = serde_json::from_str(&host.ok(&command)).unwrap();
        (run, Ok(Report { output, ..Report::default() }))
    };
    let mut results = Results::new(Effort::Quick, sonuma::setting(None).unwrap());
    loop {
        let planned = outcome::plan(&sonuma::PAPER, &mut results, None);
        if planned.is_empty() {
            break;
        }
        results.extend(planned.into_iter().map(run));
    }
    let claims = claims::parse(sonuma::PAPER.published).unwrap();
    for judged in outcome::evaluate(&sonuma::PAPER, &claims, &results, None).claims {
        assert!(!judged.why.contains(" reports no "), "{}: {}", judged.id, judged.why);
    }
    host.assert_nothing_left();
}
