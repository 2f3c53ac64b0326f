//! The backends of RGP and RCP, which move data (Manycore NI §4.1, Fig. 4).

use std::collections::VecDeque;

use arrayvec::ArrayVec;
use rackmem_abi::{LINE_BYTES, Reply, Request as NetRequest, Status};
use rackmem_rmc::itt::Entry;
use rackmem_rmc::{Itt, MAX_ITT_CAPACITY, QpId, Unroll, Work, rcp, rgp};

use super::backends::{pump, unroll};
use super::front::CONTEXT;
use super::image::in_blocks;
use super::layout::{Layout, Part};
use super::message::{NetPacket, Payload, VNET_NETWORK, VNET_REQUEST};
use super::probe::{Mark, ReadId};
use super::wires::Wires;
use crate::block::{BLOCK_BYTES, Block, Line};
use crate::coherence::{Message, Request, Response};
use crate::engine::Cycle;
use crate::figures::Figures;
use crate::machine::Machine;
use crate::machine::spec::{Completion, Placement};
use crate::noc::Sources;

/// A WQ entry on its way into the ITT.
#[derive(Clone, Copy, Debug)]
struct Arrived {
    ready_at: Cycle,
    qp: u16,
    slot: u16,
    work: Work,
}

#[derive(Clone, Copy, Debug)]
struct Transfer {
    work: Work,
    tid: u32,
    unroll: Unroll,
}

/// A request whose operands are being read from the local buffer.
#[derive(Clone, Debug)]
struct Loading {
    request: NetRequest,
    buffer: u64,
    /// Blocks of the operands, in their order.
    lines: ArrayVec<Line, 2>,
    /// Those that have not come.
    missing: ArrayVec<Line, 2>,
}

/// Data on their way to their home, and the transfer that they belong to.
#[derive(Clone, Copy, Debug)]
struct Store {
    ready_at: Cycle,
    line: Line,
    block: Block,
    tid: u32,
    completion: Option<Entry>,
}

/// A transfer all of whose lines have come, but not all acknowledgements of its stores.
#[derive(Clone, Copy, Debug)]
struct Unacknowledged {
    line: Line,
    tid: u32,
}

/// RGP and RCP, or their backends.
#[derive(Clone, Debug)]
pub struct Rmc {
    number: u16,
    nid: u16,
    placement: Placement,
    itt: Itt,
    arrived: VecDeque<Arrived>,
    transfer: Option<Transfer>,
    unrolling: bool,
    loading: Vec<Loading>,
    /// Replies that wait, with the cycle in which the tail of each has come.
    replies: VecDeque<(Reply, Cycle)>,
    stores: VecDeque<Store>,
    completion: Completion,
    unacknowledged: Vec<Unacknowledged>,
    held: Vec<(u32, Entry)>,
    rgp_cycles: u64,
    rcp_cycles: u64,
    interface_cycles: u64,
    per_cycle: u32,
    /// Stores that wait for the port before replies have to wait.
    most_stores: usize,
    /// Requests and stores leave by the same port of a tile.
    shares_port: bool,
    /// A store has left by that port, and no request since.
    stored_last: bool,
    max_lines: u32,
    lines_out: u32,
    requests: u64,
    lines_stored: u64,
}

impl Rmc {
    /// Backend `number` of `engines` on a chip.
    pub fn new(number: u16, engines: u16, nid: u16, machine: &Machine) -> Rmc {
        let pairs = machine.cores().div_ceil(u32::from(engines));
        let capacity = (pairs * machine.ni.wq_entries).next_power_of_two().min(MAX_ITT_CAPACITY);
        let split = machine.ni.placement == Placement::Split;
        let in_tile = machine.ni.placement == Placement::PerTile;
        Rmc {
            number,
            nid,
            placement: machine.ni.placement,
            itt: Itt::new(capacity),
            arrived: VecDeque::new(),
            transfer: None,
            unrolling: false,
            loading: Vec::new(),
            replies: VecDeque::new(),
            stores: VecDeque::new(),
            completion: machine.ni.completion,
            unacknowledged: Vec::new(),
            held: Vec::new(),
            rgp_cycles: u64::from(machine.ni.rgp_backend_cycles),
            rcp_cycles: u64::from(machine.ni.rcp_backend_cycles),
            interface_cycles: if split { u64::from(machine.ni.interface_cycles) } else { 0 },
            per_cycle: machine.ni.unroll_per_cycle,
            most_stores: machine.ni.rcp_stores as usize,
            shares_port: in_tile && machine.noc.sources == Sources::Shared,
            stored_last: false,
            max_lines: match machine.ni.max_outstanding_lines {
                0 => u32::MAX,
                lines => lines,
            },
            lines_out: 0,
            requests: 0,
            lines_stored: 0,
        }
    }

