//! The request completion pipeline (soNUMA §4.2, Fig. 3b).
//!
//! | state | task | cost |
//! |---|---|---|
//! | fetch | the reply's ITT entry | a memory access |
//! | check | does it answer a line? address in the buffer; the context in the CT$ | a cycle, else a memory access more |
//! | translate | reads and atomics: TLB, else a walk | a cycle, else four memory accesses more |
//! | store | reads and atomics: payload to the local buffer | a memory access |
//! | lock | progress of the transfer, when no other reply is at it | a memory access |
//! | count | one line less; the entry's first word | a cycle, until the MAQ has it |
//! | complete | the last line: CQ entry | a cycle, until the MAQ has it |
//!
//! A line counts when its data are stored, so the CQ entry comes after all of them. Two replies of
//! one transfer change its entry one after the other; the second finds what the first has left in
//! the MAQ, by store-to-load forwarding.

use std::collections::VecDeque;

use rackmem_abi::{Reply, Status};
use rackmem_rmc::itt::Entry;
use rackmem_rmc::rcp;

use super::arbiter::Wait;
use super::common::{Common, Fabric, ITT_ENTRY_BYTES, Lane, Local, Piece, Translated};
use super::maq::{Access, Interface, Response, Source, Tag};
use super::mmu::{Space, Walked};
use super::page::Kind;
use super::slots::{ASLEEP, Slots, Stages};
use super::spec::RmcSpec;
use crate::block::words_at;
use crate::engine::Cycle;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
enum State {
    Fetch,
    Check,
    Context,
    Translate,
    Store,
    Lock,
    Count,
    Taken,
    Complete,
    Written,
}

/// A reply under way, or an answer from within the node.
#[derive(Clone, Debug)]
struct Transaction {
    state: State,
    ready_at: Cycle,
    reply: Option<Reply>,
    tid: u32,
    lines: u32,
    status: Status,
    /// The transfer, once it has been fetched.
    entry: Option<Entry>,
    ctx_id: u16,
    space: Space,
    piece: Piece,
    /// Blocks that are not stored.
    missing: u8,
    /// The transaction looks whether an ITT entry waits for this node, which is lost.
    lost: Option<u16>,
}

#[derive(Clone, Debug)]
pub struct Rcp {
    /// Replies that have come and not been taken.
    pub input: VecDeque<Reply>,
    transactions: Slots<Transaction>,
    /// Transfers whose progress is being counted: one bit for each transaction that does.
    counting: u64,
    /// Whether answers from within the node enter next, before replies.
    local_first: bool,
    /// Nodes that are lost and may be waited for.
    lost: VecDeque<u16>,
    /// The next entry of the ITT to be looked at for the first of them.
    next_entry: u32,
}

impl Rcp {
    pub fn new(spec: &RmcSpec) -> Self {
        Self {
            input: VecDeque::with_capacity(spec.lane_credits as usize),
            transactions: Slots::new(spec.rcp_replies),
            counting: 0,
            local_first: true,
            lost: VecDeque::new(),
            next_entry: 0,
        }
    }

    pub fn step<F: Fabric>(&mut self, now: Cycle, common: &mut Common, fabric: &mut F) {
        self.receive(now, common, fabric);
        let mut stages = Stages::default();
        let mut age = 0;
        while let Some(slot) = self.transactions.at(age) {
            if self.runs(slot, now, common, &mut stages) && self.advance(now, slot, common) {
                self.transactions.remove_at(age);
            } else {
                age += 1;
            }
        }
    }

