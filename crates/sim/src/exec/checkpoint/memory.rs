//! The memory of a node's process.

use std::collections::HashMap;
use std::ops::Range;

use rackmem_riscv::space::{PAGE, Permissions};
use serde::{Deserialize, Serialize};

use crate::chip::Chip;
use crate::chip::layout::{BLOCK_BYTES, Line};
use crate::chip::mmu::Page;
use crate::chip::trail::Touch;
use crate::exec::ExecError;
use crate::exec::pages::{self, Pages};

const PAGE_LINES: u64 = PAGE / BLOCK_BYTES;

/// The pages of a process, and the places of all that is in physical memory.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Memory {
    /// The part of physical memory that was free before the program was loaded, and the size of the node's pages: where
    /// they are the same, pages keep their places.
    fresh: Range<u64>,
    page_bytes: u64,
    /// The next free byte, and pages that are not used any more.
    next: u64,
    free: Vec<u64>,
    /// Virtual and physical address, permissions.
    pages: Vec<(u64, u64, Permissions)>,
    /// Physical addresses of the pages that are not zero, whose contents are elsewhere.
    places: Vec<u64>,
}

/// The places of pages after a checkpoint.
pub enum Places {
    /// As before.
    Same,
    /// By number: pages that the new machine has elsewhere.
    Moved(HashMap<u64, u64>),
}

impl Memory {
    /// Of a node, and the contents of its pages.
    pub fn save(pages: &Pages, chip: &mut Chip) -> (Memory, Vec<u8>) {
        let mut places = Vec::new();
        let mut contents = Vec::new();
        for (address, bytes) in pages::image(chip).pages() {
            places.push(address);
            contents.extend(bytes);
        }
        let entry =
            |(address, Page { phys, permissions }): (u64, Page)| (address, phys, permissions);
        let memory = Memory {
            fresh: pages.fresh.clone(),
            page_bytes: pages.page_bytes(),
            next: pages.driver.free().start,
            free: pages.free.clone(),
            pages: chip.wires.mmu.pages().into_iter().map(entry).collect(),
            places,
        };
        (memory, contents)
    }

    /// Puts it into the memory of a node that has nothing yet. These pages of the process are queues.
    ///
    /// # Errors
    /// There is no room for it; or it is not as it was saved.
    pub fn restore(
        &self,
        contents: &[u8],
        queues: &[u64],
        pages: &mut Pages,
        chip: &mut Chip,
    ) -> Result<Places, ExecError> {
        if !self.is_sound(contents) {
            let why = "a page is where there is no memory; take the checkpoint again";
            return Err(ExecError::Checkpoint(why.to_owned()));
        }
        let is_same = (&pages.fresh, pages.page_bytes()) == (&self.fresh, self.page_bytes);
        if is_same {
            self.keep(contents, pages, chip);
            return Ok(Places::Same);
        }
        self.move_to(contents, queues, pages, chip).map_err(ExecError::Machine)
    }

    /// Whether all pages are whole and in the memory that it is of.
    fn is_sound(&self, contents: &[u8]) -> bool {
        let is_place = |&phys: &u64| phys % PAGE == 0 && phys < self.fresh.end;
        let free = (self.fresh.start..=self.fresh.end).contains(&self.next);
        free && contents.len() as u64 == self.places.len() as u64 * PAGE
            && self.places.iter().chain(&self.free).all(is_place)
            && self.pages.iter().all(|(address, phys, _)| address % PAGE == 0 && is_place(phys))
    }

    fn contents<'a>(&'a self, contents: &'a [u8]) -> impl Iterator<Item = (u64, &'a [u8])> {
        self.places.iter().copied().zip(contents.chunks(PAGE as usize))
    }

    fn keep(&self, contents: &[u8], pages: &mut Pages, chip: &mut Chip) {
        for (phys, bytes) in self.contents(contents) {
            pages::image(chip).write_bytes(phys, bytes);
        }
        for &(address, phys, permissions) in &self.pages {
            chip.wires.mmu.set(address, Some(Page { phys, permissions }));
        }
        pages.driver.restore(self.next);
        pages.free.clone_from(&self.free);
    }

    fn move_to(
        &self,
        contents: &[u8],
        queues: &[u64],
        pages: &mut Pages,
        chip: &mut Chip,
    ) -> Result<Places, String> {
        let mut by_place = self.pages.clone();
        by_place.sort_unstable_by_key(|&(_, phys, _)| phys);
        let mut moved = HashMap::new();
        for &(address, phys, permissions) in &by_place {
            if queues.contains(&address) {
                // Rings may share a page of memory, which the process has twice then.
                let known = moved.get(&(phys / PAGE)).map(|page| page * PAGE);
                if let Some(phys) = known.or_else(|| pages.frame_of_queues()) {
                    Pages::map_physical(chip, address, phys, PAGE, permissions);
                }
            } else {
                pages.map(chip, address, PAGE, permissions);
            }
            if let Some(page) = chip.wires.mmu.page(address) {
                moved.insert(phys / PAGE, page.phys / PAGE);
            }
        }
        if pages.is_exhausted {
            let why =
                "memory.size_bytes: the memory of the checkpoint does not fit; give the nodes more";
            return Err(why.to_owned());
        }
        for (phys, bytes) in self.contents(contents) {
            // Other pages are tables, which have been made anew.
            if let Some(page) = moved.get(&(phys / PAGE)) {
                pages::image(chip).write_bytes(page * PAGE, bytes);
            }
        }
        Ok(Places::Moved(moved))
    }
}

impl Places {
    /// The touches of the same pages, where they are now.
    pub fn touches(&self, touches: Vec<Touch>) -> Vec<Touch> {
        let Places::Moved(moved) = self else { return touches };
        let line =
            |line: Line| Some(moved.get(&(line / PAGE_LINES))? * PAGE_LINES + line % PAGE_LINES);
        touches
            .into_iter()
            .filter_map(|touch| Some(Touch { line: line(touch.line)?, ..touch }))
            .collect()
    }
}