    /// The part that messages for it name.
    pub fn part(&self) -> Part {
        Part::Engine(self.number)
    }

    /// Whether a reply may come in from the network on chip.
    pub fn has_room(&self) -> bool {
        self.stores.len() < self.most_stores && self.replies.is_empty()
    }

    /// The frontend has a WQ entry.
    pub fn accept(&mut self, qp: u16, slot: u16, work: Work, wires: &mut Wires) {
        wires.probe.mark(ReadId { core: qp, slot }, Mark::AtBackend, wires.head_at());
        // The last stage sends; the stages before it take a cycle each.
        let ready_at = wires.done_at(self.rgp_cycles + self.interface_cycles);
        self.arrived.push_back(Arrived { ready_at, qp, slot, work });
        self.unroll_at(ready_at, wires);
    }

    /// Sends the requests of the next lines (Fig. 4a: ITT, unroll, packet).
    pub fn unroll(&mut self, wires: &mut Wires) {
        self.unrolling = false;
        for _ in 0..self.per_cycle {
            if !self.send_line(wires) {
                return;
            }
        }
        if self.transfer.is_some() {
            self.unroll_at(wires.now + 1, wires);
        } else if let Some(next) = self.arrived.front() {
            self.unroll_at(next.ready_at.max(wires.now + 1), wires);
        }
    }

    /// The head of a reply has come to the RCP; its tail has come, or will have, in cycle `tail_at`.
    pub fn reply(&mut self, reply: Reply, tail_at: Cycle, wires: &mut Wires) {
        if let Some(read) = self.read_of(reply.header.tid) {
            wires.probe.mark(read, Mark::AtRcp, wires.head_at());
        }
        if self.has_room() {
            self.take_reply(&reply, wires.head_at(), tail_at, wires);
        } else {
            self.replies.push_back((reply, tail_at));
        }
    }

    /// A home answers: operands for a request, or a store is done.
    pub fn response(&mut self, line: Line, response: Response<Block>, wires: &mut Wires) {
        match response {
            Response::Data { data, .. } => {
                if response.read_needs_unblock() {
                    let message = Message::Response(Response::Unblock(None));
                    wires.ask_home(self.part(), line, message);
                }
                self.operand(line, data, wires);
            }
            Response::Updated(_) => self.acknowledged(line, wires),
            other => panic!("rmc[{}] got {other:?}", self.number),
        }
    }

    /// Stores the next line's data if the port has room; whether there was something to store.
    pub fn store(&mut self, wires: &mut Wires) -> bool {
        match self.stores.front() {
            Some(store) if store.ready_at <= wires.now && !self.would_mix(store) => {}
            _ => return false,
        }
        let may_unroll = self.transfer.is_some() && self.lines_out < self.max_lines;
        if !self.may_send(VNET_REQUEST, self.stored_last && may_unroll, wires) {
            return false;
        }
        let Some(Store { line, block, tid, completion, .. }) = self.stores.pop_front() else {
            return false;
        };
        wires.counts.rcp_lines += 1;
        self.lines_stored += 1;
        self.stored_last = true;
        wires.ask_home(self.part(), line, Message::Request(Request::Update(block.as_update())));
        if self.completion == Completion::Acknowledged {
            self.unacknowledged.push(Unacknowledged { line, tid });
        }
        if let Some(entry) = completion {
            self.finish(tid, entry, wires);
        }
        self.take_replies(wires);
        true
    }

