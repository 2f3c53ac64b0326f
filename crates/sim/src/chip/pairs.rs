//! Queue pairs of Thunder (TSM §4.2) for the program of a node: its connections with their rings in memory, the channel
//! that serves them, and the contents of messages.
//!
//! The channel itself is [`Channel`]. A connection has a page of registers, so that a process reaches its own only:
//! [`SEND_TAIL`] and [`RECEIVE_TAIL`] take the number of descriptors so far. A descriptor is four words: address,
//! bytes, id, and one that is not used; a completion has id, bytes, status with the queue above it, and last its number
//! from 1 on, by which it is seen.
//!
//! # Decisions
//!
//! - *Contents* go ahead of their packets, which take the time; they are in memory when their part leaves the link, and
//!   the completion is there when all has been written.
//! - *Buffers* are in the node's own memory. The channel passes by pages that have become borrowed memory since the
//!   connection was opened, as by those that are gone.
//! - *Descriptors* are read when the store arrives that tells of them. The channel takes the time to fetch one when its
//!   turn comes.

mod saved;

use std::collections::VecDeque;

use rackmem_riscv::space::PAGE;
use rackmem_rmc::two_sided::{Descriptor, Kind, Status};
use serde::{Deserialize, Serialize};

pub use saved::State;

use super::image::Image;
use super::message::Payload;
use super::wires::Wires;
use crate::block::{BLOCK_BYTES, Block, Line};
use crate::interconnect::channel::{Channel, Host, Message, Part, Step};
use crate::interconnect::module::Module;
use crate::interconnect::packet::{self, Packet};
use crate::interconnect::qpair::{EndPoint, Refused};
use crate::interconnect::time::{Clock, Ps, ps};
use crate::machine::Machine;
use crate::sonuma::Image as _;
use crate::window::packet::Packet as Access;

/// Content of a packet, as all of the module have it.
type Body = Option<Access>;

/// Register of a connection: descriptors of messages, so far.
pub const SEND_TAIL: u64 = 0;
/// Register of a connection: descriptors of buffers, so far.
pub const RECEIVE_TAIL: u64 = 8;

/// Most connections: each has a page of registers.
pub const MOST: u64 = 64;

/// Bytes of addresses that all registers take.
pub const REGISTERS_BYTES: u64 = MOST * PAGE;

/// Bytes of a descriptor, or of a completion.
pub const ENTRY_BYTES: u64 = 32;

/// Number of the status of an answer to a message that its connection has refused.
const REFUSED: u32 = 3;

/// Physical addresses of the rings of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rings {
    pub sends: u64,
    pub receives: u64,
    pub completions: u64,
}

/// A connection of the program.
#[derive(Clone, Copy, Debug)]
struct End {
    rings: Rings,
    /// Descriptors that were taken, of messages and of buffers.
    posted: [u32; 2],
    completed: u64,
}

/// The end of a step.
#[derive(Clone, Copy, Debug)]
pub struct Done {
    step: Step,
    /// The other node of the message.
    peer: u16,
    bytes: u32,
}

/// The connections of a node, and the channel.
#[derive(Clone, Debug)]
pub struct Pairs {
    channel: Channel<Body>,
    around: Around,
}

/// All but the channel.
#[derive(Clone, Debug)]
struct Around {
    nid: u16,
    entries: u32,
    /// Addresses of the node's own memory.
    memory_bytes: u64,
    access: Ps,
    translation: Ps,
    ends: Vec<End>,
    /// Bytes of messages that have not left the link, by the node that sent them.
    contents: Vec<VecDeque<u8>>,
    /// Connections with completions that are not in memory.
    completed: Vec<u16>,
    /// Blocks that have changed.
    changed: Vec<Line>,
    messages: u64,
}

/// What is around a channel in an event.
struct View<'a> {
    now: Ps,
    around: &'a mut Around,
    module: &'a mut Module<Body>,
    done: &'a mut Vec<(Ps, Done)>,
    wires: &'a mut Wires,
}

impl Pairs {
    pub fn new(nid: u16, nodes: u16, machine: &Machine) -> Pairs {
        let spec = &machine.qpair;
        Pairs {
            channel: Channel::new(spec),
            around: Around {
                nid,
                entries: spec.queue_entries,
                memory_bytes: machine.memory.size_bytes,
                access: ps(spec.ocm_ns),
                translation: Clock::of_mhz(machine.extension.oci_mhz).cycles(spec.mmu_cycles),
                ends: Vec::new(),
                contents: vec![VecDeque::new(); nodes.into()],
                completed: Vec::new(),
                changed: Vec::new(),
                messages: 0,
            },
        }
    }

