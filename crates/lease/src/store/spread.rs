//! Several leases side by side: the address map says which of them has which bytes.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use once_cell::race::OnceBox;
use rackmem::shm::mapping::PAGE_BYTES;
use rackmem_rmc::amt::{Amt, Refused, SlotId, Target};

use super::queue::Queue;
use super::window::Window;
use super::{Lane, MAX_REQUEST_BYTES, Store};
use crate::error::{Error, Result};

/// Entries of a borrower's address map, and so pieces of a copy (DE-07). The papers name no number; a lookup in one
/// cycle can compare sixteen side by side.
pub const AMT_ENTRIES: usize = 16;

/// The address map of a window and the leases that it leads to; shared by the store, its lanes, and the borrower's
/// books, which take and give back slots.
#[derive(Debug)]
pub(crate) struct Map {
    size_bytes: u64,
    amt: Mutex<Amt>,
    /// Counts changes of the map, so that lanes look at it only then.
    changes: AtomicU32,
    /// Name of the lender whose block was mapped and is no more, and the reason.
    over: OnceBox<(String, String)>,
}

impl Map {
    /// An empty map of so many addresses.
    pub fn new(size_bytes: u64) -> Map {
        let amt = Mutex::new(Amt::new(AMT_ENTRIES as u16, 0, size_bytes));
        Map { size_bytes, amt, changes: AtomicU32::new(0), over: OnceBox::new() }
    }

    /// Whether everything that was mapped still is.
    fn check(&self) -> Result<()> {
        if self.over.get().is_none() { Ok(()) } else { Err(self.error()) }
    }

    #[cold]
    fn error(&self) -> Error {
        let nobody = || ("a lender".to_owned(), "it has ended the lease".to_owned());
        let (lender, reason) = self.over.get().cloned().unwrap_or_else(nobody);
        Error::Lost { lender, reason }
    }

    fn change<T>(&self, change: impl FnOnce(&mut Amt) -> T) -> T {
        let mut amt = self.amt.lock().unwrap_or_else(PoisonError::into_inner);
        let result = change(&mut amt);
        self.changes.fetch_add(1, Ordering::Release);
        result
    }

    /// Takes the next block of addresses and a slot; its lender is about to be asked. Returns where
    /// the block begins.
    pub fn reserve(&self, size_bytes: u64) -> std::result::Result<(SlotId, u64), Refused> {
        self.change(|amt| {
            let id = amt.reserve(size_bytes, PAGE_BYTES as u64)?;
            amt.ask(id)?;
            Ok((id, amt.get(id).map_or(0, |slot| slot.base)))
        })
    }

    /// Maps a block: `node` is the piece that has it.
    pub fn grant(&self, id: SlotId, node: u16, base: u64) -> std::result::Result<(), Refused> {
        self.change(|amt| amt.grant(id, Target { destination: node, address: base }))
    }

    /// A block that was mapped, or was to be, is so no more.
    pub fn end(&self, id: SlotId, lender: &str, reason: &str) {
        let _ = self.over.set(Box::new((lender.to_owned(), reason.to_owned())));
        self.change(|amt| {
            if amt.release(id).is_ok() {
                let _ = amt.free(id);
            } else {
                let _ = amt.cancel(id);
            }
        });
    }

    fn copy(&self) -> (u32, Amt) {
        let amt = self.amt.lock().unwrap_or_else(PoisonError::into_inner);
        (self.changes.load(Ordering::Acquire), amt.clone())
    }
}

/// A lease in a spread.
#[derive(Clone)]
pub(crate) struct Piece {
    /// First address, as its lender counts.
    pub remote_base: u64,
    /// Its bytes.
    pub store: Arc<dyn Store>,
}

/// Leases side by side.
#[derive(Clone)]
pub struct SpreadStore {
    map: Arc<Map>,
    /// By the destination of slots.
    pieces: Arc<[Piece]>,
    /// If all of them are mapped in it.
    window: Option<Arc<Window>>,
}

impl SpreadStore {
    /// The pieces, each at its place in the map.
    pub(crate) fn new(
        map: Arc<Map>,
        pieces: Vec<Piece>,
        window: Option<Arc<Window>>,
    ) -> SpreadStore {
        SpreadStore { map, pieces: pieces.into(), window }
    }
}

impl Store for SpreadStore {
    fn size_bytes(&self) -> u64 {
        self.map.size_bytes
    }

    fn lane(&self) -> Result<Box<dyn Lane>> {
        self.check()?;
        let lanes = self.pieces.iter().map(|piece| piece.store.lane());
        let lanes = lanes.collect::<Result<Vec<_>>>()?;
        let (changes, amt) = self.map.copy();
        Ok(Box::new(SpreadLane {
            map: self.map.clone(),
            blocks: self
                .pieces
                .iter()
                .map(|piece| (piece.remote_base, piece.store.size_bytes()))
                .collect(),
            lanes,
            changes,
            amt,
            queue: Queue::new(),
        }))
    }

