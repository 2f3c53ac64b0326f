//! Shared mappings of files.
//!
//! The pages of a mapping are copies of the file's. They are written to the file when somebody could see the
//! difference: before the program reads that part by a call, at `msync`, and at the end of the mapping or the program;
//! and what the program writes by a call goes to the pages, too. So it sees one content, whichever way it looks.

use serde::{Deserialize, Serialize};

use super::files::{Files, Place};
use super::named::Named;
use super::saved::{Checked, require};
use super::{Context, Errno, Host, Kernel, Result, UserMemory, memory, number};
use crate::space::{PAGE, Permissions, TOP};

/// `MAP_SHARED`, and `MAP_SHARED_VALIDATE` with the next bit.
const SHARED: u64 = 1;

/// Bytes that are compared at once.
const CHUNK: u64 = 1 << 16;

/// A range of pages that are a part of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Region {
    start: u64,
    end: u64,
    /// Number of the open file: it stays open for the mapping.
    file: u32,
    /// Tells files apart.
    inode: u64,
    /// The place of the first byte in the file.
    offset: u64,
    permissions: Permissions,
    /// Whether the file may be written through it.
    may_write: bool,
}

impl Region {
    /// The part of it from `start` to `end`, which overlap it.
    fn part(&self, start: u64, end: u64) -> Region {
        let from = self.start.max(start);
        Region {
            start: from,
            end: self.end.min(end),
            offset: self.offset + (from - self.start),
            ..*self
        }
    }

    fn overlaps(&self, start: u64, end: u64) -> bool {
        self.start < end && start < self.end
    }

    /// The part of it that is the part of a file from `from` to `to`.
    fn of_file(&self, from: u64, to: u64) -> Option<Region> {
        let length = self.end - self.start;
        let (from, to) = (from.max(self.offset), to.min(self.offset + length));
        let at = |place: u64| self.start + (place - self.offset);
        (from < to).then(|| Region { start: at(from), end: at(to), offset: from, ..*self })
    }
}

/// The shared mappings of a process.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Shared {
    regions: Vec<Region>,
}

impl Shared {
    /// Checks what was read.
    pub(super) fn check(&self) -> Checked {
        let mut free_from = 0;
        for (at, region) in self.regions.iter().enumerate() {
            let Region { start, end, offset, .. } = *region;
            let is_range = free_from <= start && start < end && end <= TOP;
            let is_sound =
                is_range && (start | end | offset) % PAGE == 0 && offset <= i64::MAX as u64;
            require(is_sound, || {
                format!("shared.regions[{at}]: none is from {start:#x} to {end:#x}, of {offset:#x}")
            })?;
            free_from = end;
        }
        Ok(())
    }

    /// Parts of mappings between two addresses.
    fn within(&self, start: u64, end: u64) -> Vec<Region> {
        let touched = self.regions.iter().filter(|region| region.overlaps(start, end));
        touched.map(|region| region.part(start, end)).collect()
    }

    /// Parts of mappings that show a part of a file.
    fn showing(&self, inode: u64, from: u64, to: u64) -> Vec<Region> {
        let same = self.regions.iter().filter(|region| region.inode == inode);
        same.filter_map(|region| region.of_file(from, to)).collect()
    }

    /// Nothing between these addresses is a mapping any more; returns what it was.
    fn remove(&mut self, start: u64, end: u64) -> Vec<Region> {
        let removed = self.within(start, end);
        if !removed.is_empty() {
            let rest = |region: &Region| {
                [(0, start), (end, u64::MAX)]
                    .into_iter()
                    .filter(|&(from, to)| region.overlaps(from, to))
                    .map(|(from, to)| region.part(from, to))
                    .collect::<Vec<_>>()
            };
            self.regions = self.regions.iter().flat_map(rest).collect();
        }
        removed
    }

    /// Adds mappings; those that continue each other become one.
    fn add(&mut self, regions: impl IntoIterator<Item = Region>) {
        self.regions.extend(regions);
        self.regions.sort_by_key(|region| region.start);
        self.regions.dedup_by(|next, before| {
            let continues = next.start == before.end
                && next.offset == before.offset + (before.end - before.start)
                && (next.file, next.permissions) == (before.file, before.permissions);
            if continues {
                before.end = next.end;
            }
            continues
        });
    }

