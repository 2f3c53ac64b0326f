//! The frontends of RGP and RCP, which interact with the queues (Manycore NI §4.1, Fig. 4).
//!
//! The RGP frontend looks at one queue pair a cycle, each in its turn. While the block that it
//! looks at stays as it is there is nothing to see, so it sleeps until the block is taken away; it
//! wakes at the very turn at which it would have noticed.

use std::collections::VecDeque;

use rackmem_abi::{CqEntry, Status, WQ_ENTRY_BYTES};
use rackmem_rmc::qp::{Cursor, Qp};
use rackmem_rmc::{QpConfig, Rights, Work, rgp};

use super::layout::{Layout, Part};
use super::message::Payload;
use super::ni::Timer;
use super::probe::{Mark, ReadId};
use super::wires::{Event, Pace, Wires};
use crate::block::{BLOCK_BYTES, Line};
use crate::machine::Machine;
use crate::machine::spec::Placement;

/// The context of all queue pairs of the model.
pub const CONTEXT: u16 = 0;

/// A frontend looks at a queue pair, whose index goes with it.
const POLL: u8 = 0;
/// A frontend writes completions of a queue pair, whose index goes with it.
const COMPLETE: u8 = 1;

/// A frontend's access to the queues: its NI cache, or their homes.
pub trait QueueCache {
    /// Reads a block; `None` if it has to wait.
    fn read(&mut self, line: Line, wires: &mut Wires) -> Option<[u64; 8]>;
    /// Stores a word of 4 bytes; `false` if it has to wait.
    fn write(&mut self, line: Line, word: usize, value: u32, wires: &mut Wires) -> bool;
    /// Whether a block can be read without asking anybody.
    fn is_readable(&self, line: Line) -> bool;
    /// Whether a store to a queue of this queue pair is under way to memory.
    fn stores_to(&self, qp: u16, layout: &Layout) -> bool;
}

/// The RGP frontend's state about a queue pair.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Watch {
    /// It will look at its next turn.
    Due,
    /// It has seen no new entry in this block; nothing changes while the block is here.
    Asleep(Line),
    /// It waits for this block.
    Waiting(Line),
    /// The slot's last operation is not complete.
    SlotBusy,
    /// It is nobody's.
    Detached,
}

/// A completion on its way to the CQ.
#[derive(Clone, Copy, Debug)]
struct Done {
    slot: u16,
    status: Status,
    bytes: u32,
}

/// A queue pair at its frontend.
#[derive(Clone, Debug)]
struct Pair {
    /// Number of the queue pair: that of its core.
    number: u16,
    state: Qp,
    watch: Watch,
    done: VecDeque<Done>,
    /// The CQ entry that is being written: position and word.
    writing: Option<(u32, u32)>,
    writer_waits: bool,
    /// A program has it.
    is_owned: bool,
}

impl Pair {
    /// Whether a program may have it: nobody does, and nothing is under way.
    fn is_free(&self) -> bool {
        !self.is_owned
            && self.state.in_flight() == 0
            && self.done.is_empty()
            && self.writing.is_none()
    }

    /// Whether the completion that is being written waits for this block.
    fn writes_to(&self, line: Line, wires: &Wires) -> bool {
        let here = |(position, _)| wires.layout.cq_line(self.number, position) == line;
        self.writer_waits && self.writing.is_some_and(here)
    }
}

/// The frontends of some queue pairs.
#[derive(Clone, Debug)]
pub struct Front {
    part: Part,
    pairs: Vec<Pair>,
    placement: Placement,
    nodes: u16,
    frontend_cycles: u64,
    interface_cycles: u64,
    completion_cycles: u64,
}

impl Front {
    /// The frontend at `part` of the queue pairs of these cores.
    pub fn new(
        part: Part,
        cores: impl Iterator<Item = u16>,
        machine: &Machine,
        nodes: u16,
    ) -> Front {
        let entries = machine.ni.wq_entries;
        let config = QpConfig { ctx_id: CONTEXT, size: entries, rights: Rights::ReadWrite };
        let pair = |number| Pair {
            number,
            state: Qp::new(config).expect("a checked queue size"),
            watch: Watch::Due,
            done: VecDeque::new(),
            writing: None,
            writer_waits: false,
            is_owned: false,
        };
        let split = machine.ni.placement == Placement::Split;
        Front {
            part,
            pairs: cores.map(pair).collect(),
            placement: machine.ni.placement,
            nodes,
            frontend_cycles: u64::from(machine.ni.rgp_frontend_cycles),
            interface_cycles: if split { u64::from(machine.ni.interface_cycles) } else { 0 },
            completion_cycles: u64::from(machine.ni.rcp_frontend_cycles),
        }
    }

