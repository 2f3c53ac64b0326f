//! The inflight transaction table (ITT): an entry for each work queue entry whose lines are in
//! flight, indexed by `tid` (soNUMA §4.2).

use alloc::boxed::Box;

use rackmem_abi::{MAX_ADDRESS, MAX_OFFSET, MAX_TID, Op, Status};

use crate::{QpId, Work};

/// Work queue entries in flight per node, unless something else is asked for.
pub const DEFAULT_ITT_CAPACITY: u32 = 1024;

/// Largest capacity: it leaves 12 bits of the tid to tell the uses of an entry apart.
pub const MAX_ITT_CAPACITY: u32 = 4096;

/// Part of a shared table, at most, that is kept for destinations without a transfer: one entry for each node.
const MAX_KEPT: u32 = 4;

const NONE: u16 = u16::MAX;

/// One transfer in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Entry {
    /// Address of the local buffer.
    pub buffer: u64,
    /// Offset of the transfer in the destination's segment. Replies carry offsets in the segment;
    /// the difference to this one is the position of their bytes in the buffer.
    pub base: u64,
    /// Length of the transfer in bytes.
    pub length: u32,
    /// Lines without an answer, sent or not; 0 = the entry is free.
    remaining: u32,
    /// The only tid that reaches the entry now.
    tid: u32,
    /// Queue pair that gets the completion; `None` after its removal.
    pub qp: Option<QpId>,
    /// Node that the requests went to: only its replies count.
    pub dst_nid: u16,
    /// Index of the work queue entry.
    pub slot: u16,
    /// Operation: it says which way the data go.
    pub op: Op,
    /// The first error, or [`Status::Ok`].
    pub status: Status,
}

/// The table. A tid is the index of an entry in its low bits and, above them, a count of how often
/// the entry has been used, so that replies to former uses are recognised.
///
/// Free entries are handed out first in, first out: a tid then comes again only after 2^24
/// transfers.
///
/// # Decisions
///
/// - *Destinations share the table by a dynamic threshold*, where they share it at all ([`Itt::shared`]). A destination
///   may have as many entries as are free, so one alone may have half of them, and nodes that do not answer leave room
///   for the others. A fixed share would have to be small for racks in which many nodes may stop, and would then slow
///   down those in which none does. On the papers' machines every node answers; there any destination may fill the
///   table.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Itt {
    entries: Box<[Entry]>,
    /// Links of the free list.
    next: Box<[u16]>,
    head: u16,
    tail: u16,
    in_use: u32,
    /// Entries in use by destination; empty: any may fill the table.
    held: Box<[u16]>,
}

impl Itt {
    /// A table of `capacity` free entries.
    ///
    /// # Panics
    /// Unless `capacity` is a power of two up to [`MAX_ITT_CAPACITY`].
    pub fn new(capacity: u32) -> Self {
        assert!(
            capacity.is_power_of_two() && capacity <= MAX_ITT_CAPACITY,
            "ITT capacity {capacity} is not a power of two up to {MAX_ITT_CAPACITY}"
        );
        let last = capacity as u16 - 1;
        Self {
            entries: (0..capacity).map(Entry::free).collect(),
            next: (0..=last).map(|index| if index == last { NONE } else { index + 1 }).collect(),
            head: 0,
            tail: last,
            in_use: 0,
            held: Box::default(),
        }
    }

    /// A table that `nodes` destinations share, so that none takes it from the others.
    ///
    /// # Panics
    /// As [`Itt::new`].
    pub fn shared(capacity: u32, nodes: u16) -> Self {
        Self { held: (0..nodes).map(|_| 0).collect(), ..Self::new(capacity) }
    }

    /// Whether a transfer to a node may take an entry. In a shared table a node may have as many as are free, and the
    /// last ones, one for each node, are for those that have none.
    #[inline]
    pub fn has_room_for(&self, nid: u16) -> bool {
        let free = self.capacity() - self.in_use;
        match self.held.get(usize::from(nid)) {
            Some(0) | None => free > 0,
            Some(&held) => {
                let kept = (self.held.len() as u32).min(self.capacity() / MAX_KEPT);
                u32::from(held) + kept < free
            }
        }
    }

