//! A small L1 in front of a private cache (CINI §4): it has copies of blocks that the private cache may read,
//! stores go through it, and all it decides is how long a load takes.

use super::wires::{Event, Wires};
use crate::block::{Line, Tags};
use crate::engine::Cycle;
use crate::machine::Machine;

/// The result of a look at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Look {
    /// The line is there.
    Hit,
    /// It has been asked for just now: an access to the private cache.
    Ask,
    /// It is on its way from the private cache, and the core will be told.
    Wait,
}

#[derive(Clone, Debug)]
pub struct WriteThrough {
    core: u16,
    tags: Tags<()>,
    /// Lines on their way, and when they are there.
    coming: Vec<(Line, Cycle)>,
    /// Lines that the private cache did not have: they come to both at once.
    missed: Vec<Line>,
    latency_cycles: u64,
}

impl WriteThrough {
    /// The L1 of a core, if the machine has one besides the private cache.
    pub fn of(core: u16, machine: &Machine) -> Option<WriteThrough> {
        machine.regions()?;
        let (l1, l2) = (&machine.l1, &machine.l2);
        Some(WriteThrough {
            core,
            tags: Tags::new(l1.size_bytes / 64 / u64::from(l1.ways), l1.ways),
            coming: Vec::new(),
            missed: Vec::new(),
            latency_cycles: l2.latency_cycles.into(),
        })
    }

    /// Notes that the private cache has to ask for a line. Whether that is new.
    pub fn miss(&mut self, line: Line) -> bool {
        let is_new = !self.missed.contains(&line);
        if is_new {
            self.missed.push(line);
        }
        is_new
    }

    /// Looks for a line that the private cache may read. One that is `kept` stays.
    pub fn look(&mut self, line: Line, kept: bool, wires: &mut Wires) -> Look {
        if let Some(entry) = self.tags.find(line, line) {
            self.tags.touch(entry);
            return Look::Hit;
        }
        let has_come = if let Some(at) = self.missed.iter().position(|&missed| missed == line) {
            self.missed.swap_remove(at);
            true
        } else if let Some(at) = self.coming.iter().position(|&(coming, _)| coming == line) {
            let is_there = self.coming[at].1 <= wires.now;
            if is_there {
                self.coming.swap_remove(at);
            }
            is_there
        } else {
            let at = wires.now + self.latency_cycles;
            self.coming.retain(|&(_, at)| at >= wires.now);
            self.coming.push((line, at));
            wires.wheel.at(at, Event::Filled(self.core));
            return Look::Ask;
        };
        if !has_come {
            return Look::Wait;
        }
        if kept {
            let entry = self.tags.victim(line, |_, ()| true).expect("any line may go");
            self.tags.fill(entry, line, ());
        }
        Look::Hit
    }

    /// The private cache has lost a line, or it has changed there.
    pub fn lose(&mut self, line: Line) {
        if let Some(entry) = self.tags.find(line, line) {
            self.tags.clear(entry);
        }
        self.coming.retain(|&(coming, _)| coming != line);
        self.missed.retain(|&missed| missed != line);
    }
}
