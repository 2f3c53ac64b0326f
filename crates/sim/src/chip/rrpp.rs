//! Remote request processing: requests of other chips become accesses to this chip's memory
//! (Manycore NI §4.1; soNUMA §4.2).

use std::collections::VecDeque;

use rackmem_abi::{Header, LINE_BYTES, Op, Packet, Request as NetRequest, Status};
use rackmem_rmc::{Bounds, ContextTable, rrpp};

use super::backends::pump;
use super::layout::{Part, SEGMENT_LINE};
use super::message::{NetPacket, VNET_REQUEST};
use super::wires::Wires;
use crate::block::{BLOCK_BYTES, Block, Line};
use crate::coherence::{Message, Request, Response};
use crate::engine::Cycle;
use crate::figures::Figures;
use crate::machine::Machine;

#[derive(Clone, Copy, Debug)]
struct Arrived {
    at: Cycle,
    /// Cycle in which its access may begin.
    ready_at: Cycle,
    request: NetRequest,
    engine: u16,
}

/// A request whose memory access is under way.
#[derive(Clone, Copy, Debug)]
struct Access {
    at: Cycle,
    header: Header,
    engine: u16,
}

/// An RRPP. It keeps nothing of a request but its place among those under way.
#[derive(Clone, Debug)]
pub struct Rrpp {
    number: u16,
    nid: u16,
    contexts: ContextTable,
    arrived: VecDeque<Arrived>,
    accesses: Vec<Access>,
    /// Their blocks, which are looked through for each request.
    lines: Vec<Line>,
    /// The next request is for this block, which is being accessed.
    blocked_by: Option<Line>,
    capacity: usize,
    /// Replies that have not left the chip, and keep the places of their requests.
    unsent: usize,
    request_cycles: u64,
    reply_cycles: u64,
    replies: u64,
    latency_cycles: u64,
    notifications: u64,
}

impl Rrpp {
    pub fn new(number: u16, nid: u16, machine: &Machine, contexts: ContextTable) -> Rrpp {
        Rrpp {
            number,
            nid,
            contexts,
            arrived: VecDeque::new(),
            accesses: Vec::new(),
            lines: Vec::new(),
            blocked_by: None,
            unsent: 0,
            capacity: machine.ni.rrpp_transactions as usize,
            request_cycles: u64::from(machine.ni.rrpp_request_cycles),
            reply_cycles: u64::from(machine.ni.rrpp_reply_cycles),
            replies: 0,
            latency_cycles: 0,
            notifications: 0,
        }
    }

    /// The part that messages for it name.
    pub fn part(&self) -> Part {
        Part::Rrpp(self.number)
    }

    /// The driver has opened or closed this node's segment of a context.
    pub fn set_context(&mut self, ctx_id: u16, bounds: Result<Bounds, Status>) {
        match bounds {
            Ok(bounds) => self.contexts.install(ctx_id, bounds).expect("a context that is free"),
            Err(why) => drop(self.contexts.remove(ctx_id, why)),
        }
    }

    /// The end of requests for a context, unless this node has a segment of it.
    pub fn status(&self, ctx_id: u16) -> Option<Status> {
        self.contexts.lookup(ctx_id).err()
    }

    /// The head of a request has come from its link, and was at the chip in cycle `at`; its tail will have in
    /// cycle `tail_at`.
    pub fn receive(
        &mut self,
        request: NetRequest,
        engine: u16,
        [at, tail_at]: [Cycle; 2],
        wires: &mut Wires,
    ) {
        wires.counts.rrpp_requests += 1;
        // The stages need the header alone, the access that they begin has the data with it.
        let ready_at = (wires.now + self.request_cycles.max(1)).max(tail_at);
        self.arrived.push_back(Arrived { at, ready_at, request, engine });
        wires.wheel.at(ready_at, pump(Part::Port(self.number)));
    }

    /// Begins the next memory access if the port has room; whether there was one to begin.
    pub fn access(&mut self, wires: &mut Wires) -> bool {
        if self.is_full() || !wires.port_has_room(self.part(), VNET_REQUEST) {
            return false;
        }
        match self.arrived.front() {
            Some(next) if next.ready_at <= wires.now => {
                let line = block_of(&next.request.header);
                // Answers name their block only, and may overtake each other: the request would
                // get another one's answer.
                if self.blocked_by.is_some() || self.lines.contains(&line) {
                    self.blocked_by = Some(line);
                    return false;
                }
            }
            _ => return false,
        }
        let Some(Arrived { at, request, engine, .. }) = self.arrived.pop_front() else {
            return false;
        };
        let header = request.header;
        let checked = rrpp::check(&header, self.nid, LINE_BYTES, &self.contexts);
        if checked.is_err() || matches!(header.op, Op::Nop | Op::Notify) {
            let status = checked.err().unwrap_or(Status::Ok);
            self.notifications += u64::from(header.op == Op::Notify && status == Status::Ok);
            self.reply(at, &header, engine, status, Block::ZERO, wires);
            return true;
        }
        let line = block_of(&header);
        self.accesses.push(Access { at, header, engine });
        self.lines.push(line);
        let home = wires.layout.home_of(line);
        wires.counts.rrpp_accesses += 1;
        wires.counts.rrpp_hops += wires.hops(self.part(), Part::Home(home));
        wires.ask_home(self.part(), line, Message::Request(memory_request(&request)));
        true
    }