    /// Begins to look at the queue pairs.
    pub fn start(&mut self, wires: &mut Wires) {
        for index in 0..self.pairs.len() {
            self.look_at_next_turn(index, wires);
        }
    }

    /// A program has made a queue pair, or goes on with one, whose queues are at these positions and have nothing in
    /// flight. `false` if it cannot have such a size, there is one, or operations of an earlier one are under way.
    pub fn attach(
        &mut self,
        qp: u16,
        (size, rights): (u32, Rights),
        cursors: [Cursor; 2],
        cache: &impl QueueCache,
        wires: &mut Wires,
    ) -> bool {
        let index = self.index_of(qp);
        let is_free = self.pairs[index].is_free() && !cache.stores_to(qp, &wires.layout);
        let state = Qp::at(QpConfig { ctx_id: CONTEXT, size, rights }, cursors);
        let Some(state) = state.filter(|_| is_free) else { return false };
        self.pairs[index].state = state;
        self.pairs[index].is_owned = true;
        wires.probe.attached(qp);
        self.look_at_next_turn(index, wires);
        true
    }

    /// Parameters of the queue pair of a core, and the positions in its queues.
    pub fn position(&self, qp: u16) -> (QpConfig, [Cursor; 2]) {
        let state = &self.pairs[self.index_of(qp)].state;
        (*state.config(), state.cursors())
    }

    /// Nobody posts to a queue pair any more; operations under way come to their end.
    pub fn detach(&mut self, qp: u16) {
        let index = self.index_of(qp);
        self.pairs[index].watch = Watch::Detached;
        self.pairs[index].is_owned = false;
    }

    /// It is a queue pair's turn, or a completion is to be written.
    #[inline]
    pub fn happen(&mut self, timer: Timer, cache: &mut impl QueueCache, wires: &mut Wires) {
        match timer.what {
            POLL => self.poll(timer.index as u16, cache, wires),
            _ => self.write_completion(timer.index as u16, cache, wires),
        }
    }

    /// Looks at a queue pair (Fig. 4a: select, compute, load, check).
    fn poll(&mut self, index: u16, cache: &mut impl QueueCache, wires: &mut Wires) {
        let index = usize::from(index);
        let pair = &mut self.pairs[index];
        if pair.watch == Watch::Detached {
            return;
        }
        // Where each look crosses the chip, something would always be under way.
        if wires.pace == Pace::Held && self.placement == Placement::Uncached {
            return self.look_at_next_turn(index, wires);
        }
        let next = pair.state.next_entry();
        if pair.state.is_outstanding(next.index) {
            pair.watch = Watch::SlotBusy;
            return;
        }
        let line = wires.layout.wq_line(pair.number, next.index);
        let Some(words) = cache.read(line, wires) else {
            pair.watch = Watch::Waiting(line);
            return;
        };
        let at = (next.index as usize * WQ_ENTRY_BYTES % BLOCK_BYTES as usize) / 8;
        let Some(entry) = rgp::accept([words[at], words[at + 1]], next.phase) else {
            pair.watch = Watch::Asleep(line);
            return;
        };
        let read = ReadId { core: pair.number, slot: next.index as u16 };
        wires.probe.mark(read, Mark::WqInNi, wires.now);
        match rgp::check(&entry, self.nodes, pair.state.config().rights) {
            Ok(work) if wires.has_buffer(&work) => {
                let slot = pair.state.take_entry(true);
                self.pass_on(index, slot, work, wires);
            }
            refused => {
                let status = refused.err().unwrap_or(Status::BadLocalBuffer);
                let slot = pair.state.take_entry(false);
                let delay = self.frontend_cycles + self.completion_cycles;
                let completion = Payload::Completion { qp: pair.number, slot, status, bytes: 0 };
                wires.hand(delay, self.part, completion);
            }
        }
        self.look_at_next_turn(index, wires);
    }

    /// The RCP backend has a completion for a queue pair.
    pub fn complete(&mut self, qp: u16, slot: u16, status: Status, bytes: u32, wires: &mut Wires) {
        let index = self.index_of(qp);
        self.pairs[index].done.push_back(Done { slot, status, bytes });
        if self.pairs[index].done.len() == 1 && self.pairs[index].writing.is_none() {
            let stages = (self.completion_cycles + self.interface_cycles).max(1);
            let event = due(self.part, COMPLETE, index);
            wires.wheel.at(wires.done_at(stages), event);
        }
    }

