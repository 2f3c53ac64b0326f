//! The device driver's work before an RMC runs (soNUMA §5.1): it lays out context table, inflight
//! transaction table, page tables, segments, local buffers and queues in the node's memory. All pages are
//! pinned; nothing of this takes simulated time.

use std::collections::HashSet;
use std::ops::Range;

use rackmem_abi::{CQ_ENTRY_BYTES, LINE_BYTES, Status, WQ_ENTRY_BYTES};
use rackmem_rmc::itt::Entry;
use rackmem_rmc::{Bounds, Rights};
use serde::{Deserialize, Serialize};

use super::common::{ITT_ENTRY_BYTES, Registers};
use super::ct::{CT_ENTRY_BYTES, Context, QP_ENTRY_BYTES, QueuePair, Segment};
use super::memory::Image;
use super::mmu::Space;
use super::page::{
    self, ACCESSED, DIRTY, Fault, Format, LEVELS, Mapping, READ, Step, USER, VALID, WRITE,
    leaf_entry, table_entry,
};
use super::spec::RmcSpec;
use crate::block::BLOCK_BYTES;

/// The driver of one node. Memory is zero where it has not written.
#[derive(Clone, Debug)]
pub struct Driver {
    format: Format,
    /// The next free byte of physical memory, and the end.
    next: u64,
    end: u64,
    registers: Registers,
    spaces: u16,
    unused: Vec<Rings>,
    for_lists: Vec<u64>,
}

/// Memory of the two queues of a queue pair that is gone.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rings {
    /// Physical address of the work queue, a multiple of its size.
    pub wq: u64,
    /// Likewise of the completion queue.
    pub cq: u64,
    /// Entries of each.
    pub size: u16,
}

impl Rings {
    /// Physical addresses of the work queue and of the completion queue: whole blocks.
    pub fn ranges(&self) -> [Range<u64>; 2] {
        let [wq_bytes, cq_bytes] = Rings::bytes(self.size);
        [self.wq..self.wq.saturating_add(wq_bytes), self.cq..self.cq.saturating_add(cq_bytes)]
    }

    /// Bytes of a work queue and of a completion queue of so many entries. Aligned to their size they are within a
    /// page, and no block is in two queues.
    fn bytes(size: u16) -> [u64; 2] {
        let entries = u64::from(size).next_power_of_two();
        [WQ_ENTRY_BYTES, CQ_ENTRY_BYTES].map(|entry| (entries * entry as u64).max(BLOCK_BYTES))
    }
}

impl Driver {
    /// Puts an empty context table of `contexts` entries and a free inflight transaction table into
    /// memory, which has these physical addresses.
    ///
    /// # Panics
    /// This and the other functions: if memory is too small.
    pub fn new(
        spec: &RmcSpec,
        memory: Range<u64>,
        contexts: u16,
        image: &mut impl Image,
    ) -> Driver {
        let (next, end) = (memory.start.next_multiple_of(spec.page_bytes), memory.end);
        let registers = Driver::registers_of(spec, memory.start, contexts);
        let mut driver = Driver {
            format: spec.format(),
            next,
            end,
            registers,
            spaces: 0,
            unused: vec![],
            for_lists: vec![],
        };
        driver.allocate(u64::from(contexts) * CT_ENTRY_BYTES, BLOCK_BYTES);
        driver.allocate(u64::from(spec.itt_entries) * ITT_ENTRY_BYTES, BLOCK_BYTES);
        for ctx_id in 0..contexts {
            driver.write_context(ctx_id, &Context::NONE, image);
        }
        for tid in 0..spec.itt_entries {
            let address = driver.registers.itt_base + u64::from(tid) * ITT_ENTRY_BYTES;
            write_words(image, address, &Entry::free(tid).words());
        }
        driver
    }

    /// Memory that a driver takes from the start, whole pages and all, of which the address space of a process is one.
    pub fn least_bytes(spec: &RmcSpec, contexts: u16) -> u64 {
        let tables = u64::from(contexts) * CT_ENTRY_BYTES
            + u64::from(spec.itt_entries) * ITT_ENTRY_BYTES
            + 2 * BLOCK_BYTES;
        tables.next_multiple_of(spec.page_bytes) + 2 * spec.page_bytes
    }

