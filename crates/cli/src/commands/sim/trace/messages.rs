//! Messages between parts of a chip, and reads.
//!
//! A message is an asynchronous slice of its own, from its sending to its arrival; a moment of one cycle at the sender
//! and one at the receiver, which a flow joins, show who caused what. A read is an asynchronous slice, too. If a core
//! that executes a program caused a message, a flow comes from what its thread was doing.

use std::collections::BTreeMap;
use std::io;

use rackmem_sim::report::TraceEvent;

use super::Events;
use super::programs::Programs;

/// The parts of a chip, with a track for each.
pub(super) struct Parts<'a> {
    events: &'a [TraceEvent],
    tracks: BTreeMap<&'a str, usize>,
}

impl<'a> Parts<'a> {
    /// Those that have events; so many tracks come before.
    pub(super) fn of(events: &'a [TraceEvent], before: usize) -> Parts<'a> {
        let parts = events.iter().flat_map(|event| [Some(&event.part), event.to.as_ref()]);
        let mut tracks: BTreeMap<&str, usize> =
            parts.flatten().map(|part| (part.as_str(), 0)).collect();
        tracks.values_mut().zip(before + 1..).for_each(|(track, number)| *track = number);
        Parts { events, tracks }
    }

    pub(super) fn write(&self, programs: &Programs<'_>, out: &mut Events<'_>) -> io::Result<()> {
        for (part, &track) in &self.tracks {
            out.track(track, part)?;
        }
        self.events.iter().try_for_each(|event| self.event(event, programs, out))
    }

    fn event(
        &self,
        event: &TraceEvent,
        programs: &Programs<'_>,
        out: &mut Events<'_>,
    ) -> io::Result<()> {
        let begin = event.cycle;
        let end = begin + event.duration_cycles;
        let category = if event.to.is_some() { "message" } else { "read" };
        let (from, id) = (self.tracks[event.part.as_str()], out.id());
        let mut args = serde_json::json!({"cycle": begin, "cycles": event.duration_cycles});
        if let Some((core, read)) = event.transaction {
            args["core"] = core.into();
            args["read"] = read.into();
        }
        for (phase, cycle) in [("b", begin), ("e", end)] {
            let mut edge = out.event((phase, category), &event.what, from, cycle);
            edge["id"] = id.into();
            if phase == "b" {
                edge["args"] = args.take();
            }
            out.put(&edge)?;
        }
        let Some(to) = &event.to else { return Ok(()) };
        let to = self.tracks[to.as_str()];
        out.put(&out.slice("sends", &event.what, from, [begin, begin + 1]))?;
        out.put(&out.slice("gets", &event.what, to, [end, end + 1]))?;
        out.flow("message", (from, begin), (to, end))?;
        match programs.cause(event) {
            Some(thread) => out.flow("cause", (thread, begin), (from, begin)),
            None => Ok(()),
        }
    }
}
