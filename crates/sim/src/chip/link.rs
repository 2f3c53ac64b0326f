//! The fabric interface of an RMC (soNUMA §6): two virtual lanes, and credits for the buffers at the
//! other ends.

use std::collections::VecDeque;

use rackmem_abi::Packet;

use super::message::{Payload, header};
use super::wires::Wires;
use crate::sonuma::{Fabric, Lane};

const LANES: [Lane; 2] = [Lane::Request, Lane::Reply];

#[derive(Clone, Copy, Debug)]
pub enum Freight {
    /// A request or a reply.
    Packet(Packet),
    /// A place in the sender's buffer for this node is free again.
    Credit(Lane),
}

/// The interface of one node.
#[derive(Clone, Debug)]
pub struct Link {
    /// Packets that the RMC has sent, by lane.
    outgoing: [VecDeque<Packet>; 2],
    /// Packets that have come, by lane.
    incoming: [VecDeque<Packet>; 2],
    /// Packets for which there is room at each node, by lane.
    credits: [Vec<u32>; 2],
    /// Packets for which the RMC has room, by lane.
    room: [u32; 2],
    /// Index of the lane whose turn it is: they share the wires.
    turn: usize,
    /// Nodes that have gone.
    lost: Vec<bool>,
}

impl Link {
    /// The interface of a node in a rack of `nodes`; `credits` packets fit at every other node,
    /// `room` into the RMC.
    pub fn new(nodes: u16, credits: u32, room: u32) -> Link {
        let each = || vec![credits; usize::from(nodes)];
        Link {
            outgoing: [VecDeque::new(), VecDeque::new()],
            incoming: [VecDeque::new(), VecDeque::new()],
            credits: [each(), each()],
            room: [room; 2],
            turn: 0,
            lost: vec![false; usize::from(nodes)],
        }
    }

    /// Something has come from another node.
    pub fn receive(&mut self, from: u16, freight: Freight) {
        match freight {
            Freight::Packet(packet) => self.incoming[Lane::of(&packet) as usize].push_back(packet),
            Freight::Credit(lane) => self.credits[lane as usize][usize::from(from)] += 1,
        }
    }

    /// A node has gone: packets for it vanish.
    pub fn lose(&mut self, nid: u16) {
        self.lost[usize::from(nid)] = true;
    }

    /// Puts a packet on the wires if one can go; its lane, on which there is room again.
    pub fn depart(&mut self, wires: &mut Wires) -> Option<Lane> {
        for step in 0..LANES.len() {
            let lane = LANES[(self.turn + step) % LANES.len()];
            let Some(&packet) = self.outgoing[lane as usize].front() else { continue };
            let to = header(&packet).dst_nid;
            let credits = &mut self.credits[lane as usize][usize::from(to)];
            if *credits == 0 && !self.lost[usize::from(to)] {
                continue;
            }
            *credits = credits.saturating_sub(1);
            self.outgoing[lane as usize].pop_front();
            self.send_to(to, Freight::Packet(packet), wires);
            self.turn = (lane as usize + 1) % LANES.len();
            return Some(lane);
        }
        None
    }

    /// The next packet that the RMC has room for.
    pub fn next_arrival(&mut self, wires: &mut Wires) -> Option<Packet> {
        let lane = LANES.into_iter().find(|&lane| {
            self.room[lane as usize] > 0 && !self.incoming[lane as usize].is_empty()
        })?;
        let packet = self.incoming[lane as usize].pop_front()?;
        self.room[lane as usize] -= 1;
        self.send_to(header(&packet).src_nid, Freight::Credit(lane), wires);
        Some(packet)
    }

    fn send_to(&self, to: u16, freight: Freight, wires: &mut Wires) {
        wires.depart_after(0, to, Payload::Freight { from: wires.nid, freight });
    }

    /// Whether there is something to do in the next cycle.
    pub fn is_busy(&self) -> bool {
        let can_go = |lane: Lane| {
            self.outgoing[lane as usize].front().is_some_and(|packet| {
                let to = usize::from(header(packet).dst_nid);
                self.credits[lane as usize][to] > 0 || self.lost[to]
            })
        };
        let can_come =
            |lane: Lane| self.room[lane as usize] > 0 && !self.incoming[lane as usize].is_empty();
        LANES.into_iter().any(|lane| can_go(lane) || can_come(lane))
    }

    /// Packets that wait here.
    pub fn waiting(&self) -> usize {
        self.outgoing.iter().chain(&self.incoming).map(VecDeque::len).sum()
    }
}

impl Fabric for Link {
    fn is_up(&self, nid: u16) -> bool {
        self.lost.get(usize::from(nid)).is_some_and(|lost| !lost)
    }

    fn send(&mut self, packet: Packet) {
        self.outgoing[Lane::of(&packet) as usize].push_back(packet);
    }

    fn taken(&mut self, lane: Lane) {
        self.room[lane as usize] += 1;
    }
}