    fn mapped(&self) -> Option<*mut u8> {
        self.window.as_ref().map(|window| window.base())
    }

    fn check(&self) -> Result<()> {
        self.map.check()?;
        // A lane may notice before the thread that watches the lender does.
        self.pieces.iter().try_for_each(|piece| piece.store.check())
    }

    fn fence(&self) -> Result<()> {
        self.pieces.iter().try_for_each(|piece| piece.store.fence())
    }
}

/// The parts of a request: pieces and bytes, in order.
#[derive(Clone, Copy, Debug)]
struct Parts {
    count: u8,
    parts: [(u8, u32); AMT_ENTRIES],
}

struct SpreadLane {
    map: Arc<Map>,
    /// Of each piece the first address, as its lender counts, and the size.
    blocks: Vec<(u64, u64)>,
    lanes: Vec<Box<dyn Lane>>,
    changes: u32,
    amt: Amt,
    queue: Queue<Parts>,
}

impl SpreadLane {
    /// Splits a range, and asks each piece for its part: `ask` gets the lane, the offset in its
    /// lease, and the part's range within the request.
    fn split(
        &mut self,
        offset: u64,
        length: u64,
        mut ask: impl FnMut(&mut dyn Lane, u64, u64, u64) -> Result<()>,
    ) -> Result<Parts> {
        if self.map.changes.load(Ordering::Acquire) != self.changes {
            (self.changes, self.amt) = self.map.copy();
        }
        let size_bytes = self.map.size_bytes;
        if offset.checked_add(length).is_none_or(|end| end > size_bytes) {
            return Err(Error::OutOfRange { offset, length, size_bytes });
        }
        self.map.check()?;
        let mut parts = Parts { count: 0, parts: [(0, 0); AMT_ENTRIES] };
        let mut done = 0;
        while done < length {
            let hit = self.amt.lookup(offset + done, 1).map_err(|_| self.map.error())?;
            let (base, size_bytes) = self.blocks[usize::from(hit.destination)];
            let at = hit.address - base;
            let part = (size_bytes - at).min(length - done);
            ask(&mut *self.lanes[usize::from(hit.destination)], at, done, part)?;
            parts.parts[usize::from(parts.count)] = (hit.destination as u8, part as u32);
            parts.count += 1;
            done += part;
        }
        Ok(parts)
    }
}

impl Lane for SpreadLane {
    fn ask_read(&mut self, offset: u64, length: usize) -> Result<()> {
        assert!(length <= MAX_REQUEST_BYTES);
        let parts = self.split(offset, length as u64, |lane, at, _, length| {
            lane.ask_read(at, length as usize)
        })?;
        self.queue.push_read(offset, length, parts);
        Ok(())
    }

    fn ask_write(&mut self, offset: u64, from: &[u8]) -> Result<()> {
        assert!(from.len() <= MAX_REQUEST_BYTES);
        let parts = self.split(offset, from.len() as u64, |lane, at, done, length| {
            lane.ask_write(at, &from[done as usize..(done + length) as usize])
        })?;
        self.queue.push_other(parts);
        Ok(())
    }

    fn ask_discard(&mut self, offset: u64, length: u64) -> Result<()> {
        let parts =
            self.split(offset, length, |lane, at, _, length| lane.ask_discard(at, length))?;
        self.queue.push_other(parts);
        Ok(())
    }

    fn push(&mut self) -> Result<()> {
        self.lanes.iter_mut().try_for_each(|lane| lane.push())
    }

    fn take(&mut self, into: &mut [u8]) -> Result<()> {
        let (_, _, is_read, _, parts) = self.queue.get(0).expect("something is outstanding");
        let lanes = &mut self.lanes;
        let mut take = |mut into: &mut [u8]| {
            for &(node, length) in &parts.parts[..usize::from(parts.count)] {
                let length = if is_read { length as usize } else { 0 };
                let (part, rest) = into.split_at_mut(length);
                lanes[usize::from(node)].take(part)?;
                into = rest;
            }
            Ok(())
        };
        self.queue.take(into, |_, _, into| take(into))?;
        self.map.check()
    }

    fn reopen(&mut self) -> Result<()> {
        self.queue.clear();
        self.map.check()?;
        self.lanes.iter_mut().try_for_each(|lane| lane.reopen())
    }

    fn is_ready(&mut self) -> bool {
        let Some((_, _, _, _, parts)) = self.queue.get(0) else { return false };
        let parts = &parts.parts[..usize::from(parts.count)];
        parts.iter().all(|&(node, _)| self.lanes[usize::from(node)].is_ready())
    }

    fn outstanding(&self) -> usize {
        self.queue.len()
    }
}
