//! State that the three pipelines share (soNUMA §4.3, Fig. 3a).

use std::collections::VecDeque;

use rackmem_abi::{LINE_BYTES, Packet, Status};
use rackmem_rmc::QpId;

use super::arbiter::{Arbiters, Wait};
use super::ct::{CT_ENTRY_BYTES, Context, CtCache};
use super::maq::{Access, Interface, Response, Tag};
use super::mmu::{Lookup, Mmu, Space, Walked};
use super::page::{Fault, Kind, Mapping};
use super::queues::Queues;
use super::spec::RmcSpec;
use crate::block::BLOCK_BYTES;
use crate::engine::Cycle;

/// Size of an entry of the ITT; [`rackmem_rmc::itt::Entry::words`] is its layout.
pub const ITT_ENTRY_BYTES: u64 = 32;

/// Answers from within the node that wait for the RCP.
const LOCAL_ANSWERS: usize = 4;

/// A virtual lane of the fabric (soNUMA §6, link layer).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lane {
    /// Requests: from RGP to RRPP.
    Request,
    /// Replies: from RRPP to RCP.
    Reply,
}

impl Lane {
    /// The lane on which a packet travels.
    pub const fn of(packet: &Packet) -> Lane {
        match packet {
            Packet::Request(_) => Lane::Request,
            Packet::Reply(_) => Lane::Reply,
        }
    }
}

/// The fabric interface: a queue of packets for each lane and direction.
pub trait Fabric {
    /// Whether a node takes part. Packets to one that does not vanish.
    fn is_up(&self, nid: u16) -> bool;

    /// Takes a packet. The RMC has a credit for it, which comes back by
    /// [`Rmc::credit`](super::Rmc::credit) when the interface has room again.
    fn send(&mut self, packet: Packet);

    /// The RMC has taken a packet that came by [`Rmc::deliver`](super::Rmc::deliver): there is
    /// room for one more on this lane.
    fn taken(&mut self, lane: Lane);
}

/// Base registers, which the driver sets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Registers {
    /// Physical address of the context table.
    pub ct_base: u64,
    /// Entries of the context table.
    pub ct_entries: u16,
    /// Physical address of the inflight transaction table.
    pub itt_base: u64,
}

/// Work of the RCP that no reply brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Local {
    /// Lines of a transfer that were never sent.
    Answer {
        /// Names the transfer's entry of the ITT.
        tid: u32,
        /// Lines that count as answered.
        lines: u32,
        /// `BadLocalBuffer` or `NodeLost`; an earlier error of the transfer stays.
        status: Status,
    },
    /// A work queue entry that was never begun.
    Complete {
        /// Queue pair of the entry.
        qp: QpId,
        /// Index of the entry in its WQ.
        slot: u16,
        /// The check that failed, or `NodeLost`.
        status: Status,
    },
}

/// Counters of an RMC.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RmcStats {
    /// Requests sent (RGP).
    pub requests: u64,
    /// Requests answered (RRPP).
    pub served: u64,
    /// Answers with an error (RRPP).
    pub refused: u64,
    /// Requests of lost nodes, which were not done (RRPP).
    pub dropped: u64,
    /// Reads of memory for requests (RRPP), through its caches.
    pub memory_reads: u64,
    /// Cycles of these reads together, each from the access to its data.
    pub memory_read_cycles: u64,
    /// Notifications received for this node (RRPP).
    pub notified: u64,
    /// Replies that answered a line (RCP).
    pub replies: u64,
    /// Replies to nothing that is under way (RCP).
    pub stale_replies: u64,
    /// Work queue entries completed.
    pub completed: u64,
    /// Those that ended with an error.
    pub errors: u64,
    /// Cycles in which a work queue entry waited for a free entry of the ITT.
    pub itt_stall_cycles: u64,
    /// Cycles in which a request was ready and had no credit.
    pub request_stall_cycles: u64,
    /// Cycles in which a reply was ready and had no credit.
    pub reply_stall_cycles: u64,
}

/// The parts that all pipelines use.
#[derive(Clone, Debug)]
pub struct Common {
    /// Number of the node.
    pub nid: u16,
    /// Base registers.
    pub registers: Registers,
    /// On the way to the MAQ.
    pub arbiters: Arbiters,
    /// MMU with TLB and page walker (soNUMA §4.3).
    pub mmu: Mmu,
    /// The context table cache (CT$, soNUMA §4.3).
    pub contexts: CtCache,
    /// Queue pairs, and entries that have been found in them.
    pub queues: Queues,
    /// Free entries of the ITT.
    pub tids: Tids,
    /// Work for the RCP.
    pub local: VecDeque<Local>,
    /// Packets that may be sent, by lane.
    pub credits: [u32; 2],
    /// Transfers to lost nodes that the RGP has not given up yet.
    pub losing: u32,
    /// Notifications that have come, by context.
    pub notifications: Vec<u64>,
    /// Counters.
    pub stats: RmcStats,
}

