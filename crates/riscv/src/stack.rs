//! The first stack of a program: arguments, environment, auxiliary vector.

use crate::elf::{HEADER_SIZE, Image, LoadError};
use crate::space::{AddressSpace, PAGE, Permissions};

/// Bytes of a pointer to a string.
const POINTER: u64 = 8;

/// The end of the stack.
pub const STACK_TOP: u64 = 0x7fff_ffff_0000;

/// Entries of the auxiliary vector (`linux/auxvec.h`).
mod at {
    pub const NULL: u64 = 0;
    pub const PHDR: u64 = 3;
    pub const PHENT: u64 = 4;
    pub const PHNUM: u64 = 5;
    pub const PAGESZ: u64 = 6;
    pub const BASE: u64 = 7;
    pub const FLAGS: u64 = 8;
    pub const ENTRY: u64 = 9;
    pub const UID: u64 = 11;
    pub const EUID: u64 = 12;
    pub const GID: u64 = 13;
    pub const EGID: u64 = 14;
    pub const HWCAP: u64 = 16;
    pub const CLKTCK: u64 = 17;
    pub const SECURE: u64 = 23;
    pub const RANDOM: u64 = 25;
    pub const EXECFN: u64 = 31;
}

/// One bit per extension letter: I, M, A, F, D, C.
const HWCAP: u64 = 1 << 8 | 1 << 12 | 1 << 0 | 1 << 5 | 1 << 3 | 1 << 2;

/// User and group that programs see.
pub(crate) const USER: u64 = 1000;

/// Maps a stack of `size` bytes and fills it; returns the stack pointer to start with.
///
/// The C library seeds its stack protector with `random`; the same bytes give the same run.
///
/// # Errors
/// Arguments and environment take more than a quarter of it, as Linux has it.
pub fn set_up(
    space: &mut AddressSpace,
    size: u64,
    image: &Image,
    args: &[String],
    env: &[String],
    random: [u8; 16],
) -> Result<u64, LoadError> {
    let size = size.next_multiple_of(PAGE);
    let bytes: u64 = args.iter().chain(env).map(|string| string.len() as u64 + 1 + POINTER).sum();
    if bytes > size / 4 {
        return Err(LoadError::Arguments(bytes, size));
    }
    let bottom = STACK_TOP - size;
    space.map(bottom, size, Permissions::READ_WRITE);
    let mut stack = Stack { space, pointer: STACK_TOP - 16 };
    let random = stack.push(&random);
    let strings = |stack: &mut Stack<'_>, strings: &[String]| -> Vec<u64> {
        strings.iter().map(|string| stack.push_string(string)).collect()
    };
    let envp = strings(&mut stack, env);
    let argv = strings(&mut stack, args);
    let name = argv.first().copied().unwrap_or(random);
    let mut words = vec![args.len() as u64];
    words.extend(argv);
    words.push(0);
    words.extend(envp);
    words.push(0);
    for (key, value) in auxiliary_vector(image, random, name) {
        words.extend([key, value]);
    }
    Ok(stack.push_words(&words))
}

fn auxiliary_vector(image: &Image, random: u64, name: u64) -> [(u64, u64); 17] {
    [
        (at::PHDR, image.headers),
        (at::PHENT, HEADER_SIZE),
        (at::PHNUM, image.header_count),
        (at::PAGESZ, PAGE),
        (at::BASE, image.linker_base),
        (at::FLAGS, 0),
        (at::ENTRY, image.program_entry),
        (at::UID, USER),
        (at::EUID, USER),
        (at::GID, USER),
        (at::EGID, USER),
        (at::HWCAP, HWCAP),
        (at::CLKTCK, 100),
        (at::SECURE, 0),
        (at::RANDOM, random),
        (at::EXECFN, name),
        (at::NULL, 0),
    ]
}

struct Stack<'a> {
    space: &'a mut AddressSpace,
    pointer: u64,
}

impl Stack<'_> {
    fn push(&mut self, bytes: &[u8]) -> u64 {
        self.pointer -= bytes.len() as u64;
        self.space.install(self.pointer, bytes);
        self.pointer
    }

    fn push_string(&mut self, string: &str) -> u64 {
        self.push(&[string.as_bytes(), &[0]].concat())
    }

    /// Words in ascending order, the first one 16-byte aligned as the calling convention has it.
    fn push_words(&mut self, words: &[u64]) -> u64 {
        let length = words.len() as u64 * 8;
        self.pointer = ((self.pointer - length) & !15) + length;
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        self.push(&bytes)
    }
}
