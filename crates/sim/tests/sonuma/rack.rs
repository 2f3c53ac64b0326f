//! Nodes of RMC and fake memory, joined by a fake fabric.

use std::collections::VecDeque;

use rackmem_abi::{CqEntry, Packet, WqEntry};
use rackmem_rmc::{QpId, Rights};
use rackmem_sim::engine::{Cycle, Random};
use rackmem_sim::sonuma::common::Lane;
use rackmem_sim::sonuma::ct::QueuePair;
use rackmem_sim::sonuma::driver::{Driver, Rings};
use rackmem_sim::sonuma::mmu::Space;
use rackmem_sim::sonuma::{Fabric, Rmc, RmcSpec};

use super::fake::Fake;

/// The wires between an RMC and the fabric.
#[derive(Default)]
pub struct Port {
    sent: Vec<Packet>,
    taken: [usize; 2],
    /// Nodes that do not take part.
    pub lost: Vec<u16>,
}

impl Fabric for Port {
    fn is_up(&self, nid: u16) -> bool {
        !self.lost.contains(&nid)
    }

    fn send(&mut self, packet: Packet) {
        self.sent.push(packet);
    }

    fn taken(&mut self, lane: Lane) {
        self.taken[lane as usize] += 1;
    }
}

pub struct Node {
    pub rmc: Rmc,
    pub fake: Fake,
    pub driver: Driver,
    pub port: Port,
    arriving: [VecDeque<(Cycle, Packet)>; 2],
    /// Packets for which the RMC has room.
    room: [usize; 2],
    /// Credits on their way back.
    returning: VecDeque<(Cycle, Lane)>,
}

/// Latency and buffers of the fabric.
#[derive(Clone, Copy, Debug)]
pub struct FabricSpec {
    /// Cycles from RMC to RMC.
    pub latency: u64,
    /// Up to so many more, by chance, so that packets overtake each other.
    pub jitter: u64,
    /// Packets of a lane that it holds before it keeps credits back.
    pub window: usize,
}

/// Packets that RMCs have sent: cycle, node, packet.
pub type Log = Vec<(Cycle, usize, Packet)>;

pub struct Rack {
    pub nodes: Vec<Node>,
    pub now: Cycle,
    fabric: FabricSpec,
    random: Random,
    /// Leaves cycles out in which an RMC says that it has nothing to do.
    pub skips: bool,
    pub ticks: u64,
    pub log: Log,
    /// A node that neither sends nor receives.
    lost: Option<usize>,
}

pub const LOCAL: FabricSpec = FabricSpec { latency: 20, jitter: 0, window: usize::MAX };

/// Cycles from a packet to its credit.
const CREDIT_CYCLES: u64 = 2;

impl Rack {
    pub fn new(
        specs: &[RmcSpec],
        memory: u64,
        latency: (u64, u64),
        fabric: FabricSpec,
        seed: u64,
    ) -> Rack {
        let count = specs.len() as u16;
        let node = |(nid, spec): (usize, &RmcSpec)| {
            let mut fake = Fake::new(memory, latency, seed * 16 + nid as u64, spec);
            let driver = Driver::new(spec, 0x2000..memory, 4, &mut fake);
            let rmc = Rmc::new(spec, nid as u16, count, driver.registers()).unwrap();
            let room = [spec.lane_credits as usize; 2];
            Node {
                rmc,
                fake,
                driver,
                port: Port::default(),
                arriving: [VecDeque::new(), VecDeque::new()],
                room,
                returning: VecDeque::new(),
            }
        };
        Rack {
            nodes: specs.iter().enumerate().map(node).collect(),
            now: 0,
            fabric,
            random: Random::new(seed, 200),
            skips: true,
            ticks: 0,
            log: Vec::new(),
            lost: None,
        }
    }

    /// A new cycle: takes the arrivals from memory and fabric.
    pub fn begin(&mut self) {
        self.now += 1;
        for (index, node) in self.nodes.iter_mut().enumerate() {
            if self.lost == Some(index) {
                continue;
            }
            node.begin(self.now, self.fabric.window);
        }
    }

