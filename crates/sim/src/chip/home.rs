//! A home: a bank of the LLC and its directory slice (Manycore NI §3.1, Table 2).

use super::active::ActiveSet;
use super::cache::fill_content;
use super::layout::{BUFFER_LINE, Part, SEGMENT_LINE};
use super::map::Stay;
use super::message::{Letter, Payload, UNTRACED};
use super::values::Values;
use super::wires::{Event, Updated, Wires};
use crate::block::{Block, Line, Tags};
use crate::coherence::home::{self, Action, Actions, Directory};
use crate::coherence::{Content, Forward, Message, Party, Request, Response};
use crate::engine::Random;
use crate::figures::Figures;
use crate::machine::Machine;
use crate::machine::spec::{Completion, PrefetchSpec};
use crate::window::prefetch::Prefetcher;

/// Blocks for each entry of a bank that are put into it at most to fill it. Random blocks fill all sets of a large bank
/// with two; those of a small footprint are too few to.
const MOST_WARM_BLOCKS: usize = 8;

/// Transactions that prefetches leave to requests.
const RESERVED: usize = 2;

/// A home: it orders all accesses to its blocks.
#[derive(Clone, Debug)]
pub struct Home {
    number: u16,
    llc: Tags<bool>,
    values: Values,
    directory: Tags<Option<Directory>>,
    active: ActiveSet,
    latency_cycles: u64,
    occupancy_cycles: u64,
    bank_free_at: u64,
    capacity: usize,
    /// Requests inside, from their arrival to their end.
    inside: usize,
    /// Nobody waits for the stores of RCPs.
    posted: bool,
    hits: u64,
    misses: u64,
    writebacks: u64,
    prefetcher: Option<Prefetcher>,
    /// A prefetched block has come just now: the request that waits for it need not look it up.
    has_come: Option<Line>,
    /// Changes by the operating system of blocks that are on their way from their lender.
    late_changes: Vec<(Line, Block)>,
    /// Blocks that have come from their lender with another content than copies had.
    refreshed: Vec<Line>,
    /// A request is in the bank just now, so that a write for it is part of the same access.
    in_access: bool,
    /// It serves a request of an RRPP just now, which may make it read memory.
    is_remote: bool,
}

impl Home {
    /// Home `number` of a chip; it keeps the contents of the blocks that `values` keeps.
    pub fn new(number: u16, machine: &Machine, homes: u16, caches: u16, values: Values) -> Home {
        let llc = &machine.llc;
        let blocks = llc.size_bytes / 64 / u64::from(homes);
        let private = machine.private_cache().size_bytes / 64 * u64::from(caches);
        let entries = private as f64 * machine.directory.provisioning / f64::from(homes);
        let sets = (entries / f64::from(machine.directory.ways)).ceil() as u64;
        Home {
            number,
            llc: Tags::new(blocks / u64::from(llc.ways), llc.ways),
            values,
            directory: Tags::new(sets.next_power_of_two(), machine.directory.ways),
            active: ActiveSet::default(),
            latency_cycles: u64::from(llc.latency_cycles),
            occupancy_cycles: u64::from(llc.occupancy_cycles),
            bank_free_at: 0,
            capacity: llc.transactions as usize,
            inside: 0,
            posted: machine.ni.completion == Completion::Posted,
            hits: 0,
            misses: 0,
            writebacks: 0,
            prefetcher: prefetcher(machine),
            has_come: None,
            late_changes: Vec::new(),
            refreshed: Vec::new(),
            in_access: false,
            is_remote: false,
        }
    }

    /// Lines that the bank can hold.
    pub fn lines(&self) -> usize {
        self.llc.capacity()
    }

    /// Fills the bank as a long run would: with blocks of the workload's footprint, one half read for other nodes, the
    /// other half written for this one, and with those of the queues, which every lap uses again.
    pub fn warm(&mut self, footprint_lines: u64, random: &mut Random, wires: &Wires) {
        let (number, homes) = (u64::from(self.number), u64::from(wires.layout.homes));
        let share = footprint_lines / homes;
        let mut empty = self.llc.capacity();
        let mut blocks = if share == 0 { 0 } else { MOST_WARM_BLOCKS * empty };
        while empty > 0 && blocks > 0 {
            let dirty = random.below(2) == 0;
            let base = if dirty { BUFFER_LINE } else { SEGMENT_LINE };
            let line = base + random.below(share) * homes + number;
            empty -= usize::from(self.warm_block(line, dirty, wires));
            blocks -= 1;
        }
        let queues = if wires.layout.has_queue_pairs() { wires.layout.queue_lines() } else { 0 };
        for line in (number..queues).step_by(usize::from(wires.layout.homes)) {
            self.warm_block(line, true, wires);
        }
    }

