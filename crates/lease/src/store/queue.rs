//! Requests in flight of a lane: a ring of fixed size, and room for answers that came before they were taken.

use super::MAX_OUTSTANDING;
use crate::error::Result;

/// A request.
#[derive(Debug)]
struct Entry<T> {
    /// Of a read where it begins.
    offset: u64,
    /// Of a read its length.
    length: usize,
    is_read: bool,
    /// The answer is in the stash of this place.
    is_stashed: bool,
    with: T,
}

/// Requests in order. The room for stashed answers grows with the first use and stays.
#[derive(Debug)]
pub(super) struct Queue<T> {
    entries: Vec<Option<Entry<T>>>,
    stash: Vec<Vec<u8>>,
    /// Buffer of an answer on its way to the stash.
    pub spare: Vec<u8>,
    first: usize,
    length: usize,
}

impl<T: Copy> Queue<T> {
    pub fn new() -> Queue<T> {
        Queue {
            entries: (0..MAX_OUTSTANDING).map(|_| None).collect(),
            stash: vec![Vec::new(); MAX_OUTSTANDING],
            spare: Vec::new(),
            first: 0,
            length: 0,
        }
    }

    pub fn len(&self) -> usize {
        self.length
    }

    fn at(&self, number: usize) -> usize {
        (self.first + number) % MAX_OUTSTANDING
    }

    pub fn push_read(&mut self, offset: u64, length: usize, with: T) {
        self.push(Entry { offset, length, is_read: true, is_stashed: false, with });
    }

    pub fn push_other(&mut self, with: T) {
        self.push(Entry { offset: 0, length: 0, is_read: false, is_stashed: false, with });
    }

    fn push(&mut self, entry: Entry<T>) {
        assert!(self.length < MAX_OUTSTANDING, "answers are taken before more is asked for");
        let at = self.at(self.length);
        self.entries[at] = Some(entry);
        self.length += 1;
    }

    /// Forgets all requests.
    pub fn clear(&mut self) {
        self.entries.iter_mut().for_each(|entry| *entry = None);
        self.length = 0;
    }

    /// Carries out reads that touch the range now, into the stash.
    pub fn stash_overlapping(
        &mut self,
        offset: u64,
        length: u64,
        mut read: impl FnMut(u64, &mut [u8]),
    ) {
        for number in 0..self.length {
            let at = self.at(number);
            let Some(entry) = self.entries[at].as_mut() else { continue };
            let touches = entry.offset < offset.saturating_add(length)
                && offset < entry.offset + entry.length as u64;
            if entry.is_read && !entry.is_stashed && touches {
                self.stash[at].resize(entry.length, 0);
                read(entry.offset, &mut self.stash[at]);
                entry.is_stashed = true;
            }
        }
    }

    /// Whether a read whose answer has not come touches the range.
    pub fn has_read_of(&self, offset: u64, length: u64) -> bool {
        (0..self.length).any(|number| {
            self.entries[self.at(number)].as_ref().is_some_and(|entry| {
                entry.is_read
                    && !entry.is_stashed
                    && entry.offset < offset.saturating_add(length)
                    && offset < entry.offset + entry.length as u64
            })
        })
    }

    /// The request of this number, counted from the oldest: its offset, length, whether it reads and is still to be
    /// answered, and the value with it.
    pub fn get(&self, number: usize) -> Option<(u64, usize, bool, bool, T)> {
        let entry = self.entries[self.at(number)].as_ref().filter(|_| number < self.length)?;
        Some((entry.offset, entry.length, entry.is_read, !entry.is_stashed, entry.with))
    }

    /// Changes the value with a request.
    pub fn set(&mut self, number: usize, with: T) {
        let at = self.at(number);
        if let Some(entry) = &mut self.entries[at] {
            entry.with = with;
        }
    }

    /// Room for the answer of this request, which counts as answered from now on.
    pub fn stash(&mut self, number: usize) -> &mut [u8] {
        let at = self.at(number);
        let length = self.entries[at].as_mut().map_or(0, |entry| {
            entry.is_stashed = true;
            entry.length
        });
        self.stash[at].resize(length, 0);
        &mut self.stash[at]
    }

    /// Takes the oldest request; its answer is copied from the stash, or comes from `answer`.
    ///
    /// # Panics
    /// There is none, or `into` has another length.
    pub fn take(
        &mut self,
        into: &mut [u8],
        answer: impl FnOnce(u64, T, &mut [u8]) -> Result<()>,
    ) -> Result<()> {
        assert!(self.length > 0, "something is outstanding");
        let at = self.first;
        let entry = self.entries[at].take().expect("what is in the ring is there");
        assert_eq!(into.len(), entry.length, "the buffer has the length of the request");
        self.first = (self.first + 1) % MAX_OUTSTANDING;
        self.length -= 1;
        if entry.is_stashed {
            into.copy_from_slice(&self.stash[at]);
            return Ok(());
        }
        answer(entry.offset, entry.with, into)
    }
}
