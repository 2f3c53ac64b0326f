//! A chip with a mirror at the end of its cable. All that its parts do to memory is compared with
//! the oracle while it runs.

use rackmem_abi::{Op, Packet, Reply, Request};
use rackmem_sim::block::Line;
use rackmem_sim::chip::Chip;
use rackmem_sim::chip::driver::{Access, Asked, Performed};
use rackmem_sim::chip::layout::Part;
use rackmem_sim::chip::message::{NetPacket, Payload};
use rackmem_sim::chip::ni::Ni;
use rackmem_sim::chip::wires::{Departure, Updated};
use rackmem_sim::coherence::Party;
use rackmem_sim::machine::Machine;
use rackmem_sim::machine::spec::Placement;
use rackmem_sim::sonuma::Lane;

use super::oracle::{Oracle, bytes_of, written};
use super::remote::Remote;
use super::software::{Operation, SOFTWARE, Software};

/// Transactions with this bit are none of the chip's: of somebody at the other end of the cable.
pub const STRANGER: u32 = 1 << 31;

/// Bytes that an RCP has to store.
struct Store {
    party: Party,
    line: Line,
    at: usize,
    bytes: Vec<u8>,
    /// It has been seen.
    used: bool,
}

/// A chip under observation.
pub struct Bench {
    pub chip: Chip,
    pub oracle: Oracle,
    pub remote: Remote,
    pub software: Vec<Software>,
    stores: Vec<Store>,
    mistaken: usize,
    network_cycles: u64,
    /// Requests of strangers whose credits have not come back, by link.
    uncounted: Vec<u32>,
    placement: Placement,
    /// Sum of what cores have added to each word of the first block of the segment.
    pub added: [u64; 8],
}

impl Bench {
    pub fn new(machine: &Machine) -> Bench {
        let mut chip = Chip::new(machine, 0, 2).expect("a network that can be built");
        chip.wires.updates = Some(Vec::new());
        chip.start();
        let software = |tile| Software::new(tile, machine.ni.wq_entries);
        Bench {
            software: (0..chip.wires.layout.tiles).map(software).collect(),
            uncounted: vec![0; usize::from(chip.wires.layout.units)],
            chip,
            oracle: Oracle::default(),
            remote: Remote::new(machine.workload.footprint_bytes),
            stores: Vec::new(),
            mistaken: 0,
            network_cycles: machine.cycles(machine.network.hop_latency_ns),
            placement: machine.ni.placement,
            added: [0; 8],
        }
    }

    pub fn now(&self) -> u64 {
        self.chip.wires.now
    }

    /// An access of a core.
    pub fn ask(&mut self, tile: u16, asked: Asked) {
        let Chip { tiles, wires, .. } = &mut self.chip;
        tiles[usize::from(tile)].ask(asked, wires);
        self.see_accesses();
    }

    /// Software on a core goes on.
    pub fn go_on(&mut self, tile: u16) {
        self.software[usize::from(tile)].go_on(&mut self.chip);
        self.see_accesses();
    }

    /// A request of another node arrives in the next cycle.
    pub fn receive(&mut self, engine: u16, request: Request) {
        let arrives = self.now() + 1;
        self.remote.request(engine, request, &self.chip.wires.layout, arrives);
        let packet = NetPacket::request(request, engine);
        let link = self.chip.wires.layout.unit_of_packet(&packet);
        self.uncounted[usize::from(link)] += 1;
        self.chip.receive(1, Payload::Net(packet));
    }

    /// Simulates the next cycle.
    pub fn cycle(&mut self) {
        let now = self.now() + 1;
        self.chip.cycle(now);
        self.see_updates();
        self.see_accesses();
        for Departure { cycle, payload, .. } in std::mem::take(&mut self.chip.wires.departures) {
            let delay = cycle + self.network_cycles - now;
            match payload {
                Payload::Net(packet) => self.depart(delay, packet),
                Payload::Credit { link, lane, .. } => self.credit(delay, link, lane),
                other => panic!("{other:?} left the chip"),
            }
        }
    }

