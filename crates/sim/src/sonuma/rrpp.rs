//! The remote request processing pipeline (soNUMA §4.2, Fig. 3b). It keeps nothing of a request but
//! what is under way.
//!
//! | state | task | cost |
//! |---|---|---|
//! | decode | header, node | a cycle |
//! | context | CT$, else the CT | a cycle, else a memory access |
//! | address | bounds, segment base + offset | a cycle |
//! | translate | TLB, else a walk | a cycle, else four memory accesses more |
//! | access | read, write or atomic in the local hierarchy | a memory access |
//! | reply | header turned round | a cycle |
//! | send | reply lane | a cycle, and until there is a credit |

use std::collections::VecDeque;

use rackmem_abi::{Header, LINE_BYTES, Op, Packet, Reply, Request, Status};
use rackmem_rmc::rrpp;

use super::arbiter::Wait;
use super::common::{Common, Fabric, Lane, Piece, Translated};
use super::ct::Context;
use super::maq::{Access, Action, Interface, Response, Source, Tag};
use super::mmu::{Space, Walked};
use super::page::Kind;
use super::slots::{ASLEEP, Slots, Stages};
use super::spec::RmcSpec;
use crate::block::{Words, bytes_of, words_at};
use crate::engine::Cycle;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum State {
    Decode,
    Context,
    Address,
    Translate,
    Access,
    Reply,
    Send,
}

/// A request under way.
#[derive(Clone, Debug)]
struct Transaction {
    state: State,
    ready_at: Cycle,
    request: Request,
    context: Context,
    piece: Piece,
    /// Cycle in which memory was asked.
    asked_at: Cycle,
    reply: Reply,
    status: Status,
}

#[derive(Clone, Debug)]
pub struct Rrpp {
    /// Requests that have come and not been taken.
    pub input: VecDeque<Request>,
    transactions: Slots<Transaction>,
}

impl Rrpp {
    pub fn new(spec: &RmcSpec) -> Self {
        Self {
            input: VecDeque::with_capacity(spec.lane_credits as usize),
            transactions: Slots::new(spec.rrpp_requests),
        }
    }

    pub fn step<F: Fabric>(&mut self, now: Cycle, common: &mut Common, fabric: &mut F) {
        self.receive(now, common, fabric);
        let mut stages = Stages::default();
        let mut age = 0;
        while let Some(slot) = self.transactions.at(age) {
            let Some(transaction) = self.transactions.get_mut(slot) else { break };
            let runs = transaction.ready_at <= now && stages.take(transaction.state as u32);
            if runs && transaction.advance(now, slot, common, fabric) {
                self.transactions.remove_at(age);
            } else {
                age += 1;
            }
        }
    }

    pub fn respond(&mut self, now: Cycle, response: &Response, common: &mut Common) {
        let Some(transaction) = self.transactions.get_mut(response.tag.slot as u8) else { return };
        transaction.ready_at = now;
        match transaction.state {
            State::Context => {
                let ctx_id = transaction.request.header.ctx_id;
                transaction.context = common.context_loaded(ctx_id, response);
                transaction.state = State::Address;
            }
            _ => {
                if matches!(transaction.request.header.op, Op::Read) {
                    common.stats.memory_reads += 1;
                    common.stats.memory_read_cycles += now - transaction.asked_at;
                }
                transaction.take_result(&response.words);
                transaction.state = State::Reply;
            }
        }
    }

    pub fn walked(&mut self, now: Cycle, walked: &Walked) {
        for transaction in self.transactions.iter_mut() {
            if transaction.piece.walked(walked) {
                transaction.ready_at = now;
            }
        }
    }

    /// The next cycle, not before `from`, with something to do.
    pub fn next(&self, from: Cycle) -> Option<Cycle> {
        if !self.input.is_empty() && !self.transactions.is_full() {
            return Some(from);
        }
        let ready = self.transactions.iter().map(|transaction| transaction.ready_at);
        ready.filter(|&at| at != ASLEEP).min().map(|at| at.max(from))
    }

    /// Requests that are not answered.
    pub fn under_way(&self) -> usize {
        self.input.len() + self.transactions.len()
    }

    fn receive<F: Fabric>(&mut self, now: Cycle, common: &mut Common, fabric: &mut F) {
        if self.transactions.is_full() {
            return;
        }
        if let Some(request) = self.input.pop_front() {
            fabric.taken(Lane::Request);
            if fabric.is_up(request.header.src_nid) {
                self.transactions.put(Transaction::new(request, now));
            } else {
                common.stats.dropped += 1;
            }
        }
    }
}

