//! Pages in memory: all that may be used are, so `mlock` and its like have nothing to do but to check their arguments.

use super::memory::{MOST_PARTS, Memory, page_range};
use super::ranges::Ranges;
use super::{Context, Errno, Result};
use crate::space::{PAGE, Permissions};

/// Pages that `mincore` tells of at a time.
const PIECE_PAGES: u64 = 1 << 16;

/// The pages that a call names, which need not begin at one.
fn named(context: &Context<'_>) -> Result<Option<(u64, u64)>> {
    let [address, length, ..] = context.args();
    let start = address & !(PAGE - 1);
    if length == 0 {
        return Ok(None);
    }
    let length = length.checked_add(address - start).ok_or(Errno::INVAL)?;
    page_range(start, length).map(Some).map_err(|_| Errno::NOMEM)
}

/// `mlock` and `mlock2`.
pub(super) fn lock(memory: &mut Memory, context: &mut Context<'_>, flags: u64) -> Result {
    const ON_FAULT: u64 = 1;
    if flags & !ON_FAULT != 0 {
        return Err(Errno::INVAL);
    }
    let Some((start, end)) = named(context)? else { return Ok(0) };
    // The call locks the pages before a hole, even if it fails.
    let hole = memory.mapped_end(start, end, context);
    if start < hole {
        memory.check_room(1)?;
        memory.locked.join(start, hole);
    }
    // Pages that nobody may use cannot be brought into memory.
    let may_use = |page| context.memory.permissions(page) != Some(Permissions::NONE);
    let is_usable = hole == end
        && (flags & ON_FAULT != 0
            || !memory.has_reserved(start, end)
                && (start..end).step_by(PAGE as usize).all(may_use));
    if is_usable { Ok(0) } else { Err(Errno::NOMEM) }
}

pub(super) fn unlock(memory: &mut Memory, context: &mut Context<'_>) -> Result {
    let Some((start, end)) = named(context)? else { return Ok(0) };
    let hole = memory.mapped_end(start, end, context);
    if memory.locked.count() >= MOST_PARTS && memory.locked.splits(start, hole) {
        return Err(Errno::NOMEM);
    }
    memory.locked.remove(start, hole);
    if hole == end { Ok(0) } else { Err(Errno::NOMEM) }
}

/// `mlockall`.
pub(super) fn lock_all(memory: &mut Memory, flags: u64) -> Result {
    const CURRENT: u64 = 1;
    const FUTURE: u64 = 2;
    const ON_FAULT: u64 = 4;
    let is_known = flags & !(CURRENT | FUTURE | ON_FAULT) == 0;
    if !is_known || flags & (CURRENT | FUTURE) == 0 {
        return Err(Errno::INVAL);
    }
    if flags & CURRENT != 0 {
        let mut locked = memory.locked.clone();
        memory.mapped().for_each(|(start, end)| locked.join(start, end));
        if locked.count() > MOST_PARTS {
            return Err(Errno::NOMEM);
        }
        memory.locked = locked;
    }
    memory.locks_new = flags & FUTURE != 0;
    Ok(0)
}

pub(super) fn unlock_all(memory: &mut Memory) -> Result {
    memory.locked = Ranges::default();
    memory.locks_new = false;
    Ok(0)
}

/// `mincore`: a byte for each page, which is 1 if it is in memory.
pub(super) fn resident(memory: &Memory, context: &mut Context<'_>) -> Result {
    let [address, length, to, ..] = context.args();
    if address % PAGE != 0 {
        return Err(Errno::INVAL);
    }
    if length == 0 {
        return Ok(0);
    }
    let (start, end) = page_range(address, length).map_err(|_| Errno::NOMEM)?;
    if !memory.is_mapped(start, end, context) {
        return Err(Errno::NOMEM);
    }
    for from in (start..end).step_by((PIECE_PAGES * PAGE) as usize) {
        let until = end.min(from + PIECE_PAGES * PAGE);
        let mut are_usable = vec![0; ((until - from) / PAGE) as usize];
        for (first, last) in memory.usable(from, until) {
            let pages = (first - from) / PAGE..(last - from) / PAGE;
            are_usable[pages.start as usize..pages.end as usize].fill(1);
        }
        context.memory.write(to.wrapping_add((from - start) / PAGE), &are_usable)?;
    }
    Ok(0)
}
