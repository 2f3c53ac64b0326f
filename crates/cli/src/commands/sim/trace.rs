//! The events of a run in Chrome's format for traces, which Perfetto shows.
//!
//! A node is a process. A thread of its program is a track ([`programs`]), and so is a part of its chip
//! ([`messages`]). Times are whole picoseconds, so that what ends when something else begins does not overlap it.
//! Events are written one by one: a trace has many.

mod messages;
mod programs;

use std::io::{self, Write};

use rackmem_sim::chip::trace::MOST_EVENTS;
use rackmem_sim::exec::tracks::{MOST_SLICES, Tracks};
use rackmem_sim::machine::Machine;
use rackmem_sim::report::Recording;
use serde_json::{Value, json};

use super::args::TraceArgs;
use super::output;
use crate::console;
use crate::failure::{Failure, Result};

/// What was recorded of a node.
#[derive(Debug, Default)]
pub(super) struct Node {
    /// Name of the program, where nodes execute several.
    pub program: Option<String>,
    /// Messages and reads.
    pub messages: Recording,
    /// Threads and cores of a program.
    pub tracks: Tracks,
}

/// Time that is recorded if none is said.
const USUAL_NS: f64 = 5e3;

/// The cycles that are to be recorded of a run that begins with the cycle `begin`; none, if no trace is asked for.
pub(super) fn cycles(args: &TraceArgs, machine: &Machine, begin: u64) -> (u64, u64) {
    let cycle = |ns: f64| (ns * machine.clock_ghz).round() as u64;
    match (&args.trace, args.trace_window) {
        (None, _) => (0, 0),
        (Some(_), Some(window)) => (cycle(window.from_ns), cycle(window.to_ns)),
        (Some(_), None) => (begin, begin.saturating_add(cycle(USUAL_NS))),
    }
}

/// That something can be recorded of a run that begins with the cycle `begin`.
///
/// # Errors
/// The window ends before that cycle.
pub(super) fn check(args: &TraceArgs, machine: &Machine, begin: u64) -> Result<()> {
    let (from, to) = cycles(args, machine, begin);
    match args.trace.is_some() && to <= begin {
        true => Err(Failure::usage(format!(
            "--trace-window: is from cycle {from} to {to}, and the run begins with cycle {begin} ({:.1} us)",
            begin as f64 / machine.clock_ghz / 1e3
        ))),
        false => Ok(()),
    }
}

/// Writes the events of nodes, in the order of their numbers, into the file, if one is asked for.
///
/// # Errors
/// Nothing was recorded, or the file cannot be written.
pub(super) fn write(
    place: Option<&output::Place>,
    args: &TraceArgs,
    machine: &Machine,
    begin: u64,
    nodes: &[Node],
) -> Result<()> {
    let Some(place) = place else { return Ok(()) };
    let messages = nodes.iter().map(|node| node.messages.events.len()).sum::<usize>();
    let slices = nodes.iter().map(|node| node.tracks.count()).sum::<usize>();
    if messages + slices == 0 {
        let (from, to) = cycles(args, machine, begin);
        return Err(Failure::new(format!(
            "nothing to trace: no message was sent from cycle {from} to {to} and arrived; choose another \
             --trace-window"
        )));
    }
    place.write_by(|out| document(machine, nodes, out))?;
    let programs = match slices {
        0 => String::new(),
        _ => format!(", and {slices} slices of programs,"),
    };
    console::remark(&format!(
        "wrote {messages} messages and reads{programs} into {}",
        place.path().display()
    ));
    warnings(&missing(nodes)).iter().for_each(|warning| console::remark(warning));
    Ok(())
}

/// Gaps of a trace: in messages and reads, and in slices of programs.
type Missing = [Gap; 2];

/// Events for which there was no room.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Gap {
    dropped: u64,
    /// Before this cycle nothing is missing.
    whole_to: Option<u64>,
}

impl Gap {
    fn of(nodes: impl Iterator<Item = (u64, Option<u64>)>) -> Gap {
        nodes.fold(Gap::default(), |gap, (dropped, whole_to)| Gap {
            dropped: gap.dropped + dropped,
            whole_to: gap.whole_to.into_iter().chain(whole_to).min(),
        })
    }
}

fn missing(nodes: &[Node]) -> Missing {
    [
        Gap::of(nodes.iter().map(|node| (node.messages.dropped, node.messages.whole_to))),
        Gap::of(nodes.iter().map(|node| (node.tracks.dropped, node.tracks.whole_to))),
    ]
}

fn warnings(missing: &Missing) -> Vec<String> {
    let kinds = [("messages and reads", MOST_EVENTS), ("slices of programs", MOST_SLICES)];
    let warning = |(gap, (kind, most)): (&Gap, (&str, usize))| {
        let Gap { dropped, whole_to } = gap;
        whole_to.as_ref().map(|cycle| {
            format!(
                "warning: {dropped} {kind} are not in the trace, which has room for {most} of a node: it is whole up \
                 to cycle {cycle}; choose a shorter --trace-window"
            )
        })
    };
    missing.iter().zip(kinds).filter_map(warning).collect()
}

