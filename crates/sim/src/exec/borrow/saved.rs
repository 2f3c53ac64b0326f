//! Checkpoints of memory that a node lends and borrows, of a network interface that is at rest. Contents are with
//! their lenders: caches have written back what they had changed.

use std::ops::Range;

use rackmem_riscv::space::{PAGE, Permissions};
use rackmem_rmc::amt::{Refused, State as Step, Target};
use serde::{Deserialize, Serialize};

use super::Lending;
use super::lease::{Counts, Pool};
use crate::chip::Chip;
use crate::chip::ni::Ni;
use crate::engine::MOST;
use crate::exec::ExecError;
use crate::exec::checkpoint::{Checked, require};
use crate::exec::pages::{Pages, Plugged};
use crate::machine::spec::Placement;
use crate::machine::{MAX_DESCRIPTORS, Machine};
use crate::window::dma::{DESCRIPTOR_BYTES, Engine};

/// The memory that a node lends and borrows.
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
    /// Virtual and physical addresses, permissions of the pages of lent and borrowed memory that the program sees, but
    /// for those that the operating system gave out as the node's own.
    pages: Vec<(u64, u64, Permissions)>,
}

/// Sizes that decide where memory is: a program cannot go on with others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
struct Shape {
    memory_bytes: u64,
    lent_bytes: u64,
    page_bytes: u64,
    /// Of the DMA engine's ring.
    descriptors: u64,
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
    fn of(lending: &Lending, page_bytes: u64) -> Shape {
        let Lending { window, bytes, descriptors, .. } = *lending;
        Shape { memory_bytes: window, lent_bytes: bytes, page_bytes, descriptors }
    }

    /// The setting in which another shape differs first, and what it is there and here.
    fn differs(&self, other: &Shape, has_engine: bool) -> Option<(&'static str, [u64; 2])> {
        let both = |of: fn(&Shape) -> u64| [of(self), of(other)];
        let descriptors = if has_engine { both(|shape| shape.descriptors) } else { [0; 2] };
        let all = [
            ("memory.size_bytes", both(|shape| shape.memory_bytes)),
            ("window.lent_bytes", both(|shape| shape.lent_bytes)),
            ("system.page_bytes", both(|shape| shape.page_bytes)),
            ("window.dma_descriptors", descriptors),
        ];
        all.into_iter().find(|(_, [then, now])| then != now)
    }
}

impl Slot {
    const fn block(&self) -> Range<u64> {
        self.base..self.base + self.bytes
    }
}

impl Lending {
    /// Its state, if memory was lent or borrowed, or the program has asked for such.
    ///
    /// # Errors
    /// The program has opened a device of which checkpoints have nothing.
    pub fn state(&self, pages: &Pages, chip: &mut Chip) -> Result<Option<State>, String> {
        if self.interrupts.is_some()
            || matches!(&chip.ni, Ni::Bridge(bridge) if bridge.pairs.is_open())
        {
            return Err("has opened a card or a connection, of which checkpoints have nothing; take the checkpoint \
                        before"
                .to_owned());
        }
        let Some(amt) = chip.ni.amt() else { return Ok(None) };
        let active = amt.slots().iter().filter(|slot| slot.state == Step::Active);
        let slots: Vec<Slot> = active
            .map(|slot| Slot {
                base: slot.base,
                bytes: slot.size_bytes,
                lender: slot.destination,
                address: slot.remote_base,
            })
            .collect();
        let engine = self.ring(chip);
        let is_used = !slots.is_empty()
            || engine.is_some()
            || self.is_refused
            || self.lent_at.is_some()
            || self.pool.lent_bytes > 0
            || self.requests.counts != Counts::default();
        Ok(is_used.then(|| State {
            shape: Shape::of(self, pages.page_bytes()),
            slots,
            whole: self.whole,
            lent_at: self.lent_at,
            pool: self.pool.clone(),
            counts: self.requests.counts,
            is_refused: self.is_refused,
            plugged: pages.plugged.clone(),
            engine,
            pages: Vec::new(),
        }))
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
        self.status_at = state.engine.map(|ring| ring.status_at);
        self.is_refused = state.is_refused;
        if self.is_refused {
            self.plug_bytes = 0;
        }
    }
}

impl State {
    /// Takes the pages of lent and borrowed memory out of those of a program.
    pub fn take_pages(&mut self, pages: &mut Vec<(u64, u64, Permissions)>) {
        let own = self.lent().start;
        let is_own = |phys: u64| phys < own || self.plugged.has(phys);
        self.pages = pages.extract_if(.., |&mut (_, phys, _)| !is_own(phys)).collect();
    }

    /// Those pages.
    pub fn pages(&self) -> &[(u64, u64, Permissions)] {
        &self.pages
    }

    /// The part of the node's own memory that it lends.
    pub const fn lent(&self) -> Range<u64> {
        let Shape { memory_bytes, lent_bytes, .. } = self.shape;
        memory_bytes.saturating_sub(lent_bytes)..memory_bytes
    }

    /// Bytes that a program may have mapped of lent and borrowed memory.
    pub const fn most_bytes(&self) -> u64 {
        self.shape.lent_bytes.saturating_mul(2)
    }

    /// Lenders of what it has borrowed.
    pub fn lenders(&self) -> impl Iterator<Item = u16> {
        self.slots.iter().map(|slot| slot.lender)
    }

