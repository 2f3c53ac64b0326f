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

use rackmem_rmc::two_sided::{Descriptor, Status};

use super::{Rounds, Workload};
use crate::interconnect::channel::{Channel, Part};
use crate::interconnect::node::Op;
use crate::interconnect::packet;
use crate::interconnect::platform::{Platform, Upcall};
use crate::interconnect::qpair::EndPoint;
use crate::interconnect::time::{Clock, ps};
use crate::machine::Machine;
use crate::machine::spec::{
    Buffers, ExperimentKind, ExperimentSpec, QpairSpec, SocSpec, Translation,
};
use crate::report::ExtensionReport;

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

/// The channel of a node, and what its library waits for.
#[derive(Debug)]
struct Side {
    channel: Channel,
    /// Sends of one socket call that have not completed.
    open: u32,
    /// Bytes of the message, of which pages have come.
    have: u32,
}

/// The library, as times of its steps.
#[derive(Debug)]
struct Library {
    spec: QpairSpec,
    soc: SocSpec,
    experiment: ExperimentSpec,
    oci: Clock,
    near_ns: f64,
}

#[derive(Debug)]
pub struct QueuePair {
    library: Library,
    sides: [Side; 2],
    messages: Rounds,
}

impl Library {
    fn new(machine: &Machine) -> Library {
        Library {
            spec: machine.qpair.clone(),
            soc: machine.soc.clone(),
            experiment: machine.experiment.clone(),
            oci: Clock::of_mhz(machine.extension.oci_mhz),
            near_ns: f64::from(machine.soc.miss_cycles) * 1000.0 / machine.soc.core_mhz,
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

    /// Time of a core, in ns, from a completion to its notice.
    fn woken(&self) -> f64 {
        self.spec.poll_ns + self.touch()
    }

    /// Time of a core, in ns, to send a message of so many descriptors: work, translation, descriptors, and the store
    /// that tells the channel.
    fn send(&self, descriptors: f64) -> f64 {
        let translate = match self.spec.translation {
            Translation::Call => self.soc.call_ns + self.spec.translate_ns * descriptors,
            Translation::Copy | Translation::Channel => self.copy(),
        };
        let tell = self.soc.port_ns / 2.0 + self.soc.register_ns;
        self.spec.library_ns + translate + self.touch() * descriptors + tell
    }
}

impl QueuePair {
    pub fn new(machine: &Machine) -> QueuePair {
        let side = || Side { channel: Channel::new(&machine.qpair), open: 0, have: 0 };
        QueuePair {
            library: Library::new(machine),
            sides: [side(), side()],
            messages: Rounds::new(&machine.experiment),
        }
    }

    /// The library sends a message.
    fn send(&mut self, platform: &mut Platform, node: u16) {
        let work = ps(self.library.send(self.library.pieces().len() as f64));
        platform.thread(node, CORE, [Op::Work(work), Op::call(POSTED)]);
    }

    fn prepare(&mut self, node: u16) {
        for bytes in self.library.pieces() {
            let buffer = piece(bytes);
            let queues = &mut self.sides[usize::from(node)].channel.queues;
            let posted = queues.post_receive(0, buffer);
            debug_assert_eq!(posted, Ok(()));
        }
    }

    /// The library takes all completions.
    fn drain(&mut self, node: u16) {
        let queues = &mut self.sides[usize::from(node)].channel.queues;
        while let Ok(Some(_)) = queues.poll(0) {}
    }

    fn called(&mut self, platform: &mut Platform, node: u16, what: u8) {
        let kind = self.library.experiment.kind;
        match what {
            POSTED => {
                self.drain(node);
                for bytes in self.library.pieces() {
                    let side = &mut self.sides[usize::from(node)];
                    let posted = side.channel.queues.post_send(0, piece(bytes));
                    debug_assert_eq!(posted, Ok(()));
                    side.open += 1;
                }
                self.with(platform, node, |channel, view| channel.begin(view));
            }
            RECEIVED => {
                self.drain(node);
                self.prepare(node);
                self.with(platform, node, |channel, view| channel.take(view));
                self.count(platform, node);
                if kind == ExperimentKind::QpairPingPong {
                    self.send(platform, node);
                }
            }
            // A call that sends comes back when its message is there; the next one follows.
            SENT if kind == ExperimentKind::QpairStream => {
                self.send(platform, node);
            }
            _ => {}
        }
    }

    fn count(&mut self, platform: &Platform, node: u16) {
        // To and fro, a round is over when the first node has its answer.
        if self.library.experiment.kind != ExperimentKind::QpairPingPong || node == 0 {
            self.messages.add(platform.now());
        }
    }
}

impl Workload for QueuePair {
    fn start(&mut self, platform: &mut Platform) -> Result<(), String> {
        let bytes = u64::from(self.library.experiment.message_bytes);
        let ocm = self.library.spec.ocm_bytes - self.library.spec.ocm_reserved_bytes;
        if self.library.spec.buffers == Buffers::Ocm && bytes > ocm {
            return Err(format!(
                "experiment.message_bytes: is {bytes}, must be at most {ocm}: what descriptors and \
                 tables leave of the on-chip memory"
            ));
        }
        if self.library.pieces().len() > self.library.spec.queue_entries as usize {
            return Err(format!(
                "experiment.message_bytes: is {bytes}, which takes more descriptors than \
                 qpair.queue_entries, {}",
                self.library.spec.queue_entries
            ));
        }
        for node in 0..2 {
            let peer = EndPoint { node: 1 - node, connection: 0 };
            let side = &mut self.sides[usize::from(node)];
            side.channel.queues.open(peer, (0, bytes)).map_err(|refused| format!("{refused:?}"))?;
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
            Upcall::Room { node } => self.with(platform, node, |channel, view| channel.read(view)),
            Upcall::Message { node, port, packet }
                if packet.channel == packet::Channel::Message =>
            {
                let from = EndPoint { node: packet.source, connection: 0 };
                let part = Part { port, connection: 0, from, bytes: packet.tag, packet };
                self.with(platform, node, |channel, view| channel.arrive(part, view));
            }
            Upcall::Message { node, .. } => {
                self.with(platform, node, |channel, view| channel.answered(Status::Done, view));
            }
            _ => {}
        }
        self.messages.are_complete()
    }

    fn report(&self, platform: &Platform, report: &mut ExtensionReport) {
        let ways = match self.library.experiment.kind {
            ExperimentKind::QpairPingPong => 2.0,
            _ => 1.0,
        };
        let one_way = self.messages.mean_ns() / ways;
        let busy = |node: usize| platform.nodes[node].cores[usize::from(CORE)].busy as f64 / 1000.0;
        report.latency_ns = Some(one_way);
        report.software_ns = Some(2.0 * self.library.spec.library_ns + self.library.woken());
        report.core_ns = Some((busy(0) + busy(1)) / ways / self.messages.done.max(1) as f64);
        report.mbps = Some(f64::from(self.library.experiment.message_bytes) * 8000.0 / one_way);
        report.utilisation(platform, 0);
    }
}

/// A piece of a message, at the start of registered memory.
fn piece(bytes: u32) -> Descriptor {
    Descriptor { offset: 0, size_bytes: bytes.into(), id: 0 }
}
