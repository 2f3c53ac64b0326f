//! Two connections on which the other end sends as much as it can: iperf, inbound (DEOI §IV-B).

use super::Workload;
use super::stack::{ACK, Stack, Told, USER};
use crate::interconnect::nic::CardFrame;
use crate::interconnect::node::{Call, Op};
use crate::interconnect::platform::{Platform, Upcall};
use crate::interconnect::time::Ps;
use crate::machine::Machine;
use crate::machine::spec::ExperimentSpec;
use crate::report::ExtensionReport;

/// The next call of a program.
const READ: u8 = 0;
/// A packet with acknowledgements has been made.
const MADE: u8 = 1;
/// The other end has the acknowledgements that it needs to send more.
const MORE: u8 = 2;

/// A connection, served by the thread of a core.
#[derive(Clone, Copy, Debug, Default)]
struct Connection {
    /// Packets that the other end has sent, and that are not acknowledged at its end.
    unacknowledged: u32,
    /// Packets that came and for which no acknowledgement has been made.
    unanswered: u32,
    /// Data in the kernel.
    buffered: u32,
    is_waiting: bool,
}

#[derive(Debug)]
pub struct Receive {
    stack: Stack,
    spec: ExperimentSpec,
    connections: Vec<Connection>,
    bytes: u64,
    measured: u64,
    begin: Ps,
    end: Ps,
}

impl Receive {
    /// Of a machine: a connection for each core.
    pub fn new(machine: &Machine) -> Receive {
        Receive {
            stack: Stack::new(machine),
            spec: machine.experiment.clone(),
            connections: vec![Connection::default(); usize::from(machine.soc.cores)],
            bytes: 0,
            measured: 0,
            begin: 0,
            end: 0,
        }
    }

    fn call(what: u8, argument: usize) -> Op {
        Op::Call(Call { what, argument: argument as u32 })
    }

    /// The other end sends as much as its window allows.
    fn more(&mut self, platform: &mut Platform, number: usize) {
        let segment = self.stack.segment();
        let window = self.stack.nic.window_bytes / segment;
        let now = platform.now();
        loop {
            let connection = &mut self.connections[number];
            if connection.unacknowledged + connection.buffered.div_ceil(segment) >= window {
                return;
            }
            connection.unacknowledged += 1;
            let frame = CardFrame { bytes: self.stack.nic.mtu, tag: number as u32 };
            self.stack.arrive_from_peer(platform, now, frame);
        }
    }

    /// The thread takes data that are there, or waits.
    fn read(&mut self, platform: &mut Platform, core: u16) {
        let number = usize::from(core);
        let connection = &mut self.connections[number];
        let bytes = connection.buffered.min(self.spec.message_bytes);
        if bytes == 0 {
            connection.is_waiting = true;
            return;
        }
        connection.buffered -= bytes;
        self.count(platform.now(), bytes);
        let copy = self.stack.call(bytes);
        platform.thread(USER, core, [copy, Self::call(READ, number)]);
        self.more(platform, number);
    }

    fn count(&mut self, now: Ps, bytes: u32) {
        let warm_up = self.spec.warm_up * u64::from(self.stack.segment());
        self.bytes += u64::from(bytes);
        if self.bytes <= warm_up {
            self.begin = now;
        } else {
            (self.measured, self.end) = (self.measured + u64::from(bytes), now);
        }
    }

    /// Handles frames that the stack has taken: acknowledgements are due, and threads go on.
    fn arrived(&mut self, platform: &mut Platform, frames: Vec<CardFrame>) {
        let segment = self.stack.segment();
        for frame in frames {
            let connection = &mut self.connections[frame.tag as usize];
            connection.buffered += segment;
            connection.unanswered += 1;
            if connection.unanswered == self.stack.nic.packets_per_ack {
                connection.unanswered = 0;
                let work = self.stack.work(self.stack.nic.ack_ns);
                let made = Self::call(MADE, frame.tag as usize);
                self.stack.urgent(platform, [work, made]);
            }
        }
        for core in 0..self.connections.len() {
            let connection = &mut self.connections[core];
            if connection.buffered > 0 && std::mem::take(&mut connection.is_waiting) {
                platform.thread(USER, core as u16, [self.stack.wake(), Self::call(READ, core)]);
            }
        }
    }

    fn called(&mut self, platform: &mut Platform, core: u16, call: Call) {
        match call.what {
            READ => self.read(platform, core),
            MADE => {
                let bytes = self.stack.nic.header_bytes;
                let tell = self.stack.post(platform, CardFrame { bytes, tag: call.argument | ACK });
                self.stack.urgent(platform, [tell]);
            }
            _ => {}
        }
    }
}

impl Workload for Receive {
    fn start(&mut self, platform: &mut Platform) -> Result<(), String> {
        self.stack.start(platform)?;
        for core in 0..self.connections.len() {
            platform.thread(USER, core as u16, [Self::call(READ, core)]);
            self.more(platform, core);
        }
        Ok(())
    }

    fn told(&mut self, platform: &mut Platform, upcall: Upcall) -> bool {
        match self.stack.told(platform, upcall) {
            Told::Received(frames) => self.arrived(platform, frames),
            Told::Other(Upcall::Called { core, call, .. }) => self.called(platform, core, call),
            Told::Other(Upcall::AtPeer { tag, .. }) => {
                let more = Call { what: MORE, argument: tag & !ACK };
                platform.later(self.stack.peer(), more);
            }
            Told::Other(Upcall::Later { call }) => {
                let connection = &mut self.connections[call.argument as usize];
                connection.unacknowledged -= self.stack.nic.packets_per_ack;
                self.more(platform, call.argument as usize);
            }
            _ => {}
        }
        self.measured >= self.spec.count * u64::from(self.stack.segment())
    }

    fn report(&self, platform: &Platform, report: &mut ExtensionReport) {
        let bits = self.measured as f64 * 8.0;
        report.mbps = Some(bits / ((self.end - self.begin) as f64 / 1e6));
        report.utilisation(platform, USER);
    }
}
