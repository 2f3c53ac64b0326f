//! Messages between two nodes by the queue pair channel, to and fro or as many as go (TSM §5, figures 10
//! and 11).
//!
//! The library turns a socket call into descriptors: one, if the channel translates addresses itself or the
//! message is copied through a buffer whose address is known, else one for each page, after a system call
//! that translates them. The channel takes the descriptors of a
//! connection one after the other: it fetches the descriptor, reads the data in bursts, and sends packets;
//! the other end fetches the descriptor of the buffer with the first one, writes the data, then the
//! completion, and answers. Software polls for completions.

mod channel;

use rackmem_rmc::two_sided::Descriptor;

use super::{Rounds, Workload};
use crate::interconnect::node::Op;
use crate::interconnect::packet::{Channel, Packet};
use crate::interconnect::platform::{Platform, Upcall};
use crate::interconnect::qpair::{EndPoint, QueuePairs};
use crate::interconnect::report::ExtensionReport;
use crate::interconnect::time::{Clock, ps};
use crate::machine::Machine;
use crate::machine::spec::{
    Buffers, ExperimentKind, ExperimentSpec, QpairSpec, SocSpec, Translation,
};

/// Software: the descriptors are written.
const POSTED: u8 = 0;
/// Software: a message has been received.
const RECEIVED: u8 = 1;
/// Software: a message has been sent.
const SENT: u8 = 2;
/// Channel: something that it waited for is done.
const DONE: u8 = 3;

/// The core that runs the library.
const CORE: u16 = 0;

/// The channel of a node, and its library.
#[derive(Debug, Default)]
struct Side {
    queues: QueuePairs,
    sending: Option<Descriptor>,
    asked: u32,
    read: u32,
    reading: u32,
    packed: u32,
    /// The message that comes: its bytes, and where it goes.
    coming: Option<(u32, Descriptor)>,
    /// Packets of it that wait for the descriptor, or for their bursts.
    packets: Vec<(u8, Packet)>,
    written: u32,
    writing: u32,
    to_write: u32,
    /// Sends of one socket call that have not completed.
    open: u32,
    /// Bytes of the message, of which pages have come.
    have: u32,
}

#[derive(Debug)]
pub struct QueuePair {
    spec: QpairSpec,
    soc: SocSpec,
    experiment: ExperimentSpec,
    oci: Clock,
    near_ns: f64,
    sides: [Side; 2],
    /// Bytes of the message that packets belong to, by sender.
    lengths: [u32; 2],
    messages: Rounds,
}

impl QueuePair {
    pub fn new(machine: &Machine) -> QueuePair {
        let entries = machine.qpair.queue_entries as usize;
        let side = || Side { queues: QueuePairs::new(entries), ..Side::default() };
        QueuePair {
            spec: machine.qpair.clone(),
            soc: machine.soc.clone(),
            experiment: machine.experiment.clone(),
            oci: Clock::of_mhz(machine.extension.oci_mhz),
            near_ns: f64::from(machine.soc.miss_cycles) * 1000.0 / machine.soc.core_mhz,
            sides: [side(), side()],
            lengths: [0; 2],
            messages: Rounds::new(&machine.experiment),
        }
    }

    /// Bytes of each descriptor of a message.
    fn pieces(&self) -> Vec<u32> {
        let all = self.experiment.message_bytes;
        let piece = match self.spec.translation {
            Translation::Call => self.spec.page_bytes,
            // Buffers to copy through lie in one piece.
            Translation::Copy | Translation::Channel => all,
        };
        (0..all.div_ceil(piece)).map(|n| piece.min(all - n * piece)).collect()
    }

    /// Time of a core, in ns, to write a descriptor, or to read a completion.
    fn touch(&self) -> f64 {
        match self.spec.buffers {
            Buffers::Uncached => self.spec.uncached_ns,
            // A core reaches on-chip memory, past its caches, as fast as its second-level cache, which is
            // where it finds what the channel has written, or where the channel reads what it wrote.
            Buffers::Cached | Buffers::Ocm => self.near_ns,
        }
    }

    /// Time of a core, in ns, to copy a message between its buffer and the program's, if it does.
    fn copy(&self) -> f64 {
        match self.spec.translation {
            Translation::Copy => {
                self.soc.copy_ns_per_kb * f64::from(self.experiment.message_bytes) / 1024.0
            }
            Translation::Call | Translation::Channel => 0.0,
        }
    }

    /// The library sends a message: work, translation, descriptors, and the store that tells the channel.
    fn send(&mut self, platform: &mut Platform, node: u16) {
        let pieces = self.pieces().len() as f64;
        let translate = match self.spec.translation {
            Translation::Call => self.soc.call_ns + self.spec.translate_ns * pieces,
            Translation::Copy | Translation::Channel => self.copy(),
        };
        let tell = self.soc.port_ns / 2.0 + self.soc.register_ns;
        let library = self.spec.library_ns + translate + self.touch() * pieces + tell;
        platform.thread(node, CORE, [Op::Work(ps(library)), Op::call(POSTED)]);
    }

