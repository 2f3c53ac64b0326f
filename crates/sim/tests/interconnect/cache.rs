//! The key-value cache as a queue model.

use super::measured;

/// A cache of a tenth of the size, which behaves alike.
const SMALL: [(&str, &str); 5] = [
    ("experiment.kind", "key-value"),
    ("kv.local_bytes", "64000000"),
    ("kv.keys", "300000"),
    ("kv.requests", "200000"),
    ("experiment.count", "300"),
];

fn cache(settings: &[(&str, &str)]) -> rackmem_sim::report::KeyValueReport {
    measured("deoi", &[&SMALL, settings].concat()).key_value.expect("a cache")
}

#[test]
fn of_random_items_the_cache_has_its_share() {
    let report = cache(&[("kv.remote_bytes", "0")]);
    assert!((report.hit_ratio - 100_000.0 / 300_000.0).abs() < 0.01, "{report:?}");
    assert!((report.evictions_per_get - (1.0 - report.hit_ratio)).abs() < 0.01, "{report:?}");
    assert_eq!(report.full_at, Some(0.025), "from the start");
}

#[test]
fn all_items_fit_or_the_first_ones_go() {
    let report = cache(&[("kv.remote_bytes", "128000000"), ("kv.requests", "2000000")]);
    assert_eq!((report.evictions_per_get, report.full_at), (0.0, None));
    let last = report.per_second.last().unwrap();
    assert!(report.per_second[0] < *last, "{report:?}");
}

#[test]
fn a_slower_database_costs_those_who_miss() {
    let gets = |us| cache(&[("kv.remote_bytes", "0"), ("kv.database_us", us)]).gets_per_second;
    let (instant, slow) = (1e6 / gets("0"), 1e6 / gets("100"));
    assert!((slow - instant - 100.0 * 2.0 / 3.0).abs() < 2.0, "{instant} {slow} us a request");
}

#[test]
fn more_connections_ask_more_until_the_server_is_busy() {
    let gets = |connections| {
        cache(&[("kv.remote_bytes", "0"), ("kv.connections", connections)]).gets_per_second
    };
    let [one, four, many, most] = ["1", "4", "64", "128"].map(gets);
    assert!(four > 1.5 * one && many >= four, "{one} {four} {many}");
    assert!((most / many - 1.0).abs() < 0.01, "{many} {most}");
}
