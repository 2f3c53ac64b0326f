//! `rackmem leases`.

use clap::Args;
use rackmem_fabric::Address;
use rackmem_lease::ledger;
use rackmem_lease::messages::{Ledger, Network, Party};

use super::access::{NodeProofArgs, monitor};
use super::lend::party;
use crate::args::RackOrFileArg;
use crate::choice::Choice;
use crate::console::{self, Align, Table, count};
use crate::failure::Result;
use crate::size;

/// Arguments of `rackmem leases`.
#[derive(Debug, Args)]
pub struct LeasesArgs {
    /// Rack that the command works on.
    #[command(flatten)]
    pub rack: RackOrFileArg,
    /// Address of the monitor [default: $RACKMEM_MONITOR, else in a lender of this host]
    #[arg(long, value_name = "ADDRESS")]
    pub monitor: Option<Address>,
    /// What this process proves.
    #[command(flatten)]
    pub proof: NodeProofArgs,
    /// Print JSON
    #[arg(long)]
    pub json: bool,
}

/// Shows all lenders, their leases and the borrowers.
///
/// # Errors
/// There is no monitor, or it does not answer.
pub fn run(choice: &Choice, args: &LeasesArgs) -> Result<()> {
    let monitor = monitor(choice, args.monitor.as_ref())?;
    let ledger = ledger(choice.rack_name(), monitor.as_ref(), args.proof.read(choice)?)?;
    match args.json {
        true => console::print_json(&ledger),
        false => console::print(&table(&ledger)),
    }
}

fn table(ledger: &Ledger) -> String {
    use Align::{Left, Right};
    let mut table = Table::new(&[
        ("lender", Left),
        ("lends", Right),
        ("free", Right),
        ("network", Left),
        ("leased", Right),
        ("to", Left),
    ]);
    for lender in &ledger.lenders {
        let mut first = [
            at_node(&lender.offer.lender, lender.offer.node),
            size::exact(lender.offer.size_bytes),
            if lender.offer.is_leaving {
                "leaves".to_owned()
            } else {
                size::exact(lender.free_bytes())
            },
            network(lender.offer.network).to_owned(),
        ];
        for lease in &lender.leases {
            let lease = [size::exact(lease.size_bytes), at_node(&lease.borrower, lease.node)];
            table.row(std::mem::take(&mut first).into_iter().chain(lease));
        }
        if lender.leases.is_empty() {
            table.row(first);
        }
    }
    let lenders = count(ledger.lenders.len(), "lender");
    let leases = ledger.lenders.iter().map(|lender| lender.leases.len()).sum();
    let leases = count(leases, "lease");
    format!("{lenders}, {leases}; monitor: {}\n\n{}", party(&ledger.monitor), table.render())
}

/// A process, and its node where keys tell.
fn at_node(process: &Party, node: Option<u16>) -> String {
    match node {
        Some(node) => format!("{}, node {node}", party(process)),
        None => party(process),
    }
}

/// What a borrower of another host has to know of a lender.
fn network(network: Network) -> &'static str {
    match network {
        Network::None => "-",
        Network::Encrypted => "encrypted",
        Network::Cleartext => "cleartext",
        Network::Insecure => "insecure",
    }
}