    /// Numbers of the files that are mapped.
    fn files(&self) -> Vec<u32> {
        self.regions.iter().map(|region| region.file).collect()
    }
}

/// Writes to a file what a mapping has that it has not.
fn write_back(region: &Region, files: &mut Files, memory: &mut dyn UserMemory) -> Result<()> {
    if !region.may_write || !region.permissions.read {
        return Ok(());
    }
    let Some(size) = files.mapped_size(region.file)? else { return Ok(()) };
    // Bytes behind the end of the file are not written, nor pages that were there when it was last looked at.
    let end = region.end.min(region.start.saturating_add(size.saturating_sub(region.offset)));
    let mut pages = (region.start & !(PAGE - 1)..end).step_by(PAGE as usize);
    let end = pages.find(|&page| memory.permissions(page).is_none()).unwrap_or(end);
    let mut at = region.start;
    while at < end {
        let mut ours = vec![0; (end - at).min(CHUNK) as usize];
        memory.read(at, &mut ours)?;
        files.update_mapped(region.file, region.offset + (at - region.start), &ours)?;
        at += ours.len() as u64;
    }
    Ok(())
}

/// Puts bytes into the pages of a mapping, which the program may perhaps not write.
fn put(region: &Region, at: u64, bytes: &[u8], memory: &mut dyn UserMemory) -> Result<()> {
    if region.permissions.write {
        return Ok(memory.write(at, bytes)?);
    }
    let start = at & !(PAGE - 1);
    let length = (at + bytes.len() as u64).next_multiple_of(PAGE) - start;
    if !memory.protect(start, length, Permissions::READ_WRITE) {
        return Err(Errno::FAULT);
    }
    memory.write(at, bytes)?;
    memory.protect(start, length, region.permissions);
    Ok(())
}

/// Fills the pages of a mapping with what the file has there, and the rest of the last one with zeros; holes take no
/// memory. Returns the address of the pages behind it. Fresh pages are zeros.
fn fill(region: &Region, files: &mut Files, memory: &mut dyn UserMemory, is_fresh: bool) -> Result {
    let size = files.mapped_size(region.file)?.unwrap_or(0).saturating_sub(region.offset);
    let end = region.start.saturating_add(size).min(region.end);
    let end = end.next_multiple_of(PAGE).min(region.end);
    let mut at = region.start;
    while at < end {
        let place = region.offset + (at - region.start);
        let data = files.mapped_data(region.file, place)?;
        let data = data.map_or(end, |data| end.min(region.start + (data - region.offset)));
        // Of pages that are partly in the region the other part stays.
        let hole_end = if is_fresh { data } else { data & !(PAGE - 1) };
        if hole_end > at && (is_fresh || at % PAGE == 0) {
            if !is_fresh {
                memory.discard(at, hole_end - at);
            }
            at = hole_end;
            continue;
        }
        let length = (end - at).min(CHUNK - at % PAGE);
        let bytes = files.mapped_bytes(region.file, place, length)?;
        put(region, at, &bytes, memory)?;
        at += length;
    }
    Ok(end)
}

