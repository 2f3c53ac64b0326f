//! Two connections that send as much as they can through a card: iperf, outbound (DEOI §IV-B).

use super::stack::{ACK, Stack, Told, USER};
use super::{Rounds, Workload};
use crate::interconnect::nic::CardFrame;
use crate::interconnect::node::Op;
use crate::interconnect::platform::{Platform, Upcall};
use crate::machine::Machine;
use crate::machine::spec::ExperimentSpec;
use crate::report::ExtensionReport;

/// The next call of a program.
const WRITE: u8 = 0;
/// The data of a call are in the kernel.
const COPIED: u8 = 1;
/// The stack has made a packet.
const MADE: u8 = 2;
/// The card has been told of it.
const TOLD: u8 = 3;

/// A connection, served by the thread of a core.
#[derive(Clone, Copy, Debug, Default)]
struct Connection {
    /// Data in the kernel, not in packets yet.
    buffered: u32,
    unacknowledged: u32,
    /// Packets at the other end that it has not acknowledged.
    unanswered: u32,
    is_blocked: bool,
}

#[derive(Debug)]
pub struct Send {
    stack: Stack,
    spec: ExperimentSpec,
    connections: Vec<Connection>,
    packets: Rounds,
}

impl Send {
    /// Of a machine: a connection for each core.
    pub fn new(machine: &Machine) -> Send {
        Send {
            stack: Stack::new(machine),
            spec: machine.experiment.clone(),
            connections: vec![Connection::default(); usize::from(machine.soc.cores)],
            packets: Rounds::new(&machine.experiment),
        }
    }

    /// The thread makes the next packet, or the next call, or waits.
    fn go_on(&mut self, platform: &mut Platform, core: u16) {
        let segment = self.stack.segment();
        let window = self.stack.nic.window_bytes / segment;
        let (ring, in_ring) = (self.stack.nic.ring, self.stack.in_ring);
        let connection = &mut self.connections[usize::from(core)];
        if connection.buffered < segment {
            platform.thread(USER, core, [Op::call(WRITE)]);
        } else if connection.unacknowledged >= window || in_ring >= ring {
            connection.is_blocked = true;
        } else {
            connection.buffered -= segment;
            connection.unacknowledged += 1;
            let work = self.stack.work(self.stack.nic.send_ns);
            platform.thread(USER, core, [work, Op::call(MADE)]);
        }
    }

    fn unblock(&mut self, platform: &mut Platform) {
        for core in 0..self.connections.len() {
            if std::mem::take(&mut self.connections[core].is_blocked) {
                self.go_on(platform, core as u16);
            }
        }
    }

    fn called(&mut self, platform: &mut Platform, core: u16, what: u8) {
        match what {
            WRITE => {
                let copy = self.stack.call(self.spec.message_bytes);
                platform.thread(USER, core, [copy, Op::call(COPIED)]);
            }
            COPIED => {
                self.connections[usize::from(core)].buffered += self.spec.message_bytes;
                self.go_on(platform, core);
            }
            MADE => {
                let frame = CardFrame { bytes: self.stack.nic.mtu, tag: core.into() };
                let tell = self.stack.post(platform, frame);
                platform.thread(USER, core, [tell, Op::call(TOLD)]);
            }
            TOLD => self.go_on(platform, core),
            _ => {}
        }
    }

    fn at_peer(&mut self, platform: &mut Platform, tag: u32) {
        self.packets.add(platform.now());
        let connection = &mut self.connections[tag as usize];
        connection.unanswered += 1;
        if connection.unanswered == self.stack.nic.packets_per_ack {
            connection.unanswered = 0;
            let frame = CardFrame { bytes: self.stack.nic.header_bytes, tag: tag | ACK };
            let at = platform.now() + self.stack.peer();
            self.stack.arrive_from_peer(platform, at, frame);
        }
    }
}

impl Workload for Send {
    fn start(&mut self, platform: &mut Platform) -> Result<(), String> {
        self.stack.start(platform)?;
        for core in 0..self.connections.len() {
            platform.thread(USER, core as u16, [Op::call(WRITE)]);
        }
        Ok(())
    }

    fn told(&mut self, platform: &mut Platform, upcall: Upcall) -> bool {
        match self.stack.told(platform, upcall) {
            Told::Sent => self.unblock(platform),
            Told::Received(acks) => {
                for ack in acks {
                    let connection = &mut self.connections[(ack.tag & 0xffff) as usize];
                    connection.unacknowledged -= self.stack.nic.packets_per_ack;
                }
                self.unblock(platform);
            }
            Told::Other(Upcall::Called { core, call, .. }) => {
                self.called(platform, core, call.what);
            }
            Told::Other(Upcall::AtPeer { tag, .. }) => self.at_peer(platform, tag),
            _ => {}
        }
        self.packets.are_complete()
    }

    fn report(&self, platform: &Platform, report: &mut ExtensionReport) {
        let bits = self.packets.measured() as f64 * f64::from(self.stack.segment()) * 8.0;
        report.mbps = Some(bits / ((self.packets.end - self.packets.begin) as f64 / 1e6));
        report.utilisation(platform, USER);
    }
}