    /// Puts a block in, unless it is there; whether the way was empty.
    fn warm_block(&mut self, line: Line, dirty: bool, wires: &Wires) -> bool {
        let index = wires.layout.index_at_home(line);
        if self.llc.find(index, line).is_some() {
            return false;
        }
        let entry = self.llc.victim(index, |_, _| true).expect("a set has a way");
        let was_empty = self.llc.line(entry).is_none();
        self.llc.fill(entry, line, dirty);
        was_empty
    }

    /// Whether another request may come in.
    #[inline]
    pub fn has_room(&self) -> bool {
        self.inside < self.capacity
    }

    pub fn receive(&mut self, letter: Letter, wires: &mut Wires) {
        match letter.payload {
            Payload::Coherence { message: Message::Request(_), .. } => {
                self.inside += 1;
                self.look_up(letter.payload, false, wires);
            }
            Payload::Coherence { line, from: Some(from), message: Message::Response(response) } => {
                let mut response = response;
                if let (
                    Response::Recalled { data, .. } | Response::Unblock(Some(data)),
                    Some(image),
                ) = (&mut response, &wires.image)
                {
                    *data = Block::from_words(image.block(line));
                }
                self.step(line, wires, |block, out| block.response(from, response, out));
            }
            Payload::MemoryData { line, data } => {
                let data = match wires.map.is_borrowed(line) {
                    true => self.arrived(line, data, wires),
                    false => wires.content(line).unwrap_or(data),
                };
                let active = self.active.get(line);
                self.has_come =
                    active.is_some_and(|active| active.block.is_prefetching()).then_some(line);
                self.step(line, wires, |block, out| block.memory(data, out));
                self.has_come = None;
            }
            other => panic!("home[{}] got {other:?}", self.number),
        }
    }

    /// A request has been through the bank: tags and directory are known. One that is looked up `again` had to wait.
    pub fn looked_up(&mut self, payload: Payload, again: bool, wires: &mut Wires) {
        let Payload::Coherence { line, from: Some(from), message: Message::Request(request) } =
            payload
        else {
            panic!("home[{}] looked up {payload:?}", self.number);
        };
        if let Some(active) = self.active.get_mut(line)
            && active.block.is_busy()
        {
            active.waiting.push_back((from, request));
        } else {
            self.serve(line, from, request, wires);
        }
        if !again && matches!(request, Request::GetS | Request::GetX) {
            self.look_ahead(line, wires);
        }
    }

    /// Whether the LLC has a block, whether it is modified, and its content, for checks.
    pub fn peek(&self, line: Line, wires: &Wires) -> Option<(bool, Block)> {
        let entry = self.llc.find(wires.layout.index_at_home(line), line)?;
        Some((*self.llc.value(entry), self.values.get(line)))
    }

    /// A block is written to memory: its copy here is not modified any more. Whether one was, or may be on its way.
    pub fn clean(&mut self, line: Line, wires: &Wires) -> bool {
        let is_moving = self.active.get(line).is_some_and(|active| active.block.is_moving());
        let entry = self.llc.find(wires.layout.index_at_home(line), line);
        let was_modified = entry.is_some_and(|entry| std::mem::take(self.llc.value_mut(entry)));
        is_moving || was_modified
    }

    /// Copies of a block as far as its home knows, for checks.
    pub fn directory(&self, line: Line, wires: &Wires) -> Directory {
        if let Some(active) = self.active.get(line) {
            return active.block.directory();
        }
        let entry = self.directory.find(wires.layout.index_at_home(line), line);
        entry.and_then(|entry| *self.directory.value(entry)).unwrap_or(Directory::Uncached)
    }

    /// The operating system has changed a block: a change that is being made goes on from there.
    pub fn changed_by_system(&mut self, line: Line, wires: &Wires) {
        if let (Some(active), Some(data)) = (self.active.get_mut(line), wires.content(line)) {
            active.block.refresh(data);
        }
    }

