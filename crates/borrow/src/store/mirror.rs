//! Copies: writes go to all, reads to the first that lives, so that one may be lost unnoticed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::queue::Queue;
use super::{Lane, MAX_REQUEST_BYTES, Store};
use crate::error::{Error, Result};

/// Stores with the same bytes.
#[derive(Clone)]
pub struct MirrorStore {
    copies: Arc<[Copy]>,
    size_bytes: u64,
}

struct Copy {
    store: Arc<dyn Store>,
    /// It has missed a write, or may have: nobody reads it any more.
    is_lost: AtomicBool,
}

impl Copy {
    fn lives(&self) -> bool {
        if self.store.check().is_err() {
            self.is_lost.store(true, Ordering::Release);
        }
        !self.is_lost.load(Ordering::Acquire)
    }
}

impl MirrorStore {
    /// These copies, all of which are zeros.
    ///
    /// # Panics
    /// There is none, or more than eight, or they have different sizes.
    pub fn new(copies: Vec<Arc<dyn Store>>) -> MirrorStore {
        assert!((1..=8).contains(&copies.len()), "one to eight copies");
        let size_bytes = copies[0].size_bytes();
        assert!(copies.iter().all(|copy| copy.size_bytes() == size_bytes), "copies of one size");
        let copies =
            copies.into_iter().map(|store| Copy { store, is_lost: AtomicBool::new(false) });
        MirrorStore { copies: copies.collect(), size_bytes }
    }

    /// Copies that live.
    pub fn living(&self) -> usize {
        self.copies.iter().filter(|copy| copy.lives()).count()
    }

    fn error(&self) -> Error {
        match self.copies.last().map(|copy| copy.store.check()) {
            Some(Err(error)) => error,
            _ => Error::Lost {
                lender: "all lenders".to_owned(),
                reason: "no copy is left".to_owned(),
            },
        }
    }
}

impl Store for MirrorStore {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    fn lane(&self) -> Result<Box<dyn Lane>> {
        let lanes: Vec<_> = self
            .copies
            .iter()
            .map(|copy| {
                let lane = if copy.lives() { copy.store.lane().ok() } else { None };
                if lane.is_none() {
                    copy.is_lost.store(true, Ordering::Release);
                }
                lane
            })
            .collect();
        if lanes.iter().all(Option::is_none) {
            return Err(self.error());
        }
        Ok(Box::new(MirrorLane { store: self.clone(), lanes, queue: Queue::new() }))
    }

    fn check(&self) -> Result<()> {
        if self.copies.iter().any(Copy::lives) { Ok(()) } else { Err(self.error()) }
    }
}

/// Which copies were asked, a bit for each.
type Asked = u8;

struct MirrorLane {
    store: MirrorStore,
    lanes: Vec<Option<Box<dyn Lane>>>,
    queue: Queue<Asked>,
}

impl MirrorLane {
    /// The lane of a copy, if both live. A copy that another lane has lost is lost here, too.
    fn lane(&mut self, copy: usize) -> Option<&mut Box<dyn Lane>> {
        if self.store.copies[copy].lives() { self.lanes[copy].as_mut() } else { None }
    }

    fn range(&self, offset: u64, length: u64) -> Result<()> {
        self.store.check_range(offset, length)
    }

    fn lose(&mut self, copy: usize) {
        self.store.copies[copy].is_lost.store(true, Ordering::Release);
        self.lanes[copy] = None;
    }

    /// Has a copy do something; if it is lost by that, the rest goes on without it.
    fn with(&mut self, copy: usize, ask: impl FnOnce(&mut dyn Lane) -> Result<()>) -> bool {
        let Some(lane) = self.lane(copy) else {
            self.lose(copy);
            return false;
        };
        let is_done = ask(&mut **lane).is_ok();
        if !is_done {
            self.lose(copy);
        }
        is_done
    }

    /// Asks all copies that live.
    fn ask_all(&mut self, mut ask: impl FnMut(&mut dyn Lane) -> Result<()>) -> Result<()> {
        let mut asked = 0;
        for copy in 0..self.lanes.len() {
            if self.with(copy, &mut ask) {
                asked |= 1 << copy;
            }
        }
        if asked == 0 {
            return Err(self.store.error());
        }
        self.queue.push_other(asked);
        Ok(())
    }