impl Kernel {
    /// `mmap` of a file: private mappings are copies of it.
    pub(super) fn map_file(&mut self, context: &mut Context<'_>) -> Result {
        const KIND: u64 = 3;
        const WRITE: u64 = 2;
        const FIXED: u64 = 0x10;
        let [start, length, protection, flags, descriptor, offset] = context.args();
        if flags & KIND == 0 {
            return Err(Errno::INVAL);
        }
        let is_shared = flags & SHARED != 0;
        let mapped = self.files.mapped(descriptor, offset, is_shared && protection & WRITE != 0)?;
        let pages = length.checked_next_multiple_of(PAGE).ok_or(Errno::NOMEM)?;
        if is_shared && pages > self.files.room(context) {
            return Err(Errno::NOMEM);
        }
        let shown = self.shared.showing(mapped.inode, offset, offset.saturating_add(pages));
        let is_written = |region: &&Region| region.permissions.write || protection & WRITE != 0;
        // One that is replaced is no other one.
        let (from, to) =
            if flags & FIXED == 0 { (0, 0) } else { (start, start.saturating_add(pages)) };
        let stays = |region: &&Region| region.start < from || region.end > to;
        if is_shared && shown.iter().filter(stays).any(|region| is_written(&region)) {
            let again = "a second shared mapping of a part of a file that is written is not implemented: ENODEV";
            context.host.warn(&format!("mmap(): {again}"));
            return Err(Errno::NODEV);
        }
        for region in &shown {
            write_back(region, &mut self.files, context.memory)?;
        }
        self.leave_mappings(context)?;
        let start = self.memory.map_bytes(context, protection)?;
        let region = Region {
            start,
            end: start + pages,
            file: mapped.file,
            inode: mapped.inode,
            offset,
            permissions: Permissions::READ_WRITE,
            may_write: mapped.may_write,
        };
        let filled = fill(&region, &mut self.files, context.memory, true)?;
        let permissions = memory::permissions(protection);
        if filled < region.end {
            self.memory.hide((filled, region.end), permissions, context.memory);
        }
        if protection & WRITE == 0 {
            self.memory.protect(start, pages, permissions, context)?;
        }
        if let Some(name) = self.files.mapped_name(mapped.file) {
            let is_code = permissions.execute;
            self.memory.name(start, Named { end: start + pages, offset, name, is_code });
        }
        if is_shared {
            self.shared.add([Region { permissions, ..region }]);
            self.keep_mapped(context);
        }
        Ok(start)
    }

    /// Files stay open that are mapped.
    fn keep_mapped(&mut self, context: &mut Context<'_>) {
        context.has_changed |= self.files.keep(self.shared.files());
    }

    /// Writes all shared mappings to their files, and closes all sockets, of which other nodes get segments. The driver
    /// calls it when the program ends, however that comes.
    pub fn end(&mut self, memory: &mut dyn UserMemory, host: &mut dyn Host) {
        if self.has_shared() {
            host.await_earlier();
        }
        for region in std::mem::take(&mut self.shared.regions) {
            // Nobody is left to learn of an error.
            let _ = write_back(&region, &mut self.files, memory);
        }
        self.files.network().leave();
    }

    /// Calls on memory where shared mappings of files may be: what has to be done before the call.
    pub(super) fn before_memory_call(
        &mut self,
        number: u64,
        context: &mut Context<'_>,
    ) -> Option<Result> {
        let [start, length, last, ..] = context.args();
        if number == number::MSYNC {
            return Some(self.sync_mappings(context, start, length, last));
        }
        let end = start.checked_add(length)?.checked_next_multiple_of(PAGE)?;
        match number {
            number::MPROTECT if !self.may_permit(start, end, last, context) => {
                return Some(Err(Errno::ACCES));
            }
            number::MUNMAP | number::MPROTECT if start % PAGE == 0 => {}
            number::MMAP => return self.leave_mappings(context).err().map(Err),
            // Pages that are discarded are read from the file again, which changes nothing.
            number::MADVISE if memory::discards(last) && start % PAGE == 0 => {
                let parts = self.shared.within(start, end);
                let parts: Vec<_> = parts.iter().map(|part| (part.start, part.end)).collect();
                let is_any = !parts.is_empty();
                return is_any.then(|| self.memory.discard((start, end), &parts, last, context));
            }
            number::MREMAP => {
                let written = self.write_back_target(context);
                return written.err().map(Err).or_else(|| self.move_mapping(context));
            }
            _ => return None,
        }
        for region in self.shared.within(start, end) {
            if let Err(errno) = write_back(&region, &mut self.files, context.memory) {
                return Some(Err(errno));
            }
        }
        None
    }

    /// Whether mappings may have such a protection: files that were opened to be read may not be written, nor those of
    /// which another mapping shows the same part.
    fn may_permit(&self, start: u64, end: u64, protection: u64, context: &mut Context<'_>) -> bool {
        if !memory::permissions(protection).write {
            return true;
        }
        let parts = self.shared.within(start, end);
        let is_alone = |part: &Region| {
            let to = part.offset + (part.end - part.start);
            self.shared.showing(part.inode, part.offset, to).len() == 1
        };
        if !parts.iter().all(is_alone) {
            let again = "a mapping of a part of a file that another shared one shows cannot be written: EACCES";
            context.host.warn(&format!("mprotect(): {again}"));
            return false;
        }
        parts.iter().all(|region| region.may_write)
    }

