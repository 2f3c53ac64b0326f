//! Decoded code in blocks: what is executed one after the other lies one after the other, so that the
//! next instruction is at hand before the length of this one is known.

use std::collections::HashMap;

use crate::code::{Fetch, fetch};
use crate::exec::{Exit, execute_at};
use crate::port::Port;
use crate::space::Fault;
use crate::{Class, Hart, Inst, Op};

/// The most instructions of a block.
const LONGEST: usize = 16;

/// Entries of the cache in front of the map of blocks; a power of two.
const CACHED: usize = 4096;

/// The place of a block among the instructions.
#[derive(Clone, Copy, Debug)]
struct Range {
    start: u32,
    length: u32,
}

/// No block begins at an odd address.
const NO_BLOCK: (u64, Range) = (1, Range { start: 0, length: 0 });

/// Reasons for the end of a run of instructions.
#[derive(Clone, Copy, Debug)]
pub enum Break<S> {
    /// There is no instruction.
    Fetch(Fault),
    /// This one did not complete.
    Exit(Exit<S>, Inst),
}

/// Everything that was executed so far, decoded.
///
/// It knows nothing of stores: after `fence.i`, and when pages with code change, call
/// [`Blocks::clear`].
#[derive(Clone, Debug)]
pub struct Blocks {
    insts: Vec<Inst>,
    index: HashMap<u64, Range>,
    /// Blocks by the address of their first instruction, direct-mapped.
    cache: Box<[(u64, Range); CACHED]>,
}

impl Default for Blocks {
    fn default() -> Self {
        Self::new()
    }
}

impl Blocks {
    /// Nothing was executed yet.
    pub fn new() -> Blocks {
        let cache = Box::new([NO_BLOCK; CACHED]);
        Blocks { insts: Vec::new(), index: HashMap::new(), cache }
    }

    /// Drops all decoded instructions: some may have changed in memory.
    pub fn clear(&mut self) {
        self.insts.clear();
        self.index.clear();
        self.cache.fill(NO_BLOCK);
    }

    /// The hot loop: instructions until `limit`, or until one does not complete. Returns how many it was.
    #[inline(never)]
    pub fn run<P: Port + Fetch>(
        &mut self,
        hart: &mut Hart,
        port: &mut P,
        limit: u64,
    ) -> (u64, Option<Break<P::Stop>>) {
        let (mut left, mut pc) = (limit, hart.pc);
        let mut broken = None;
        'blocks: while left > 0 {
            port.enter(pc);
            let block = match self.get(pc, port) {
                Ok(block) => block,
                Err(fault) => {
                    broken = Some(Break::Fetch(fault));
                    break;
                }
            };
            let block = &block[..block.len().min(left as usize)];
            for (done, inst) in (0..).zip(block) {
                match execute_at(pc, hart, inst, port) {
                    Ok(next) => pc = next,
                    Err(exit) => {
                        left -= done;
                        broken = Some(Break::Exit(exit, *inst));
                        break 'blocks;
                    }
                }
            }
            left -= block.len() as u64;
        }
        hart.pc = pc;
        (limit - left, broken)
    }

    /// The instructions from `pc` on that are executed one after the other, at least one.
    #[inline(always)]
    fn get(&mut self, pc: u64, memory: &impl Fetch) -> Result<&[Inst], Fault> {
        let (first, cached) = self.cache[(pc / 2) as usize % CACHED];
        let Range { start, length } = if first == pc { cached } else { self.find(pc, memory)? };
        Ok(&self.insts[start as usize..(start + length) as usize])
    }

    #[inline(never)]
    fn find(&mut self, pc: u64, memory: &impl Fetch) -> Result<Range, Fault> {
        let range = match self.index.get(&pc) {
            Some(&range) => range,
            None => self.decode(pc, memory)?,
        };
        self.cache[(pc / 2) as usize % CACHED] = (pc, range);
        Ok(range)
    }

    /// Decodes a block, which ends with a jump or the like.
    fn decode(&mut self, pc: u64, memory: &impl Fetch) -> Result<Range, Fault> {
        let start = self.insts.len();
        let mut inst = fetch(pc, memory)?;
        let mut next = pc;
        loop {
            self.insts.push(inst);
            next = next.wrapping_add(inst.len.into());
            let is_full = self.insts.len() - start == LONGEST;
            if is_full || ends_block(&inst) {
                break;
            }
            // A fault is for the block that begins there.
            let Ok(following) = fetch(next, memory) else { break };
            inst = following;
        }
        let length = (self.insts.len() - start) as u32;
        let range = Range { start: start as u32, length };
        self.index.insert(pc, range);
        Ok(range)
    }
}

/// Whether the next instruction may be another one than the one behind.
fn ends_block(inst: &Inst) -> bool {
    matches!(inst.class(), Class::Branch | Class::Jump | Class::System) || inst.op == Op::FenceI
}
