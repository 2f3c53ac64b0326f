//! Decoded code, page by page, so that drivers decode each instruction once.

use std::collections::HashMap;

use crate::Inst;
use crate::decode::{decode, length};
use crate::space::{AddressSpace, Fault, PAGE};

/// A page has a place for an instruction at every even address.
const PLACES: usize = (PAGE / 2) as usize;

/// Memory for instruction fetches.
pub trait Fetch {
    /// The two bytes at an even address.
    fn fetch(&self, address: u64) -> Result<u16, Fault>;

    /// Instructions from this address on are about to be executed, for those who count fetches.
    #[inline(always)]
    fn enter(&mut self, _pc: u64) {}
}

impl Fetch for AddressSpace {
    fn fetch(&self, address: u64) -> Result<u16, Fault> {
        AddressSpace::fetch(self, address)
    }
}

/// The instructions of a page, by half the offset of their first byte.
type Page = [Inst; PLACES];

/// A place where nothing has been decoded yet: its length is 0.
const UNDECODED: Inst = Inst::illegal(0, 0);

/// Entries of the cache in front of the map of pages; a power of two.
const CACHED: usize = 256;

/// Everything that was executed so far, decoded.
///
/// It knows nothing of stores: after `fence.i`, and when pages with code change, call
/// [`Code::clear`].
pub struct Code {
    pages: Vec<Box<Page>>,
    index: HashMap<u64, u32>,
    /// Page number and index of pages, direct-mapped.
    cache: Box<[(u64, u32); CACHED]>,
}

impl Default for Code {
    fn default() -> Self {
        Self::new()
    }
}

impl Code {
    /// A cache without instructions.
    pub fn new() -> Code {
        Code { pages: Vec::new(), index: HashMap::new(), cache: Box::new([(u64::MAX, 0); CACHED]) }
    }

    /// The instruction at `pc`, decoded now or earlier. By reference: copying 16 bytes only to read
    /// them field by field costs more than executing them.
    #[inline(always)]
    pub fn get(&mut self, pc: u64, memory: &impl Fetch) -> Result<&Inst, Fault> {
        let index = self.index(pc / PAGE) as usize;
        if is_undecoded(&self.pages[index][place(pc)]) {
            self.fill(pc, memory)?;
        }
        Ok(&self.pages[index][place(pc)])
    }

    /// Drops all decoded instructions: some may have changed in memory.
    pub fn clear(&mut self) {
        *self = Code::new();
    }

    /// The index of the page with this number. Its places need not be decoded.
    #[inline(always)]
    fn index(&mut self, number: u64) -> u32 {
        let (cached, index) = self.cache[number as usize % CACHED];
        if cached == number { index } else { self.find(number) }
    }

    #[inline(never)]
    fn find(&mut self, number: u64) -> u32 {
        let next = self.pages.len() as u32;
        let index = *self.index.entry(number).or_insert(next);
        if index == next {
            self.pages.push(Box::new([UNDECODED; PLACES]));
        }
        self.cache[number as usize % CACHED] = (number, index);
        index
    }

    /// Decodes the instruction at `pc`.
    #[inline(never)]
    fn fill(&mut self, pc: u64, memory: &impl Fetch) -> Result<(), Fault> {
        let inst = fetch(pc, memory)?;
        let index = self.find(pc / PAGE) as usize;
        self.pages[index][place(pc)] = inst;
        Ok(())
    }
}

/// The place of the instruction at `pc` in its page.
#[inline(always)]
fn place(pc: u64) -> usize {
    (pc % PAGE / 2) as usize
}

/// Whether nothing has been decoded there yet.
fn is_undecoded(inst: &Inst) -> bool {
    inst.len == 0
}

/// Fetches and decodes the instruction at `pc`, which may lie in two pages.
pub fn fetch(pc: u64, memory: &impl Fetch) -> Result<Inst, Fault> {
    let first = memory.fetch(pc)?;
    if length(first) == 2 {
        return Ok(decode(first.into()));
    }
    let second = memory.fetch(pc.wrapping_add(2))?;
    Ok(decode(u32::from(second) << 16 | u32::from(first)))
}