    /// A credit leaves the chip. One for a request of a stranger has not been taken from the chip.
    fn credit(&mut self, delay: u64, link: u16, lane: Lane) {
        let uncounted = &mut self.uncounted[usize::from(link)];
        if lane == Lane::Request && *uncounted > 0 {
            *uncounted -= 1;
        } else {
            self.chip.receive(delay, Payload::Credit { link, from: 1, lane });
        }
    }

    /// Whether the chip has no queue pairs.
    pub fn is_numa(&self) -> bool {
        self.placement == Placement::Numa
    }

    /// Ends the polling of queues in their homes, which goes on without anything to see. Software is done.
    pub fn end_polling(&mut self) {
        let Chip { wires, tiles, ni, .. } = &mut self.chip;
        if let (Placement::Uncached, Ni::QueuePairs(ni)) = (self.placement, ni) {
            (0..wires.layout.tiles).for_each(|qp| ni.detach(qp, &wires.layout, tiles));
        }
    }

    /// Whether nothing will happen any more.
    pub fn is_at_rest(&self) -> bool {
        self.chip.next_cycle().is_none()
    }

    /// Stores that RCPs have not made.
    pub fn missing_stores(&self) -> usize {
        let unused = self.stores.iter().filter(|store| !store.used).count();
        assert!(self.mistaken <= 5 + self.stores.len() / 10, "{} are ambiguous", self.mistaken);
        unused - self.mistaken.min(unused)
    }

    fn see_accesses(&mut self) {
        for tile in 0..self.chip.tiles.len() {
            while !self.chip.tiles[tile].driver.performed.is_empty() {
                let all = std::mem::take(&mut self.chip.tiles[tile].driver.performed);
                all.iter().for_each(|performed| self.see_access(tile, performed));
            }
        }
    }

    fn see_access(&mut self, tile: usize, performed: &Performed) {
        let Performed { asked: Asked { id, line, word, access }, found } = *performed;
        if id == SOFTWARE {
            return self.software[tile].performed(performed, &mut self.chip);
        }
        let (now, expected) = (self.now(), self.oracle.current(line));
        assert_eq!(found, expected, "cycle {now}: core {tile} found in {line:#x} by {access:?}");
        match access {
            Access::Load => {}
            Access::Store(value) => self.oracle.set_word(line, word, value, now),
            Access::Add(value) => {
                let sum = found[word].wrapping_add(value);
                self.oracle.set_word(line, word, sum, now);
                self.added[word] = self.added[word].wrapping_add(value);
            }
        }
    }

    fn see_updates(&mut self) {
        let updates = self.chip.wires.updates.as_mut().map(std::mem::take);
        for updated in updates.into_iter().flatten() {
            match self.chip.wires.layout.part_of(updated.party) {
                Part::Engine(_) => self.stored(&updated),
                // A CQ entry, which software looks at.
                Part::NiCache(_) => {}
                _ => self.remote.updated(&updated, &mut self.oracle, self.chip.wires.now),
            }
        }
    }

    /// A home has stored something for an RCP.
    fn stored(&mut self, updated: &Updated) {
        let (now, before) = (self.now(), self.oracle.current(updated.line));
        let is_it = |store: &Store| {
            let here = store.party == updated.party && store.line == updated.line;
            here && written(before, store.at, &store.bytes) == updated.block.words
        };
        let unused = self.stores.iter().position(|store| !store.used && is_it(store));
        // Of several that change the same, or nothing, another one may have been taken for it.
        let at = unused.or_else(|| self.stores.iter().position(is_it)).unwrap_or_else(|| {
            panic!("cycle {now}: no reply says this: {updated:x?}, before {before:x?}")
        });
        self.mistaken += usize::from(unused.is_none());
        self.stores[at].used = true;
        self.oracle.set(updated.line, updated.block.words, now);
    }

