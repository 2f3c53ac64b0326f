//! `PAGEMAP_SCAN`: finds pages that were written. Layouts and numbers are those of `linux/fs.h` of Linux 6.8.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use super::options::PAGE_BYTES;
use super::uffd::{READ_WRITE, ioc, raw_ioctl};
use rackmem_lease::descriptors::own;

/// `/proc/self/pagemap`, asked for pages that were written since they were delivered protected.
#[derive(Debug)]
pub struct Pagemap(OwnedFd);

#[repr(C)]
#[derive(Default)]
struct Scan {
    size: u64,
    flags: u64,
    start: u64,
    end: u64,
    walk_end: u64,
    vec: u64,
    vec_len: u64,
    max_pages: u64,
    category_inverted: u64,
    category_mask: u64,
    category_anyof_mask: u64,
    return_mask: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Default)]
struct PageRegion {
    start: u64,
    end: u64,
    categories: u64,
}

const PAGEMAP_SCAN: libc::Ioctl = ioc(READ_WRITE, b'f', 16, size_of::<Scan>());
const WRITTEN: u64 = 1 << 1;
/// Runs of written pages that one scan reports.
const SCAN_RUNS: usize = 64;

impl Pagemap {
    /// This process's, if its kernel can scan.
    pub fn open() -> Option<Pagemap> {
        let pagemap = Pagemap(own(std::fs::File::open("/proc/self/pagemap").ok()?.into()));
        pagemap.written(0x1000, 1, |_, _| ()).ok().map(|()| pagemap)
    }

    /// Calls `found` with index and number of each run of written pages among `pages` pages from `start`.
    ///
    /// # Errors
    /// The error of the kernel.
    pub fn written(
        &self,
        start: usize,
        pages: usize,
        mut found: impl FnMut(usize, usize),
    ) -> io::Result<()> {
        let mut runs = [PageRegion::default(); SCAN_RUNS];
        let end = (start + pages * PAGE_BYTES) as u64;
        let mut scan = Scan {
            size: size_of::<Scan>() as u64,
            start: start as u64,
            end,
            vec: runs.as_mut_ptr() as u64,
            vec_len: SCAN_RUNS as u64,
            category_mask: WRITTEN,
            return_mask: WRITTEN,
            ..Scan::default()
        };
        loop {
            let count = raw_ioctl(self.0.as_raw_fd(), PAGEMAP_SCAN, &mut scan)?;
            for run in &runs[..count as usize] {
                let first = (run.start as usize - start) / PAGE_BYTES;
                found(first, (run.end - run.start) as usize / PAGE_BYTES);
            }
            if scan.walk_end >= end || count == 0 {
                return Ok(());
            }
            scan.start = scan.walk_end;
        }
    }
}
