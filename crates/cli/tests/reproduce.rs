//! `rackmem reproduce`.

mod common;

use common::Host;
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
        (&["reproduce", "manycore"][..], "there is no paper 'manycore' here; there is manycore-ni"),
        (&["reproduce", "manycore-ni/fig8"], "manycore-ni has no part 'fig8'; there are table1,"),
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
