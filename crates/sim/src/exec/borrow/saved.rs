//! Checkpoints of memory that a node lends and borrows and of its devices, of a network interface that is at rest.
//! Contents are with their lenders: caches have written back what they had changed.

mod check;

use std::ops::Range;

use rackmem_riscv::space::Permissions;
use rackmem_rmc::amt::{Refused, State as Step, Target};
use serde::{Deserialize, Serialize};

use super::lease::{Counts, Pool};
use super::{CardMemory, Lending};
use crate::chip::Chip;
use crate::chip::bridge::Devices;
use crate::chip::ni::Ni;
use crate::chip::window::WINDOW_SLOTS;
use crate::exec::ExecError;
use crate::exec::checkpoint::{Checked, require};
use crate::exec::pages::{Pages, Plugged};
use crate::machine::Machine;
use crate::machine::spec::Placement;
use crate::window::dma::{DESCRIPTOR_BYTES, Engine};

/// Virtual and physical address of a page, and its permissions.
type Mapped = (u64, u64, Permissions);

/// The memory that a node lends and borrows, and its devices.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct State {
    shape: Shape,
    /// Blocks of the window that are borrowed.
    slots: Vec<Slot>,
    whole: Option<[u64; 3]>,
    lent_at: Option<u64>,
    pool: Pool,
    counts: Counts,
    /// Nobody lends more to the operating system.
    is_refused: bool,
    plugged: Plugged,
    engine: Option<Ring>,
    /// The card and the connections of this node.
    devices: Option<Devices>,
    /// Memory for the neighbour's card, once it is open.
    card: Option<CardMemory>,
    /// The pages behind the node's own memory that the program sees: of registers and of lent and borrowed memory, but
    /// for those that the operating system gave out as the node's own.
    pages: Vec<Mapped>,
}

/// Sizes that the program has been told, or that decide where its memory is: it cannot go on with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Shape {
    memory_bytes: u64,
    lent_bytes: u64,
    page_bytes: u64,
    /// Descriptors of the DMA engine's ring.
    descriptors: u64,
    /// Descriptors of a queue of a connection.
    entries: u64,
    /// Bytes of the card's longest frame.
    mtu: u64,
}

/// A block of the window.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Slot {
    base: u64,
    bytes: u64,
    lender: u16,
    /// Its address there.
    address: u64,
}

/// Physical addresses of the ring and the status of the DMA engine, which has nothing to do.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
struct Ring {
    at: u64,
    posted: u64,
    status: u64,
    /// Virtual address of the status.
    status_at: u64,
}

impl Shape {
    fn of(machine: &Machine) -> Shape {
        Shape {
            memory_bytes: machine.memory.size_bytes,
            lent_bytes: machine.window.lent_bytes,
            page_bytes: machine.system.page_bytes,
            descriptors: machine.window.dma_descriptors.into(),
            entries: machine.qpair.queue_entries.into(),
            mtu: machine.nic.mtu.into(),
        }
    }
}

impl Slot {
    const fn block(&self) -> Range<u64> {
        self.base..self.base + self.bytes
    }
}

impl Lending {
    /// Its state, if somebody has lent, borrowed or used a device.
    pub fn state(&self, machine: &Machine, pages: &Pages, chip: &mut Chip) -> Option<State> {
        let active = chip.ni.amt()?.slots().iter().filter(|slot| slot.state == Step::Active);
        let slots = active.map(|slot| Slot {
            base: slot.base,
            bytes: slot.size_bytes,
            lender: slot.destination,
            address: slot.remote_base,
        });
        let state = State {
            shape: Shape::of(machine),
            slots: slots.collect(),
            whole: self.whole,
            lent_at: self.lent_at,
            pool: self.pool.clone(),
            counts: self.requests.counts,
            is_refused: self.is_refused,
            plugged: pages.plugged.clone(),
            engine: self.ring(chip),
            devices: match &chip.ni {
                Ni::Bridge(bridge) => bridge.devices_state(),
                _ => None,
            },
            card: self.card_memory,
            pages: Vec::new(),
        };
        state.is_used().then_some(state)
    }

    fn ring(&self, chip: &Chip) -> Option<Ring> {
        let (Ni::Window(window), Some(status_at)) = (&chip.ni, self.status_at) else { return None };
        let engine = window.engine.as_ref()?;
        let (at, posted) = (engine.ring(), engine.posted());
        Some(Ring { at, posted, status: window.status_address, status_at })
    }

    /// Goes on from a state, which the chip has already.
    pub fn restore(&mut self, state: &State) {
        self.whole = state.whole;
        self.lent_at = state.lent_at;
        self.pool = state.pool.clone();
        self.requests.counts = state.counts;
        self.is_refused = state.is_refused;
        if self.is_refused {
            self.plug_bytes = 0;
        }
        self.status_at = state.engine.map(|ring| ring.status_at);
        self.card_memory = state.card;
    }
}

impl State {
    fn is_used(&self) -> bool {
        let has_asked = self.counts != Counts::default() || self.lent_at.is_some();
        let has_devices = self.devices.is_some() || self.card.is_some();
        let has_devices = has_devices || self.engine.is_some();
        !self.slots.is_empty() || self.pool.lent_bytes > 0 || has_asked || has_devices
    }

    /// With these pages behind the node's own memory.
    pub fn with_pages(self, pages: Vec<Mapped>) -> State {
        State { pages, ..self }
    }

