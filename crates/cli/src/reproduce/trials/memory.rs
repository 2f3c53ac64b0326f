//! Memory that is borrowed from a lender in this process.

use std::ptr::NonNull;
use std::sync::atomic::{AtomicU32, Ordering};

use rackmem::rack::Rack;
use rackmem_fabric::net::access::Access;
use rackmem_lease::agent::{Agent, Config, Lend};
use rackmem_lease::placement::LEASE_BYTES;
use rackmem_lease::{Borrowed, Wanted, borrow};
use rackmem_paging::{Delivery, PAGE_BYTES, Pager, PagerOptions};

use rackmem_experiments::Known;

/// Bytes of a page.
pub const PAGE: usize = PAGE_BYTES;

/// 64-bit words of a page.
pub const PAGE_WORDS: usize = PAGE / size_of::<u64>();

/// Leases that a lender has room for, at most.
const MAX_LEASES: usize = 16;

/// A lender on a rack of its own.
pub struct Loan {
    rack: Rack,
    only_network: bool,
    _agent: Agent,
}

impl Loan {
    /// Lends so many pages at most, and what leases are rounded up by.
    ///
    /// # Errors
    /// There is not enough memory, or no socket.
    pub fn start(pages: usize) -> Known<Loan> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("reproduce-{}-{number}", std::process::id());
        let rack = Rack::named(Some(&name)).map_err(|error| error.to_string())?;
        let size_bytes = (pages * PAGE) as u64 + MAX_LEASES as u64 * LEASE_BYTES;
        // Its memory is there before anything is measured.
        let lend = Some(Lend { populate: true, ..Lend::new(size_bytes) });
        let listen = Some("127.0.0.1:0".to_owned());
        // Only pages of the experiment are lent, for as long as it takes.
        let access = Access::insecure();
        let config = Config { lend, listen, access, ..Config::lender(rack.clone(), 0) };
        let agent = Agent::start(config, |_| {}).map_err(|error| error.to_string())?;
        Ok(Loan { rack, only_network: true, _agent: agent })
    }

    /// The same, but leases are mapped, as of any lender of this host: no thread of the lender takes part in moving
    /// pages, so that they move in times near to each other however busy the host is.
    ///
    /// # Errors
    /// As [`Loan::start`].
    pub fn mapped(pages: usize) -> Known<Loan> {
        Ok(Loan { only_network: false, ..Loan::start(pages)? })
    }

    /// A lease; unless mapped, it is reached over TCP, as if the lender were another host.
    ///
    /// # Errors
    /// There is not enough left.
    pub fn lease(&self, pages: usize) -> Known<Borrowed> {
        let rack = Some(self.rack.name().to_owned());
        let only_network = self.only_network;
        let wanted = Wanted { rack, only_network, ..Wanted::new((pages * PAGE) as u64) };
        borrow(&wanted).map_err(|error| error.to_string())
    }
}

/// Memory that is elsewhere: of its pages only so many stay here, and none comes ahead of need. The thread that
/// misses a page fetches it itself, which takes the least time.
pub fn far(cache_pages: usize) -> PagerOptions {
    PagerOptions {
        cache_bytes: cache_pages * PAGE,
        prefetch_pages: 0,
        delivery: Delivery::Inline,
        ..PagerOptions::default()
    }
}

/// Borrowed memory behind a local cache of pages.
pub struct Memory {
    // Fields are dropped in this order: the pager before its lease.
    pager: Pager,
    base: NonNull<u64>,
    words: usize,
    _lease: Borrowed,
}

impl Memory {
    /// Borrows `pages` pages.
    ///
    /// # Errors
    /// Nobody lends them, or userfaultfd is not permitted.
    pub fn borrow(loan: &Loan, pages: usize, options: &PagerOptions) -> Known<Memory> {
        let lease = loan.lease(pages)?;
        let start = || {
            let pager = Pager::start(lease.store(), options)?;
            let base = pager.map(pages * PAGE)?.cast();
            Ok::<_, rackmem_lease::Error>((pager, base))
        };
        let (pager, base) = start().map_err(|error| error.to_string())?;
        Ok(Memory { pager, base, words: pages * PAGE_WORDS, _lease: lease })
    }

    /// The memory.
    pub fn words(&mut self) -> &mut [u64] {
        // SAFETY: the pager has mapped so many words, zeroed, readable and writable, which live as long as it
        // and are given out once, as `self` is borrowed.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr(), self.words) }
    }

    /// The same as bytes.
    pub fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: as above; every byte of a word is one.
        unsafe { std::slice::from_raw_parts_mut(self.base.as_ptr().cast(), self.words * 8) }
    }

    /// Sends every page to the lender.
    ///
    /// # Errors
    /// The lender is lost.
    pub fn send_away(&self) -> Known<()> {
        self.pager.evict_all().map_err(|error| error.to_string())
    }

    /// Median time from a fault to its page, without the kernel's time before and after, in ns.
    pub fn page_in_ns(&self) -> f64 {
        self.pager.statistics().page_in_p50_ns as f64
    }
}