    /// A packet leaves the chip, for a stranger or into the mirror.
    fn depart(&mut self, delay: u64, packet: NetPacket) {
        let (now, engine) = (self.now(), packet.engine);
        let reflected = packet.reflected();
        match (packet.packet, reflected.packet) {
            (Packet::Reply(reply), Packet::Reply(back)) => {
                self.remote.reply(engine, &reply, &self.oracle, now);
                if reply.header.tid & STRANGER != 0 {
                    let link = self.chip.wires.layout.unit_of_packet(&packet);
                    let credit = Payload::Credit { link, from: 1, lane: Lane::Reply };
                    return self.chip.receive(delay, credit);
                }
                self.expect_stores(engine, &back);
            }
            (Packet::Request(request), Packet::Request(back)) => {
                self.check_operands(engine, &request);
                self.remote.request(engine, back, &self.chip.wires.layout, now + delay);
            }
            _ => unreachable!("a mirror makes requests of requests"),
        }
        self.chip.receive(delay, Payload::Net(reflected));
    }

    /// Operations under way at an RGP, with buffer address and start, that a packet belongs to.
    fn places(&self, engine: u16, op: Op, offset: u64, length: u64) -> Vec<(u64, u64)> {
        let layout = &self.chip.wires.layout;
        let here = self
            .software
            .iter()
            .zip(0..)
            .filter(|&(_, tile)| layout.engine_of_tile(tile) == engine);
        let posted = here.flat_map(|(software, _)| software.posted.iter().flatten());
        let fits = |of: &Operation| {
            let end = of.offset + u64::from(of.length);
            of.op_code == op as u8 && of.offset <= offset && offset + length <= end
        };
        let fitting = posted.filter(|posted| fits(&posted.operation));
        let place = |of: &Operation| of.buffer + (offset - of.offset);
        fitting.map(|posted| (place(&posted.operation), posted.since)).collect()
    }

    /// The RCP has to store what a reply brings.
    fn expect_stores(&mut self, engine: u16, reply: &Reply) {
        let header = reply.header;
        let bytes = &reply.payload[..reply.payload_bytes()];
        if bytes.is_empty() {
            return;
        }
        let length = u64::from(header.length);
        let places = self.places(engine, header.op, header.offset, length);
        let [(buffer, _)] = places[..] else { panic!("{places:?} await {reply:?}") };
        let party = self.chip.wires.layout.party_of(Part::Engine(engine));
        for (line, at, range) in split(buffer, bytes.len()) {
            self.stores.push(Store { party, line, at, bytes: bytes[range].to_vec(), used: false });
        }
    }

    /// The operands of a request have been in the local buffer since the operation was posted.
    fn check_operands(&self, engine: u16, request: &Request) {
        let header = request.header;
        let bytes = &request.payload[..request.payload_bytes()];
        if bytes.is_empty() {
            return;
        }
        let places = self.places(engine, header.op, header.offset, u64::from(header.length));
        let now = self.now();
        let was_there = |&(buffer, since): &(u64, u64)| {
            split(buffer, bytes.len()).all(|(line, at, range)| {
                let part = &bytes[range];
                let is_it = |words| &bytes_of(words)[at..at + part.len()] == part;
                self.oracle.was(line, since, now, is_it)
            })
        };
        let good = places.iter().any(was_there);
        assert!(good, "cycle {now}: {header:?} carries {bytes:x?}, which was never in {places:x?}");
    }
}

/// The blocks in which so many bytes from an address on are, and which of them.
fn split(
    address: u64,
    length: usize,
) -> impl Iterator<Item = (Line, usize, std::ops::Range<usize>)> {
    let at = (address % 64) as usize;
    let first = length.min(64 - at);
    let here = (address / 64, at, 0..first);
    let rest = (first < length).then_some((address / 64 + 1, 0, first..length));
    std::iter::once(here).chain(rest)
}
