//! The memory of a node's process.

use std::collections::{HashMap, HashSet};
use std::ops::Range;

use rackmem_abi::MAX_WQ_SIZE;
use rackmem_riscv::space::{PAGE, Permissions, TOP};
use serde::{Deserialize, Serialize};

use super::check::{Checked, require};
use super::pack;
use crate::block::{BLOCK_BYTES, Line};
use crate::chip::Chip;
use crate::chip::image::Image;
use crate::chip::layout::SEGMENT_LINE;
use crate::chip::mmu::Page;
use crate::chip::trail::Touch;
use crate::engine::MOST;
use crate::exec::ExecError;
use crate::exec::borrow::{Lending, saved};
use crate::exec::controller::Spare;
use crate::exec::device::{Device, Fixed};
use crate::exec::pages::{self, Pages, SEGMENT};
use crate::machine::Machine;
use crate::sonuma::driver::Rings;

const PAGE_LINES: u64 = PAGE / BLOCK_BYTES;

/// Bytes of addresses for a queue, at most: it may begin in a page and end in the next.
const MOST_SPARE: u64 = 2 * PAGE;

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
    /// Likewise of pages with queues, which have no place in the tables; two may share one.
    queues: Vec<(u64, u64, Permissions)>,
    /// Likewise of the segment of interfaces in tiles, which is behind all memory.
    segment: Vec<(u64, u64, Permissions)>,
    /// Queues that no queue pair has.
    unused: Vec<Rings>,
    /// Pages for the lists of queue pairs.
    for_lists: Vec<u64>,
    /// Virtual addresses that are reserved for queues, and their bytes.
    spare: Vec<(u64, u64)>,
    /// Physical addresses of the pages that are not zero, whose contents are elsewhere.
    places: Vec<u64>,
    /// Memory that is lent and borrowed, if there is any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lent: Option<Box<saved::State>>,
}

/// The places of pages after a checkpoint.
pub enum Places {
    /// As before.
    Same,
    /// The new machine has all elsewhere.
    Moved(Moved),
}

/// Places of before with those of now.
#[derive(Clone, Debug, Default)]
pub struct Moved {
    /// Numbers of pages.
    pages: HashMap<u64, u64>,
    /// Blocks of queues, which may leave their page one by one.
    lines: HashMap<Line, Line>,
}

impl Moved {
    fn line(&self, line: Line) -> Option<Line> {
        let of_page =
            || Some(self.pages.get(&(line / PAGE_LINES))? * PAGE_LINES + line % PAGE_LINES);
        self.lines.get(&line).copied().or_else(of_page)
    }
}

impl Memory {
    /// Of a node whose process has queues of these drivers, and the contents of its pages. Tables of the network
    /// interface are made anew where the program goes on.
    ///
    /// # Errors
    /// As [`Lending::state`].
    pub fn save(
        pages: &Pages,
        device: &Device,
        lending: Option<&Lending>,
        chip: &mut Chip,
    ) -> Result<(Memory, Vec<u8>), String> {
        let lent = lending.map_or(Ok(None), |lending| lending.state(pages, chip))?;
        let mut lent = lent.map(Box::new);
        let mut queues = device.queue_pages();
        queues.extend(lent.as_ref().and_then(|lent| lent.status_page()));
        let entry =
            |(address, Page { phys, permissions }): (u64, Page)| (address, phys, permissions);
        let of_process = chip.wires.mmu.pages().into_iter().map(entry);
        let (queues, of_process) =
            of_process.partition::<Vec<_>, _>(|(address, ..)| queues.contains(address));
        let mut of_process = of_process;
        if let Some(lent) = &mut lent {
            lent.take_pages(&mut of_process);
        }
        let (segment, of_process) = of_process
            .into_iter()
            .partition::<Vec<_>, _>(|&(_, phys, _)| phys >= SEGMENT && !pages.has(phys));
        let tables = pages.tables(chip);
        let frame = |phys: u64| phys / pages.page_bytes() * pages.page_bytes();
        let own = of_process.iter().map(|&(_, phys, _)| frame(phys)).chain(tables);
        let own: HashSet<u64> = own.collect();
        let others = queues.iter().chain(&segment);
        let others: HashSet<u64> = others.map(|&(_, phys, _)| phys).collect();
        let mut places = Vec::new();
        let mut contents = Vec::new();
        let is_lent = |phys| lent.as_ref().is_some_and(|lent| lent.lent().contains(&phys));
        for (address, bytes) in pages::image(chip).pages() {
            if own.contains(&frame(address)) || others.contains(&address) || is_lent(address) {
                places.push(address);
                pack::pack(&bytes, &mut contents);
            }
        }
        let memory = Memory {
            fresh: pages.fresh.clone(),
            page_bytes: pages.page_bytes(),
            next: pages.driver.free().start,
            free: pages.free.clone(),
            for_lists: pages.driver.pages_for_lists(pages::image(chip)),
            pages: of_process,
            queues,
            segment,
            unused: pages.driver.unused().to_vec(),
            spare: device.spare.ranges().to_vec(),
            places,
            lent,
        };
        Ok((memory, contents))
    }

