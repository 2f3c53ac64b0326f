//! Programs: a track for each thread, and counters for each core.
//!
//! The slices of a thread nest: functions, system calls in them, waits in these. Regions of interest are asynchronous
//! slices, as they may begin in one function and end in another. Where threads take turns on a core, the core has a
//! track that shows which one has it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;

use rackmem_sim::exec::tracks::{Call, Slice, Tally, Thread, Tracks, Turn, What};
use rackmem_sim::report::TraceEvent;
use serde_json::{Value, json};

use super::Events;

/// The threads and cores of a node, with a track for each thread and each core that is shared.
pub(super) struct Programs<'a> {
    recorded: &'a Tracks,
    /// By core and thread; `None` is the core's own track.
    tracks: BTreeMap<(u16, Option<u64>), usize>,
    /// By core, in the order of time.
    turns: BTreeMap<u16, Vec<&'a Turn>>,
    /// By thread: the outermost slices, in the order of time.
    roots: BTreeMap<u64, Vec<[u64; 2]>>,
}

impl<'a> Programs<'a> {
    pub(super) fn of(recorded: &'a Tracks) -> Programs<'a> {
        let mut turns: BTreeMap<u16, Vec<&Turn>> = BTreeMap::new();
        for turn in &recorded.turns {
            turns.entry(turn.core).or_default().push(turn);
        }
        let shared =
            turns.iter().filter(|(_, turns)| is_shared(turns)).map(|(&core, _)| (core, None));
        let threads = recorded.threads.iter().filter(|thread| !is_empty(thread));
        let threads = threads.map(|thread| (thread.core, Some(thread.id)));
        let keys: BTreeSet<_> = shared.chain(threads).collect();
        let tracks = keys.into_iter().zip(1..).collect();
        let roots = recorded.threads.iter().map(|thread| (thread.id, roots(&thread.slices)));
        Programs { recorded, tracks, turns, roots: roots.collect() }
    }

    /// Number of its tracks; theirs are the first numbers.
    pub(super) fn tracks(&self) -> usize {
        self.tracks.len()
    }

    /// The track of the thread that caused a message, if it shows what the thread was doing: the one on the core of the
    /// tile that sends it, and on a chip with one core any that its RMC sends as a request.
    pub(super) fn cause(&self, message: &TraceEvent) -> Option<usize> {
        let core = match message.part.strip_prefix("tile[") {
            Some(rest) => rest.strip_suffix(']')?.parse().ok()?,
            None if message.part == "rmc[0]"
                && message.what.starts_with("request")
                && self.recorded.tallies.len() == 1 =>
            {
                0
            }
            None => return None,
        };
        let turns = self.turns.get(&core)?;
        let after = turns.partition_point(|turn| turn.cycles.start <= message.cycle);
        let turn = turns.get(after.checked_sub(1)?)?;
        let roots = self.roots.get(&turn.thread)?;
        let after = roots.partition_point(|[begin, _]| *begin <= message.cycle);
        let [_, end] = roots.get(after.checked_sub(1)?)?;
        let is_inside = message.cycle < *end && turn.cycles.contains(&message.cycle);
        is_inside.then(|| self.tracks.get(&(core, Some(turn.thread))).copied())?
    }

    pub(super) fn write(&self, out: &mut Events<'_>) -> io::Result<()> {
        for (&(core, thread), &track) in &self.tracks {
            let of = thread.map_or_else(|| "turns".to_owned(), |id| format!("thread {id}"));
            out.track(track, &format!("core {core}, {of}"))?;
        }
        self.recorded.tallies.iter().try_for_each(|(core, tally)| counters(*core, tally, out))?;
        self.recorded.threads.iter().try_for_each(|thread| self.thread(thread, out))?;
        for (core, turns) in &self.turns {
            let Some(&track) = self.tracks.get(&(*core, None)) else { continue };
            for Turn { thread, cycles, .. } in turns {
                let name = format!("thread {thread}");
                out.put(&out.slice("turn", &name, track, [cycles.start, cycles.end]))?;
            }
        }
        Ok(())
    }

    fn thread(&self, thread: &Thread, out: &mut Events<'_>) -> io::Result<()> {
        let Some(&track) = self.tracks.get(&(thread.core, Some(thread.id))) else { return Ok(()) };
        for Slice { begin, end, what } in &thread.slices {
            let (category, name) = match what {
                What::Function(None) => continue,
                What::Function(Some(address)) => ("function", self.recorded.function(*address)),
                What::Call(call) => ("call", call.name.as_str()),
                What::Wait(why) => ("wait", *why),
                What::Handler => ("handler", "signal"),
            };
            let mut slice = out.slice(category, name, track, [*begin, *end]);
            if let What::Call(call) = what {
                slice["args"] = arguments(call);
            }
            out.put(&slice)?;
        }
        for region in &thread.regions {
            let id = out.id();
            for (phase, cycle) in [("b", region.start), ("e", region.end)] {
                let mut edge = out.event((phase, "region"), "region of interest", track, cycle);
                edge["id"] = id.into();
                out.put(&edge)?;
            }
        }
        Ok(())
    }
}

/// Whether several threads had a core.
fn is_shared(turns: &[&Turn]) -> bool {
    turns.iter().any(|turn| turn.thread != turns[0].thread)
}

fn is_empty(thread: &Thread) -> bool {
    thread.slices.is_empty() && thread.regions.is_empty()
}

/// The slices that nothing is around.
fn roots(slices: &[Slice]) -> Vec<[u64; 2]> {
    let mut roots: Vec<[u64; 2]> = Vec::new();
    for slice in slices {
        if roots.last().is_none_or(|[_, end]| slice.begin >= *end) {
            roots.push([slice.begin, slice.end]);
        }
    }
    roots
}

fn arguments(call: &Call) -> Value {
    let mut args = json!({});
    for (name, value) in &call.args {
        args[*name] = value.as_str().into();
    }
    if let Some(result) = call.result {
        args["result"] = result.into();
    }
    args
}

/// The counters of a core; a value stands until the next one.
fn counters(core: u16, tally: &Tally, out: &mut Events<'_>) -> io::Result<()> {
    let Tally { cycles, interval, retired, missing, .. } = tally;
    let length = |at: usize| {
        let begin = cycles.start + at as u64 * interval;
        (cycles.end - begin).min(*interval)
    };
    let per_cycle =
        |(at, &count): (usize, &u32)| (f64::from(count) / length(at) as f64 * 1e3).round() / 1e3;
    let rates: Vec<f64> = retired.iter().enumerate().map(per_cycle).collect();
    let waiting: Vec<f64> = missing.iter().map(|&count| count.into()).collect();
    for (what, values) in [("instructions per cycle", rates), ("loads that miss, at most", waiting)]
    {
        let name = format!("core {core}: {what}");
        let mut before = None;
        for (at, value) in values.iter().chain([&0.0]).enumerate() {
            let cycle = (cycles.start + at as u64 * interval).min(cycles.end);
            if before.replace(*value) != Some(*value) {
                let mut counter = out.event(("C", "core"), &name, 0, cycle);
                counter["args"] = json!({"value": value});
                out.put(&counter)?;
            }
        }
    }
    Ok(())
}
