//! The address space of a node's process: page tables in the node's memory, which cores and RMC share
//! (soNUMA §5.1). All pages are pinned, from the moment in which they are mapped.

use std::collections::HashSet;
use std::ops::Range;

use rackmem_riscv::kernel::UserMemory;
use rackmem_riscv::space::{Cause, Fault, PAGE, Permissions, Wanted};
use rackmem_rmc::Rights;
use serde::{Deserialize, Serialize};

use crate::block::{BLOCK_BYTES, Block};
use crate::chip::Chip;
use crate::chip::image::Image;
use crate::chip::layout::SEGMENT_LINE;
use crate::chip::mmu::Page;
use crate::exec::checkpoint::{Checked, require};
use crate::sonuma::driver::Driver;
use crate::sonuma::mmu::Space;

/// Physical address of the segment of a node with interfaces in tiles: behind all other memory.
pub const SEGMENT: u64 = SEGMENT_LINE * BLOCK_BYTES;

/// The process's pages, and the driver that hands out physical memory.
///
/// The program maps pages of 4 KB; the node's own may be larger. A page of the node is there as long
/// as a part of it is mapped, and the RMC may do to all of it what the program may do to a part.
#[derive(Clone, Debug)]
pub struct Pages {
    /// The device driver, which knows what memory is left.
    pub driver: Driver,
    /// Address space of the process, as the RMC names it.
    pub space: Space,
    page_bytes: u64,
    /// Physical memory that was free at first.
    pub fresh: Range<u64>,
    pub plugged: Plugged,
    /// Bytes of the node's own memory that are kept for tables of borrowed memory.
    pub kept_bytes: u64,
    /// Pages that were used and are not any more.
    pub free: Vec<u64>,
    /// Memory was asked for that the node does not have.
    pub is_exhausted: bool,
    /// Bytes that were missing for the latest mapping that failed; 0: none has failed in this call.
    pub missing_bytes: u64,
    /// Whether a call that needs more may be made again when there is more.
    pub may_wait: bool,
    pub code_changed: bool,
    /// Translations have changed that the RMC may know.
    pub translations_changed: bool,
}

/// Borrowed memory that the operating system gives out as the node's own (DEOI §IV: hot plug).
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Plugged {
    /// Pieces, and what is left of each.
    pieces: Vec<(Range<u64>, Range<u64>)>,
    /// Whether programs get it instead of the node's own memory (`window.heap`), else when that is full.
    pub is_first: bool,
}

impl Plugged {
    pub fn add(&mut self, piece: Range<u64>) {
        self.pieces.push((piece.clone(), piece));
    }

    fn frame(&mut self, bytes: u64) -> Option<u64> {
        let has_room = |left: &Range<u64>| left.end - left.start >= bytes;
        let (_, left) = self.pieces.iter_mut().find(|(_, left)| has_room(left))?;
        let frame = left.start;
        left.start += bytes;
        Some(frame)
    }

    /// Whether a physical address is of it.
    pub fn has(&self, phys: u64) -> bool {
        self.pieces.iter().any(|(piece, _)| piece.contains(&phys))
    }

    /// Whether a page of so many bytes was given out.
    pub fn has_given(&self, frame: u64, bytes: u64) -> bool {
        let has = |(piece, left): &(Range<u64>, Range<u64>)| {
            (piece.start..left.start).contains(&frame) && bytes <= left.start - frame
        };
        self.pieces.iter().any(has)
    }

    /// Checks what was read, of a node with pages of so many bytes that has borrowed such blocks.
    pub fn check(&self, page_bytes: u64, is_borrowed: impl Fn(&Range<u64>) -> bool) -> Checked {
        for (at, (piece, left)) in self.pieces.iter().enumerate() {
            let is_block = piece.start <= piece.end && is_borrowed(piece);
            let is_part = left.end == piece.end && (piece.start..=piece.end).contains(&left.start);
            let is_whole = (piece.start | piece.end | left.start) % page_bytes == 0;
            let is_apart = |(other, _): &(Range<u64>, Range<u64>)| {
                other.end <= piece.start || piece.end <= other.start
            };
            let is_apart = self.pieces[..at].iter().all(is_apart);
            require(is_block && is_part && is_whole && is_apart, || {
                format!("pieces[{at}]: {left:#x?} is not left of {piece:#x?}")
            })?;
        }
        Ok(())
    }
}

/// Levels of the tables of an address space.
const LEVELS: u64 = crate::sonuma::page::LEVELS as u64;

