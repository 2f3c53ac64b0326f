//! Metrics of lenders and of the monitor.

use std::collections::BTreeMap;
use std::time::Duration;

use rackmem_lease::agent::{Agent, LenderStatus, Status};
use rackmem_lease::messages::{Ledger, Listing};

use super::text::{self, Family, counter, flag, gauge, write};
use crate::commands::lend::party;
use crate::failure::Result;
use crate::http::Server;

/// Time that an agent has to answer.
const PATIENCE: Duration = Duration::from_secs(2);

/// Of a lender, by itself.
pub(super) const LENDER: [Family<LenderStatus>; 11] = [
    gauge("rackmem_lender_size_bytes", "Memory that the lender lends, leased or not.", |at| {
        at.listing.offer.size_bytes as f64
    }),
    gauge("rackmem_lender_leased_bytes", "Memory that is leased now.", |at| {
        at.listing.leased_bytes() as f64
    }),
    gauge("rackmem_lender_leases", "Leases that there are now.", |at| {
        at.listing.leases.len() as f64
    }),
    gauge("rackmem_lender_leaving", "Whether the lender drains, to end: 0 or 1.", |at| {
        flag(at.listing.offer.is_leaving)
    }),
    gauge("rackmem_lender_registered", "Whether the monitor knows the lender: 0 or 1.", |at| {
        flag(at.is_registered)
    }),
    counter("rackmem_lender_leases_begun_total", "Leases that have begun.", |at| {
        at.served.leases as f64
    }),
    counter("rackmem_lender_leases_ended_total", "Leases that have ended.", |at| {
        at.served.ended as f64
    }),
    counter("rackmem_lender_begun_bytes_total", "Memory of leases that have begun.", |at| {
        at.served.leased_bytes as f64
    }),
    counter(
        "rackmem_lender_requests_total",
        "Requests of borrowers over the network; those of this host map their leases and make none.",
        |at| at.served.requests as f64,
    ),
    counter(
        "rackmem_lender_read_bytes_total",
        "Bytes that borrowers have read over the network.",
        |at| at.served.read_bytes as f64,
    ),
    counter(
        "rackmem_lender_written_bytes_total",
        "Bytes that borrowers have written over the network.",
        |at| at.served.written_bytes as f64,
    ),
];

/// By the monitor, of all lenders together.
pub(super) const MONITOR: [Family<Ledger>; 1] =
    [gauge("rackmem_monitor_lenders", "Lenders that the monitor knows.", |ledger| {
        ledger.lenders.len() as f64
    })];

/// Of a lender, by the monitor.
pub(super) const LISTING: [Family<Listing>; 5] = [
    gauge("rackmem_monitor_size_bytes", "Memory that a lender has on offer.", |lender| {
        lender.offer.size_bytes as f64
    }),
    gauge("rackmem_monitor_leased_bytes", "Memory of a lender that is leased.", |lender| {
        lender.leased_bytes() as f64
    }),
    gauge(
        "rackmem_monitor_promised_bytes",
        "Memory of a lender that borrowers were sent for and have not leased yet.",
        |lender| lender.promised_bytes as f64,
    ),
    gauge("rackmem_monitor_leases", "Leases of a lender.", |lender| lender.leases.len() as f64),
    gauge("rackmem_monitor_leaving", "Whether a lender drains: 0 or 1.", |lender| {
        flag(lender.offer.is_leaving)
    }),
];

/// The page about an agent.
fn page(rack: &str, status: Status) -> String {
    let rack = ("rack", rack.to_owned());
    let mut page = String::new();
    if let Some(lender) = status.lender {
        let name = lender.listing.offer.lender.name.clone();
        write(&mut page, &LENDER, &[(vec![rack.clone(), ("lender", name)], lender)]);
    }
    if let Some(ledger) = status.ledger {
        let lenders: Vec<_> = with_names(&ledger.lenders)
            .into_iter()
            .map(|(name, lender)| (vec![rack.clone(), ("lender", name)], lender.clone()))
            .collect();
        write(&mut page, &MONITOR, &[(vec![rack], ledger)]);
        write(&mut page, &LISTING, &lenders);
    }
    page
}

/// Lenders by names of which no two are the same: where several go by one name, process and host are added. Of a lender
/// that has come back while its old connection lasts, the newer listing counts.
fn with_names(lenders: &[Listing]) -> BTreeMap<String, &Listing> {
    let name = |lender: &Listing| {
        let this = &lender.offer.lender;
        let is_same = |other: &&Listing| other.offer.lender.name == this.name;
        match lenders.iter().filter(is_same).count() {
            1 => this.name.clone(),
            _ => party(this),
        }
    };
    lenders.iter().map(|lender| (name(lender), lender)).collect()
}

/// Serves the page about an agent.
///
/// # Errors
/// There is no thread for it.
pub fn serve_agent(server: Server, rack: &str, agent: &Agent) -> Result<()> {
    let (rack, watcher) = (rack.to_owned(), agent.watcher());
    text::serve(server, move || {
        let status = watcher.status(PATIENCE).ok_or("the lender does not answer")?;
        Ok(page(&rack, status))
    })
}

#[cfg(test)]
mod tests {
    use rackmem_lease::messages::{Network, Offer, Party};

    use super::*;

    fn lender(name: &str, pid: u32) -> Listing {
        let lender =
            Party { name: name.to_owned(), host: "h".to_owned(), host_id: String::new(), pid };
        let offer = Offer {
            lender,
            addresses: Vec::new(),
            size_bytes: 4096,
            is_leaving: false,
            network: Network::None,
            node: None,
        };
        Listing { offer, leases: Vec::new(), promised_bytes: 0 }
    }

    #[test]
    fn no_two_lenders_have_the_same_label() {
        let lenders = [lender("a", 1), lender("b", 2), lender("a", 3), lender("a", 3)];
        let names: Vec<String> = with_names(&lenders).into_keys().collect();
        assert_eq!(names, ["a (process 1 on h)", "a (process 3 on h)", "b"]);
    }
}
