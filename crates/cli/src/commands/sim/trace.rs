//! Traced reads as Chrome's trace events, which Perfetto shows: one track per part of the chip.

use std::collections::BTreeMap;

use rackmem_sim::machine::Machine;
use rackmem_sim::report::TraceEvent;
use serde_json::{Value, json};

/// The document.
pub(super) fn events(machine: &Machine, events: &[TraceEvent]) -> Value {
    let mut tracks: BTreeMap<&str, usize> = BTreeMap::new();
    for event in events {
        tracks.insert(&event.part, 0);
    }
    for (number, track) in tracks.values_mut().enumerate() {
        *track = number + 1;
    }
    let names = tracks.iter().map(|(part, track)| {
        json!({"ph": "M", "name": "thread_name", "pid": 1, "tid": track, "args": {"name": part}})
    });
    let orders = tracks.values().map(|track| {
        let order = json!({"sort_index": track});
        json!({"ph": "M", "name": "thread_sort_index", "pid": 1, "tid": track, "args": order})
    });
    let process =
        json!({"ph": "M", "name": "process_name", "pid": 1, "args": {"name": machine.name}});
    let happened = events.iter().map(|event| one(machine, tracks[event.part.as_str()], event));
    let all: Vec<Value> =
        [process].into_iter().chain(names).chain(orders).chain(happened).collect();
    json!({"displayTimeUnit": "ns", "traceEvents": all})
}

fn one(machine: &Machine, track: usize, event: &TraceEvent) -> Value {
    let us = |cycles: u64| cycles as f64 / (machine.clock_ghz * 1e3);
    let (core, read) = event.transaction;
    let mut value = json!({
        "name": event.what,
        "pid": 1,
        "tid": track,
        "ts": us(event.cycle),
        "args": {"core": core, "read": read, "cycle": event.cycle},
    });
    if event.duration_cycles == 0 {
        value["ph"] = "i".into();
        value["s"] = "t".into();
    } else {
        value["ph"] = "X".into();
        value["dur"] = us(event.duration_cycles).into();
    }
    value
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_has_a_track_and_time_is_in_microseconds() {
        let event = |part: &str, duration_cycles| TraceEvent {
            cycle: 4000,
            duration_cycles,
            transaction: (3, 7),
            part: part.to_owned(),
            what: "GetX".to_owned(),
        };
        let trace = events(&Machine::default(), &[event("home[1]", 100), event("core[3]", 0)]);
        let all = trace["traceEvents"].as_array().unwrap();
        let named = all.iter().filter(|event| event["name"] == "thread_name").count();
        assert_eq!(named, 2);
        let last_two = &all[all.len() - 2..];
        assert_eq!((&last_two[0]["ts"], &last_two[0]["dur"]), (&json!(2.0), &json!(0.05)));
        assert_eq!((&last_two[0]["tid"], &last_two[1]["tid"]), (&json!(2), &json!(1)));
        assert_eq!((&last_two[0]["ph"], &last_two[1]["ph"]), (&json!("X"), &json!("i")));
        assert_eq!(last_two[1]["args"]["core"], 3);
    }
}