    /// Puts it into the memory of a node that has nothing yet, whose network interfaces have these places.
    ///
    /// # Errors
    /// There is no room for it; or it is not as it was saved.
    pub fn restore(
        &self,
        contents: &[u8],
        (machine, fixed): (&Machine, &Fixed),
        pages: &mut Pages,
        chip: &mut Chip,
    ) -> Result<Places, ExecError> {
        match &self.lent {
            Some(lent) => lent.enter(machine, pages, chip)?,
            None if machine.ni.placement.has_window() && machine.window.heap => {
                let why =
                    "window.heap: the heap of the checkpoint is not borrowed; set it to false";
                return Err(ExecError::Machine(why.to_owned()));
            }
            None => {}
        }
        let is_same = (&pages.fresh, pages.page_bytes()) == (&self.fresh, self.page_bytes);
        if is_same && self.suits(fixed) {
            let kept = self.keep(contents, pages, chip);
            return kept.map(|()| Places::Same).map_err(|wrong| {
                ExecError::Checkpoint(format!("memory: {wrong}; take the checkpoint again"))
            });
        }
        if self.lent.is_some() {
            let why = "tiles.columns, tiles.rows, system.contexts: the checkpoint has borrowed memory, and would have \
                       its own elsewhere; set them as they were";
            return Err(ExecError::Machine(why.to_owned()));
        }
        self.move_to(contents, fixed, pages, chip).map_err(ExecError::Machine)
    }

    /// Whether network interfaces with these places have queues and segment where they are.
    fn suits(&self, fixed: &Fixed) -> bool {
        let is_queue = |&(address, phys, _): &(u64, u64, Permissions)| match fixed.of_queue(address)
        {
            Some(place) => place == phys,
            None => phys >= self.fresh.start,
        };
        let mut segment = self.segment.iter();
        self.queues.iter().all(is_queue)
            && segment.all(|&(address, phys, _)| fixed.of_segment(address) == Some(phys))
            && self.pages.iter().all(|&(address, ..)| fixed.of_segment(address).is_none())
    }

    /// Bytes that the process may have in use.
    pub fn most_bytes(&self) -> u64 {
        let beyond = self.lent.as_ref().map_or(0, |lent| lent.most_bytes());
        self.fresh.end.saturating_add(beyond)
    }

    /// Whether there may be such a line of memory; queues and segments of tiles that are gone count, too.
    pub fn may_have(&self, line: Line) -> bool {
        let end = self.lent.as_ref().map_or(self.fresh.end, |lent| lent.lent().end);
        line < end / BLOCK_BYTES || (SEGMENT_LINE..MOST / BLOCK_BYTES).contains(&line)
    }

    /// Whether a page, by its virtual address, has queues.
    pub fn has_queue(&self, address: u64) -> bool {
        self.queues.iter().any(|&(at, ..)| at == address)
    }

    /// Addresses that are reserved for queues, where nodes have pages of so many bytes.
    pub fn spare(&self, page_bytes: u64) -> Spare {
        Spare::of(&self.spare, page_bytes)
    }

