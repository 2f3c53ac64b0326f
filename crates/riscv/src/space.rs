//! The address space of a program: pages with permissions, sparse, zero until they are written.

mod table;

use core::fmt;

use serde::{Deserialize, Serialize};

use table::{Entry, PageTable};

use crate::kernel::UserMemory;

/// Bytes of a page.
pub const PAGE: u64 = 4096;

/// The first address that programs cannot have: 2^47, half of the range of Sv48.
pub const TOP: u64 = 1 << 47;

/// Accesses that a page permits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Permissions {
    /// Loads.
    pub read: bool,
    /// Stores and atomics.
    pub write: bool,
    /// Instruction fetches.
    pub execute: bool,
}

impl Permissions {
    /// Nothing: a guard page.
    pub const NONE: Permissions = Permissions { read: false, write: false, execute: false };
    /// Data.
    pub const READ_WRITE: Permissions = Permissions { read: true, write: true, execute: false };
}

/// Kinds of accesses to a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Wanted {
    /// Load.
    Read,
    /// Store or atomic.
    Write,
    /// Instruction fetch.
    Execute,
}

/// Causes of a [`Fault`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Cause {
    /// Nothing is mapped there.
    Unmapped,
    /// The page does not permit it.
    Forbidden,
    /// An atomic whose address is not a multiple of its size.
    Misaligned,
    /// The memory does not support the access: an atomic, or one of two lines.
    NotMemory,
    /// The page has no memory yet, and there is none left.
    Exhausted,
}

/// An access that the address space does not allow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Fault {
    /// The first byte that could not be reached.
    pub address: u64,
    /// Load, store or fetch.
    pub wanted: Wanted,
    /// Whether the page is missing or forbids it.
    pub cause: Cause,
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match (self.wanted, self.cause) {
            (_, Cause::Misaligned) => return write!(f, "misaligned atomic at {:#x}", self.address),
            (Wanted::Read, _) => "load from",
            (Wanted::Write, _) => "store to",
            (Wanted::Execute, _) => "instruction fetch from",
        };
        let why = match (self.cause, self.wanted) {
            (Cause::Unmapped, _) => "nothing is mapped there",
            (Cause::Exhausted, _) => "the machine's memory is full",
            (Cause::NotMemory, _) => "it takes no atomics, and nothing beyond the end of a line",
            (_, Wanted::Read) => "the page may not be read",
            (_, Wanted::Write) => "the page may not be written",
            (_, Wanted::Execute) => "the page holds no code",
        };
        write!(f, "{what} {:#x}: {why}", self.address)
    }
}

impl core::error::Error for Fault {}

type Frame = [u8; PAGE as usize];

/// Frame of every page that was never written: it reads as zeros.
const ZERO_FRAME: u32 = 0;

/// Entries of each translation cache; a power of two.
const TLB_ENTRIES: usize = 1024;

/// One cached translation. Page number `u64::MAX` is none.
#[derive(Clone, Copy)]
struct Cached {
    page: u64,
    frame: u32,
}

const NOT_CACHED: Cached = Cached { page: u64::MAX, frame: 0 };

/// Memory of a program.
///
/// Data lives in frames that pages get when they are first written. Two direct-mapped caches of
/// translations, one for loads and one for stores, keep the page table out of the usual access.
pub struct AddressSpace {
    frames: Vec<Frame>,
    /// Frames that programs may use, at most.
    most_frames: usize,
    free: Vec<u32>,
    table: PageTable,
    code_version: u64,
    loads: Box<[Cached; TLB_ENTRIES]>,
    stores: Box<[Cached; TLB_ENTRIES]>,
}

impl Default for AddressSpace {
    fn default() -> Self {
        Self::new()
    }
}

impl AddressSpace {
    /// An address space with nothing in it.
    pub fn new() -> AddressSpace {
        AddressSpace {
            frames: vec![[0; PAGE as usize]],
            most_frames: usize::MAX,
            free: Vec::new(),
            table: PageTable::default(),
            code_version: 0,
            loads: Box::new([NOT_CACHED; TLB_ENTRIES]),
            stores: Box::new([NOT_CACHED; TLB_ENTRIES]),
        }
    }