    /// Values for the base registers of an RMC whose driver has memory from `first` on: the context table, and the
    /// inflight transaction table behind it.
    pub fn registers_of(spec: &RmcSpec, first: u64, contexts: u16) -> Registers {
        let ct_base = first.next_multiple_of(spec.page_bytes);
        let itt_base =
            (ct_base + u64::from(contexts) * CT_ENTRY_BYTES).next_multiple_of(BLOCK_BYTES);
        Registers { ct_base, ct_entries: contexts, itt_base }
    }

    /// Values for the RMC's base registers.
    pub const fn registers(&self) -> Registers {
        self.registers
    }

    /// A new address space, with nothing in it.
    pub fn new_space(&mut self) -> Space {
        self.spaces += 1;
        let page = self.format.page_bytes();
        Space { asid: self.spaces, root: self.allocate(page, page) }
    }

    /// The part of physical memory that has not been allocated.
    pub const fn free(&self) -> Range<u64> {
        self.next..self.end
    }

    /// Memory of queue pairs that are gone, for others of the same size.
    pub fn unused(&self) -> &[Rings] {
        &self.unused
    }

    /// Pages of zeros for lists of queue pairs, if these are made anew: of those that there are, and of others.
    pub fn pages_for_lists(&self, image: &impl Image) -> Vec<u64> {
        let contexts =
            (0..self.registers.ct_entries).map(|ctx_id| self.read_context(ctx_id, image));
        let lists = contexts.map(|context| context.list).filter(|&list| list != 0);
        lists.chain(self.for_lists.iter().copied()).collect()
    }

    /// Goes on from a state in which what is before `next` was allocated, of which queues and pages for lists are
    /// unused.
    pub fn restore(&mut self, next: u64, unused: &[Rings], for_lists: &[u64]) {
        self.next = next;
        self.unused = unused.to_vec();
        self.for_lists = for_lists.to_vec();
    }

    /// Bytes of physical memory that are left.
    pub const fn free_bytes(&self) -> u64 {
        self.end - self.next
    }

    /// Physical memory of so many bytes, aligned.
    pub fn allocate(&mut self, bytes: u64, align: u64) -> u64 {
        let at = self.next.next_multiple_of(align);
        self.next = at + bytes;
        assert!(self.next <= self.end, "{bytes} bytes do not fit into the node's memory");
        at
    }

    /// Maps a page of `level` (0 = the lowest) and makes the tables above it.
    ///
    /// # Panics
    /// If an address is not aligned to the page's size or a larger page is in the way.
    pub fn map(
        &mut self,
        space: Space,
        virt: u64,
        phys: u64,
        level: u32,
        rights: Rights,
        image: &mut impl Image,
    ) {
        let bytes = self.format.leaf_bytes(level);
        assert!(virt % bytes == 0 && phys % bytes == 0, "pages are aligned to their size");
        assert!(self.format.is_user(virt), "no application has address {virt:#x}");
        let entry = leaf_entry(phys, leaf_bits(rights));
        let address = self.table(space.root, virt, level, image);
        image.write(address, entry);
    }

    /// Takes a page of `level` away. The RMC has to be told: `Rmc::invalidate_translations`.
    pub fn unmap(&mut self, space: Space, virt: u64, level: u32, image: &mut impl Image) {
        let address = self.table(space.root, virt, level, image);
        image.write(address, 0);
    }

    /// The translation of an address, by a walk in software.
    ///
    /// # Errors
    /// [`Fault`] if there is none.
    pub fn walk(&self, space: Space, virt: u64, image: &impl Image) -> Result<Mapping, Fault> {
        page::walk(self.format, space.root, virt, |address| image.read(address))
    }

    /// All mappings of an address space, ascending, and the physical addresses of its tables, of which those below the
    /// root are in that range of memory.
    ///
    /// # Errors
    /// [`Fault`] if an entry is none, or a table has two places.
    pub fn tables(
        &self,
        space: Space,
        within: Range<u64>,
        image: &impl Image,
    ) -> Result<(Vec<Mapping>, HashSet<u64>), Fault> {
        let mut found = (Vec::new(), HashSet::from([space.root]));
        self.collect((space.root, LEVELS - 1, 0), &within, image, &mut found)?;
        Ok(found)
    }