    /// The cycle in which the next request will want the port, if any will and may.
    pub fn wants_port(&self) -> Option<Cycle> {
        let next = self.arrived.front()?;
        let may = !self.is_full() && self.blocked_by.is_none();
        may.then_some(next.ready_at)
    }

    /// Whether requests have to wait until one that is under way is answered.
    fn is_full(&self) -> bool {
        self.accesses.len() + self.unsent >= self.capacity
    }

    /// Requests that wait.
    pub fn waiting(&self) -> usize {
        self.arrived.len()
    }

    /// A reply has left the chip. Returns true if a request waited for its place.
    pub fn replied(&mut self) -> bool {
        let was_full = self.is_full();
        self.unsent -= 1;
        was_full && !self.arrived.is_empty()
    }

    pub fn response(&mut self, line: Line, response: Response<Block>, wires: &mut Wires) {
        if response.read_needs_unblock() {
            wires.ask_home(self.part(), line, Message::Response(Response::Unblock(None)));
        }
        let (is_data, block) = match response {
            Response::Data { data, .. } => (true, data),
            Response::Updated(old) => (false, old.unwrap_or(Block::ZERO)),
            other => panic!("rrpp[{}] got {other:?}", self.number),
        };
        let at = self.lines.iter().position(|&begun| begun == line);
        let at = at.expect("an access that was begun");
        self.lines.swap_remove(at);
        self.blocked_by = self.blocked_by.filter(|&blocked| blocked != line);
        let Access { at, header, engine } = self.accesses.swap_remove(at);
        debug_assert_eq!(header.op == Op::Read, is_data, "an answer to another access");
        self.reply(at, &header, engine, Status::Ok, block, wires);
        if !self.arrived.is_empty() {
            wires.wheel.at(wires.now + 1, pump(Part::Port(self.number)));
        }
    }

    pub fn write_stats(&self, stats: &mut Figures) {
        stats.insert(format!("rrpp[{}].replies", self.number), self.replies as f64);
        let path = format!("rrpp[{}].latency_mean_cycles", self.number);
        stats.mean(path, self.latency_cycles as f64, self.replies as f64);
    }

    /// Notifications that have come from other nodes.
    pub fn notifications(&self) -> u64 {
        self.notifications
    }

    /// Goes on from so many.
    pub fn restore_notifications(&mut self, count: u64) {
        self.notifications = count;
    }

    /// Requests that wait and accesses under way, for the watchdog.
    pub fn under_way(&self) -> (usize, usize) {
        (self.arrived.len(), self.accesses.len())
    }

    fn reply(
        &mut self,
        arrived_at: Cycle,
        request: &Header,
        engine: u16,
        status: Status,
        block: Block,
        wires: &mut Wires,
    ) {
        let mut reply = rrpp::reply(request, status);
        let bytes = reply.payload_bytes();
        let from = (request.offset % BLOCK_BYTES) as usize;
        reply.payload[..bytes].copy_from_slice(&block.to_bytes()[from..from + bytes]);
        wires.counts.rrpp_lines += u64::from(bytes > 0);
        let mut packet = NetPacket { packet: Packet::Reply(reply), engine, served: (0, 0) };
        let done = wires.leaves_at(self.reply_cycles, &packet);
        packet.served = (arrived_at, done);
        self.replies += 1;
        self.latency_cycles += done - arrived_at;
        self.unsent += 1;
        wires.outbound.push_back((done, packet));
    }
}

/// The block that a request is about.
fn block_of(header: &Header) -> Line {
    SEGMENT_LINE + header.offset / BLOCK_BYTES
}

/// The request to the home for a line.
fn memory_request(request: &NetRequest) -> Request<Block> {
    let Header { op, offset, length, .. } = request.header;
    let (at, payload) = ((offset % BLOCK_BYTES) as usize, &request.payload);
    match op {
        Op::Write => Request::Update(Block::write(at, &payload[..usize::from(length)]).as_update()),
        Op::FetchAdd | Op::CompareSwap => {
            let operands = [rrpp::operand(payload, 0), rrpp::operand(payload, 1)];
            Request::Update(Block::atomic(op, at, operands).as_update())
        }
        Op::Read | Op::Nop | Op::Notify => Request::ReadOnce,
    }
}