    /// And what has to be done when it has succeeded.
    pub(super) fn after_memory_call(&mut self, number: u64, context: &mut Context<'_>) {
        let [start, length, last, ..] = context.args();
        let end = start.checked_add(length).and_then(|end| end.checked_next_multiple_of(PAGE));
        let Some(end) = end else { return };
        match number {
            number::MUNMAP if !self.shared.remove(start, end).is_empty() => {
                self.keep_mapped(context);
            }
            number::MREMAP => self.remove_target(context),
            number::MPROTECT => {
                let permissions = memory::permissions(last);
                let end = self.memory.mapped_end(start, end, context);
                let changed = self.shared.remove(start, end);
                self.shared.add(changed.into_iter().map(|region| Region { permissions, ..region }));
            }
            _ => {}
        }
    }

    /// A mapping at a fixed place takes away what was there.
    fn leave_mappings(&mut self, context: &mut Context<'_>) -> Result<()> {
        const FIXED: u64 = 0x10;
        let [start, length, _, flags, ..] = context.args();
        if flags & FIXED == 0 || start % PAGE != 0 {
            return Ok(());
        }
        let end =
            start.saturating_add(length).checked_next_multiple_of(PAGE).ok_or(Errno::INVAL)?;
        for region in self.shared.within(start, end) {
            write_back(&region, &mut self.files, context.memory)?;
        }
        if !self.shared.remove(start, end).is_empty() {
            self.keep_mapped(context);
        }
        Ok(())
    }

    /// `msync`.
    fn sync_mappings(
        &mut self,
        context: &mut Context<'_>,
        start: u64,
        length: u64,
        flags: u64,
    ) -> Result {
        const ASYNC: u64 = 1;
        const INVALIDATE: u64 = 2;
        const SYNC: u64 = 4;
        let is_wrong = flags & !(ASYNC | INVALIDATE | SYNC) != 0;
        if is_wrong || flags & (ASYNC | SYNC) == ASYNC | SYNC || start % PAGE != 0 {
            return Err(Errno::INVAL);
        }
        let end = start.checked_add(length).and_then(|end| end.checked_next_multiple_of(PAGE));
        let end = end.ok_or(Errno::NOMEM)?;
        if flags & INVALIDATE != 0 && !self.memory.locked.is_free(start, end) {
            return Err(Errno::BUSY);
        }
        for region in self.shared.within(start, end) {
            write_back(&region, &mut self.files, context.memory)?;
        }
        match self.memory.is_mapped(start, end, context) {
            true => Ok(0),
            false => Err(Errno::NOMEM),
        }
    }

    /// The fixed place that `mremap` moves a mapping to.
    fn target(context: &Context<'_>) -> Option<(u64, u64)> {
        const FIXED: u64 = 2;
        let [_, _, length, flags, to, _] = context.args();
        let end = to.checked_add(length)?.checked_next_multiple_of(PAGE)?;
        (flags & FIXED != 0 && to % PAGE == 0).then_some((to, end))
    }

    /// Writes the mappings to their files of which `mremap` takes the place.
    fn write_back_target(&mut self, context: &mut Context<'_>) -> Result<()> {
        let Some((start, end)) = Kernel::target(context) else { return Ok(()) };
        for region in self.shared.within(start, end) {
            write_back(&region, &mut self.files, context.memory)?;
        }
        Ok(())
    }

    /// Forgets the mappings of which `mremap` has taken the place.
    fn remove_target(&mut self, context: &mut Context<'_>) {
        let Some((start, end)) = Kernel::target(context) else { return };
        if !self.shared.remove(start, end).is_empty() {
            self.keep_mapped(context);
        }
    }

