//! A core's uncached accesses to registers of another node's device (DEOI §III), one at a time and in order.

use super::layout::Part;
use super::message::Payload;
use super::wires::Wires;
use crate::engine::Cycle;
use crate::machine::Machine;
use crate::machine::spec::Placement;

/// An access to a register.
#[derive(Clone, Copy, Debug)]
pub struct Access {
    /// Core that waits for the answer.
    pub core: u16,
    /// Physical address, in the part of the window for devices.
    pub address: u64,
    pub size: u8,
    /// Value to be stored; `None`: it loads.
    pub store: Option<u64>,
    /// Cycle in which the core asked.
    pub at: Cycle,
}

/// State of the access.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    None,
    Asked,
    Answered(u64),
}

/// The way of a core to devices.
#[derive(Clone, Debug)]
pub struct DevicePort {
    number: u16,
    state: State,
    /// Caches that an access passes on its way.
    cache_cycles: Cycle,
}

impl DevicePort {
    /// That of core `number`, if the machine has devices at other nodes.
    pub fn of(number: u16, machine: &Machine) -> Option<DevicePort> {
        let cache_cycles = machine.l1.latency_cycles + machine.llc.latency_cycles;
        (machine.ni.placement == Placement::Bridge).then(|| DevicePort {
            number,
            state: State::None,
            cache_cycles: cache_cycles.into(),
        })
    }

    /// Loads a register or stores to it: the value, when it is answered.
    pub fn access(
        &mut self,
        address: u64,
        size: u8,
        store: Option<u64>,
        wires: &mut Wires,
    ) -> Option<u64> {
        match self.state {
            State::Answered(value) => {
                self.state = State::None;
                return Some(value);
            }
            State::Asked => return None,
            State::None => self.state = State::Asked,
        }
        let access = Access { core: self.number, address, size, store, at: wires.now };
        let from = Part::Tile(self.number);
        wires.send_after(self.cache_cycles, from, Part::Window, Payload::Device(access));
        None
    }

    /// The device has answered.
    pub fn answered(&mut self, value: u64) {
        debug_assert_eq!(self.state, State::Asked);
        self.state = State::Answered(value);
    }
}