    /// Entries of a ring; that of completions has twice as many.
    pub fn entries(&self) -> u64 {
        self.around.entries.into()
    }

    /// A connection with `peer`, whose buffers are in a region of the process. Its number, if there is one left.
    pub fn open(&mut self, peer: EndPoint, region: (u64, u64), rings: Rings) -> Option<u16> {
        if self.around.ends.len() as u64 == MOST {
            return None;
        }
        let number = self.channel.queues.open(peer, region).ok()?;
        self.around.ends.push(End { rings, posted: [0; 2], completed: 0 });
        Some(number)
    }

    /// Messages that this node has received, for reports.
    pub fn messages(&self) -> u64 {
        self.around.messages
    }

    pub fn under_way(&self) -> usize {
        self.channel.under_way()
    }

    /// Takes a block that has changed past the caches.
    pub fn take_changed(&mut self) -> Option<Line> {
        self.around.changed.pop()
    }

    /// Content that has come ahead of its packet.
    pub fn content(&mut self, from: u16, block: Block, bytes: u8) {
        let bytes = &block.to_bytes()[..usize::from(bytes)];
        self.around.contents[usize::from(from)].extend(bytes);
    }

    /// A register of a connection is stored to.
    pub fn store(&mut self, address: u64, value: u64, event: &mut Event<'_>) {
        let number = (address / PAGE) as usize;
        let kind = match address % PAGE {
            SEND_TAIL => Kind::Send,
            RECEIVE_TAIL => Kind::Receive,
            _ => return,
        };
        let Some(mut end) = self.around.ends.get(number).copied() else { return };
        let mut posted = end.posted[kind as usize];
        let more = (value as u32).wrapping_sub(posted).min(self.around.entries);
        let ring = if kind == Kind::Send { end.rings.sends } else { end.rings.receives };
        let connection = number as u16;
        for _ in 0..more {
            let at = ring + u64::from(posted % self.around.entries) * ENTRY_BYTES;
            posted = posted.wrapping_add(1);
            let Some(image) = &event.wires.image else { return };
            let [offset, size_bytes, id] = [0, 8, 16].map(|word| image.read(at + word));
            let descriptor = Descriptor { offset, size_bytes, id };
            let result = match kind {
                _ if size_bytes == 0 || size_bytes > u64::from(u32::MAX) => Err(Refused::NoAccess),
                Kind::Send => self.channel.queues.post_send(connection, descriptor),
                Kind::Receive => self.channel.queues.post_receive(connection, descriptor),
            };
            if let Err(refused) = result {
                let status = REFUSED + 1 + u32::from(refused == Refused::Full);
                self.around.complete(&mut end, [id, 0], kind, status, event.wires);
            }
        }
        end.posted[kind as usize] = posted;
        self.around.ends[number] = end;
        self.with(event, |channel, view| {
            channel.begin(view);
            channel.take(view);
        });
    }

    /// A step of the channel is over.
    pub fn done(&mut self, done: Done, event: &mut Event<'_>) {
        let Done { step, peer, bytes } = done;
        self.with(event, |channel, view| channel.done(step, peer, bytes, view));
    }

    /// The FIFO for messages has room again.
    pub fn has_room(&mut self, event: &mut Event<'_>) {
        self.with(event, |channel, view| channel.read(view));
    }

    /// A packet of a message, or the answer to one.
    pub fn arrive(&mut self, port: u8, packet: Packet<Body>, event: &mut Event<'_>) {
        let Some(Access::Message { connection, from }) = packet.body else {
            let status = match packet.tag {
                0 => Status::Done,
                1 => Status::TooLong,
                _ => Status::Lost,
            };
            return self.with(event, |channel, view| channel.answered(status, view));
        };
        let from = EndPoint { node: packet.source, connection: from };
        let part = Part { port, connection, from, bytes: packet.tag, packet };
        self.with(event, |channel, view| channel.arrive(part, view));
    }

    fn with(
        &mut self,
        event: &mut Event<'_>,
        work: impl FnOnce(&mut Channel<Body>, &mut View<'_>),
    ) {
        let Pairs { channel, around } = self;
        let Event { now, module, done, wires } = event;
        work(channel, &mut View { now: *now, around, module, done, wires });
        for connection in std::mem::take(&mut around.completed) {
            while let Ok(Some(completion)) = channel.queues.poll(connection) {
                let mut end = around.ends[usize::from(connection)];
                let words = [completion.id, completion.length_bytes];
                around.complete(&mut end, words, completion.kind, number(completion.status), wires);
                around.ends[usize::from(connection)] = end;
            }
        }
    }
}

/// An event of the module, with what the channel may touch in it.
pub struct Event<'a> {
    pub now: Ps,
    pub module: &'a mut Module<Body>,
    /// Steps that begin, and when they are over.
    pub done: &'a mut Vec<(Ps, Done)>,
    pub wires: &'a mut Wires,
}

