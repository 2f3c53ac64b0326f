//! The heap and mappings.

use super::ranges::Ranges;
use super::{Context, Errno, Result, number};
use crate::space::{PAGE, Permissions};
use crate::stack::STACK_TOP;

/// Upper end of mappings: below the largest stack.
const MAPPINGS_TOP: u64 = STACK_TOP - (1 << 40);

/// Upper end of the heap, and lower end of mappings.
const MAPPINGS_BOTTOM: u64 = 1 << 44;

/// The largest mapping, 64 GiB: every page of it costs a word of the page table.
const LARGEST: u64 = 1 << 36;

const MAP_FIXED: u64 = 0x10;
const MAP_ANONYMOUS: u64 = 0x20;
const MAP_FIXED_NOREPLACE: u64 = 0x10_0000;

const MADV_DONTNEED: u64 = 4;

/// Heap and mappings of a process.
pub(super) struct Memory {
    heap_start: u64,
    heap_end: u64,
    mappings: Ranges,
}

/// `PROT_READ`, `PROT_WRITE` and `PROT_EXEC`. Memory that can be written can be read.
fn permissions(protection: u64) -> Permissions {
    Permissions {
        read: protection & 3 != 0,
        write: protection & 2 != 0,
        execute: protection & 4 != 0,
    }
}

/// A range of whole pages below the top of the address space, not larger than any mapping.
fn page_range(address: u64, length: u64) -> Result<(u64, u64)> {
    if address % PAGE != 0 || length == 0 || length > LARGEST {
        return Err(Errno::INVAL);
    }
    let end = address.checked_add(length).and_then(|end| end.checked_next_multiple_of(PAGE));
    let end = end.filter(|&end| end <= STACK_TOP).ok_or(Errno::INVAL)?;
    Ok((address, end))
}

impl Memory {
    pub(super) fn new(heap: u64) -> Memory {
        Memory { heap_start: heap, heap_end: heap, mappings: Ranges::default() }
    }

    pub(super) fn call(&mut self, number: u64, context: &mut Context<'_>) -> Option<Result> {
        let [a0, a1, a2, ..] = context.args();
        Some(match number {
            number::BRK => Ok(self.brk(a0, context)),
            number::MMAP => self.mmap(context),
            number::MUNMAP => self.munmap(a0, a1, context),
            number::MPROTECT if a1 == 0 => Ok(0),
            number::MPROTECT => page_range(a0, a1).and_then(|(start, end)| {
                let whole = context.memory.protect(start, end - start, permissions(a2));
                if whole { Ok(0) } else { Err(Errno::NOMEM) }
            }),
            number::MADVISE => self.madvise(context),
            _ => return None,
        })
    }

    /// Ranges that are in use, ascending, and their names.
    pub(super) fn maps(&self) -> Vec<(u64, u64, &'static str)> {
        let heap = (self.heap_start, self.heap_end.next_multiple_of(PAGE), "[heap]");
        let mappings = self.mappings.iter().map(|(start, end)| (start, end, ""));
        [heap].into_iter().filter(|(start, end, _)| start < end).chain(mappings).collect()
    }

    /// Moves the end of the heap; returns the new end.
    fn brk(&mut self, end: u64, context: &mut Context<'_>) -> u64 {
        let fits =
            (self.heap_start..MAPPINGS_BOTTOM).contains(&end) && end - self.heap_start <= LARGEST;
        if !fits {
            return self.heap_end;
        }
        let (old, new) = (self.heap_end.next_multiple_of(PAGE), end.next_multiple_of(PAGE));
        if new > old {
            context.memory.map(old, new - old, Permissions::READ_WRITE);
        } else if new < old {
            context.memory.unmap(new, old - new);
        }
        self.heap_end = end;
        end
    }

    fn mmap(&mut self, context: &mut Context<'_>) -> Result {
        let [hint, length, protection, flags, ..] = context.args();
        if length == 0 {
            return Err(Errno::INVAL);
        }
        if flags & MAP_ANONYMOUS == 0 {
            context.host.warn("mmap() of a file is not implemented; the program gets ENODEV");
            return Err(Errno::NODEV);
        }
        if length > LARGEST {
            return Err(Errno::NOMEM);
        }
        let length = length.next_multiple_of(PAGE);
        let start = self.place(hint, length, flags)?;
        self.mappings.insert(start, start + length);
        context.memory.map(start, length, permissions(protection));
        Ok(start)
    }

    /// Takes a range of whole pages out of what programs get.
    pub(super) fn reserve(&mut self, length: u64) -> Option<u64> {
        let length = length.checked_next_multiple_of(PAGE).filter(|&length| length > 0)?;
        let start = self.mappings.highest_gap(length, MAPPINGS_BOTTOM, MAPPINGS_TOP)?;
        self.mappings.insert(start, start + length);
        Some(start)
    }

    fn place(&self, hint: u64, length: u64, flags: u64) -> Result {
        if flags & (MAP_FIXED | MAP_FIXED_NOREPLACE) != 0 {
            let (start, end) = page_range(hint, length)?;
            if flags & MAP_FIXED_NOREPLACE != 0 && !self.mappings.is_free(start, end) {
                return Err(Errno::EXIST);
            }
            return Ok(start);
        }
        self.mappings.highest_gap(length, MAPPINGS_BOTTOM, MAPPINGS_TOP).ok_or(Errno::NOMEM)
    }

    fn munmap(&mut self, address: u64, length: u64, context: &mut Context<'_>) -> Result {
        let (start, end) = page_range(address, length)?;
        self.mappings.remove(start, end);
        context.memory.unmap(start, end - start);
        Ok(0)
    }

    fn madvise(&mut self, context: &mut Context<'_>) -> Result {
        let [address, length, advice, ..] = context.args();
        if advice == MADV_DONTNEED && length > 0 {
            let (start, end) = page_range(address, length)?;
            context.memory.discard(start, end - start);
        }
        Ok(0)
    }
}
