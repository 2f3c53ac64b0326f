//! The heap and mappings.

use serde::{Deserialize, Serialize};

use super::beyond::Beyond;
use super::named::{Named, NamedMappings};
use super::ranges::Ranges;
use super::resident;
use super::saved::{Checked, require};
use super::{Context, Errno, Result, UserMemory, number};
use crate::space::{PAGE, Permissions, TOP};
use crate::stack::STACK_TOP;

/// Upper end of mappings: below the largest stack.
const MAPPINGS_TOP: u64 = STACK_TOP - (1 << 40);

/// The page of code to which handlers of signals return: above all mappings.
pub(super) const TRAMPOLINE: u64 = MAPPINGS_TOP;

/// Upper end of the heap, and lower end of mappings.
pub(crate) const MAPPINGS_BOTTOM: u64 = 1 << 44;

/// Bytes of a heap, at most.
pub(crate) const LARGEST_HEAP: u64 = LARGEST;

/// The largest mapping that can be used, 64 GiB: every page of it costs a word of the page table. Reservations may be
/// larger.
const LARGEST: u64 = 1 << 36;

/// Parts of the address space that are only reserved, that are behind the end of a file, and that are locked, at most
/// of each: they cost the machine nothing, and the kernel a little.
pub(super) const MOST_PARTS: usize = 65_530;

/// Bytes that are copied at once when a mapping moves.
const CHUNK: u64 = 1 << 20;

const MAP_FIXED: u64 = 0x10;
pub(super) const MAP_ANONYMOUS: u64 = 0x20;
const MAP_LOCKED: u64 = 0x2000;
const MAP_FIXED_NOREPLACE: u64 = 0x10_0000;

const MADV_DONTNEED: u64 = 4;
const MADV_DONTNEED_LOCKED: u64 = 24;
const MADV_POPULATE_READ: u64 = 22;
const MADV_POPULATE_WRITE: u64 = 23;

/// Heap and mappings of a process.
#[derive(Serialize, Deserialize)]
pub(super) struct Memory {
    heap_start: u64,
    heap_end: u64,
    mappings: Ranges,
    /// The parts of mappings that are only reserved: without memory, and no access is allowed.
    reserved: Ranges,
    /// Of the reserved parts, those that are behind the end of a file.
    #[serde(default)]
    pub(super) beyond: Beyond,
    /// What `mlock` keeps in memory.
    #[serde(default)]
    pub(super) locked: Ranges,
    /// Whether new mappings are locked, too.
    #[serde(default)]
    pub(super) locks_new: bool,
    /// The parts of mappings that come from files.
    #[serde(default)]
    pub(super) named: NamedMappings,
}

/// `PROT_READ`, `PROT_WRITE` and `PROT_EXEC`. Memory that can be written can be read.
pub(super) fn permissions(protection: u64) -> Permissions {
    Permissions {
        read: protection & 3 != 0,
        write: protection & 2 != 0,
        execute: protection & 4 != 0,
    }
}

/// A range of whole pages below the top of the address space.
pub(super) fn page_range(address: u64, length: u64) -> Result<(u64, u64)> {
    if address % PAGE != 0 || length == 0 {
        return Err(Errno::INVAL);
    }
    let end = address.checked_add(length).and_then(|end| end.checked_next_multiple_of(PAGE));
    let end = end.filter(|&end| end <= STACK_TOP).ok_or(Errno::INVAL)?;
    Ok((address, end))
}

impl Memory {
    pub(super) fn new(heap: u64) -> Memory {
        Memory {
            heap_start: heap,
            heap_end: heap,
            mappings: Ranges::default(),
            reserved: Ranges::default(),
            beyond: Beyond::default(),
            locked: Ranges::default(),
            locks_new: false,
            named: NamedMappings::default(),
        }
    }