    /// Whether the port has room; the last place of a shared one is for requests and stores in turn.
    fn may_send(&self, vnet: u8, others_turn: bool, wires: &Wires) -> bool {
        let room = wires.room_at_port(self.part(), vnet);
        room > 1 || room == 1 && !(self.shares_port && others_turn)
    }

    /// Whether another transfer waits for the acknowledgement of a store to the same block: it
    /// could not be told from this one's.
    fn would_mix(&self, store: &Store) -> bool {
        let mixes = |other: &Unacknowledged| other.line == store.line && other.tid != store.tid;
        self.unacknowledged.iter().any(mixes)
    }

    pub fn write_stats(&self, stats: &mut Figures) {
        stats.insert(format!("rmc[{}].requests", self.number), self.requests as f64);
        stats.insert(format!("rmc[{}].lines_stored", self.number), self.lines_stored as f64);
    }

    /// The cycle in which a store will want the port, if any will.
    pub fn wants_port(&self) -> Option<Cycle> {
        self.stores.front().map(|store| store.ready_at)
    }

    /// Transfers under way, for the watchdog.
    pub fn in_flight(&self) -> u32 {
        self.itt.in_use()
    }

    /// Number of things that are not done, from work queue entries to acknowledgements.
    pub fn under_way(&self) -> usize {
        let work = self.arrived.len() + usize::from(self.transfer.is_some()) + self.loading.len();
        let done = self.replies.len() + self.stores.len();
        let waits = self.unacknowledged.len() + self.held.len() + self.lines_out as usize;
        work + done + waits + self.itt.in_use() as usize
    }

    /// The operation of a transfer that is under way.
    pub fn read_of(&self, tid: u32) -> Option<ReadId> {
        let entry = self.itt.get(tid)?;
        Some(ReadId { core: entry.qp?.index() as u16, slot: entry.slot })
    }

    fn unroll_at(&mut self, cycle: Cycle, wires: &mut Wires) {
        if !self.unrolling {
            self.unrolling = true;
            wires.wheel.at(cycle, unroll(self.part()));
        }
    }

    /// One line of the current transfer; whether one was sent.
    fn send_line(&mut self, wires: &mut Wires) -> bool {
        let may_store = self.stores.front().is_some_and(|store| store.ready_at <= wires.now);
        if wires.layout.engines_in_tiles()
            && !self.may_send(VNET_NETWORK, !self.stored_last && may_store, wires)
        {
            self.unroll_at(wires.now + 1, wires);
            return false;
        }
        // A line that comes back wakes it.
        if self.lines_out >= self.max_lines || !self.begin(wires) {
            return false;
        }
        let Some(Transfer { work, tid, unroll }) = &mut self.transfer else { return false };
        let Some(piece) = unroll.peek() else { return false };
        let request = rgp::request(work, &piece, self.nid, CONTEXT, *tid);
        let tid = *tid;
        let Some(operands) = lines_of(piece.buffer, request.payload_bytes(), wires) else {
            self.next_piece();
            let finished = self.itt.answer(tid, 1, Status::BadLocalBuffer);
            self.answered(tid, finished, 1, wires);
            return true;
        };
        // Answers name their block only, so what another transfer reads has to come first: it may
        // have been asked for before this transfer's operands were there.
        let mut others = self.loading.iter().filter(|loading| loading.request.header.tid != tid);
        if others.any(|other| operands.iter().any(|line| other.missing.contains(line))) {
            return false;
        }
        self.next_piece();
        self.lines_out += 1;
        self.requests += 1;
        self.stored_last = false;
        match request.payload_bytes() {
            0 => self.transmit(request, wires),
            _ => self.load_operands(request, piece.buffer, operands, wires),
        }
        true
    }

    /// A line of the current transfer is on its way, or never will be.
    fn next_piece(&mut self) {
        let Some(transfer) = &mut self.transfer else { return };
        transfer.unroll.advance();
        if transfer.unroll.pieces() == 0 {
            self.transfer = None;
        }
    }

