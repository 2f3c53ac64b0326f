//! The address mapping table (AMT): from local addresses to other nodes' memory (DEOI §III; the NTB's table
//! and Thunder's local/remote table of TSM §4.2 are the same thing).
//!
//! A node that borrows takes a block of its window of locally visible addresses (LVA), and a slot:
//!
//! ```text
//! Free --reserve--> Reserved --ask--> Pending --grant--> Active --release--> Releasing --free--> Free
//!                       |                |                  |                    |
//!                       +-----cancel-----+                  +---lost---> Faulted +  (free)
//! ```
//!
//! Only an active slot maps. An access outside of all slots, across the end of one, or to one that is
//! released or whose lender is lost never leaves the node: [`Amt::lookup`] returns a [`Miss`]. A slot is
//! named with a generation, so that late messages for an earlier use are noticed.

use alloc::boxed::Box;
use alloc::vec;

/// Most slots that a table may have: a lookup looks at all of them.
pub const MAX_SLOTS: u16 = 1024;

/// State of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum State {
    /// Not in use.
    Free,
    /// Its block of addresses is taken.
    Reserved,
    /// A lender has been asked.
    Pending,
    /// Accesses to its block are sent to the lender.
    Active,
    /// It does not map any more; accesses in flight end, and the lender is notified.
    Releasing,
    /// Its lender is lost.
    Faulted,
}

/// Names a use of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SlotId {
    /// Index in the table.
    pub index: u16,
    /// Number of earlier uses of the slot; it wraps.
    pub generation: u32,
}

/// A slot of the table: one block of local addresses that stands for another node's memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Slot {
    /// Start of the block of local addresses.
    pub base: u64,
    /// Its length in bytes.
    pub size_bytes: u64,
    /// Start of the block in the lender's memory.
    pub remote_base: u64,
    /// Number of the lender's node.
    pub destination: u16,
    /// Step of its life; only [`State::Active`] maps.
    pub state: State,
    generation: u32,
}

/// Destination of an access, from [`Amt::lookup`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Target {
    /// Number of the node whose memory it is.
    pub destination: u16,
    /// Address in its memory.
    pub address: u64,
}

/// Reasons why an access does not leave the node: a bus error for its initiator (AXI: DECERR).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Miss {
    /// No slot has the address.
    Outside,
    /// The access goes beyond the end of its slot.
    Overrun,
    /// The slot does not map yet, or not any more.
    Inactive,
    /// The lender is lost.
    Lost,
}

/// Errors of the steps of a slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Refused {
    /// All slots are in use.
    NoSlot,
    /// No gap of the window is long enough.
    NoAddresses,
    /// The length is zero, or beyond all addresses.
    BadSize,
    /// The use of the slot is over, or its state does not allow it.
    BadState,
}

impl core::fmt::Display for Refused {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str(match self {
            Refused::NoSlot => "all slots of the address mapping table are in use",
            Refused::NoAddresses => "no gap of the window of visible addresses is long enough",
            Refused::BadSize => "a block has at least one byte and ends within the addresses",
            Refused::BadState => "the slot of the address mapping table is not in this state",
        })
    }
}

impl core::error::Error for Refused {}

/// The table of one node.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Amt {
    slots: Box<[Slot]>,
    window_base: u64,
    window_bytes: u64,
}

impl Amt {
    /// A table of `slots` free slots over a window of visible addresses.
    ///
    /// # Panics
    /// Unless there are 1 to [`MAX_SLOTS`] slots, and the window ends within the addresses.
    pub fn new(slots: u16, window_base: u64, window_bytes: u64) -> Self {
        assert!(slots > 0 && slots <= MAX_SLOTS, "a table has 1 to 1024 slots");
        assert!(window_base.checked_add(window_bytes).is_some(), "the window ends at 2^64");
        let free = Slot {
            base: 0,
            size_bytes: 0,
            remote_base: 0,
            destination: 0,
            state: State::Free,
            generation: 0,
        };
        Self { slots: vec![free; usize::from(slots)].into_boxed_slice(), window_base, window_bytes }
    }