    /// Virtual address of the page with the engine's status.
    pub fn status_page(&self) -> Option<u64> {
        self.engine.map(|ring| ring.status_at)
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

    /// Checks what was read, of a node with pages of so many bytes, whose own memory ends here and is given out in this
    /// part. Pages with queues are at these virtual and physical addresses.
    pub fn check(
        &self,
        (end, page_bytes): (u64, u64),
        given: Range<u64>,
        is_queue: impl Fn(u64, u64) -> bool,
    ) -> Checked {
        let Shape { memory_bytes, lent_bytes, descriptors, .. } = self.shape;
        let is_shape = memory_bytes < MOST && lent_bytes <= memory_bytes;
        let is_shape = is_shape && descriptors <= MAX_DESCRIPTORS.into();
        let is_node = self.lent().start == end && self.shape.page_bytes == page_bytes;
        require(is_shape && is_node, || {
            format!("shape: {:?} does not end its own memory at {end:#x}", self.shape)
        })?;
        self.counts.check().map_err(|wrong| format!("counts.{wrong}"))?;
        self.check_slots()?;
        self.pool.check(self.lent()).map_err(|wrong| format!("pool: {wrong}"))?;
        let is_borrowed = |block: &Range<u64>| {
            self.slots
                .iter()
                .any(|slot| slot.base <= block.start && block.end <= slot.base + slot.bytes)
        };
        self.plugged.check(page_bytes, is_borrowed).map_err(|wrong| format!("plugged: {wrong}"))?;
        for (at, &(address, phys, _)) in self.pages.iter().enumerate() {
            let is_there = self.lent().contains(&phys)
                || phys < MOST && is_borrowed(&(phys..phys + PAGE)) && !self.plugged.has(phys);
            require(phys % PAGE == 0 && is_there, || {
                format!("pages[{at}]: {address:#x} cannot be at {phys:#x}")
            })?;
        }
        let Some(Ring { at, posted, status, status_at }) = self.engine else { return Ok(()) };
        let is_ring = at % page_bytes == 0 && given.contains(&at);
        let is_ring = is_ring && descriptors > 0 && self.ring_bytes() <= given.end - at;
        require(is_ring && posted < MOST && is_queue(status_at, status), || {
            format!("engine: no ring is at {at:#x}, with its status at {status:#x}")
        })
    }

    /// Blocks are apart, in the window, and pages of what lenders lend.
    fn check_slots(&self) -> Checked {
        let (lent, memory_bytes) = (self.lent(), self.shape.memory_bytes);
        for (at, slot) in self.slots.iter().enumerate() {
            let Slot { base, bytes, address, .. } = *slot;
            let is_size =
                bytes > 0 && bytes <= self.shape.lent_bytes && (base | bytes | address) % PAGE == 0;
            let is_place = (memory_bytes..MOST).contains(&base)
                && base - memory_bytes <= self.shape.lent_bytes - bytes.min(self.shape.lent_bytes);
            let is_lent = lent.contains(&address) && bytes <= lent.end - address;
            let is_apart =
                |other: &Slot| other.base + other.bytes <= base || base + bytes <= other.base;
            require(
                is_size && is_place && is_lent && self.slots[..at].iter().all(is_apart),
                || format!("slots[{at}]: no such block is borrowed: {slot:x?}"),
            )?;
        }
        Ok(())
    }

    /// Enters it where the chip and the operating system look for memory; nothing is borrowed yet.
    ///
    /// # Errors
    /// The machine has its memory elsewhere, or has too few slots.
    pub fn enter(
        &self,
        machine: &Machine,
        pages: &mut Pages,
        chip: &mut Chip,
    ) -> Result<(), ExecError> {
        self.check_machine(machine, pages).map_err(ExecError::Machine)?;
        let Some(amt) = chip.ni.amt() else { return Ok(()) };
        for &Slot { base, bytes, lender, address } in &self.slots {
            match amt.enter(base, bytes, Target { destination: lender, address }) {
                Ok(_) => {}
                Err(Refused::NoSlot) => {
                    return Err(ExecError::Machine(format!(
                        "extension.amt_slots: the checkpoint has {} blocks of borrowed memory; give the table as many",
                        self.slots.len()
                    )));
                }
                Err(refused) => {
                    return Err(ExecError::Checkpoint(format!("memory.lent.slots: {refused}")));
                }
            }
        }
        self.slots.iter().for_each(|slot| chip.wires.map.borrow(slot.block()));
        pages.plugged = self.plugged.clone();
        if let (Some(ring), Ni::Window(window)) = (self.engine, &mut chip.ni) {
            let max_payload_bytes = machine.window.max_payload_bytes.into();
            let engine = Engine::new(ring.at, self.shape.descriptors, max_payload_bytes);
            window.engine = Some(Box::new(engine.after(ring.posted)));
            window.status_address = ring.status;
        }
        Ok(())
    }

    /// Refuses a machine that has its memory elsewhere: the setting, and what to do.
    fn check_machine(&self, machine: &Machine, pages: &Pages) -> Checked {
        // The number of the node makes no difference here.
        let Some(lending) = Lending::of(0, 1, machine) else {
            return Err(
                "ni.placement: the checkpoint has borrowed memory, of which this machine has none"
                    .to_owned(),
            );
        };
        require(self.engine.is_none() || machine.ni.placement == Placement::Window, || {
            "ni.placement: the program has opened a DMA engine, of which this machine has none"
                .to_owned()
        })?;
        let now = Shape::of(&lending, pages.page_bytes());
        if let Some((key, [then, now])) = self.shape.differs(&now, self.engine.is_some()) {
            return Err(format!(
                "{key}: the program has borrowed memory where it was {then}, and here it is {now}; set it as it was"
            ));
        }
        let is_heap = self.plugged.is_first;
        require(is_heap == machine.window.heap, || {
            format!("window.heap: the checkpoint has it {is_heap}; set it as it was")
        })
    }
}
