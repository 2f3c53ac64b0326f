//! Placement: the monitor's choice of lenders, from their free memory.

use std::collections::BTreeSet;

use super::messages::{Party, Want};
use crate::store::spread::AMT_ENTRIES;

/// Granularity of leases in bytes.
pub const LEASE_BYTES: u64 = 4096;

/// A lender's free memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Free<'a> {
    /// The lender's number with the monitor.
    pub lender: u64,
    /// Name, host and process of the lender.
    pub party: &'a Party,
    /// Bytes that are neither leased nor promised.
    pub bytes: u64,
}

/// A share: lender and bytes.
pub type Share = (u64, u64);

/// Chooses lenders: for each copy the one with the most left, or as few as are enough; no lender has
/// part in two copies, and hosts have as far as there are enough of them.
///
/// # Errors
/// A text that says what is missing, and what to do.
pub fn place(want: &Want, free: &[Free<'_>]) -> Result<Vec<Vec<Share>>, String> {
    let all: Vec<Free<'_>> = free
        .iter()
        .filter(|free| !want.avoid.contains(&free.party.name))
        .map(|free| Free { bytes: free.bytes / LEASE_BYTES * LEASE_BYTES, ..free.clone() })
        .collect();
    check(want, &all)?;
    let free: Vec<Free<'_>> = all.iter().filter(|free| free.bytes > 0).cloned().collect();
    if free.is_empty() {
        return Err(format!(
            "{} wanted, but all that is lent is in use: `rackmem leases` says by whom, `rackmem \
             lend` on another node adds to it",
            size(want.size_bytes)
        ));
    }
    let mut used: BTreeSet<u64> = BTreeSet::new();
    let mut hosts: BTreeSet<&str> = BTreeSet::new();
    let mut copies = Vec::new();
    for copy in 0..want.copies {
        let mut left: Vec<&Free<'_>> =
            free.iter().filter(|free| !used.contains(&free.lender)).collect();
        let is_known = |free: &Free<'_>| hosts.contains(free.party.host_id.as_str());
        left.sort_by_key(|free| (is_known(free), std::cmp::Reverse(free.bytes), free.lender));
        let shares = cover(want.size_bytes, &left).ok_or_else(|| too_little(want, copy, &left))?;
        for &(lender, _) in &shares {
            used.insert(lender);
            let party = free.iter().find(|free| free.lender == lender).map(|free| free.party);
            hosts.extend(party.map(|party| party.host_id.as_str()));
        }
        copies.push(shares);
    }
    Ok(copies)
}

/// The first that has enough alone, or else all in turn until it is enough.
fn cover(size_bytes: u64, left: &[&Free<'_>]) -> Option<Vec<Share>> {
    if let Some(whole) = left.iter().find(|free| free.bytes >= size_bytes) {
        return Some(vec![(whole.lender, size_bytes)]);
    }
    let mut largest_first = left.to_vec();
    largest_first.sort_by_key(|free| (std::cmp::Reverse(free.bytes), free.lender));
    let mut missing = size_bytes;
    let mut shares = Vec::new();
    for free in largest_first.iter().take(AMT_ENTRIES) {
        let bytes = free.bytes.min(missing);
        shares.push((free.lender, bytes));
        missing -= bytes;
        if missing == 0 {
            return Some(shares);
        }
    }
    None
}

fn check(want: &Want, free: &[Free<'_>]) -> Result<(), String> {
    if want.size_bytes == 0 || want.size_bytes % LEASE_BYTES != 0 || want.copies == 0 {
        return Err(format!(
            "{} bytes in {} copies cannot be borrowed: whole pages of {LEASE_BYTES} bytes, at least \
             one copy",
            want.size_bytes, want.copies
        ));
    }
    if free.is_empty() {
        let nobody = match want.avoid.is_empty() {
            true => "nobody lends memory here",
            false => "no lender could be reached",
        };
        return Err(format!("{nobody}: start one with `rackmem lend 2G` on a node that has it"));
    }
    Ok(())
}

fn too_little(want: &Want, copy: u32, left: &[&Free<'_>]) -> String {
    let all: u64 = left.iter().map(|free| free.bytes).sum();
    let largest = left.iter().map(|free| free.bytes).max().unwrap_or(0);
    let wanted = size(want.size_bytes);
    let lenders = match left.len() {
        1 => "1 lender offers".to_owned(),
        n => format!("{n} lenders offer"),
    };
    let advice = "`rackmem lend` on another node, or ask for less";
    if copy > 0 {
        return format!(
            "{wanted} wanted in {} copies, each with lenders of its own: for copy {} {lenders} {} in \
             all: {advice}",
            want.copies,
            copy + 1,
            size(all)
        );
    }
    if all >= want.size_bytes {
        return format!(
            "{wanted} wanted; {lenders} {} in all, but the largest {AMT_ENTRIES} pieces are not \
             enough: {advice}",
            size(all)
        );
    }
    format!(
        "{wanted} wanted; {lenders} {} in all, the largest piece is {}: {advice}",
        size(all),
        size(largest)
    )
}

/// Bytes as people write them: `512M`.
pub fn size(bytes: u64) -> String {
    for (shift, unit) in [(30, "G"), (20, "M"), (10, "K")] {
        if bytes >= 1 << shift && bytes % (1 << shift) == 0 {
            return format!("{}{unit}", bytes >> shift);
        }
    }
    format!("{bytes}")
}
