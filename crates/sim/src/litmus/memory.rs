//! Coherent memory in miniature: many readers or one writer per line, and delays as wild as a test
//! wants.

use std::collections::{BTreeMap, HashMap, VecDeque};

use crate::block::{BLOCK_BYTES, Line, Words};
use crate::cpu::{Port, Program, Translate};
use crate::engine::{Cycle, Random};
use rackmem_riscv::Inst;
use rackmem_riscv::code::Code;
use rackmem_riscv::space::{AddressSpace, Cause, Fault, Wanted};

/// Ranges of times: from the first to the second, evenly.
#[derive(Clone, Copy, Debug)]
pub struct Delays {
    /// From a request to its line, when nobody has to be told.
    pub grant: (u64, u64),
    /// Until a copy is gone.
    pub invalidate: (u64, u64),
    /// Between evictions of some line from some cache; none if 0.
    pub evict: u64,
    /// Lines that a cache can wait for at a time.
    pub mshrs: usize,
}

impl Delays {
    /// Always the same, and no evictions.
    pub fn fixed(grant: u64) -> Delays {
        Delays { grant: (grant, grant), invalidate: (1, 1), evict: 0, mshrs: 32 }
    }

    /// Each time is from 1 to 60 cycles.
    pub fn wild() -> Delays {
        Delays { grant: (1, 60), invalidate: (1, 60), evict: 0, mshrs: 32 }
    }
}

#[derive(Clone, Copy)]
enum Event {
    /// The next request for a line is served.
    Begin(Line),
    /// A copy is taken away.
    Invalidate(usize, Line),
    /// A line that is written becomes one that is read.
    Downgrade(Line),
    Grant(usize, Line, bool),
    Evict,
}

/// A notice for a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A line has arrived for this core.
    Complete(usize),
    /// This core may not read a line any more.
    Lost(usize, Line),
}

#[derive(Default)]
struct State {
    holders: u64,
    owner: Option<usize>,
    is_busy: bool,
    requests: VecDeque<(usize, bool)>,
    /// Times that everything takes, beside other lines; 0 is 1.
    slowness: u64,
}

/// Memory, and the holders of each line. The values are in one place: each holder of a line sees the only
/// value that there is.
pub struct Memory {
    /// What is mapped, and its bytes.
    pub space: AddressSpace,
    code: Code,
    lines: HashMap<Line, State>,
    /// Lines that may be evicted.
    evictable: Vec<Line>,
    events: BTreeMap<Cycle, Vec<Event>>,
    waiting: Vec<Vec<Line>>,
    delays: Delays,
    rng: Random,
    now: Cycle,
}

impl Memory {
    /// Memory of these bytes; nobody has a copy of any line.
    pub fn new(space: AddressSpace, delays: Delays, seed: u64) -> Memory {
        let mut memory = Memory {
            space,
            code: Code::new(),
            lines: HashMap::new(),
            evictable: Vec::new(),
            events: BTreeMap::new(),
            waiting: vec![Vec::new(); 64],
            delays,
            rng: Random::new(seed, 0),
            now: 0,
        };
        if delays.evict > 0 {
            memory.after(delays.evict, Event::Evict);
        }
        memory
    }

    /// Gives lines to a core at once; lines that it may write are taken from all others, which must not have used them.
    pub fn warm(&mut self, core: usize, address: u64, bytes: u64, writable: bool) {
        for line in address / BLOCK_BYTES..(address + bytes).div_ceil(BLOCK_BYTES) {
            let state = self.lines.entry(line).or_default();
            let others = if writable { 0 } else { state.holders };
            state.holders = others | 1 << core;
            state.owner = writable.then_some(core);
        }
    }

    /// Makes everything that concerns a line take so many times as long as in others.
    pub fn slow_down(&mut self, address: u64, times: u64) {
        self.line(address / BLOCK_BYTES).slowness = times;
    }

    /// Lets a line be evicted before anybody has asked for it.
    pub fn make_evictable(&mut self, address: u64) {
        self.evictable.push(address / BLOCK_BYTES);
    }

    /// The cycle of the next event.
    pub fn next(&self) -> Option<Cycle> {
        self.events.keys().next().copied()
    }

    /// Handles the events of this cycle.
    pub fn step(&mut self, now: Cycle, notices: &mut Vec<Notice>) {
        self.now = now;
        for event in self.events.remove(&now).unwrap_or_default() {
            self.happens(event, notices);
        }
    }

