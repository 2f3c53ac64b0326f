//! Cores as software sees them: a row of operations, each of which takes its time.

use super::node::Op;
use super::packet::{Access, Layer, Master};
use super::platform::{Event, Platform, Upcall};
use super::time::{Clock, Ps, ps};

impl Platform {
    /// Adds to what the thread of a core has to do.
    pub fn thread(&mut self, node: u16, core: u16, ops: impl IntoIterator<Item = Op>) {
        self.nodes[usize::from(node)].cores[usize::from(core)].thread.extend(ops);
        self.go_on(node, core);
    }

    /// Adds to what interrupt handlers of a core have to do.
    pub fn handler(&mut self, node: u16, core: u16, ops: impl IntoIterator<Item = Op>) {
        self.nodes[usize::from(node)].cores[usize::from(core)].handler.extend(ops);
        self.go_on(node, core);
    }

    /// A time in cycles of the cores.
    pub fn core_cycles(&self, cycles: u32) -> Ps {
        Clock::of_mhz(self.soc.core_mhz).cycles(cycles)
    }

    /// A core has done its operation.
    pub(super) fn core_done(&mut self, node: u16, core: u16) {
        let now = self.now();
        let this = &mut self.nodes[usize::from(node)].cores[usize::from(core)];
        this.is_busy = false;
        this.busy += now - this.since;
        self.go_on(node, core);
    }

    fn go_on(&mut self, node: u16, core: u16) {
        let now = self.now();
        let this = &mut self.nodes[usize::from(node)].cores[usize::from(core)];
        if this.is_busy {
            return;
        }
        let Some(op) = this.handler.pop_front().or_else(|| this.thread.pop_front()) else {
            return;
        };
        (this.is_busy, this.since) = (true, now);
        match op {
            Op::Work(time) => self.agenda.at(now + time, Event::Core { node, core }),
            Op::Load(address, bytes) => self.leave_core(node, core, false, address, bytes),
            Op::Store(address, bytes) => self.leave_core(node, core, true, address, bytes),
            // Before the core goes on, the workload says what comes next, by `thread` or `handler`.
            Op::Call(call) => {
                self.upcalls.push_back(Upcall::Called { node, core, call });
                self.agenda.at(now, Event::Core { node, core });
            }
        }
    }

    /// An access misses in all caches and goes to the port of the on-chip interconnect.
    fn leave_core(&mut self, node: u16, core: u16, is_write: bool, address: u64, bytes: u32) {
        let now = self.now();
        let time = self.core_cycles(self.soc.miss_cycles) + ps(self.soc.port_ns / 2.0);
        let mut access = Access::new(Master::Core(core), node, is_write, address, bytes, now);
        access.trip.charge(Layer::Software, now + time);
        let access = self.accesses.put(access);
        self.agenda.at(now + time, Event::Leave { access });
    }
}
