//! Quotas: how much memory of other nodes a node may hold.
//!
//! The monitor counts what a node has of all lenders, and what was promised to it. A lender counts what the node has of
//! it, so that a borrower that does not ask the monitor has no more of any one lender.

use super::placement::size;

/// A node that borrows, and its bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Account {
    /// Its number in the rack file.
    pub node: u16,
    /// Most bytes that it may hold; `None`: as many as there are.
    pub max_bytes: Option<u64>,
}

impl Account {
    /// Checks that the node may hold so many bytes, besides those that it holds.
    ///
    /// # Errors
    /// One sentence for people, with the remedy.
    pub fn check(self, held_bytes: u64, more_bytes: u64) -> Result<(), String> {
        let Account { node, max_bytes } = self;
        let Some(max) = max_bytes else { return Ok(()) };
        if held_bytes.checked_add(more_bytes).is_some_and(|all| all <= max) {
            return Ok(());
        }
        Err(format!(
            "node {node} may borrow {} in all, has {} and wants {} more: give some back, or raise max_borrowed of \
             node {node} in the rack file on all hosts",
            size(max),
            size(held_bytes),
            size(more_bytes)
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bound_is_reached_and_not_passed() {
        let bounded = Account { node: 3, max_bytes: Some(2 << 30) };
        assert_eq!(bounded.check(1 << 30, 1 << 30), Ok(()));
        let why = bounded.check(1 << 30, (1 << 30) + 4096).unwrap_err();
        assert!(
            why.starts_with("node 3 may borrow 2G in all, has 1G and wants 1048580K more"),
            "{why}"
        );
        assert!(bounded.check(4096, u64::MAX).is_err());
        assert_eq!(Account { max_bytes: None, ..bounded }.check(1 << 40, u64::MAX), Ok(()));
    }
}
