//! The remote memory controller of Scale-Out NUMA on its chip: with an L1 of its own in the
//! coherence domain (§4.3), and with the fabric interface.

use super::cache::{CacheSpec, PrivateCache};
use super::layout::{Layout, Part};
use super::link::Link;
use super::message::{NetPacket, Payload};
use super::ni::{Interface, Placement, Places, Side, Timer};
use super::tile::Tile;
use super::wires::{Event, Wires};
use crate::block::{BLOCK_BYTES, Block, Line, Words};
use crate::coherence::Message;
use crate::figures::Figures;
use crate::machine::Machine;
use crate::sonuma::driver::Driver;
use crate::sonuma::{L1, Lane, Rmc};
use crate::statistics::Simulated;

/// Its part, by the name of its L1.
const PART: Part = Part::NiCache(0);

/// An RMC with its L1 and its fabric interface.
#[derive(Clone, Debug)]
pub struct NodeRmc {
    /// RGP, RCP and RRPP with what they share.
    pub rmc: Rmc,
    /// Its L1, with the size and ways of the cores' L1s (soNUMA §4.3).
    pub l1: PrivateCache,
    pub link: Link,
}

impl NodeRmc {
    fn coherence(&mut self, line: Line, message: Message<Block>, wires: &mut Wires) {
        let is_complete = self.l1.deliver(line, message, wires);
        self.note_lost();
        if is_complete {
            let now = wires.now;
            self.rmc.filled(now, line, &mut View { l1: &mut self.l1, wires });
            self.note_lost();
        }
    }

    fn note_lost(&mut self) {
        for line in self.l1.lost.drain(..) {
            self.rmc.changed(line);
        }
    }
}

impl Interface for NodeRmc {
    const STATISTICS: &'static [Simulated] = &[Simulated::Program, Simulated::Sonuma];

    fn places(_placement: Placement) -> Places {
        Places { engines: Side::Edge, ni_caches: Side::Edge, frontends: None }
    }

    fn check_programs(_machine: &Machine, _nodes: u16) -> Result<(), String> {
        Ok(())
    }

    fn new(nid: u16, nodes: u16, machine: &Machine, layout: &Layout) -> NodeRmc {
        let mut l1 = PrivateCache::new(&CacheSpec::of_core(PART, machine));
        l1.report_lost();
        let link = Link::new(0, nodes, machine.link_credits(), machine.rmc.lane_credits);
        let spec = machine.rmc_spec();
        let first = layout.queue_lines() * BLOCK_BYTES;
        let registers = Driver::registers_of(&spec, first, machine.system.contexts);
        let rmc = Rmc::new(&spec, nid, nodes, registers).expect("a machine that was checked");
        NodeRmc { rmc, l1, link }
    }

    fn entry(&self, _payload: &Payload, _layout: &Layout) -> (Part, u64) {
        (PART, 0)
    }

    fn receive(&mut self, _to: Part, payload: Payload, _tiles: &mut [Tile], wires: &mut Wires) {
        wires.ni_now = true;
        match payload {
            Payload::Coherence { line, message, .. } => self.coherence(line, message, wires),
            Payload::Net(packet) => self.link.receive(packet, wires.now),
            Payload::Credit { from, lane, .. } => self.link.credit(from, lane),
            other => panic!("an RMC got {other:?}"),
        }
    }

    fn happen(&mut self, _timer: Timer, _tiles: &mut [Tile], wires: &mut Wires) {
        wires.ni_now = true;
    }

    fn tick(&mut self, wires: &mut Wires) {
        let now = wires.now;
        if let Some((_, NetPacket { packet, .. })) = self.link.depart(wires) {
            self.rmc.credit(Lane::of(&packet));
        }
        while let Some(NetPacket { packet, .. }) = self.link.next_arrival(wires) {
            self.rmc.deliver(packet);
        }
        self.rmc.tick(now, &mut View { l1: &mut self.l1, wires }, &mut self.link);
        self.note_lost();
        if self.link.is_busy() {
            wires.ni_next = true;
            return;
        }
        match self.rmc.next(now + 1) {
            Some(at) if at <= now + 1 => wires.ni_next = true,
            Some(at) => wires.wheel.at(at, Event::Ni(Timer::of(PART))),
            None => {}
        }
    }

    fn changed(&mut self, line: Line, _tiles: &mut [Tile], wires: &mut Wires) {
        self.rmc.changed(line);
        wires.ni_next = true;
    }

    fn under_way(&self, _tiles: &[Tile]) -> Vec<String> {
        let waiting = self.link.waiting() + self.l1.in_transition();
        let is_busy = waiting > 0 || !self.rmc.is_idle();
        let text =
            format!("rmc: {} operations, {waiting} packets and blocks", self.rmc.in_flight());
        is_busy.then_some(text).into_iter().collect()
    }

    fn write_stats(&self, _tiles: &[Tile], _wires: &Wires, stats: &mut Figures) {
        let mut put = |name: &str, value: u64| {
            stats.insert(format!("rmc.{name}"), value as f64);
        };
        let (rmc, maq, mmu) = (self.rmc.stats(), self.rmc.maq_stats(), self.rmc.mmu_stats());
        put("requests", rmc.requests);
        put("served", rmc.served);
        put("refused", rmc.refused);
        put("notified", rmc.notified);
        put("rrpp.memory_reads", rmc.memory_reads);
        put("rrpp.memory_read_cycles", rmc.memory_read_cycles);
        put("replies", rmc.replies);
        put("completed", rmc.completed);
        put("errors", rmc.errors);
        put("itt_stall_cycles", rmc.itt_stall_cycles);
        put("request_stall_cycles", rmc.request_stall_cycles);
        put("reply_stall_cycles", rmc.reply_stall_cycles);
        put("maq.accesses", maq.accesses);
        put("maq.hits", maq.hits);
        put("maq.misses", maq.misses);
        put("maq.forwarded", maq.forwarded);
        put("maq.peak", maq.peak.into());
        put("tlb.hits", mmu.hits);
        put("tlb.misses", mmu.misses);
        put("tlb.walks", mmu.walks);
    }
}

/// The L1 as the RMC sees it in a cycle.
struct View<'a> {
    l1: &'a mut PrivateCache,
    wires: &'a mut Wires,
}

impl L1 for View<'_> {
    fn load(&mut self, line: Line) -> Option<Words> {
        self.l1.load(line, self.wires)
    }

    fn store(&mut self, line: Line, change: impl FnOnce(&mut Words)) -> bool {
        self.l1.store(line, self.wires, change)
    }

    fn peek(&self, line: Line) -> Option<Words> {
        self.l1.is_readable(line).then(|| self.l1.content(line, self.wires))
    }

    fn is_owned(&self, line: Line) -> bool {
        self.l1.is_owned(line)
    }

    fn is_pending(&self, line: Line) -> bool {
        self.l1.is_pending(line)
    }
}
