//! The memory of leases: each is a sealed memfd of its own, made when it is leased, so no page that one borrower had
//! is ever seen by the next. When the lease ends the lender says so in the trailer, and lets go of the memory; the
//! kernel frees it when nobody has it mapped any more. Nobody ever reads zeros in place of the bytes that were there.

use rackmem::shm::mapping::Mapping;
use rustix::fs::FallocateFlags;
use std::os::fd::BorrowedFd;

use crate::error::{Error, Result};
use crate::placement::size;
use crate::store::health::{self, TRAILER_BYTES};

use super::config::Lend;

/// Memory of a lease.
#[derive(Debug)]
pub(crate) struct Memory {
    /// The bytes, and the trailer.
    mapping: Mapping,
    size_bytes: usize,
}

impl Memory {
    /// Zeros.
    ///
    /// # Errors
    /// The kernel has none.
    pub fn make(size_bytes: u64, lend: &Lend) -> Result<Memory> {
        let no_memory = |error| Error::io(format!("no memory for {}", size(size_bytes)), error);
        if lend.populate && !lend.overcommit {
            check_available(size_bytes)?;
        }
        let size = size_bytes as usize;
        let mapping = Mapping::create("rackmem-lease", size + TRAILER_BYTES).map_err(no_memory)?;
        let memory = Memory { mapping, size_bytes: size };
        if lend.huge_pages {
            memory.ask_for_huge_pages();
        }
        if lend.populate {
            rustix::fs::fallocate(memory.mapping.fd(), FallocateFlags::empty(), 0, size_bytes)
                .map_err(|error| no_memory(error.into()))?;
        }
        Ok(memory)
    }

    fn ask_for_huge_pages(&self) {
        // SAFETY: advice about a mapping of our own; its contents do not change.
        let advised = unsafe {
            rustix::mm::madvise(
                self.mapping.base().cast(),
                self.mapping.len(),
                rustix::mm::Advice::LinuxHugepage,
            )
        };
        if let Err(error) = advised {
            tracing::warn!("no huge pages: {error}");
        }
    }

    /// Its descriptor, to hand over.
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.mapping.fd()
    }

    /// First byte.
    pub fn base(&self) -> *mut u8 {
        self.mapping.base()
    }

    /// Bytes that the borrower has.
    pub fn size_bytes(&self) -> usize {
        self.size_bytes
    }

    /// Revokes the lease: every process that has it mapped reads this from its trailer.
    pub fn end_lease(&self) {
        // SAFETY: mapped by `make` with room for a trailer, as long as `self` lives.
        health::revoke(unsafe { health::trailer(self.mapping.base(), self.size_bytes) });
    }
}

/// Bytes that this host can still hand out without swapping, as its kernel estimates.
///
/// # Errors
/// The kernel does not say.
pub fn available_bytes() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/meminfo")
        .map_err(|error| Error::io("cannot read /proc/meminfo", error))?;
    parse_available(&text)
        .ok_or_else(|| Error::protocol("/proc/meminfo has no MemAvailable".to_owned()))
}

fn parse_available(text: &str) -> Option<u64> {
    let line = text.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    let kilobytes: u64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    kilobytes.checked_mul(1024)
}

/// Checks that this host has so much memory left.
///
/// # Errors
/// [`Error::Plain`] says how much it has.
pub fn check_available(size_bytes: u64) -> Result<()> {
    let available = available_bytes()?;
    if size_bytes <= available {
        return Ok(());
    }
    Err(Error::refused(format!(
        "{} cannot be lent: this host has {}M left (MemAvailable); lend less, or say --overcommit",
        size(size_bytes),
        available >> 20
    )))
}

#[cfg(test)]
mod tests {
    use rackmem::shm::mapping::Access;

    use super::*;
    use crate::store::health::Health;

    #[test]
    fn memory_that_is_there_is_enough() {
        assert_eq!(parse_available("MemTotal: 9 kB\nMemAvailable:    7 kB\n"), Some(7168));
        assert_eq!(parse_available("MemTotal: 9 kB\n"), None);
        assert!(check_available(1).is_ok());
        assert!(check_available(1 << 50).unwrap_err().to_string().contains("MemAvailable"));
    }

    #[test]
    fn memory_stays_for_those_who_have_it_mapped() {
        let lend = Lend { populate: true, ..Lend::new(0) };
        let memory = Memory::make(8192, &lend).unwrap();
        // SAFETY: within the mapping, and nobody else has it.
        unsafe { memory.base().write(7) };
        let fd = memory.fd().try_clone_to_owned().unwrap();
        let theirs = Mapping::open(fd, 8192, Access::ReadWrite).unwrap();
        let health = Health::in_memory("a lender", theirs.fd(), 8192).unwrap();
        assert!(health.check().is_ok());
        memory.end_lease();
        drop(memory);
        // SAFETY: as above.
        assert_eq!(unsafe { theirs.base().read() }, 7);
        assert!(health.check().is_err());
    }
}