    /// Whether an address is in the window.
    #[inline]
    pub const fn covers(&self, address: u64) -> bool {
        address >= self.window_base && address - self.window_base < self.window_bytes
    }

    /// Translates an access of `length` bytes.
    ///
    /// # Errors
    /// [`Miss`]: it must not leave the node.
    #[inline]
    pub fn lookup(&self, address: u64, length: u64) -> Result<Target, Miss> {
        let has = |slot: &&Slot| address.wrapping_sub(slot.base) < slot.size_bytes;
        let slot = self.slots.iter().find(has).ok_or(Miss::Outside)?;
        match slot.state {
            State::Active => {}
            State::Faulted => return Err(Miss::Lost),
            _ => return Err(Miss::Inactive),
        }
        let offset = address - slot.base;
        if length > slot.size_bytes - offset {
            return Err(Miss::Overrun);
        }
        Ok(Target { destination: slot.destination, address: slot.remote_base + offset })
    }

    /// Takes a slot and a block of the window, at a multiple of `align` from the first gap on.
    ///
    /// # Errors
    /// [`Refused::NoSlot`], [`Refused::NoAddresses`], [`Refused::BadSize`] (also for an alignment that
    /// is no power of two).
    pub fn reserve(&mut self, size_bytes: u64, align: u64) -> Result<SlotId, Refused> {
        if size_bytes == 0 || !align.is_power_of_two() {
            return Err(Refused::BadSize);
        }
        self.take(size_bytes, |amt| amt.gap(size_bytes, align))
    }

    /// Takes a slot for a block of the window, which begins where `base` finds room.
    fn take(
        &mut self,
        size_bytes: u64,
        base: impl Fn(&Self) -> Option<u64>,
    ) -> Result<SlotId, Refused> {
        let free = |slot: &Slot| slot.state == State::Free;
        let index = self.slots.iter().position(free).ok_or(Refused::NoSlot)?;
        let base = base(self).ok_or(Refused::NoAddresses)?;
        let slot = &mut self.slots[index];
        *slot = Slot { base, size_bytes, state: State::Reserved, ..*slot };
        Ok(SlotId { index: index as u16, generation: slot.generation })
    }

    /// The first gap of the window: at its start, or behind a block.
    fn gap(&self, size_bytes: u64, align: u64) -> Option<u64> {
        let starts = self.taken().map(|slot| slot.base + slot.size_bytes);
        let starts = core::iter::once(self.window_base).chain(starts);
        let starts = starts.filter_map(|start| start.checked_next_multiple_of(align));
        starts.filter(|&start| self.is_free(start, size_bytes)).min()
    }

    /// Whether a block is in the window, and no part of it is taken.
    fn is_free(&self, start: u64, size_bytes: u64) -> bool {
        let Some(last) = start.checked_add(size_bytes) else { return false };
        let apart = |slot: &Slot| last <= slot.base || start >= slot.base + slot.size_bytes;
        let is_within = start >= self.window_base && last <= self.window_base + self.window_bytes;
        is_within && self.taken().all(apart)
    }

    fn taken(&self) -> impl Iterator<Item = &Slot> {
        self.slots.iter().filter(|slot| slot.state != State::Free)
    }

    /// A lender is asked.
    ///
    /// # Errors
    /// [`Refused::BadState`] unless the slot is reserved.
    pub fn ask(&mut self, id: SlotId) -> Result<(), Refused> {
        self.step(id, &[State::Reserved], State::Pending).map(drop)
    }

