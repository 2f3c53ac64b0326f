//! A store in this process's own memory, against which the others are tested.

use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use rackmem::shm::mapping::Mapping;

use super::{Lane, MAX_OUTSTANDING, MAX_REQUEST_BYTES, Store};
use crate::error::{Error, Result};

/// Bytes of this process. Clones are the same bytes.
#[derive(Clone, Debug)]
pub struct HeapStore(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    memory: Mapping,
    is_lost: AtomicBool,
}

impl HeapStore {
    /// `size_bytes` zeros; rounded up to pages.
    ///
    /// # Errors
    /// The kernel has no memory.
    pub fn new(size_bytes: u64) -> Result<HeapStore> {
        let memory = Mapping::create("rackmem-store", size_bytes as usize)
            .map_err(|error| Error::io(format!("cannot map {size_bytes} bytes"), error))?;
        Ok(HeapStore(Arc::new(Inner { memory, is_lost: AtomicBool::new(false) })))
    }

    /// Behaves from now on as if its lender had died.
    pub fn lose(&self) {
        self.0.is_lost.store(true, Ordering::Release);
    }
}

impl Store for HeapStore {
    fn size_bytes(&self) -> u64 {
        self.0.memory.len() as u64
    }

    fn lane(&self) -> Result<Box<dyn Lane>> {
        Ok(Box::new(HeapLane {
            store: self.clone(),
            answers: VecDeque::with_capacity(MAX_OUTSTANDING),
        }))
    }

    fn mapped(&self) -> Option<*mut u8> {
        Some(self.0.memory.base())
    }

    fn check(&self) -> Result<()> {
        if self.0.is_lost.load(Ordering::Acquire) {
            let reason = "the test said so".to_owned();
            return Err(Error::Lost { lender: "this process".to_owned(), reason });
        }
        Ok(())
    }
}

struct HeapLane {
    store: HeapStore,
    /// Bytes that reads got when they were asked for; empty for other requests.
    answers: VecDeque<Vec<u8>>,
}

impl HeapLane {
    /// The range, checked.
    fn range(&self, offset: u64, length: u64) -> Result<*mut u8> {
        self.store.check()?;
        self.store.check_range(offset, length)?;
        assert!(self.answers.len() < MAX_OUTSTANDING, "answers are taken before more is asked for");
        // SAFETY: the range was found to lie inside of the mapping.
        Ok(unsafe { self.store.0.memory.base().add(offset as usize) })
    }
}

impl Lane for HeapLane {
    fn ask_read(&mut self, offset: u64, length: usize) -> Result<()> {
        assert!(length <= MAX_REQUEST_BYTES);
        let from = self.range(offset, length as u64)?;
        let mut bytes = vec![0; length];
        // SAFETY: as in `ask_write`, the other way.
        unsafe { std::ptr::copy_nonoverlapping(from, bytes.as_mut_ptr(), length) };
        self.answers.push_back(bytes);
        Ok(())
    }

    fn ask_write(&mut self, offset: u64, from: &[u8]) -> Result<()> {
        assert!(from.len() <= MAX_REQUEST_BYTES);
        let to = self.range(offset, from.len() as u64)?;
        // SAFETY: `to` begins a checked range of that length; a lease has one user, who answers for
        // what his lanes do to the same bytes at the same time.
        unsafe { std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len()) };
        self.answers.push_back(Vec::new());
        Ok(())
    }

    fn ask_discard(&mut self, offset: u64, length: u64) -> Result<()> {
        let to = self.range(offset, length)?;
        // SAFETY: as in `ask_write`.
        unsafe { std::ptr::write_bytes(to, 0, length as usize) };
        self.answers.push_back(Vec::new());
        Ok(())
    }

    fn push(&mut self) -> Result<()> {
        self.store.check()
    }

    fn take(&mut self, into: &mut [u8]) -> Result<()> {
        self.store.check()?;
        let bytes = self.answers.pop_front().expect("something is outstanding");
        into.copy_from_slice(&bytes);
        Ok(())
    }

    fn reopen(&mut self) -> Result<()> {
        self.answers.clear();
        self.store.check()
    }

    fn is_ready(&mut self) -> bool {
        !self.answers.is_empty()
    }

    fn outstanding(&self) -> usize {
        self.answers.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_come_in_the_order_of_requests() {
        let store = HeapStore::new(8192).unwrap();
        let mut lane = store.lane().unwrap();
        lane.ask_write(4090, &[7; 10]).unwrap();
        lane.ask_read(4088, 4).unwrap();
        lane.ask_discard(4096, 4096).unwrap();
        assert_eq!(lane.outstanding(), 3);
        lane.take(&mut []).unwrap();
        let mut bytes = [1; 4];
        lane.take(&mut bytes).unwrap();
        assert_eq!(bytes, [0, 0, 7, 7]);
        lane.take(&mut []).unwrap();
        let mut end = [1; 12];
        lane.read(4088, &mut end).unwrap();
        assert_eq!(end, [0, 0, 7, 7, 7, 7, 7, 7, 0, 0, 0, 0]);
    }

    #[test]
    fn ranges_outside_are_refused_and_losses_reported() {
        let store = HeapStore::new(4096).unwrap();
        let mut lane = store.lane().unwrap();
        assert!(matches!(lane.ask_read(4090, 7), Err(Error::OutOfRange { .. })));
        assert!(matches!(lane.ask_write(u64::MAX, &[0]), Err(Error::OutOfRange { .. })));
        lane.write(4090, &[1; 6]).unwrap();
        store.lose();
        assert!(matches!(lane.read(0, &mut [0]), Err(Error::Lost { .. })));
    }
}