    /// Lets the program map and write to so many bytes, in whole pages; more is a fault.
    pub fn limit(&mut self, bytes: u64) {
        self.most_frames = usize::try_from(bytes / PAGE).unwrap_or(usize::MAX);
    }

    /// Bytes of memory that have been written to, in whole pages.
    pub fn resident(&self) -> u64 {
        (self.frames.len() - 1 - self.free.len()) as u64 * PAGE
    }

    /// All pages in ascending order: addresses, permissions, and the contents of those that have been
    /// written to. For drivers that keep memory elsewhere and load programs through here.
    pub fn pages(&self) -> impl Iterator<Item = (u64, Permissions, Option<&[u8; PAGE as usize]>)> {
        self.table.iter().map(|(page, entry)| {
            let is_written = entry.frame() != ZERO_FRAME;
            let content = is_written.then(|| &self.frames[entry.frame() as usize]);
            (page * PAGE, entry.permissions(), content)
        })
    }

    /// A number that changes whenever pages with code come, go or change, except by stores: then
    /// instructions decoded from them are void.
    pub fn code_version(&self) -> u64 {
        self.code_version
    }

    /// Maps zeroed pages over whatever was there. Both ends are rounded to pages.
    ///
    /// # Panics
    /// If the range does not end below [`TOP`].
    pub fn map(&mut self, address: u64, length: u64, permissions: Permissions) {
        self.unmap(address, length);
        for page in pages(address, length) {
            self.table.set(page, Entry::new(ZERO_FRAME, permissions));
        }
        self.code_version += u64::from(permissions.execute);
    }

    /// Takes pages away; those that are not mapped do not matter.
    pub fn unmap(&mut self, address: u64, length: u64) {
        for page in pages(address, length) {
            if let Some(entry) = self.table.get(page) {
                self.code_version += u64::from(entry.permissions().execute);
                self.release(entry.frame());
                self.table.clear(page);
            }
        }
        self.forget_translations();
    }

    /// Changes permissions. `false` if a page of the range is not mapped; those before it are
    /// changed.
    pub fn protect(&mut self, address: u64, length: u64, permissions: Permissions) -> bool {
        self.forget_translations();
        for page in pages(address, length) {
            let Some(entry) = self.table.get(page) else { return false };
            let was_code = entry.permissions().execute;
            self.code_version += u64::from(was_code || permissions.execute);
            self.table.set(page, Entry::new(entry.frame(), permissions));
        }
        true
    }

    /// Makes mapped pages read as zeros again.
    pub fn discard(&mut self, address: u64, length: u64) {
        self.forget_translations();
        for page in pages(address, length) {
            if let Some(entry) = self.table.get(page) {
                self.code_version += u64::from(entry.permissions().execute);
                self.release(entry.frame());
                self.table.set(page, Entry::new(ZERO_FRAME, entry.permissions()));
            }
        }
    }

    /// The permissions of the page at `address`, `None` if it is not mapped.
    pub fn permissions(&self, address: u64) -> Option<Permissions> {
        self.table.get(address / PAGE).map(Entry::permissions)
    }

    fn release(&mut self, frame: u32) {
        if frame != ZERO_FRAME {
            self.free.push(frame);
        }
    }

    fn forget_translations(&mut self) {
        self.loads.fill(NOT_CACHED);
        self.stores.fill(NOT_CACHED);
    }

    /// Loads `size` bytes, 1, 2, 4 or 8, at any alignment.
    #[inline(always)]
    pub fn load(&mut self, address: u64, size: u8) -> Result<u64, Fault> {
        let (page, offset) = (address / PAGE, (address % PAGE) as usize);
        let cached = self.loads[page as usize % TLB_ENTRIES];
        if cached.page == page && offset <= PAGE as usize - size as usize {
            return Ok(number(&self.frames[cached.frame as usize][offset..], size));
        }
        self.load_slowly(address, size)
    }

    #[inline(never)]
    fn load_slowly(&mut self, address: u64, size: u8) -> Result<u64, Fault> {
        let offset = (address % PAGE) as usize;
        if offset <= PAGE as usize - size as usize {
            let frame = self.frame_to_read(address)?;
            return Ok(number(&self.frames[frame as usize][offset..], size));
        }
        let mut bytes = [0; 8];
        self.read(address, &mut bytes[..size as usize])?;
        Ok(u64::from_le_bytes(bytes))
    }