    /// The lender has answered: the slot maps from now on.
    ///
    /// # Errors
    /// [`Refused::BadState`] unless it was asked; [`Refused::BadSize`] if the block does not end within
    /// the lender's addresses.
    pub fn grant(&mut self, id: SlotId, remote: Target) -> Result<(), Refused> {
        let slot = self.get(id).ok_or(Refused::BadState)?;
        if remote.address.checked_add(slot.size_bytes).is_none() {
            return Err(Refused::BadSize);
        }
        let slot = self.step(id, &[State::Pending], State::Active)?;
        (slot.remote_base, slot.destination) = (remote.address, remote.destination);
        Ok(())
    }

    /// Takes a block as [`Amt::reserve`] does, and maps it: for a lender that has agreed before.
    ///
    /// # Errors
    /// [`Refused::NoSlot`], [`Refused::NoAddresses`], [`Refused::BadSize`]; then no block is taken.
    pub fn borrow(&mut self, size: u64, align: u64, remote: Target) -> Result<SlotId, Refused> {
        let id = self.reserve(size, align)?;
        self.map(id, remote)
    }

    /// Maps a block that was taken; otherwise it is not taken any more.
    fn map(&mut self, id: SlotId, remote: Target) -> Result<SlotId, Refused> {
        self.ask(id)?;
        if let Err(refused) = self.grant(id, remote) {
            self.cancel(id)?;
            return Err(refused);
        }
        Ok(id)
    }

    /// Maps a block at this place of the window, as it was once: for a lender that has agreed then.
    ///
    /// # Errors
    /// As [`Amt::borrow`].
    pub fn enter(&mut self, base: u64, size: u64, remote: Target) -> Result<SlotId, Refused> {
        if size == 0 {
            return Err(Refused::BadSize);
        }
        let id = self.take(size, |amt| amt.is_free(base, size).then_some(base))?;
        self.map(id, remote)
    }

    /// Nothing is borrowed after all.
    ///
    /// # Errors
    /// [`Refused::BadState`] unless the slot is reserved or a lender was asked.
    pub fn cancel(&mut self, id: SlotId) -> Result<(), Refused> {
        self.step(id, &[State::Reserved, State::Pending], State::Releasing)?;
        self.free(id)
    }

    /// The borrower gives back: nothing new is mapped.
    ///
    /// # Errors
    /// [`Refused::BadState`] unless the slot maps.
    pub fn release(&mut self, id: SlotId) -> Result<(), Refused> {
        self.step(id, &[State::Active], State::Releasing).map(drop)
    }

    /// Nothing is under way any more: slot and addresses can be used again.
    ///
    /// # Errors
    /// [`Refused::BadState`] unless the slot is being released, or its lender is lost.
    pub fn free(&mut self, id: SlotId) -> Result<(), Refused> {
        let slot = self.step(id, &[State::Releasing, State::Faulted], State::Free)?;
        slot.generation = slot.generation.wrapping_add(1);
        slot.size_bytes = 0;
        Ok(())
    }

    /// A lender is lost: its slots fault from now on. Returns their number.
    pub fn lost(&mut self, node: u16) -> usize {
        let lent = |slot: &&mut Slot| slot.state == State::Active && slot.destination == node;
        let slots = self.slots.iter_mut().filter(lent);
        slots.map(|slot| slot.state = State::Faulted).count()
    }

    /// The slot, if this use of it goes on.
    pub fn get(&self, id: SlotId) -> Option<&Slot> {
        let slot = self.slots.get(usize::from(id.index))?;
        (slot.state != State::Free && slot.generation == id.generation).then_some(slot)
    }

    /// All slots by index, free ones among them.
    pub fn slots(&self) -> &[Slot] {
        &self.slots
    }

    fn step(&mut self, id: SlotId, from: &[State], to: State) -> Result<&mut Slot, Refused> {
        let slot = self.slots.get_mut(usize::from(id.index)).ok_or(Refused::BadState)?;
        if slot.generation != id.generation || !from.contains(&slot.state) {
            return Err(Refused::BadState);
        }
        slot.state = to;
        Ok(slot)
    }
}