    /// Checks what was read, with the contents of so many pages. Queue pairs have queues of these virtual addresses and
    /// sizes in bytes.
    pub fn check(&self, contents: &[u8], used: impl Iterator<Item = (u64, u64)>) -> Checked {
        let Memory { fresh, page_bytes, next, .. } = self;
        require(fresh.end < MOST && (fresh.start..=fresh.end).contains(next), || {
            format!("memory.next: is {next:#x}, must be within {fresh:#x?}")
        })?;
        require(matches!(page_bytes, 4096 | 8192), || {
            format!("memory.page_bytes: is {page_bytes}, must be 4096 or 8192")
        })?;
        require(self.segment.is_empty() || fresh.end <= SEGMENT, || {
            format!("memory.segment: begins before the end of memory, {:#x}", fresh.end)
        })?;
        let is_queue =
            |address, phys| self.queues.iter().any(|&(virt, at, _)| (virt, at) == (address, phys));
        let given = fresh.start..*next;
        let lent = self.lent.as_ref();
        let checked =
            lent.map_or(Ok(()), |lent| lent.check((fresh.end, *page_bytes), given, is_queue));
        checked.map_err(|wrong| format!("memory.lent.{wrong}"))?;
        let checked = self.frames().and_then(|frames| {
            self.rings(&frames)?;
            self.check_unused(&frames, used)
        });
        checked.map_err(|wrong| format!("memory.{wrong}"))?;
        self.check_places(contents)
    }

    /// Each page of the contents has a place.
    fn check_places(&self, contents: &[u8]) -> Checked {
        let Memory { fresh, places, page_bytes, .. } = self;
        let segment: HashSet<u64> = self.segment.iter().map(|&(_, phys, _)| phys).collect();
        let mut free_from = 0;
        for (at, &place) in places.iter().enumerate() {
            let is_beyond = |lent: &saved::State| {
                lent.lent().contains(&place) || lent.has_given(place / page_bytes * page_bytes)
            };
            let is_beyond = self.lent.as_deref().is_some_and(is_beyond);
            let is_memory = place < fresh.end || segment.contains(&place) || is_beyond;
            let is_place = place % PAGE == 0 && place >= free_from && is_memory;
            require(is_place, || format!("memory.places[{at}]: no further page is at {place:#x}"))?;
            free_from = place + PAGE;
        }
        let pages = pack::pages(contents).filter(|page| pack::is_page(page)).count();
        let bytes: usize = pack::pages(contents).map(|page| 2 + page.len()).sum();
        require(pages == places.len() && bytes == contents.len(), || {
            format!("memory.places: has {} entries, and there are {pages} pages", places.len())
        })
    }

    /// Queues that nobody has are in no page of the program, and none is in another one, used or not.
    fn check_unused(
        &self,
        frames: &HashMap<u64, Option<u64>>,
        used: impl Iterator<Item = (u64, u64)>,
    ) -> Checked {
        let places: HashMap<u64, u64> =
            self.queues.iter().map(|&(address, phys, _)| (address, phys)).collect();
        let lines = |ring: Range<u64>| ring.start / BLOCK_BYTES..ring.end.div_ceil(BLOCK_BYTES);
        let place = |(address, bytes): (u64, u64)| {
            let phys = places.get(&(address / PAGE * PAGE))? + address % PAGE;
            Some(lines(phys..phys + bytes))
        };
        let mut taken: HashSet<Line> = used.filter_map(place).flatten().collect();
        for (at, rings) in self.unused.iter().enumerate() {
            let is_size = rings.size.is_power_of_two() && usize::from(rings.size) <= MAX_WQ_SIZE;
            let mut is_free = |ring: Range<u64>| {
                let is_memory = ring.start >= self.fresh.start && ring.end <= self.next;
                let frame = ring.start / self.page_bytes * self.page_bytes;
                let is_own = is_memory && !frames.contains_key(&frame);
                is_own && ring.start % (ring.end - ring.start) == 0 && {
                    lines(ring).all(|line| taken.insert(line))
                }
            };
            require(is_size && rings.ranges().into_iter().all(&mut is_free), || {
                format!("unused[{at}]: {rings:x?} are no queues that are free")
            })?;
        }
        Ok(())
    }

