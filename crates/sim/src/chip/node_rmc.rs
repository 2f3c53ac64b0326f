//! The remote memory controller of Scale-Out NUMA on its chip: with an L1 of its own in the
//! coherence domain (§4.3), and with the fabric interface.

use super::block::Block;
use super::cache::{Back, CacheSpec, PrivateCache};
use super::layout::{Layout, Line, Part};
use super::link::Link;
use super::message::Payload;
use super::wires::{Event, Wires};
use crate::coherence::Message;
use crate::figures::Figures;
use crate::machine::Machine;
use crate::sonuma::memory::Words;
use crate::sonuma::{L1, Rmc};

/// An RMC with its L1 and its fabric interface.
#[derive(Clone, Debug)]
pub struct NodeRmc {
    /// RGP, RCP and RRPP with what they share.
    pub rmc: Rmc,
    /// Its L1, with the size and ways of the cores' L1s (soNUMA §4.3).
    pub l1: PrivateCache,
    /// To the other nodes.
    pub link: Link,
}

impl NodeRmc {
    /// The RMC of a machine's chip in a rack of `nodes` nodes.
    pub fn new(rmc: Rmc, nodes: u16, machine: &Machine, layout: &Layout) -> NodeRmc {
        let l1 = CacheSpec {
            part: Part::NiCache(0),
            party: layout.party_of_ni_cache(0),
            sets: machine.l1.size_bytes / 64 / u64::from(machine.l1.ways),
            ways: machine.l1.ways,
            latency_cycles: machine.l1.latency_cycles,
            tag_cycles: machine.l1.tag_cycles,
            mshrs: machine.l1.mshrs,
            back: Back::Network,
            wire_cycles: 0,
        };
        let mut l1 = PrivateCache::new(&l1);
        l1.report_lost();
        let link = Link::new(nodes, machine.network.credits, machine.rmc.lane_credits);
        NodeRmc { rmc, l1, link }
    }

    /// A message, before this cycle's tick.
    pub fn receive(&mut self, payload: Payload, wires: &mut Wires) {
        wires.rmc_now = true;
        match payload {
            Payload::Coherence { line, message, .. } => self.coherence(line, message, wires),
            Payload::Freight { from, freight } => self.link.receive(from, freight),
            other => panic!("an RMC got {other:?}"),
        }
    }

    fn coherence(&mut self, line: Line, message: Message<Block>, wires: &mut Wires) {
        let is_complete = self.l1.deliver(line, message, wires);
        self.note_lost();
        if is_complete {
            let now = wires.now;
            self.rmc.filled(now, line, &mut View { l1: &mut self.l1, wires });
            self.note_lost();
        }
    }

    /// Somebody outside of the coherence domain has changed a block.
    pub fn changed(&mut self, line: Line, wires: &mut Wires) {
        self.rmc.changed(line);
        wires.rmc_next = true;
    }

    /// One cycle, after all messages of this cycle.
    pub fn tick(&mut self, wires: &mut Wires) {
        let now = wires.now;
        if let Some(lane) = self.link.depart(now) {
            self.rmc.credit(lane);
        }
        while let Some(packet) = self.link.next_arrival(now) {
            self.rmc.deliver(packet);
        }
        self.rmc.tick(now, &mut View { l1: &mut self.l1, wires }, &mut self.link);
        self.note_lost();
        if self.link.is_busy() {
            wires.rmc_next = true;
            return;
        }
        match self.rmc.next(now + 1) {
            Some(at) if at <= now + 1 => wires.rmc_next = true,
            Some(at) => wires.wheel.at(at, Event::NodeRmc),
            None => {}
        }
    }

    /// Adds the counters of RMC and link.
    pub fn write_stats(&self, stats: &mut Figures) {
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

    fn note_lost(&mut self) {
        for line in self.l1.lost.drain(..) {
            self.rmc.changed(line);
        }
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
