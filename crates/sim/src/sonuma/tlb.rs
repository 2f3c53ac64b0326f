//! The TLB: recent translations of several address spaces (soNUMA §4.3).

use super::page::Mapping;

/// A fully associative TLB. Its entries are tagged with the identifier of their address space and
/// map whatever their leaf maps, so a large page takes one. The least recently used entry goes.
#[derive(Clone, Debug)]
pub struct Tlb {
    entries: Vec<Option<Entry>>,
    clock: u64,
}

#[derive(Clone, Copy, Debug)]
struct Entry {
    asid: u16,
    mapping: Mapping,
    used: u64,
}

impl Tlb {
    pub fn new(entries: u32) -> Self {
        Self { entries: vec![None; entries as usize], clock: 0 }
    }

    /// The mapping of an address, if it is here; counts as a use.
    #[inline]
    pub fn lookup(&mut self, asid: u16, virt: u64) -> Option<Mapping> {
        self.clock += 1;
        let hit = |entry: &&mut Entry| entry.asid == asid && entry.mapping.contains(virt);
        let entry = self.entries.iter_mut().flatten().find(hit)?;
        entry.used = self.clock;
        Some(entry.mapping)
    }

    /// Keeps a mapping; the least recently used one makes room.
    pub fn fill(&mut self, asid: u16, mapping: Mapping) {
        self.clock += 1;
        self.invalidate(Some(asid), Some(mapping.virt));
        let used = |entry: &&mut Option<Entry>| entry.map_or(0, |entry| entry.used);
        if let Some(entry) = self.entries.iter_mut().min_by_key(used) {
            *entry = Some(Entry { asid, mapping, used: self.clock });
        }
    }

    /// Forgets what maps an address, or all, of an address space, or of all.
    pub fn invalidate(&mut self, asid: Option<u16>, virt: Option<u64>) {
        for place in &mut self.entries {
            let goes = |entry: &mut Entry| {
                asid.is_none_or(|asid| entry.asid == asid)
                    && virt.is_none_or(|virt| entry.mapping.contains(virt))
            };
            place.take_if(goes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn page(number: u64) -> Mapping {
        Mapping { virt: number << 12, phys: (number + 100) << 12, shift: 12, bits: 0 }
    }

    #[test]
    fn the_least_recently_used_entry_goes() {
        let mut tlb = Tlb::new(3);
        (0..3).for_each(|number| tlb.fill(1, page(number)));
        assert_eq!(tlb.lookup(1, 5), Some(page(0)));
        tlb.fill(1, page(7));
        assert_eq!(tlb.lookup(1, 1 << 12), None, "the oldest use");
        assert_eq!(tlb.lookup(1, 0), Some(page(0)));
        assert_eq!(tlb.lookup(2, 0), None, "another address space");
        tlb.fill(2, page(0));
        tlb.invalidate(Some(1), Some(0));
        assert_eq!((tlb.lookup(1, 0), tlb.lookup(2, 0)), (None, Some(page(0))));
        tlb.invalidate(None, None);
        assert_eq!((tlb.lookup(1, 7 << 12), tlb.lookup(2, 0)), (None, None));
    }
}
