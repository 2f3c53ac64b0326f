//! Robust mutexes: those that a thread holds when it ends are marked, and a waiter of each wakes.
//!
//! The C library keeps a list of them in user memory. Its head has three words: the first entry, the distance of the
//! mutex's word from its entry, and the entry of a mutex that is just being locked or unlocked.

use super::{Context, Kernel, Result};

/// Bytes of the head of a list.
pub(super) const HEAD_BYTES: u64 = 24;

/// Entries of a list that are looked at: it may be a circle.
const MOST_ENTRIES: usize = 2048;

/// The thread that holds a mutex, in its word.
const OWNER: u32 = 0x3fff_ffff;
const OWNER_DIED: u32 = 0x4000_0000;
const WAITERS: u32 = 0x8000_0000;

/// In an address of an entry: the mutex inherits priorities.
const INHERITS: u64 = 1;

impl Kernel {
    /// The thread with this number ends, whose list begins at `head`. As on Linux, an address that is bad ends that.
    pub(super) fn release_robust(&mut self, context: &mut Context<'_>, owner: u64, head: u64) {
        if head != 0 {
            let _ = self.release_list(context, owner, head);
        }
    }

    fn release_list(&mut self, context: &mut Context<'_>, owner: u64, head: u64) -> Result<()> {
        let mut entry = context.read_u64(head)?;
        let distance = context.read_u64(head.wrapping_add(8))?;
        let pending = context.read_u64(head.wrapping_add(16))?;
        for _ in 0..MOST_ENTRIES {
            let at = entry & !INHERITS;
            if at == head {
                break;
            }
            // The entry is not the mutex's any more once its word is free.
            let next = context.read_u64(at);
            if at != pending & !INHERITS {
                self.release_mutex(context, owner, (entry, distance), false)?;
            }
            entry = next?;
        }
        if pending & !INHERITS != 0 {
            self.release_mutex(context, owner, (pending, distance), true)?;
        }
        Ok(())
    }

    /// A mutex of the list: `is_pending` if the thread was just locking or unlocking it.
    fn release_mutex(
        &mut self,
        context: &mut Context<'_>,
        owner: u64,
        (entry, distance): (u64, u64),
        is_pending: bool,
    ) -> Result<()> {
        let (inherits, address) =
            (entry & INHERITS != 0, (entry & !INHERITS).wrapping_add(distance));
        if address % 4 != 0 {
            return Err(super::Errno::INVAL);
        }
        let word = context.read_u32(address)?;
        let has_waiter = if u64::from(word & OWNER) == owner {
            context.memory.write(address, &(word & WAITERS | OWNER_DIED).to_le_bytes())?;
            word & WAITERS != 0
        } else {
            // It has been unlocked already, and the waiter not woken.
            is_pending && word == 0
        };
        if has_waiter && !inherits {
            context.woken.extend(self.futexes.wake(address, 1, u32::MAX));
        }
        Ok(())
    }
}
