//! The RDMA channel at its module: bursts on their way to lenders, and bursts of other nodes at this node's memory.
//!
//! A packet has the content of a line. Other lines of a burst go ahead of it, as those of messages do, and it takes
//! the time of all of them.

use rackmem_rmc::amt::Target;

use super::{Body, Bridge, Event, RDMA_LINE, write_of};
use crate::block::{BLOCK_BYTES, Block, Line};
use crate::chip::message::Payload;
use crate::chip::rdma::{Copy, Task};
use crate::chip::wires::Wires;
use crate::interconnect::packet::{Channel, Packet, Trip};
use crate::interconnect::time::{Clock, Ps, ps};
use crate::machine::Machine;
use crate::window::packet::{Asker, Packet as Access};

impl Bridge {
    /// The operating system wants a copy.
    pub fn post_copy(&mut self, copy: Copy, wires: &mut Wires) {
        if self.rdma.post(copy) {
            self.agenda.at(self.clock.at(wires.now) + self.begin_ps, Event::Begin);
        }
        self.look_again(wires);
    }

    /// Takes a block of borrowed memory, with its content, that the channel has written past this node's caches.
    pub fn take_outdated(&mut self) -> Option<(Line, Block)> {
        self.outdated.pop()
    }

    /// Asks for bursts. As a read of a line, one waits for the answers to writes of its lines.
    pub(super) fn run_rdma(&mut self, now: Ps, wires: &mut Wires) {
        while self.rdma.next_read().is_none_or(|mut lines| lines.all(|line| self.is_answered(line)))
            && let Some(tasks) = self.rdma.ask()
        {
            tasks.into_iter().for_each(|task| self.rdma_access(now, task, wires));
        }
    }

    fn rdma_access(&mut self, now: Ps, task: Task, wires: &mut Wires) {
        match task {
            Task::Local { tag, index, address, write } => {
                let asker = Asker::Rdma(self.nid);
                let (channel, body) = match write {
                    None => {
                        let read = Access::Read { asker, tag, address, lines: 1 };
                        (Channel::ReadAddress, Some(read))
                    }
                    Some(block) => (Channel::WriteData, write_of(address, block, (asker, tag))),
                };
                let packet = Packet::new(channel, self.nid, self.nid, index, BLOCK_BYTES as u32);
                let packet = Packet { body, ..packet };
                self.agenda.at(now + self.oci_ps, Event::Home(packet));
            }
            Task::Borrowed { tag, address, bytes, write: None } => {
                let offset = address % BLOCK_BYTES;
                let Target { destination, address } = self.target(address / BLOCK_BYTES);
                let lines = (offset + u64::from(bytes)).div_ceil(BLOCK_BYTES) as u16;
                let asker = Asker::Rdma(self.nid);
                let body = Some(Access::Read { asker, tag, address, lines });
                let packet = Packet::new(Channel::ReadAddress, self.nid, destination, tag, bytes);
                self.module.send(now, Packet { trip: Trip::begin(now), body, ..packet });
            }
            Task::Borrowed { tag, address, bytes, write: Some(blocks) } => {
                self.write_burst(now, (tag, address, bytes), &blocks, wires);
            }
        }
    }

    /// Writes a burst of borrowed memory: its last line goes with the packet, those before it go ahead.
    fn write_burst(
        &mut self,
        now: Ps,
        (tag, address, bytes): (u32, u64, u32),
        blocks: &[Block],
        wires: &mut Wires,
    ) {
        let first = address / BLOCK_BYTES;
        for (line, &block) in (first..).zip(blocks) {
            if let Some(image) = &mut wires.image {
                image.change(line, block);
            }
            self.outdated.push((line, block));
        }
        let Target { destination, address } = self.target(first);
        let asker = (Asker::Rdma(self.nid), tag);
        let addresses = (address..).step_by(BLOCK_BYTES as usize);
        let writes =
            addresses.zip(blocks).filter_map(|(address, &block)| write_of(address, block, asker));
        let mut writes: Vec<Access> = writes.collect();
        let body = writes.pop();
        for write in writes {
            wires.depart_after(0, destination, Payload::Tlp(write));
        }
        let packet = |channel, body| Packet {
            trip: Trip::begin(now),
            body,
            ..Packet::new(channel, self.nid, destination, tag, bytes)
        };
        self.module.send(now, packet(Channel::WriteAddress, None));
        self.module.send(now, packet(Channel::WriteData, body));
    }

    /// An access to borrowed memory is done.
    pub(super) fn burst_done(&mut self, now: Ps, tag: u32, wires: &mut Wires) {
        let (tasks, is_complete) = self.rdma.borrowed_done(tag);
        tasks.into_iter().for_each(|task| self.rdma_access(now, task, wires));
        self.go_on_rdma(now, is_complete, wires);
    }

    /// An access to this node's memory is done.
    pub(super) fn moved(&mut self, now: Ps, packet: Packet<Body>, wires: &mut Wires) {
        let tag = match packet.body {
            Some(Access::Data { tag, block, .. }) => {
                self.rdma.read(tag, packet.tag, block);
                tag
            }
            Some(Access::Written { tag, .. }) => tag,
            other => panic!("the RDMA channel got {other:?}"),
        };
        let (task, is_complete) = self.rdma.local_done(tag);
        task.into_iter().for_each(|task| self.rdma_access(now, task, wires));
        self.go_on_rdma(now, is_complete, wires);
    }

    /// Asks for the next bursts, or interrupts after the last one.
    fn go_on_rdma(&mut self, now: Ps, is_complete: bool, wires: &mut Wires) {
        if !is_complete {
            return self.run_rdma(now, wires);
        }
        wires.interrupts.push(RDMA_LINE);
        if self.rdma.is_waiting() {
            self.agenda.at(now + self.begin_ps, Event::Begin);
        }
    }

    /// A line of a burst has come ahead of its packet.
    pub(super) fn came_ahead(&mut self, access: Access) {
        match access {
            Access::Data { tag, index, block, .. } => self.rdma.read(tag, index.into(), block),
            write => self.ahead.push(write),
        }
    }

    /// Accesses this node's memory for a request, of whose burst other lines may have come ahead: only the last one is
    /// answered.
    pub(super) fn serve(&mut self, access: Access, wires: &mut Wires) {
        if let Access::Write { asker: burst @ Some((Asker::Rdma(_), _)), .. } = access {
            let is_of_burst = |access: &mut Access| match access {
                Access::Write { asker, .. } => *asker == burst,
                _ => false,
            };
            for write in self.ahead.extract_if(.., is_of_burst) {
                if let Access::Write { address, block, tlp_bytes, .. } = write {
                    let posted = Access::Write { address, block, asker: None, tlp_bytes };
                    self.inbound.arrive(posted, wires);
                }
            }
        }
        self.inbound.arrive(access, wires);
    }

    /// Whether lines of the burst that is served follow the one that is read now.
    pub(super) fn has_more(&self, body: &Access) -> bool {
        let lines = match self.serving.front().and_then(|request| request.body) {
            Some(Access::Read { lines, .. }) => lines,
            _ => 1,
        };
        matches!(body, Access::Data { index, .. } if index + 1 < lines)
    }
}

/// From a call of the operating system until the RDMA channel has its registers: the operating system takes a call, the
/// store the way of a core's access to a register.
pub(super) fn begin_ps(machine: &Machine) -> Ps {
    let call = Clock::of_mhz(machine.clock_ghz * 1000.0).cycles(machine.system.call_cycles);
    call + ps(machine.window.root_ns) + ps(machine.window.register_ns)
}