impl Common {
    /// The shared parts of node `nid`.
    pub fn new(spec: &RmcSpec, nid: u16, nodes: u16, registers: Registers) -> Common {
        let accesses = spec.rcp_replies.max(spec.rrpp_requests).max(spec.rgp_lines) as usize * 2;
        Common {
            nid,
            registers,
            arbiters: Arbiters::new(
                accesses + spec.queue_pairs as usize + spec.rgp_transfers as usize * 2,
            ),
            mmu: Mmu::new(spec),
            contexts: CtCache::new(spec.ct_cache_entries),
            queues: Queues::new(spec, nodes),
            tids: Tids::new(spec.itt_entries),
            local: VecDeque::with_capacity(LOCAL_ANSWERS),
            credits: [spec.lane_credits; 2],
            losing: 0,
            notifications: vec![0; usize::from(registers.ct_entries)],
            stats: RmcStats::default(),
        }
    }

    /// A context out of the CT$; `None` if its entry has been asked for, for
    /// [`Common::context_loaded`].
    pub fn context(&mut self, now: Cycle, ctx_id: u16, tag: Tag) -> Option<Context> {
        if ctx_id >= self.registers.ct_entries {
            return Some(Context::NONE);
        }
        let context = self.contexts.lookup(ctx_id);
        if context.is_none() {
            let address = self.registers.ct_base + u64::from(ctx_id) * CT_ENTRY_BYTES;
            let access = Access::load(address, BLOCK_BYTES as usize, Interface::Line);
            let tag = Tag { stage: self.contexts.epoch(), ..tag };
            self.arbiters.ask(now, access, tag, Wait::Done);
        }
        context
    }

    /// The CT entry has come from memory.
    pub fn context_loaded(&mut self, ctx_id: u16, response: &Response) -> Context {
        let context = Context::decode(&response.words);
        if response.tag.stage == self.contexts.epoch() {
            self.contexts.fill(ctx_id, context);
        }
        context
    }

    /// Physical address of the entry of the ITT for a tid.
    #[inline]
    pub fn itt_address(&self, tid: u32) -> u64 {
        self.registers.itt_base + u64::from(self.tids.index_of(tid)) * ITT_ENTRY_BYTES
    }

    /// A notification has come for a context that there is.
    pub fn notify(&mut self, ctx_id: u16) {
        self.stats.notified += 1;
        self.notifications[usize::from(ctx_id)] += 1;
    }

    /// Hands work to the RCP; `false` if it has to wait.
    pub fn hand_to_rcp(&mut self, local: Local) -> bool {
        let has_room = self.local.len() < LOCAL_ANSWERS;
        if has_room {
            self.local.push_back(local);
        }
        has_room
    }

    /// Takes a credit of a lane; `false` if there is none.
    #[inline]
    pub fn take_credit(&mut self, lane: Lane) -> bool {
        let credits = &mut self.credits[lane as usize];
        let has_one = *credits > 0;
        *credits -= u32::from(has_one);
        has_one
    }
}

/// The tids of free ITT entries, first in, first out, as in [`rackmem_rmc::Itt`].
#[derive(Clone, Debug)]
pub struct Tids {
    free: VecDeque<u32>,
    capacity: u32,
}

impl Tids {
    fn new(capacity: u32) -> Tids {
        Tids { free: (0..capacity).collect(), capacity }
    }

    /// Takes the entry that has been free for longest.
    pub fn take(&mut self) -> Option<u32> {
        self.free.pop_front()
    }

    /// The name (tid) of this tid's entry at its next use.
    pub const fn after(&self, tid: u32) -> u32 {
        tid.wrapping_add(self.capacity) & rackmem_abi::MAX_TID
    }

    /// The entry with this tid is free.
    pub fn give_back(&mut self, tid: u32) {
        self.free.push_back(tid);
    }

    /// Index of the entry.
    pub const fn index_of(&self, tid: u32) -> u32 {
        tid & (self.capacity - 1)
    }

    /// Entries, free or not.
    pub const fn capacity(&self) -> u32 {
        self.capacity
    }

    /// Entries in use.
    pub fn in_use(&self) -> u32 {
        self.capacity - self.free.len() as u32
    }
}

/// A piece of a local buffer, at most a line long, and how far its translation is. It lies in one
/// block or two, and those in one page or two.
#[derive(Clone, Copy, Debug)]
pub struct Piece {
    virt: u64,
    bytes: u8,
    phys: [u64; 2],
    translated: u8,
    walk: Option<u8>,
    found: Option<Result<Mapping, Fault>>,
}

/// The result of a stage marked T.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Translated {
    /// All physical addresses are known.
    All,
    /// The next page's turn.
    More,
    /// A walk is under way.
    Walking,
    /// There is no such memory.
    Fault,
}

