//! The queue pair channel of a node: descriptors, bursts, packets, completions.

use rackmem_rmc::two_sided::{Descriptor, Status};

use super::{CORE, DONE, QueuePair, RECEIVED, SENT};
use crate::interconnect::node::{Call, Op};
use crate::interconnect::packet::{Access, Channel, Master, Packet};
use crate::interconnect::platform::Platform;
use crate::interconnect::qpair::{EndPoint, Refused};
use crate::interconnect::time::ps;
use crate::machine::spec::{Buffers, Translation};

/// An access of a node's channel, for which it waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The descriptor of a message to be sent.
    SendDescriptor,
    /// A burst of its data.
    Read,
    /// The descriptor of a buffer.
    ReceiveDescriptor,
    /// A burst of data that has come.
    Write,
    ReceiveCompletion,
    SendCompletion,
}

const STEPS: [Step; 6] = [
    Step::SendDescriptor,
    Step::Read,
    Step::ReceiveDescriptor,
    Step::Write,
    Step::ReceiveCompletion,
    Step::SendCompletion,
];

impl QueuePair {
    /// An access of the channel to data or queues of its node.
    fn access(&mut self, platform: &mut Platform, node: u16, step: Step, bytes: u32, offset: u32) {
        let argument = step as u32 | u32::from(node) << 3 | bytes << 4;
        let is_data = matches!(step, Step::Read | Step::Write);
        let in_l2 =
            !is_data || u64::from(self.experiment.message_bytes) <= self.spec.l2_message_bytes;
        let delay = match self.spec.buffers {
            Buffers::Ocm => Some(self.spec.ocm_ns),
            Buffers::Cached if in_l2 => Some(self.spec.l2_ns),
            Buffers::Cached | Buffers::Uncached => None,
        };
        match delay {
            Some(ns) => platform.later(ps(ns), Call { what: DONE, argument }),
            None => {
                let is_write =
                    !matches!(step, Step::Read | Step::SendDescriptor | Step::ReceiveDescriptor);
                let address = if is_data { u64::from(offset) } else { 1 << 29 };
                let master = Master::Qpair(argument);
                let now = platform.now();
                platform.access(Access::new(master, node, is_write, address, bytes, now));
            }
        }
    }

    /// The channel begins the next message, if there is one.
    pub(super) fn begin(&mut self, platform: &mut Platform, node: u16) {
        let side = &mut self.sides[usize::from(node)];
        if side.sending.is_some() {
            return;
        }
        let Ok(Some(next)) = side.queues.sending(0) else { return };
        side.sending = Some(next);
        (side.asked, side.read, side.reading, side.packed) = (0, 0, 0, 0);
        self.lengths[usize::from(node)] = next.size_bytes as u32;
        self.access(platform, node, Step::SendDescriptor, self.spec.descriptor_bytes, 0);
    }

    /// Reads bursts as long as some may be under way and the link takes packets.
    pub(super) fn read(&mut self, platform: &mut Platform, node: u16) {
        loop {
            let side = &mut self.sides[usize::from(node)];
            let Some(Descriptor { size_bytes, .. }) = side.sending else { return };
            let all = size_bytes as u32;
            let has_room = platform.has_room(node, Channel::Message);
            if side.asked == all || side.reading == self.spec.bursts || !has_room {
                return;
            }
            let bytes = self.spec.burst_bytes.min(all - side.asked);
            let offset = side.asked;
            side.asked += bytes;
            side.reading += 1;
            self.access(platform, node, Step::Read, bytes, offset);
        }
    }

    /// Makes packets of data that have been read.
    pub(super) fn pack(&mut self, platform: &mut Platform, node: u16) {
        let side = &mut self.sides[usize::from(node)];
        let Some(Descriptor { size_bytes, .. }) = side.sending else { return };
        let all = size_bytes as u32;
        while side.read - side.packed >= self.spec.packet_bytes
            || (side.read == all && side.packed < all)
        {
            let bytes = self.spec.packet_bytes.min(side.read - side.packed);
            side.packed += bytes;
            let is_last = u32::from(side.packed == bytes);
            let packet = Packet::new(Channel::Message, node, 1 - node, is_last, bytes);
            platform.send(node, packet);
        }
    }