    /// Writes the next CQ entry (Fig. 4b).
    fn write_completion(&mut self, index: u16, cache: &mut impl QueueCache, wires: &mut Wires) {
        let index = usize::from(index);
        let pair = &mut self.pairs[index];
        let (position, word) = match pair.writing {
            Some(writing) => writing,
            None => {
                let Some(done) = pair.done.pop_front() else { return };
                *pair.writing.insert(pair.state.complete(done.slot, done.status, done.bytes))
            }
        };
        let line = wires.layout.cq_line(pair.number, position);
        let at = position as usize % (BLOCK_BYTES as usize / 4);
        pair.writer_waits = !cache.write(line, at, word, wires);
        if pair.writer_waits {
            return;
        }
        pair.writing = None;
        let entry = CqEntry::decode(word);
        let read = ReadId { core: pair.number, slot: entry.slot };
        let is_ok = entry.status_code == Status::Ok as u8;
        wires.probe.completed(read, is_ok, line, wires.now);
        if !pair.done.is_empty() {
            let event = due(self.part, COMPLETE, index);
            wires.wheel.at(wires.now + 1, event);
        }
        if pair.watch == Watch::SlotBusy {
            self.look_at_next_turn(index, wires);
        }
    }

    /// Something about a block has changed, and something may be `complete`: waiting queue pairs try again
    /// at once, and those that slept on the block wake if it has been taken away. One that waited for this
    /// block is first: in a small cache the others may drive it out again.
    pub fn changed(
        &mut self,
        line: Line,
        complete: bool,
        cache: &mut impl QueueCache,
        wires: &mut Wires,
    ) {
        if complete {
            for index in 0..self.pairs.len() {
                if self.pairs[index].watch == Watch::Waiting(line) {
                    self.poll(index as u16, cache, wires);
                }
                if self.pairs[index].writes_to(line, wires) {
                    self.write_completion(index as u16, cache, wires);
                }
            }
            // Completions before new work, of which there may always be more.
            for index in 0..self.pairs.len() {
                if self.pairs[index].writer_waits {
                    self.write_completion(index as u16, cache, wires);
                }
            }
        }
        for index in 0..self.pairs.len() {
            match self.pairs[index].watch {
                Watch::Waiting(_) if complete => self.poll(index as u16, cache, wires),
                Watch::Asleep(at) if at == line && !cache.is_readable(line) => {
                    self.look_at_next_turn(index, wires);
                }
                _ => {}
            }
        }
    }

    /// Somebody outside of the coherence domain has changed a block: those that sleep on it wake.
    pub fn wake(&mut self, line: Line, wires: &mut Wires) {
        for index in 0..self.pairs.len() {
            if self.pairs[index].watch == Watch::Asleep(line) {
                self.look_at_next_turn(index, wires);
            }
        }
    }

    /// Each queue pair has one cycle in as many as there are pairs.
    fn look_at_next_turn(&mut self, index: usize, wires: &mut Wires) {
        let period = self.pairs.len() as u64;
        let next = wires.now + 1;
        let turn = next + (index as u64 + period - next % period) % period;
        self.pairs[index].watch = Watch::Due;
        wires.wheel.at(turn, due(self.part, POLL, index));
    }

    /// Sends a checked entry to the backend.
    fn pass_on(&mut self, index: usize, slot: u16, work: Work, wires: &mut Wires) {
        let qp = self.pairs[index].number;
        let engine = Part::Engine(wires.layout.engine_of_tile(qp));
        let payload = Payload::Work { qp, slot, work };
        if self.placement == Placement::Split {
            let read = ReadId { core: qp, slot };
            wires.probe.mark(read, Mark::FrontendDone, wires.now + self.frontend_cycles);
            wires.send_after(self.frontend_cycles, self.part, engine, payload);
        } else {
            wires.hand(self.frontend_cycles, engine, payload);
        }
    }

    fn index_of(&self, qp: u16) -> usize {
        let index = self.pairs.iter().position(|pair| pair.number == qp);
        index.expect("a completion for a queue pair of this frontend")
    }

    /// Operations that are not complete, and completions that are not written.
    pub fn under_way(&self) -> usize {
        let of_pair = |pair: &Pair| {
            pair.state.in_flight() as usize + pair.done.len() + usize::from(pair.writing.is_some())
        };
        self.pairs.iter().map(of_pair).sum()
    }
}

fn due(part: Part, what: u8, index: usize) -> Event {
    Event::Ni(Timer { part, what, index: index as u32 })
}
