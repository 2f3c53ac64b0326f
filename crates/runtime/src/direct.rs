//! The pipelines without packets, for segments that are mapped into the process that runs them:
//! RGP, RRPP and RCP of one operation in one go (soNUMA §4.2).
//!
//! Source-side checks and bounds are those of `rackmem-rmc`. There is no unrolling to packets, no
//! inflight table, and no copy through a packet's payload.

use rackmem_abi::{LINE_BYTES, Op, Status};
use rackmem_rmc::{Sink, Source, Work};

use crate::shm::line_lock::Owner;
use crate::shm::segment::View;

/// Longest piece moved at a time through memory of our own.
const BOUNCE_BYTES: usize = 64 * 1024;

/// The local buffers of an application, seen from the process that runs the pipelines.
pub trait LocalBuffers {
    /// Address in this process of the `length` bytes at the application's `address`, if they are
    /// memory that it may load from and store to without further ado.
    fn locate(&self, address: u64, length: usize) -> Option<*mut u8>;

    /// Whether `length` bytes at `address` can be loaded from, and stored to if `writes`, though
    /// [`LocalBuffers::locate`] did not find them. Changes nothing; the memory can still go before it
    /// is used.
    ///
    /// # Errors
    /// `BadLocalBuffer`
    fn check(&mut self, address: u64, length: usize, writes: bool) -> Result<(), Status>;

    /// Copies out of a buffer that [`LocalBuffers::locate`] did not find.
    ///
    /// # Errors
    /// `BadLocalBuffer`
    fn load(&mut self, address: u64, out: Sink<'_>) -> Result<(), Status>;

    /// Copies into a buffer that [`LocalBuffers::locate`] did not find.
    ///
    /// # Errors
    /// `BadLocalBuffer`
    fn store(&mut self, address: u64, bytes: Source<'_>) -> Result<(), Status>;
}

/// Performs a checked operation on the segment it names; `owner` marks line locks.
///
/// # Errors
/// The status with which the operation completes.
#[inline(always)]
pub fn perform<L: LocalBuffers>(
    work: Work,
    view: &View,
    local: &mut L,
    owner: Owner,
) -> Result<(), Status> {
    view.check(work.offset, work.length.into())?;
    let length = work.length as usize;
    match work.op {
        Op::Read => match local.locate(work.buffer, length) {
            // SAFETY: the range was checked; `locate` vouches for the buffer.
            Some(buffer) => unsafe { view.read(work.offset, buffer, length, owner) },
            None => return read_bounced(&work, view, local, owner),
        },
        Op::Write => match local.locate(work.buffer, length) {
            // SAFETY: as above; the rights were checked against how the context is mapped.
            Some(buffer) => unsafe { view.write(work.offset, buffer, length, owner) },
            None => return write_bounced(&work, view, local, owner),
        },
        Op::FetchAdd | Op::CompareSwap => return perform_atomic(&work, view, local, owner),
        Op::Notify => view.notify(),
        Op::Nop => {}
    }
    Ok(())
}

#[inline(never)]
fn perform_atomic<L: LocalBuffers>(
    work: &Work,
    view: &View,
    local: &mut L,
    owner: Owner,
) -> Result<(), Status> {
    let mut operands = [0u64; 2];
    let bytes = work.op.operand_bytes(8);
    if local.locate(work.buffer, 8).is_none() {
        local.check(work.buffer, 8, true)?;
    }
    load_operands(local, work.buffer, &mut operands[..bytes / 8])?;
    // SAFETY: `rgp::check` made sure of the alignment, `View::check` of the range.
    let old = unsafe {
        match work.op {
            Op::FetchAdd => view.fetch_add(work.offset, operands[0], owner),
            _ => view.compare_swap(work.offset, operands[0], operands[1], owner),
        }
    };
    match local.locate(work.buffer, 8) {
        Some(at) => {
            // SAFETY: `locate` vouches for 8 bytes; the application may not align them.
            unsafe { at.cast::<u64>().write_unaligned(old) };
            Ok(())
        }
        None => local.store(work.buffer, Source::new(&old.to_ne_bytes())),
    }
}

#[inline(always)]
fn load_operands<L: LocalBuffers>(
    local: &mut L,
    address: u64,
    operands: &mut [u64],
) -> Result<(), Status> {
    if let Some(at) = local.locate(address, size_of_val(operands)) {
        for (i, operand) in operands.iter_mut().enumerate() {
            // SAFETY: `locate` vouches for the bytes of all operands.
            *operand = unsafe { at.cast::<u64>().add(i).read_unaligned() };
        }
        return Ok(());
    }
    let mut bytes = [0; 16];
    local.load(address, Sink::new(&mut bytes[..operands.len() * 8]))?;
    for (operand, eight) in operands.iter_mut().zip(bytes.chunks(8)) {
        *operand = u64::from_ne_bytes(eight.try_into().expect("chunks of 8"));
    }
    Ok(())
}

#[cold]
#[inline(never)]
fn read_bounced<L: LocalBuffers>(
    work: &Work,
    view: &View,
    local: &mut L,
    owner: Owner,
) -> Result<(), Status> {
    local.check(work.buffer, work.length as usize, true)?;
    let mut bounce = vec![0; BOUNCE_BYTES.min(work.length as usize)];
    for (done, n) in pieces(work.offset, work.length as usize) {
        // SAFETY: the piece lies in the checked range, and in `bounce`.
        unsafe { view.read(work.offset + done as u64, bounce.as_mut_ptr(), n, owner) };
        local.store(work.buffer + done as u64, Source::new(&bounce[..n]))?;
    }
    Ok(())
}

#[cold]
#[inline(never)]
fn write_bounced<L: LocalBuffers>(
    work: &Work,
    view: &View,
    local: &mut L,
    owner: Owner,
) -> Result<(), Status> {
    local.check(work.buffer, work.length as usize, false)?;
    let mut bounce = vec![0; BOUNCE_BYTES.min(work.length as usize)];
    for (done, n) in pieces(work.offset, work.length as usize) {
        local.load(work.buffer + done as u64, Sink::new(&mut bounce[..n]))?;
        // SAFETY: the piece lies in the checked range, and in `bounce`.
        unsafe { view.write(work.offset + done as u64, bounce.as_ptr(), n, owner) };
    }
    Ok(())
}

/// `(start, length)` of pieces of at most `BOUNCE_BYTES` that end at lines of the segment, so that
/// no line is moved in two.
fn pieces(offset: u64, length: usize) -> impl Iterator<Item = (usize, usize)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset as usize + done;
        let end = (at + BOUNCE_BYTES) & !(LINE_BYTES - 1);
        let n = (end - at).min(length - done);
        done += n;
        (n != 0).then_some((done - n, n))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_cover_the_range_and_end_at_lines() {
        for (offset, length) in [(0, 0), (0, 1), (63, 2), (5, 200_000), (64, BOUNCE_BYTES * 2)] {
            let mut next = 0;
            for (at, n) in pieces(offset, length) {
                assert_eq!(at, next);
                next += n;
                assert!(n <= BOUNCE_BYTES);
                assert!(next == length || (offset as usize + next) % LINE_BYTES == 0);
            }
            assert_eq!(next, length);
        }
    }
}
