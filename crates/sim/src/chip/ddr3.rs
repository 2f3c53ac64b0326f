//! A memory controller's DDR3 channel on the chip: between the chip's clock and the channel's, between
//! messages and requests.

use super::memory::Read;
use super::wires::{Event, Wires};
use crate::block::Line;
use crate::dram::{Channel, Clocks, Done, Kind, Request};
use crate::engine::{Cycle, Slab};
use crate::figures::Figures;
use crate::machine::Machine;

/// A channel behind a controller.
///
/// A request crosses to the channel's clock at the first tick that is not before its arrival, its data
/// cross back at the first cycle that is not before the last of them. What the controller itself takes,
/// both ways, is added to the way back: a read takes as long as if it were spread, since the delay is
/// the same for all.
#[derive(Clone, Debug)]
pub struct Ddr3 {
    number: u16,
    clocks: Clocks,
    channel: Channel,
    controller_cycles: u64,
    port_cycles: u64,
    /// Reads in the channel, with the content that they will return: that at their arrival.
    reads: Slab<Read>,
    /// Cycle in which the channel will be looked at again.
    next_look: Cycle,
    done: Vec<Done>,
}

impl Ddr3 {
    pub fn new(number: u16, machine: &Machine) -> Ddr3 {
        let channel = Channel::new(&machine.dram);
        Ddr3 {
            number,
            clocks: Clocks::new(machine.clock_ghz, channel.timing().tck_ps),
            channel,
            controller_cycles: machine.cycles(machine.dram.controller_ns),
            port_cycles: machine.cycles(machine.memory.port_ns),
            reads: Slab::default(),
            next_look: 0,
            done: Vec::new(),
        }
    }

    /// Whether another request of this kind can be taken.
    #[inline]
    pub fn has_room(&self, kind: Kind) -> bool {
        self.channel.has_room(kind)
    }

    /// Requests that wait for their commands.
    pub fn waiting(&self) -> usize {
        self.channel.waiting()
    }

    /// A read arrives.
    pub fn read(&mut self, read: Read, wires: &mut Wires) {
        let id = self.reads.put(read);
        self.push(id, read.line, Kind::Read, wires);
    }

    pub fn write(&mut self, line: Line, wires: &mut Wires) {
        self.push(0, line, Kind::Write, wires);
    }

    /// Gives the commands that are due.
    pub fn go_on(&mut self, wires: &mut Wires) {
        self.channel.advance(self.clocks.tick_by(wires.now), &mut self.done);
        self.settle(wires);
    }

    /// Adds the counters up to cycle `now`.
    pub fn write_stats(&self, now: Cycle, stats: &mut Figures) {
        let ticks = self.clocks.tick_by(now);
        let counted = self.channel.stats(ticks);
        let path = |name: &str| format!("memory[{}].{name}", self.number);
        let mut put = |name: &str, value: f64| stats.insert(path(name), value);
        put("row_hits", counted.row_hits as f64);
        put("row_misses", counted.row_misses as f64);
        put("row_conflicts", counted.row_conflicts as f64);
        put("refreshes", counted.refreshes as f64);
        put("forwarded_reads", counted.forwarded as f64);
        let tick_ns = self.channel.timing().tck_ps as f64 / 1000.0;
        let wait_ns = counted.read_wait_ticks as f64 * tick_ns;
        stats.mean(path("queueing_mean_ns"), wait_ns, counted.reads as f64);
        stats.mean(path("bus_utilisation"), counted.data_ticks as f64, ticks as f64);
    }

    fn push(&mut self, id: u32, line: Line, kind: Kind, wires: &mut Wires) {
        let line = wires.layout.index_at_controller(line);
        let now = self.clocks.tick_from(wires.now);
        self.channel.push(now, Request { id, line, kind }, &mut self.done);
        self.settle(wires);
    }

    /// Answers the reads whose time is known, and looks again when the next command is due.
    fn settle(&mut self, wires: &mut Wires) {
        for Done { id, kind, at } in self.done.drain(..) {
            if kind == Kind::Write {
                continue;
            }
            let delay = self.clocks.cycle_from(at) + self.controller_cycles - wires.now;
            self.reads.take(id).answer(delay, self.number, self.port_cycles, wires);
        }
        let Some(next) = self.channel.next() else { return };
        let next = self.clocks.cycle_from(next).max(wires.now + 1);
        wires.happen_by(&mut self.next_look, next, Event::Memory(self.number));
    }
}
