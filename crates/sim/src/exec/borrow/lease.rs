//! Leases of memory between operating systems while programs run (DEOI §III): a block of the window and a slot of the
//! address mapping table are reserved, other nodes are asked out of band, one after the other, and the answer of the
//! first that has enough fills the slot. A lease lasts as long as the run: the paper has no return.

use std::ops::Range;

use rackmem_rmc::amt::{Amt, Refused, SlotId, Target};
use serde::{Deserialize, Serialize};

use crate::engine::Cycle;
use crate::exec::checkpoint::{Checked, countable, require};

/// A message between operating systems, out of band. It travels as long as a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Message {
    /// The sender wants so many bytes for a slot of its table.
    Ask { slot: SlotId, bytes: u64, purpose: Purpose },
    /// The memory for a slot begins at this physical address of the sender.
    Granted { slot: SlotId, base: u64 },
    /// The sender has not as much for a slot.
    Refused { slot: SlotId },
}

/// The use of borrowed memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A program maps it. The lender's own program may see it, too.
    Mapped,
    /// The operating system gives it out as the node's own (DEOI §IV: hot plug): it has one user.
    Plugged,
}

/// The memory that a node lends.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Pool {
    /// The part that no borrower has.
    free: Range<u64>,
    /// Whether a program of this node sees it.
    is_seen: bool,
    /// Whether an operating system has a part of it for itself.
    is_plugged: bool,
    pub lent_bytes: u64,
}

impl Pool {
    pub const fn new(memory: Range<u64>) -> Pool {
        Pool { free: memory, is_seen: false, is_plugged: false, lent_bytes: 0 }
    }

    /// Checks what was read, of a node that lends this.
    pub fn check(&self, memory: Range<u64>) -> Checked {
        let Pool { free, lent_bytes, .. } = self;
        let is_part = free.end == memory.end && (memory.start..=memory.end).contains(&free.start);
        require(is_part && *lent_bytes == free.start - memory.start, || {
            format!("{lent_bytes} bytes of {memory:#x?} are lent, and {free:#x?} is not")
        })
    }

    /// The address of so many bytes that the borrower has from now on.
    pub fn lend(&mut self, bytes: u64, purpose: Purpose) -> Option<u64> {
        let is_plugged = purpose == Purpose::Plugged;
        if bytes > self.free.end - self.free.start || is_plugged && self.is_seen {
            return None;
        }
        let base = self.free.start;
        self.free.start += bytes;
        self.lent_bytes += bytes;
        self.is_plugged |= is_plugged;
        Some(base)
    }

    /// A program of this node wants to see all of it; `false` if another one's operating system has a part.
    pub fn show(&mut self) -> bool {
        self.is_seen |= !self.is_plugged;
        !self.is_plugged
    }
}

/// Threads that wait for a lender's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// A thread, for memory that it maps, which is told by filling this structure.
    ToMap { thread: usize, out: u64 },
    /// Threads, which make their calls once more when the operating system has more memory.
    ToRetry,
}

/// A borrowing under way.
#[derive(Clone, Debug)]
struct Request {
    slot: SlotId,
    bytes: u64,
    waiting: Waiting,
    /// The lenders to be asked next.
    others: Vec<u16>,
}

/// A borrowing that came about: its block of the window and its lender.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Lease {
    pub block: Range<u64>,
    pub lender: u16,
}

/// How a borrowing ended.
pub type Outcome = (Waiting, Option<Lease>);

/// The borrowings of a node that are under way, and what it tells other nodes.
#[derive(Clone, Debug, Default)]
pub struct Requests {
    under_way: Vec<Request>,
    /// For other nodes: when it leaves, to whom.
    pub outbox: Vec<(Cycle, u16, Message)>,
    pub counts: Counts,
}

/// Borrowings of a run so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    pub asked: u64,
    pub refused: u64,
    pub borrowed_bytes: u64,
}

impl Counts {
    /// Checks what was read.
    pub fn check(&self) -> Checked {
        countable("asked", self.asked)?;
        countable("refused", self.refused)?;
        countable("borrowed_bytes", self.borrowed_bytes)
    }
}

impl Waiting {
    fn purpose(self) -> Purpose {
        match self {
            Waiting::ToMap { .. } => Purpose::Mapped,
            Waiting::ToRetry => Purpose::Plugged,
        }
    }
}

impl Requests {
    /// Reserves a block and a slot, and asks the first of these nodes.
    ///
    /// # Errors
    /// There is no slot, or no block of the window is left.
    pub fn begin(
        &mut self,
        (bytes, align): (u64, u64),
        waiting: Waiting,
        mut lenders: Vec<u16>,
        amt: &mut Amt,
        now: Cycle,
    ) -> Result<(), Refused> {
        let slot = amt.reserve(bytes, align)?;
        amt.ask(slot)?;
        let first = lenders.remove(0);
        self.under_way.push(Request { slot, bytes, waiting, others: lenders });
        self.ask(first, slot, bytes, waiting.purpose(), now);
        Ok(())
    }