    pub(super) fn call(&mut self, number: u64, context: &mut Context<'_>) -> Option<Result> {
        let [a0, a1, a2, ..] = context.args();
        Some(match number {
            number::BRK => Ok(self.brk(a0, context)),
            number::MMAP => self.mmap(context),
            number::MUNMAP => self.munmap(a0, a1, context),
            number::MREMAP => self.mremap(context),
            number::MPROTECT if a1 == 0 => Ok(0),
            number::MPROTECT => self.protect(a0, a1, permissions(a2), context),
            number::MADVISE => self.madvise(context),
            number::MINCORE => resident::resident(self, context),
            number::MLOCK => resident::lock(self, context, 0),
            number::MLOCK2 => resident::lock(self, context, a2),
            number::MUNLOCK => resident::unlock(self, context),
            number::MLOCKALL => resident::lock_all(self, a0),
            number::MUNLOCKALL => resident::unlock_all(self),
            _ => return None,
        })
    }

    /// Checks what was read, of a machine with so many bytes of memory.
    pub(super) fn check(&self, memory_bytes: u64) -> Checked {
        let Memory { heap_start, heap_end, mappings, reserved, beyond, locked, named, .. } = self;
        let is_below = *heap_end < MAPPINGS_BOTTOM || heap_start == heap_end && *heap_end <= TOP;
        require(heap_start <= heap_end && is_below, || {
            format!("memory.heap_end: no heap is from {heap_start:#x} to {heap_end:#x}")
        })?;
        mappings.check("memory.mappings", STACK_TOP)?;
        reserved.check("memory.reserved", STACK_TOP)?;
        locked.check("memory.locked", STACK_TOP)?;
        beyond.check(|start, end| end <= STACK_TOP && reserved.outside(start, end).is_empty())?;
        named.check("memory.named", STACK_TOP)?;
        let usable = mappings.iter().flat_map(|(start, end)| reserved.outside(start, end));
        let usable: u64 = usable.map(|(start, end)| end - start).sum();
        let used = heap_end - heap_start + usable;
        require(used <= memory_bytes, || {
            format!("memory: has {used} bytes in use, and the machine had {memory_bytes}")
        })
    }

    /// Ranges that are in use, ascending, and their names.
    pub(super) fn maps(&self) -> Vec<(u64, u64, &str)> {
        let heap = (self.heap_start, self.heap_end.next_multiple_of(PAGE), "[heap]");
        let name = |start| self.named.at(start).map_or("", |named| named.name.as_str());
        let mappings = self.mappings.iter().map(|(start, end)| (start, end, name(start)));
        [heap].into_iter().filter(|(start, end, _)| start < end).chain(mappings).collect()
    }

    /// All that is mapped, with the rest of the parts of the address space in which there are no mappings.
    pub(super) fn mapped(&self) -> impl Iterator<Item = (u64, u64)> {
        let heap_end = self.heap_end.next_multiple_of(PAGE).min(MAPPINGS_BOTTOM);
        [(0, heap_end), (MAPPINGS_TOP, STACK_TOP)].into_iter().chain(self.mappings.iter())
    }

    /// Whether all of a range is mapped and may have memory.
    pub(super) fn holds(&self, start: u64, end: u64) -> bool {
        self.mappings.outside(start, end).is_empty() && self.reserved.is_free(start, end)
    }

    /// Whether an address is reserved: taken, and without memory as nobody may use it.
    pub(super) fn is_reserved(&self, address: u64) -> bool {
        address < STACK_TOP && !self.reserved.is_free(address, address + 1)
    }

    /// The parts of a mapped range that are not just reserved.
    pub(super) fn usable(&self, start: u64, end: u64) -> Vec<(u64, u64)> {
        self.reserved.outside(start, end)
    }

    /// The reserved parts of a range that are not behind the end of a file.
    fn without_file(&self, start: u64, end: u64) -> Vec<(u64, u64)> {
        let reserved = self.reserved.within(start, end).into_iter();
        reserved.flat_map(|(from, to)| self.beyond.outside(from, to)).collect()
    }

    /// Whether a part of a range of pages is reserved.
    pub(super) fn has_reserved(&self, start: u64, end: u64) -> bool {
        !self.reserved.is_free(start, end)
    }

    /// Whether all of a range of pages is in use.
    pub(super) fn is_mapped(&self, start: u64, end: u64, context: &mut Context<'_>) -> bool {
        self.mapped_end(start, end, context) == end
    }

