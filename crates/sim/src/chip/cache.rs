//! A private cache: an L1, or an NI cache that is a party of its own.

use super::integrated::Integrated;
use super::layout::Part;
use super::message::Payload;
use super::wires::Wires;
use crate::block::{BLOCK_BYTES, Block, Line, Tags};
use crate::coherence::l1::{self, Action, Actions};
use crate::coherence::{Access, Eviction, Message, Party, Response};
use crate::machine::Machine;

/// The receiver of a private cache's messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Back {
    /// Into the network.
    Network,
    /// To the NI cache behind it, by a wire that takes so many cycles.
    NiCache(u64),
}

/// A private cache: its tags, blocks in transition and write-back buffer.
#[derive(Clone, Debug)]
pub struct PrivateCache {
    part: Part,
    tags: Tags<l1::Block<Block>>,
    latency_cycles: u64,
    tag_cycles: u64,
    back: Back,
    /// Cycle in which the last message to the NI cache arrives there: the wire keeps the order.
    wire_busy_until: u64,
    mshrs: u32,
    in_transition: u32,
    /// Write-back buffer: blocks that were driven out, until their homes have taken them.
    leaving: Vec<(Line, l1::Block<Block>)>,
    reports_lost: bool,
    /// Blocks whose copy has gone, for the core or RMC that has to be notified.
    pub lost: Vec<Line>,
    /// The network interface that shares its lines.
    pub integrated: Option<Box<Integrated>>,
}

/// Shape and place of a private cache.
#[derive(Clone, Copy, Debug)]
pub struct CacheSpec {
    /// The part in which it is.
    pub part: Part,
    pub sets: u64,
    pub ways: u32,
    /// A hit: tag and data.
    pub latency_cycles: u32,
    /// A miss, or a copy dropped: the tag alone.
    pub tag_cycles: u32,
    /// Blocks in transition at most; accesses to others wait.
    pub mshrs: u32,
    pub back: Back,
}

impl CacheSpec {
    /// A private cache as cores have it, before the network.
    pub fn of_core(part: Part, machine: &Machine) -> CacheSpec {
        let spec = machine.private_cache();
        CacheSpec {
            part,
            sets: spec.size_bytes / BLOCK_BYTES / u64::from(spec.ways),
            ways: spec.ways,
            latency_cycles: spec.latency_cycles,
            tag_cycles: spec.tag_cycles,
            mshrs: spec.mshrs,
            back: Back::Network,
        }
    }
}

/// A set has to keep one way for the cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LastWay;

impl PrivateCache {
    pub fn new(spec: &CacheSpec) -> Self {
        Self {
            part: spec.part,
            tags: Tags::new(spec.sets, spec.ways),
            latency_cycles: u64::from(spec.latency_cycles),
            tag_cycles: u64::from(spec.tag_cycles),
            back: spec.back,
            wire_busy_until: 0,
            mshrs: spec.mshrs,
            in_transition: 0,
            leaving: Vec::new(),
            reports_lost: false,
            lost: Vec::new(),
            integrated: None,
        }
    }

    /// From now on, notes in [`PrivateCache::lost`] which copies have gone.
    pub fn report_lost(&mut self) {
        self.reports_lost = true;
    }

    /// Reads a block; `None` if it has to be waited for, until [`PrivateCache::deliver`] says that
    /// something is complete.
    #[inline]
    pub fn load(&mut self, line: Line, wires: &mut Wires) -> Option<[u64; 8]> {
        let entry = match self.tags.find(line, line) {
            Some(entry) if self.tags.value(entry).is_readable() => {
                self.tags.touch(entry);
                entry
            }
            _ => self.access(line, wires, l1::Block::load)?,
        };
        Some(self.words(entry, line, wires))
    }

    /// Changes a block, as [`PrivateCache::load`] reads it.
    pub fn store(
        &mut self,
        line: Line,
        wires: &mut Wires,
        change: impl FnOnce(&mut [u64; 8]),
    ) -> bool {
        let Some(entry) = self.access(line, wires, l1::Block::store) else { return false };
        match &mut wires.image {
            Some(image) => change(image.block_mut(line)),
            None => change(&mut self.tags.value_mut(entry).data.words),
        }
        true
    }

    /// The entry of a line, if the access is a hit.
    #[inline(never)]
    fn access(
        &mut self,
        line: Line,
        wires: &mut Wires,
        access: impl FnOnce(&mut l1::Block<Block>, &mut Actions<Block>) -> Access,
    ) -> Option<usize> {
        let entry = self.entry(line, wires)?;
        let access = self.step(entry, line, wires, access);
        (access == Access::Hit).then_some(entry)
    }

