//! The packets of input VCs.

use std::hint::select_unpredictable;

/// By input VC, its packets in their order: those with flits in the buffer, and at last the one that has got
/// the VC and is on its way. All flits of a VC are in the order of its packets, so nothing else is known of
/// a flit but that it is there.
#[derive(Clone, Debug)]
pub(super) struct Packets {
    pub lines: Vec<Line>,
    /// Packets behind the first, in a ring for each VC.
    rings: Vec<u32>,
    ring_shift: u32,
}

/// The packets of an input VC.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Line {
    /// The packet at the front, if there is one: its place in the slab.
    pub front: u32,
    /// VCs that it may use at its output.
    pub allowed: u32,
    /// Cycle in which it began to ask for one of them, without its upper half.
    pub waits_since: u32,
    /// Its virtual network.
    pub vnet: u8,
    /// Position of the second packet in the ring.
    head: u8,
    /// Packets, with the one at the front: one more than flits fit, since the last may have sent none.
    len: u16,
}

impl Packets {
    /// Of so many VCs, each with a buffer of so many flits.
    pub fn new(vcs: usize, buffer_flits: usize) -> Packets {
        let ring_shift = buffer_flits.next_power_of_two().trailing_zeros();
        let (lines, rings) = (vec![Line::default(); vcs], vec![0; vcs << ring_shift]);
        Packets { lines, rings, ring_shift }
    }

    fn mask(&self) -> u8 {
        ((1u32 << self.ring_shift) - 1) as u8
    }

    /// A packet gets a VC.
    #[inline]
    pub fn push(&mut self, vc: usize, packet: u32) {
        let mask = self.mask();
        let line = &mut self.lines[vc];
        // If it is the first, its place in the ring is free all the same.
        let place = line.head.wrapping_add(line.len as u8).wrapping_sub(1) & mask;
        self.rings[(vc << self.ring_shift) + usize::from(place)] = packet;
        line.front = select_unpredictable(line.len == 0, packet, line.front);
        line.len += 1;
    }

    /// The packet at the front leaves.
    #[inline]
    pub fn pop(&mut self, vc: usize) -> u32 {
        let mask = self.mask();
        let line = &mut self.lines[vc];
        let packet = line.front;
        line.front = self.rings[(vc << self.ring_shift) + usize::from(line.head)];
        line.len -= 1;
        line.head = line.head.wrapping_add(u8::from(line.len > 0)) & mask;
        packet
    }

    /// All packets of a VC, in their order.
    pub fn of(&self, vc: usize) -> impl Iterator<Item = u32> + '_ {
        let (line, mask) = (self.lines[vc], self.mask());
        let front = (line.len > 0).then_some(line.front);
        let behind = (1..line.len).map(move |i| {
            let place = line.head.wrapping_add((i - 1) as u8) & mask;
            self.rings[(vc << self.ring_shift) + usize::from(place)]
        });
        front.into_iter().chain(behind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The deepest buffer, full of packets of a flit, and one that waits for a credit.
    #[test]
    fn a_vc_has_one_packet_more_than_flits_fit() {
        let mut packets = Packets::new(2, 255);
        for round in 0..3 {
            (0..256).for_each(|packet| packets.push(1, packet));
            assert_eq!(packets.of(1).count(), 256, "round {round}");
            (0..256).for_each(|packet| assert_eq!(packets.pop(1), packet));
            assert_eq!(packets.of(1).count() + packets.of(0).count(), 0);
            packets.push(1, round);
            assert_eq!(packets.pop(1), round);
        }
    }
}