    /// The RMCs have their cycle.
    pub fn end(&mut self) {
        for index in 0..self.nodes.len() {
            if self.lost == Some(index) {
                continue;
            }
            let Node { rmc, fake, port, room, returning, .. } = &mut self.nodes[index];
            if self.skips && rmc.next(self.now).is_none_or(|next| next > self.now) {
                continue;
            }
            self.ticks += 1;
            rmc.tick(self.now, fake, port);
            for (room, taken) in room.iter_mut().zip(&mut port.taken) {
                *room += std::mem::take(taken);
            }
            let sent = std::mem::take(&mut port.sent);
            let credits = sent.iter().map(|packet| (self.now + CREDIT_CYCLES, Lane::of(packet)));
            returning.extend(credits);
            for packet in sent {
                self.log.push((self.now, index, packet));
                self.carry(packet);
            }
        }
    }

    fn carry(&mut self, packet: Packet) {
        let dst = match packet {
            Packet::Request(request) => request.header.dst_nid,
            Packet::Reply(reply) => reply.header.dst_nid,
        };
        if self.lost == Some(usize::from(dst)) {
            return;
        }
        let FabricSpec { latency, jitter, .. } = self.fabric;
        let at = self.now + latency + self.random.below(jitter + 1);
        self.nodes[usize::from(dst)].arriving[Lane::of(&packet) as usize].push_back((at, packet));
    }

    /// A node is gone; the other ones learn of it.
    pub fn lose(&mut self, lost: usize) {
        self.lost = Some(lost);
        for (index, node) in self.nodes.iter_mut().enumerate() {
            if index != lost {
                node.port.lost.push(lost as u16);
                node.rmc.fail_node(lost as u16);
            }
        }
    }

    pub fn core_write(&mut self, node: usize, address: u64, value: u64) {
        let node = &mut self.nodes[node];
        if let Some(line) = node.fake.core_write(address, value) {
            node.rmc.changed(line);
        }
    }

    pub fn is_idle(&self) -> bool {
        let idle = |(index, node): (usize, &Node)| {
            if self.lost == Some(index) {
                return true;
            }
            node.rmc.is_idle()
                && node.fake.is_quiet()
                && node.returning.is_empty()
                && node.arriving.iter().all(VecDeque::is_empty)
        };
        self.nodes.iter().enumerate().all(idle)
    }
}

impl Node {
    fn begin(&mut self, now: Cycle, window: usize) {
        if let Some(line) = self.fake.begin(now) {
            self.rmc.changed(line);
        }
        while let Some(line) = self.fake.arrival() {
            self.rmc.filled(now, line, &mut self.fake);
        }
        let busy: [bool; 2] = std::array::from_fn(|lane| self.arriving[lane].len() >= window);
        let due = |&&(at, lane): &&(Cycle, Lane)| at <= now && !busy[lane as usize];
        if let Some(&credit) = self.returning.iter().find(due) {
            let at = self.returning.iter().position(|other| *other == credit);
            self.returning.remove(at.unwrap());
            self.rmc.credit(credit.1);
        }
        for lane in 0..2 {
            while self.room[lane] > 0 {
                let due = self.arriving[lane].iter().position(|packet| packet.0 <= now);
                let Some((_, packet)) = due.and_then(|at| self.arriving[lane].remove(at)) else {
                    break;
                };
                self.room[lane] -= 1;
                self.rmc.deliver(packet);
            }
        }
    }

    /// A range of virtual addresses on pages that are spread over memory.
    pub fn map(
        &mut self,
        space: Space,
        virt: std::ops::Range<u64>,
        page: u64,
        random: &mut Random,
    ) {
        let first = virt.start / page;
        let count = virt.end.div_ceil(page) - first;
        let mut frames: Vec<u64> = (0..count).map(|_| self.driver.allocate(page, page)).collect();
        for index in (1..frames.len()).rev() {
            frames.swap(index, random.below(index as u64 + 1) as usize);
        }
        for (number, frame) in (first..).zip(frames) {
            let Node { driver, fake, .. } = self;
            driver.map(space, number * page, frame, 0, Rights::ReadWrite, fake);
        }
    }