    /// Most transfers in flight at a time.
    pub fn capacity(&self) -> u32 {
        self.entries.len() as u32
    }

    /// Number of transfers in flight.
    #[inline]
    pub const fn in_use(&self) -> u32 {
        self.in_use
    }

    /// Whether [`Itt::alloc`] would find no entry.
    #[inline]
    pub const fn is_full(&self) -> bool {
        self.head == NONE
    }

    /// RGP stage 5: takes a free entry for `work` in `lines` lines and gives it a tid. `None` if
    /// the table is full.
    ///
    /// # Panics
    /// If there are no lines: nothing would ever complete the entry.
    #[inline]
    pub fn alloc(&mut self, qp: QpId, slot: u16, work: &Work, lines: u32) -> Option<u32> {
        assert!(lines > 0, "a transfer has at least one line");
        if self.head == NONE {
            return None;
        }
        let index = self.head as usize;
        self.head = core::mem::replace(&mut self.next[index], NONE);
        if self.head == NONE {
            self.tail = NONE;
        }
        self.in_use += 1;
        if let Some(held) = self.held.get_mut(usize::from(work.dst_nid)) {
            *held += 1;
        }
        let entry = &mut self.entries[index];
        let tid = entry.tid;
        *entry = Entry::new(qp, slot, work, lines, tid);
        Some(tid)
    }

    /// The transfer with this tid, unless it has completed or never was (RCP stage 2).
    #[inline]
    pub fn get(&self, tid: u32) -> Option<&Entry> {
        let entry = &self.entries[self.index_of(tid)];
        entry.is_of(tid).then_some(entry)
    }

    /// Counts `lines` lines as answered with `status`; the first error stays. Returns the transfer
    /// if these were its last lines: it is out of the table then (RCP stage 2).
    ///
    /// More lines than are left count as those that are left: a node that answers what it was not
    /// asked yet harms the transfer, and nothing else.
    #[inline]
    pub fn answer(&mut self, tid: u32, lines: u32, status: Status) -> Option<Entry> {
        let index = self.index_of(tid);
        // A copy: one of the entry itself would wait for the parts of it that were just stored.
        let mut entry = self.entries[index];
        if !entry.is_of(tid) {
            return None;
        }
        if entry.answer(lines, status) {
            self.release(index);
            return Some(entry);
        }
        self.entries[index] = entry;
        None
    }

    /// Takes out the next transfer, from index `from` on, that waits for a node; its index too.
    pub fn take_lost(&mut self, nid: u16, from: usize) -> Option<(usize, Entry)> {
        let waits = |entry: &Entry| entry.remaining > 0 && entry.dst_nid == nid;
        let index = from + self.entries[from..].iter().position(waits)?;
        let entry = Entry { status: Status::NodeLost, ..self.entries[index] };
        self.release(index);
        Some((index, entry))
    }

    /// Parts all transfers of a queue pair from it. Their replies will still be counted, which
    /// frees the entries, but there is nobody to complete them for.
    pub fn orphan(&mut self, qp: QpId) {
        for entry in self.entries.iter_mut().filter(|entry| entry.qp == Some(qp)) {
            entry.qp = None;
        }
    }

    /// The transfers in flight.
    pub fn iter(&self) -> impl Iterator<Item = &Entry> {
        self.entries.iter().filter(|entry| entry.remaining > 0)
    }

    #[inline]
    fn index_of(&self, tid: u32) -> usize {
        tid as usize & (self.entries.len() - 1)
    }

    #[inline]
    fn release(&mut self, index: usize) {
        let capacity = self.capacity();
        let entry = &mut self.entries[index];
        let dst_nid = entry.dst_nid;
        *entry = Entry::free(entry.tid.wrapping_add(capacity) & MAX_TID);
        match self.tail {
            NONE => self.head = index as u16,
            tail => self.next[tail as usize] = index as u16,
        }
        self.tail = index as u16;
        self.in_use -= 1;
        if let Some(held) = self.held.get_mut(usize::from(dst_nid)) {
            *held -= 1;
        }
    }
}