    /// The first address of a range of pages that is not in use, or its end.
    pub(super) fn mapped_end(&self, start: u64, end: u64, context: &Context<'_>) -> u64 {
        // Outside of mappings are programs, heaps and stacks.
        let rest = self.mappings.outside(start, end);
        let mut pages = rest.iter().flat_map(|&(from, to)| (from..to).step_by(PAGE as usize));
        pages.find(|&page| context.memory.permissions(page).is_none()).unwrap_or(end)
    }

    /// That there may be so many more parts of each kind.
    pub(super) fn check_room(&self, more: usize) -> Result<()> {
        let counts = [self.reserved.count(), self.beyond.count(), self.locked.count()];
        let fits = counts.iter().all(|count| count + more <= MOST_PARTS);
        if fits { Ok(()) } else { Err(Errno::NOMEM) }
    }

    /// Moves the end of the heap; returns the new end.
    fn brk(&mut self, end: u64, context: &mut Context<'_>) -> u64 {
        let fits = (self.heap_start..MAPPINGS_BOTTOM).contains(&end)
            && end - self.heap_start <= LARGEST_HEAP;
        if !fits {
            return self.heap_end;
        }
        let (old, new) = (self.heap_end.next_multiple_of(PAGE), end.next_multiple_of(PAGE));
        if new > old && !map(context, old, new, Permissions::READ_WRITE) {
            return self.heap_end;
        }
        if new < old {
            context.memory.unmap(new, old - new);
            self.locked.remove(new, old);
        } else if self.locks_new && new > old {
            self.locked.join(old, new);
        }
        self.heap_end = end;
        end
    }

    fn mmap(&mut self, context: &mut Context<'_>) -> Result {
        const KIND: u64 = 0xf;
        const SHARED: u64 = 1;
        const PRIVATE: u64 = 2;
        let [_, _, protection, flags, ..] = context.args();
        if !matches!(flags & KIND, SHARED | PRIVATE) {
            return Err(Errno::INVAL);
        }
        self.map_as(context, protection)
    }

    /// The same for memory that is about to be filled.
    pub(super) fn map_bytes(&mut self, context: &mut Context<'_>, protection: u64) -> Result {
        const READ_WRITE: u64 = 3;
        self.map_as(context, protection | READ_WRITE)
    }

    fn map_as(&mut self, context: &mut Context<'_>, protection: u64) -> Result {
        let [hint, length, _, flags, ..] = context.args();
        if length == 0 {
            return Err(Errno::INVAL);
        }
        let length = length.checked_next_multiple_of(PAGE).ok_or(Errno::NOMEM)?;
        let start = self.place(hint, length, flags)?;
        self.check_room(1)?;
        self.clear(start, start + length, context)?;
        let permissions = permissions(protection);
        self.mappings.insert(start, start + length);
        if permissions == Permissions::NONE {
            self.reserved.join(start, start + length);
        } else if !map(context, start, start + length, permissions) {
            self.mappings.remove(start, start + length);
            return Err(Errno::NOMEM);
        }
        if self.locks_new || flags & MAP_LOCKED != 0 {
            self.locked.join(start, start + length);
        }
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
        // A hint is followed if there is room, as runtimes expect.
        let end = hint.checked_add(length).filter(|&end| end <= MAPPINGS_TOP);
        let is_good = hint % PAGE == 0 && hint >= MAPPINGS_BOTTOM;
        if let Some(end) = end
            && is_good
            && self.mappings.is_free(hint, end)
        {
            return Ok(hint);
        }
        self.mappings.highest_gap(length, MAPPINGS_BOTTOM, MAPPINGS_TOP).ok_or(Errno::NOMEM)
    }