    /// Stores the low `size` bytes of `data`, 1, 2, 4 or 8, at any alignment.
    #[inline(always)]
    pub fn store(&mut self, address: u64, size: u8, data: u64) -> Result<(), Fault> {
        let (page, offset) = (address / PAGE, (address % PAGE) as usize);
        let cached = self.stores[page as usize % TLB_ENTRIES];
        if cached.page == page && offset <= PAGE as usize - size as usize {
            put(&mut self.frames[cached.frame as usize][offset..], size, data);
            return Ok(());
        }
        self.store_slowly(address, size, data)
    }

    #[inline(never)]
    fn store_slowly(&mut self, address: u64, size: u8, data: u64) -> Result<(), Fault> {
        let offset = (address % PAGE) as usize;
        if offset <= PAGE as usize - size as usize {
            let frame = self.frame_to_write(address)?;
            put(&mut self.frames[frame as usize][offset..], size, data);
            return Ok(());
        }
        self.write(address, &data.to_le_bytes()[..size as usize])
    }

    /// Copies memory to `bytes`. Nothing is promised about them if it fails.
    pub fn read(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), Fault> {
        let mut done = 0;
        for (at, length) in in_pages(address, bytes.len()) {
            let frame = self.frame_to_read(at)?;
            let offset = (at % PAGE) as usize;
            bytes[done..done + length]
                .copy_from_slice(&self.frames[frame as usize][offset..offset + length]);
            done += length;
        }
        Ok(())
    }

    /// Copies `bytes` to memory: all of them, or none.
    pub fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Fault> {
        for (at, _) in in_pages(address, bytes.len()) {
            self.check(at, Wanted::Write)?;
        }
        let mut done = 0;
        for (at, length) in in_pages(address, bytes.len()) {
            let frame = self.frame_to_write(at)?;
            let offset = (at % PAGE) as usize;
            self.frames[frame as usize][offset..offset + length]
                .copy_from_slice(&bytes[done..done + length]);
            done += length;
        }
        Ok(())
    }

    /// Copies `bytes` to mapped memory whatever its permissions: for loaders.
    ///
    /// # Panics
    /// If a page is not mapped.
    pub fn install(&mut self, address: u64, bytes: &[u8]) {
        let mut done = 0;
        for (at, length) in in_pages(address, bytes.len()) {
            let entry = self.table.get(at / PAGE).expect("loaders map before they install");
            let frame = self.own_frame(at / PAGE, entry);
            let offset = (at % PAGE) as usize;
            self.frames[frame as usize][offset..offset + length]
                .copy_from_slice(&bytes[done..done + length]);
            done += length;
        }
        self.code_version += 1;
        self.forget_translations();
    }

    /// Two bytes of code.
    pub fn fetch(&self, address: u64) -> Result<u16, Fault> {
        let half = |address: u64| -> Result<u8, Fault> {
            let entry = self.check(address, Wanted::Execute)?;
            Ok(self.frames[entry.frame() as usize][(address % PAGE) as usize])
        };
        Ok(u16::from_le_bytes([half(address)?, half(address.wrapping_add(1))?]))
    }

    fn check(&self, address: u64, wanted: Wanted) -> Result<Entry, Fault> {
        let fault = |cause| Fault { address, wanted, cause };
        let entry = self.table.get(address / PAGE).ok_or(fault(Cause::Unmapped))?;
        let permissions = entry.permissions();
        let permitted = match wanted {
            Wanted::Read => permissions.read,
            Wanted::Write => permissions.write,
            Wanted::Execute => permissions.execute,
        };
        if permitted { Ok(entry) } else { Err(fault(Cause::Forbidden)) }
    }

    fn frame_to_read(&mut self, address: u64) -> Result<u32, Fault> {
        let frame = self.check(address, Wanted::Read)?.frame();
        let page = address / PAGE;
        self.loads[page as usize % TLB_ENTRIES] = Cached { page, frame };
        Ok(frame)
    }