    fn prepare(&mut self, node: u16) {
        for bytes in self.pieces() {
            let buffer = piece(bytes);
            let posted = self.sides[usize::from(node)].queues.post_receive(0, buffer);
            debug_assert_eq!(posted, Ok(()));
        }
    }

    fn called(&mut self, platform: &mut Platform, node: u16, what: u8) {
        match what {
            POSTED => {
                let side = &mut self.sides[usize::from(node)];
                while let Ok(Some(_)) = side.queues.poll(0) {}
                for bytes in self.pieces() {
                    let side = &mut self.sides[usize::from(node)];
                    let posted = side.queues.post_send(0, piece(bytes));
                    debug_assert_eq!(posted, Ok(()));
                    side.open += 1;
                }
                self.begin(platform, node);
            }
            RECEIVED => {
                let side = &mut self.sides[usize::from(node)];
                while let Ok(Some(_)) = side.queues.poll(0) {}
                self.prepare(node);
                self.take(platform, node);
                self.count(platform, node);
                if self.experiment.kind == ExperimentKind::QpairPingPong {
                    self.send(platform, node);
                }
            }
            // A call that sends comes back when its message is there; the next one follows.
            SENT if self.experiment.kind == ExperimentKind::QpairStream => {
                self.send(platform, node);
            }
            _ => {}
        }
    }

    fn count(&mut self, platform: &Platform, node: u16) {
        // To and fro, a round is over when the first node has its answer.
        if self.experiment.kind != ExperimentKind::QpairPingPong || node == 0 {
            self.messages.add(platform.now());
        }
    }
}

impl Workload for QueuePair {
    fn start(&mut self, platform: &mut Platform) -> Result<(), String> {
        let bytes = u64::from(self.experiment.message_bytes);
        let ocm = self.spec.ocm_bytes - self.spec.ocm_reserved_bytes;
        if self.spec.buffers == Buffers::Ocm && bytes > ocm {
            return Err(format!(
                "experiment.message_bytes: is {bytes}, must be at most {ocm}: what descriptors and \
                 tables leave of the on-chip memory"
            ));
        }
        if self.pieces().len() > self.spec.queue_entries as usize {
            return Err(format!(
                "experiment.message_bytes: is {bytes}, which takes more descriptors than \
                 qpair.queue_entries, {}",
                self.spec.queue_entries
            ));
        }
        for node in 0..2 {
            let peer = EndPoint { node: 1 - node, connection: 0 };
            let side = &mut self.sides[usize::from(node)];
            side.queues.open(peer, (0, bytes)).map_err(|refused| format!("{refused:?}"))?;
            self.prepare(node);
        }
        self.send(platform, 0);
        Ok(())
    }

    fn told(&mut self, platform: &mut Platform, upcall: Upcall) -> bool {
        match upcall {
            Upcall::Called { node, call, .. } => self.called(platform, node, call.what),
            Upcall::Later { call } => self.done(platform, call.argument),
            Upcall::Qpair { operation, .. } => self.done(platform, operation),
            Upcall::Room { node } => self.read(platform, node),
            Upcall::Message { node, port, packet } if packet.channel == Channel::Message => {
                self.sides[usize::from(node)].packets.push((port, packet));
                if self.sides[usize::from(node)].packets.len() == 1 {
                    self.take(platform, node);
                }
            }
            Upcall::Message { node, .. } => self.answered(platform, node),
            _ => {}
        }
        self.messages.are_complete()
    }

    fn report(&self, platform: &Platform, report: &mut ExtensionReport) {
        let ways = match self.experiment.kind {
            ExperimentKind::QpairPingPong => 2.0,
            _ => 1.0,
        };
        let one_way = self.messages.mean_ns() / ways;
        let busy = |node: usize| platform.nodes[node].cores[usize::from(CORE)].busy as f64 / 1000.0;
        report.latency_ns = Some(one_way);
        report.software_ns = Some(2.0 * self.spec.library_ns + self.spec.poll_ns + self.touch());
        report.core_ns = Some((busy(0) + busy(1)) / ways / self.messages.done.max(1) as f64);
        report.mbps = Some(f64::from(self.experiment.message_bytes) * 8000.0 / one_way);
        report.utilisation(platform, 0);
    }
}

/// A piece of a message, at the start of registered memory.
fn piece(bytes: u32) -> Descriptor {
    Descriptor { offset: 0, size_bytes: bytes.into(), id: 0 }
}
