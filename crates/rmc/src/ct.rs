//! The context table (CT): the bounds of each context's segment on this node (soNUMA §4.2).

use alloc::vec::Vec;

use rackmem_abi::Status;

/// Context identifiers reach from 0 to one less than this. The table grows with the largest
/// identifier in use, so that a lookup is one indexed load.
pub const MAX_CONTEXTS: usize = 1024;

/// The part of a CT entry that guards memory: the size of the segment.
///
/// [`Memory`](crate::Memory) knows the segment's address; offsets here start at 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Bounds {
    /// Size of the segment, in bytes.
    pub size_bytes: u64,
}

impl Bounds {
    /// Whether `length` bytes at `offset` lie in the segment. No bytes lie anywhere up to its end.
    ///
    /// # Errors
    /// [`Status::OutOfSegment`]
    #[inline]
    pub const fn check(&self, offset: u64, length: u64) -> Result<(), Status> {
        // The subtraction cannot wrap where the sum of offset and length could.
        if offset <= self.size_bytes && length <= self.size_bytes - offset {
            Ok(())
        } else {
            Err(Status::OutOfSegment)
        }
    }
}

/// The context table, indexed by `ctx_id`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct ContextTable {
    /// Bounds, or why there are none.
    entries: Vec<Result<Bounds, Status>>,
}

impl ContextTable {
    /// A table without contexts.
    pub const fn new() -> Self {
        Self { entries: Vec::new() }
    }

    /// Opens this node's segment of a context to the other nodes, or gives it new bounds.
    ///
    /// # Errors
    /// [`Status::NoContext`] if the table has no such entry; see [`MAX_CONTEXTS`].
    pub fn install(&mut self, ctx_id: u16, bounds: Bounds) -> Result<(), Status> {
        let index = usize::from(ctx_id);
        if index >= MAX_CONTEXTS {
            return Err(Status::NoContext);
        }
        if index >= self.entries.len() {
            self.entries.resize(index + 1, Err(Status::NoContext));
        }
        self.entries[index] = Ok(bounds);
        Ok(())
    }

    /// Closes the segment and returns its former bounds. Later lookups answer `why`:
    /// [`Status::NoContext`] if its process left, [`Status::NodeLost`] if it died.
    pub fn remove(&mut self, ctx_id: u16, why: Status) -> Option<Bounds> {
        let entry = self.entries.get_mut(usize::from(ctx_id))?;
        core::mem::replace(entry, Err(why)).ok()
    }

    /// The bounds of this node's segment (RRPP stage 2).
    ///
    /// # Errors
    /// [`Status::NoContext`], or the status that [`ContextTable::remove`] was given.
    #[inline]
    pub fn lookup(&self, ctx_id: u16) -> Result<Bounds, Status> {
        match self.entries.get(usize::from(ctx_id)) {
            Some(entry) => *entry,
            None => Err(Status::NoContext),
        }
    }
}
