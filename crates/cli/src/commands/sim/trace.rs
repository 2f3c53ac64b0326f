//! Messages and reads as Chrome's trace events, which Perfetto shows.
//!
//! A node is a process, a part of its chip a track. A message is an asynchronous slice of its own, from its
//! sending to its arrival; a moment of one cycle at the sender and one at the receiver, which a flow joins, show
//! who caused what. A read is an asynchronous slice, too. Times are whole picoseconds, so that what ends when
//! something else begins does not overlap it.

use std::collections::BTreeMap;

use rackmem_sim::chip::trace::MOST_EVENTS;
use rackmem_sim::machine::Machine;
use rackmem_sim::report::{Recording, TraceEvent};
use serde_json::{Value, json};

use super::args::TraceArgs;
use super::output;
use crate::console;
use crate::failure::{Failure, Result};

/// The cycles that are to be recorded; none, if no trace is asked for.
pub(super) fn cycles(args: &TraceArgs, machine: &Machine) -> (u64, u64) {
    let cycle = |ns: f64| (ns * machine.clock_ghz).round() as u64;
    let window = args.trace_window;
    match args.trace {
        Some(_) => (cycle(window.from_ns), cycle(window.to_ns)),
        None => (0, 0),
    }
}

/// Writes the events of nodes into the file, if one is asked for.
///
/// # Errors
/// Nothing was recorded, or the file cannot be written.
pub(super) fn write(args: &TraceArgs, machine: &Machine, nodes: &[(u16, Recording)]) -> Result<()> {
    let Some(path) = &args.trace else { return Ok(()) };
    let count = nodes.iter().map(|(_, recording)| recording.events.len()).sum::<usize>();
    if count == 0 {
        let (from, to) = cycles(args, machine);
        return Err(Failure::new(format!(
            "nothing to trace: no message was sent from cycle {from} to {to} and arrived; choose another \
             --trace-window"
        )));
    }
    let text = serde_json::to_string(&document(machine, nodes)).expect("a trace is plain data");
    output::whole(path, &(text + "\n"))?;
    console::remark(&format!("wrote {count} messages and reads into {}", path.display()));
    if let Some(warning) = warning(&missing(nodes)) {
        console::remark(&warning);
    }
    Ok(())
}

/// What is not in a trace.
#[derive(Debug, Default, PartialEq)]
struct Missing {
    /// Events for which there was no room.
    dropped: u64,
    /// Before this cycle nothing is missing.
    whole_to: Option<u64>,
}

fn missing(nodes: &[(u16, Recording)]) -> Missing {
    Missing {
        dropped: nodes.iter().map(|(_, recording)| recording.dropped).sum(),
        whole_to: nodes.iter().filter_map(|(_, recording)| recording.whole_to).min(),
    }
}

fn warning(missing: &Missing) -> Option<String> {
    let Missing { dropped, whole_to } = missing;
    whole_to.as_ref().map(|cycle| {
        format!(
            "warning: {dropped} messages and reads are not in the trace, which has room for {MOST_EVENTS} of a node: \
             it is whole up to cycle {cycle}; choose a shorter --trace-window"
        )
    })
}

fn document(machine: &Machine, nodes: &[(u16, Recording)]) -> Value {
    let mut all = Vec::new();
    let mut next_id = 0;
    for (nid, Recording { events, .. }) in nodes {
        let mut writer = Writer { clock_ghz: machine.clock_ghz, nid: *nid, tracks: tracks(events) };
        writer.name(&machine.name, &mut all);
        for event in events {
            next_id += 1;
            writer.event(next_id, event, &mut all);
        }
    }
    let Missing { dropped, whole_to } = missing(nodes);
    let about = json!({"dropped_events": dropped, "whole_to_cycle": whole_to});
    json!({"displayTimeUnit": "ns", "otherData": about, "traceEvents": all})
}

/// A number for each part.
fn tracks(events: &[TraceEvent]) -> BTreeMap<&str, usize> {
    let parts = events.iter().flat_map(|event| [Some(&event.part), event.to.as_ref()]);
    let mut tracks: BTreeMap<&str, usize> =
        parts.flatten().map(|part| (part.as_str(), 0)).collect();
    tracks.values_mut().enumerate().for_each(|(number, track)| *track = number + 1);
    tracks
}

struct Writer<'a> {
    clock_ghz: f64,
    nid: u16,
    tracks: BTreeMap<&'a str, usize>,
}