impl Pages {
    pub fn new(mut driver: Driver, page_bytes: u64) -> Pages {
        let space = driver.new_space();
        let driver_free = driver.free();
        Pages {
            driver,
            space,
            page_bytes,
            fresh: driver_free,
            plugged: Plugged::default(),
            kept_bytes: 0,
            free: Vec::new(),
            is_exhausted: false,
            missing_bytes: 0,
            may_wait: false,
            code_changed: false,
            translations_changed: false,
        }
    }

    pub const fn page_bytes(&self) -> u64 {
        self.page_bytes
    }

    /// Maps zeroed pages over whatever was there.
    pub fn map(&mut self, chip: &mut Chip, address: u64, length: u64, permissions: Permissions) {
        self.unmap(chip, address, length);
        for at in pages(address, length) {
            let Some(phys) = self.frame(chip, at) else {
                // Borrowed memory is of no use without tables.
                let is_enough = self.has_tables();
                self.missing_bytes = if is_enough { address + length - at } else { u64::MAX };
                return;
            };
            let phys = phys + at % self.page_bytes;
            let page = Page { phys, permissions, is_shared: false };
            self.set(chip, at, Some(page));
        }
    }

    /// Maps memory that is somewhere already, such as a queue, for the cores: `bytes` bytes from the
    /// physical page `phys` on.
    pub fn map_physical(chip: &mut Chip, address: u64, phys: u64, bytes: u64, to: Permissions) {
        for part in pages(0, bytes) {
            let page = Page { phys: phys + part, permissions: to, is_shared: true };
            chip.wires.mmu.set(address + part, Some(page));
        }
    }

    /// Memory of a page for queues, if any is left.
    pub fn frame_of_queues(&mut self) -> Option<u64> {
        let is_left = self.driver.free_bytes() >= 2 * PAGE;
        self.is_exhausted |= !is_left;
        is_left.then(|| self.driver.allocate(PAGE, PAGE))
    }

    /// Takes such memory out of the address space, if the program has not done so.
    pub fn unmap_physical(chip: &mut Chip, address: u64, bytes: u64) {
        for at in pages(address, bytes) {
            if chip.wires.mmu.page(at).is_some_and(|page| page.is_shared) {
                chip.wires.mmu.set(at, None);
            }
        }
    }

    /// Unmaps the pages of a range, mapped or not.
    pub fn unmap(&mut self, chip: &mut Chip, address: u64, length: u64) {
        for at in pages(address, length) {
            let Some(page) = chip.wires.mmu.page(at) else { continue };
            if !page.is_shared {
                clear(chip, page.phys..page.phys + PAGE);
            }
            self.set(chip, at, None);
        }
    }

    /// Changes permissions; `false` if a page of the range is not mapped.
    pub fn protect(
        &mut self,
        chip: &mut Chip,
        address: u64,
        length: u64,
        permissions: Permissions,
    ) -> bool {
        for at in pages(address, length) {
            let Some(page) = chip.wires.mmu.page(at) else { return false };
            self.set(chip, at, Some(Page { permissions, ..page }));
        }
        true
    }

    /// Makes mapped pages read as zeros.
    pub fn discard(&mut self, chip: &mut Chip, address: u64, length: u64) {
        for at in pages(address, length) {
            if let Some(page) = chip.wires.mmu.page(at).filter(|page| !page.is_shared) {
                self.code_changed |= page.permissions.execute;
                clear(chip, page.phys..page.phys + PAGE);
            }
        }
    }

    /// The physical page for an address, of which another part may be mapped already.
    fn frame(&mut self, chip: &mut Chip, address: u64) -> Option<u64> {
        let start = address / self.page_bytes * self.page_bytes;
        let mapped = self.parts(chip, start).map(|(part, page)| page.phys - part).next();
        let frame = mapped.or_else(|| self.free.pop());
        if frame.is_some() {
            return frame;
        }
        let own = if self.plugged.is_first { None } else { self.own_frame() };
        let frame = own.or_else(|| self.plugged_frame());
        self.is_exhausted |= frame.is_none();
        frame
    }

    fn own_frame(&mut self) -> Option<u64> {
        // Tables on the way to the page may be needed, too.
        let needed = self.page_bytes * (LEVELS + 1) + self.kept_bytes;
        let is_left = self.driver.free_bytes() >= needed;
        is_left.then(|| self.driver.allocate(self.page_bytes, self.page_bytes))
    }

    fn plugged_frame(&mut self) -> Option<u64> {
        if self.has_tables() { self.plugged.frame(self.page_bytes) } else { None }
    }

