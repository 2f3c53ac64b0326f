//! Expressions, alone and over reports.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value as Json, json};

use super::evaluate::{Scope, World};
use super::parse::parse;
use super::template::Template;
use super::value::{Outcome, Stop, Value};
use crate::document::Document;
use crate::{Effort, Known};

const FILE: &str = r#"
paper = "mine"
title = ""
[let]
sizes = { quick = [64, 512], full = [64, 128, 512] }
"double(x)" = "2 * x"
"shifted(x, by=1)" = "x + by"
best = "argmax(gbps(bytes) for bytes in sizes)"
"gbps(bytes)" = "read(bytes).app_gbps"
[run.read]
parameters = "bytes, hops=1"
name = "read/{bytes}{'' if hops == 1 else '/' + text(hops) + '-hops'}"
machine = "manycore-ni"
set = { "workload.transfer_bytes" = "{bytes}", "network.hops" = "{none if hops == 1 else hops}" }
[[part]]
name = "all"
title = "All"
"#;

/// What an expression gives with these reports; and the runs that it asks for.
fn evaluated(
    expr: &str,
    reports: &[(&str, Json)],
    is_planning: bool,
) -> (Result<String, String>, Vec<String>) {
    let document = Document::parse("mine.toml", FILE, None).unwrap();
    let known = |(name, report): &(&str, Json)| ((*name).to_owned(), Ok(Arc::new(report.clone())));
    let reports: BTreeMap<String, Known<Arc<Json>>> = reports.iter().map(known).collect();
    let (trees, published) = (BTreeMap::new(), BTreeMap::new());
    let world = World {
        document: &document,
        effort: Effort::Quick,
        variation: None,
        trees: &trees,
        published: &published,
        reports: &reports,
        is_planning,
        asked: RefCell::default(),
        used: RefCell::default(),
    };
    let parsed = parse(expr).unwrap_or_else(|problem| panic!("{expr}: {problem:?}"));
    let value: Outcome<Value> = world.value(&parsed, &Scope::default());
    let shown = value.map(|value| value.shown(None)).map_err(|stop| match stop {
        Stop::Missing(why) | Stop::Untestable(why) => why,
    });
    (shown, world.asked.into_inner().into_keys().collect())
}

fn value(expr: &str) -> String {
    evaluated(expr, &[], false).0.unwrap_or_else(|why| panic!("{expr}: {why}"))
}

#[test]
fn operators_bind_as_in_python() {
    for (expr, expected) in [
        ("1 + 2 * 3", "7"),
        ("(1 + 2) * 3", "9"),
        ("2 - 3 - 4", "-5"),
        ("-2 * -3", "6"),
        ("7 % 4", "3"),
        ("1_000 / 8", "125"),
        ("1e3 + 2.5e-1", "1000.25"),
        ("1 < 2 and 2 <= 2", "true"),
        ("not 1 == 2 or false", "true"),
        ("'a' + 'b' == 'ab'", "true"),
        ("1 if 2 > 3 else 4 if false else 5", "5"),
        ("2 in [1, 2]", "true"),
        ("[1, 2] + [3]", "1,2,3"),
        ("[10, 20][1]", "20"),
        ("double(shifted(3)) + shifted(1, by=10)", "19"),
        ("max(1, 5, 3) - min([4, 2])", "3"),
        ("mean(x * x for x in [1, 2, 3] if x != 2)", "5"),
        ("[x + y for x in [10, 20] for y in [1, 2]]", "11,12,21,22"),
        ("argmax(x * y for x in [1, 3] for y in [5, 2])", "3,5"),
        ("argmin(abs(x) for x in [4, -1, 1])", "-1"),
        ("first([x for x in [1, 2, 3] if x > 1])", "2"),
        ("last([x for x in [1] if x > 1], 9)", "9"),
        ("count([x > 1 for x in [1, 2, 3]])", "2"),
        ("all(x > 0 for x in sizes) and not any(x > 600 for x in sizes)", "true"),
        ("join(sizes, '+')", "64+512"),
        ("number(after('ddr3-1600', '-'))", "1600"),
        ("correlation([[1, 3], [5, 11], [3, 7]])", "1"),
    ] {
        assert_eq!(value(expr), expected, "{expr}");
    }
}

