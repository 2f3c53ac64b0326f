//! Programs into which this library cannot be loaded. A program is checked before it is executed, perhaps by a child of
//! vfork: nothing here allocates, or changes memory of the parent's, apart from what says which programs were named.

use std::ffi::CStr;
use std::ptr;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering};

use crate::kernel::{self, MAP_FAILED};

/// Longest name that is looked at.
const MAX_PATH: usize = libc::PATH_MAX as usize;
/// Bytes of a file that are read at once.
const BLOCK: usize = 4096;

/// Sizes in an ELF file of 64 bits.
const PROGRAM_HEADER: usize = 56;
const SECTION_HEADER: usize = 64;

/// Programs that are remembered.
const NAMED: usize = 512;

type Named = [AtomicU64; NAMED];

/// Programs that were named, in memory that this process shares with its children: a shell names each once.
static SHARED: AtomicPtr<Named> = AtomicPtr::new(ptr::null_mut());

/// Begins to remember programs. Without memory for it they are named each time.
pub fn begin() {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_SHARED | libc::MAP_ANONYMOUS;
    // SAFETY: new memory of this library.
    let at = unsafe { kernel::mmap(0, size_of::<Named>(), protection, flags, -1, 0) };
    if at != MAP_FAILED {
        SHARED.store(at as *mut Named, Ordering::Release);
    }
}

/// Remembers a program. Returns whether it was not known.
fn is_new(file: &File) -> bool {
    // SAFETY: null, or zeroed memory that is never unmapped.
    let named = unsafe { SHARED.load(Ordering::Acquire).as_ref() };
    let (Some(named), Some(stat)) = (named, kernel::stat(file.0)) else { return true };
    let key = (stat.st_ino ^ stat.st_dev.rotate_left(32)).max(1);
    let relaxed = Ordering::Relaxed;
    let place =
        named.iter().find_map(|place| match place.compare_exchange(0, key, relaxed, relaxed) {
            Ok(_) => Some(true),
            Err(known) => (known == key).then_some(false),
        });
    place.unwrap_or(true)
}

/// An open file.
struct File(i32);

impl File {
    fn open(path: &CStr) -> Option<File> {
        kernel::open(path).map(File)
    }

    /// Reads a block at an offset; bytes beyond the end are zero.
    fn block(&self, at: u64) -> [u8; BLOCK] {
        let mut block = [0; BLOCK];
        kernel::read_at(self.0, &mut block, at);
        block
    }
}

impl Drop for File {
    fn drop(&mut self) {
        kernel::close(self.0);
    }
}

/// A number of `bytes` bytes, in the order of the machine's.
fn number(block: &[u8], at: usize, bytes: usize) -> u64 {
    let bytes = block.get(at..at + bytes).unwrap_or_default();
    bytes.iter().rev().fold(0, |value, &byte| value << 8 | u64::from(byte))
}

/// Reason for which a program does not borrow; `None` if it may, or is no program.
fn obstacle(file: &File) -> Option<&'static str> {
    if kernel::file_mode(file.0) & (libc::S_ISUID | libc::S_ISGID) != 0 {
        return Some("it is setuid or setgid");
    }
    let head = file.block(0);
    if !head.starts_with(b"\x7fELF\x02\x01") {
        return None;
    }
    let headers = file.block(number(&head, 32, 8));
    let count = (number(&head, 56, 2) as usize).min(BLOCK / PROGRAM_HEADER);
    let mut kinds = (0..count).map(|index| number(&headers, index * PROGRAM_HEADER, 4));
    if !kinds.any(|kind| kind == u64::from(libc::PT_INTERP)) {
        return Some("it is linked statically");
    }
    is_go(file, &head).then_some("it is a Go program")
}

/// Whether there is a section that all Go programs have.
fn is_go(file: &File, head: &[u8]) -> bool {
    let headers = file.block(number(head, 40, 8));
    let count = (number(head, 60, 2) as usize).min(BLOCK / SECTION_HEADER);
    let names = number(head, 62, 2) as usize * SECTION_HEADER;
    let names = file.block(number(&headers, names + 24, 8));
    (0..count).any(|index| {
        let name = number(&headers, index * SECTION_HEADER, 4) as usize;
        names.get(name..).is_some_and(|name| name.starts_with(b".go.buildinfo\0"))
    })
}

/// Says once of a program which is about to be executed that it will not borrow, if so. One that `is_searched` for is
/// looked for in `PATH` unless its name has a slash.
pub fn announce(name: &CStr, is_searched: bool) {
    let bytes = name.to_bytes();
    let found = match is_searched && !bytes.contains(&b'/') {
        true => search(bytes),
        false => File::open(name),
    };
    if let Some(file) = found
        && let Some(why) = obstacle(&file)
        && is_new(&file)
    {
        let name = std::str::from_utf8(bytes).unwrap_or("a program");
        kernel::complain(&[
            "'",
            name,
            "' runs without borrowed memory: ",
            why,
            ", so this library is not loaded into it or sees nothing of what it does",
        ]);
    }
}

/// Looks for a program in `PATH`.
fn search(name: &[u8]) -> Option<File> {
    // SAFETY: the string is not changed meanwhile, as the program promises to functions that execute by `PATH`.
    let path = unsafe {
        let path = libc::getenv(c"PATH".as_ptr());
        if path.is_null() { c"/usr/bin:/bin" } else { CStr::from_ptr(path) }
    };
    path.to_bytes().split(|&byte| byte == b':').find_map(|dir| {
        let mut full = [0_u8; MAX_PATH];
        let length = dir.len() + 1 + name.len();
        full.get(length)?;
        full[..dir.len()].copy_from_slice(dir);
        full[dir.len()] = b'/';
        full[dir.len() + 1..length].copy_from_slice(name);
        File::open(CStr::from_bytes_until_nul(&full).ok()?)
    })
}
