//! The fabric interface of an RMC, or of one of those at a chip's edge (soNUMA §6): two virtual lanes, and credits
//! for the buffers at the other ends.

use std::collections::VecDeque;

use rackmem_abi::Packet;

use super::message::{NetPacket, Payload, header};
use super::wires::Wires;
use crate::engine::Cycle;
use crate::sonuma::{Fabric, Lane};

const LANES: [Lane; 2] = [Lane::Request, Lane::Reply];

/// A packet that waits for the wires.
#[derive(Clone, Copy, Debug)]
struct Outgoing {
    packet: NetPacket,
    /// The first cycle in which it may leave; it may be over only when it comes.
    ready_at: Cycle,
    /// The cycle in which it came.
    put_at: Cycle,
}

/// One interface of a node. Those with the same number in all nodes are joined.
#[derive(Clone, Debug)]
pub struct Link {
    number: u16,
    /// Packets that are sent, by lane.
    outgoing: [VecDeque<Outgoing>; 2],
    /// Packets that have come, by lane, each with the cycle in which it did.
    incoming: [VecDeque<(Cycle, NetPacket)>; 2],
    /// Packets for which there is room at each node, by lane.
    credits: [Vec<u32>; 2],
    /// Packets for which there is room while none are there.
    most: u32,
    /// Packets for which the RMC has room, by lane.
    room: [u32; 2],
    /// Index of the lane whose turn it is: they share the wires.
    turn: usize,
    /// Index of the lane from which a packet is taken next, if there is one.
    arrival_turn: usize,
    /// The first cycle in which the wires take a packet.
    free_at: Cycle,
    /// The last cycle in which a packet could depart.
    looked_at: Cycle,
    /// Nodes that have gone.
    lost: Vec<bool>,
}

impl Link {
    /// Interface `number` of a node in a rack of `nodes`; `credits` packets fit at every other node,
    /// `room` into the RMC.
    pub fn new(number: u16, nodes: u16, credits: u32, room: u32) -> Link {
        let each = || vec![credits; usize::from(nodes)];
        Link {
            number,
            outgoing: [VecDeque::new(), VecDeque::new()],
            incoming: [VecDeque::new(), VecDeque::new()],
            credits: [each(), each()],
            most: credits,
            room: [room; 2],
            turn: 0,
            arrival_turn: 0,
            free_at: 0,
            looked_at: 0,
            lost: vec![false; usize::from(nodes)],
        }
    }

    /// A packet has come from another node. Those that come in the same cycle go on in the order of their nodes.
    pub fn receive(&mut self, packet: NetPacket, now: Cycle) {
        let lane = &mut self.incoming[Lane::of(&packet.packet) as usize];
        let source = |packet: &NetPacket| header(&packet.packet).src_nid;
        let is_before =
            |(at, other): &(Cycle, NetPacket)| *at < now || source(other) <= source(&packet);
        let place = lane.iter().rposition(is_before).map_or(0, |last| last + 1);
        lane.insert(place, (now, packet));
    }

    /// A node has room for one more packet.
    pub fn credit(&mut self, from: u16, lane: Lane) {
        let credits = &mut self.credits[lane as usize][usize::from(from)];
        *credits += 1;
        debug_assert!(*credits <= self.most, "a credit too many");
    }

    /// A node has gone: packets for it vanish.
    pub fn lose(&mut self, nid: u16) {
        self.lost[usize::from(nid)] = true;
    }

    /// Takes a packet now that leaves in `ready_at` or later. Returns true if it is the first of its lane: others
    /// change nothing for now.
    pub fn put(&mut self, packet: NetPacket, ready_at: Cycle, now: Cycle) -> bool {
        let lane = &mut self.outgoing[Lane::of(&packet.packet) as usize];
        lane.push_back(Outgoing { packet, ready_at, put_at: now });
        lane.len() == 1
    }

