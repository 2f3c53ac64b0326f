//! Pages in memory: all that may be used are, so `mlock` and its like have nothing to do but to check their arguments.

use super::memory::{Memory, page_range};
use super::{Context, Errno, Result};
use crate::space::PAGE;

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
pub(super) fn lock(memory: &Memory, context: &mut Context<'_>, flags: u64) -> Result {
    const ON_FAULT: u64 = 1;
    if flags & !ON_FAULT != 0 {
        return Err(Errno::INVAL);
    }
    let Some((start, end)) = named(context)? else { return Ok(0) };
    // What nobody may use cannot be brought into memory.
    let is_usable = flags & ON_FAULT != 0 || !memory.has_reserved(start, end);
    if is_usable && memory.is_mapped(start, end, context) { Ok(0) } else { Err(Errno::NOMEM) }
}

pub(super) fn unlock(memory: &Memory, context: &mut Context<'_>) -> Result {
    let Some((start, end)) = named(context)? else { return Ok(0) };
    if memory.is_mapped(start, end, context) { Ok(0) } else { Err(Errno::NOMEM) }
}

pub(super) fn lock_all(flags: u64) -> Result {
    const CURRENT_AND_FUTURE: u64 = 3;
    const ON_FAULT: u64 = 4;
    let is_known = flags & !(CURRENT_AND_FUTURE | ON_FAULT) == 0;
    if is_known && flags & CURRENT_AND_FUTURE != 0 { Ok(0) } else { Err(Errno::INVAL) }
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
    for (page, at) in (start..end).step_by(PAGE as usize).zip(to..) {
        let is_usable = !memory.is_reserved(page);
        context.memory.write(at, &[is_usable.into()])?;
    }
    Ok(0)
}
