//! Pages of this process that daemons know as memory for local buffers, and making other pages such memory.
//!
//! The kernel's list of mappings decides whether a page still is that memory: the program may have unmapped it and
//! mapped something else there.

use std::ops::Range;
use std::os::fd::AsRawFd;
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use super::Context;
use super::membership::Membership;
use crate::error::{Error, Result};
use crate::protocol::{BUFFER_NAME, Request, Response};
use crate::shm::copy;
use crate::shm::mapping::{Access, Mapping, PAGE_BYTES, checked_round_up_to_page};

/// Buffer memory, and its address in this process.
struct Placed {
    address: usize,
    inode: u64,
    membership: Weak<Membership>,
}

/// Those of all contexts: memory that one has registered must not be taken from it by another.
static PLACED: Mutex<Vec<Placed>> = Mutex::new(Vec::new());

/// Those whose contexts are open.
fn placed() -> MutexGuard<'static, Vec<Placed>> {
    let mut placed = PLACED.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    placed.retain(|placed| placed.membership.strong_count() != 0);
    placed
}

impl Placed {
    fn new(membership: &Arc<Membership>, mapping: &Mapping, address: usize) -> Result<Placed> {
        let inode = mapping.inode().map_err(|e| Error::io("cannot tell buffers apart", e))?;
        Ok(Placed { address, inode, membership: Arc::downgrade(membership) })
    }
}

/// Notes that the daemon knows a buffer at the address where it is mapped.
pub(super) fn note(membership: &Arc<Membership>, buffer: &Mapping) -> Result<()> {
    let new = Placed::new(membership, buffer, buffer.base() as usize)?;
    placed().push(new);
    Ok(())
}

/// Takes a buffer back that the daemon has forgotten.
pub(super) fn forget(buffer: &Mapping) {
    let base = buffer.base() as usize;
    placed().retain(|placed| placed.address != base);
}

impl Context {
    /// Makes the pages around `size_bytes` bytes at `buffer` memory for local buffers, with the same contents at the
    /// same addresses. Pages that are such memory already, of this context or another, stay as they are.
    ///
    /// # Errors
    /// `EINVAL` if there are no bytes, if they do not end before the last page, or if a page belongs to a segment.
    ///
    /// # Safety
    /// The pages are ordinary memory of this process, or memory of rackmem; no other thread uses them during the call.
    pub(crate) unsafe fn register(&self, buffer: usize, size_bytes: usize) -> Result<()> {
        let pages = pages_around(buffer, size_bytes)?;
        let mut placed = placed();
        let maps = std::fs::read("/proc/self/maps");
        let maps = maps.map_err(|e| Error::io("cannot read /proc/self/maps", e))?;
        let kept = kept(&pages, &String::from_utf8_lossy(&maps), &placed)?;
        for gap in gaps(&pages, &kept) {
            // SAFETY: the caller's contract, for a part of the pages.
            placed.push(unsafe { self.replace_pages(gap) }?);
        }
        Ok(())
    }

    /// Replaces private pages by shared ones with the same contents at the same addresses.
    ///
    /// # Safety
    /// As [`Context::register`].
    unsafe fn replace_pages(&self, pages: Range<usize>) -> Result<Placed> {
        let (first, len) = (pages.start, pages.len());
        let request = Request::CreateBuffer { size_bytes: len as u64 };
        let answer = self.membership().ask(&request)?;
        let (Response::Buffer { buffer }, Some(fd)) =
            (answer.message, answer.fds.into_iter().next())
        else {
            return Err(Error::new(libc::EPROTO, "the daemon sent no buffer"));
        };
        let raw = fd.as_raw_fd();
        let prot = libc::PROT_READ | libc::PROT_WRITE;
        let flags = libc::MAP_SHARED | libc::MAP_FIXED;
        // A second view of the new memory, to fill it before it takes the old pages' place.
        let view = Mapping::open(fd, len, Access::ReadWrite)
            .map_err(|e| Error::io("cannot map the buffer", e))?;
        // SAFETY: the caller owns the pages and does not use them meanwhile; `view` is as long; the
        // new mapping covers exactly the old pages and shows the same bytes.
        let mapped = unsafe {
            // Not a library function: neighbours on the pages may be the red zones of a sanitizer.
            copy::copy_out(view.base(), first as *const u8, len);
            libc::mmap(first as *mut libc::c_void, len, prot, flags, raw, 0)
        };
        if mapped == libc::MAP_FAILED {
            let error = std::io::Error::last_os_error();
            return Err(Error::io("cannot register the buffer", error));
        }
        self.place(buffer, first as u64)?;
        Placed::new(self.membership(), &view, first)
    }
}

fn pages_around(buffer: usize, size_bytes: usize) -> Result<Range<usize>> {
    let first = buffer & !(PAGE_BYTES - 1);
    if first == 0 || size_bytes == 0 {
        return Err(Error::invalid("nothing to register"));
    }
    let end = buffer.checked_add(size_bytes).and_then(checked_round_up_to_page);
    let end = end.ok_or_else(|| {
        Error::invalid(format!(
            "cannot register {size_bytes} bytes at {buffer:#x}: they do not fit the address space"
        ))
    })?;
    Ok(first..end)
}

