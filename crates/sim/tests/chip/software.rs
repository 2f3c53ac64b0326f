//! Software of a core: it stores WQ entries and loads CQ entries through its L1.

use std::collections::VecDeque;

use rackmem_abi::{CqEntry, Op, WqEntry};
use rackmem_rmc::qp::Cursor;
use rackmem_sim::chip::Chip;
use rackmem_sim::chip::driver::{Access, Asked, Performed};

/// Accesses of software have this number.
pub const SOFTWARE: u64 = u64::MAX;

/// An operation that software wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Operation {
    /// Operation, possibly one that there is not.
    pub op_code: u8,
    pub dst_nid: u16,
    pub offset: u64,
    pub length: u32,
    /// Address of the local buffer.
    pub buffer: u64,
}

/// An operation that has been posted and is not seen to be complete.
#[derive(Clone, Copy, Debug)]
pub struct Posted {
    pub operation: Operation,
    pub since: u64,
}

/// An operation that is complete.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Complete {
    pub operation: Operation,
    pub status_code: u8,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Doing {
    Nothing,
    /// Stores the second word of an entry; the first one, which publishes it, comes then.
    Prepares(u64),
    Publishes,
    Looks,
}

/// Software on a core.
pub struct Software {
    tile: u16,
    entries: u32,
    wq: Cursor,
    cq: Cursor,
    doing: Doing,
    /// Operations to be posted, in this order.
    pub plan: VecDeque<Operation>,
    /// By slot.
    pub posted: Vec<Option<Posted>>,
    /// In the order in which it was seen.
    pub complete: Vec<Complete>,
}

impl Software {
    pub fn new(tile: u16, entries: u32) -> Software {
        Software {
            tile,
            entries,
            wq: Cursor::START,
            cq: Cursor::START,
            doing: Doing::Nothing,
            plan: VecDeque::new(),
            posted: vec![None; entries as usize],
            complete: Vec::new(),
        }
    }

    /// Whether everything planned is complete.
    pub fn is_done(&self) -> bool {
        self.plan.is_empty() && self.doing == Doing::Nothing && !self.waits()
    }

    fn waits(&self) -> bool {
        self.posted.iter().any(Option::is_some)
    }

    /// Posts an entry if there is one and there is room, or else looks at the CQ.
    pub fn go_on(&mut self, chip: &mut Chip) {
        if self.doing != Doing::Nothing {
            return;
        }
        let slot = self.wq.index as usize;
        if self.posted[slot].is_none()
            && let Some(operation) = self.plan.pop_front()
        {
            self.posted[slot] = Some(Posted { operation, since: chip.wires.now });
            let [first, second] = self.entry(operation).encode();
            self.doing = Doing::Prepares(first);
            self.store(1, second, chip);
        } else if self.waits() {
            self.doing = Doing::Looks;
            let (line, word) = self.place_in_cq(chip);
            self.ask(Asked { id: SOFTWARE, line, word, access: Access::Load }, chip);
        }
    }

    /// One of its accesses has been performed.
    pub fn performed(&mut self, performed: &Performed, chip: &mut Chip) {
        match self.doing {
            Doing::Prepares(first) => {
                self.doing = Doing::Publishes;
                self.store(0, first, chip);
            }
            Doing::Publishes => {
                self.doing = Doing::Nothing;
                self.wq.advance(self.entries);
            }
            Doing::Looks => {
                self.doing = Doing::Nothing;
                let half = self.cq.index % 2 * 32;
                self.look((performed.found[performed.asked.word] >> half) as u32);
            }
            Doing::Nothing => panic!("{performed:?} for nobody"),
        }
    }

    /// A word of the CQ has been loaded.
    fn look(&mut self, word: u32) {
        let entry = CqEntry::decode(word);
        if entry.phase != self.cq.phase {
            return;
        }
        let posted = self.posted.get_mut(usize::from(entry.slot)).and_then(Option::take);
        let posted = posted.unwrap_or_else(|| {
            panic!("core {}: {entry:?} completes what was not posted", self.tile)
        });
        self.cq.advance(self.entries);
        let (operation, status_code) = (posted.operation, entry.status_code);
        self.complete.push(Complete { operation, status_code });
    }

    fn entry(&self, operation: Operation) -> WqEntry {
        let Operation { op_code, dst_nid, offset, length, buffer } = operation;
        WqEntry { phase: self.wq.phase, op_code, dst_nid, offset, length, buffer }
    }

    fn store(&self, half: usize, value: u64, chip: &mut Chip) {
        let line = chip.wires.layout.wq_line(self.tile, self.wq.index);
        let word = self.wq.index as usize % 4 * 2 + half;
        self.ask(Asked { id: SOFTWARE, line, word, access: Access::Store(value) }, chip);
    }

    fn place_in_cq(&self, chip: &Chip) -> (u64, usize) {
        let line = chip.wires.layout.cq_line(self.tile, self.cq.index);
        (line, self.cq.index as usize % 16 / 2)
    }

    fn ask(&self, asked: Asked, chip: &mut Chip) {
        let Chip { tiles, wires, .. } = chip;
        tiles[usize::from(self.tile)].ask(asked, wires);
    }
}

impl Operation {
    pub fn new(op: Op, offset: u64, length: u32, buffer: u64) -> Operation {
        Operation { op_code: op as u8, dst_nid: 1, offset, length, buffer }
    }
}
