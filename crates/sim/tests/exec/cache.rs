//! A cache that speaks Redis' protocol on one node, and its client on another (DEOI §IV-C).

use rackmem_sim::exec::{self, End, Job, Outcome};
use serde_json::Value;

use super::guest::{Guest, limited};
use super::same::all_of;
use super::{errors, load, said};

/// Memory of which a node's system takes 1 MB, and 64 KB are for items: the rest is borrowed.
const SMALL: [(&str, &str); 4] = [
    ("system.stack_bytes", "64K"),
    ("memory.size_bytes", "1344K"),
    ("window.lent_bytes", "256K"),
    ("window.plug_bytes", "64K"),
];

/// Executes these words of the program, on a node each.
fn run(settings: &[(&str, &str)], programs: &[&str]) -> Outcome {
    let guest = |words: &&str| {
        let args: Vec<&str> = ["deoi_cache"].into_iter().chain(words.split_whitespace()).collect();
        Guest::prebuilt(1, &args)
    };
    let guests: Vec<Guest> = programs.iter().map(guest).collect();
    let jobs: Vec<Job<'_>> = guests.iter().map(Guest::job).collect();
    let machine = load("deoi-cores", settings);
    exec::run(&machine, &jobs, limited(200_000_000)).expect("programs that fit")
}

/// The client's report.
fn measured(outcome: &Outcome) -> Value {
    let text = said(outcome);
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn a_server_with_borrowed_memory_keeps_more_items() {
    let of = |additional: &str, threads| {
        let load = format!(
            "load --host 10.0.0.2 --keys 300 --initial-bytes 64K --additional-bytes {additional} \
             --gets 800 --intervals 4 --connections 2 --json"
        );
        run(&[&SMALL[..], &[("run.threads", threads)]].concat(), &[&load, "serve"])
    };
    let (without, with) = (of("0", "1"), of("64K", "1"));
    assert_eq!(without.stats["node[1].lease.borrowed_bytes"], 0.0);
    assert_eq!(with.stats["node[1].lease.borrowed_bytes"], 65536.0);
    let number = |of: &Value, name: &str| of[name].as_f64().unwrap_or_else(|| panic!("{of}"));
    let (first, second) = (measured(&without), measured(&with));
    // Slots of 640 bytes, less the table: 100 of 300 keys, and 200 of them.
    assert!((99.0..=101.0).contains(&number(&first, "first_items")), "{first}");
    assert!((number(&first, "hit_ratio") - 1.0 / 3.0).abs() < 0.05, "{first}");
    let last = &second["interval"][3];
    assert!((number(last, "hit_ratio") - 2.0 / 3.0).abs() < 0.1, "{second}");
    assert!(number(last, "gets_per_second") > 1.4 * number(&first, "gets_per_second"), "{second}");
    assert!(number(&second, "evictions_per_get") < number(&first, "evictions_per_get"), "{second}");
    assert!((0.25..=0.75).contains(&number(&second, "full_at")), "{second}");
    assert_eq!(all_of(&of("64K", "2")), all_of(&with), "threads");
}

/// Of keys that are asked for once each is a miss, and its connection waits; others go on meanwhile.
#[test]
fn a_miss_takes_as_long_as_the_database() {
    let us = |database: &str, connections: &str| {
        let load = format!(
            "load --host 10.0.0.2 --keys 1000000 --initial-bytes 8K --gets 40 --intervals 1 \
             --database-us {database} --connections {connections} --json"
        );
        let report = measured(&run(&[], &[&load, "serve"]));
        assert_eq!(report["hit_ratio"], 0.0);
        1e6 / report["gets_per_second"].as_f64().unwrap()
    };
    let (instant, slow, of_four) = (us("0", "1"), us("500", "1"), us("500", "4"));
    // The first of 40 waits for no other one's database.
    assert!((slow - instant - 500.0 * 39.0 / 40.0).abs() < 5.0, "{slow} us, not {instant} + 500");
    assert!((3.0..4.5).contains(&(slow / of_four)), "{slow} us, and of four {of_four}");
}

/// Without a neighbour's memory the server says so, and the client passes it on.
#[test]
fn a_server_without_memory_says_so() {
    let load = "load --host 10.0.0.2 --keys 1000 --initial-bytes 1M";
    let outcome = run(&[&SMALL[..3], &[("window.plug_bytes", "0")]].concat(), &[load, "serve"]);
    failed(&outcome, 1, "the server at 10.0.0.2:6379: OOM the node has no memory for the item");
}

/// The client of node 0 ended with a status and one line on standard error.
fn failed(outcome: &Outcome, status: i32, expected: &str) {
    assert_eq!(errors(outcome, 0), format!("deoi_cache: {expected}\n"));
    assert_eq!(outcome.nodes[0].end, End::Exit(status));
}

#[test]
fn a_server_that_is_not_there_or_ends_is_named_in_a_line() {
    let outcome = run(&[], &["load --host 10.0.0.9", "load --host 10.0.0.9"]);
    failed(&outcome, 1, "the server at 10.0.0.9:6379: Network unreachable");
    let outcome = run(&[], &["load --host 10.0.0.2 --port 7 --wait-ms 1", "serve"]);
    failed(&outcome, 1, "the server at 10.0.0.2:7: Connection refused");
    // Another client stops the server while this one measures.
    let other = "load --host 10.0.0.2 --gets 1 --intervals 1 --initial-bytes 8K";
    let long = "load --host 10.0.0.2 --gets 100000 --initial-bytes 8K";
    let outcome = run(&[], &[long, "serve", other]);
    failed(&outcome, 1, "the server at 10.0.0.2:6379: it has closed the connection");
}

#[test]
fn wrong_words_are_refused_on_every_node() {
    for (words, expected) in [
        ("", "expected 'serve' or 'load'"),
        ("sell", "expected 'serve' or 'load'"),
        ("load --value-bytes 65537", "--value-bytes: expected a number of bytes"),
        ("load --gets 2 --intervals 3", "--gets is less than --intervals"),
        ("load --speed 1", "'--speed'"),
    ] {
        let outcome = run(&[], &["load --wait-ms 1000", words]);
        let found = errors(&outcome, 1);
        assert!(found.contains(expected) && found.lines().count() == 1, "{words}: {found}");
        assert_eq!(outcome.nodes[1].end, End::Exit(2), "{words}");
    }
}