    /// The content of a block that can be read without asking anybody.
    pub fn content(&self, line: Line, wires: &Wires) -> [u64; 8] {
        let entry = self.tags.find(line, line).expect("a block that can be read is here");
        self.words(entry, line, wires)
    }

    #[inline]
    fn words(&self, entry: usize, line: Line, wires: &Wires) -> [u64; 8] {
        match &wires.image {
            Some(image) => image.block(line),
            None => self.tags.value(entry).data.words,
        }
    }

    /// Whether the block can be changed without asking anybody.
    pub fn is_owned(&self, line: Line) -> bool {
        let state = |entry| self.tags.value(entry).state();
        self.tags
            .find(line, line)
            .is_some_and(|entry| matches!(state(entry), l1::State::E | l1::State::M))
    }

    /// Whether something is under way for the block.
    pub fn is_pending(&self, line: Line) -> bool {
        let is_changing = |entry: usize| !self.tags.value(entry).is_stable();
        self.tags.find(line, line).is_some_and(is_changing) || self.is_leaving(line)
    }

    /// Whether the block can be read without asking anybody.
    pub fn is_readable(&self, line: Line) -> bool {
        self.tags.find(line, line).is_some_and(|entry| self.tags.value(entry).is_readable())
    }

    /// Takes a message; whether accesses that had to wait may be tried again.
    pub fn deliver(&mut self, line: Line, message: Message<Block>, wires: &mut Wires) -> bool {
        match self.tags.find(line, line) {
            Some(entry) => {
                self.step_out(entry, line, wires, |block, out| block.message(message, out)).1
            }
            None if self.is_leaving(line) => self.deliver_to_leaving(line, message, wires),
            // A copy that went silently is still asked for.
            None => {
                let mut actions = Actions::new();
                l1::Block::new().message(message, &mut actions);
                self.act(line, actions, wires)
            }
        }
    }

    /// A block is written to memory: the copy here is not modified any more. Whether it was, or is just being given
    /// back.
    pub fn clean(&mut self, line: Line) -> bool {
        let is_leaving = self.peek(line).0 == l1::State::MI;
        let entry = self.tags.find(line, line);
        is_leaving || entry.is_some_and(|entry| self.tags.value_mut(entry).clean())
    }

    /// The state of a block and its content, for checks.
    pub fn peek(&self, line: Line) -> (l1::State, Block) {
        let of = |block: &l1::Block<Block>| (block.state(), block.data);
        let leaving = self.leaving.iter().find(|&&(other, _)| other == line);
        match (self.tags.find(line, line), leaving) {
            (Some(entry), _) => of(self.tags.value(entry)),
            (None, Some((_, block))) => of(block),
            (None, None) => (l1::State::I, Block::ZERO),
        }
    }

    /// Lines that it can hold.
    pub fn lines(&self) -> usize {
        self.tags.capacity()
    }

    /// Ways of a set, in use as cache or not.
    pub fn ways(&self) -> u32 {
        self.tags.ways()
    }

    /// Takes a way of a set from the cache, so that it can be scratchpad; `None` if the block there is
    /// still on its way: again after something is complete.
    ///
    /// # Errors
    /// It is the last one of its set.
    pub fn lock(&mut self, set: u64, way: u32, wires: &mut Wires) -> Result<Option<()>, LastWay> {
        let entry = self.tags.entry(set, way);
        if self.tags.unlocked_ways(entry) == 1 {
            return Err(LastWay);
        }
        if let Some(line) = self.tags.line(entry) {
            match self.step(entry, line, wires, l1::Block::evict) {
                Eviction::Gone => {}
                Eviction::Leaving => self.leave(entry, line),
                Eviction::Wait => return Ok(None),
            }
        }
        self.tags.lock(entry);
        Ok(Some(()))
    }

    /// Gives a locked way back to the cache.
    pub fn unlock(&mut self, set: u64, way: u32) {
        let entry = self.tags.entry(set, way);
        self.tags.unlock(entry);
    }

    /// Blocks in transition, each of which takes an MSHR.
    pub fn in_transition(&self) -> usize {
        self.in_transition as usize
    }

    /// The entry of a line, made if it is not there; `None` if there is no room yet.
    fn entry(&mut self, line: Line, wires: &mut Wires) -> Option<usize> {
        if let Some(entry) = self.tags.find(line, line) {
            self.tags.touch(entry);
            return Some(entry);
        }
        if self.in_transition >= self.mshrs || self.is_leaving(line) {
            return None;
        }
        let entry = self.tags.victim(line, |_, block| block.is_stable())?;
        if let Some(victim) = self.tags.line(entry)
            && self.step(entry, victim, wires, l1::Block::evict) != Eviction::Gone
        {
            self.leave(entry, victim);
        }
        self.tags.fill(entry, line, l1::Block::new());
        Some(entry)
    }

