//! The request generation pipeline behind the polls of [`queues`](super::queues) (soNUMA §4.2,
//! Fig. 3b).
//!
//! | state | task | cost |
//! |---|---|---|
//! | begin | tid, ITT entry; the context's address space | a cycle, until the MAQ has the entry |
//! | unroll | the next line | a cycle |
//! | translate | writes and atomics: TLB, else a walk | a cycle, else four memory accesses more |
//! | load | writes and atomics: the operands | a memory access |
//! | build | header | a cycle |
//! | send | request lane | a cycle, and until there is a credit |

use rackmem_abi::{LINE_BYTES, Packet, Request, Status};
use rackmem_rmc::itt::Entry;
use rackmem_rmc::{QpId, Unroll, Work, rgp};

use super::arbiter::Wait;
use super::common::{Common, Fabric, ITT_ENTRY_BYTES, Lane, Local, Piece, Translated};
use super::maq::{Access, Interface, Response, Source, Tag};
use super::mmu::{Space, Walked};
use super::page::Kind;
use super::queues::{Found, POLL};
use super::slots::{ASLEEP, Slots, Stages};
use super::spec::RmcSpec;
use crate::block::bytes_of;
use crate::engine::Cycle;

/// Slots of transfers in tags: those of lines are smaller.
const TRANSFER: u16 = 1 << 8;
/// The ITT entry of a transfer, in a tag whose slot has this bit too.
const ITT: u16 = 1 << 9;

/// A transfer that is being unrolled.
#[derive(Clone, Debug)]
struct Transfer {
    qp: QpId,
    ctx_id: u16,
    work: Work,
    tid: u32,
    unroll: Unroll,
    /// The MAQ has its ITT entry: a reply may come.
    is_in_itt: bool,
    /// Address space of its local buffer; known from the start if nothing is read from it.
    space: Option<Space>,
    /// Its node is lost: nothing more is sent.
    is_lost: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum State {
    Translate,
    Load,
    Build,
    Send,
    Fail,
}

/// A line on its way.
#[derive(Clone, Debug)]
struct Line {
    state: State,
    ready_at: Cycle,
    request: Request,
    space: Space,
    piece: Piece,
    /// Blocks of operands that have not come.
    missing: u8,
    /// Lines that fail with this one.
    failed: u32,
}

#[derive(Clone, Debug)]
pub struct Rgp {
    transfers: Slots<Transfer>,
    /// The transfer that was unrolled last.
    turn: u8,
    capacity: u8,
    lines: Slots<Line>,
}

impl Rgp {
    pub fn new(spec: &RmcSpec) -> Self {
        Self {
            transfers: Slots::new(spec.rgp_transfers),
            turn: 0,
            capacity: spec.rgp_transfers as u8,
            lines: Slots::new(spec.rgp_lines),
        }
    }

    pub fn step<F: Fabric>(&mut self, now: Cycle, common: &mut Common, fabric: &mut F) {
        let mut stages = Stages::default();
        let mut age = 0;
        while let Some(slot) = self.lines.at(age) {
            let Some(line) = self.lines.get_mut(slot) else { break };
            let runs = line.ready_at <= now && stages.take(line.state as u32);
            if runs && self.advance(now, slot, common, fabric) {
                self.lines.remove_at(age);
            } else {
                age += 1;
            }
        }
        // One line a cycle (Manycore NI §6.1.3).
        self.unroll(now, common);
        self.begin(now, common, fabric);
    }

    /// The MAQ answers a poll, a transfer or a line.
    pub fn respond(&mut self, now: Cycle, response: &Response, common: &mut Common) {
        let slot = response.tag.slot;
        if response.tag.stage == POLL {
            common.queues.respond(now, slot, &response.words);
        } else if slot & TRANSFER == 0 {
            self.operand(now, response);
        } else if let Some(transfer) = self.transfers.get_mut(slot as u8) {
            if slot & ITT != 0 {
                transfer.is_in_itt = true;
            } else {
                transfer.space = Some(common.context_loaded(transfer.ctx_id, response).space);
            }
        }
    }