    /// Physical address of a mapped virtual one.
    pub fn phys(&self, space: Space, virt: u64) -> u64 {
        let mapping = self.driver.walk(space, virt, &self.fake).expect("a mapped address");
        mapping.phys | (virt & ((1 << mapping.shift) - 1))
    }

    /// Bytes at a virtual address.
    pub fn read(&self, space: Space, virt: u64, bytes: usize) -> Vec<u8> {
        let mut out = Vec::with_capacity(bytes);
        while out.len() < bytes {
            let at = virt + out.len() as u64;
            let phys = self.phys(space, at);
            let length = (64 - at % 64).min((bytes - out.len()) as u64);
            let byte = |at: u64| (self.fake.words[at as usize / 8] >> (at % 8 * 8)) as u8;
            out.extend((phys..phys + length).map(byte));
        }
        out
    }

    /// Sets bytes at a virtual address.
    pub fn write(&mut self, space: Space, virt: u64, bytes: &[u8]) {
        for (at, byte) in (virt..).zip(bytes) {
            let phys = self.phys(space, at);
            let word = &mut self.fake.words[phys as usize / 8];
            let shift = phys % 8 * 8;
            *word = *word & !(0xff << shift) | u64::from(*byte) << shift;
        }
    }
}

/// A queue pair as software sees it.
pub struct CoreQp {
    pub node: usize,
    pub id: QpId,
    pub place: QueuePair,
    head: u64,
    tail: u64,
    /// Slots in use.
    pub busy: Vec<bool>,
    /// Stored last, in a later cycle.
    word: Option<(u64, u64)>,
}

impl CoreQp {
    pub fn new(rack: &mut Rack, node: usize, ctx_id: u16, size: u16, rights: Rights) -> CoreQp {
        let Node { rmc, fake, driver, .. } = &mut rack.nodes[node];
        let are_quiet = |rings: &Rings| {
            let [_, cq] = rings.ranges();
            !rmc.has_store_to(&(cq.start / 64..cq.end / 64))
        };
        let place = driver.add_queues(ctx_id, (size, rights), are_quiet, fake).expect("room");
        let rings = Rings { wq: place.wq, cq: place.cq, size };
        for address in rings.ranges().into_iter().flat_map(|ring| ring.step_by(8)) {
            if fake.words[address as usize / 8] != 0 {
                fake.core_write(address, 0).into_iter().for_each(|line| rmc.changed(line));
            }
        }
        let id = rmc.attach(ctx_id, place).expect("a register");
        CoreQp { node, id, place, head: 0, tail: 0, busy: vec![false; size.into()], word: None }
    }

    /// The slot of the next entry, if it is free.
    pub fn slot(&self) -> Option<usize> {
        let slot = (self.head % u64::from(self.place.size)) as usize;
        (!self.busy[slot] && self.word.is_none()).then_some(slot)
    }

    /// Posts an entry: its last word now, the first in a later cycle by [`CoreQp::publish`].
    pub fn post(&mut self, rack: &mut Rack, entry: WqEntry) {
        let slot = self.slot().expect("a free slot");
        let size = u64::from(self.place.size);
        let words = WqEntry { phase: self.head / size % 2 == 0, ..entry }.encode();
        let address = self.place.wq + slot as u64 * 16;
        rack.core_write(self.node, address + 8, words[1]);
        self.word = Some((address, words[0]));
        self.busy[slot] = true;
        self.head += 1;
    }

    pub fn publish(&mut self, rack: &mut Rack) {
        if let Some((address, word)) = self.word.take() {
            rack.core_write(self.node, address, word);
        }
    }

    /// The next completion: slot and status code.
    pub fn poll(&mut self, rack: &mut Rack) -> Option<(usize, u8)> {
        let size = u64::from(self.place.size);
        let address = self.place.cq + self.tail % size * 4;
        let word = rack.nodes[self.node].fake.core_read(address & !7) >> (address % 8 * 8);
        let entry = CqEntry::decode(word as u32);
        if entry.phase != (self.tail / size % 2 == 0) {
            return None;
        }
        self.tail += 1;
        let slot = usize::from(entry.slot);
        assert!(std::mem::replace(&mut self.busy[slot], false), "slot {slot} completed twice");
        Some((slot, entry.status_code))
    }
}
