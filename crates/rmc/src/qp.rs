//! State of a queue pair at its controller: read position of the work queue, write position of the
//! completion queue, slots in flight (soNUMA §4.1; the queue part of a CT$ entry, §4.3).

use rackmem_abi::{CqEntry, MAX_WQ_SIZE, Status};

use crate::{Rights, Unroll, Work};

/// Queue pairs of one node.
pub const MAX_QPS: usize = 4096;

/// Names a queue pair of this node. The index is used again after a removal, the pair of index and
/// generation is not, within 65536 removals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct QpId {
    pub(crate) index: u16,
    pub(crate) generation: u16,
}

impl QpId {
    /// A name for callers that compose the stages themselves. [`Rmc::add_qp`](crate::Rmc::add_qp) names
    /// the queue pairs of a controller.
    pub const fn new(index: u16, generation: u16) -> Self {
        Self { index, generation }
    }

    /// A small number, unique among the present queue pairs of the node: an index for tables.
    #[inline]
    pub const fn index(self) -> usize {
        self.index as usize
    }
}

/// Parameters of a queue pair, fixed at its registration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct QpConfig {
    /// Context of all its operations.
    pub ctx_id: u16,
    /// Entries of the work queue and of the completion queue, 1 to [`MAX_WQ_SIZE`].
    pub size: u32,
    /// Operations that the owner may post.
    pub rights: Rights,
}

/// A place in a ring and the phase that entries of this round have there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cursor {
    /// Index in the ring.
    pub index: u32,
    /// Phase of this round: the memory of a new ring is zero, so the first round has `true`.
    pub phase: bool,
}

impl Cursor {
    /// The first entry of the first round.
    pub const START: Cursor = Cursor { index: 0, phase: true };

    /// Goes on to the next entry of a ring of `size` entries; the phase flips at the wrap.
    #[inline]
    pub const fn advance(&mut self, size: u32) {
        self.index += 1;
        if self.index == size {
            self.index = 0;
            self.phase = !self.phase;
        }
    }
}

/// Counters of a queue pair since its registration.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct QpStats {
    /// Completed work queue entries.
    pub ops: u64,
    /// Bytes of the entries that succeeded.
    pub bytes: u64,
    /// Entries that completed with an error.
    pub errors: u64,
}

/// A transfer whose lines are being sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Transfer {
    pub work: Work,
    pub tid: u32,
    pub unroll: Unroll,
}

/// State of a queue pair.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Qp {
    config: QpConfig,
    wq: Cursor,
    cq: Cursor,
    /// Bit = slot: its transfer has an ITT entry.
    outstanding: u128,
    /// The unrolling that a full lane may have interrupted. One per queue pair, so that a queue
    /// pair whose destination is slow does not hold up the others.
    pub(crate) transfer: Option<Transfer>,
    pub(crate) stats: Observed<QpStats>,
}

impl Qp {
    /// A queue pair whose rings are empty and zero, or `None` if the size is out of range.
    pub const fn new(config: QpConfig) -> Option<Self> {
        Self::at(config, [Cursor::START; 2])
    }

    /// A queue pair without operations in flight, whose work and completion queue are at these
    /// positions, or `None` if the size or a position is out of range.
    pub const fn at(config: QpConfig, [wq, cq]: [Cursor; 2]) -> Option<Self> {
        let size = config.size;
        if size as usize > MAX_WQ_SIZE || wq.index >= size || cq.index >= size {
            return None;
        }
        let stats = Observed(QpStats { ops: 0, bytes: 0, errors: 0 });
        Some(Self { config, wq, cq, outstanding: 0, transfer: None, stats })
    }

    /// Positions in the work and in the completion queue, as [`Qp::at`] takes them.
    pub const fn cursors(&self) -> [Cursor; 2] {
        [self.wq, self.cq]
    }

    /// The parameters of [`Qp::new`].
    #[inline]
    pub const fn config(&self) -> &QpConfig {
        &self.config
    }

    /// Counters since [`Qp::new`].
    #[inline]
    pub const fn stats(&self) -> QpStats {
        self.stats.0
    }

    /// RGP stage 2: position of the next work queue entry, and the phase of a new entry there.
    #[inline]
    pub const fn next_entry(&self) -> Cursor {
        self.wq
    }

    /// Whether the slot's previous operation has not completed. Software that waits for slots never
    /// shows this; software that does not has to wait here, as one slot cannot be named twice.
    #[inline]
    pub const fn is_outstanding(&self, slot: u32) -> bool {
        self.outstanding >> slot & 1 != 0
    }

    /// Number of slots whose operations have not completed.
    #[inline]
    pub const fn in_flight(&self) -> u32 {
        self.outstanding.count_ones()
    }

    /// The tid of the transfer that is being unrolled, and the number of its pieces not sent yet.
    #[inline]
    pub fn unsent(&self) -> Option<(u32, u32)> {
        self.transfer.as_ref().map(|transfer| (transfer.tid, transfer.unroll.pieces()))
    }

    /// Takes the current work queue entry; returns its slot. `outstanding` unless it completes at
    /// once.
    #[inline]
    pub const fn take_entry(&mut self, outstanding: bool) -> u16 {
        let slot = self.wq.index;
        self.outstanding |= (outstanding as u128) << slot;
        self.wq.advance(self.config.size);
        slot as u16
    }

    /// RCP stage 4: the place and the word of the completion queue entry for `slot`.
    ///
    /// There is always room. At most `size` entries are posted and not yet seen to be complete, if
    /// software waits for slots; if it does not, it overwrites its own completions.
    #[inline]
    pub fn complete(&mut self, slot: u16, status: Status, bytes: u32) -> (u32, u32) {
        self.outstanding &= !(1 << slot);
        self.stats.0.ops += 1;
        match status {
            Status::Ok => self.stats.0.bytes += u64::from(bytes),
            _ => self.stats.0.errors += 1,
        }
        let entry = CqEntry { phase: self.cq.phase, slot, status_code: status as u8 };
        let position = self.cq.index;
        self.cq.advance(self.config.size);
        (position, entry.encode())
    }
}

/// Counters, which are observed and never acted on. Controllers that differ in nothing else are
/// the same, so that comparing and hashing states (as a model checker does) sees finitely many.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Observed<T>(pub T);

impl<T> PartialEq for Observed<T> {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<T> Eq for Observed<T> {}

impl<T> core::hash::Hash for Observed<T> {
    fn hash<H: core::hash::Hasher>(&self, _: &mut H) {}
}

const _: () = assert!(MAX_WQ_SIZE <= u128::BITS as usize);