    /// Puts a packet on the wires, which take one a cycle, if one can go. There is room on its lane again.
    /// Returns the cycle in which its first flit leaves, which may be over.
    pub fn depart(&mut self, wires: &mut Wires) -> Option<(Cycle, NetPacket)> {
        self.looked_at = wires.now;
        if self.free_at > wires.now {
            return None;
        }
        for step in 0..LANES.len() {
            let lane = LANES[(self.turn + step) % LANES.len()];
            let Some(first) = self.outgoing[lane as usize].front() else { continue };
            let to = first.packet.destination();
            if first.ready_at > wires.now || !self.may_go_to(to, lane) {
                continue;
            }
            let Some(first) = self.outgoing[lane as usize].pop_front() else { continue };
            let Outgoing { packet, ready_at, put_at } = first;
            let credits = &mut self.credits[lane as usize][usize::from(to)];
            *credits = credits.saturating_sub(1);
            // One that has waited leaves now.
            let earliest = if put_at == wires.now { ready_at } else { wires.now };
            let leaves_at = earliest.max(self.free_at);
            self.free_at = leaves_at + 1;
            wires.depart_at(leaves_at, to, Payload::Net(packet));
            self.turn = (lane as usize + 1) % LANES.len();
            return Some((leaves_at, packet));
        }
        None
    }

    /// Whether a node has room for a packet, or is lost.
    fn may_go_to(&self, to: u16, lane: Lane) -> bool {
        self.credits[lane as usize][usize::from(to)] > 0 || self.lost[usize::from(to)]
    }

    /// The first cycle after this one in which a packet can depart, unless a credit comes.
    pub fn next_departure(&self, now: Cycle) -> Option<Cycle> {
        let at = |lane: Lane| {
            let first = self.outgoing[lane as usize].front()?;
            let may_go = self.may_go_to(first.packet.destination(), lane);
            may_go.then_some(first.ready_at.max(self.free_at).max(now + 1))
        };
        LANES.into_iter().filter_map(at).min()
    }

    /// Packets that the parts behind the interface have room for now, by lane.
    pub fn set_room(&mut self, room: [u32; 2]) {
        self.room = room;
    }

    /// The next packet that there is room for, from the lanes in turn. Its place is free again.
    pub fn next_arrival(&mut self, wires: &mut Wires) -> Option<NetPacket> {
        let lanes = [self.arrival_turn, (self.arrival_turn + 1) % LANES.len()];
        let lane = lanes.into_iter().map(|lane| LANES[lane]).find(|&lane| self.can_come(lane))?;
        let (_, packet) = self.incoming[lane as usize].pop_front()?;
        self.arrival_turn = (lane as usize + 1) % LANES.len();
        self.room[lane as usize] -= 1;
        let from = header(&packet.packet).src_nid;
        let credit = Payload::Credit { link: self.number, from: wires.nid, lane };
        wires.depart_at(wires.now, from, credit);
        Some(packet)
    }

    fn can_come(&self, lane: Lane) -> bool {
        self.room[lane as usize] > 0 && !self.incoming[lane as usize].is_empty()
    }

    /// Whether packets have come that wait for room.
    pub fn has_arrivals(&self) -> bool {
        self.incoming.iter().any(|packets| !packets.is_empty())
    }

    /// Whether there is something to do in the next cycle.
    pub fn is_busy(&self) -> bool {
        let can_go = |lane: Lane| {
            let first = self.outgoing[lane as usize].front();
            first.is_some_and(|first| self.may_go_to(first.packet.destination(), lane))
        };
        LANES.into_iter().any(|lane| can_go(lane) || self.can_come(lane))
    }

    /// Packets that wait here.
    pub fn waiting(&self) -> usize {
        self.outgoing.iter().map(VecDeque::len).sum::<usize>()
            + self.incoming.iter().map(VecDeque::len).sum::<usize>()
    }
}

impl Fabric for Link {
    fn is_up(&self, nid: u16) -> bool {
        self.lost.get(usize::from(nid)).is_some_and(|lost| !lost)
    }

    fn send(&mut self, packet: Packet) {
        // It is on the wires a cycle after the RMC has made it.
        self.put(NetPacket::of(packet), self.looked_at + 1, self.looked_at);
    }

    fn taken(&mut self, lane: Lane) {
        self.room[lane as usize] += 1;
    }
}
