//! The activity of a rack, from two looks at its counters, and the memory that is lent beside it.

use std::collections::HashMap;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use rackmem::control;
use rackmem::rack::Rack;
use rackmem::status::{NodeStatus, QpStatus};
use rackmem_lease::ledger;
use rackmem_lease::messages::Listing;
use serde::Serialize;

use crate::failure::Result;
use crate::rackctl::hosts;

/// All counters at one moment.
pub struct Look {
    at: Instant,
    time: SystemTime,
    nodes: Vec<(u16, Option<NodeStatus>)>,
}

/// The work of a rack between two looks.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Measurement {
    /// Name of the rack.
    pub rack: String,
    /// Time of the second look, in seconds since 1970.
    pub unix_seconds: f64,
    /// Time between the looks.
    pub seconds: f64,
    /// All nodes.
    pub nodes: Vec<NodeRates>,
    /// Lenders that this host's monitor knows; `None`: there is no monitor, or it does not answer.
    pub lenders: Option<Vec<Lender>>,
}

/// A lender, without its borrowers: `rackmem leases` shows those.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Lender {
    /// Name by which people know it.
    pub name: String,
    /// Bytes on offer, leased or not.
    pub size_bytes: u64,
    /// Bytes of them that are leased.
    pub leased_bytes: u64,
    /// Bytes of them that are neither leased nor promised.
    pub free_bytes: u64,
    /// Number of leases.
    pub leases: usize,
    /// No new leases: it is about to end.
    pub is_leaving: bool,
}

/// A node in a measurement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct NodeRates {
    /// Number of the node.
    pub nid: u16,
    /// Whether its daemon answers; otherwise all numbers are zero.
    pub answers: bool,
    /// Operations completed.
    pub ops_per_second: f64,
    /// Payload of those that succeeded.
    pub bytes_per_second: f64,
    /// Operations of its queue pairs that have failed so far.
    pub errors: u64,
    /// Requests of other nodes that it has answered.
    pub served_packets_per_second: f64,
    /// Its queue pairs.
    pub qps: Vec<QpRates>,
}

/// A queue pair in a measurement.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct QpRates {
    /// Process that uses it.
    pub pid: u32,
    /// Number in that process's connection.
    pub qp: u32,
    /// Context.
    pub ctx_id: u16,
    /// The way by which its operations progress.
    pub progress: &'static str,
    /// Operations completed.
    pub ops_per_second: f64,
    /// Payload of those that succeeded.
    pub bytes_per_second: f64,
    /// Operations completed so far.
    pub ops: u64,
    /// Payload bytes so far.
    pub bytes: u64,
    /// Operations that have failed so far.
    pub errors: u64,
    /// Operations under way.
    pub outstanding: u32,
    /// Entries of each queue.
    pub entries: u32,
}

/// Asks all daemons.
///
/// # Errors
/// There is no such rack.
pub fn look(rack: &Rack) -> Result<Look> {
    let description = rack.describe()?;
    let here = hosts::nodes_here(rack, &description)?;
    let all: Vec<u16> = (0..description.nodes).collect();
    let answers = control::status_of(rack, &here, &all).into_iter().map(|node| node.ok());
    let nodes = all.iter().copied().zip(answers).collect();
    Ok(Look { at: Instant::now(), time: SystemTime::now(), nodes })
}

/// The work between two looks.
pub fn measure(
    rack: &str,
    before: &Look,
    after: &Look,
    lenders: Option<Vec<Lender>>,
) -> Measurement {
    let seconds = after.at.duration_since(before.at).as_secs_f64();
    let nodes = after
        .nodes
        .iter()
        .map(|(nid, node)| {
            let earlier = before.nodes.iter().find(|(earlier, _)| earlier == nid);
            let earlier = earlier.and_then(|(_, node)| node.as_ref());
            node_rates(*nid, earlier, node.as_ref(), seconds)
        })
        .collect();
    let since_1970 = after.time.duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO);
    let unix_seconds = since_1970.as_secs_f64();
    Measurement { rack: rack.to_owned(), unix_seconds, seconds, nodes, lenders }
}

