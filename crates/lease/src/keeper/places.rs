//! The copies of a borrowing, each with the driver that borrowed it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::line::Line;
use crate::driver::Driver;
use crate::store::replicas::MAX_MEMBERS;

/// Drivers and the copies that they borrowed, shared by the keeper and the functions that show them.
#[derive(Default)]
pub(crate) struct Places {
    pub drivers: Vec<Driver>,
    /// For each member: its driver, and the number of its copy there.
    pub members: [Option<(usize, usize)>; MAX_MEMBERS],
}

impl Places {
    /// The blocks of a member: driver and numbers.
    pub(super) fn blocks(&self, member: usize) -> Option<(usize, Vec<usize>)> {
        let (driver, copy) = self.members[member]?;
        let blocks = self.drivers[driver].books.borrowing.blocks();
        let of_copy = |&number: &usize| blocks[number].copy as usize == copy;
        Some((driver, (0..blocks.len()).filter(of_copy).collect()))
    }

    pub(super) fn member_of(&self, line: &Line) -> Option<usize> {
        let copy = self.drivers[line.driver].books.borrowing.blocks()[line.block].copy as usize;
        self.members.iter().position(|place| *place == Some((line.driver, copy)))
    }

    /// Names of the lenders of all members.
    pub(super) fn lenders(&self) -> Vec<String> {
        let members = (0..MAX_MEMBERS).filter_map(|member| self.blocks(member));
        let leases = members.flat_map(|(driver, blocks)| {
            blocks
                .into_iter()
                .filter_map(move |block| self.drivers[driver].books.leases[block].as_ref())
        });
        leases.map(|lease| lease.lender.name.clone()).collect()
    }

    /// A member's lenders, for people.
    pub(super) fn names(&self, member: usize) -> String {
        let Some((driver, blocks)) = self.blocks(member) else { return "nobody".to_owned() };
        let leases = &self.drivers[driver].books.leases;
        let names = blocks.iter().filter_map(|&block| leases[block].as_ref());
        let names: Vec<&str> = names.map(|lease| lease.lender.name.as_str()).collect();
        format!("lender {}", names.join(", "))
    }
}

pub(super) fn lock(places: &Mutex<Places>) -> MutexGuard<'_, Places> {
    places.lock().unwrap_or_else(PoisonError::into_inner)
}