    fn frame_to_write(&mut self, address: u64) -> Result<u32, Fault> {
        let entry = self.check(address, Wanted::Write)?;
        let page = address / PAGE;
        if entry.frame() == ZERO_FRAME
            && self.free.is_empty()
            && self.frames.len() > self.most_frames
        {
            return Err(Fault { address, wanted: Wanted::Write, cause: Cause::Exhausted });
        }
        let frame = self.own_frame(page, entry);
        self.stores[page as usize % TLB_ENTRIES] = Cached { page, frame };
        Ok(frame)
    }

    /// The frame of a page that is about to be written.
    fn own_frame(&mut self, page: u64, entry: Entry) -> u32 {
        if entry.frame() != ZERO_FRAME {
            return entry.frame();
        }
        let frame = match self.free.pop() {
            Some(frame) => {
                self.frames[frame as usize].fill(0);
                frame
            }
            None => {
                self.frames.push([0; PAGE as usize]);
                (self.frames.len() - 1) as u32
            }
        };
        self.table.set(page, Entry::new(frame, entry.permissions()));
        // A load may have cached the frame of zeros.
        let cached = &mut self.loads[page as usize % TLB_ENTRIES];
        if cached.page == page {
            *cached = Cached { page, frame };
        }
        frame
    }
}

/// The first `size` bytes as a number. Sizes are distinguished here, so that none of them costs a call
/// to copy a few bytes.
#[inline(always)]
fn number(bytes: &[u8], size: u8) -> u64 {
    #[inline(always)]
    fn first<const N: usize>(bytes: &[u8]) -> [u8; N] {
        *bytes.first_chunk().expect("the access ends in the page")
    }
    match size {
        1 => first::<1>(bytes)[0].into(),
        2 => u16::from_le_bytes(first(bytes)).into(),
        4 => u32::from_le_bytes(first(bytes)).into(),
        _ => u64::from_le_bytes(first(bytes)),
    }
}

/// Puts the low `size` bytes of a number first.
#[inline(always)]
fn put(bytes: &mut [u8], size: u8, data: u64) {
    match size {
        1 => bytes[0] = data as u8,
        2 => bytes[..2].copy_from_slice(&(data as u16).to_le_bytes()),
        4 => bytes[..4].copy_from_slice(&(data as u32).to_le_bytes()),
        _ => bytes[..8].copy_from_slice(&data.to_le_bytes()),
    }
}

/// The numbers of the pages that a range touches.
fn pages(address: u64, length: u64) -> core::ops::Range<u64> {
    let end = address.checked_add(length).filter(|&end| end <= TOP);
    let end = end.expect("ranges end below the top of the address space");
    address / PAGE..end.div_ceil(PAGE)
}

/// A range cut at page boundaries: addresses and lengths.
pub(crate) fn in_pages(address: u64, length: usize) -> impl Iterator<Item = (u64, usize)> {
    let mut done = 0;
    core::iter::from_fn(move || {
        let at = address.wrapping_add(done as u64);
        let piece = (length - done).min((PAGE - at % PAGE) as usize);
        done += piece;
        (piece > 0).then_some((at, piece))
    })
}

impl UserMemory for AddressSpace {
    fn read(&mut self, address: u64, bytes: &mut [u8]) -> Result<(), Fault> {
        AddressSpace::read(self, address, bytes)
    }

    fn write(&mut self, address: u64, bytes: &[u8]) -> Result<(), Fault> {
        AddressSpace::write(self, address, bytes)
    }

    fn map(&mut self, address: u64, length: u64, permissions: Permissions) -> bool {
        AddressSpace::unmap(self, address, length);
        let wanted = pages(address, length).count();
        let fits = wanted <= self.most_frames.saturating_sub(self.table.mapped());
        if fits {
            AddressSpace::map(self, address, length, permissions);
        }
        fits
    }

    fn unmap(&mut self, address: u64, length: u64) {
        AddressSpace::unmap(self, address, length);
    }

    fn protect(&mut self, address: u64, length: u64, permissions: Permissions) -> bool {
        AddressSpace::protect(self, address, length, permissions)
    }

    fn permissions(&self, address: u64) -> Option<Permissions> {
        AddressSpace::permissions(self, address)
    }

    fn discard(&mut self, address: u64, length: u64) {
        AddressSpace::discard(self, address, length);
    }
}
