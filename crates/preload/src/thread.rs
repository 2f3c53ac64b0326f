//! Whether the calling thread is at work for the library itself.
//!
//! Such a thread gets plain memory: it may hold what is needed to bring borrowed memory back. Threads
//! that the library starts are so for all of their life.

/// First depth of the library's own threads.
const OWN: u32 = 1 << 30;

unsafe extern "C" {
    safe fn rackmem_preload_depth() -> *mut u32;
}

/// Changes the calling thread's depth.
fn change(by: u32) {
    let depth = rackmem_preload_depth();
    // SAFETY: the word is the calling thread's own and lives as long as it; a signal handler that runs in
    // between puts back what it found.
    unsafe { depth.write(depth.read().wrapping_add(by)) };
}

/// Whether the calling thread is inside of the library.
pub fn is_inside() -> bool {
    // SAFETY: as in `change`.
    unsafe { rackmem_preload_depth().read() != 0 }
}

/// While it lives, the calling thread is inside of the library. At the end the thread's `errno` is restored.
#[derive(Debug)]
pub struct Inside {
    errno: i32,
}

/// Enters the library.
pub fn enter() -> Inside {
    change(1);
    Inside { errno: errno() }
}

impl Drop for Inside {
    fn drop(&mut self) {
        set_errno(self.errno);
        change(1_u32.wrapping_neg());
    }
}

/// The calling thread belongs to the library from now on.
pub fn become_own() {
    change(OWN);
}

/// The calling thread's `errno`.
pub fn errno() -> i32 {
    // SAFETY: the word is the calling thread's own.
    unsafe { *libc::__errno_location() }
}

/// Sets the calling thread's `errno`.
pub fn set_errno(value: i32) {
    // SAFETY: as above.
    unsafe { *libc::__errno_location() = value };
}
