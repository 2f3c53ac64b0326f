//! The transaction layer (DEOI §III): signals of the on-chip interconnect become packets, word by word,
//! and cross to the clock of the links through an asynchronous FIFO for each channel; and back.

use std::collections::VecDeque;

use super::packet::{CHANNELS, Channel, Packet};
use super::time::{Clock, Ps};
use crate::machine::spec::ExtensionSpec;

#[derive(Clone, Copy, Debug)]
pub struct Times {
    pub oci: Clock,
    link: Clock,
    oci_bytes: u32,
    register_cycles: u32,
    write_cycles: u32,
    read_cycles: u32,
}

impl Times {
    /// Of a machine whose link layer has the clock `link`.
    pub fn new(spec: &ExtensionSpec, link: Clock) -> Times {
        Times {
            oci: Clock::of_mhz(spec.oci_mhz),
            link,
            oci_bytes: spec.oci_bytes,
            register_cycles: spec.register_cycles,
            write_cycles: spec.fifo_write_cycles,
            read_cycles: spec.fifo_read_cycles,
        }
    }

    /// The words of a packet, and the register before or after them.
    fn words(&self, bytes: u32) -> Ps {
        self.oci.cycles(self.register_cycles + bytes.div_ceil(self.oci_bytes))
    }

    /// The time at which the other side sees a write into a FIFO at this time.
    fn cross(&self, at: Ps, from: Clock, to: Clock) -> Ps {
        to.edge(at + from.cycles(self.write_cycles)) + to.cycles(self.read_cycles)
    }
}

/// A channel from the on-chip interconnect to the links.
#[derive(Clone, Debug)]
pub struct Outgoing<B = ()> {
    pub fifo: VecDeque<Packet<B>>,
    /// Packets in the FIFO, or on their way into it.
    taken: usize,
    /// Packets that the FIFO has no room for: back pressure on the on-chip interconnect.
    waiting: VecDeque<Packet<B>>,
    free: Ps,
}

impl<B> Default for Outgoing<B> {
    fn default() -> Self {
        Self { fifo: VecDeque::new(), taken: 0, waiting: VecDeque::new(), free: 0 }
    }
}

/// The transaction layer of a module.
#[derive(Clone, Debug)]
pub struct Transactions<B = ()> {
    times: Times,
    capacity: usize,
    pub outgoing: [Outgoing<B>; CHANNELS],
    incoming_free: [Ps; CHANNELS],
    /// Packets that had to wait for room in a FIFO.
    pub held_back: u64,
}

impl<B> Transactions<B> {
    pub fn new(spec: &ExtensionSpec, times: Times) -> Transactions<B> {
        Transactions {
            times,
            capacity: spec.fifo_packets as usize,
            outgoing: std::array::from_fn(|_| Outgoing::default()),
            incoming_free: [0; CHANNELS],
            held_back: 0,
        }
    }

    /// A packet of so many bytes is made. When routing will see it, unless it has to wait.
    pub fn pack(&mut self, now: Ps, packet: Packet<B>, bytes: u32) -> Option<Ps> {
        let channel = &mut self.outgoing[packet.channel.index()];
        if channel.taken == self.capacity {
            channel.waiting.push_back(packet);
            self.held_back += 1;
            return None;
        }
        channel.taken += 1;
        let start = self.times.oci.edge(now).max(channel.free);
        channel.free = start + self.times.words(bytes);
        Some(self.times.cross(channel.free, self.times.oci, self.times.link))
    }

    /// The first packet of a channel has left. The one that has room now, if one waited.
    pub fn leave(&mut self, channel: usize) -> Option<Packet<B>> {
        let channel = &mut self.outgoing[channel];
        channel.fifo.pop_front();
        channel.taken -= 1;
        channel.waiting.pop_front()
    }

    /// A packet has come from a link. When its last word is on the on-chip interconnect.
    pub fn unpack(&mut self, now: Ps, channel: usize, bytes: u32) -> Ps {
        let seen = self.times.cross(now, self.times.link, self.times.oci);
        // Data of a write are not there before its address, which came before them.
        let address = match channel == Channel::WriteData.index() {
            true => self.incoming_free[Channel::WriteAddress.index()],
            false => 0,
        };
        let start = seen.max(self.incoming_free[channel]).max(address);
        self.incoming_free[channel] = start + self.times.words(bytes);
        self.incoming_free[channel]
    }

    /// Packets that have not left for a link.
    pub fn under_way(&self) -> usize {
        self.outgoing.iter().map(|channel| channel.taken + channel.waiting.len()).sum()
    }

    /// Whether the FIFO of a channel takes another packet.
    pub fn has_room(&self, channel: usize) -> bool {
        self.outgoing[channel].taken < self.capacity
    }
}