impl Piece {
    /// `bytes` bytes at a virtual address.
    ///
    /// # Panics
    /// In debug builds, if that is more than a line.
    pub fn new(virt: u64, bytes: usize) -> Piece {
        debug_assert!(bytes <= LINE_BYTES);
        let bytes = bytes as u8;
        Piece { virt, bytes, phys: [0; 2], translated: 0, walk: None, found: None }
    }

    /// Number of blocks it lies in: 1 or 2.
    pub fn parts(&self) -> u8 {
        1 + u8::from(self.virt % BLOCK_BYTES + u64::from(self.bytes) > BLOCK_BYTES)
    }

    /// Physical address of a part, and which bytes of the piece it has.
    pub fn part(&self, part: u8) -> (u64, std::ops::Range<usize>) {
        let first = (BLOCK_BYTES - self.virt % BLOCK_BYTES).min(u64::from(self.bytes)) as usize;
        match part {
            0 => (self.phys[0], 0..first),
            _ => (self.phys[1], first..usize::from(self.bytes)),
        }
    }

    /// Translates the next page.
    pub fn translate(
        &mut self,
        now: Cycle,
        space: Space,
        kind: Kind,
        common: &mut Common,
    ) -> Translated {
        let virt = match self.translated {
            0 => self.virt,
            _ => (self.virt | (BLOCK_BYTES - 1)) + 1,
        };
        let phys = match self.found.take() {
            Some(found) => found.and_then(|mapping| mapping.translate(virt, kind)),
            None => match common.mmu.translate(now, space, virt, kind, &mut common.arbiters) {
                Lookup::Known(phys) => phys,
                Lookup::Walking(walk) => {
                    self.walk = Some(walk);
                    return Translated::Walking;
                }
                Lookup::Busy => return Translated::More,
            },
        };
        let Ok(phys) = phys else { return Translated::Fault };
        self.phys[usize::from(self.translated)] = phys;
        self.translated += 1;
        if self.translated < self.parts() {
            let next = (virt | (BLOCK_BYTES - 1)) + 1;
            // No page is smaller; the second block of a page needs no lookup.
            if next % 4096 != 0 {
                self.phys[1] = (phys | (BLOCK_BYTES - 1)) + 1;
                self.translated += 1;
            }
        }
        if self.translated >= self.parts() { Translated::All } else { Translated::More }
    }

    /// A walk has ended; whether the piece waited for it.
    #[inline]
    pub fn walked(&mut self, walked: &Walked) -> bool {
        let waited = self.walk == Some(walked.walk);
        if waited {
            self.walk = None;
            self.found = Some(walked.found);
        }
        waited
    }
}

#[cfg(test)]
mod tests {
    use rackmem_abi::{MAX_LENGTH, MAX_OFFSET, MAX_TID, Op};
    use rackmem_rmc::itt::Entry;
    use rackmem_rmc::{Unroll, Work};

    use super::*;
    use crate::engine::Random;

    /// The RCP reads the same entry out of memory that the RGP has put there.
    #[test]
    fn itt_entries_round_trip() {
        let mut random = Random::new(1, 0);
        for _ in 0..10_000 {
            let mut below = |n: u64| random.below(n);
            let work = Work {
                op: Op::ALL[below(6) as usize],
                dst_nid: below(4096) as u16,
                offset: below(MAX_OFFSET + 1),
                length: below(u64::from(MAX_LENGTH) + 1) as u32,
                buffer: below(1 << 48),
            };
            let qp = QpId::new(below(4096) as u16, below(1 << 16) as u16);
            let tid = below(u64::from(MAX_TID) + 1) as u32;
            let lines = Unroll::new(&work, LINE_BYTES).pieces();
            let mut entry = Entry::new(qp, below(128) as u16, &work, lines, tid);
            assert_eq!(Entry::from_words(entry.words()), Some(entry));
            let before = entry.words();
            entry.answer(1 + below(u64::from(lines)) as u32, Status::ALL[below(9) as usize]);
            assert_eq!(Entry::from_words(entry.words()), Some(entry));
            assert_eq!(entry.words()[1..], before[1..], "an answer changes the first word only");
            assert_eq!(Entry::from_words(Entry::free(tid).words()), Some(Entry::free(tid)));
        }
        assert_eq!(Entry::from_words([u64::MAX; 4]), None);
    }

    /// A piece of a buffer lies in as many blocks as its bytes say, and they make it up.
    #[test]
    fn pieces_are_made_of_their_parts() {
        for offset in 0..64 {
            for bytes in 1..=64 {
                let piece = Piece::new(0x1000 + offset, bytes);
                let parts: Vec<_> = (0..piece.parts()).map(|part| piece.part(part).1).collect();
                assert_eq!(parts.iter().map(|range| range.len()).sum::<usize>(), bytes);
                assert!(parts.iter().all(|range| !range.is_empty()));
                assert_eq!(parts.len() as u64, (offset + bytes as u64).div_ceil(64));
            }
        }
    }
}