    pub fn walked(&mut self, now: Cycle, walked: &Walked) {
        for line in self.lines.iter_mut() {
            if line.piece.walked(walked) {
                line.ready_at = now;
            }
        }
    }

    /// The next cycle, not before `from`, with something to do. The queues know of entries that they have
    /// found.
    pub fn next(&self, from: Cycle) -> Option<Cycle> {
        let unrolls = self.transfers.iter().any(Transfer::is_ready) && !self.lines.is_full();
        if unrolls {
            return Some(from);
        }
        let ready = self.lines.iter().map(|line| line.ready_at);
        ready.filter(|&at| at != ASLEEP).min().map(|at| at.max(from))
    }

    /// Gives up the transfers to a lost node. Each goes when nothing of it is under way in the MAQ;
    /// only then is it certain that the ITT has its entry.
    pub fn fail_node(&mut self, nid: u16, common: &mut Common) {
        for transfer in self.transfers.iter_mut() {
            if transfer.work.dst_nid == nid && !transfer.is_lost {
                transfer.is_lost = true;
                common.losing += 1;
            }
        }
    }

    /// Transfers and lines that are not sent.
    pub fn under_way(&self) -> usize {
        self.transfers.len() + self.lines.len()
    }

    /// Begins the oldest entry that has been found: stage 5.
    fn begin<F: Fabric>(&mut self, now: Cycle, common: &mut Common, fabric: &F) {
        let Some(Found { qp, slot, work, .. }) = common.queues.front(now) else { return };
        let Some(state) = common.queues.get(qp) else { return common.queues.pop() };
        let ctx_id = state.config().ctx_id;
        let work = match work {
            Ok(work) if fabric.is_up(work.dst_nid) => work,
            refused => {
                let status = refused.err().unwrap_or(Status::NodeLost);
                if common.hand_to_rcp(Local::Complete { qp, slot, status }) {
                    common.queues.pop();
                }
                return;
            }
        };
        if self.transfers.is_full() {
            return;
        }
        let Some(tid) = common.tids.take() else {
            common.stats.itt_stall_cycles += 1;
            return;
        };
        common.queues.pop();
        let unroll = Unroll::new(&work, LINE_BYTES);
        let entry = Entry::new(qp, slot, &work, unroll.pieces(), tid);
        let transfer = Transfer {
            qp,
            ctx_id,
            work,
            tid,
            unroll,
            is_in_itt: false,
            space: None,
            is_lost: false,
        };
        let Some(place) = self.transfers.put(transfer) else { return };
        self.store_entry(now, place, &entry, common);
        let reads = work.op.operand_bytes(work.length as usize) > 0;
        let tag = Tag { source: Source::Rgp, stage: 0, slot: TRANSFER | u16::from(place) };
        let space = match reads {
            true => common.context(now, ctx_id, tag).map(|context| context.space),
            false => Some(Space::default()),
        };
        if let Some(transfer) = self.transfers.get_mut(place) {
            transfer.space = space;
        }
    }

    fn store_entry(&self, now: Cycle, place: u8, entry: &Entry, common: &mut Common) {
        let address = common.itt_address(entry.tid());
        let mut data = [0; 8];
        let word = (address % 64 / 8) as usize;
        data[word..word + 4].copy_from_slice(&entry.words());
        let access = Access::store(address, ITT_ENTRY_BYTES as usize, data, Interface::Word);
        let slot = TRANSFER | ITT | u16::from(place);
        let tag = Tag { source: Source::Rgp, stage: 0, slot };
        common.arbiters.ask(now, access, tag, Wait::Taken);
    }

