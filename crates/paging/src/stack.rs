//! Stacks to work on in a signal handler: the one that the program gave may be small (8 KiB are common, of which the
//! kernel takes nearly half), and a lane that has to connect anew needs more.

use std::io;

use rustix::mm::{MprotectFlags, ProtFlags, mprotect};

use super::core::Area;
use super::options::PAGE_BYTES;

/// Memory is used only as far as a stack grows.
const STACK_BYTES: usize = 256 << 10;

/// A stack that grows into an inaccessible page if it is too small.
pub(super) struct Stack(Area);

impl Stack {
    pub(super) fn new() -> io::Result<Stack> {
        let area = Area::new(STACK_BYTES, ProtFlags::READ | ProtFlags::WRITE)?;
        // SAFETY: the page was mapped just now, and nobody uses it.
        unsafe { mprotect(area.base().cast(), PAGE_BYTES, MprotectFlags::empty())? };
        Ok(Stack(area))
    }

    /// Works on this stack. A panic ends the process, as in any signal handler.
    ///
    /// # Safety
    /// Nobody else works on it.
    pub(super) unsafe fn call<T>(&self, work: impl FnOnce() -> T) -> T {
        let mut call = Call { work: Some(work), result: None };
        let enter = enter(&call);
        // SAFETY: areas end at a multiple of the page size; the area is writable and, by the condition, free. What is
        // entered gets the call that it was made for.
        unsafe { call_on(self.0.base().add(self.0.len()), enter, (&raw mut call).cast()) };
        call.result.expect("the work was done")
    }
}

struct Call<W, T> {
    work: Option<W>,
    result: Option<T>,
}

type Enter = unsafe extern "C" fn(*mut u8);

/// The function that takes a call as its argument.
fn enter<W: FnOnce() -> T, T>(_: &Call<W, T>) -> Enter {
    unsafe extern "C" fn run<W: FnOnce() -> T, T>(call: *mut u8) {
        // SAFETY: `call` waits until this returns, and gives its own call.
        let call = unsafe { &mut *call.cast::<Call<W, T>>() };
        call.result = call.work.take().map(|work| work());
    }
    run::<W, T>
}

/// Calls a function with an argument on the stack that ends at `top`.
///
/// # Safety
/// `top` is a multiple of 16, and there is a stack below it that nobody uses; the function may be called with the
/// argument, and does not unwind.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
unsafe extern "C" fn call_on(top: *mut u8, function: Enter, argument: *mut u8) {
    // The frame pointer leads debuggers from one stack to the other.
    std::arch::naked_asm!(
        ".cfi_startproc",
        "push rbp",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset rbp, -16",
        "mov rbp, rsp",
        ".cfi_def_cfa_register rbp",
        "mov rsp, rdi",
        "mov rdi, rdx",
        "call rsi",
        "mov rsp, rbp",
        "pop rbp",
        ".cfi_def_cfa rsp, 8",
        "ret",
        ".cfi_endproc",
    )
}

/// Calls a function with an argument on the stack that ends at `top`.
///
/// # Safety
/// `top` is a multiple of 16, and there is a stack below it that nobody uses; the function may be called with the
/// argument, and does not unwind.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
unsafe extern "C" fn call_on(top: *mut u8, function: Enter, argument: *mut u8) {
    // The frame pointer leads debuggers from one stack to the other.
    std::arch::naked_asm!(
        ".cfi_startproc",
        "stp x29, x30, [sp, #-16]!",
        ".cfi_def_cfa_offset 16",
        ".cfi_offset x29, -16",
        ".cfi_offset x30, -8",
        "mov x29, sp",
        ".cfi_def_cfa_register x29",
        "mov sp, x0",
        "mov x0, x2",
        "blr x1",
        "mov sp, x29",
        "ldp x29, x30, [sp], #16",
        ".cfi_def_cfa sp, 0",
        "ret",
        ".cfi_endproc",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_is_done_elsewhere_and_comes_back() {
        let stack = Stack::new().unwrap();
        let words: Vec<usize> = (0..100).collect();
        let here = 0u8;
        for _ in 0..3 {
            // SAFETY: this is the only use.
            let (sum, place) = unsafe {
                stack.call(|| {
                    let there = 0u8;
                    (words.iter().sum::<usize>(), std::hint::black_box(&raw const there) as usize)
                })
            };
            assert_eq!(sum, 4950);
            assert!(stack.0.contains(place) && !stack.0.contains(&raw const here as usize));
        }
        // SAFETY: as above. The work uses as much as there is, but for a little.
        let last = unsafe { stack.call(|| std::hint::black_box([7u8; STACK_BYTES / 2])[100]) };
        assert_eq!(last, 7);
    }
}
