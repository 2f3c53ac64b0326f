//! Memory of a node's one program as its cores see it: the places of its pages, and its instructions,
//! decoded. Translation takes no time.

use std::collections::HashMap;

use rackmem_riscv::Inst;
use rackmem_riscv::code::{Code, Fetch};
use rackmem_riscv::space::{Cause, Fault, PAGE, Permissions, Wanted};

use super::image::Image;

/// Translations at hand; a power of two.
const CACHED: usize = 1024;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Page {
    /// Physical address of its first byte.
    pub phys: u64,
    pub permissions: Permissions,
    /// A device or another node has it, too: it stays as it is when the program gives it back.
    pub is_shared: bool,
}

/// Pages by number.
type Table = HashMap<u64, Page>;

/// The translations of a node's program, and its instructions.
pub struct Mmu {
    table: Table,
    cache: Box<[(u64, Page); CACHED]>,
    code: Code,
}

const NOT_CACHED: (u64, Page) =
    (u64::MAX, Page { phys: 0, permissions: Permissions::NONE, is_shared: false });

impl Default for Mmu {
    fn default() -> Self {
        Mmu { table: Table::default(), cache: Box::new([NOT_CACHED; CACHED]), code: Code::new() }
    }
}

impl Mmu {
    /// The page at a virtual address.
    pub fn page(&self, address: u64) -> Option<Page> {
        self.table.get(&(address / PAGE)).copied()
    }

    /// All pages by their virtual addresses, in ascending order.
    pub fn pages(&self) -> Vec<(u64, Page)> {
        let mut pages: Vec<_> = self.table.iter().map(|(&at, &page)| (at * PAGE, page)).collect();
        pages.sort_unstable_by_key(|&(address, _)| address);
        pages
    }

    /// Maps a page, or takes it away.
    pub fn set(&mut self, address: u64, page: Option<Page>) {
        let number = address / PAGE;
        match page {
            Some(page) => self.table.insert(number, page),
            None => self.table.remove(&number),
        };
        self.cache[number as usize % CACHED] = NOT_CACHED;
    }

    /// The physical address of a virtual one.
    ///
    /// # Errors
    /// [`Fault`] if the program may not use it so.
    #[inline]
    pub fn translate(&mut self, address: u64, wanted: Wanted) -> Result<u64, Fault> {
        let number = address / PAGE;
        let place = &mut self.cache[number as usize % CACHED];
        if place.0 != number {
            let fault = Fault { address, wanted, cause: Cause::Unmapped };
            *place = (number, *self.table.get(&number).ok_or(fault)?);
        }
        let page = place.1;
        let is_allowed = allows(page.permissions, wanted);
        let fault = Fault { address, wanted, cause: Cause::Forbidden };
        if is_allowed { Ok(page.phys + address % PAGE) } else { Err(fault) }
    }

    /// The instruction at a virtual address.
    ///
    /// # Errors
    /// [`Fault`] if there is none.
    #[inline(always)]
    pub fn inst(&mut self, pc: u64, image: &Image) -> Result<&Inst, Fault> {
        let Mmu { table, code, .. } = self;
        code.get(pc, &Text { table, image })
    }

    /// The program's instructions, as they are in memory.
    pub const fn text<'a>(&'a self, image: &'a Image) -> Text<'a> {
        Text { table: &self.table, image }
    }

    /// Drops decoded instructions after a change of program text.
    pub fn forget_instructions(&mut self) {
        self.code.clear();
    }
}

fn allows(permissions: Permissions, wanted: Wanted) -> bool {
    match wanted {
        Wanted::Read => permissions.read,
        Wanted::Write => permissions.write,
        Wanted::Execute => permissions.execute,
    }
}

/// The source of the instructions to be decoded.
pub struct Text<'a> {
    table: &'a Table,
    image: &'a Image,
}

impl Fetch for Text<'_> {
    fn fetch(&self, address: u64) -> Result<u16, Fault> {
        let fault = |cause| Fault { address, wanted: Wanted::Execute, cause };
        let page = self.table.get(&(address / PAGE)).ok_or(fault(Cause::Unmapped))?;
        if !page.permissions.execute {
            return Err(fault(Cause::Forbidden));
        }
        // Instructions begin at even addresses, so two bytes are in one page.
        let mut bytes = [0; 2];
        self.image.read_bytes(page.phys + address % PAGE, &mut bytes);
        Ok(u16::from_le_bytes(bytes))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DATA: Page =
        Page { phys: 0x3000, permissions: Permissions::READ_WRITE, is_shared: false };

    #[test]
    fn pages_are_found_until_they_are_taken_away() {
        let mut mmu = Mmu::default();
        for address in [0, 0x7000, (1 << 47) - PAGE] {
            mmu.set(address, Some(DATA));
            assert_eq!(mmu.translate(address + 5, Wanted::Write), Ok(0x3005));
            let executed = mmu.translate(address, Wanted::Execute).unwrap_err();
            assert_eq!(executed.cause, Cause::Forbidden);
            mmu.set(address, None);
            let gone = mmu.translate(address, Wanted::Read).unwrap_err();
            assert_eq!(gone.cause, Cause::Unmapped);
        }
        assert!(mmu.translate(u64::MAX, Wanted::Read).is_err());
    }
}