/// A line of `/proc/self/maps`.
struct Area<'a> {
    pages: Range<usize>,
    /// Offset of the first page in the file.
    offset: usize,
    inode: u64,
    /// Empty without a file.
    file: &'a str,
}

impl Area<'_> {
    fn parse(line: &str) -> Option<Area<'_>> {
        let mut words = line.split_ascii_whitespace();
        let hex = |text| usize::from_str_radix(text, 16).ok();
        let (start, end) = words.next()?.split_once('-')?;
        let offset = words.nth(1)?;
        let inode = words.nth(1)?.parse().ok()?;
        let file = words.next().unwrap_or_default();
        Some(Area { pages: hex(start)?..hex(end)?, offset: hex(offset)?, inode, file })
    }

    fn shows(&self, placed: &Placed) -> bool {
        self.inode == placed.inode && self.pages.start.wrapping_sub(self.offset) == placed.address
    }
}

/// The parts of `pages` that daemons know, in the order of their addresses.
fn kept(pages: &Range<usize>, maps: &str, placed: &[Placed]) -> Result<Vec<Range<usize>>> {
    let mut kept = Vec::new();
    for area in maps.lines().filter_map(Area::parse) {
        let part = area.pages.start.max(pages.start)..area.pages.end.min(pages.end);
        let Some(name) = area.file.strip_prefix("/memfd:").filter(|_| !part.is_empty()) else {
            continue;
        };
        if name.starts_with("rackmem-") && name != BUFFER_NAME {
            let message = format!(
                "cannot register the pages from {:#x} to {:#x}: they are memory of rackmem itself, such as a segment, \
                 which is a local buffer as it is",
                part.start, part.end
            );
            return Err(Error::invalid(message));
        }
        if placed.iter().any(|placed| area.shows(placed)) {
            kept.push(part);
        }
    }
    Ok(kept)
}

/// The parts of `pages` between those in `kept`.
fn gaps(pages: &Range<usize>, kept: &[Range<usize>]) -> Vec<Range<usize>> {
    let starts = std::iter::once(pages.start).chain(kept.iter().map(|kept| kept.end));
    let ends = kept.iter().map(|kept| kept.start).chain(std::iter::once(pages.end));
    starts.zip(ends).map(|(start, end)| start..end).filter(|gap| !gap.is_empty()).collect()
}

#[cfg(test)]
#[allow(clippy::single_range_in_vec_init, reason = "these are lists of ranges")]
mod tests {
    use super::*;

    const MAPS: &str = "\
10000-14000 rw-p 00000000 00:00 0 
14000-16000 rw-s 00000000 00:01 7                          /memfd:rackmem-buffer (deleted)
17000-18000 rw-s 00003000 00:01 7                          /memfd:rackmem-buffer (deleted)
18000-1a000 rw-s 00001000 00:01 8                          /memfd:rackmem-buffer (deleted)
20000-28000 rw-s 00000000 00:01 9                          /memfd:rackmem-segment-0 (deleted)
";

    fn placed() -> Vec<Placed> {
        let new = |address, inode| Placed { address, inode, membership: Weak::new() };
        vec![new(0x14000, 7), new(0x18000, 8)]
    }

    #[test]
    fn pages_that_still_are_the_registered_memory_stay() {
        let kept = |pages| kept(&pages, MAPS, &placed()).unwrap();
        assert!(kept(0x10000..0x14000).is_empty());
        assert_eq!(kept(0x13000..0x15000), [0x14000..0x15000]);
        // The first mapping has a hole. Of the second the daemon knows another page at that address.
        assert_eq!(kept(0x10000..0x20000), [0x14000..0x16000, 0x17000..0x18000]);
    }

    #[test]
    fn no_page_of_a_segment_is_registered() {
        for pages in [0x1f000..0x21000, 0x27000..0x29000, 0x10000..0x30000] {
            assert_eq!(kept(&pages, MAPS, &placed()).unwrap_err().errno(), libc::EINVAL);
        }
        assert!(kept(&(0x1f000..0x20000), MAPS, &placed()).is_ok());
    }

    #[test]
    fn the_other_pages_are_replaced() {
        assert_eq!(gaps(&(0..9), &[]), [0..9]);
        assert_eq!(gaps(&(0..9), &[0..2, 2..3, 5..6]), [3..5, 6..9]);
        assert_eq!(gaps(&(0..9), &[4..9]), [0..4]);
        assert!(gaps(&(0..9), &[0..9]).is_empty());
    }

    #[test]
    fn ranges_end_in_the_address_space() {
        assert_eq!(pages_around(0x1fff, 2).unwrap(), 0x1000..0x3000);
        for (buffer, size_bytes) in
            [(0, 8), (0x1000, 0), (usize::MAX - 10, 100), (usize::MAX - 10, 5)]
        {
            assert_eq!(pages_around(buffer, size_bytes).unwrap_err().errno(), libc::EINVAL);
        }
    }
}