    fn ask(&mut self, lender: u16, slot: SlotId, bytes: u64, purpose: Purpose, now: Cycle) {
        self.counts.asked += 1;
        self.outbox.push((now, lender, Message::Ask { slot, bytes, purpose }));
    }

    /// A node has memory for a slot, from this address on.
    pub fn granted(
        &mut self,
        slot: SlotId,
        from: u16,
        base: u64,
        amt: &mut Amt,
    ) -> Option<Outcome> {
        let request = self.take(slot)?;
        amt.grant(slot, Target { destination: from, address: base }).ok()?;
        let start = amt.get(slot)?.base;
        self.counts.borrowed_bytes += request.bytes;
        let lease = Lease { block: start..start + request.bytes, lender: from };
        Some((request.waiting, Some(lease)))
    }

    /// A node has not enough for a slot: the next one is asked.
    pub fn refused(&mut self, slot: SlotId, amt: &mut Amt, now: Cycle) -> Option<Outcome> {
        let mut request = self.take(slot)?;
        if request.others.is_empty() {
            self.counts.refused += 1;
            amt.cancel(slot).ok()?;
            return Some((request.waiting, None));
        }
        let next = request.others.remove(0);
        let Request { bytes, waiting, .. } = request;
        self.under_way.push(request);
        self.ask(next, slot, bytes, waiting.purpose(), now);
        None
    }

    fn take(&mut self, slot: SlotId) -> Option<Request> {
        let at = self.under_way.iter().position(|request| request.slot == slot)?;
        Some(self.under_way.swap_remove(at))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn memory_is_lent_once_and_an_operating_system_shares_it_with_nobody() {
        let mut pool = Pool::new(MIB..3 * MIB);
        assert_eq!(pool.lend(MIB, Purpose::Mapped), Some(MIB));
        assert_eq!(pool.lend(2 * MIB, Purpose::Mapped), None);
        assert!(pool.show());
        assert_eq!(pool.lend(MIB, Purpose::Plugged), None, "a program of the lender sees it");
        assert_eq!(pool.lend(MIB, Purpose::Mapped), Some(2 * MIB));
        assert_eq!((pool.lend(1, Purpose::Mapped), pool.lent_bytes), (None, 2 * MIB));
        let mut pool = Pool::new(0..MIB);
        assert_eq!(pool.lend(MIB, Purpose::Plugged), Some(0));
        assert!(!pool.show());
    }

    /// The slot and the lender of the latest message of these requests.
    fn asked(requests: &Requests) -> (SlotId, u16) {
        match requests.outbox.last() {
            Some(&(_, lender, Message::Ask { slot, .. })) => (slot, lender),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn lenders_are_asked_in_turn_and_late_answers_change_nothing() {
        let mut amt = Amt::new(2, 16 * MIB, 8 * MIB);
        let mut requests = Requests::default();
        let waiting = Waiting::ToRetry;
        requests.begin((MIB, 4096), waiting, vec![1, 2], &mut amt, 10).expect("a free slot");
        let (slot, first) = asked(&requests);
        assert_eq!((first, requests.refused(slot, &mut amt, 20)), (1, None));
        assert_eq!(asked(&requests), (slot, 2));
        assert!(amt.lookup(16 * MIB, 64).is_err(), "nobody has answered");
        let lease = Lease { block: 16 * MIB..17 * MIB, lender: 2 };
        assert_eq!(requests.granted(slot, 2, 5 * MIB, &mut amt), Some((waiting, Some(lease))));
        let target = Target { destination: 2, address: 5 * MIB + 64 };
        assert_eq!(amt.lookup(16 * MIB + 64, 64), Ok(target));
        assert_eq!(requests.granted(slot, 1, 0, &mut amt), None);
        assert_eq!(requests.refused(slot, &mut amt, 30), None);
        assert_eq!(amt.lookup(16 * MIB + 64, 64), Ok(target));

        requests.begin((MIB, 4096), waiting, vec![2], &mut amt, 40).expect("a free slot");
        let (second, _) = asked(&requests);
        assert_eq!(requests.begin((MIB, 1), waiting, vec![1], &mut amt, 40), Err(Refused::NoSlot));
        assert_eq!(requests.refused(second, &mut amt, 50), Some((waiting, None)));
        assert_eq!(amt.get(second), None, "its slot is free again");
        assert_eq!(requests.counts, Counts { asked: 3, refused: 1, borrowed_bytes: MIB });
    }
}