    /// Takes away whatever is mapped in a range.
    fn clear(&mut self, start: u64, end: u64, context: &mut Context<'_>) -> Result<()> {
        if [
            (self.reserved.count(), self.reserved.splits(start, end)),
            (self.beyond.count(), self.beyond.splits(start, end)),
            (self.locked.count(), self.locked.splits(start, end)),
        ]
        .iter()
        .any(|&(count, splits)| splits && count >= MOST_PARTS)
        {
            return Err(Errno::NOMEM);
        }
        let zone = (MAPPINGS_BOTTOM, MAPPINGS_TOP);
        // Programs, heaps and stacks are outside of the zone of mappings, and never large.
        for (from, to) in [(start, end.min(zone.0)), (start.max(zone.1), end)] {
            if from < to && to - from > LARGEST {
                return Err(Errno::INVAL);
            }
            if from < to {
                context.memory.unmap(from, to - from);
            }
        }
        for (from, to) in self.mappings.within(start.max(zone.0), end.min(zone.1)) {
            for (from, to) in self.reserved.outside(from, to) {
                context.memory.unmap(from, to - from);
            }
        }
        self.reserved.remove(start, end);
        self.beyond.remove(start, end);
        self.locked.remove(start, end);
        self.mappings.remove(start, end);
        self.named.remove(start, end);
        Ok(())
    }

    /// A mapped range of pages is behind the end of its file.
    pub(super) fn hide(
        &mut self,
        (start, end): (u64, u64),
        permissions: Permissions,
        memory: &mut dyn UserMemory,
    ) {
        for (from, to) in self.reserved.outside(start, end) {
            memory.unmap(from, to - from);
            self.reserved.join(from, to);
        }
        self.beyond.remove(start, end);
        self.beyond.insert(start, end, permissions);
    }

    /// Gives memory that can be written to what was behind the end of its file in a range. `false` if there is not
    /// enough.
    pub(super) fn reveal(&mut self, start: u64, end: u64, memory: &mut dyn UserMemory) -> bool {
        self.beyond.within(start, end).into_iter().all(|(from, to, _)| {
            let fits = memory.map(from, to - from, Permissions::READ_WRITE);
            if fits {
                self.beyond.remove(from, to);
                self.reserved.remove(from, to);
            }
            fits
        })
    }

    /// A mapping comes from a file.
    pub(super) fn name(&mut self, start: u64, mapping: Named) {
        self.named.insert(start, mapping);
    }

    fn munmap(&mut self, address: u64, length: u64, context: &mut Context<'_>) -> Result {
        let (start, end) = page_range(address, length)?;
        self.clear(start, end, context)?;
        Ok(0)
    }

    /// `mprotect`: what was reserved gets memory when it may be used. As on Linux, what is before a hole has changed
    /// when it fails for that.
    pub(super) fn protect(
        &mut self,
        address: u64,
        length: u64,
        permissions: Permissions,
        context: &mut Context<'_>,
    ) -> Result {
        let (start, end) = page_range(address, length)?;
        let end_asked = end;
        let end = self.mapped_end(start, end, context);
        let reserved = self.reserved.count() + self.reserved.cuts(start, end);
        let beyond = self.beyond.count() + self.beyond.cuts(start, end);
        if reserved.max(beyond) > MOST_PARTS {
            return Err(Errno::NOMEM);
        }
        for (from, to) in self.reserved.outside(start, end) {
            if to - from > LARGEST || !context.memory.protect(from, to - from, permissions) {
                return Err(Errno::NOMEM);
            }
        }
        if permissions != Permissions::NONE {
            for (from, to) in self.without_file(start, end) {
                if !map(context, from, to, permissions) {
                    return Err(Errno::NOMEM);
                }
                self.reserved.remove(from, to);
            }
        }
        for (from, to, _) in self.beyond.remove(start, end) {
            self.beyond.insert(from, to, permissions);
        }
        if end == end_asked { Ok(0) } else { Err(Errno::NOMEM) }
    }

