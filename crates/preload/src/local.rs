//! Local memory that stands in for borrowed memory while a system call is made.
//!
//! The kernel does not wait for pages that are away, but fails with EFAULT, or stops there, where this process may not
//! handle its faults, or where the faulting thread serves itself. So the kernel is given local memory, in one call with
//! its usual meaning. The program's own thread copies between the two, and waits for pages.
//!
//! Nothing here allocates or takes a lock: the functions that use it may be called by handlers of signals.

use std::ffi::{c_char, c_void};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use rackmem_paging::{PAGE_BYTES, Pager};

use crate::{kernel, process, thread};

/// A pointer of the program's.
pub type Pointer = *mut c_void;

/// Bytes of a room that is kept for the next call. Larger ones are mapped for a call.
const SLOT_BYTES: usize = 64 << 10;
/// Rooms that are kept: as many as bits of a word. When all are taken, rooms are mapped.
const SLOTS: usize = u64::BITS as usize;

/// Address of the rooms that are kept; 0 before the first was needed.
static SLOTS_BASE: AtomicUsize = AtomicUsize::new(0);
/// Those that are taken.
static TAKEN: AtomicU64 = AtomicU64::new(0);

/// Bytes that are brought before they are copied.
const CHUNK_BYTES: usize = 64 << 10;

/// The pager, if system calls on borrowed memory need help.
pub fn helping() -> Option<&'static Pager> {
    if thread::is_inside() {
        return None;
    }
    process::pager().filter(|pager| pager.is_user_mode_only())
}

/// Local memory, at the beginning of a page; given back when dropped.
#[derive(Debug)]
pub struct Room {
    base: usize,
    length: usize,
    slot: Option<u32>,
}

impl Room {
    /// `None`: there is no memory.
    pub fn new(length: usize) -> Option<Room> {
        if length <= SLOT_BYTES
            && let Some(slot) = Room::slot()
        {
            return Some(slot);
        }
        let length = length.max(1).checked_next_multiple_of(PAGE_BYTES)?;
        let base = kernel::map(length, libc::PROT_READ | libc::PROT_WRITE)?;
        Some(Room { base, length, slot: None })
    }

    fn slot() -> Option<Room> {
        let mut base = SLOTS_BASE.load(Ordering::Acquire);
        if base == 0 {
            let fresh = kernel::map(SLOTS * SLOT_BYTES, libc::PROT_READ | libc::PROT_WRITE)?;
            base = match SLOTS_BASE.compare_exchange(0, fresh, Ordering::AcqRel, Ordering::Acquire)
            {
                Ok(_) => fresh,
                Err(other) => {
                    // SAFETY: just mapped, and nobody has it.
                    unsafe { kernel::munmap(fresh, SLOTS * SLOT_BYTES) };
                    other
                }
            };
        }
        loop {
            let taken = TAKEN.load(Ordering::Relaxed);
            let slot = (!taken).trailing_zeros();
            let bit = 1_u64.checked_shl(slot)?;
            if TAKEN.fetch_or(bit, Ordering::Acquire) & bit == 0 {
                let base = base + slot as usize * SLOT_BYTES;
                return Some(Room { base, length: SLOT_BYTES, slot: Some(slot) });
            }
        }
    }

    /// Address of its first byte.
    pub fn base(&self) -> usize {
        self.base
    }

    /// Bytes.
    pub fn length(&self) -> usize {
        self.length
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        match self.slot {
            Some(slot) => {
                TAKEN.fetch_and(!(1 << slot), Ordering::Release);
            }
            None => {
                // SAFETY: mapped by `new`, and not used any more.
                unsafe { kernel::munmap(self.base, self.length) };
            }
        }
    }
}

/// Copies between borrowed memory, which is brought first, and local memory. Returns false if it is lost.
fn copy(pager: &Pager, program: usize, local: usize, length: usize, into_program: bool) -> bool {
    let mut done = 0;
    while done < length {
        let at = program + done;
        let wanted = (length - done).min(CHUNK_BYTES);
        let there = {
            let _inside = thread::enter();
            pager.ensure_present(at, wanted, into_program)
        };
        let Ok(there) = there else { return false };
        let there = there.clamp(1, wanted);
        let (from, to) = if into_program { (local + done, at) } else { (at, local + done) };
        // SAFETY: the program promises that so much is there; the local memory is as long, and is nobody else's.
        // A page that has left since waits for itself.
        unsafe { std::ptr::copy(from as *const u8, to as *mut u8, there) };
        done += there;
    }
    true
}