    /// Those pages.
    pub fn pages(&self) -> &[Mapped] {
        &self.pages
    }

    /// The part of the node's own memory that it lends.
    pub const fn lent(&self) -> Range<u64> {
        let Shape { memory_bytes, lent_bytes, .. } = self.shape;
        memory_bytes.saturating_sub(lent_bytes)..memory_bytes
    }

    /// The other nodes that it knows, each with the field.
    pub fn others(&self) -> impl Iterator<Item = (&'static str, u16)> {
        let pairs = self.devices.iter().filter_map(|devices| devices.pairs.as_ref());
        let lenders = self.slots.iter().map(|slot| ("slots", slot.lender));
        lenders.chain(pairs.flat_map(|pairs| pairs.peers()).map(|peer| ("devices.pairs", peer)))
    }

    /// Whether the operating system has given out a page of borrowed memory.
    pub fn has_given(&self, frame: u64) -> bool {
        self.plugged.has_given(frame, self.shape.page_bytes)
    }

    /// Pages of the engine's ring.
    pub fn ring_pages(&self) -> impl Iterator<Item = u64> {
        let ring = self.engine.map(|ring| ring.at..ring.at + self.ring_bytes());
        ring.into_iter().flat_map(|ring| ring.step_by(self.shape.page_bytes as usize))
    }

    const fn ring_bytes(&self) -> u64 {
        self.shape.descriptors * DESCRIPTOR_BYTES
    }

    /// Enters it where the chip and the operating system look for it; nothing is borrowed yet.
    ///
    /// # Errors
    /// The machine has its memory elsewhere, other devices or too few slots.
    pub fn enter(
        &self,
        machine: &Machine,
        pages: &mut Pages,
        chip: &mut Chip,
    ) -> Result<(), ExecError> {
        self.check_machine(machine).map_err(ExecError::Machine)?;
        let Some(amt) = chip.ni.amt() else { return Ok(()) };
        for &Slot { base, bytes, lender, address } in &self.slots {
            let entered = amt.enter(base, bytes, Target { destination: lender, address });
            entered.map_err(|refused| match refused {
                Refused::NoSlot => ExecError::Machine(format!(
                    "extension.amt_slots: the checkpoint has {} blocks of borrowed memory; give the table of a \
                     bridge as many (that of a window has {WINDOW_SLOTS})",
                    self.slots.len()
                )),
                refused => ExecError::Checkpoint(format!("memory.lent.slots: {refused}")),
            })?;
        }
        self.slots.iter().for_each(|slot| chip.wires.map.borrow(slot.block()));
        pages.plugged = self.plugged.clone();
        match &mut chip.ni {
            Ni::Window(window) => {
                let Some(ring) = self.engine else { return Ok(()) };
                let max_payload_bytes = machine.window.max_payload_bytes.into();
                let engine = Engine::new(ring.at, self.shape.descriptors, max_payload_bytes);
                window.engine = Some(Box::new(engine.after(ring.posted)));
                window.status_address = ring.status;
            }
            Ni::Bridge(bridge) => {
                self.devices.iter().for_each(|devices| bridge.restore_devices(devices));
            }
            _ => {}
        }
        Ok(())
    }

    /// Refuses a machine that has its memory elsewhere or other devices: the setting, and what to do.
    fn check_machine(&self, machine: &Machine) -> Checked {
        let placement = machine.ni.placement;
        let has_engine = self.engine.is_some();
        let has_devices = self.devices.is_some() || self.card.is_some();
        let missing = match placement {
            _ if !placement.has_window() => Some("borrowed memory"),
            Placement::Bridge if has_engine => Some("a DMA engine"),
            Placement::Window if has_devices => Some("a card or connections"),
            _ => None,
        };
        if let Some(missing) = missing {
            return Err(format!(
                "ni.placement: the checkpoint has {missing}, which this interface has not"
            ));
        }
        if let Some((key, [then, now])) = self.differs(&Shape::of(machine)) {
            return Err(format!(
                "{key}: the program knows it as {then}, and here it is {now}; set it as it was"
            ));
        }
        let is_heap = self.plugged.is_first;
        require(is_heap == machine.window.heap, || {
            format!("window.heap: the checkpoint has it {is_heap}; set it as it was")
        })
    }

    /// The setting that the program knows and in which another shape differs first, and what it is there and here.
    fn differs(&self, now: &Shape) -> Option<(&'static str, [u64; 2])> {
        let Shape { memory_bytes, lent_bytes, page_bytes, descriptors, entries, mtu } = self.shape;
        let devices = self.devices.as_ref();
        let has_pairs = devices.is_some_and(|devices| devices.pairs.is_some());
        let has_card = self.card.is_some();
        let all = [
            ("memory.size_bytes", [memory_bytes, now.memory_bytes], true),
            ("window.lent_bytes", [lent_bytes, now.lent_bytes], true),
            ("system.page_bytes", [page_bytes, now.page_bytes], true),
            ("window.dma_descriptors", [descriptors, now.descriptors], self.engine.is_some()),
            ("qpair.queue_entries", [entries, now.entries], has_pairs),
            ("nic.mtu", [mtu, now.mtu], has_card),
        ];
        let mut known = all.into_iter().filter(|&(.., is_known)| is_known);
        known.find(|(_, [then, now], _)| then != now).map(|(key, both, _)| (key, both))
    }
}
