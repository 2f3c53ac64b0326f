//! Traces, checked.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use serde_json::Value;

/// The events of a trace, which are checked: slices on a track nest, what begins ends, flows have both ends in slices,
/// and counters go on in time.
pub fn checked_trace(path: &Path) -> Vec<Value> {
    let text = fs::read_to_string(path).unwrap();
    let document: Value = serde_json::from_str(&text).unwrap();
    let events = document["traceEvents"].as_array().unwrap().clone();
    // In whole picoseconds, as they were written.
    let time = |value: &Value| (value.as_f64().unwrap() * 1e6).round() as u64;
    let mut slices: BTreeMap<String, Vec<(u64, u64)>> = BTreeMap::new();
    let mut open: BTreeMap<String, (u64, u64)> = BTreeMap::new();
    let mut counters: BTreeMap<String, u64> = BTreeMap::new();
    let mut ends: Vec<(String, u64)> = Vec::new();
    for event in &events {
        let (phase, ts) = (event["ph"].as_str().unwrap(), &event["ts"]);
        let key = || format!("{} {} {}", event["cat"], event["id"], event["pid"]);
        let track = || format!("{} {}", event["pid"], event["tid"]);
        if event["cat"] == "flow" {
            ends.push((track(), time(ts)));
        }
        match phase {
            "X" => {
                let track = track();
                let (from, length) = (time(ts), time(&event["dur"]));
                slices.entry(track).or_default().push((from, from + length));
            }
            "b" | "s" => {
                let before = open.insert(key(), (time(ts), u64::MAX));
                assert!(before.is_none(), "{event} begins twice");
            }
            "e" | "f" => {
                let begun = open.get_mut(&key()).unwrap_or_else(|| panic!("{event} never began"));
                assert!(begun.1 == u64::MAX && begun.0 <= time(ts), "{event}: {begun:?}");
                begun.1 = time(ts);
            }
            "C" => {
                let counter = format!("{} {}", event["pid"], event["name"]);
                let before = counters.insert(counter, time(ts));
                assert!(before.is_none_or(|before| before < time(ts)), "{event}");
                assert!(event["args"]["value"].as_f64().unwrap() >= 0.0, "{event}");
            }
            other => assert_eq!(other, "M"),
        }
    }
    assert!(open.values().all(|&(_, end)| end != u64::MAX), "something never ends");
    for (track, at) in ends {
        let holds = |&(from, to): &(u64, u64)| (from..=to).contains(&at);
        assert!(slices[&track].iter().any(holds), "an arrow at {at} touches no slice of {track}");
    }
    for slices in slices.values_mut() {
        slices.sort_by_key(|&(from, to)| (from, Reverse(to)));
        let mut around: Vec<u64> = Vec::new();
        for &(from, to) in slices.iter() {
            around.retain(|&end| end > from);
            assert!(around.last().is_none_or(|&end| to <= end), "{from}..{to} overlaps");
            around.push(to);
        }
    }
    events
}