    /// Physical addresses of the node's pages that the program has or gave back, and the virtual ones of those it has:
    /// none is twice there.
    fn frames(&self) -> Result<HashMap<u64, Option<u64>>, String> {
        let (mut frames, mut last) = (HashMap::new(), None);
        let is_given = |frame| self.lent.as_ref().is_some_and(|lent| lent.has_given(frame));
        let is_frame = |frame: u64| {
            let within = frame >= self.fresh.start && frame + self.page_bytes <= self.next;
            frame % self.page_bytes == 0 && (within || is_given(frame))
        };
        for (at, &(address, phys, _)) in self.pages.iter().enumerate() {
            let part = address % self.page_bytes;
            let frame = phys.checked_sub(part).filter(|&frame| is_frame(frame.min(MOST)));
            let page = (address - part, frame);
            // The parts of one page of the node follow each other.
            let is_next = last.is_none_or(|(before, (whole, its_frame))| {
                address > before && (whole != page.0 || its_frame == frame)
            });
            let is_own = frame
                .is_some_and(|frame| *frames.entry(frame).or_insert(Some(page.0)) == Some(page.0));
            require(address % PAGE == 0 && address < TOP && is_next && is_own, || {
                format!("pages[{at}]: {address:#x} cannot be at {phys:#x}")
            })?;
            last = Some((address, page));
        }
        for (name, free) in [("free", &self.free), ("for_lists", &self.for_lists)] {
            for (at, &frame) in free.iter().enumerate() {
                require(is_frame(frame.min(MOST)) && frames.insert(frame, None).is_none(), || {
                    format!("{name}[{at}]: no free page is at {frame:#x}")
                })?;
            }
        }
        let rings = self.lent.iter().flat_map(|lent| lent.ring_pages());
        for ring in rings {
            require(frames.insert(ring, None).is_none(), || {
                format!("lent.engine: its ring is where a page is, {ring:#x}")
            })?;
        }
        Ok(frames)
    }

    /// Physical addresses of the pages with queues, of which the program has no page of the node in these frames. All
    /// pages but those of the program are checked.
    fn rings(&self, frames: &HashMap<u64, Option<u64>>) -> Result<HashSet<u64>, String> {
        let mut virt: HashSet<u64> = self.pages.iter().map(|&(address, ..)| address).collect();
        for (at, &(address, phys, _)) in self.queues.iter().enumerate() {
            let is_page = address % PAGE == 0 && address < TOP && virt.insert(address);
            // Those of interfaces in tiles are before all that the program gets.
            let is_memory = phys % PAGE == 0 && phys < self.next;
            let frame = phys / self.page_bytes * self.page_bytes;
            require(is_page && is_memory && !frames.contains_key(&frame), || {
                format!("queues[{at}]: {address:#x} cannot be at {phys:#x}")
            })?;
        }
        let mut segment = HashSet::new();
        for (at, &(address, phys, _)) in self.segment.iter().enumerate() {
            let is_page = address % PAGE == 0 && address < TOP && virt.insert(address);
            let is_place =
                phys % PAGE == 0 && (SEGMENT..MOST).contains(&phys) && segment.insert(phys);
            require(is_page && is_place, || {
                format!("segment[{at}]: {address:#x} cannot be at {phys:#x}")
            })?;
        }
        let of_others = self.lent.iter().flat_map(|lent| lent.pages());
        for (at, &(address, ..)) in of_others.enumerate() {
            let is_page = address % PAGE == 0 && address < TOP && virt.insert(address);
            require(is_page, || format!("lent.pages[{at}]: no page is free at {address:#x}"))?;
        }
        for (at, &(address, bytes)) in self.spare.iter().enumerate() {
            let is_range = (address | bytes) % PAGE == 0 && address < TOP && bytes <= MOST_SPARE;
            let is_free = is_range && pages::pages(address, bytes).all(|page| virt.insert(page));
            require(is_free, || format!("spare[{at}]: has a page with memory at {address:#x}"))?;
        }
        Ok(self.queues.iter().map(|&(_, phys, _)| phys).collect())
    }

