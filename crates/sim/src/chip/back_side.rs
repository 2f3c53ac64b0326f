//! The NI cache at the back side of an L1 (Manycore NI §3.4).

use std::collections::VecDeque;

use super::cache::send_coherence;
use super::front::QueueCache;
use super::layout::{Layout, Part};
use super::message::Payload;
use super::tile::put_word;
use super::wires::Wires;
use crate::block::{BLOCK_BYTES, Block, Line, Tags};
use crate::coherence::pair::{self, Action, Actions, Config};
use crate::coherence::{Access, Eviction, Message, Party, l1};
use crate::machine::Machine;

/// Sets of the table at least: blocks that the NI cache and the L1 in front own are spread over them.
const SETS: u64 = 256;

/// The NI cache of a tile. Besides its own blocks it knows which ones the L1 owns.
#[derive(Clone, Debug)]
pub struct BackSide {
    part: Part,
    config: Config,
    tags: Tags<Option<pair::Block<Block>>>,
    capacity_blocks: u32,
    held_blocks: u32,
    latency_cycles: u64,
    wire_cycles: u64,
    /// Cycle in which the last message to the L1 arrives there: the wire keeps the order.
    wire_busy_until: u64,
    /// Blocks of which the NI cache has a copy, oldest first.
    held: VecDeque<Line>,
}

impl BackSide {
    /// An empty NI cache behind the L1 of a tile.
    pub fn new(tile: u16, machine: &Machine) -> Self {
        let (l1, spec) = (&machine.l1, &machine.ni);
        // Blocks of a set lie in one set of the L1.
        let sets = SETS.max(l1.size_bytes / BLOCK_BYTES / u64::from(l1.ways));
        Self {
            part: Part::Tile(tile),
            config: Config { party: Party::from(tile), owned: spec.owned_state },
            // Room for what both may hold, and for blocks that are leaving.
            tags: Tags::new(sets, 2 * l1.ways + 8),
            capacity_blocks: spec.cache_blocks,
            held_blocks: 0,
            latency_cycles: u64::from(spec.cache_latency_cycles),
            wire_cycles: u64::from(spec.back_side_cycles),
            wire_busy_until: 0,
            held: VecDeque::new(),
        }
    }

    /// The state of a block, for checks.
    pub fn peek(&self, line: Line) -> (pair::State, Block) {
        self.block(line).map_or((pair::State::Plain(l1::State::I), Block::ZERO), |block| {
            let mut copy = *block;
            (copy.state(), *copy.data())
        })
    }

    /// Takes a message from the L1; whether accesses of the NI may be tried again.
    pub fn take_from_l1(
        &mut self,
        line: Line,
        to: Option<Party>,
        message: Message<Block>,
        wires: &mut Wires,
    ) -> bool {
        let action = match (to, message) {
            (Some(party), Message::Response(response)) => l1::Action::ToParty(party, response),
            _ => l1::Action::ToHome(message),
        };
        self.step(line, wires, |block, out| block.from_l1(action, out)).1
    }

    /// Takes a message from the network; whether accesses of the NI may be tried again.
    pub fn take_from_network(
        &mut self,
        line: Line,
        message: Message<Block>,
        wires: &mut Wires,
    ) -> bool {
        self.step(line, wires, |block, out| block.from_network(message, out)).1
    }

    /// Takes up messages that had to wait; to be called after accesses have been tried again.
    pub fn resume(&mut self, line: Line, wires: &mut Wires) -> bool {
        let mut completed = false;
        loop {
            let (more, done) = self.step(line, wires, |block, out| block.resume(out));
            completed |= done;
            if !more {
                return completed;
            }
        }
    }

    fn block(&self, line: Line) -> Option<&pair::Block<Block>> {
        self.tags.find(line, line).and_then(|entry| self.tags.value(entry).as_ref())
    }