    pub fn write_stats(&self, stats: &mut Figures) {
        let mut put = |name: &str, value: u64| {
            stats.insert(format!("home[{}].{name}", self.number), value as f64);
        };
        put("llc_hits", self.hits);
        put("llc_misses", self.misses);
        put("llc_writebacks", self.writebacks);
    }

    /// Blocks with a transaction under way here, for the watchdog: requests that wait, and the state.
    pub fn under_way(&self) -> impl Iterator<Item = (Line, usize, String)> + '_ {
        self.active
            .iter()
            .map(|(line, active)| (line, active.waiting.len(), format!("{:?}", active.block)))
    }

    /// Requests and recalls that are not finished.
    pub fn inside(&self) -> usize {
        let active = self.active.iter().map(|(_, active)| active);
        let busy = active.filter(|active| active.block.is_busy() || !active.waiting.is_empty());
        self.inside.max(busy.count())
    }

    /// Sends a request through the bank.
    fn look_up(&mut self, payload: Payload, again: bool, wires: &mut Wires) {
        let start = self.use_bank(wires.now);
        let tag =
            wires.letters.put(Letter { to: Part::Home(self.number), payload, trace: UNTRACED });
        wires.wheel.at(start + self.latency_cycles, Event::LookedUp(tag, again));
    }

    /// Keeps the bank busy for an access; when it begins.
    fn use_bank(&mut self, now: u64) -> u64 {
        let start = self.bank_free_at.max(now);
        self.bank_free_at = start + self.occupancy_cycles;
        start
    }

    fn serve(&mut self, line: Line, from: Party, request: Request<Block>, wires: &mut Wires) {
        let entry = self.llc.find(wires.layout.index_at_home(line), line);
        if let Some(entry) = entry {
            self.llc.touch(entry);
            self.hits += 1;
        } else {
            self.misses += 1;
        }
        let llc = entry.map(|_| wires.content(line).unwrap_or_else(|| self.values.get(line)));
        let mut request = request;
        if let (Request::PutM(data), Some(image)) = (&mut request, &wires.image) {
            *data = Block::from_words(image.block(line));
        }
        if wires.layout.queue_of(line).is_some() {
            wires.counts.queue_requests += 1;
            let put = matches!(request, Request::PutM(_));
            wires.counts.queue_writebacks += u64::from(put);
        }
        if matches!(request, Request::Update(_)) && wires.map.goes_through(line).is_some() {
            self.count_through(line, llc.is_some(), wires);
        }
        self.in_access = true;
        self.is_remote = matches!(wires.layout.part_of(from), Part::Rrpp(_));
        wires.counts.rrpp_served += u64::from(self.is_remote);
        self.step(line, wires, |block, out| block.request(from, request, llc, out));
        (self.in_access, self.is_remote) = (false, false);
    }

    /// A step of a block's controller, wherever the block is known.
    fn step(
        &mut self,
        line: Line,
        wires: &mut Wires,
        step: impl FnOnce(&mut home::Block<Block>, &mut Actions<Block>),
    ) {
        let mut actions = Actions::new();
        let index = wires.layout.index_at_home(line);
        let active = self.active.position(line);
        let known = match active {
            Some(_) => None,
            None => self.directory.find(index, line).and_then(|at| *self.directory.value(at)),
        };
        let mut block = match active {
            Some(at) => self.active.at_mut(at).block,
            None => known.map_or_else(home::Block::new, home::Block::with),
        };
        step(&mut block, &mut actions);
        let finished = actions.contains(&Action::Finished);
        match active {
            Some(at) => self.active.at_mut(at).block = block,
            // Nothing was known of it, and nothing is.
            None if known.is_none() && block.is_idle() => {}
            None => self.active.push(line, block),
        }
        if !block.is_busy() && (active.is_some() || known.is_some() || !block.is_idle()) {
            self.settle(line, block, wires);
        }
        self.act(line, actions, wires);
        if finished {
            self.next_request(line, wires);
        }
    }

    /// A block at rest goes back to the directory, unless requests wait for it.
    fn settle(&mut self, line: Line, block: home::Block<Block>, wires: &mut Wires) {
        let index = wires.layout.index_at_home(line);
        let entry = self.directory.find(index, line);
        if block.is_idle() {
            if let Some(entry) = entry {
                self.directory.clear(entry);
            }
        } else if let Some(entry) = entry {
            *self.directory.value_mut(entry) = Some(block.directory());
            self.directory.touch(entry);
        } else if !self.allocate(line, block.directory(), wires) {
            // All entries of the set are in use just now: the block stays here for the time.
            return;
        }
        self.active.forget(line);
    }

    /// Gives a block an entry of the directory, taking back another block's copies if need be.
    fn allocate(&mut self, line: Line, directory: Directory, wires: &mut Wires) -> bool {
        let index = wires.layout.index_at_home(line);
        let active = &self.active;
        let Some(entry) = self.directory.victim(index, |line, _| !active.contains(line)) else {
            return false;
        };
        let victim = self.directory.line(entry).zip(*self.directory.value(entry));
        self.directory.fill(entry, line, Some(directory));
        if let Some((victim, directory)) = victim {
            wires.counts.recalls += 1;
            // It ends like a request.
            self.inside += 1;
            let block = home::Block::with(directory);
            self.active.push(victim, block);
            self.step(victim, wires, home::Block::recall);
        }
        true
    }

    /// The block's transaction is over: the next request's turn.
    fn next_request(&mut self, line: Line, wires: &mut Wires) {
        self.inside -= 1;
        let Some(active) = self.active.get_mut(line) else { return };
        let block = active.block;
        match active.waiting.pop_front() {
            Some((from, request)) if self.has_come == Some(line) => {
                self.has_come = None;
                self.serve(line, from, request, wires);
            }
            Some((from, request)) => {
                let message = Message::Request(request);
                let payload = Payload::Coherence { line, from: Some(from), message };
                self.look_up(payload, true, wires);
            }
            None if !block.is_busy() => self.settle(line, block, wires),
            None => {}
        }
    }

    fn act(&mut self, line: Line, actions: Actions<Block>, wires: &mut Wires) {
        let me = Part::Home(self.number);
        let mut through = None;
        for action in actions {
            match action {
                // Nobody but stores that go through changes such a block here.
                Action::WriteLlc { data, dirty: true }
                    if wires.map.goes_through(line).is_some() =>
                {
                    self.keep_or_drop(line, data, wires);
                    through = Some(data);
                }
                Action::Send(from, _) if through.is_some() => {
                    let data = through.take().unwrap_or_default();
                    let payload = Payload::ThroughWrite { line, data, from };
                    wires.send(me, wires.memory_of(line), payload);
                }
                Action::Send(party, mut message) => {
                    let to = wires.layout.part_of(party);
                    if let (Message::Response(Response::Updated(_)), Some(updates)) =
                        (message, &mut wires.updates)
                    {
                        updates.push(Updated { line, party, block: self.values.get(line) });
                    }
                    if self.posted && is_store_done(to, &message) {
                        continue;
                    }
                    wires.count_message(line);
                    fill_content(line, &mut message, wires);
                    wires.send(me, to, Payload::Coherence { line, from: None, message });
                }
                Action::Invalidate { sharers, to } => {
                    let mut left = sharers;
                    while left != 0 {
                        let party = left.trailing_zeros() as Party;
                        left &= left - 1;
                        let message = Message::Forward(Forward::Inv { to });
                        wires.count_message(line);
                        let part = wires.layout.part_of(party);
                        wires.send(me, part, Payload::Coherence { line, from: None, message });
                    }
                }
                Action::ReadMemory => {
                    let memory = wires.memory_of(line);
                    wires.counts.rrpp_from_memory += u64::from(self.is_remote);
                    wires.send(me, memory, Payload::MemoryRead { line, to: me });
                }
                Action::WriteLlc { data, dirty } => self.write_llc(line, data, dirty, wires),
                Action::Finished => {}
            }
        }
    }

    /// A store goes through: keeps the copy in the bank, or drops it.
    fn keep_or_drop(&mut self, line: Line, data: Block, wires: &mut Wires) {
        // If no copy stays, this is what the operating system sees.
        if let Some(image) = &mut wires.image {
            image.change(line, data);
        }
        let index = wires.layout.index_at_home(line);
        if let Some(entry) = self.llc.find(index, line)
            && wires.map.goes_through(line) == Some(Stay::Dropped)
        {
            self.llc.clear(entry);
        }
    }

    /// The operating system changes a borrowed block, which may be on its way here.
    pub fn change_borrowed(&mut self, line: Line, change: Block) {
        if self.active.get(line).is_some_and(|active| active.block.is_fetching()) {
            self.late_changes.push((line, change));
        }
    }

    /// Takes a block that has come from its lender with another content than copies had.
    #[inline]
    pub fn take_refreshed(&mut self) -> Option<Line> {
        self.refreshed.pop()
    }

    /// A block has come from its lender. If there may be copies with another content, their readers are notified.
    fn arrived(&mut self, line: Line, mut data: Block, wires: &Wires) -> Block {
        for (_, change) in self.late_changes.extract_if(.., |(changed, _)| *changed == line) {
            data = data.modified(change);
        }
        if wires.content(line).is_some_and(|old| old.words != data.words) {
            self.refreshed.push(line);
        }
        data
    }

    fn count_through(&self, line: Line, is_in_bank: bool, wires: &mut Wires) {
        let is_copied = is_in_bank || self.directory(line, wires) != Directory::Uncached;
        let drops = wires.map.goes_through(line) == Some(Stay::Dropped);
        wires.counts.through_writes += 1;
        wires.counts.through_dropped += u64::from(is_copied && drops);
    }

    /// Fetches lines ahead of an access.
    fn look_ahead(&mut self, line: Line, wires: &mut Wires) {
        let Some(prefetcher) = &mut self.prefetcher else { return };
        let is_remote = wires.map.is_borrowed(line);
        let Some((stride, degree)) = prefetcher.access(line, is_remote) else { return };
        for step in 1..=i64::from(degree) {
            let Some(ahead) = line.checked_add_signed(stride * step) else { return };
            let has_room = self.inside + RESERVED < self.capacity;
            let is_same = wires.map.is_borrowed(ahead) == is_remote;
            if has_room && is_same && wires.map.is_memory(ahead) {
                self.prefetch(ahead, wires);
            }
        }
    }

    /// Fetches a block that nobody has.
    fn prefetch(&mut self, line: Line, wires: &mut Wires) {
        let index = wires.layout.index_at_home(line);
        let is_known = self.active.contains(line)
            || self.llc.find(index, line).is_some()
            || self.directory.find(index, line).is_some();
        if is_known {
            return;
        }
        wires.counts.prefetches += 1;
        self.inside += 1;
        self.active.push(line, home::Block::new());
        self.step(line, wires, home::Block::prefetch);
    }

    /// Writes a block to the bank; another one may have to go to memory for it.
    fn write_llc(&mut self, line: Line, data: Block, dirty: bool, wires: &mut Wires) {
        let index = wires.layout.index_at_home(line);
        match &mut wires.image {
            // Data from caches and memory are those that are there already; changes are news.
            Some(image) => *image.block_mut(line) = data.words,
            None => self.values.set(line, data),
        }
        if !self.in_access {
            self.use_bank(wires.now);
        }
        if let Some(entry) = self.llc.find(index, line) {
            *self.llc.value_mut(entry) |= dirty;
            self.llc.touch(entry);
            return;
        }
        let active = &self.active;
        // With all ways in transition the least recently used one goes all the same: its content
        // is in memory, or on its way there ahead of any later read.
        let entry = self.llc.victim(index, |line, _| !active.contains(line));
        let entry = entry.or_else(|| self.llc.victim(index, |_, _| true));
        let entry = entry.expect("a set has at least one way");
        if let Some(victim) = self.llc.line(entry).filter(|_| *self.llc.value(entry)) {
            self.use_bank(wires.now);
            self.writebacks += 1;
            let memory = wires.memory_of(victim);
            let data = match (&wires.image, wires.map.is_borrowed(victim)) {
                (Some(image), true) => Block::from_words(image.block(victim)),
                _ => self.values.get(victim),
            };
            wires.send(
                Part::Home(self.number),
                memory,
                Payload::MemoryWrite { line: victim, data },
            );
        }
        self.llc.fill(entry, line, dirty);
    }
}

/// The prefetcher of a machine, if it has one.
fn prefetcher(machine: &Machine) -> Option<Prefetcher> {
    let PrefetchSpec { streams, local_degree, remote_degree } = machine.prefetch;
    let is_there = streams > 0 && local_degree + remote_degree > 0;
    is_there.then(|| Prefetcher::new(streams as usize, local_degree, remote_degree))
}

/// Whether a message says no more than that an RCP's store is done.
fn is_store_done(to: Part, message: &Message<Block>) -> bool {
    let done = matches!(message, Message::Response(Response::Updated(_)));
    done && matches!(to, Part::Engine(_))
}