pub(crate) fn node_rates(
    nid: u16,
    before: Option<&NodeStatus>,
    after: Option<&NodeStatus>,
    seconds: f64,
) -> NodeRates {
    // Counters of a queue pair that is new start at zero, and so do all of a daemon that is.
    let before = before.filter(|node| Some(node.pid) == after.map(|node| node.pid));
    let earlier: HashMap<(u32, u32, u16), &QpStatus> =
        before.iter().flat_map(|node| &node.qps).map(|qp| (key(qp), qp)).collect();
    let rate = |now: u64, then: u64| now.saturating_sub(then) as f64 / seconds;
    let qps: Vec<QpRates> = after
        .iter()
        .flat_map(|node| &node.qps)
        .map(|qp| {
            let earlier = earlier.get(&key(qp));
            QpRates {
                pid: qp.pid,
                qp: qp.qp,
                ctx_id: qp.ctx_id,
                progress: qp.progress.name(),
                ops_per_second: rate(qp.ops, earlier.map_or(0, |qp| qp.ops)),
                bytes_per_second: rate(qp.bytes, earlier.map_or(0, |qp| qp.bytes)),
                ops: qp.ops,
                bytes: qp.bytes,
                errors: qp.errors,
                outstanding: qp.outstanding,
                entries: qp.entries,
            }
        })
        .collect();
    let served = |node: Option<&NodeStatus>| node.map_or(0, |node| node.served_packets);
    NodeRates {
        nid,
        answers: after.is_some(),
        ops_per_second: total(qps.iter().map(|qp| qp.ops_per_second)),
        bytes_per_second: total(qps.iter().map(|qp| qp.bytes_per_second)),
        errors: qps.iter().map(|qp| qp.errors).sum(),
        served_packets_per_second: rate(served(after), served(before)),
        qps,
    }
}

fn key(qp: &QpStatus) -> (u32, u32, u16) {
    (qp.pid, qp.qp, qp.ctx_id)
}

/// Asks the monitor of this host, if there is one.
pub fn lenders(rack: &Rack) -> Option<Vec<Lender>> {
    let lender = |listing: &Listing| Lender {
        name: listing.offer.lender.name.clone(),
        size_bytes: listing.offer.size_bytes,
        leased_bytes: listing.leased_bytes(),
        free_bytes: listing.free_bytes(),
        leases: listing.leases.len(),
        is_leaving: listing.offer.is_leaving,
    };
    let ledger = ledger(Some(rack.name()), None, None).ok()?;
    Some(ledger.lenders.iter().map(lender).collect())
}

/// A sum that starts from plain zero: that of no floating-point numbers is -0.
pub fn total(rates: impl Iterator<Item = f64>) -> f64 {
    rates.fold(0.0, |sum, rate| sum + rate)
}

#[cfg(test)]
pub(crate) mod tests {
    use rackmem::protocol::Progress;
    use rackmem::status::Work;

    use super::*;

    pub(crate) fn node(pid: u32, ops: u64) -> NodeStatus {
        let qp = QpStatus {
            pid: 50,
            qp: 0,
            ctx_id: 1,
            progress: Progress::Daemon,
            entries: 64,
            ops,
            bytes: ops * 64,
            errors: 0,
            outstanding: 3,
        };
        NodeStatus {
            nid: 0,
            nodes: 1,
            pid,
            version: String::new(),
            uptime_ms: 0,
            peers_up: Vec::new(),
            contexts: Vec::new(),
            qps: vec![qp],
            total: Work::default(),
            served_packets: 0,
            served_bytes: 0,
            links: Vec::new(),
        }
    }

    #[test]
    fn rates_are_differences_over_time() {
        let rates = node_rates(0, Some(&node(9, 100)), Some(&node(9, 300)), 2.0);
        assert_eq!((rates.ops_per_second, rates.bytes_per_second), (100.0, 6400.0));
        // The daemon is another one: its counters have started anew.
        let rates = node_rates(0, Some(&node(9, 100)), Some(&node(10, 50)), 2.0);
        assert_eq!(rates.ops_per_second, 25.0);
        let rates = node_rates(0, Some(&node(9, 100)), None, 2.0);
        assert!(!rates.answers && rates.qps.is_empty());
    }

    #[test]
    fn nothing_is_not_less_than_nothing() {
        assert_eq!(total(std::iter::empty()).to_string(), "0");
        assert_eq!(total([1.5, 2.0].into_iter()).to_string(), "3.5");
    }
}
