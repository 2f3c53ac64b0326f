//! A borrower's record of its leases.

use std::sync::Arc;
use std::time::Instant;

use rackmem_rmc::amt::SlotId;

use super::borrowing::{Action, Borrowing, Event};
use super::messages::Party;
use crate::error::{Error, Result};
use crate::store::Store;
use crate::store::health::Health;
use crate::store::spread::Map;
use rackmem_fabric::address::Address;

/// A lease that there is.
pub(super) struct Lease {
    pub lender: Party,
    pub base: u64,
    pub size_bytes: u64,
    /// Secret of this lease, which the lender asks for on other connections.
    pub token: String,
    pub is_local: bool,
    /// Address of the lender, if it is reached over the network.
    pub address: Option<Address>,
    pub health: Arc<Health>,
    pub copy: usize,
    pub store: Option<Arc<dyn Store>>,
    pub notice: Option<Instant>,
}

/// The books of one borrowing.
pub(super) struct Books {
    pub borrowing: Borrowing,
    pub leases: Vec<Option<Lease>>,
    /// The slot of each block in the address map of its copy.
    pub slots: Vec<Option<SlotId>>,
    pub maps: Vec<Arc<Map>>,
}

impl Books {
    /// Takes a slot of the address map for a block, at the block's place.
    pub fn reserve(&mut self, number: usize) -> Result<()> {
        let block = self.borrowing.blocks()[number];
        let refused = |refused| Error::protocol(format!("a piece has no place: {refused}"));
        let (slot, base) =
            self.maps[block.copy as usize].reserve(block.size_bytes).map_err(refused)?;
        self.slots[number] = Some(slot);
        match base == block.offset {
            true => Ok(()),
            false => Err(Error::protocol("pieces are not side by side".to_owned())),
        }
    }

    /// Makes accesses to a block of this process fault, for `reason`.
    pub fn fault(&mut self, number: usize, reason: &str) {
        let Some(lease) = self.leases.get(number).and_then(Option::as_ref) else { return };
        lease.health.close(reason);
        if let Some(slot) = self.slots[number].take() {
            self.maps[lease.copy].end(slot, &format!("lender {}", lease.lender.name), reason);
        }
    }

    /// A lender is gone, for all processes that use its lease.
    pub fn lost(&mut self, number: usize, reason: &str) {
        if let Some(lease) = self.leases.get(number).and_then(Option::as_ref) {
            lease.health.end(reason);
        }
        self.without(number, reason);
    }

    /// A lender's lease is not used any more.
    pub fn without(&mut self, number: usize, reason: &str) {
        for action in self.borrowing.step(Event::Lost(number)) {
            if let Action::Fault(number) = action {
                self.fault(number, reason);
            }
        }
    }
}
