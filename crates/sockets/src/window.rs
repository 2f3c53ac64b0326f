//! Windows: a process's memory for all connections of a link.
//!
//! A window is sealed anonymous memory: a head for each connection, side by side, then for each its board and its
//! registered memory. It is as large as all of them and takes room only where it is used. Processes of one host
//! give each other theirs. Over a network each keeps a second window in place of the peer's, of which only heads
//! and posted receives are used, to hold the known state of the peer.

use std::os::fd::{BorrowedFd, OwnedFd};

use rackmem::shm::mapping::{Access, Mapping, PAGE_BYTES, round_up_to_page};
use rackmem::shm::sleep;
use serde::{Deserialize, Serialize};

use super::board::{Board, Head};
use rackmem_fabric::error::{Error, Result};

/// Most connections of two processes.
pub const MAX_CONNECTIONS: u32 = 65_536;

/// Most registered memory of a connection, in bytes.
pub const MAX_REGISTERED_BYTES: usize = 1 << 30;

/// Largest window: all parts together.
pub const MAX_WINDOW_BYTES: usize = 1 << 40;

/// Sizes that two processes agree on; the one that connects chooses them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Terms {
    /// Most connections at a time.
    pub connections: u32,
    /// Registered memory of each end of a connection, in bytes; rounded up to pages.
    pub registered_bytes: usize,
}

impl Terms {
    /// Whether there may be so much.
    ///
    /// # Errors
    /// [`Error::Refused`].
    pub(super) fn check(&self) -> Result<()> {
        let fits = (1..=MAX_CONNECTIONS).contains(&self.connections)
            && (1..=MAX_REGISTERED_BYTES).contains(&self.registered_bytes)
            && self.window_bytes() <= MAX_WINDOW_BYTES;
        if fits {
            return Ok(());
        }
        Err(Error::Refused(format!(
            "{} connections with {} bytes each: there may be up to {MAX_CONNECTIONS} with up to \
             {MAX_REGISTERED_BYTES}, {MAX_WINDOW_BYTES} in all",
            self.connections, self.registered_bytes
        )))
    }

    /// Bytes of all heads.
    fn heads_bytes(&self) -> usize {
        round_up_to_page(self.connections as usize * size_of::<Head>())
    }

    /// Offset of a connection's board in a window; its registered memory follows.
    fn board_at(&self, number: u32) -> usize {
        self.heads_bytes() + number as usize * self.part_bytes()
    }

    fn part_bytes(&self) -> usize {
        round_up_to_page(size_of::<Board>()) + round_up_to_page(self.registered_bytes)
    }

    fn window_bytes(&self) -> usize {
        (self.connections as usize).saturating_mul(self.part_bytes()) + self.heads_bytes()
    }
}

/// A window of either side.
#[derive(Debug)]
pub(super) struct Window {
    mapping: Mapping,
    terms: Terms,
}

impl Window {
    /// A new one, empty.
    ///
    /// # Errors
    /// The error of the kernel.
    pub(super) fn create(terms: &Terms) -> Result<Window> {
        sleep::register_process().map_err(|error| Error::io("no expedited membarrier", error))?;
        let bytes = terms.window_bytes();
        let mapping = Mapping::create("rackmem-qpair", bytes)
            .map_err(|error| Error::io(format!("no window of {bytes} bytes"), error))?;
        Ok(Window { mapping, terms: *terms })
    }

    /// Maps the window of another process.
    ///
    /// # Errors
    /// It is not as the terms say.
    pub(super) fn open(fd: OwnedFd, terms: &Terms) -> Result<Window> {
        let mapping = Mapping::open(fd, terms.window_bytes(), Access::ReadWrite)
            .map_err(|error| Error::Protocol(format!("the window is not as agreed: {error}")))?;
        Ok(Window { mapping, terms: *terms })
    }

    /// Its memory, to hand over.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.mapping.fd()
    }

    pub(super) fn head(&self, number: u32) -> &Head {
        assert!(number < self.terms.connections);
        // SAFETY: the window begins with a head for each number; heads are atomics, aligned as the page
        // is, and any bytes are valid values of them.
        unsafe { &*self.mapping.base().cast::<Head>().add(number as usize) }
    }

    pub(super) fn board(&self, number: u32) -> &Board {
        assert!(number < self.terms.connections);
        let at = self.terms.board_at(number);
        // SAFETY: the window has a board for each number; boards are page-aligned, all of their fields
        // are atomics, and any bytes are valid values of them.
        unsafe { &*self.mapping.base().add(at).cast::<Board>() }
    }

    /// First byte of a connection's registered memory.
    pub(super) fn registered(&self, number: u32) -> *mut u8 {
        assert!(number < self.terms.connections);
        let at = self.terms.board_at(number) + round_up_to_page(size_of::<Board>());
        debug_assert_eq!(at % PAGE_BYTES, 0);
        // SAFETY: the window has a part for each number.
        unsafe { self.mapping.base().add(at) }
    }
}