    /// Whether the node has memory for the tables on the way to a page.
    fn has_tables(&self) -> bool {
        self.driver.free_bytes() >= self.page_bytes * LEVELS
    }

    /// Enters a page, and what the RMC may do to the whole that it is a part of.
    fn set(&mut self, chip: &mut Chip, address: u64, page: Option<Page>) {
        let old = chip.wires.mmu.page(address);
        let executes = |page: Option<Page>| page.is_some_and(|page| page.permissions.execute);
        self.code_changed |= executes(old) || executes(page);
        if old.or(page).is_some_and(|page| page.is_shared) {
            return chip.wires.mmu.set(address, page);
        }
        let start = address / self.page_bytes * self.page_bytes;
        let before = self.whole(chip, start);
        chip.wires.mmu.set(address, page);
        let after = self.whole(chip, start);
        if before == after {
            return;
        }
        self.translations_changed |= before.is_some();
        let Pages { driver, space, .. } = self;
        let image = image(chip);
        match (before, after) {
            (_, Some((frame, rights))) => driver.map(*space, start, frame, 0, rights, image),
            (Some((frame, _)), None) => {
                driver.unmap(*space, start, 0, image);
                // A guard page keeps its memory.
                if !self.is_mapped(chip, start) {
                    self.free.push(frame);
                }
            }
            (None, None) => {}
        }
    }

    /// Physical addresses of the tables of the address space.
    pub fn tables(&self, chip: &mut Chip) -> HashSet<u64> {
        let within = self.fresh.start..self.driver.free().start;
        let found = self.driver.tables(self.space, within, image(chip));
        found.expect("the driver has made the tables").1
    }

    /// Checks tables that were restored: they map what the program has, and nothing else. Returns where they are.
    ///
    /// # Errors
    /// What is wrong with them.
    pub fn check_tables(&self, chip: &mut Chip) -> Result<HashSet<u64>, String> {
        let Pages { driver, space, page_bytes, fresh, .. } = self;
        let within = fresh.start..driver.free().start;
        let found = driver.tables(*space, within, image(chip));
        let (mappings, tables) =
            found.map_err(|_| "places: a table points to where no table is".to_owned())?;
        let mut starts: Vec<u64> =
            chip.wires.mmu.pages().iter().map(|(at, _)| at / page_bytes * page_bytes).collect();
        starts.dedup();
        let whole = |start| Some(driver.mapping(start, self.whole(chip, start)?));
        let expected = starts.into_iter().filter_map(whole);
        match mappings.into_iter().eq(expected) {
            true => Ok(tables),
            false => Err("places: the tables do not map the program's pages".to_owned()),
        }
    }

    fn is_mapped(&self, chip: &Chip, start: u64) -> bool {
        self.parts(chip, start).next().is_some()
    }

    /// The parts of a page of the node that are mapped to one, and where each begins in it.
    fn parts(&self, chip: &Chip, start: u64) -> impl Iterator<Item = (u64, Page)> {
        let parts = (0..self.page_bytes).step_by(PAGE as usize);
        let mapped = parts.filter_map(move |part| Some((part, chip.wires.mmu.page(start + part)?)));
        mapped.filter(|(_, page)| !page.is_shared)
    }

    /// The RMC's translation of a page of the node: its address and rights.
    fn whole(&self, chip: &Chip, start: u64) -> Option<(u64, Rights)> {
        let readable = self.parts(chip, start).filter(|(_, page)| page.permissions.read);
        readable.fold(None, |whole, (part, page)| {
            let written = page.permissions.write || matches!(whole, Some((_, Rights::ReadWrite)));
            let rights = if written { Rights::ReadWrite } else { Rights::ReadOnly };
            Some((page.phys - part, rights))
        })
    }
}

/// User memory as the kernel of a node sees it. Its writes notify the chip.
pub struct User<'a> {
    /// The process: its pages and their places in memory.
    pub pages: &'a mut Pages,
    /// The chip, whose image of memory holds the bytes.
    pub chip: &'a mut Chip,
}

impl User<'_> {
    /// Writes whatever the permissions are, as loaders do.
    pub fn install(&mut self, address: u64, bytes: &[u8]) {
        for (at, range) in in_pages(address, bytes.len()) {
            let Some(page) = self.chip.wires.mmu.page(at) else { return };
            write(self.chip, page.phys + at % PAGE, &bytes[range]);
        }
    }

    fn check(&self, address: u64, wanted: Wanted) -> Result<u64, Fault> {
        let fault = |cause| Fault { address, wanted, cause };
        let page = self.chip.wires.mmu.page(address).ok_or(fault(Cause::Unmapped))?;
        let is_allowed = match wanted {
            Wanted::Write => page.permissions.write,
            _ => page.permissions.read,
        };
        // Of what others may change, the operating system has no coherent view.
        let is_own = !self.chip.wires.map.is_borrowed(page.phys / BLOCK_BYTES);
        match is_allowed && (is_own || self.pages.plugged.has(page.phys)) {
            true => Ok(page.phys + address % PAGE),
            false => Err(fault(Cause::Forbidden)),
        }
    }
}