    /// Stage 6: the next line of the next transfer.
    fn unroll(&mut self, now: Cycle, common: &mut Common) {
        if self.lines.is_full() {
            return;
        }
        let after = (1..=self.capacity).map(|step| (self.turn + step) % self.capacity);
        let ready = |&slot: &u8| self.transfers.get(slot).is_some_and(Transfer::is_ready);
        let Some(slot) = after.clone().find(ready) else { return };
        self.turn = slot;
        let Some(transfer) = self.transfers.get_mut(slot) else { return };
        if transfer.is_lost {
            return self.remove_transfer(slot, common);
        }
        let (Some(piece), Some(space)) = (transfer.unroll.peek(), transfer.space) else { return };
        let Transfer { work, tid, ctx_id, .. } = transfer;
        let request = rgp::request(work, &piece, common.nid, *ctx_id, *tid);
        let bytes = request.payload_bytes();
        // The memory of a queue pair that is gone is not touched.
        let is_gone = common.queues.get(transfer.qp).is_none();
        let state = match bytes {
            0 => State::Build,
            _ if is_gone || space.root == 0 => State::Fail,
            _ => State::Translate,
        };
        let piece = Piece::new(piece.buffer, bytes);
        let line = Line { state, ready_at: now + 1, request, space, piece, missing: 0, failed: 0 };
        self.lines.put(line);
        transfer.unroll.advance();
        if transfer.unroll.pieces() == 0 {
            self.remove_transfer(slot, common);
        }
    }

    fn remove_transfer(&mut self, slot: u8, common: &mut Common) {
        let transfer = self.transfers.remove(slot);
        common.losing -= u32::from(transfer.is_some_and(|transfer| transfer.is_lost));
    }

    /// One state of a line; whether it has left.
    fn advance<F: Fabric>(
        &mut self,
        now: Cycle,
        slot: u8,
        common: &mut Common,
        fabric: &mut F,
    ) -> bool {
        let Some(line) = self.lines.get_mut(slot) else { return false };
        line.ready_at = now + 1;
        match line.state {
            State::Translate => match line.piece.translate(now, line.space, Kind::Load, common) {
                Translated::All => line.state = State::Load,
                Translated::More => {}
                Translated::Walking => line.ready_at = ASLEEP,
                Translated::Fault => line.state = State::Fail,
            },
            State::Load => line.load(now, slot, common),
            State::Build => line.state = State::Send,
            State::Send => {
                if common.take_credit(Lane::Request) {
                    fabric.send(Packet::Request(line.request));
                    common.stats.requests += 1;
                    return true;
                }
                common.stats.request_stall_cycles += 1;
            }
            State::Fail => return self.fail(slot, common),
        }
        false
    }

    /// A line without its operands: it and the rest of its transfer count as answered.
    fn fail(&mut self, slot: u8, common: &mut Common) -> bool {
        let Some(line) = self.lines.get_mut(slot) else { return false };
        let tid = line.request.header.tid;
        let unsent = |transfer: &Transfer| transfer.tid == tid;
        let transfer =
            (0..self.capacity).find(|&slot| self.transfers.get(slot).is_some_and(unsent));
        if let Some(place) = transfer {
            line.failed += self.transfers.get(place).map_or(0, |transfer| transfer.unroll.pieces());
            self.remove_transfer(place, common);
        }
        let Some(line) = self.lines.get(slot) else { return false };
        let lines = line.failed + 1;
        common.hand_to_rcp(Local::Answer { tid, lines, status: Status::BadLocalBuffer })
    }

    /// A block of operands has come.
    fn operand(&mut self, now: Cycle, response: &Response) {
        let Some(line) = self.lines.get_mut(response.tag.slot as u8) else { return };
        let (address, range) = line.piece.part(response.tag.stage);
        let from = address as usize % 64;
        let bytes = &bytes_of(&response.words)[from..from + range.len()];
        line.request.payload[range].copy_from_slice(bytes);
        line.missing -= 1;
        if line.missing == 0 {
            line.state = State::Build;
            line.ready_at = now;
        }
    }
}

impl Transfer {
    fn is_ready(&self) -> bool {
        self.is_in_itt && self.space.is_some()
    }
}

impl Line {
    /// Stage 7: asks for the operands.
    fn load(&mut self, now: Cycle, slot: u8, common: &mut Common) {
        for part in 0..self.piece.parts() {
            let (address, range) = self.piece.part(part);
            let access = Access::load(address, range.len(), Interface::Line);
            let tag = Tag { source: Source::Rgp, stage: part, slot: u16::from(slot) };
            common.arbiters.ask(now, access, tag, Wait::Done);
        }
        self.missing = self.piece.parts();
        self.ready_at = ASLEEP;
    }
}

const _: () = assert!(super::slots::MAX_SLOTS <= TRANSFER as usize);
