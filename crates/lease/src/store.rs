//! Borrowed bytes: stores of them, and lanes by which they are read and written.
//!
//! A [`Store`] is shared by all threads of a borrower; each thread that moves bytes opens a
//! [`Lane`] of its own. A lane is a pipe: requests may be asked for ahead of their answers, and
//! answers come in the order of the requests. A connection gives this order for nothing. It is
//! enough to keep many faults and write-backs in flight (TSM §2.2, outstanding requests), and
//! needs no buffers that outlive a call.
//!
//! A lane's own requests take effect in their order. Between lanes there is no order but this: a
//! request that is asked for after another lane's answer was taken comes after it.
//!
//! | file | what it is |
//! |---|---|
//! | `mapped` | a lease of a lender on this host |
//! | `tcp`, [`packet`], `queue` | a lease over the network: lanes, their packets, outstanding requests |
//! | `spread` | several leases side by side, by the address map |
//! | [`replicas`], [`mirror`] | states of the copies, and lanes to all of them |
//! | `window` | the addresses that are kept for borrowed memory |
//! | `health` | whether a lease's memory is still there |
//! | `heap` | a store in this process, for tests |

pub(crate) mod health;
mod heap;
pub(crate) mod mapped;
pub mod mirror;
pub mod packet;
mod queue;
pub mod replicas;
pub(crate) mod spread;
pub(crate) mod tcp;
pub(crate) mod window;

use crate::error::{Error, Result};

pub use heap::HeapStore;
pub use mirror::MirrorStore;

/// Most bytes of one request.
pub const MAX_REQUEST_BYTES: usize = 1 << 20;

/// Requests that a lane may have in flight: to ask for one more before an answer is taken is a mistake
/// of the caller, and panics.
pub const MAX_OUTSTANDING: usize = 256;

/// Bytes that are elsewhere, addressed from 0. They are zero at first.
pub trait Store: Send + Sync {
    /// Size in bytes; a multiple of the page size.
    fn size_bytes(&self) -> u64;

    /// A new lane for the calling thread. All requests of a lane to a lost store fail; a child of fork, which needs
    /// lanes of its own, goes on with the pages that are local.
    ///
    /// # Errors
    /// No connection can be made.
    fn lane(&self) -> Result<Box<dyn Lane>>;

    /// Address at which the bytes are mapped in this process, for as long as the store lives: `size_bytes` bytes,
    /// readable and writable. `None` if the lender is on another host. The memory stays mapped, and its bytes right,
    /// when the lender is lost; [`Store::check`] reports the loss. Writes go between [`Store::begin_write`] and
    /// [`Store::end_write`].
    fn mapped(&self) -> Option<*mut u8> {
        None
    }

    /// The caller is about to write to the mapped bytes; for a moment, while the memory is moved, it waits.
    fn begin_write(&self) {}

    /// The caller has written this range of the mapped bytes.
    fn end_write(&self, _offset: u64, _length: u64) {}

    /// Ends all lanes that this process has: nothing that was asked of them and not answered takes effect after this
    /// returns.
    ///
    /// # Errors
    /// [`Error::Lost`], [`Error::Broken`].
    fn fence(&self) -> Result<()> {
        self.check()
    }

    /// To be called by the thread that forks, before it does: no other thread changes the store from here to one of
    /// the two functions below.
    fn before_fork(&self) {}

    /// The fork is made, or has failed.
    fn after_fork_in_parent(&self) {}

    /// In the child, which has one thread and no lane yet.
    fn after_fork_in_child(&self) {}

    /// Whether the bytes are still there; costs a load.
    ///
    /// # Errors
    /// [`Error::Lost`].
    fn check(&self) -> Result<()>;

    /// Checks that a range lies inside of the store.
    ///
    /// # Errors
    /// [`Error::OutOfRange`].
    fn check_range(&self, offset: u64, length: u64) -> Result<()> {
        let size_bytes = self.size_bytes();
        match offset.checked_add(length) {
            Some(end) if end <= size_bytes => Ok(()),
            _ => Err(Error::OutOfRange { offset, length, size_bytes }),
        }
    }
}

/// One thread's way to a store. Ranges outside of the store are refused when they are asked for.
///
/// After an error other than [`Error::OutOfRange`] the lane is broken: all further calls fail, but
/// [`Lane::reopen`]. A lane of a borrowing ([`MirrorStore`]) reopens by itself, and fails for good.
pub trait Lane: Send {
    /// Asks for `length` bytes, at most [`MAX_REQUEST_BYTES`]; `take` gets them.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::Lost`].
    fn ask_read(&mut self, offset: u64, length: usize) -> Result<()>;

    /// Hands over bytes to be written, at most [`MAX_REQUEST_BYTES`]; `take` confirms them.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::Lost`].
    fn ask_write(&mut self, offset: u64, from: &[u8]) -> Result<()>;

    /// Makes a range read as zeros, of any length; `take` confirms it.
    ///
    /// # Errors
    /// [`Error::OutOfRange`], [`Error::Lost`].
    fn ask_discard(&mut self, offset: u64, length: u64) -> Result<()>;

    /// Sees to it that everything asked for is on its way; `take` does so, too.
    ///
    /// # Errors
    /// [`Error::Lost`].
    fn push(&mut self) -> Result<()>;

    /// Waits for the answer of the oldest request. Of a read the bytes are put into `into`, which must
    /// have its length; of others nothing is, and `into` must be empty.
    ///
    /// # Errors
    /// [`Error::Lost`].
    ///
    /// # Panics
    /// Nothing is outstanding, or `into` has another length.
    fn take(&mut self, into: &mut [u8]) -> Result<()>;

    /// Makes a broken lane usable again, in one attempt that takes some seconds at most. Requests that were not
    /// answered are forgotten, and take no effect after this returns.
    ///
    /// # Errors
    /// [`Error::Lost`]: for good; [`Error::Broken`]: not now.
    fn reopen(&mut self) -> Result<()>;

    /// Whether `take` would find the whole answer at once.
    fn is_ready(&mut self) -> bool;

    /// Requests whose answers were not taken.
    fn outstanding(&self) -> usize;

    /// Reads and waits.
    ///
    /// # Errors
    /// As [`Lane::ask_read`].
    fn read(&mut self, offset: u64, into: &mut [u8]) -> Result<()> {
        debug_assert_eq!(self.outstanding(), 0, "answers come in order");
        self.ask_read(offset, into.len())?;
        self.take(into)
    }

    /// Writes and waits.
    ///
    /// # Errors
    /// As [`Lane::ask_write`].
    fn write(&mut self, offset: u64, from: &[u8]) -> Result<()> {
        debug_assert_eq!(self.outstanding(), 0, "answers come in order");
        self.ask_write(offset, from)?;
        self.take(&mut [])
    }

    /// Discards and waits.
    ///
    /// # Errors
    /// As [`Lane::ask_discard`].
    fn discard(&mut self, offset: u64, length: u64) -> Result<()> {
        debug_assert_eq!(self.outstanding(), 0, "answers come in order");
        self.ask_discard(offset, length)?;
        self.take(&mut [])
    }
}