    fn happens(&mut self, event: Event, notices: &mut Vec<Notice>) {
        match event {
            Event::Begin(line) => self.begin(line),
            Event::Invalidate(core, line) => self.take_away(core, line, notices),
            Event::Downgrade(line) => self.line(line).owner = None,
            Event::Grant(core, line, write) => {
                let state = self.line(line);
                state.holders |= 1 << core;
                state.owner = write.then_some(core);
                state.is_busy = false;
                let has_more = !state.requests.is_empty();
                self.waiting[core].retain(|&waiting| waiting != line);
                notices.push(Notice::Complete(core));
                if has_more {
                    self.line(line).is_busy = true;
                    self.after(1, Event::Begin(line));
                }
            }
            Event::Evict => {
                let delay = 1 + self.rng.below(2 * self.delays.evict);
                self.after(delay, Event::Evict);
                if self.evictable.is_empty() {
                    return;
                }
                let line = self.evictable[self.rng.below(self.evictable.len() as u64) as usize];
                let &mut State { holders, is_busy, .. } = self.line(line);
                if !is_busy && holders != 0 {
                    let number = self.rng.below(holders.count_ones().into()) as usize;
                    let mut cores = (0..64).filter(|core| holders >> core & 1 != 0);
                    let core = cores.nth(number).expect("there are as many");
                    self.take_away(core, line, notices);
                }
            }
        }
    }

    fn take_away(&mut self, core: usize, line: Line, notices: &mut Vec<Notice>) {
        let state = self.line(line);
        if state.holders >> core & 1 == 0 {
            return;
        }
        state.holders &= !(1 << core);
        if state.owner == Some(core) {
            state.owner = None;
        }
        notices.push(Notice::Lost(core, line));
    }

    fn line(&mut self, line: Line) -> &mut State {
        self.lines.entry(line).or_default()
    }

    fn after(&mut self, delay: u64, event: Event) {
        self.events.entry(self.now + delay).or_default().push(event);
    }

    fn delay(&mut self, (from, to): (u64, u64)) -> u64 {
        from + self.rng.below(to - from + 1)
    }

    fn begin(&mut self, line: Line) {
        let state = self.line(line);
        let (core, write) = state.requests.pop_front().expect("it was asked for");
        let others = state.holders & !(1 << core);
        let owner = state.owner.filter(|&owner| owner != core);
        let times = state.slowness.max(1);
        let mut last = 0;
        if write {
            for other in (0..64).filter(|other| others >> other & 1 != 0) {
                let delay = times * self.delay(self.delays.invalidate);
                last = last.max(delay);
                self.after(delay, Event::Invalidate(other, line));
            }
        } else if owner.is_some() {
            last = times * self.delay(self.delays.invalidate);
            self.after(last, Event::Downgrade(line));
        }
        let delay = last + times * self.delay(self.delays.grant);
        self.after(delay, Event::Grant(core, line, write));
    }

    fn request(&mut self, core: usize, line: Line, write: bool) {
        let waiting = &mut self.waiting[core];
        if waiting.contains(&line) || waiting.len() >= self.delays.mshrs {
            return;
        }
        waiting.push(line);
        if !self.lines.contains_key(&line) || self.rng.below(16) == 0 {
            self.evictable.push(line);
        }
        let state = self.line(line);
        state.requests.push_back((core, write));
        if !std::mem::replace(&mut state.is_busy, true) {
            self.begin(line);
        }
    }

    fn words(&mut self, line: Line) -> Words {
        let address = |word: usize| line * BLOCK_BYTES + 8 * word as u64;
        std::array::from_fn(|word| self.space.load(address(word), 8).unwrap_or(0))
    }
}

/// Memory as one core sees it in a cycle.
pub struct View<'a> {
    /// The memory that all cores share.
    pub memory: &'a mut Memory,
    /// Number of the core that looks.
    pub core: usize,
    /// The current cycle.
    pub now: Cycle,
}

impl Port for View<'_> {
    fn load(&mut self, line: Line) -> Option<Words> {
        self.memory.now = self.now;
        if self.memory.line(line).holders >> self.core & 1 != 0 {
            return Some(self.memory.words(line));
        }
        self.memory.request(self.core, line, false);
        None
    }

    fn store(&mut self, line: Line, change: impl FnOnce(&mut Words)) -> bool {
        self.memory.now = self.now;
        if self.memory.line(line).owner != Some(self.core) {
            self.memory.request(self.core, line, true);
            return false;
        }
        let mut words = self.memory.words(line);
        change(&mut words);
        for (word, &value) in words.iter().enumerate() {
            let address = line * BLOCK_BYTES + 8 * word as u64;
            self.memory.space.store(address, 8, value).expect("translation has allowed it");
        }
        true
    }
}

impl Translate for View<'_> {
    fn translate(&mut self, address: u64, wanted: Wanted) -> Result<u64, Fault> {
        let fault = |cause| Err(Fault { address, wanted, cause });
        let Some(permissions) = self.memory.space.permissions(address) else {
            return fault(Cause::Unmapped);
        };
        let is_allowed = match wanted {
            Wanted::Read => permissions.read,
            Wanted::Write => permissions.write,
            Wanted::Execute => permissions.execute,
        };
        if is_allowed { Ok(address) } else { fault(Cause::Forbidden) }
    }
}

impl Program for View<'_> {
    fn inst(&mut self, pc: u64) -> Result<&Inst, Fault> {
        self.memory.code.get(pc, &self.memory.space)
    }

    fn fence_i(&mut self) {
        self.memory.code.clear();
    }
}
