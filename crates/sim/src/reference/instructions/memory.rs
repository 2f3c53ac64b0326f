//! The memory of the core: a small cache before it, so that loads come late and lines go away.

use std::collections::{HashSet, VecDeque};

use rackmem_riscv::Inst;
use rackmem_riscv::code::Code;
use rackmem_riscv::csr::Counter;
use rackmem_riscv::space::{AddressSpace, Cause, Fault, Wanted};

use crate::block::{BLOCK_BYTES, Line, Words};
use crate::cpu::{Core, Port, Program, Translate};
use crate::engine::Cycle;

/// Cycles from a miss to its line.
const MISS_CYCLES: Cycle = 20;

/// Lines that the cache holds.
const LINES: usize = 64;

pub(super) struct Memory {
    pub space: AddressSpace,
    code: Code,
    now: Cycle,
    held: HashSet<Line>,
    /// The same, oldest first.
    order: VecDeque<Line>,
    /// Lines that were asked for, and when they come.
    coming: VecDeque<(Cycle, Line)>,
}

impl Memory {
    pub(super) fn new(space: AddressSpace) -> Memory {
        Memory {
            space,
            code: Code::new(),
            now: 0,
            held: HashSet::new(),
            order: VecDeque::new(),
            coming: VecDeque::new(),
        }
    }

    /// Lines arrive that are due, in the place of the oldest ones.
    pub(super) fn step(&mut self, now: Cycle, core: &mut Core) {
        self.now = now;
        while let Some(&(due, line)) = self.coming.front().filter(|(due, _)| *due <= now) {
            debug_assert_eq!(due, now, "every cycle is looked at");
            self.coming.pop_front();
            if self.order.len() == LINES
                && let Some(oldest) = self.order.pop_front()
            {
                self.held.remove(&oldest);
                core.lost(oldest);
            }
            self.held.insert(line);
            self.order.push_back(line);
            core.complete();
        }
    }

    pub(super) fn forget_instructions(&mut self) {
        self.code.clear();
    }

    fn holds(&mut self, line: Line) -> bool {
        let is_here = self.held.contains(&line);
        if !is_here && !self.coming.iter().any(|&(_, coming)| coming == line) {
            self.coming.push_back((self.now + MISS_CYCLES, line));
        }
        is_here
    }

    fn words(&mut self, line: Line) -> Words {
        std::array::from_fn(|word| {
            self.space.load(line * BLOCK_BYTES + 8 * word as u64, 8).unwrap_or(0)
        })
    }
}

impl Port for Memory {
    fn load(&mut self, line: Line) -> Option<Words> {
        self.holds(line).then(|| self.words(line))
    }

    fn store(&mut self, line: Line, change: impl FnOnce(&mut Words)) -> bool {
        if !self.holds(line) {
            return false;
        }
        let mut words = self.words(line);
        change(&mut words);
        for (word, &value) in (0_u64..).zip(&words) {
            let stored = self.space.store(line * BLOCK_BYTES + 8 * word, 8, value);
            stored.expect("translation has allowed it");
        }
        true
    }
}

impl Translate for Memory {
    fn translate(&mut self, address: u64, wanted: Wanted) -> Result<u64, Fault> {
        let fault = |cause| Fault { address, wanted, cause };
        let page = self.space.permissions(address).ok_or(fault(Cause::Unmapped))?;
        let is_allowed = match wanted {
            Wanted::Read => page.read,
            Wanted::Write => page.write,
            Wanted::Execute => page.execute,
        };
        if is_allowed { Ok(address) } else { Err(fault(Cause::Forbidden)) }
    }
}

impl Program for Memory {
    fn inst(&mut self, pc: u64) -> Result<&Inst, Fault> {
        self.code.get(pc, &self.space)
    }

    fn fence_i(&mut self) {
        self.code.clear();
    }

    /// All counters count instructions: the interpreter has no cycles.
    fn counter(&mut self, _counter: Counter, _now: Cycle, retired: u64) -> u64 {
        retired
    }
}