/// Writes the whole trace.
fn document(machine: &Machine, nodes: &[Node], out: &mut dyn Write) -> io::Result<()> {
    let missing = missing(nodes);
    let dropped: u64 = missing.iter().map(|gap| gap.dropped).sum();
    let whole_to = missing.iter().filter_map(|gap| gap.whole_to).min();
    let about = json!({"dropped_events": dropped, "whole_to_cycle": whole_to});
    write!(out, "{{\"displayTimeUnit\":\"ns\",\"otherData\":{about},\"traceEvents\":[")?;
    let mut events = Events { out, clock_ghz: machine.clock_ghz, count: 0, next_id: 0, nid: 0 };
    for (nid, node) in (0..).zip(nodes) {
        events.nid = nid;
        let program = node.program.as_ref().map_or_else(String::new, |name| format!(": {name}"));
        let name = format!("{}, node {nid}{program}", machine.name);
        events.meta("process_name", 0, json!({"name": name}))?;
        let programs = programs::Programs::of(&node.tracks);
        let messages = messages::Parts::of(&node.messages.events, programs.tracks());
        programs.write(&mut events)?;
        messages.write(&programs, &mut events)?;
    }
    writeln!(out, "]}}")
}

/// The events of a trace, on their way to the file.
struct Events<'a> {
    out: &'a mut dyn Write,
    clock_ghz: f64,
    count: u64,
    next_id: u64,
    /// The node whose events are written.
    nid: u16,
}

impl Events<'_> {
    /// A cycle in microseconds.
    fn us(&self, cycle: u64) -> f64 {
        (cycle as f64 * 1e3 / self.clock_ghz).round() / 1e6
    }

    /// A number that no other asynchronous slice or flow has.
    fn id(&mut self) -> u64 {
        self.next_id += 1;
        self.next_id
    }

    fn put(&mut self, event: &Value) -> io::Result<()> {
        if self.count > 0 {
            self.out.write_all(b",")?;
        }
        self.count += 1;
        serde_json::to_writer(&mut *self.out, event).map_err(io::Error::from)
    }

    fn meta(&mut self, name: &str, track: usize, args: Value) -> io::Result<()> {
        let event = json!({"ph": "M", "name": name, "pid": self.nid, "tid": track, "args": args});
        self.put(&event)
    }

    /// Names a track; they are shown in the order of their numbers.
    fn track(&mut self, track: usize, name: &str) -> io::Result<()> {
        self.meta("thread_name", track, json!({"name": name}))?;
        self.meta("thread_sort_index", track, json!({"sort_index": track}))
    }

    /// An event of a category in a cycle, on a track.
    fn event(
        &self,
        (phase, category): (&str, &str),
        name: &str,
        track: usize,
        cycle: u64,
    ) -> Value {
        json!({
            "ph": phase, "cat": category, "name": name, "pid": self.nid, "tid": track, "ts": self.us(cycle),
        })
    }

    /// A slice of a track.
    fn slice(&self, category: &str, name: &str, track: usize, [begin, end]: [u64; 2]) -> Value {
        let mut slice = self.event(("X", category), name, track, begin);
        slice["dur"] = (self.us(end) - self.us(begin)).into();
        slice
    }

    /// An arrow from a slice to another one: track and cycle of each.
    fn flow(&mut self, name: &str, from: (usize, u64), to: (usize, u64)) -> io::Result<()> {
        let id = self.id();
        for (phase, (track, cycle)) in [("s", from), ("f", to)] {
            let mut flow = self.event((phase, "flow"), name, track, cycle);
            flow["id"] = id.into();
            if phase == "f" {
                flow["bp"] = "e".into();
            }
            self.put(&flow)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use rackmem_sim::report::TraceEvent;

    use super::*;

    fn written(nodes: &[Node]) -> Value {
        let mut bytes = Vec::new();
        document(&Machine::default(), nodes, &mut bytes).unwrap();
        serde_json::from_slice(&bytes).unwrap()
    }

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
        let messages = Recording { events, dropped: 0, whole_to: None };
        let node = Node { messages, ..Node::default() };
        let trace = written(&[Node::default(), Node::default(), node]);
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
        let node = |dropped, whole_to| {
            let messages = Recording { events: vec![], dropped, whole_to };
            Node { messages, ..Node::default() }
        };
        let mut nodes = [node(0, None), node(7, Some(900)), node(5, Some(800))];
        nodes[1].tracks.dropped = 3;
        nodes[1].tracks.whole_to = Some(700);
        let about = &written(&nodes)["otherData"];
        assert_eq!(*about, json!({"dropped_events": 15, "whole_to_cycle": 700}));
        let [messages, slices] = warnings(&missing(&nodes)).try_into().unwrap();
        assert!(messages.contains("12 messages and reads are not in the trace"), "{messages}");
        assert!(messages.contains("whole up to cycle 800"), "{messages}");
        assert!(slices.contains("3 slices of programs are not in the trace"), "{slices}");
        assert!(slices.contains("whole up to cycle 700"), "{slices}");
        assert!(warnings(&missing(&nodes[..1])).is_empty());
    }
}