    /// `mremap`: grows or shrinks a mapping, which may move.
    fn mremap(&mut self, context: &mut Context<'_>) -> Result {
        const MAY_MOVE: u64 = 1;
        const FIXED: u64 = 2;
        let [old, old_length, length, flags, fixed, _] = context.args();
        if flags & !(MAY_MOVE | FIXED) != 0 || flags & (MAY_MOVE | FIXED) == FIXED {
            return Err(Errno::INVAL);
        }
        let (start, end) = page_range(old, old_length)?;
        let length = length.checked_next_multiple_of(PAGE).filter(|&length| length > 0);
        let length = length.ok_or(Errno::INVAL)?;
        if flags & FIXED != 0 {
            let to = page_range(fixed, length)?.0;
            if to < end && start < to + length {
                return Err(Errno::INVAL);
            }
        }
        if self.mappings.is_free(start, start + PAGE) {
            // Stacks and heaps stay as they are.
            let mut byte = [0];
            context.memory.read(start, &mut byte)?;
            return Err(Errno::NOMEM);
        }
        let (kept, old_end) = (start + length.min(end - start), end);
        if flags & FIXED == 0 && length <= end - start {
            self.clear(kept, end, context)?;
            return Ok(start);
        }
        // As on Linux, what is too much goes before the rest moves.
        let end = kept;
        if !self.mappings.outside(start, end).is_empty() {
            return Err(Errno::FAULT);
        }
        let permissions = self.same_permissions(start, end, context).ok_or(Errno::FAULT)?;
        self.clear(end, old_end, context)?;
        // For a while the old mapping and the new one are both there, and the new one may split another.
        self.check_room(3 + self.beyond.within(start, end).len())?;
        let new_end = start.checked_add(length).filter(|&end| end <= MAPPINGS_TOP);
        if let Some(new_end) = new_end
            && flags & FIXED == 0
            && self.mappings.is_free(end, new_end)
        {
            let is_beyond = self.beyond.at(end - PAGE).is_some();
            self.extend((end, new_end), permissions, context)?;
            if !self.locked.is_free(end - PAGE, end) {
                self.locked.join(end, new_end);
            }
            if is_beyond {
                self.hide((end, new_end), permissions, context.memory);
            }
            return Ok(start);
        }
        if flags & MAY_MOVE == 0 {
            return Err(Errno::NOMEM);
        }
        let to = match flags & FIXED {
            0 => self.place(0, length, 0)?,
            _ => fixed,
        };
        self.clear(to, to + length, context)?;
        if !self.locked.is_free(start, end) {
            self.locked.join(to, to + length);
        }
        let beyond = self.beyond.within(start, end);
        if self.reserved.outside(start, end).is_empty() {
            self.extend((to, to + length), Permissions::NONE, context)?;
        } else {
            self.extend((to, to + length), Permissions::READ_WRITE, context)?;
            // Not even the operating system reads all memory: another node's stays where it is.
            if let Err(errno) = self.copy(start, to, end - start, context) {
                self.protect(start, end - start, permissions, context)?;
                self.clear(to, to + length, context)?;
                return Err(errno);
            }
            self.protect(to, length, permissions, context)?;
        }
        for (from, until, permissions) in beyond {
            // A mapping that is behind the end of its file grows by pages that are so, too.
            let until = if until == end { start + length } else { until };
            let moved = (to + (from - start), to + (until - start));
            self.hide(moved, permissions, context.memory);
        }
        self.clear(start, end, context)?;
        Ok(to)
    }

    /// The permissions that all of a range has: calls on parts of several mappings fail as on Linux.
    fn same_permissions(&self, start: u64, end: u64, context: &Context<'_>) -> Option<Permissions> {
        let usable = self.reserved.outside(start, end);
        let pages = usable.iter().flat_map(|&(from, to)| (from..to).step_by(PAGE as usize));
        let pages = pages.map(|page| context.memory.permissions(page));
        let beyond = self.beyond.within(start, end);
        let beyond_bytes: u64 = beyond.iter().map(|(from, to, _)| to - from).sum();
        let reserved = self.reserved.within(start, end);
        let reserved_bytes: u64 = reserved.iter().map(|(from, to)| to - from).sum();
        let rest = (reserved_bytes > beyond_bytes).then_some(Some(Permissions::NONE));
        let mut all = pages.chain(beyond.iter().map(|part| Some(part.2))).chain(rest);
        let first = all.next()??;
        all.all(|permissions| permissions == Some(first)).then_some(first)
    }