    /// A block that its home has to be told of makes room at once.
    fn leave(&mut self, entry: usize, line: Line) {
        self.leaving.push((line, *self.tags.value(entry)));
        self.tags.clear(entry);
    }

    fn is_leaving(&self, line: Line) -> bool {
        self.leaving.iter().any(|&(other, _)| other == line)
    }

    /// A message for a block that is leaving.
    fn deliver_to_leaving(
        &mut self,
        line: Line,
        message: Message<Block>,
        wires: &mut Wires,
    ) -> bool {
        let at = self.leaving.iter().position(|&(other, _)| other == line);
        let at = at.expect("the block is leaving");
        let mut actions = Actions::new();
        let block = &mut self.leaving[at].1;
        block.message(message, &mut actions);
        if block.is_invalid() {
            self.leaving.swap_remove(at);
            self.in_transition -= 1;
        }
        self.act(line, actions, wires)
    }

    fn step<R>(
        &mut self,
        entry: usize,
        line: Line,
        wires: &mut Wires,
        step: impl FnOnce(&mut l1::Block<Block>, &mut Actions<Block>) -> R,
    ) -> R {
        self.step_out(entry, line, wires, step).0
    }

    fn step_out<R>(
        &mut self,
        entry: usize,
        line: Line,
        wires: &mut Wires,
        step: impl FnOnce(&mut l1::Block<Block>, &mut Actions<Block>) -> R,
    ) -> (R, bool) {
        let mut actions = Actions::new();
        let block = self.tags.value_mut(entry);
        let (was_stable, had_copy) = (block.is_stable(), has_copy(block));
        let result = step(block, &mut actions);
        let (is_stable, is_invalid) = (block.is_stable(), block.is_invalid());
        if self.reports_lost && had_copy && !has_copy(block) {
            self.lost.push(line);
        }
        match (was_stable, is_stable) {
            (true, false) => self.in_transition += 1,
            (false, true) => self.in_transition -= 1,
            _ => {}
        }
        if is_invalid {
            self.tags.clear(entry);
        }
        (result, !actions.is_empty() && self.act(line, actions, wires))
    }

    /// Sends the messages of a step. Returns whether something is complete.
    fn act(&mut self, line: Line, actions: Actions<Block>, wires: &mut Wires) -> bool {
        let mut completed = false;
        for action in actions {
            let (to, message) = match action {
                Action::ToHome(message) => (None, message),
                Action::ToParty(party, response) => (Some(party), Message::Response(response)),
                Action::Completed => {
                    completed = true;
                    continue;
                }
            };
            let delay = match message {
                // The end of a transaction needs no access to the cache.
                Message::Response(Response::Unblock(None)) => 0,
                _ if message.has_data() => self.latency_cycles,
                _ => self.tag_cycles,
            };
            match self.back {
                Back::Network => send_coherence(self.part, line, to, message, delay, wires),
                Back::NiCache(wire_cycles) => {
                    let arrival = wires.now + delay + wire_cycles;
                    self.wire_busy_until = self.wire_busy_until.max(arrival);
                    let delay = self.wire_busy_until - wires.now;
                    wires.hand(delay, self.part, Payload::ToBackSide { line, to, message });
                }
            }
        }
        completed
    }
}

/// Puts a block's content into a message that takes it out of the coherence domain.
#[inline]
pub fn fill_content(line: Line, message: &mut Message<Block>, wires: &Wires) {
    if let (Some(image), Message::Response(Response::Data { data, .. })) = (&wires.image, message) {
        *data = Block::from_words(image.block(line));
    }
}

/// Whether there is a copy, be it that it cannot be read while the right to change it is asked for.
fn has_copy(block: &l1::Block<Block>) -> bool {
    matches!(block.state(), l1::State::S | l1::State::E | l1::State::M | l1::State::SM)
}

/// Sends a message of a private cache to the home of a block (`None`) or to another party.
pub fn send_coherence(
    part: Part,
    line: Line,
    to: Option<Party>,
    mut message: Message<Block>,
    delay: u64,
    wires: &mut Wires,
) {
    let to = match to {
        Some(party) => wires.layout.part_of(party),
        None => Part::Home(wires.layout.home_of(line)),
    };
    wires.count_message(line);
    fill_content(line, &mut message, wires);
    let from = Some(wires.layout.party_of(part));
    let payload = Payload::Coherence { line, from, message };
    wires.send_after(delay, part, to, payload);
}