    fn contents<'a>(&'a self, contents: &'a [u8]) -> impl Iterator<Item = (u64, &'a [u8])> {
        self.places.iter().copied().zip(pack::pages(contents))
    }

    fn keep(&self, contents: &[u8], pages: &mut Pages, chip: &mut Chip) -> Checked {
        let frames = self.frames()?;
        let rings = self.rings(&frames)?;
        for &(address, phys, permissions) in &self.pages {
            chip.wires.mmu.set(address, Some(Page { phys, permissions }));
        }
        pages.driver.restore(self.next, &self.unused, &self.for_lists);
        pages.free.clone_from(&self.free);
        // What is before the tables is the network interface's, and is made anew.
        let root = pages.space.root;
        let is_kept = |phys: u64| phys >= root || rings.contains(&phys);
        for (phys, bytes) in self.contents(contents).filter(|&(phys, _)| is_kept(phys)) {
            pages::image(chip).write_bytes(phys, &pack::unpack(bytes));
        }
        let tables = pages.check_tables(chip)?;
        let in_memory = self.places.iter().filter(|&&phys| phys >= root && phys < self.fresh.end);
        let stray = in_memory.into_iter().find(|&&phys| {
            let frame = phys / self.page_bytes * self.page_bytes;
            let is_own = tables.contains(&frame) || matches!(frames.get(&frame), Some(Some(_)));
            !is_own && !rings.contains(&phys)
        });
        let unused = self.unused.iter().flat_map(Rings::ranges);
        let unused: HashSet<u64> = unused.map(|ring| ring.start / PAGE * PAGE).collect();
        let is_ring = |table| {
            let mut parts = (0..self.page_bytes / PAGE).map(|at| table + at * PAGE);
            parts.any(|part| rings.contains(&part) || unused.contains(&part))
        };
        let mut tables = tables.iter();
        let shared = tables.find(|&table| frames.contains_key(table) || is_ring(*table));
        let of_others = self.lent.iter().flat_map(|lent| lent.pages());
        for &(address, phys, permissions) in
            self.queues.iter().chain(&self.segment).chain(of_others)
        {
            Pages::map_physical(chip, address, phys, PAGE, permissions);
        }
        require(stray.is_none() && shared.is_none(), || {
            format!(
                "places: a page is of a table and of the program, or of none: {stray:x?} {shared:x?}"
            )
        })
    }

    fn move_to(
        &self,
        contents: &[u8],
        fixed: &Fixed,
        pages: &mut Pages,
        chip: &mut Chip,
    ) -> Result<Places, String> {
        let mut moved = Moved::default();
        for (address, phys, permissions) in by_place(self.pages.iter().chain(&self.segment)) {
            match fixed.of_segment(address) {
                Some(place) => Pages::map_physical(chip, address, place, PAGE, permissions),
                None => pages.map(chip, address, PAGE, permissions),
            }
            if let Some(page) = chip.wires.mmu.page(address) {
                moved.pages.insert(phys / PAGE, page.phys / PAGE);
            }
        }
        self.move_queues(fixed, &mut moved, pages, chip);
        if pages.is_exhausted {
            let why =
                "memory.size_bytes: the memory of the checkpoint does not fit; give the nodes more";
            return Err(why.to_owned());
        }
        for (phys, bytes) in self.contents(contents) {
            let page = pack::unpack(bytes);
            for (line, block) in (phys / BLOCK_BYTES..).zip(page.chunks_exact(BLOCK_BYTES as usize))
            {
                // Other pages are tables, which have been made anew.
                if let Some(line) = moved.line(line) {
                    pages::image(chip).write_bytes(line * BLOCK_BYTES, block);
                }
            }
        }
        Ok(Places::Moved(moved))
    }

    /// Queues keep their order, so that those without gaps in memory have none afterwards.
    fn move_queues(&self, fixed: &Fixed, moved: &mut Moved, pages: &mut Pages, chip: &mut Chip) {
        let mut before = HashMap::new();
        for (address, phys, permissions) in by_place(self.queues.iter()) {
            before.insert(address, phys);
            if let Some(place) = fixed.of_queue(address) {
                Pages::map_physical(chip, address, place, PAGE, permissions);
                continue;
            }
            let known = moved.pages.get(&(phys / PAGE)).map(|page| page * PAGE);
            if let Some(place) = known.or_else(|| pages.frame_of_queues()) {
                Pages::map_physical(chip, address, place, PAGE, permissions);
                moved.pages.insert(phys / PAGE, place / PAGE);
            }
        }
        for (address, line) in fixed.ring_lines() {
            if let Some(phys) = before.get(&(address / PAGE * PAGE)) {
                moved.lines.insert((phys + address % PAGE) / BLOCK_BYTES, line);
            }
        }
    }
}

/// Pages by their physical addresses.
fn by_place<'a>(
    pages: impl Iterator<Item = &'a (u64, u64, Permissions)>,
) -> Vec<(u64, u64, Permissions)> {
    let mut pages: Vec<_> = pages.copied().collect();
    pages.sort_unstable_by_key(|&(address, phys, _)| (phys, address));
    pages
}

impl Places {
    /// The touches of the same pages, where they are now in memory.
    pub fn touches(&self, touches: Vec<Touch>, image: &Image) -> Vec<Touch> {
        let place = |line| match self {
            Places::Same => Some(line).filter(|&line| image.has(line)),
            Places::Moved(moved) => moved.line(line),
        };
        let at = |touch: Touch| Some(Touch { line: place(touch.line)?, ..touch });
        touches.into_iter().filter_map(at).collect()
    }
}