#[test]
fn malformed_expressions_are_refused_with_their_place() {
    for (expr, at, expected) in [
        ("1 +", 3, "expected a value, found the end"),
        ("(1 + 2", 6, "expected ')', found the end"),
        ("1 2", 2, "expected an operator or the end, found 2"),
        ("max(x for in [1])", 10, "expected a variable, found in"),
        ("'open", 0, "no closing '"),
        ("1.2.3", 0, "'1.2.3' is not a number"),
        ("a ? b", 2, "'?' begins nothing"),
        ("1 if 2", 6, "expected 'else', found the end"),
        ("[a=1]", 3, "a list has no 'a='"),
    ] {
        let problem = parse(expr).unwrap_err();
        assert_eq!((problem.at, problem.what.as_str()), (at, expected), "{expr}");
    }
    assert!(parse(&"(".repeat(10_000)).unwrap_err().what.contains("nested too deeply"));
    assert!(parse(&"-".repeat(10_000)).unwrap_err().what.contains("nested too deeply"));
    assert!(parse("€").is_err() && parse("'€' + €").is_err());
}

#[test]
fn texts_have_values_in_braces() {
    let pieces = Template::parse("a{1 + 1}b{{c}} {x:.2}").unwrap();
    assert_eq!(pieces.0.len(), 4);
    for (text, expected) in
        [("{1 +}", "expected a value"), ("{1", "no closing }"), ("1}", "no opening {")]
    {
        let problem = Template::parse(text).unwrap_err();
        assert!(problem.what.contains(expected), "{text}: {problem:?}");
    }
}

#[test]
fn reports_are_read_by_paths() {
    let report = json!({
        "app_gbps": 3.5,
        "rows": [{ "bytes": 64, "us": { "median": 2 } }, { "bytes": 512, "us": { "median": 4 } }],
        "stats": { "a[0].hits": 1.0, "a[1].hits": 2.0, "misses": 7.0 },
    });
    let reports = [("read/64", report)];
    for (expr, expected) in [
        ("read(64).app_gbps", "3.5"),
        ("read(64).rows[bytes=512].us.median", "4"),
        ("read(64).rows[0].bytes", "64"),
        ("read(64).stats['misses']", "7"),
        ("total(read(64).stats, '.hits')", "3"),
        ("sum(row.us.median for row in read(64).rows)", "6"),
    ] {
        assert_eq!(evaluated(expr, &reports, false).0.as_deref(), Ok(expected), "{expr}");
    }
    for (expr, expected) in [
        ("read(64).app_gpbs", "no 'app_gpbs' here; did you mean app_gbps?"),
        ("read(64).rows[bytes=7].us", "no row with bytes=7"),
        ("read(64).rows[9]", "no element 9 of 2"),
        ("read(64).rows + 1", "a part of a report is not a number"),
        ("read(512).app_gbps", "the run read/512 was not made"),
        ("total(read(64).stats, '.none')", "nothing is counted by .none"),
        ("max([x for x in [1] if x > 1])", "there is nothing to choose from"),
    ] {
        assert_eq!(evaluated(expr, &reports, false).0, Err(expected.to_owned()), "{expr}");
    }
}

#[test]
fn runs_are_found_by_asking_once_and_dependent_ones_by_asking_again() {
    let plan = |expr: &str, reports: &[(&str, Json)]| evaluated(expr, reports, true).1;
    assert_eq!(
        plan("1 if gbps(64) > gbps(512) else read(64, hops=2).x", &[]),
        ["read/512", "read/64", "read/64/2-hops"]
    );
    assert_eq!(plan("max(gbps(b) for b in sizes if gbps(b) > 1)", &[]), ["read/512", "read/64"]);
    assert_eq!(plan("read(best, hops=3).app_gbps", &[]), ["read/512", "read/64"]);
    let known = [("read/64", json!({ "app_gbps": 1 })), ("read/512", json!({ "app_gbps": 2 }))];
    assert_eq!(plan("read(best, hops=3).app_gbps", &known), ["read/512/3-hops"]);
    assert_eq!(plan("false and gbps(64) > 1", &[]), [""; 0]);
}
