//! The channel of a node without contents: times of its accesses, and the library that waits for it.

use rackmem_rmc::two_sided::Status;

use super::{CORE, DONE, Library, QueuePair, RECEIVED, SENT, Side};
use crate::interconnect::channel::{Channel, Host, Message, Part, Step};
use crate::interconnect::node::{Call, Op};
use crate::interconnect::packet::{self, Access, Master, Packet};
use crate::interconnect::platform::Platform;
use crate::interconnect::qpair::Refused;
use crate::interconnect::time::ps;
use crate::machine::spec::Buffers;

/// A node around its channel.
pub(super) struct View<'a> {
    platform: &'a mut Platform,
    node: u16,
    library: &'a Library,
    open: &'a mut u32,
    have: &'a mut u32,
}

impl QueuePair {
    /// Does something with the channel of a node.
    pub(super) fn with(
        &mut self,
        platform: &mut Platform,
        node: u16,
        work: impl FnOnce(&mut Channel, &mut View<'_>),
    ) {
        let QueuePair { library, sides, .. } = self;
        let Side { channel, open, have } = &mut sides[usize::from(node)];
        work(channel, &mut View { platform, node, library, open, have });
    }

    /// An access of a channel is done.
    pub(super) fn done(&mut self, platform: &mut Platform, argument: u32) {
        let (node, bytes) = ((argument >> 3 & 1) as u16, argument >> 4);
        let step = Step::ALL[(argument & 7) as usize];
        self.with(platform, node, |channel, view| channel.done(step, 1 - node, bytes, view));
    }
}

impl Host<()> for View<'_> {
    fn access(&mut self, step: Step, _of: &Message, bytes: u32, offset: u32) {
        let spec = &self.library.spec;
        let argument = step as u32 | u32::from(self.node) << 3 | bytes << 4;
        let message_bytes = u64::from(self.library.experiment.message_bytes);
        let in_l2 = !step.is_data() || message_bytes <= spec.l2_message_bytes;
        let delay = match spec.buffers {
            _ if step == Step::Translation => Some(self.library.oci.cycles(spec.mmu_cycles)),
            Buffers::Ocm => Some(ps(spec.ocm_ns)),
            Buffers::Cached if in_l2 => Some(ps(spec.l2_ns)),
            Buffers::Cached | Buffers::Uncached => None,
        };
        match delay {
            Some(delay) => self.platform.later(delay, Call { what: DONE, argument }),
            None => {
                let address = if step.is_data() { u64::from(offset) } else { 1 << 29 };
                let (master, now) = (Master::Qpair(argument), self.platform.now());
                let write = step.is_write();
                self.platform.access(Access::new(master, self.node, write, address, bytes, now));
            }
        }
    }

    fn has_room(&self) -> bool {
        self.platform.has_room(self.node, packet::Channel::Message)
    }

    fn send(&mut self, of: &Message, bytes: u32, _offset: u32) {
        let node = self.node;
        let packet = Packet::new(packet::Channel::Message, node, of.peer.node, of.bytes, bytes);
        self.platform.send(node, packet);
    }

    fn take(&mut self, part: &Part<()>, _of: &Message, _offset: u32) {
        self.platform.consume(self.node, part.port, &part.packet);
    }

    fn received(&mut self, of: &Message, result: Result<Status, Refused>) {
        debug_assert_eq!(result, Ok(Status::Done));
        *self.have += of.bytes;
        let (node, peer) = (self.node, of.peer.node);
        let answer = Packet::new(packet::Channel::MessageResponse, node, peer, 0, 0);
        self.platform.send(node, answer);
        if *self.have == self.library.experiment.message_bytes {
            *self.have = 0;
            let work = self.library.woken() + self.library.spec.library_ns + self.library.copy();
            self.platform.thread(node, CORE, [Op::Work(ps(work)), Op::call(RECEIVED)]);
        }
    }

    fn sent(&mut self, _of: &Message, _status: Status) {
        *self.open -= 1;
        if *self.open == 0 {
            let work = self.library.woken() + self.library.spec.library_ns / 2.0;
            self.platform.thread(self.node, CORE, [Op::Work(ps(work)), Op::call(SENT)]);
        }
    }
}
