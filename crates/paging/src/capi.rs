//! The functions of `include/rackmem/borrow.h`.
//!
//! Each returns 0 or a negative `errno`, and keeps the explanation for `rackmem_last_error`.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use crate::region::Region;
use crate::{Delivery, MIN_CACHE_PAGES, PAGE_BYTES, PagerOptions, Placement, Statistics, Waiting};
use rackmem_lease::Wanted;
use rackmem_lease::error::{Error, Result};

/// Share of borrowed memory that is local unless something else is said.
const CACHE_SHARE: usize = 4;

/// `rackmem_borrow_options`.
#[allow(missing_docs, reason = "see `rackmem/borrow.h`")]
#[repr(C)]
pub struct BorrowOptions {
    pub rack: *const c_char,
    pub cache_bytes: usize,
    pub copies: c_uint,
    pub prefetch_pages: c_int,
    pub delivery: c_int,
    pub patience_seconds: c_uint,
}

/// Regions by their addresses. A call that may wait for a lender does so without the lock.
static REGIONS: Mutex<BTreeMap<usize, Arc<Region>>> = Mutex::new(BTreeMap::new());

fn regions() -> MutexGuard<'static, BTreeMap<usize, Arc<Region>>> {
    REGIONS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The region that begins at an address.
fn region_at(address: *mut c_void) -> Result<Arc<Region>> {
    regions().get(&(address as usize)).cloned().ok_or_else(|| unknown(address))
}

/// The region that an address is in, and its offset there.
fn region_around(address: *mut c_void) -> Result<(Arc<Region>, usize)> {
    let regions = regions();
    let (base, region) = regions
        .range(..=address as usize)
        .next_back()
        .filter(|(base, region)| address as usize - **base < region.len())
        .ok_or_else(|| invalid(format!("{address:p} is not in memory of rackmem_borrow")))?;
    Ok((Arc::clone(region), address as usize - base))
}

fn code(result: Result<()>) -> c_int {
    let Err(error) = result else { return 0 };
    let text = CString::new(error.to_string().replace('\0', " ")).unwrap_or_default();
    // SAFETY: the text ends with a zero.
    unsafe { rackmem::capi::rackmem_set_last_error(-error.errno(), text.as_ptr()) }
}

fn invalid(what: String) -> Error {
    Error::io(what, std::io::Error::from_raw_os_error(libc::EINVAL))
}

/// The request and the pager's settings that C has asked for.
///
/// # Safety
/// `options` is as its description says.
unsafe fn wishes(size: usize, options: &BorrowOptions) -> Result<(Wanted, PagerOptions)> {
    let mut wanted = Wanted::new(size as u64);
    wanted.copies = options.copies.max(1);
    if options.patience_seconds != 0 {
        wanted.patience = Duration::from_secs(options.patience_seconds.into());
    }
    if !options.rack.is_null() {
        // SAFETY: a name that ends with a zero.
        let rack = unsafe { CStr::from_ptr(options.rack) };
        wanted.rack = Some(rack.to_string_lossy().into_owned());
    }
    let mut paging = PagerOptions {
        waiting: Waiting::Auto,
        evictor: Placement::Auto,
        ..PagerOptions::default()
    };
    paging.cache_bytes = match options.cache_bytes {
        0 => (size / CACHE_SHARE).max(MIN_CACHE_PAGES * PAGE_BYTES),
        bytes => bytes,
    };
    match options.prefetch_pages {
        0 => {}
        -1 => paging.prefetch_pages = 0,
        pages => {
            paging.prefetch_pages = usize::try_from(pages).map_err(|_| {
                invalid(format!("prefetch_pages is {pages}: -1 is none, 0 the default"))
            })?;
        }
    }
    paging.delivery = match options.delivery {
        0 => Delivery::Thread,
        1 => Delivery::Inline,
        2 => Delivery::Auto,
        other => {
            return Err(invalid(format!("delivery is {other}: see enum rackmem_borrow_delivery")));
        }
    };
    Ok((wanted, paging))
}

/// See `rackmem/borrow.h`.
///
/// # Safety
/// `options` is NULL or as its description says; `address` is NULL or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackmem_borrow(
    size: usize,
    options: *const BorrowOptions,
    address: *mut *mut c_void,
) -> c_int {
    let default = BorrowOptions {
        rack: std::ptr::null(),
        cache_bytes: 0,
        copies: 0,
        prefetch_pages: 0,
        delivery: 0,
        patience_seconds: 0,
    };
    // SAFETY: the caller's contract.
    let (options, address) = unsafe { (options.as_ref().unwrap_or(&default), address.as_mut()) };
    code((|| {
        let address = address.ok_or_else(|| invalid("`address` is NULL".to_owned()))?;
        // SAFETY: the caller's contract.
        let (wanted, paging) = unsafe { wishes(size, options) }?;
        let mut region = Region::borrow(&wanted, &paging)?;
        let base = region.as_mut_ptr();
        regions().insert(base as usize, Arc::new(region));
        *address = base.cast();
        Ok(())
    })())
}

fn unknown(address: *mut c_void) -> Error {
    invalid(format!("{address:p} is not an address that rackmem_borrow gave"))
}

/// See `rackmem/borrow.h`.
#[unsafe(no_mangle)]
pub extern "C" fn rackmem_borrow_return(address: *mut c_void) -> c_int {
    if address.is_null() {
        return 0;
    }
    let region = regions().remove(&(address as usize));
    code(region.map(drop).ok_or_else(|| unknown(address)))
}

/// See `rackmem/borrow.h`.
///
/// # Safety
/// `statistics` is NULL or can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackmem_borrow_read_statistics(
    address: *mut c_void,
    statistics: *mut Statistics,
) -> c_int {
    // SAFETY: the caller's contract.
    let into = unsafe { statistics.as_mut() };
    code((|| {
        let into = into.ok_or_else(|| invalid("`statistics` is NULL".to_owned()))?;
        *into = region_at(address)?.statistics();
        Ok(())
    })())
}

/// See `rackmem/borrow.h`.
#[unsafe(no_mangle)]
pub extern "C" fn rackmem_borrow_evict(address: *mut c_void) -> c_int {
    code(region_at(address).and_then(|region| region.pager().evict_all()))
}

/// See `rackmem/borrow.h`.
///
/// # Safety
/// No reference of Rust to a byte of these pages is alive.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rackmem_borrow_discard(address: *mut c_void, size: usize) -> c_int {
    code((|| {
        let (region, offset) = region_around(address)?;
        // SAFETY: the caller's contract.
        unsafe { region.discard_shared(offset, size) }
    })())
}