    fn collect(
        &self,
        (table, level, from): (u64, u32, u64),
        within: &Range<u64>,
        image: &impl Image,
        found: &mut (Vec<Mapping>, HashSet<u64>),
    ) -> Result<(), Fault> {
        let page = self.format.page_bytes();
        for index in 0..page / 8 {
            let (entry, virt) =
                (image.read(table + index * 8), from + index * self.format.leaf_bytes(level));
            if entry == 0 {
                continue;
            }
            match self.format.step(entry, level, virt)? {
                Step::Leaf(mapping) => found.0.push(mapping),
                Step::Table(next) => {
                    let is_there = within.contains(&next) && within.end - next >= page;
                    if !is_there || !found.1.insert(next) {
                        return Err(Fault);
                    }
                    self.collect((next, level - 1, virt), within, image, found)?;
                }
            }
        }
        Ok(())
    }

    /// The mapping of a page of the lowest level, as [`Driver::map`] makes it.
    pub const fn mapping(&self, virt: u64, (phys, rights): (u64, Rights)) -> Mapping {
        let shift = self.format.page_bytes().trailing_zeros();
        Mapping { virt, phys, shift, bits: leaf_bits(rights) | VALID }
    }

    /// Opens this node's segment of a context: `bytes` bytes from `base` on, which are mapped.
    ///
    /// # Panics
    /// If `base` is not a multiple of 64, so that lines of the segment would not be blocks of
    /// memory, or the table has no such context.
    pub fn open(
        &mut self,
        ctx_id: u16,
        space: Space,
        base: u64,
        bytes: u64,
        image: &mut impl Image,
    ) {
        assert!(base % LINE_BYTES as u64 == 0, "a segment begins at a line");
        let segment = Segment { base, bounds: Bounds { size_bytes: bytes } };
        self.join(ctx_id, space, Ok(segment), image);
    }

    /// Joins a context without a segment on this node; requests for it end with `status`.
    pub fn join(
        &mut self,
        ctx_id: u16,
        space: Space,
        segment: Result<Segment, Status>,
        image: &mut impl Image,
    ) {
        let old = self.read_context(ctx_id, image);
        self.write_context(ctx_id, &Context { segment, space, ..old }, image);
    }

    /// Makes the queues of a queue pair and enters it into the list of its context. What it returns goes into the
    /// RMC's registers. `None` if there is no room: in the list, which is a page, or in memory.
    ///
    /// Queues of one that is gone are used again if they `are_quiet`: the RMC stores nothing there any more. The
    /// caller has to clear them, as caches may know them.
    pub fn add_queues(
        &mut self,
        ctx_id: u16,
        (size, rights): (u16, Rights),
        are_quiet: impl Fn(&Rings) -> bool,
        image: &mut impl Image,
    ) -> Option<QueuePair> {
        let fits = |rings: &Rings| rings.size == size && are_quiet(rings);
        let unused = self.unused.iter().position(fits);
        // Two rings of a page at most, each aligned to its size.
        let needed = if unused.is_some() { 0 } else { 4 * self.format.page_bytes() };
        let place = self.place_in_list(ctx_id, needed, image)?;
        let rings = match unused {
            Some(at) => self.unused.swap_remove(at),
            None => {
                let [wq, cq] = Rings::bytes(size).map(|bytes| self.allocate(bytes, bytes));
                Rings { wq, cq, size }
            }
        };
        let queues = QueuePair { wq: rings.wq, cq: rings.cq, size, rights };
        write_words(image, place, &queues.encode());
        Some(queues)
    }

    /// Enters a queue pair whose queues are there already into the list of its context; `false` if there is no room.
    pub fn list_queues(&mut self, ctx_id: u16, queues: &QueuePair, image: &mut impl Image) -> bool {
        let place = self.place_in_list(ctx_id, 0, image);
        place.inspect(|&place| write_words(image, place, &queues.encode())).is_some()
    }

