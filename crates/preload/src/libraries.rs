//! Addresses of the C library and the dynamic loader, to tell their calls from the program's.

use std::ffi::{c_int, c_void};
use std::sync::atomic::{AtomicUsize, Ordering};

/// First address and size of their code: the C library's, the loader's.
static CODE: [(AtomicUsize, AtomicUsize); 2] =
    [(AtomicUsize::new(0), AtomicUsize::new(0)), (AtomicUsize::new(0), AtomicUsize::new(0))];

/// Whether an address is code of the C library or of the loader; false before [`find`].
pub fn is_of_system(address: usize) -> bool {
    CODE.iter().any(|(base, length)| {
        address.wrapping_sub(base.load(Ordering::Relaxed)) < length.load(Ordering::Relaxed)
    })
}

/// Looks for both.
pub fn find() {
    // SAFETY: the function keeps nothing, and the C library calls it for each library before it returns.
    unsafe { libc::dl_iterate_phdr(Some(look), std::ptr::null_mut()) };
}

/// Looks at one library.
unsafe extern "C" fn look(
    info: *mut libc::dl_phdr_info,
    _size: usize,
    _data: *mut c_void,
) -> c_int {
    // SAFETY: the C library hands over a valid description, with that many headers.
    let (base, headers) = unsafe {
        let info = &*info;
        (
            info.dlpi_addr as usize,
            std::slice::from_raw_parts(info.dlpi_phdr, info.dlpi_phnum.into()),
        )
    };
    // SAFETY: asks for a number.
    let loader = unsafe { libc::getauxval(libc::AT_BASE) } as usize;
    // Functions that only the C library has.
    let function = libc::gnu_get_libc_version as *const () as usize;
    for header in headers {
        if header.p_type != libc::PT_LOAD || header.p_flags & libc::PF_X == 0 {
            continue;
        }
        let (begin, length) = (base + header.p_vaddr as usize, header.p_memsz as usize);
        let place = match () {
            () if function.wrapping_sub(begin) < length => &CODE[0],
            () if base == loader => &CODE[1],
            () => continue,
        };
        place.0.store(begin, Ordering::Relaxed);
        place.1.store(length, Ordering::Relaxed);
    }
    0
}
