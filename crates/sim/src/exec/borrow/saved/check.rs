//! Checks of lent and borrowed memory and of devices that were read.

use std::collections::HashSet;
use std::ops::Range;

use rackmem_riscv::space::PAGE;

use super::{CardMemory, Ring, Shape, Slot, State};
use crate::chip::card::REGISTERS_BYTES;
use crate::chip::pairs;
use crate::engine::MOST;
use crate::exec::checkpoint::{Checked, require};
use crate::exec::pages;
use crate::machine::MAX_DESCRIPTORS;

/// Entries of a queue of a connection, at most: machines have some hundred.
const MOST_ENTRIES: u64 = 1 << 20;

impl State {
    /// Bytes that a program may have mapped behind the node's own memory.
    pub const fn most_bytes(&self) -> u64 {
        let registers = REGISTERS_BYTES + pairs::REGISTERS_BYTES;
        self.shape.lent_bytes.saturating_mul(2).saturating_add(registers)
    }

    /// Checks what was read, of a node with pages of so many bytes that had the memory of `own` to give out and has
    /// given out what is before `next`. `queues` are virtual and physical addresses of pages for devices.
    pub fn check(
        &self,
        (own, next): (&Range<u64>, u64),
        page_bytes: u64,
        queues: impl Iterator<Item = (u64, u64)>,
    ) -> Checked {
        let Shape { memory_bytes, lent_bytes, descriptors, entries, .. } = self.shape;
        let is_memory = memory_bytes < MOST && lent_bytes <= memory_bytes;
        let is_shape =
            is_memory && descriptors <= MAX_DESCRIPTORS.into() && entries <= MOST_ENTRIES;
        let is_own = is_shape && self.lent().start == own.end;
        require(is_own && self.shape.page_bytes == page_bytes, || {
            format!("shape: {:x?} has no memory that ends at {:#x}", self.shape, own.end)
        })?;
        self.counts.check().map_err(|wrong| format!("counts.{wrong}"))?;
        self.check_slots()?;
        self.pool.check(self.lent()).map_err(|wrong| format!("pool: {wrong}"))?;
        let is_borrowed = |block: &Range<u64>| self.is_borrowed(block);
        self.plugged.check(page_bytes, is_borrowed).map_err(|wrong| format!("plugged.{wrong}"))?;
        for (at, &(address, phys, _)) in self.pages.iter().enumerate() {
            require(phys % PAGE == 0 && self.has_behind(phys), || {
                format!("pages[{at}]: {address:#x} cannot be at {phys:#x}")
            })?;
        }
        let queues: Vec<(u64, u64)> = queues.collect();
        self.check_engine(own.start..next, |ring| queues.contains(&(ring.status_at, ring.status)))?;
        let queues: HashSet<u64> = queues.into_iter().map(|(_, phys)| phys).collect();
        self.check_devices(|phys| queues.contains(&phys))
    }

    /// Blocks are apart, in the window, and pages of what lenders lend.
    fn check_slots(&self) -> Checked {
        let Shape { memory_bytes, lent_bytes, .. } = self.shape;
        let is_within = |start: u64, bytes: u64, of: &Range<u64>| {
            of.contains(&start) && bytes > 0 && bytes <= of.end - start
        };
        let window = memory_bytes..memory_bytes + lent_bytes;
        for (at, slot) in self.slots.iter().enumerate() {
            let Slot { base, bytes, address, .. } = *slot;
            let is_there = (base | bytes | address) % PAGE == 0
                && is_within(base, bytes, &window)
                && is_within(address, bytes, &self.lent());
            let is_apart = |other: &Slot| other.block().end <= base || base + bytes <= other.base;
            require(is_there && self.slots[..at].iter().all(is_apart), || {
                format!("slots[{at}]: no such block is borrowed: {slot:x?}")
            })?;
        }
        Ok(())
    }

    fn is_borrowed(&self, block: &Range<u64>) -> bool {
        let mut blocks = self.slots.iter().map(Slot::block);
        blocks.any(|borrowed| borrowed.start <= block.start && block.end <= borrowed.end)
    }

    /// Whether programs may see a page behind the node's own memory.
    fn has_behind(&self, phys: u64) -> bool {
        let Shape { memory_bytes, lent_bytes, .. } = self.shape;
        let card = memory_bytes + lent_bytes;
        let pairs = card + REGISTERS_BYTES + memory_bytes;
        let is_register = (card..card + REGISTERS_BYTES).contains(&phys) && self.card.is_some()
            || (pairs..pairs + pairs::REGISTERS_BYTES).contains(&phys)
                && self.devices.as_ref().is_some_and(|devices| devices.pairs.is_some());
        let is_borrowed = phys < MOST && self.is_borrowed(&(phys..phys + PAGE));
        is_register || self.lent().contains(&phys) || is_borrowed && !self.plugged.has(phys)
    }

    fn check_engine(&self, given: Range<u64>, has_status: impl Fn(Ring) -> bool) -> Checked {
        let Some(ring @ Ring { at, posted, status, .. }) = self.engine else { return Ok(()) };
        let is_ring = at % self.shape.page_bytes == 0 && given.contains(&at);
        let is_ring = is_ring && (1..=given.end - at).contains(&self.ring_bytes());
        require(is_ring && posted < MOST && has_status(ring), || {
            format!(
                "engine: no ring is at {at:#x}, with a status at {status:#x} that the program has"
            )
        })
    }

    fn check_devices(&self, is_queue: impl Fn(u64) -> bool) -> Checked {
        if let Some(CardMemory { interrupts, memory, bytes }) = self.card {
            let is_memory = memory % PAGE == 0 && memory < MOST && bytes < MOST;
            let has_all = || pages::pages(memory, bytes).all(&is_queue);
            require(is_memory && is_queue(interrupts) && has_all(), || {
                format!("card: the program does not have all of its memory: {:x?}", self.card)
            })?;
        }
        let Some(devices) = &self.devices else { return Ok(()) };
        let card = devices.card.as_ref();
        require(card.is_none_or(|card| !card.is_out_of_bounds()), || {
            format!("devices.card: no card has counted so far: {card:?}")
        })?;
        let Some(pairs) = &devices.pairs else { return Ok(()) };
        match pairs.wrong(self.shape.entries, is_queue) {
            None => Ok(()),
            Some(number) => Err(format!(
                "devices.pairs[{number}]: no connection has such rings that the program has"
            )),
        }
    }
}
