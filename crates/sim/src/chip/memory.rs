//! A memory controller: fixed latency, and a bandwidth if the machine limits it (Manycore NI §5).

use super::block::Block;
use super::layout::{BLOCK_BYTES, Line, Part};
use super::message::Payload;
use super::values::Values;
use super::wires::Wires;
use crate::engine::Cycle;
use crate::machine::Machine;
use crate::report::Stats;

/// A memory controller with its memory.
#[derive(Clone, Debug)]
pub struct Memory {
    number: u16,
    latency_cycles: u64,
    /// Time that a block keeps the channel busy, in 1/256 cycles; 0 = none.
    block_time: u64,
    /// When the channel is free again, in 1/256 cycles.
    free_at: u64,
    values: Values,
    reads: u64,
    writes: u64,
}

impl Memory {
    /// Controller `number` of a chip.
    pub fn new(number: u16, machine: &Machine, values: Values) -> Memory {
        let block_time = match machine.memory.bytes_per_cycle {
            0.0 => 0,
            bytes => (BLOCK_BYTES as f64 / bytes * 256.0).round() as u64,
        };
        Memory {
            number,
            latency_cycles: machine.cycles(machine.memory.latency_ns),
            block_time,
            free_at: 0,
            values,
            reads: 0,
            writes: 0,
        }
    }

    /// Takes a message.
    pub fn receive(&mut self, payload: Payload, wires: &mut Wires) {
        match payload {
            Payload::MemoryRead { line } => {
                wires.counts.memory_reads += 1;
                self.reads += 1;
                let home = Part::Home(wires.layout.home_of(line));
                let data = self.values.get(line);
                let delay = self.wait(wires.now) + self.latency_cycles;
                let reply = Payload::MemoryData { line, data };
                wires.send_after(delay, Part::Memory(self.number), home, reply);
            }
            Payload::MemoryWrite { line, data } => {
                wires.counts.memory_writes += 1;
                self.writes += 1;
                self.wait(wires.now);
                self.values.set(line, data);
            }
            other => panic!("memory[{}] got {other:?}", self.number),
        }
    }

    /// Adds what has been counted here under the controller's path.
    pub fn write_stats(&self, stats: &mut Stats) {
        stats.insert(format!("memory[{}].reads", self.number), self.reads as f64);
        stats.insert(format!("memory[{}].writes", self.number), self.writes as f64);
    }

    /// The content of a block, as memory has it.
    pub fn peek(&self, line: Line) -> Block {
        self.values.get(line)
    }

    /// Gives a block its content.
    pub fn poke(&mut self, line: Line, block: Block) {
        self.values.set(line, block);
    }

    /// Takes the channel for a block; how long that is ahead, in cycles.
    fn wait(&mut self, now: Cycle) -> u64 {
        let start = self.free_at.max(now * 256);
        self.free_at = start + self.block_time;
        start / 256 - now
    }
}