    /// Whether there is a transfer to unroll, after taking the next one if need be.
    fn begin(&mut self, wires: &mut Wires) -> bool {
        if self.transfer.is_some() {
            return true;
        }
        let Some(&Arrived { ready_at, qp, slot, work }) = self.arrived.front() else {
            return false;
        };
        if ready_at > wires.now {
            self.unroll_at(ready_at, wires);
            return false;
        }
        let unroll = Unroll::new(&work, LINE_BYTES);
        // A full table: the next completion wakes it.
        let Some(tid) = self.itt.alloc(QpId::new(qp, 0), slot, &work, unroll.pieces()) else {
            return false;
        };
        self.arrived.pop_front();
        self.transfer = Some(Transfer { work, tid, unroll });
        true
    }

    fn transmit(&mut self, request: NetRequest, wires: &mut Wires) {
        let packet = NetPacket::request(request, self.number);
        if wires.layout.engines_in_tiles() {
            if let Some(read) = self.read_of(request.header.tid) {
                wires.probe.mark(read, Mark::FrontendDone, wires.now);
            }
            let port = Part::Port(wires.layout.unit_of_tile(self.number));
            wires.send(self.part(), port, Payload::Net(packet));
        } else {
            wires.depart(packet);
        }
    }

    /// Replies that wait for room.
    pub fn waiting_replies(&self) -> usize {
        self.replies.len()
    }

    /// Asks for the blocks in which the operands of a request are.
    fn load_operands(
        &mut self,
        request: NetRequest,
        buffer: u64,
        lines: ArrayVec<Line, 2>,
        wires: &mut Wires,
    ) {
        let missing = lines.clone();
        self.loading.push(Loading { request, buffer, lines: lines.clone(), missing });
        for line in lines {
            wires.ask_home(self.part(), line, Message::Request(Request::ReadOnce));
        }
    }

    /// A block of operands has come.
    fn operand(&mut self, line: Line, data: Block, wires: &mut Wires) {
        let wanted = |loading: &Loading| loading.missing.contains(&line);
        let at = self.loading.iter().position(wanted).expect("operands that were asked for");
        let loading = &mut self.loading[at];
        let bytes = data.to_bytes();
        let blocks = in_blocks(loading.buffer, loading.request.payload_bytes());
        for ((address, range), &of) in blocks.zip(&loading.lines) {
            if of == line {
                let from = (address % BLOCK_BYTES) as usize;
                let part = &bytes[from..from + range.len()];
                loading.request.payload[range].copy_from_slice(part);
            }
        }
        loading.missing.retain(|missing| *missing != line);
        if loading.missing.is_empty() {
            let loading = self.loading.remove(at);
            self.transmit(loading.request, wires);
        }
        // The next transfer may have waited for this.
        if self.transfer.is_some() {
            self.unroll_at(wires.now + 1, wires);
        }
    }

    /// Takes replies as long as their data find room.
    fn take_replies(&mut self, wires: &mut Wires) {
        while self.stores.len() < self.most_stores {
            let Some((reply, tail_at)) = self.replies.pop_front() else { break };
            self.take_reply(&reply, wires.now, tail_at, wires);
        }
    }

    /// RCP backend: ITT, address, store (Fig. 4b). The first three stages need the header alone.
    fn take_reply(&mut self, reply: &Reply, begun_at: Cycle, tail_at: Cycle, wires: &mut Wires) {
        let tid = reply.header.tid;
        let Some(&entry) = self
            .itt
            .get(tid)
            .filter(|entry| rcp::answers(&reply.header, reply.status, self.nid, entry))
        else {
            panic!("rmc[{}] got a reply to nothing: {reply:?}", self.number);
        };
        self.lines_out -= 1;
        let ready_at = (begun_at + self.rcp_cycles).max(tail_at);
        let bytes = reply.payload_bytes();
        let buffer = entry.buffer + (reply.header.offset - entry.base);
        match lines_of(buffer, bytes, wires) {
            Some(lines) if bytes > 0 => {
                let finished = self.itt.answer(tid, 1, reply.status);
                self.store_bytes(ready_at, (buffer, lines), &reply.payload[..bytes], tid, finished);
                wires.wheel.at(ready_at, pump(self.port(&wires.layout)));
            }
            lines => {
                let status = if lines.is_some() { reply.status } else { Status::BadLocalBuffer };
                let finished = self.itt.answer(tid, 1, status);
                self.answered(tid, finished, ready_at - wires.now, wires);
            }
        }
        // Room in the table, or under the limit of lines.
        if self.transfer.is_some() || !self.arrived.is_empty() {
            self.unroll_at(wires.now + 1, wires);
        }
    }