    /// `mremap` of a shared mapping: `None` if there is none.
    fn move_mapping(&mut self, context: &mut Context<'_>) -> Option<Result> {
        let [old, old_length, length, ..] = context.args();
        let end = old.checked_add(old_length)?.checked_next_multiple_of(PAGE)?;
        let parts = self.shared.within(old, end);
        let region = *parts.first()?;
        // Parts of several mappings cannot be moved together on Linux either.
        if parts.len() > 1 || (region.start, region.end) != (old, end) {
            return Some(Err(Errno::FAULT));
        }
        let length = length.checked_next_multiple_of(PAGE)?;
        Some(self.move_region(context, region, length))
    }

    fn move_region(&mut self, context: &mut Context<'_>, region: Region, length: u64) -> Result {
        write_back(&region, &mut self.files, context.memory)?;
        let to = self.memory.call(number::MREMAP, context).unwrap_or(Err(Errno::NOSYS))?;
        self.shared.remove(region.start, region.end);
        self.remove_target(context);
        let pages = Permissions::READ_WRITE;
        let moved = Region { start: to, end: to + length, permissions: pages, ..region };
        self.memory.protect(to, length, pages, context)?;
        if !self.memory.reveal(to, moved.end, context.memory) {
            return Err(Errno::NOMEM);
        }
        let filled = fill(&moved, &mut self.files, context.memory, false)?;
        if filled < moved.end {
            self.memory.hide((filled, moved.end), pages, context.memory);
        }
        self.memory.protect(to, length, region.permissions, context)?;
        self.shared.add([Region { permissions: region.permissions, ..moved }]);
        Ok(to)
    }

    /// A call is about to read a part of an open file: what mappings have of it comes first.
    pub(super) fn before_read(&mut self, context: &mut Context<'_>, place: &Place) -> Result<()> {
        for region in self.shared.showing(place.inode, place.from, place.to) {
            write_back(&region, &mut self.files, context.memory)?;
        }
        Ok(())
    }

    /// A call has written a part of an open file, or cut it: mappings show that. The call has succeeded, whether or not
    /// there is memory for their new pages: those without are behind the end of the file until they are touched.
    pub(super) fn after_write(&mut self, context: &mut Context<'_>, place: &Place) {
        for region in self.shared.showing(place.inode, 0, u64::MAX) {
            let _ = self.fit(&region, context.memory);
        }
        for region in self.shared.showing(place.inode, place.from, place.to) {
            let beyond = self.memory.beyond.within(region.start, region.end);
            let end = beyond.first().map_or(region.end, |part| part.0);
            if region.start < end {
                let present = region.part(region.start, end);
                let _ = fill(&present, &mut self.files, context.memory, false);
            }
        }
    }

    /// The file of a mapping has another length, perhaps. Returns whether there are pages now that were behind its end.
    fn fit(&mut self, region: &Region, memory: &mut dyn UserMemory) -> Result<bool> {
        let size = self.files.mapped_size(region.file)?.unwrap_or(0);
        let pages = size.saturating_sub(region.offset).next_multiple_of(PAGE);
        let end = region.start.saturating_add(pages).min(region.end);
        let beyond = self.memory.beyond.within(region.start, region.end);
        let before = beyond.first().map_or(region.end, |part| part.0);
        if end < before {
            self.memory.hide((end, region.end), region.permissions, memory);
        }
        if end <= before {
            return Ok(false);
        }
        if !self.memory.reveal(before, end, memory) {
            memory.forget_deferred();
            self.memory.hide((before, region.end), region.permissions, memory);
            return Err(Errno::NOMEM);
        }
        let fresh = Region { permissions: Permissions::READ_WRITE, ..region.part(before, end) };
        fill(&fresh, &mut self.files, memory, true)?;
        memory.protect(before, end - before, region.permissions);
        Ok(true)
    }

    /// Whether an address is behind the end of a file no more, which somebody else has made longer.
    pub(super) fn has_grown(
        &mut self,
        address: u64,
        memory: &mut dyn UserMemory,
        host: &mut dyn Host,
    ) -> bool {
        host.await_earlier();
        let all = self.shared.regions.iter().copied();
        let region = all.into_iter().find(|region| region.overlaps(address, address + 1));
        region.is_some_and(|region| self.fit(&region, memory) == Ok(true))
            && self.memory.beyond.at(address).is_none()
    }

    pub(super) fn has_shared(&self) -> bool {
        !self.shared.regions.is_empty()
    }
}