impl Writer<'_> {
    /// A cycle in microseconds.
    fn us(&self, cycle: u64) -> f64 {
        (cycle as f64 * 1e3 / self.clock_ghz).round() / 1e6
    }

    fn name(&mut self, machine: &str, all: &mut Vec<Value>) {
        let mut meta = |name: &str, track: usize, args: Value| {
            all.push(json!({"ph": "M", "name": name, "pid": self.nid, "tid": track, "args": args}));
        };
        meta("process_name", 0, json!({"name": format!("{machine}, node {}", self.nid)}));
        for (part, &track) in &self.tracks {
            meta("thread_name", track, json!({"name": part}));
            meta("thread_sort_index", track, json!({"sort_index": track}));
        }
    }

    fn event(&self, id: u64, event: &TraceEvent, all: &mut Vec<Value>) {
        let end = event.cycle + event.duration_cycles;
        let category = if event.to.is_some() { "message" } else { "read" };
        let at = |phase: &str, part: &str, cycle: u64, category: &str| {
            json!({
                "ph": phase, "cat": category, "name": event.what, "pid": self.nid,
                "tid": self.tracks[part], "ts": self.us(cycle), "id": id,
            })
        };
        let mut begin = at("b", &event.part, event.cycle, category);
        begin["args"] = json!({"cycle": event.cycle, "cycles": event.duration_cycles});
        if let Some((core, read)) = event.transaction {
            begin["args"]["core"] = core.into();
            begin["args"]["read"] = read.into();
        }
        all.extend([begin, at("e", &event.part, end, category)]);
        let Some(to) = &event.to else { return };
        for (part, cycle, phase, verb) in
            [(event.part.as_str(), event.cycle, "s", "sends"), (to.as_str(), end, "f", "gets")]
        {
            let mut moment = at("X", part, cycle, verb);
            moment["dur"] = (self.us(cycle + 1) - self.us(cycle)).into();
            let mut flow = at(phase, part, cycle, "flow");
            flow["name"] = "message".into();
            if phase == "f" {
                flow["bp"] = "e".into();
            }
            all.extend([moment, flow]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_has_a_track_and_time_is_in_microseconds() {
        let event = |part: &str, to: Option<&str>, duration_cycles| TraceEvent {
            cycle: 4000,
            duration_cycles,
            transaction: Some((3, 7)),
            part: part.to_owned(),
            to: to.map(str::to_owned),
            what: "GetX".to_owned(),
        };
        let events = vec![event("core[3]", None, 100), event("home[1]", Some("memory[0]"), 10)];
        let recording = Recording { events, dropped: 0, whole_to: None };
        let trace = document(&Machine::default(), &[(2, recording)]);
        assert_eq!(trace["otherData"], json!({"dropped_events": 0, "whole_to_cycle": null}));
        let all = trace["traceEvents"].as_array().unwrap();
        let of = |phase: &str| all.iter().filter(|event| event["ph"] == phase).collect::<Vec<_>>();
        let named: Vec<_> =
            of("M").into_iter().filter(|one| one["name"] == "thread_name").collect();
        assert_eq!(named.len(), 3);
        let (begins, ends) = (of("b"), of("e"));
        assert_eq!((begins[0]["ts"].as_f64(), ends[0]["ts"].as_f64()), (Some(2.0), Some(2.05)));
        assert_eq!((&begins[0]["args"]["core"], &begins[0]["pid"]), (&json!(3), &json!(2)));
        let (starts, finishes) = (of("s"), of("f"));
        assert_eq!((starts.len(), finishes.len(), of("X").len()), (1, 1, 2));
        assert_eq!(starts[0]["id"], finishes[0]["id"]);
        assert_eq!((&starts[0]["tid"], &finishes[0]["tid"]), (&json!(2), &json!(3)));
        assert_eq!(finishes[0]["ts"].as_f64(), Some(2.005));
    }

    #[test]
    fn what_is_missing_is_said() {
        let recording = |dropped, whole_to| Recording { events: vec![], dropped, whole_to };
        let nodes =
            [(0, recording(0, None)), (1, recording(7, Some(900))), (2, recording(5, Some(800)))];
        let about = &document(&Machine::default(), &nodes)["otherData"];
        assert_eq!(*about, json!({"dropped_events": 12, "whole_to_cycle": 800}));
        let said = warning(&missing(&nodes)).unwrap();
        assert!(said.contains("12 messages and reads are not in the trace"), "{said}");
        assert!(said.contains("whole up to cycle 800"), "{said}");
        assert_eq!(warning(&missing(&nodes[..1])), None);
    }
}