    /// Takes all answers, into the stash. Reads of a copy that is lost are made again of another:
    /// nothing that was asked for later has changed their bytes, see `before_change`.
    fn settle(&mut self) -> Result<()> {
        for number in 0..self.queue.len() {
            self.settle_one(number)?;
        }
        for number in 0..self.queue.len() {
            let Some((offset, _, true, true, _)) = self.queue.get(number) else { continue };
            loop {
                let first = (0..self.lanes.len()).find(|&copy| self.lane(copy).is_some());
                let Some(copy) = first else { return Err(self.store.error()) };
                let into = self.queue.stash(number);
                let lane = self.lanes[copy].as_mut().expect("it was found");
                if lane.read(offset, into).is_ok() {
                    break;
                }
                self.lose(copy);
            }
        }
        Ok(())
    }

    /// Takes what the copies answer to a request; a read that was not answered stays open.
    fn settle_one(&mut self, number: usize) -> Result<()> {
        let Some((_, _, is_read, true, asked)) = self.queue.get(number) else { return Ok(()) };
        if !is_read {
            return self.take_others(asked).map(|()| {
                self.queue.stash(number);
            });
        }
        let copy = asked.trailing_zeros() as usize;
        let Some(lane) = self.lanes[copy].as_mut() else { return Ok(()) };
        let mut bytes = std::mem::take(&mut self.queue.spare);
        bytes.resize(self.queue.get(number).map_or(0, |entry| entry.1), 0);
        let taken = lane.take(&mut bytes);
        if taken.is_ok() {
            self.queue.stash(number).copy_from_slice(&bytes);
        } else {
            self.lose(copy);
        }
        self.queue.spare = bytes;
        Ok(())
    }

    /// Takes the answers to a write; one is enough.
    fn take_others(&mut self, asked: Asked) -> Result<()> {
        let mut answers = 0;
        for copy in 0..self.lanes.len() {
            let was_asked = asked >> copy & 1 == 1 && self.lanes[copy].is_some();
            if was_asked && self.with(copy, |lane| lane.take(&mut [])) {
                answers += 1;
            }
        }
        if answers == 0 { Err(self.store.error()) } else { Ok(()) }
    }

    /// Reads of bytes that are about to change are answered first: were they made again later, they
    /// would see the change.
    fn before_change(&mut self, offset: u64, length: u64) -> Result<()> {
        match self.queue.has_read_of(offset, length) {
            true => self.settle(),
            false => Ok(()),
        }
    }
}

impl Lane for MirrorLane {
    fn ask_read(&mut self, offset: u64, length: usize) -> Result<()> {
        assert!(length <= MAX_REQUEST_BYTES);
        self.range(offset, length as u64)?;
        for copy in 0..self.lanes.len() {
            if self.with(copy, |lane| lane.ask_read(offset, length)) {
                self.queue.push_read(offset, length, 1 << copy);
                return Ok(());
            }
        }
        Err(self.store.error())
    }

    fn ask_write(&mut self, offset: u64, from: &[u8]) -> Result<()> {
        assert!(from.len() <= MAX_REQUEST_BYTES);
        self.range(offset, from.len() as u64)?;
        self.before_change(offset, from.len() as u64)?;
        self.ask_all(|lane| lane.ask_write(offset, from))
    }

    fn ask_discard(&mut self, offset: u64, length: u64) -> Result<()> {
        self.range(offset, length)?;
        self.before_change(offset, length)?;
        self.ask_all(|lane| lane.ask_discard(offset, length))
    }

    fn push(&mut self) -> Result<()> {
        for copy in 0..self.lanes.len() {
            self.with(copy, |lane| lane.push());
        }
        match self.lanes.iter().any(Option::is_some) {
            true => Ok(()),
            false => Err(self.store.error()),
        }
    }

    fn take(&mut self, into: &mut [u8]) -> Result<()> {
        let (_, length, is_read, is_open, asked) =
            self.queue.get(0).expect("something is outstanding");
        assert_eq!(into.len(), length, "the buffer has the length of the request");
        if is_open && is_read {
            let copy = asked.trailing_zeros() as usize;
            if self.with(copy, |lane| lane.take(into)) {
                return self.queue.take(into, |_, _, _| Ok(()));
            }
            self.settle()?;
        } else if is_open {
            self.take_others(asked)?;
            return self.queue.take(into, |_, _, _| Ok(()));
        }
        self.queue.take(into, |_, _, _| Ok(()))
    }

    fn is_ready(&mut self) -> bool {
        let Some((_, _, _, true, asked)) = self.queue.get(0) else { return self.queue.len() > 0 };
        let lanes = self.lanes.iter_mut().enumerate();
        lanes
            .filter(|(copy, _)| asked >> copy & 1 == 1)
            .all(|(_, lane)| lane.as_mut().is_none_or(|lane| lane.is_ready()))
    }

    fn outstanding(&self) -> usize {
        self.queue.len()
    }
}
