//! A memory controller with its memory: a fixed latency (Manycore NI §5), or a DDR3 channel
//! ([`ddr3`](super::ddr3)).

use super::ddr3::Ddr3;
use super::layout::Part;
use super::message::Payload;
use super::values::Values;
use super::wires::Wires;
use crate::block::{BLOCK_BYTES, Block, Line};
use crate::dram::Kind;
use crate::engine::Cycle;
use crate::figures::Figures;
use crate::machine::Machine;
use crate::machine::spec::MemoryModel;

/// A memory controller with its memory.
#[derive(Clone, Debug)]
pub struct Memory {
    number: u16,
    model: Model,
    values: Values,
    port_cycles: u64,
    reads: u64,
    writes: u64,
}

/// A read under way, with the content that it returns.
#[derive(Clone, Copy, Debug)]
pub struct Read {
    pub line: Line,
    pub data: Block,
    /// The part that wants it.
    pub to: Part,
}

impl Read {
    /// Answers in `delay` cycles: a home through the port and the network on chip, another part beside memory.
    pub fn answer(self, delay: u64, number: u16, port_cycles: u64, wires: &mut Wires) {
        let Read { line, data, to } = self;
        let reply = Payload::MemoryData { line, data };
        match to {
            Part::Home(_) => wires.send_after(delay + port_cycles, Part::Memory(number), to, reply),
            _ => wires.hand(delay, to, reply),
        }
    }
}

/// The model of the memory's time.
#[derive(Clone, Debug)]
enum Model {
    Fixed(Fixed),
    Ddr3(Box<Ddr3>),
}

/// Always the same latency, and a bandwidth if the machine limits it.
#[derive(Clone, Debug)]
struct Fixed {
    latency_cycles: u64,
    /// Time that a block keeps the channel busy, in 1/256 cycles; 0 = none.
    block_time: u64,
    /// Time at which the channel is free again, in 1/256 cycles.
    free_at: u64,
}

impl Memory {
    pub fn new(number: u16, machine: &Machine, values: Values) -> Memory {
        let model = match machine.memory.model {
            MemoryModel::Fixed => Model::Fixed(Fixed::new(machine)),
            MemoryModel::Ddr3 => Model::Ddr3(Box::new(Ddr3::new(number, machine))),
        };
        let port_cycles = machine.cycles(machine.memory.port_ns);
        Memory { number, model, values, port_cycles, reads: 0, writes: 0 }
    }

    /// Whether a message can be taken; with a DDR3 channel its queues are limited.
    #[inline]
    pub fn has_room(&self, payload: &Payload) -> bool {
        match (&self.model, payload) {
            (Model::Fixed(_), _) => true,
            (Model::Ddr3(ddr3), Payload::MemoryWrite { .. }) => ddr3.has_room(Kind::Write),
            (Model::Ddr3(ddr3), _) => ddr3.has_room(Kind::Read),
        }
    }

    /// Takes a message. Reads and writes of a block take effect in the order in which they come,
    /// whatever the order in which they are carried out.
    pub fn receive(&mut self, payload: Payload, wires: &mut Wires) {
        match payload {
            Payload::MemoryRead { line, to } => {
                self.reads += 1;
                let read = Read { line, data: self.values.get(line), to };
                match &mut self.model {
                    Model::Fixed(fixed) => {
                        let delay = fixed.wait(wires.now) + fixed.latency_cycles;
                        read.answer(delay, self.number, self.port_cycles, wires);
                    }
                    Model::Ddr3(ddr3) => ddr3.read(read, wires),
                }
            }
            Payload::MemoryWrite { line, data } => {
                self.writes += 1;
                self.values.set(line, data);
                match &mut self.model {
                    Model::Fixed(fixed) => {
                        fixed.wait(wires.now);
                    }
                    Model::Ddr3(ddr3) => ddr3.write(line, wires),
                }
            }
            other => panic!("memory[{}] got {other:?}", self.number),
        }
    }

    /// A command may be due.
    pub fn go_on(&mut self, wires: &mut Wires) {
        if let Model::Ddr3(ddr3) = &mut self.model {
            ddr3.go_on(wires);
        }
    }

    /// Requests that wait here for their commands.
    pub fn waiting(&self) -> usize {
        match &self.model {
            Model::Fixed(_) => 0,
            Model::Ddr3(ddr3) => ddr3.waiting(),
        }
    }

    /// Adds the counters up to cycle `now` under the controller's path.
    pub fn write_stats(&self, now: Cycle, stats: &mut Figures) {
        stats.insert(format!("memory[{}].reads", self.number), self.reads as f64);
        stats.insert(format!("memory[{}].writes", self.number), self.writes as f64);
        if let Model::Ddr3(ddr3) = &self.model {
            ddr3.write_stats(now, stats);
        }
    }

    /// The content of a block, as memory has it.
    pub fn peek(&self, line: Line) -> Block {
        self.values.get(line)
    }

    /// Gives a block its content.
    pub fn poke(&mut self, line: Line, block: Block) {
        self.values.set(line, block);
    }
}

impl Fixed {
    fn new(machine: &Machine) -> Fixed {
        let block_time = match machine.memory.bytes_per_cycle {
            0.0 => 0,
            bytes => (BLOCK_BYTES as f64 / bytes * 256.0).round() as u64,
        };
        let latency_cycles = machine.cycles(machine.memory.latency_ns);
        Fixed { latency_cycles, block_time, free_at: 0 }
    }

    /// Takes the channel for a block; how long that is ahead, in cycles.
    fn wait(&mut self, now: Cycle) -> u64 {
        let start = self.free_at.max(now * 256);
        self.free_at = start + self.block_time;
        start / 256 - now
    }
}