    /// Packets of the message that comes: they wait for its descriptor, then go to memory.
    pub(super) fn take(&mut self, platform: &mut Platform, node: u16) {
        let side = &mut self.sides[usize::from(node)];
        let Some(&(port, packet)) = side.packets.first() else { return };
        if side.coming.is_none() {
            let from = EndPoint { node: 1 - node, connection: 0 };
            let bytes = self.lengths[usize::from(1 - node)];
            match side.queues.arriving(0, from, bytes) {
                // A message without a buffer waits, and with it the link: back pressure.
                Err(Refused::NotPosted) => return,
                Ok(Some(buffer)) => side.coming = Some((bytes, buffer)),
                Ok(None) | Err(_) => {
                    debug_assert!(false, "buffers are as long as messages");
                    return;
                }
            }
            (side.written, side.writing, side.to_write) = (0, 0, 0);
            let bytes = self.spec.descriptor_bytes;
            return self.access(platform, node, Step::ReceiveDescriptor, bytes, 0);
        }
        if side.to_write == 0 && side.writing < self.spec.bursts {
            side.packets.remove(0);
            side.to_write = packet.bytes;
            platform.consume(node, port, &packet);
        }
        self.write(platform, node);
    }

    pub(super) fn write(&mut self, platform: &mut Platform, node: u16) {
        loop {
            let side = &mut self.sides[usize::from(node)];
            if side.to_write == 0 || side.writing == self.spec.bursts {
                break;
            }
            let bytes = self.spec.burst_bytes.min(side.to_write);
            let offset = side.written + side.writing * self.spec.burst_bytes;
            side.to_write -= bytes;
            side.writing += 1;
            self.access(platform, node, Step::Write, bytes, offset);
        }
        let side = &self.sides[usize::from(node)];
        if side.to_write == 0 && side.writing < self.spec.bursts && !side.packets.is_empty() {
            self.take(platform, node);
        }
    }

    /// An access of the channel is done.
    pub(super) fn done(&mut self, platform: &mut Platform, argument: u32) {
        let (node, bytes) = ((argument >> 3 & 1) as u16, argument >> 4);
        let number = usize::from(node);
        match STEPS[(argument & 7) as usize] {
            Step::SendDescriptor => {
                if self.spec.translation == Translation::Channel {
                    let work = self.oci.cycles(self.spec.mmu_cycles);
                    // The translated address is there before the first burst is asked for.
                    return platform.later(
                        work,
                        Call { what: DONE, argument: Step::Read as u32 | u32::from(node) << 3 },
                    );
                }
                self.read(platform, node);
            }
            Step::Read => {
                let side = &mut self.sides[number];
                side.read += bytes;
                side.reading -= u32::from(bytes > 0);
                self.pack(platform, node);
                self.read(platform, node);
            }
            Step::ReceiveDescriptor => self.take(platform, node),
            Step::Write => {
                let side = &mut self.sides[number];
                side.written += bytes;
                side.writing -= 1;
                if side.coming.is_some_and(|(all, _)| side.written == all) {
                    let bytes = self.spec.descriptor_bytes;
                    return self.access(platform, node, Step::ReceiveCompletion, bytes, 0);
                }
                self.write(platform, node);
            }
            Step::ReceiveCompletion => self.received(platform, node),
            Step::SendCompletion => {
                let side = &mut self.sides[number];
                let sent = side.queues.sent(0, Status::Done);
                debug_assert_eq!(sent, Ok(()));
                side.sending = None;
                side.open -= 1;
                if side.open == 0 {
                    let work = ps(self.spec.poll_ns + self.touch() + self.spec.library_ns / 2.0);
                    platform.thread(node, CORE, [Op::Work(work), Op::call(SENT)]);
                }
                self.begin(platform, node);
            }
        }
    }

    /// A message, or a page of it, is in its buffer.
    pub(super) fn received(&mut self, platform: &mut Platform, node: u16) {
        let side = &mut self.sides[usize::from(node)];
        let Some((bytes, _)) = side.coming.take() else { return };
        let arrived = side.queues.arrived(0, bytes);
        debug_assert_eq!(arrived, Ok(Status::Done));
        side.have += bytes;
        let answer = Packet::new(Channel::MessageResponse, node, 1 - node, 0, 0);
        platform.send(node, answer);
        if side.have == self.experiment.message_bytes {
            side.have = 0;
            let library = self.spec.library_ns + self.copy();
            let work = ps(self.spec.poll_ns + self.touch() + library);
            platform.thread(node, CORE, [Op::Work(work), Op::call(RECEIVED)]);
        }
        self.take(platform, node);
    }

    /// The other end has answered: the send completes.
    pub(super) fn answered(&mut self, platform: &mut Platform, node: u16) {
        self.access(platform, node, Step::SendCompletion, self.spec.descriptor_bytes, 0);
    }
}