    fn store_bytes(
        &mut self,
        ready_at: Cycle,
        (buffer, lines): (u64, ArrayVec<Line, 2>),
        bytes: &[u8],
        tid: u32,
        finished: Option<Entry>,
    ) {
        for ((address, range), line) in in_blocks(buffer, bytes.len()).zip(lines) {
            let completion = finished.filter(|_| range.end == bytes.len());
            let block = Block::write((address % BLOCK_BYTES) as usize, &bytes[range]);
            self.stores.push_back(Store { ready_at, line, block, tid, completion });
        }
    }

    /// A line that brings no data has been answered; its transfer is over if it is `finished`. Other lines of it may
    /// have brought data.
    fn answered(&mut self, tid: u32, finished: Option<Entry>, delay: u64, wires: &mut Wires) {
        match finished {
            Some(entry) if self.stores_left(tid) => self.held.push((tid, entry)),
            Some(entry) => self.finish_after(delay, entry, wires),
            None => {}
        }
    }

    /// The part whose port to the network on chip the stores take.
    fn port(&self, layout: &Layout) -> Part {
        if layout.engines_in_tiles() { self.part() } else { Part::Port(self.number) }
    }

    fn acknowledged(&mut self, line: Line, wires: &mut Wires) {
        if self.completion == Completion::Posted {
            return;
        }
        let at = self.unacknowledged.iter().position(|store| store.line == line);
        let tid = self.unacknowledged.swap_remove(at.expect("an acknowledged store")).tid;
        if self.stores_left(tid) {
            return;
        }
        if let Some(at) = self.held.iter().position(|&(held, _)| held == tid) {
            let (_, entry) = self.held.swap_remove(at);
            self.finish_after(0, entry, wires);
        }
    }

    /// Whether a transfer has stores that its completion has to wait for.
    fn stores_left(&self, tid: u32) -> bool {
        self.completion == Completion::Acknowledged
            && (self.unacknowledged.iter().any(|store| store.tid == tid)
                || self.stores.iter().any(|store| store.tid == tid))
    }

    /// All lines of a transfer are stored, or sent to their homes.
    fn finish(&mut self, tid: u32, entry: Entry, wires: &mut Wires) {
        match self.completion {
            Completion::Posted => self.finish_after(0, entry, wires),
            Completion::Acknowledged => self.held.push((tid, entry)),
        }
    }

    /// Tells the frontend.
    fn finish_after(&mut self, delay: u64, entry: Entry, wires: &mut Wires) {
        let qp = entry.qp.expect("queue pairs of the model stay").index() as u16;
        let (slot, status) = (entry.slot, entry.status);
        let bytes = if status == Status::Ok { entry.length } else { 0 };
        let payload = Payload::Completion { qp, slot, status, bytes };
        wires.probe.mark(ReadId { core: qp, slot }, Mark::BackendDone, wires.now + delay);
        let front = wires.layout.front_of(qp);
        match self.placement {
            Placement::Split => wires.send_after(delay, self.part(), front, payload),
            _ => wires.hand(delay, front, payload),
        }
    }
}

/// The blocks in which so many bytes of a local buffer are, if they are all there.
fn lines_of(buffer: u64, bytes: usize, wires: &Wires) -> Option<ArrayVec<Line, 2>> {
    in_blocks(buffer, bytes).map(|(address, _)| wires.local_line(address)).collect()
}
