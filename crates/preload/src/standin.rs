//! Lists of buffers with local memory in the place of borrowed memory.

use libc::iovec;
use rackmem_paging::Pager;

use crate::local::{Room, copy_in, copy_out};

/// Most buffers of a call of the kernel's (`IOV_MAX`).
const MAX_BUFFERS: usize = 1024;

/// The kernel's use of the memory that a call is given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// The kernel writes there.
    Fill,
    /// The kernel reads it.
    Drain,
}

/// A part of a program's buffer.
#[derive(Clone, Copy)]
struct Part {
    program: usize,
    bytes: usize,
    /// Address of the local memory in its place, if there is any.
    local: Option<usize>,
}

/// Some bytes of a list of buffers, as the kernel is given them.
pub struct StandIn<'a> {
    pager: Option<&'static Pager>,
    list: &'a [iovec],
    parts: &'a [Part],
}

/// Finds the parts of the `most` bytes after the first `skip` ones that are alike.
fn parts(
    pager: Option<&Pager>,
    buffers: &[iovec],
    mut skip: usize,
    mut most: usize,
    usage: Use,
    mut found: impl FnMut(usize, usize, bool),
) {
    for buffer in buffers {
        let skipped = skip.min(buffer.iov_len);
        skip -= skipped;
        let mut begin = buffer.iov_base as usize + skipped;
        let end = begin.saturating_add((buffer.iov_len - skipped).min(most));
        most -= end - begin;
        while begin < end {
            let (until, is_helped) = match pager {
                Some(pager) => pager.part(begin..end, usage == Use::Fill),
                None => (end, false),
            };
            found(begin, until - begin, is_helped);
            begin = until;
        }
    }
}

/// Takes `count` values at the beginning of the rest of a room.
///
/// # Safety
/// The memory is there, nobody else's and zero or a value of the type, as long as `'a`.
unsafe fn take<'a, T>(at: &mut usize, count: usize) -> &'a mut [T] {
    let begin = at.next_multiple_of(align_of::<T>());
    *at = begin + count * size_of::<T>();
    // SAFETY: by the condition.
    unsafe { std::slice::from_raw_parts_mut(begin as *mut T, count) }
}

impl<'a> StandIn<'a> {
    /// The `most` bytes after the first `skip` ones. The room is replaced if it is too small. `None`: there is no
    /// memory.
    pub fn new(
        pager: Option<&'static Pager>,
        buffers: &[iovec],
        skip: usize,
        most: usize,
        usage: Use,
        room: &'a mut Option<Room>,
    ) -> Option<StandIn<'a>> {
        let (mut count, mut plain, mut bytes) = (0, 0, 0);
        parts(pager, buffers, skip, most, usage, |_, length, is_helped| {
            count += 1;
            plain += usize::from(!is_helped);
            bytes += length;
        });
        // Too many for the kernel together with what stands in: then local memory stands in for all of them.
        let is_all = 2 * plain + 1 > MAX_BUFFERS && plain < count;
        let needed = bytes + (count + 1) * (size_of::<iovec>() + size_of::<Part>());
        if room.as_ref().is_none_or(|room| room.length() < needed) {
            *room = None;
            *room = Some(Room::new(needed)?);
        }
        let mut at = room.as_ref()?.base();
        // SAFETY: the room is that large; any bytes are a value of both types but for the option, and what is read of
        // them was written.
        let (data, list, known) = unsafe {
            let data = take::<u8>(&mut at, bytes).as_mut_ptr() as usize;
            (
                data,
                take::<iovec>(&mut at, count),
                take::<std::mem::MaybeUninit<Part>>(&mut at, count),
            )
        };
        let (mut used, mut buffers_used, mut parts_used) = (0, 0, 0);
        let mut local_end = 0;
        parts(pager, buffers, skip, most, usage, |program, length, is_helped| {
            // Another thread may have changed what is alike meanwhile.
            if parts_used == count {
                return;
            }
            let here = data + used;
            let is_local = (is_helped || is_all)
                && (usage == Use::Fill
                    || pager.is_some_and(|pager| copy_in(pager, program, here, length)));
            used += length;
            known[parts_used].write(Part {
                program,
                bytes: length,
                local: is_local.then_some(here),
            });
            parts_used += 1;
            if is_local && local_end == here {
                list[buffers_used - 1].iov_len += length;
            } else {
                let base = if is_local { here } else { program } as *mut _;
                list[buffers_used] = iovec { iov_base: base, iov_len: length };
                buffers_used += 1;
            }
            local_end = if is_local { here + length } else { 0 };
        });
        // SAFETY: so many were written.
        let known = unsafe { std::slice::from_raw_parts(known.as_ptr().cast(), parts_used) };
        Some(StandIn { pager, list: &list[..buffers_used], parts: known })
    }

    /// The buffers, for the kernel.
    pub fn list(&self) -> &[iovec] {
        self.list
    }

    /// Copies the first `bytes` bytes, which the kernel has written, to where the program wants them.
    pub fn give_back(&self, mut bytes: usize) {
        for part in self.parts {
            let length = part.bytes.min(bytes);
            bytes -= length;
            if let (Some(local), Some(pager)) = (part.local, self.pager) {
                copy_out(pager, part.program, local, length);
            }
        }
    }
}