    /// Maps a free range.
    fn extend(
        &mut self,
        (start, end): (u64, u64),
        permissions: Permissions,
        context: &mut Context<'_>,
    ) -> Result<()> {
        if permissions == Permissions::NONE {
            self.reserved.join(start, end);
        } else if !map(context, start, end, permissions) {
            return Err(Errno::NOMEM);
        }
        self.mappings.insert(start, end);
        Ok(())
    }

    /// Copies what is not just reserved.
    fn copy(&self, from: u64, to: u64, length: u64, context: &mut Context<'_>) -> Result<()> {
        for (start, end) in self.reserved.outside(from, from + length) {
            context.memory.protect(start, end - start, Permissions::READ_WRITE);
            let mut at = start;
            while at < end {
                let mut bytes = vec![0; (end - at).min(CHUNK) as usize];
                context.memory.read(at, &mut bytes)?;
                context.memory.write(to + (at - from), &bytes)?;
                at += bytes.len() as u64;
            }
        }
        Ok(())
    }

    /// Advice that pages be brought into memory, where all are that may be used so.
    fn populate(&self, (start, end): (u64, u64), writes: bool, context: &Context<'_>) -> Result {
        for page in (start..end).step_by(PAGE as usize) {
            match context.memory.permissions(page) {
                Some(permissions) if writes && permissions.write => {}
                Some(permissions) if !writes && permissions.read => {}
                None if !self.is_reserved(page) => return Err(Errno::NOMEM),
                _ if self
                    .beyond
                    .at(page)
                    .is_some_and(|it| if writes { it.write } else { it.read }) =>
                {
                    return Err(Errno::FAULT);
                }
                _ => return Err(Errno::INVAL),
            }
        }
        Ok(0)
    }

    /// Advice that takes the contents of pages away: not of some parts of the range, which are `spared`. It ends at the
    /// first part that is locked, unless it is about those, too.
    pub(super) fn discard(
        &self,
        (start, end): (u64, u64),
        spared: &[(u64, u64)],
        advice: u64,
        context: &mut Context<'_>,
    ) -> Result {
        let locked = match advice {
            MADV_DONTNEED_LOCKED => None,
            _ => self.locked.within(start, end).first().map(|part| part.0),
        };
        let until = locked.unwrap_or(end);
        let mut at = start;
        for &(spared, behind) in spared.iter().chain([&(until, until)]) {
            for (from, to) in self.reserved.outside(at, spared.min(until)) {
                if to - from > LARGEST {
                    return Err(Errno::NOMEM);
                }
                context.memory.discard(from, to - from);
            }
            at = behind.min(until);
        }
        if locked.is_some() {
            return Err(Errno::INVAL);
        }
        if self.is_mapped(start, end, context) { Ok(0) } else { Err(Errno::NOMEM) }
    }

    fn madvise(&mut self, context: &mut Context<'_>) -> Result {
        // Of `MADV_REMOVE` there is nothing in private memory; the rest is advice, and pages stay.
        const KNOWN: [std::ops::RangeInclusive<u64>; 3] = [0..=4, 8..=8, 10..=25];
        let [address, length, advice, ..] = context.args();
        if !KNOWN.iter().any(|known| known.contains(&advice)) || address % PAGE != 0 {
            return Err(Errno::INVAL);
        }
        if length == 0 {
            return Ok(0);
        }
        let (start, end) = page_range(address, length)?;
        if matches!(advice, MADV_POPULATE_READ | MADV_POPULATE_WRITE) {
            return self.populate((start, end), advice == MADV_POPULATE_WRITE, context);
        }
        if discards(advice) {
            return self.discard((start, end), &[], advice, context);
        }
        if self.is_mapped(start, end, context) { Ok(0) } else { Err(Errno::NOMEM) }
    }
}

/// Whether advice for `madvise` takes the contents of pages away.
pub(super) fn discards(advice: u64) -> bool {
    matches!(advice, MADV_DONTNEED | MADV_DONTNEED_LOCKED)
}

/// Maps zeroed memory; `false` if the machine does not have so much.
fn map(context: &mut Context<'_>, start: u64, end: u64, permissions: Permissions) -> bool {
    let length = end - start;
    let fits = length <= LARGEST && length <= context.host.memory_bytes();
    fits && context.memory.map(start, length, permissions)
}