    /// Takes a queue pair, which the RMC has forgotten, off the list of its context. Entry and queues are for others.
    ///
    /// # Panics
    /// If it is not there.
    pub fn remove_queues(&mut self, ctx_id: u16, queues: &QueuePair, image: &mut impl Image) {
        let context = self.read_context(ctx_id, image);
        let mut places = Driver::places(&context);
        let place = places.find(|&place| read_words(image, place) == queues.encode());
        write_words(image, place.expect("a queue pair of the list"), &[0; 4]);
        let rings = Rings { wq: queues.wq, cq: queues.cq, size: queues.size };
        // Those that came from interfaces in tiles are not as others have them, and stay nobody's.
        if rings.ranges().iter().all(|ring| ring.start % (ring.end - ring.start) == 0) {
            self.unused.push(rings);
        }
    }

    /// Physical address of a free entry of a context's list of queue pairs. `None` if there is no room for it, or for
    /// so many bytes besides.
    fn place_in_list(&mut self, ctx_id: u16, besides: u64, image: &mut impl Image) -> Option<u64> {
        let page = self.format.page_bytes();
        let mut context = self.read_context(ctx_id, image);
        let list_bytes = if context.list == 0 { 2 * page } else { 0 };
        if self.free_bytes() < besides + list_bytes {
            return None;
        }
        let mut places = Driver::places(&context);
        if let Some(free) = places.find(|&place| !QueuePair::is_in(&read_words(image, place))) {
            return Some(free);
        }
        let end = u64::from(context.queue_pairs) * QP_ENTRY_BYTES;
        if end >= page {
            return None;
        }
        if context.list == 0 {
            context.list = self.for_lists.pop().unwrap_or_else(|| self.allocate(page, page));
        }
        context.queue_pairs += 1;
        self.write_context(ctx_id, &context, image);
        Some(context.list + end)
    }

    /// Physical addresses of the entries of a context's list.
    fn places(context: &Context) -> impl Iterator<Item = u64> + use<> {
        let list = context.list;
        (0..u64::from(context.queue_pairs)).map(move |entry| list + entry * QP_ENTRY_BYTES)
    }

    /// The end of requests for a context, unless this node has a segment of it.
    pub fn status(&self, ctx_id: u16, image: &impl Image) -> Option<Status> {
        self.read_context(ctx_id, image).segment.err()
    }

    /// Physical address of the entry for `virt` in its table of `level`, with the tables above.
    fn table(&mut self, root: u64, virt: u64, level: u32, image: &mut impl Image) -> u64 {
        let page = self.format.page_bytes();
        let mut table = root;
        for above in ((level + 1)..LEVELS).rev() {
            let address = self.format.entry_address(table, above, virt);
            let entry = image.read(address);
            table = if entry & VALID == 0 {
                let next = self.allocate(page, page);
                image.write(address, table_entry(next));
                next
            } else {
                match self.format.step(entry, above, virt) {
                    Ok(Step::Table(next)) => next,
                    _ => panic!("a larger page is at {virt:#x}"),
                }
            };
        }
        self.format.entry_address(table, level, virt)
    }

    fn read_context(&self, ctx_id: u16, image: &impl Image) -> Context {
        let address = self.context_address(ctx_id);
        Context::decode(&read_words(image, address))
    }

    fn write_context(&self, ctx_id: u16, context: &Context, image: &mut impl Image) {
        write_words(image, self.context_address(ctx_id), &context.encode());
    }

    fn context_address(&self, ctx_id: u16) -> u64 {
        assert!(ctx_id < self.registers.ct_entries, "the table has no context {ctx_id}");
        self.registers.ct_base + u64::from(ctx_id) * CT_ENTRY_BYTES
    }
}

/// The bits of a leaf for an application that may do so much.
const fn leaf_bits(rights: Rights) -> u64 {
    let writes = if matches!(rights, Rights::ReadWrite) { WRITE | DIRTY } else { 0 };
    READ | USER | ACCESSED | writes
}

fn read_words<const WORDS: usize>(image: &impl Image, address: u64) -> [u64; WORDS] {
    std::array::from_fn(|word| image.read(address + word as u64 * 8))
}

fn write_words(image: &mut impl Image, address: u64, words: &[u64]) {
    for (address, word) in (address..).step_by(8).zip(words) {
        image.write(address, *word);
    }
}
