//! Options of a pager, and their limits.

use std::time::Duration;

use rackmem_lease::error::{Error, Result};

/// Size of a page. Larger units of transfer come from prefetching, not from larger pages.
pub const PAGE_BYTES: usize = rackmem::shm::mapping::PAGE_BYTES;

/// Fewest pages of a local cache: one that is used, one that is prefetched, and some that leave.
pub const MIN_CACHE_PAGES: usize = 16;

/// Most pages of a local cache: 1 TiB.
pub const MAX_CACHE_PAGES: usize = 1 << 28;

/// Most pages that one fault brings.
pub const MAX_PREFETCH_PAGES: usize = 64;

/// Largest [`PagerOptions::growth`].
pub const MAX_GROWTH: usize = 16;
/// Most threads that answer faults.
pub const MAX_HANDLERS: usize = 16;

/// Most pages that leave together.
pub const MAX_BATCH_PAGES: usize = 128;

/// Faults between two look-ups of the core on which the faulting thread is.
pub(super) const FOLLOW_EVERY: u32 = 128;

/// The thread that answers a fault.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Delivery {
    /// A thread of the pager, to which the kernel hands faults. System calls on pages that are away
    /// just work, unless only `UFFD_USER_MODE_ONLY` is permitted ([`super::Pager::is_user_mode_only`]).
    #[default]
    Thread,
    /// The faulting thread itself, in a handler of SIGBUS. Faster, but a system call that is given a page which is away
    /// fails with EFAULT; wrappers of system calls call [`super::Pager::ensure_present`] first. No thread that touches
    /// borrowed memory may block SIGBUS.
    Inline,
    /// The faster of both on this host, measured at the start.
    Auto,
}

/// Way in which a handler thread waits for faults.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Waiting {
    /// It sleeps, and follows the faulting thread to its core, where the kernel switches between both
    /// without waking another core.
    #[default]
    Sleep,
    /// It spins for so long after each fault before it sleeps; for a core that has nothing else to do.
    Spin(Duration),
    /// The faster of both on this host, measured at the start.
    Auto,
}

/// Core of the evictor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Placement {
    /// With inline delivery and a store that is mapped, the core of the faulting thread: the pages that the evictor
    /// takes need not be announced to another core, which on a virtual machine costs more than a page-in. With a
    /// handler thread it is as `Anywhere`, because the kernel moves one of the two to another core when the handler
    /// wakes the program.
    #[default]
    Beside,
    /// On a core of the kernel's choice: it works while the program does.
    Anywhere,
    /// The faster of both on this host, measured at the start.
    Auto,
}

/// Settings of a pager.
#[derive(Clone, Debug)]
pub struct PagerOptions {
    /// Bytes of local memory that borrowed memory may occupy; at least [`MIN_CACHE_PAGES`] pages.
    pub cache_bytes: usize,
    /// Pages that a fault may bring beside its own once a stream was seen (TSM §2.2, prefetch degree for
    /// remote memory); 0 fetches nothing ahead. At most [`MAX_PREFETCH_PAGES`]. A stream begins with
    /// fewer and earns more.
    pub prefetch_pages: usize,
    /// Reads that each handler has outstanding at most (TSM §2.2, outstanding request queue).
    pub window: usize,
    /// Pages that leave together; at most [`MAX_BATCH_PAGES`].
    pub batch_pages: usize,
    /// The thread that answers a fault.
    pub delivery: Delivery,
    /// Way in which handler threads wait for faults.
    pub waiting: Waiting,
    /// Core of the evictor.
    pub evictor: Placement,
    /// Handler threads, each with a lane of its own; with inline delivery, lanes that faulting threads share.
    pub handlers: usize,
    /// Factor by which mappings may exceed the room of the store and the local cache, at most [`MAX_GROWTH`] (1: not at
    /// all). Local memory grows beyond its limit by pages that are touched and have no room.
    pub growth: usize,
    /// Any amount may be mapped, even beyond the room of the store and the local cache, as by programs that map much
    /// and touch little. Pages that are touched beyond `growth` are lost.
    pub overcommit: bool,
}

impl Default for PagerOptions {
    fn default() -> PagerOptions {
        PagerOptions {
            cache_bytes: 64 << 20,
            prefetch_pages: 32,
            window: 16,
            batch_pages: 32,
            delivery: Delivery::default(),
            waiting: Waiting::default(),
            evictor: Placement::default(),
            handlers: 1,
            growth: 1,
            overcommit: false,
        }
    }
}

impl PagerOptions {
    /// Pages of the local cache.
    pub fn cache_pages(&self) -> usize {
        self.cache_bytes / PAGE_BYTES
    }

    /// Checks every limit.
    ///
    /// # Errors
    /// [`Error::Plain`] names the first option that is out of range.
    pub fn check(&self) -> Result<()> {
        let refuse = |what: &str, value: usize, low: usize, high: usize| {
            if (low..=high).contains(&value) {
                return Ok(());
            }
            Err(Error::refused(format!("{what} is {value}: it must be from {low} to {high}")))
        };
        refuse("the local cache in pages", self.cache_pages(), MIN_CACHE_PAGES, MAX_CACHE_PAGES)?;
        refuse("the prefetch degree", self.prefetch_pages, 0, MAX_PREFETCH_PAGES)?;
        refuse(
            "the window of outstanding reads",
            self.window,
            1,
            rackmem_lease::store::MAX_OUTSTANDING,
        )?;
        refuse("the batch of pages that leave together", self.batch_pages, 1, MAX_BATCH_PAGES)?;
        refuse("the growth of local memory", self.growth, 1, MAX_GROWTH)?;
        refuse("the number of handlers", self.handlers, 1, MAX_HANDLERS)
    }
}