impl Transaction {
    fn new(request: Request, now: Cycle) -> Transaction {
        Transaction {
            state: State::Decode,
            ready_at: now,
            request,
            context: Context::NONE,
            piece: Piece::new(0, 0),
            asked_at: now,
            reply: rrpp::reply(&request.header, Status::Ok),
            status: Status::Ok,
        }
    }

    /// One state; whether the reply has left.
    fn advance<F: Fabric>(
        &mut self,
        now: Cycle,
        slot: u8,
        common: &mut Common,
        fabric: &mut F,
    ) -> bool {
        self.ready_at = now + 1;
        let tag = Tag { source: Source::Rrpp, stage: 0, slot: u16::from(slot) };
        match self.state {
            State::Decode => match rrpp::decode(&self.request.header, common.nid, LINE_BYTES) {
                Ok(()) => self.state = State::Context,
                Err(status) => self.refuse(status),
            },
            State::Context => match common.context(now, self.request.header.ctx_id, tag) {
                Some(context) => {
                    self.context = context;
                    self.state = State::Address;
                }
                None => self.ready_at = ASLEEP,
            },
            State::Address => match self.address() {
                Ok(()) if matches!(self.request.header.op, Op::Notify) => {
                    common.notify(self.request.header.ctx_id);
                    self.state = State::Reply;
                }
                Ok(()) if self.request.header.length == 0 => self.state = State::Reply,
                Ok(()) => self.state = State::Translate,
                Err(status) => self.refuse(status),
            },
            State::Translate => self.translate(now, common),
            State::Access => {
                let (address, _) = self.piece.part(0);
                self.asked_at = now;
                common.arbiters.ask(now, access(&self.request, address), tag, Wait::Done);
                self.ready_at = ASLEEP;
            }
            State::Reply => {
                let payload = self.reply.payload;
                self.reply = rrpp::reply(&self.request.header, self.status);
                self.reply.payload = payload;
                self.state = State::Send;
            }
            State::Send => return self.send(common, fabric),
        }
        false
    }

    /// Stage 3: whether the segment has the range, and where it is.
    fn address(&mut self) -> Result<(), Status> {
        let Header { offset, length, .. } = self.request.header;
        let segment = self.context.segment?;
        segment.bounds.check(offset, u64::from(length))?;
        // Segments begin at a line, so that a line of the segment is a block of memory.
        self.piece = Piece::new(segment.base + offset, usize::from(length));
        Ok(())
    }

    fn translate(&mut self, now: Cycle, common: &mut Common) {
        let kind = if self.request.header.op.modifies() { Kind::Store } else { Kind::Load };
        let space: Space = self.context.space;
        match self.piece.translate(now, space, kind, common) {
            Translated::All => self.state = State::Access,
            Translated::More => {}
            Translated::Walking => self.ready_at = ASLEEP,
            // The driver pins what it registers; what it has not mapped is outside.
            Translated::Fault => self.refuse(Status::OutOfSegment),
        }
    }

    fn refuse(&mut self, status: Status) {
        self.status = status;
        self.state = State::Reply;
    }

    /// Stage 5: the bytes for the reply.
    fn take_result(&mut self, words: &Words) {
        let Header { op, offset, length, .. } = self.request.header;
        let bytes = op.result_bytes(usize::from(length));
        let from = offset as usize % 64;
        self.reply.payload[..bytes].copy_from_slice(&bytes_of(words)[from..from + bytes]);
    }

    fn send<F: Fabric>(&mut self, common: &mut Common, fabric: &mut F) -> bool {
        // Nobody waits for the reply to a lost node.
        if fabric.is_up(self.reply.header.dst_nid) {
            if !common.take_credit(Lane::Reply) {
                common.stats.reply_stall_cycles += 1;
                return false;
            }
            fabric.send(Packet::Reply(self.reply));
        }
        common.stats.served += 1;
        common.stats.refused += u64::from(self.status != Status::Ok);
        true
    }
}

/// Stage 5: the change of the block at its physical address that a checked request makes.
fn access(request: &Request, address: u64) -> Access {
    let Header { op, length, .. } = request.header;
    let length = usize::from(length);
    let payload = &request.payload;
    let operands = || [rrpp::operand(payload, 0), rrpp::operand(payload, 1)];
    match op {
        Op::Write => {
            let data = words_at(address as usize % 64, &payload[..length]);
            Access::store(address, length, data, Interface::Line)
        }
        Op::FetchAdd => Access::atomic(address, Action::FetchAdd, operands()),
        Op::CompareSwap => Access::atomic(address, Action::CompareSwap, operands()),
        Op::Read | Op::Nop | Op::Notify => Access::load(address, length, Interface::Line),
    }
}