impl Entry {
    /// RGP stage 5: the entry of a transfer whose `lines` lines are not answered.
    #[inline]
    pub const fn new(qp: QpId, slot: u16, work: &Work, lines: u32, tid: u32) -> Self {
        Self {
            buffer: work.buffer,
            base: work.offset,
            length: work.length,
            remaining: lines,
            tid,
            qp: Some(qp),
            dst_nid: work.dst_nid,
            slot,
            op: work.op,
            status: Status::Ok,
        }
    }

    /// Whether the transfer with this tid is the one that the entry is in use for.
    #[inline]
    pub const fn is_of(&self, tid: u32) -> bool {
        self.tid == tid && self.remaining > 0
    }

    /// RCP stage 2: counts `lines` lines as answered with `status`. Returns whether they were the last.
    #[inline]
    pub fn answer(&mut self, lines: u32, status: Status) -> bool {
        if self.status == Status::Ok {
            self.status = status;
        }
        self.remaining = self.remaining.saturating_sub(lines);
        self.remaining == 0
    }

    /// The entry as four words, for a table in memory (soNUMA §4.2).
    ///
    /// | word | bits | field |
    /// |---|---|---|
    /// | 0 | 0..24 | tid |
    /// | 0 | 24..48 | lines without an answer; 0 = the entry is free |
    /// | 0 | 48..56 | status |
    /// | 0 | 56..64 | operation |
    /// | 1 | 0..48 | address of the local buffer |
    /// | 1 | 48..64 | slot |
    /// | 2 | 0..40 | offset in the destination's segment |
    /// | 2 | 40..64 | length in bytes |
    /// | 3 | 0..16 | destination node |
    /// | 3 | 16..32 | queue pair: index |
    /// | 3 | 32..48 | queue pair: generation |
    /// | 3 | 48 | the queue pair is there |
    ///
    /// All that [`Entry::answer`] changes is in word 0.
    #[inline]
    pub const fn words(&self) -> [u64; 4] {
        let qp = match self.qp {
            Some(QpId { index, generation }) => {
                (index as u64) << 16 | (generation as u64) << 32 | 1 << 48
            }
            None => 0,
        };
        [
            self.tid as u64
                | (self.remaining as u64) << 24
                | (self.status as u64) << 48
                | (self.op as u64) << 56,
            (self.buffer & MAX_ADDRESS) | (self.slot as u64) << 48,
            (self.base & MAX_OFFSET) | (self.length as u64) << 40,
            self.dst_nid as u64 | qp,
        ]
    }

    /// The entry in these words; `None` if no [`Entry::words`] gives them.
    #[inline]
    pub fn from_words(words: [u64; 4]) -> Option<Self> {
        let index = (words[3] >> 16) as u16;
        let qp = QpId { index, generation: (words[3] >> 32) as u16 };
        Some(Self {
            buffer: words[1] & MAX_ADDRESS,
            base: words[2] & MAX_OFFSET,
            length: (words[2] >> 40) as u32,
            remaining: (words[0] >> 24) as u32 & MAX_TID,
            tid: words[0] as u32 & MAX_TID,
            qp: (words[3] >> 48 & 1 != 0).then_some(qp),
            dst_nid: words[3] as u16,
            slot: (words[1] >> 48) as u16,
            op: Op::from_code((words[0] >> 56) as u8)?,
            status: Status::from_code((words[0] >> 48) as u8)?,
        })
    }

    /// Lines without an answer, sent or not.
    #[inline]
    pub const fn remaining(&self) -> u32 {
        self.remaining
    }

    /// The tid of the transfer.
    #[inline]
    pub const fn tid(&self) -> u32 {
        self.tid
    }

    /// A free entry, whose next transfer will have this tid.
    pub const fn free(tid: u32) -> Self {
        Self {
            buffer: 0,
            base: 0,
            length: 0,
            remaining: 0,
            tid,
            qp: None,
            dst_nid: 0,
            slot: 0,
            op: Op::Nop,
            status: Status::Ok,
        }
    }
}

const _: () = {
    assert!(size_of::<Entry>() <= 40);
    assert!(MAX_ITT_CAPACITY <= NONE as u32 && DEFAULT_ITT_CAPACITY <= MAX_ITT_CAPACITY);
};