/// Copies borrowed memory into local memory. Returns false if it is lost.
pub fn copy_in(pager: &Pager, program: usize, local: usize, length: usize) -> bool {
    copy(pager, program, local, length, false)
}

/// Copies local memory into borrowed memory. If that is lost, the program gets SIGBUS.
pub fn copy_out(pager: &Pager, program: usize, local: usize, length: usize) {
    if !copy(pager, program, local, length, true) {
        // SAFETY: as in `copy`.
        unsafe { std::ptr::copy(local as *const u8, program as *mut u8, length) };
    }
}

/// Part that is copied back into the program's memory after a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Back {
    Nothing,
    /// All of it, if the kernel changed it.
    Changes,
    /// As many units of so many bytes as the call returned.
    Units(usize),
}

#[derive(Debug)]
struct Part {
    program: usize,
    local: usize,
    bytes: usize,
    back: Back,
    /// Its room, unless it is in the common one.
    _own: Option<Room>,
}

/// Most pointers of a call.
const MAX_PARTS: usize = 6;

/// Return value of a system call.
pub trait Returned: Copy {
    /// The number that it counts; 0 for an error or a value that counts nothing.
    fn count(self) -> usize;
}

macro_rules! returned {
    ($($type:ty => |$value:ident| $count:expr;)*) => {
        $(impl Returned for $type {
            fn count(self) -> usize {
                let $value = self;
                $count
            }
        })*
    };
}

returned! {
    i32 => |value| value.max(0) as usize;
    isize => |value| value.max(0) as usize;
    Pointer => |_value| 0;
    () => |_value| 0;
}

/// The pointers of a call, with local memory in the place of borrowed memory.
#[derive(Debug)]
pub struct Locals {
    pager: Option<&'static Pager>,
    common: Option<Room>,
    used: usize,
    parts: [Option<Part>; MAX_PARTS],
    count: usize,
}

impl Locals {
    /// Nothing yet.
    pub fn new() -> Locals {
        Locals {
            pager: helping(),
            common: None,
            used: 0,
            parts: [const { None }; MAX_PARTS],
            count: 0,
        }
    }

    /// Memory that the kernel reads.
    pub fn input(&mut self, at: Pointer, bytes: usize) -> Pointer {
        self.hold(at, bytes, Back::Nothing, true)
    }

    /// Memory that the kernel reads and writes, or may leave as it is.
    pub fn both(&mut self, at: Pointer, bytes: usize) -> Pointer {
        self.hold(at, bytes, Back::Changes, true)
    }

    /// Memory that the kernel writes: as many units of `unit` bytes as the call returns.
    pub fn fill(&mut self, at: Pointer, bytes: usize, unit: usize) -> Pointer {
        self.hold(at, bytes, Back::Units(unit), false)
    }

    /// Memory whose length is in a word, which the kernel may change.
    pub fn sized(&mut self, at: Pointer, length: Pointer) -> Pointer {
        match self.pager.filter(|pager| !length.is_null() && pager.overlaps(at as usize, 1)) {
            // SAFETY: the program promises that the word is there.
            Some(_) => self.both(at, unsafe { length.cast::<u32>().read() } as usize),
            None => at,
        }
    }

    /// Memory whose length only the kernel knows, at most `most`; or a number.
    pub fn some(&mut self, at: Pointer, most: usize) -> Pointer {
        let Some(pager) = self.pager.filter(|pager| pager.contains(at as usize)) else { return at };
        let begin = at as usize;
        let (end, _) = pager.part(begin..begin.saturating_add(most), false);
        self.both(at, end - begin)
    }

    /// A string that the kernel reads.
    pub fn text(&mut self, at: Pointer) -> Pointer {
        let bytes = self.text_bytes(at);
        self.input(at, bytes)
    }

    /// A string that is changed in place.
    pub fn template(&mut self, at: Pointer) -> Pointer {
        let bytes = self.text_bytes(at);
        self.both(at, bytes)
    }