    /// Evicts the NI cache's oldest block if it is full and `line` is not in it.
    fn make_room(&mut self, line: Line, wires: &mut Wires) {
        if self.held_blocks < self.capacity_blocks || self.held.contains(&line) {
            return;
        }
        for _ in 0..self.held.len() {
            let Some(oldest) = self.held.pop_front() else { return };
            self.held.push_back(oldest);
            let (eviction, _) = self.step(oldest, wires, |block, out| block.evict(out));
            if eviction != Eviction::Wait {
                return;
            }
        }
    }

    fn step<R>(
        &mut self,
        line: Line,
        wires: &mut Wires,
        step: impl FnOnce(&mut pair::Block<Block>, &mut Actions<Block>) -> R,
    ) -> (R, bool) {
        let mut actions = Actions::new();
        let entry = self.tags.find(line, line);
        let mut new = pair::Block::new(self.config);
        let block = entry.and_then(|entry| self.tags.value_mut(entry).as_mut());
        let block = block.unwrap_or(&mut new);
        let held_before = !block.is_invalid();
        let result = step(block, &mut actions);
        let (holds, is_idle) = (!block.is_invalid(), block.is_idle());
        match entry {
            Some(entry) if is_idle => self.tags.clear(entry),
            None if !is_idle => {
                let entry = self.tags.victim(line, |_, _| false);
                let entry = entry.expect("a set has room for all that L1 and NI cache can hold");
                self.tags.fill(entry, line, Some(new));
            }
            _ => {}
        }
        self.note_held(line, held_before, holds);
        (result, !actions.is_empty() && self.act(line, actions, wires))
    }

    fn note_held(&mut self, line: Line, before: bool, after: bool) {
        match (before, after) {
            (false, true) => {
                self.held_blocks += 1;
                self.held.push_back(line);
            }
            (true, false) => {
                self.held_blocks -= 1;
                self.held.retain(|&held| held != line);
            }
            _ => {}
        }
    }

    fn act(&mut self, line: Line, actions: Actions<Block>, wires: &mut Wires) -> bool {
        let mut completed = false;
        for action in actions {
            let (to, message) = match action {
                Action::ToHome(message) => (None, message),
                Action::ToParty(party, response) => (Some(party), Message::Response(response)),
                Action::ToL1(message) => {
                    let access = if message.has_data() { self.latency_cycles } else { 0 };
                    let arrival = wires.now + access + self.wire_cycles.max(1);
                    self.wire_busy_until = self.wire_busy_until.max(arrival);
                    let delay = self.wire_busy_until - wires.now;
                    wires.hand(delay, self.part, Payload::ToL1 { line, message });
                    continue;
                }
                Action::Completed => {
                    completed = true;
                    continue;
                }
            };
            let access = if message.has_data() { self.latency_cycles } else { 0 };
            send_coherence(self.part, line, to, message, access, wires);
        }
        completed
    }
}

impl QueueCache for BackSide {
    fn read(&mut self, line: Line, wires: &mut Wires) -> Option<[u64; 8]> {
        self.make_room(line, wires);
        let mut words = None;
        let (access, _) = self.step(line, wires, |block, out| {
            let access = block.read(out);
            words = (access == Access::Hit).then(|| block.data().words);
            access
        });
        debug_assert_eq!(access == Access::Hit, words.is_some());
        words.map(|words| wires.image.as_ref().map_or(words, |image| image.block(line)))
    }

    fn write(&mut self, line: Line, word: usize, value: u32, wires: &mut Wires) -> bool {
        self.make_room(line, wires);
        let mut image = wires.image.take();
        let (access, _) = self.step(line, wires, |block, out| {
            let access = block.write(out);
            if access == Access::Hit {
                let words = match &mut image {
                    Some(image) => image.block_mut(line),
                    None => &mut block.data().words,
                };
                put_word(words, word, value);
            }
            access
        });
        wires.image = image;
        access == Access::Hit
    }

    fn is_readable(&self, line: Line) -> bool {
        self.block(line).is_some_and(|block| match block.state() {
            pair::State::Owned { .. } => true,
            pair::State::Plain(state) => {
                matches!(state, l1::State::S | l1::State::E | l1::State::M)
            }
        })
    }

    fn stores_to(&self, _qp: u16, _layout: &Layout) -> bool {
        false
    }
}
