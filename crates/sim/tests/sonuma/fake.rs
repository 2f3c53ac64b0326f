//! A coherent memory that stands for L1, directory, LLC and DRAM: one copy of every value, and what
//! the RMC's L1 may do with each block.

use rackmem_sim::block::{Line, Words};
use rackmem_sim::engine::{Cycle, Random};
use rackmem_sim::sonuma::memory::L1;
use rackmem_sim::sonuma::{Image, RmcSpec};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum State {
    Invalid,
    Shared,
    Modified,
}

pub struct Fake {
    pub words: Vec<u64>,
    states: Vec<State>,
    /// Blocks that have been asked for, with the cycles in which they come.
    pending: Vec<(Cycle, Line, State)>,
    now: Cycle,
    /// A miss takes so long, at least and at most.
    latency: (u64, u64),
    random: Random,
    /// Blocks that came lately, one of which goes now and then.
    recent: Vec<Line>,
    evicts: Option<Random>,
    /// One miss in so many finds no place in the L1, while others are under way; 0 = none.
    refuses: u64,
    mshrs: usize,
    pub misses: u64,
    pub peak_misses: usize,
}

impl Fake {
    pub fn new(bytes: u64, latency: (u64, u64), seed: u64, spec: &RmcSpec) -> Fake {
        Fake {
            words: vec![0; bytes as usize / 8],
            states: vec![State::Invalid; bytes as usize / 64],
            pending: Vec::new(),
            now: 0,
            latency,
            random: Random::new(seed, 100),
            recent: Vec::new(),
            evicts: None,
            refuses: 0,
            mshrs: spec.l1_mshrs as usize,
            misses: 0,
            peak_misses: 0,
        }
    }

    /// Blocks go now and then, and at times the L1 has no place.
    pub fn make_hostile(&mut self, seed: u64) {
        self.evicts = Some(Random::new(seed, 101));
        self.refuses = 4;
    }

    /// Blocks stay from now on: polls of blocks that go would never be at rest.
    pub fn make_calm(&mut self) {
        self.evicts = None;
    }

    /// All blocks are in the L1, modified.
    pub fn warm(&mut self) {
        self.states.fill(State::Modified);
    }

    pub fn set(&mut self, line: Line, state: State) {
        self.states[line as usize] = state;
    }

    pub fn state(&self, line: Line) -> State {
        self.states[line as usize]
    }

    /// A new cycle: blocks that have gone.
    pub fn begin(&mut self, now: Cycle) -> Option<Line> {
        self.now = now;
        let random = self.evicts.as_mut()?;
        if self.recent.is_empty() || random.below(20) > 0 {
            return None;
        }
        let at = random.below(self.recent.len() as u64) as usize;
        let line = self.recent.swap_remove(at);
        self.take_away(line)
    }

    /// A block that has come.
    pub fn arrival(&mut self) -> Option<Line> {
        let due = |(at, ..): &(Cycle, Line, State)| *at <= self.now;
        let at = self.pending.iter().position(due)?;
        let (_, line, state) = self.pending.remove(at);
        self.states[line as usize] = state;
        if self.recent.len() < 256 {
            self.recent.push(line);
        }
        Some(line)
    }

    /// A core's load: the RMC's L1 keeps its block, at most shared.
    pub fn core_read(&mut self, address: u64) -> u64 {
        let state = &mut self.states[address as usize / 64];
        *state = (*state).min(State::Shared);
        self.words[address as usize / 8]
    }

    /// A core writes; the block, if the RMC's L1 had it.
    #[must_use]
    pub fn core_write(&mut self, address: u64, value: u64) -> Option<Line> {
        self.words[address as usize / 8] = value;
        self.take_away(address / 64)
    }

    pub fn is_quiet(&self) -> bool {
        self.pending.is_empty()
    }

    fn take_away(&mut self, line: Line) -> Option<Line> {
        let state = std::mem::replace(&mut self.states[line as usize], State::Invalid);
        (state != State::Invalid).then_some(line)
    }

    fn miss(&mut self, line: Line, state: State) {
        if self.is_pending(line) {
            return;
        }
        let busy = self.pending.len();
        assert!(busy < self.mshrs, "more misses than the L1 has registers");
        if busy > 0 && self.refuses > 0 && self.random.below(self.refuses) == 0 {
            return;
        }
        let (least, most) = self.latency;
        let latency = least + self.random.below(most - least + 1);
        self.pending.push((self.now + latency, line, state));
        self.misses += 1;
        self.peak_misses = self.peak_misses.max(busy + 1);
    }

    fn block(&self, line: Line) -> Words {
        std::array::from_fn(|word| self.words[line as usize * 8 + word])
    }
}

impl L1 for Fake {
    fn load(&mut self, line: Line) -> Option<Words> {
        let found = self.peek(line);
        if found.is_none() {
            self.miss(line, State::Shared);
        }
        found
    }

    fn store(&mut self, line: Line, change: impl FnOnce(&mut Words)) -> bool {
        if !self.is_owned(line) {
            self.miss(line, State::Modified);
            return false;
        }
        let mut block = self.block(line);
        change(&mut block);
        self.words[line as usize * 8..line as usize * 8 + 8].copy_from_slice(&block);
        true
    }

    fn peek(&self, line: Line) -> Option<Words> {
        (self.state(line) > State::Invalid).then(|| self.block(line))
    }

    fn is_owned(&self, line: Line) -> bool {
        self.state(line) == State::Modified
    }

    fn is_pending(&self, line: Line) -> bool {
        self.pending.iter().any(|pending| pending.1 == line)
    }
}

impl Image for Fake {
    fn read(&self, address: u64) -> u64 {
        self.words[address as usize / 8]
    }

    fn write(&mut self, address: u64, value: u64) {
        self.words[address as usize / 8] = value;
    }
}
