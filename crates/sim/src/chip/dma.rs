//! The DMA engine at a memory controller, and the uncached memory behind it (CINI §4), in time.

use super::layout::Part;
use super::message::Payload;
use super::ni::Timer;
use super::wires::{Event, Wires};
use crate::engine::Cycle;
use crate::figures::Figures;
use crate::machine::Machine;
use crate::scratchpad::dram::Dram;
use crate::scratchpad::{Misuse, Packet, Regions};

/// The engine and the memory's times: latency, and bandwidth shared by all accesses.
#[derive(Clone, Debug)]
pub struct Dma {
    dram: Dram,
    regions: Regions,
    latency_cycles: u64,
    bytes_per_cycle: f64,
    /// Cycle in which the memory has done with its latest access.
    free_at: f64,
    next_pump: Cycle,
    bytes: u64,
}

impl Dma {
    /// The DMA engine of a machine with cache-integrated interfaces.
    pub fn new(machine: &Machine) -> Dma {
        let regions = machine.regions().expect("a machine with cache-integrated interfaces");
        Dma {
            dram: Dram::new(regions.dram_bytes, machine.scratchpad.read_entries as usize),
            regions,
            latency_cycles: machine.cycles(machine.memory.latency_ns),
            bytes_per_cycle: machine.memory.bytes_per_cycle,
            free_at: 0.0,
            next_pump: 0,
            bytes: 0,
        }
    }

    /// The memory.
    pub const fn dram(&self) -> &Dram {
        &self.dram
    }

    /// The memory, to go on from a state.
    pub const fn dram_mut(&mut self) -> &mut Dram {
        &mut self.dram
    }

    /// Whether a packet may arrive.
    pub fn has_room(&self, packet: &Packet) -> bool {
        self.dram.has_room(packet.class())
    }

    /// A packet comes out of the network on chip; [`Dma::has_room`] has been asked.
    pub fn arrive(&mut self, packet: &Packet, wires: &mut Wires) {
        self.access(packet.payload_bytes(), wires.now);
        self.dram.arrive(packet);
        self.pump(wires);
    }

    /// Sends what can leave in this cycle.
    pub fn pump(&mut self, wires: &mut Wires) {
        while self.dram.has_work() && self.free_at <= wires.now as f64 {
            let part = Part::Dma;
            let may = |class| wires.port_has_room(part, Payload::vnet_of(class));
            let Some(packet) = self.dram.emit(may) else { break };
            let is_data = packet.payload_bytes() > 0;
            self.access(packet.payload_bytes(), wires.now);
            let delay = if is_data { self.latency_cycles } else { 1 };
            match wires.layout.part_of_target(&self.regions, packet.to()) {
                Some(to) => wires.send_after(delay, part, to, Payload::Scratchpad(packet)),
                None => return wires.misused(0, Misuse::NoRegion(packet.to())),
            }
        }
        if self.dram.has_work() {
            let next = (self.free_at.ceil() as Cycle).max(wires.now + 1);
            wires.happen_by(&mut self.next_pump, next, Event::Ni(Timer::of(Part::Dma)));
        }
    }

    /// The memory is busy for these bytes.
    fn access(&mut self, bytes: u32, now: Cycle) {
        self.bytes += u64::from(bytes);
        if self.bytes_per_cycle > 0.0 {
            let busy = f64::from(bytes) / self.bytes_per_cycle;
            self.free_at = self.free_at.max(now as f64) + busy;
        }
    }

    pub fn write_stats(&self, stats: &mut Figures) {
        stats.insert("dma.bytes".to_owned(), self.bytes as f64);
    }
}