    /// Length of a string with its end; 0 if none of it can be borrowed, or it is not the program's to read.
    fn text_bytes(&self, at: Pointer) -> usize {
        let begin = at as usize;
        let is_of_interest = self.pager.is_some_and(|pager| {
            pager.part(begin..begin + 1, false).1
                || pager.overlaps(begin, libc::PATH_MAX as usize)
                    && !pager.contains(begin)
                    && kernel::is_mapped(begin, 1)
        });
        // SAFETY: the program promises a string, and it begins in memory that may be read.
        if is_of_interest { unsafe { libc::strlen(at.cast::<c_char>()) + 1 } } else { 0 }
    }

    fn hold(&mut self, at: Pointer, bytes: usize, back: Back, is_read: bool) -> Pointer {
        let Some(pager) = self.pager.filter(|pager| pager.overlaps(at as usize, bytes)) else {
            return at;
        };
        let program = at as usize;
        let is_written = back != Back::Nothing;
        let (end, is_helped) = pager.part(program..program + bytes, is_written);
        let is_whole = end == program + bytes;
        // Memory that is not accessible is left to the kernel, which reports it.
        if is_whole && !is_helped || !is_whole && !kernel::is_mapped(program, bytes) {
            return at;
        }
        let Some((local, own)) = self.room(bytes).filter(|_| self.count < MAX_PARTS) else {
            return at;
        };
        if is_read && !copy_in(pager, program, local, bytes) {
            return at;
        }
        self.parts[self.count] = Some(Part { program, local, bytes, back, _own: own });
        self.count += 1;
        local as Pointer
    }

    /// Room for a part: in the common room as long as there is some.
    fn room(&mut self, bytes: usize) -> Option<(usize, Option<Room>)> {
        if self.common.is_none() {
            self.common = Room::new(0);
        }
        if let Some(common) = &self.common
            && common.length() - self.used >= bytes
        {
            let at = common.base() + self.used;
            self.used = (self.used + bytes).next_multiple_of(64).min(common.length());
            return Some((at, None));
        }
        let own = Room::new(bytes)?;
        Some((own.base(), Some(own)))
    }

    /// Copies back the bytes that the kernel wrote; `errno` stays.
    pub fn finish<R: Returned>(self, result: R) -> R {
        let Some(pager) = self.pager else { return result };
        for part in self.parts.iter().flatten() {
            let bytes = match part.back {
                Back::Nothing => 0,
                Back::Changes if self.is_changed(part) => part.bytes,
                Back::Changes => 0,
                Back::Units(unit) => result.count().saturating_mul(unit).min(part.bytes),
            };
            copy_out(pager, part.program, part.local, bytes);
        }
        result
    }

    /// An unchanged part is not written: another thread may have written it.
    fn is_changed(&self, part: &Part) -> bool {
        let (program, local) = (part.program as *const c_void, part.local as *const c_void);
        // SAFETY: both are of that length, and the program's memory waits for itself.
        unsafe { libc::memcmp(program, local, part.bytes) != 0 }
    }
}

/// Defines functions that make a system call with pointers of known meaning, each a line of a table:
/// `name(path: Pointer = text(), flags: c_int) -> c_int;`. After `=` stands a function of [`Locals`]; the arguments in
/// it are the program's.
macro_rules! system_calls {
    ($($name:ident(
        $($argument:ident: $type:ty $(= $kind:ident($($detail:expr),*))?),* $(,)?
    ) -> $result:ty;)*) => {$(
        #[doc = concat!("As ", stringify!($name), " of the C library.")]
        ///
        /// # Safety
        /// As for that function.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($argument: $type),*) -> $result {
            #[allow(unused_mut, reason = "a function may have no pointers")]
            let mut locals = $crate::local::Locals::new();
            // All of them refer to the program's arguments.
            let ($($argument,)*) = ($($crate::local::system_calls!(
                @argument locals, $argument $(= $kind($($detail),*))?),)*);
            locals.finish($crate::next::next!($name($($argument => $type),*) -> $result))
        }
    )*};
    (@argument $locals:ident, $argument:ident) => { $argument };
    (@argument $locals:ident, $argument:ident = $kind:ident($($detail:expr),*)) => {
        $locals.$kind($argument, $($detail),*)
    };
}

pub(crate) use system_calls;
