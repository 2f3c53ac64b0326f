//! The MMU: TLB and page walker (soNUMA §4.3).

use super::arbiter::{Arbiters, Wait};
use super::maq::{Access, Interface, Response, Source, Tag};
use super::page::{Fault, Format, Kind, LEVELS, Mapping, Step};
use super::slots::Slots;
use super::spec::RmcSpec;
use super::tlb::Tlb;
use crate::block::Words;
use crate::engine::Cycle;

/// An address space, as the CT names it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Space {
    /// Its identifier in the TLB.
    pub asid: u16,
    /// Physical address of the root of its page table.
    pub root: u64,
}

/// The answer of the TLB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lookup {
    /// The physical address, or none.
    Known(Result<u64, Fault>),
    /// A walk with this number will tell.
    Walking(u8),
    /// The walker is busy: ask again.
    Busy,
}

/// The end of a walk.
#[derive(Clone, Copy, Debug)]
pub struct Walked {
    /// Number that [`Lookup::Walking`] named.
    pub walk: u8,
    /// The leaf, or that there is none.
    pub found: Result<Mapping, Fault>,
}

/// A walk that is under way.
#[derive(Clone, Copy, Debug)]
struct Walk {
    space: Space,
    virt: u64,
    level: u32,
    /// An invalidation came meanwhile: entries that were read may be old.
    again: bool,
}

/// Counters of the MMU.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MmuStats {
    /// Translations that the TLB had.
    pub hits: u64,
    /// Translations that had to wait for a walk.
    pub misses: u64,
    /// Walks that have begun: misses of the same page share one.
    pub walks: u64,
    /// Walks that found nothing.
    pub faults: u64,
}

/// TLB and page walker.
#[derive(Clone, Debug)]
pub struct Mmu {
    format: Format,
    tlb: Tlb,
    walks: Slots<Walk>,
    stats: MmuStats,
}

impl Mmu {
    /// With an empty TLB.
    pub fn new(spec: &RmcSpec) -> Self {
        Self {
            format: spec.format(),
            tlb: Tlb::new(spec.tlb_entries),
            walks: Slots::new(spec.walks),
            stats: MmuStats::default(),
        }
    }

    /// A stage marked T: looks a virtual address up. A miss begins a walk, unless one for the same
    /// page is under way.
    pub fn translate(
        &mut self,
        now: Cycle,
        space: Space,
        virt: u64,
        kind: Kind,
        arbiters: &mut Arbiters,
    ) -> Lookup {
        if !self.format.is_user(virt) {
            return Lookup::Known(Err(Fault));
        }
        if let Some(mapping) = self.tlb.lookup(space.asid, virt) {
            self.stats.hits += 1;
            return Lookup::Known(mapping.translate(virt, kind));
        }
        let page = self.format.page_bytes();
        let (walk, is_new) = match self.walk_of(space, virt, page) {
            Some(walk) => (walk, false),
            None => {
                let walk = Walk { space, virt, level: LEVELS - 1, again: false };
                let Some(slot) = self.walks.put(walk) else { return Lookup::Busy };
                (slot, true)
            }
        };
        self.stats.misses += 1;
        if is_new {
            self.stats.walks += 1;
            self.ask(now, walk, space.root, arbiters);
        }
        Lookup::Walking(walk)
    }

    /// An entry of a page table has come. The walk goes on, or ends.
    pub fn respond(
        &mut self,
        now: Cycle,
        response: &Response,
        arbiters: &mut Arbiters,
    ) -> Option<Walked> {
        let slot = response.tag.slot as u8;
        let walk = self.walks.get_mut(slot)?;
        if walk.again {
            *walk = Walk { level: LEVELS - 1, again: false, ..*walk };
            let root = walk.space.root;
            self.ask(now, slot, root, arbiters);
            return None;
        }
        let Walk { space, virt, level, .. } = *walk;
        let entry = entry_in(&response.words, virt, level, self.format);
        let found = match self.format.step(entry, level, virt) {
            Ok(Step::Table(table)) => {
                walk.level -= 1;
                self.ask(now, slot, table, arbiters);
                return None;
            }
            Ok(Step::Leaf(mapping)) => Ok(mapping),
            Err(fault) => Err(fault),
        };
        match found {
            Ok(mapping) => self.tlb.fill(space.asid, mapping),
            // A missing entry may be made any time, without an invalidation: it is not kept.
            Err(Fault) => self.stats.faults += 1,
        }
        self.walks.remove(slot);
        Some(Walked { walk: slot, found })
    }

    /// Forgets translations, as the driver asks after it has changed a page table: of an address,
    /// of an address space, or all. Accesses that have their physical address are not recalled: the
    /// driver waits until the RMC is idle before it reuses the page.
    pub fn invalidate(&mut self, asid: Option<u16>, virt: Option<u64>) {
        self.tlb.invalidate(asid, virt);
        for walk in self.walks.iter_mut() {
            walk.again |= asid.is_none_or(|asid| walk.space.asid == asid);
        }
    }

    /// Walks under way.
    pub fn walking(&self) -> usize {
        self.walks.len()
    }

    /// Hits, misses and walks so far.
    pub const fn stats(&self) -> &MmuStats {
        &self.stats
    }

    fn walk_of(&self, space: Space, virt: u64, page: u64) -> Option<u8> {
        let same =
            |walk: &Walk| walk.space == space && walk.virt / page == virt / page && !walk.again;
        (0..self.walks.len())
            .filter_map(|age| self.walks.at(age))
            .find(|&slot| self.walks.get(slot).is_some_and(same))
    }

    /// Asks for the entry of the walk's level in a table.
    fn ask(&mut self, now: Cycle, slot: u8, table: u64, arbiters: &mut Arbiters) {
        let Some(walk) = self.walks.get(slot) else { return };
        let address = self.format.entry_address(table, walk.level, walk.virt);
        let tag = Tag { source: Source::Walker, stage: 0, slot: u16::from(slot) };
        arbiters.ask(now, Access::load(address, 8, Interface::Word), tag, Wait::Done);
    }
}

/// The entry for an address in the block that has it.
fn entry_in(words: &Words, virt: u64, level: u32, format: Format) -> u64 {
    words[format.entry_address(0, level, virt) as usize / 8 % 8]
}