/// The number of a status in completions and answers.
fn number(status: Status) -> u32 {
    match status {
        Status::Done => 0,
        Status::TooLong => 1,
        Status::Closed => 2,
        Status::Lost => REFUSED,
    }
}

impl Around {
    /// Writes a completion into its ring.
    fn complete(
        &mut self,
        end: &mut End,
        [id, bytes]: [u64; 2],
        kind: Kind,
        status: u32,
        wires: &mut Wires,
    ) {
        let place = end.completed % (2 * u64::from(self.entries));
        end.completed += 1;
        let address = end.rings.completions + place * ENTRY_BYTES;
        let what = u64::from(status) | (kind as u64) << 32;
        let Some(image) = &mut wires.image else { return };
        for (at, word) in (0..).zip([id, bytes, what, end.completed]) {
            image.write(address + at * 8, word);
        }
        self.changed.push(address / BLOCK_BYTES);
    }
}

/// Pieces of memory of the process that do not cross a line: each with its length and its physical address, if that is
/// below `memory_bytes`.
fn pieces(wires: &Wires, memory_bytes: u64, address: u64, bytes: u32) -> Vec<(Option<u64>, usize)> {
    let end = address + u64::from(bytes);
    let mut at = address;
    let mut all = Vec::new();
    while at < end {
        let length = (BLOCK_BYTES - at % BLOCK_BYTES).min(end - at);
        let page = wires.mmu.page(at).filter(|page| page.phys < memory_bytes);
        all.push((page.map(|page| page.phys + at % PAGE), length as usize));
        at += length;
    }
    all
}

impl Host<Body> for View<'_> {
    fn access(&mut self, step: Step, of: &Message, bytes: u32, _offset: u32) {
        let Around { access, translation, .. } = *self.around;
        let delay = if step == Step::Translation { translation } else { access };
        self.done.push((self.now + delay, Done { step, peer: of.peer.node, bytes }));
    }

    fn has_room(&self) -> bool {
        self.module.transactions.has_room(packet::Channel::Message.index())
    }

    fn send(&mut self, of: &Message, bytes: u32, offset: u32) {
        let from = of.buffer.map_or(0, |buffer| buffer.offset) + u64::from(offset);
        for (phys, length) in pieces(self.wires, self.around.memory_bytes, from, bytes) {
            let mut content = [0; BLOCK_BYTES as usize];
            if let (Some(phys), Some(image)) = (phys, &self.wires.image) {
                image.read_bytes(phys, &mut content[..length]);
            }
            let (block, bytes) = (Block::from_bytes(&content), length as u8);
            let payload = Payload::Content { from: self.around.nid, block, bytes };
            self.wires.depart_after(0, of.peer.node, payload);
        }
        let body = Access::Message { connection: of.peer.connection, from: of.connection };
        let (nid, to) = (self.around.nid, of.peer.node);
        let packet = Packet::new(packet::Channel::Message, nid, to, of.bytes, bytes);
        self.module.send(self.now, Packet { body: Some(body), ..packet });
    }

    fn take(&mut self, part: &Part<Body>, of: &Message, offset: u32) {
        let contents = &mut self.around.contents[usize::from(of.peer.node)];
        let content: Vec<u8> = contents.drain(..part.packet.bytes as usize).collect();
        if let Some(buffer) = of.buffer {
            let to = buffer.offset + u64::from(offset);
            let mut from = 0;
            for (phys, length) in
                pieces(self.wires, self.around.memory_bytes, to, part.packet.bytes)
            {
                if let (Some(phys), Some(image)) = (phys, &mut self.wires.image) {
                    Image::write_bytes(image, phys, &content[from..from + length]);
                    self.around.changed.push(phys / BLOCK_BYTES);
                }
                from += length;
            }
        }
        self.module.consume(self.now, part.port, &part.packet);
    }

    fn received(&mut self, of: &Message, result: Result<Status, Refused>) {
        self.around.messages += u64::from(result == Ok(Status::Done));
        let tag = result.map_or(REFUSED, number);
        let (nid, to) = (self.around.nid, of.peer.node);
        let answer = Packet::new(packet::Channel::MessageResponse, nid, to, tag, 0);
        self.module.send(self.now, answer);
        if result.is_ok() {
            self.around.completed.push(of.connection);
        }
    }

    fn sent(&mut self, of: &Message, _status: Status) {
        self.around.completed.push(of.connection);
    }
}
