//! The functions that this library stands in front of.

use std::ffi::{CStr, c_void};
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};

use crate::thread;

/// A function of a library behind this one. It is looked up when the library is loaded. The library's own threads must
/// not look it up: they would wait for a thread that loads another library and waits for memory.
#[derive(Debug)]
pub struct Next {
    name: &'static CStr,
    address: AtomicPtr<c_void>,
}

impl Next {
    /// The function of that name.
    pub const fn new(name: &'static CStr) -> Next {
        Next { name, address: AtomicPtr::new(ptr::null_mut()) }
    }

    /// Its address; null if no library has it.
    pub fn address(&self) -> *mut c_void {
        let known = self.address.load(Ordering::Acquire);
        if !known.is_null() {
            return known;
        }
        let found = look_up(libc::RTLD_NEXT, self.name);
        self.address.store(found, Ordering::Release);
        found
    }
}

/// As dlsym.
pub fn look_up(library: *mut c_void, name: &CStr) -> *mut c_void {
    // Memory that the dynamic loader allocates meanwhile is the library's.
    let _inside = thread::enter();
    // SAFETY: a handle that dlsym knows, and a string that ends with 0.
    unsafe { libc::dlsym(library, name.as_ptr()) }
}

/// Calls the function of this name behind this library: `next!(read(fd: i32, ...) -> isize)`.
macro_rules! next {
    ($name:ident($($value:expr => $type:ty),* $(,)?) -> $result:ty) => {{
        static NEXT: $crate::next::Next = $crate::next::Next::new(
            // SAFETY: a literal with one 0, at its end.
            unsafe {
                ::std::ffi::CStr::from_bytes_with_nul_unchecked(
                    concat!(stringify!($name), "\0").as_bytes(),
                )
            },
        );
        #[used]
        #[unsafe(link_section = ".init_array")]
        static AT_LOAD: extern "C" fn() = {
            extern "C" fn at_load() {
                NEXT.address();
            }
            at_load
        };
        let address = NEXT.address();
        if address.is_null() {
            $crate::kernel::complain(&[concat!("no library has ", stringify!($name))]);
            // SAFETY: ends the process.
            unsafe { libc::abort() }
        }
        // SAFETY: the C library's function of this name has this type.
        let function = unsafe {
            ::std::mem::transmute::<*mut ::std::ffi::c_void,
                unsafe extern "C-unwind" fn($($type),*) -> $result>(address)
        };
        // SAFETY: the arguments are those of our caller, who calls the same function.
        unsafe { function($($value),*) }
    }};
}

pub(crate) use next;