    pub fn respond(&mut self, now: Cycle, response: &Response, common: &mut Common) {
        let slot = response.tag.slot as u8;
        let Some(transaction) = self.transactions.get_mut(slot) else { return };
        transaction.ready_at = now;
        match transaction.state {
            State::Fetch => {
                transaction.entry = entry_in(common, transaction.tid, response);
                transaction.state = State::Check;
            }
            State::Context => {
                let context = common.context_loaded(transaction.ctx_id, response);
                transaction.space = context.space;
                transaction.state = State::Translate;
            }
            State::Store => {
                transaction.missing -= 1;
                match transaction.missing {
                    0 => transaction.state = State::Lock,
                    _ => transaction.ready_at = ASLEEP,
                }
            }
            State::Lock => {
                transaction.take_progress(common, response);
                transaction.state = State::Count;
                if transaction.entry.is_none() {
                    self.counting &= !(1 << slot);
                    transaction.state = State::Written;
                }
            }
            State::Taken => {
                self.counting &= !(1 << slot);
                transaction.counted(common);
            }
            _ => transaction.state = State::Written,
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
    pub fn next(&self, from: Cycle, common: &Common) -> Option<Cycle> {
        let local = !common.local.is_empty() || !self.lost.is_empty();
        let arrives = !self.input.is_empty() || local;
        if arrives && !self.transactions.is_full() {
            return Some(from);
        }
        let ready = self.transactions.iter().map(|transaction| transaction.ready_at);
        ready.filter(|&at| at != ASLEEP).min().map(|at| at.max(from))
    }

    /// Replies that are not done.
    pub fn under_way(&self) -> usize {
        self.input.len() + self.transactions.len() + self.lost.len()
    }

    /// Looks for entries of the ITT that wait for a node, and completes them.
    pub fn fail_node(&mut self, nid: u16) {
        self.lost.push_back(nid);
    }

    fn receive<F: Fabric>(&mut self, now: Cycle, common: &mut Common, fabric: &mut F) {
        if self.transactions.is_full() {
            return;
        }
        if common.losing == 0
            && let Some(&nid) = self.lost.front()
        {
            self.transactions.put(Transaction::of_entry(self.next_entry, nid, now));
            self.next_entry += 1;
            if self.next_entry == common.tids.capacity() {
                self.next_entry = 0;
                self.lost.pop_front();
            }
            return;
        }
        let has_local = !common.local.is_empty();
        if has_local && (self.local_first || self.input.is_empty()) {
            self.local_first = false;
            if let Some(local) = common.local.pop_front() {
                self.transactions.put(Transaction::of_local(&local, now));
            }
        } else if let Some(reply) = self.input.pop_front() {
            self.local_first = true;
            fabric.taken(Lane::Reply);
            self.transactions.put(Transaction::of_reply(reply, now));
        }
    }

    /// Whether a transaction is ready and its stage free, and nobody counts lines of its transfer.
    fn runs(&self, slot: u8, now: Cycle, common: &Common, stages: &mut Stages) -> bool {
        let Some(transaction) = self.transactions.get(slot) else { return false };
        if transaction.ready_at > now {
            return false;
        }
        if transaction.state == State::Lock {
            let index = |of: &Transaction| common.tids.index_of(of.tid);
            let (mut rest, here) = (self.counting, index(transaction));
            while rest != 0 {
                let other = rest.trailing_zeros() as u8;
                if self.transactions.get(other).is_some_and(|other| index(other) == here) {
                    return false;
                }
                rest &= rest - 1;
            }
        }
        stages.take(transaction.state as u32)
    }

    /// One state; whether the transaction is done.
    fn advance(&mut self, now: Cycle, slot: u8, common: &mut Common) -> bool {
        let Some(transaction) = self.transactions.get_mut(slot) else { return false };
        let tag = Tag { source: Source::Rcp, stage: 0, slot: u16::from(slot) };
        transaction.ready_at = now + 1;
        match transaction.state {
            State::Fetch => transaction.load_entry(now, tag, ITT_ENTRY_BYTES, common),
            State::Check => return transaction.check(now, tag, common),
            State::Context | State::Taken => {}
            State::Translate => transaction.translate(now, common),
            State::Store => transaction.store(now, tag, common),
            State::Lock => {
                self.counting |= 1 << slot;
                // All that changes is in the first word.
                let bytes = if transaction.entry.is_some() { 8 } else { ITT_ENTRY_BYTES };
                transaction.load_entry(now, tag, bytes, common);
            }
            State::Count => transaction.count(now, tag, common),
            State::Complete => return transaction.complete(now, tag, common),
            State::Written => return true,
        }
        false
    }
}

impl Transaction {
    /// One that has not begun with anything.
    fn new(state: State, now: Cycle) -> Transaction {
        Transaction {
            state,
            ready_at: now,
            reply: None,
            tid: 0,
            lines: 0,
            status: Status::Ok,
            entry: None,
            ctx_id: 0,
            space: Space::default(),
            piece: Piece::new(0, 0),
            missing: 0,
            lost: None,
        }
    }

    fn of_reply(reply: Reply, now: Cycle) -> Transaction {
        let (tid, status, reply) = (reply.header.tid, reply.status, Some(reply));
        Transaction { tid, status, reply, lines: 1, ..Transaction::new(State::Fetch, now) }
    }

    /// Looks at an entry of the ITT.
    fn of_entry(index: u32, nid: u16, now: Cycle) -> Transaction {
        let status = Status::NodeLost;
        let nothing = Local::Answer { tid: index, lines: 0, status };
        Transaction { lost: Some(nid), ..Transaction::of_local(&nothing, now) }
    }

    fn of_local(local: &Local, now: Cycle) -> Transaction {
        let blank = Transaction::new(State::Lock, now);
        match *local {
            Local::Answer { tid, lines, status } => Transaction { tid, lines, status, ..blank },
            Local::Complete { qp, slot, status } => {
                // It never had an ITT entry; what the completion needs is made up.
                let work = rackmem_rmc::Work {
                    op: rackmem_abi::Op::Nop,
                    dst_nid: 0,
                    offset: 0,
                    length: 0,
                    buffer: 0,
                };
                let mut entry = Entry::new(qp, slot, &work, 1, 0);
                entry.answer(1, status);
                Transaction { state: State::Complete, entry: Some(entry), ..blank }
            }
        }
    }

    fn load_entry(&mut self, now: Cycle, tag: Tag, bytes: u64, common: &mut Common) {
        let address = common.itt_address(self.tid);
        let access = Access::load(address, bytes as usize, Interface::Word);
        common.arbiters.ask(now, access, tag, Wait::Done);
        self.ready_at = ASLEEP;
    }

    /// Stages 1 and 3: whether the reply answers a line, and where its bytes go.
    fn check(&mut self, now: Cycle, tag: Tag, common: &mut Common) -> bool {
        let Some(reply) = &self.reply else { return true };
        let answers = |entry: &&Entry| {
            entry.is_of(self.tid) && rcp::answers(&reply.header, reply.status, common.nid, entry)
        };
        let Some(entry) = self.entry.as_ref().filter(answers) else {
            common.stats.stale_replies += 1;
            return true;
        };
        let bytes = reply.payload_bytes();
        let queue = entry.qp.and_then(|qp| common.queues.get(qp));
        // Nobody's buffer is touched for a queue pair that is gone.
        let (Some(queue), 1..) = (queue, bytes) else {
            self.state = State::Lock;
            return false;
        };
        self.ctx_id = queue.config().ctx_id;
        self.piece = Piece::new(rcp::target(&reply.header, entry), bytes);
        match common.context(now, self.ctx_id, tag) {
            Some(context) => {
                self.space = context.space;
                self.state = State::Translate;
            }
            None => {
                self.state = State::Context;
                self.ready_at = ASLEEP;
            }
        }
        false
    }

    fn translate(&mut self, now: Cycle, common: &mut Common) {
        let translated = match self.space.root {
            0 => Translated::Fault,
            _ => self.piece.translate(now, self.space, Kind::Store, common),
        };
        match translated {
            Translated::All => self.state = State::Store,
            Translated::More => {}
            Translated::Walking => self.ready_at = ASLEEP,
            Translated::Fault => {
                self.status = Status::BadLocalBuffer;
                self.state = State::Lock;
            }
        }
    }

    fn store(&mut self, now: Cycle, tag: Tag, common: &mut Common) {
        let Some(reply) = &self.reply else { return };
        self.missing = self.piece.parts();
        for part in 0..self.missing {
            let (address, range) = self.piece.part(part);
            let bytes = range.len();
            let data = words_at(address as usize % 64, &reply.payload[range]);
            let access = Access::store(address, bytes, data, Interface::Line);
            common.arbiters.ask(now, access, tag, Wait::Done);
        }
        self.ready_at = ASLEEP;
    }

    /// Stage 2: reads the number of lines that the transfer still waits for. None if its node was lost
    /// meanwhile, or if the entry does not wait for the lost node that this is about.
    fn take_progress(&mut self, common: &mut Common, response: &Response) {
        let now = match &self.entry {
            None => entry_in(common, self.tid, response),
            Some(entry) => {
                let address = common.itt_address(self.tid);
                let mut words = entry.words();
                words[0] = response.words[(address % 64 / 8) as usize];
                Entry::from_words(words)
            }
        };
        if let Some(nid) = self.lost {
            self.entry = now.filter(|entry| entry.remaining() > 0 && entry.dst_nid == nid);
            if let Some(entry) = &mut self.entry {
                (self.tid, self.lines) = (entry.tid(), entry.remaining());
                entry.status = Status::NodeLost;
            }
        } else {
            self.entry = now.filter(|entry| entry.is_of(self.tid));
            common.stats.stale_replies += u64::from(self.entry.is_none());
        }
    }

    /// Stage 2: these lines are answered.
    fn count(&mut self, now: Cycle, tag: Tag, common: &mut Common) {
        let Some(entry) = &mut self.entry else { return };
        let word = match entry.answer(self.lines, self.status) {
            true => Entry::free(common.tids.after(self.tid)).words()[0],
            false => entry.words()[0],
        };
        let address = common.itt_address(self.tid);
        self.state = State::Taken;
        self.store_word(now, address, &word.to_le_bytes(), tag, common);
    }

    /// The MAQ has the new count: others may go on from it.
    fn counted(&mut self, common: &mut Common) {
        common.stats.replies += u64::from(self.reply.is_some());
        let is_last = self.entry.is_none_or(|entry| entry.remaining() == 0);
        if is_last {
            common.tids.give_back(common.tids.after(self.tid));
        }
        self.state = if is_last { State::Complete } else { State::Written };
    }

    /// Stages 4 and 5: the CQ entry. Whether there is nobody to complete for.
    fn complete(&mut self, now: Cycle, tag: Tag, common: &mut Common) -> bool {
        let Some(entry) = &self.entry else { return true };
        let Entry { slot, status, length, .. } = *entry;
        let Some(qp) = entry.qp else { return true };
        let Some((address, word)) = common.queues.complete(qp, slot, status, length) else {
            return true;
        };
        common.stats.completed += 1;
        common.stats.errors += u64::from(status != Status::Ok);
        self.store_word(now, address, &word.to_le_bytes(), tag, common);
        false
    }

    /// Stores a word of a table or a queue, and waits until the MAQ has it.
    fn store_word(&mut self, now: Cycle, at: u64, word: &[u8], tag: Tag, common: &mut Common) {
        let data = words_at(at as usize % 64, word);
        let access = Access::store(at, word.len(), data, Interface::Word);
        common.arbiters.ask(now, access, tag, Wait::Taken);
        self.ready_at = ASLEEP;
    }
}

/// The ITT entry of a tid in the block that has it.
fn entry_in(common: &Common, tid: u32, response: &Response) -> Option<Entry> {
    let word = (common.itt_address(tid) % 64 / 8) as usize;
    let words = response.words[word..word + 4].try_into().ok()?;
    Entry::from_words(words)
}