impl UserMemory for User<'_> {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), Fault> {
        for (at, range) in in_pages(address, bytes.len()) {
            let phys = self.check(at, Wanted::Read)?;
            image(self.chip).read_bytes(phys, &mut bytes[range]);
        }
        Ok(())
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Fault> {
        for (at, _) in in_pages(address, bytes.len()) {
            self.check(at, Wanted::Write)?;
        }
        for (at, range) in in_pages(address, bytes.len()) {
            let phys = self.check(at, Wanted::Write)?;
            write(self.chip, phys, &bytes[range]);
        }
        Ok(())
    }

    fn map(&mut self, address: u64, length: u64, permissions: Permissions) -> bool {
        self.pages.map(self.chip, address, length, permissions);
        let fits = !std::mem::take(&mut self.pages.is_exhausted);
        if !fits {
            self.pages.unmap(self.chip, address, length);
        }
        fits
    }

    fn unmap(&mut self, address: u64, length: u64) {
        self.pages.unmap(self.chip, address, length);
    }

    fn protect(&mut self, address: u64, length: u64, permissions: Permissions) -> bool {
        self.pages.protect(self.chip, address, length, permissions)
    }

    fn permissions(&self, address: u64) -> Option<Permissions> {
        self.chip.wires.mmu.page(address).map(|page| page.permissions)
    }

    fn discard(&mut self, address: u64, length: u64) {
        self.pages.discard(self.chip, address, length);
    }

    fn is_deferred(&self) -> bool {
        self.pages.may_wait && self.pages.missing_bytes > 0
    }

    fn forget_deferred(&mut self) {
        self.pages.missing_bytes = 0;
    }
}

pub fn image(chip: &mut Chip) -> &mut Image {
    chip.wires.image.as_mut().expect("a chip that executes programs has memory")
}

/// Writes physical memory, and notifies the parts that have read it.
fn write(chip: &mut Chip, phys: u64, bytes: &[u8]) {
    image(chip).write_bytes(phys, bytes);
    let end = phys + bytes.len() as u64;
    if chip.wires.map.is_borrowed(phys / BLOCK_BYTES) {
        change_borrowed(chip, phys, bytes);
    }
    for line in phys / BLOCK_BYTES..end.div_ceil(BLOCK_BYTES) {
        chip.changed_by_system(line);
    }
}

/// Sends a write to the lender, whose memory it is.
fn change_borrowed(chip: &mut Chip, phys: u64, bytes: &[u8]) {
    for (at, range) in cut(phys, bytes.len(), BLOCK_BYTES) {
        let change = Block::write((at % BLOCK_BYTES) as usize, &bytes[range]);
        chip.change_borrowed(at / BLOCK_BYTES, change);
    }
}

/// Makes the blocks of a range of physical memory zero, and notifies the parts that have read them.
pub fn clear(chip: &mut Chip, phys: Range<u64>) {
    for line in phys.start / BLOCK_BYTES..phys.end.div_ceil(BLOCK_BYTES) {
        if image(chip).block(line) != [0; 8] {
            *image(chip).block_mut(line) = [0; 8];
            if chip.wires.map.is_borrowed(line) {
                chip.change_borrowed(line, Block::ZERO);
            }
            chip.changed_by_system(line);
        }
    }
}

/// Addresses of the pages that a range touches.
pub fn pages(address: u64, length: u64) -> impl Iterator<Item = u64> {
    (address / PAGE..(address + length).div_ceil(PAGE)).map(|number| number * PAGE)
}

/// A range cut at page boundaries.
fn in_pages(address: u64, length: usize) -> impl Iterator<Item = (u64, Range<usize>)> {
    cut(address, length, PAGE)
}

/// A range cut at multiples of a size: addresses, and which of its bytes.
fn cut(address: u64, length: usize, size: u64) -> impl Iterator<Item = (u64, Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = address.wrapping_add(done as u64);
        let piece = (length - done).min((size - at % size) as usize);
        let range = done..done + piece;
        done += piece;
        (piece > 0).then_some((at, range))
    })
}
