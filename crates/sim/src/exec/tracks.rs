//! What the threads and cores of a node do in a stretch of time, for people to look at.
//!
//! A thread has a [`Track`]: its core holds it while the thread has the core, and the recorder while it has not.
//! Nothing of the model depends on what is recorded.

mod arguments;

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

pub use crate::cpu::{Call, Slice, Tally, What};
use crate::cpu::{Room, Slices, Track};
use crate::engine::Cycle;
use rackmem_riscv::host::{LocalHost, MOST_PARTS};
use rackmem_riscv::kernel::Code;
use rackmem_riscv::{Hart, Symbols};

pub(super) use arguments::describe;

/// Slices of a node that are recorded at most; its messages have a limit of their own.
pub const MOST_SLICES: usize = 500_000;

/// What a thread did.
#[derive(Clone, Debug)]
pub struct Thread {
    /// Its number, as `gettid` says it.
    pub id: u64,
    /// The core on which all its turns are.
    pub core: u16,
    /// Functions, calls and waits, which nest; what is around another one comes first.
    pub slices: Vec<Slice>,
    /// Regions of interest.
    pub regions: Vec<Range<Cycle>>,
}

/// A stretch of time in which a thread had its core.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Number of the core in its node.
    pub core: u16,
    /// The thread, as `gettid` says it.
    pub thread: u64,
    /// From the cycle in which it got the core to the one in which it gave it back.
    pub cycles: Range<Cycle>,
}

/// What was recorded of the threads and cores of a node.
#[derive(Clone, Debug, Default)]
pub struct Tracks {
    /// By number of thread.
    pub threads: Vec<Thread>,
    /// In the order of their ends.
    pub turns: Vec<Turn>,
    /// Number of a core, and what it counted.
    pub tallies: Vec<(u16, Tally)>,
    /// Slices and turns for which there was no room.
    pub dropped: u64,
    /// The begin of the first one of these: before it, nothing is missing.
    pub whole_to: Option<Cycle>,
    symbols: Arc<Symbols>,
}

impl Tracks {
    /// The name of the function that begins at an address.
    pub fn function(&self, address: u64) -> &str {
        self.symbols.find(address).map_or("?", |(name, _)| name)
    }

    /// Slices, turns and regions.
    pub fn count(&self) -> usize {
        let of = |thread: &Thread| thread.slices.len() + thread.regions.len();
        self.threads.iter().map(of).sum::<usize>() + self.turns.len()
    }

    fn add(&mut self, id: u64, core: u16, recorded: Slices) {
        let Slices { slices, regions, dropped, whole_to } = recorded;
        self.threads.push(Thread { id, core, slices, regions });
        self.miss(dropped, whole_to);
    }

    fn miss(&mut self, dropped: u64, whole_to: Option<Cycle>) {
        self.dropped += dropped;
        self.whole_to = self.whole_to.into_iter().chain(whole_to).min();
    }
}

/// Records while a process runs.
#[derive(Debug)]
pub(super) struct Recorder {
    window: Range<Cycle>,
    room: Arc<Room>,
    /// By thread: its name to the program, and its track unless its core has it.
    threads: BTreeMap<usize, (u64, Option<Box<Track>>)>,
    /// By core: the begin of the turn.
    turns: Vec<Option<Cycle>>,
    /// The parts of libraries whose functions it knows.
    libraries: Vec<Code>,
    recorded: Tracks,
}

impl Recorder {
    /// One for a node of so many cores, if the stretch is not empty.
    pub(super) fn of(
        (from, to): (Cycle, Cycle),
        symbols: &Symbols,
        cores: usize,
    ) -> Option<Box<Recorder>> {
        let symbols = (from < to).then(|| Arc::new(symbols.clone()))?;
        Some(Box::new(Recorder {
            window: from..to,
            room: Arc::new(Room::new(MOST_SLICES)),
            threads: BTreeMap::new(),
            turns: vec![None; cores],
            libraries: Vec::new(),
            recorded: Tracks { symbols, ..Tracks::default() },
        }))
    }

    /// Counts of a core in the stretch, which has not begun.
    pub(super) fn tally(&self) -> Tally {
        Tally::new(self.window.clone())
    }

    fn core(&self, number: usize) -> usize {
        number % self.turns.len()
    }

    /// A thread begins, without a core.
    pub(super) fn start(&mut self, number: usize, id: u64, hart: &Hart) {
        let symbols = Arc::clone(&self.recorded.symbols);
        let track = Track::new(self.window.clone(), symbols, Arc::clone(&self.room), hart);
        self.threads.insert(number, (id, Some(Box::new(track))));
    }

    /// Whether it may learn the functions of more parts of libraries.
    pub(super) const fn may_learn(&self) -> bool {
        self.libraries.len() < MOST_PARTS
    }

    /// Learns the functions of libraries that have been loaded; those of others that are gone stay, as they are in
    /// tracks. Gives all, if there are more.
    pub(super) fn learn(&mut self, code: Vec<Code>, host: &LocalHost) -> Option<Arc<Symbols>> {
        let place = |code: &Code| (code.pages.start, code.offset, code.name.clone());
        let known: Vec<_> = self.libraries.iter().map(place).collect();
        let fresh = code.into_iter().filter(|code| !known.contains(&place(code)));
        let fresh: Vec<Code> = fresh.take(MOST_PARTS - known.len()).collect();
        if fresh.is_empty() {
            return None;
        }
        let symbols = Arc::new(host.symbols_with(&self.recorded.symbols, &fresh));
        self.libraries.extend(fresh);
        self.recorded.symbols = Arc::clone(&symbols);
        let tracks = self.threads.values_mut().filter_map(|(_, track)| track.as_mut());
        tracks.for_each(|track| track.learn(&symbols));
        Some(symbols)
    }

    /// The track of a thread that has no core.
    pub(super) fn track(&mut self, number: usize) -> &mut Option<Box<Track>> {
        &mut self.threads.entry(number).or_default().1
    }

    /// A thread gets its core.
    pub(super) fn begin_turn(&mut self, number: usize, now: Cycle) {
        let core = self.core(number);
        self.turns[core].get_or_insert(now);
    }

    /// A thread gives its core back.
    pub(super) fn end_turn(&mut self, number: usize, now: Cycle) {
        let core = self.core(number);
        let Some(begin) = self.turns[core].take() else { return };
        let cycles = begin.max(self.window.start)..now.min(self.window.end);
        if cycles.is_empty() {
            return;
        }
        let thread = self.threads.get(&number).map_or(0, |(id, _)| *id);
        match self.room.take() {
            true => self.recorded.turns.push(Turn { core: core as u16, thread, cycles }),
            false => self.recorded.miss(1, Some(cycles.start)),
        }
    }

    /// A thread has ended, or the process. It has no core.
    pub(super) fn end(&mut self, number: usize, now: Cycle) {
        let core = self.core(number) as u16;
        if let Some((id, Some(track))) = self.threads.remove(&number) {
            self.recorded.add(id, core, track.finish(now));
        }
    }

    /// A core has counted so much.
    pub(super) fn count(&mut self, core: u16, tally: Tally, now: Cycle) {
        self.recorded.tallies.push((core, tally.finish(now)));
    }

    /// All that was recorded. No core has a track.
    pub(super) fn finish(mut self, now: Cycle) -> Tracks {
        let numbers: Vec<usize> = self.threads.keys().copied().collect();
        numbers.iter().for_each(|&number| self.end(number, now));
        self.recorded.threads.sort_by_key(|thread| (thread.id, thread.core));
        self.recorded
    }
}
