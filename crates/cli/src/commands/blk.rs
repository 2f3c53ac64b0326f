//! `rackmem blk`.

use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, ValueEnum};
use rackmem_blk::{Config, Server, Summary, TlsMode, tls};
use rackmem_fabric::Address;
use rackmem_fabric::net::names;
use rackmem_fabric::rights::Right;
use rackmem_lease::store::mirror::DEFAULT_PATIENCE;
use rackmem_lease::{Borrowed, Status, Wanted, borrow};
use tracing::level_filters::LevelFilter;

use super::access::{NodeProofArgs, log, monitor};
use crate::args::{RackOrFileArg, parse_mode};
use crate::choice::Choice;
use crate::console::{self, count};
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::size;

/// First text of `rackmem help blk`.
pub const ABOUT: &str = "\
Borrows memory and serves it as a block device by the NBD protocol, in the foreground, until Ctrl-C. Whatever \
speaks NBD can use it: the kernel (nbd-client), virtual machines (qemu), fio, nbdcopy. The memory is zero at \
first, and goes back to its lenders at the end, with what was written to it.

Up to 256 clients may be connected, each served by a thread of its own; a write that one client has got an \
answer to is read by all. If a lender dies, requests fail with EIO (with --mirror 2 only if both die) and the \
server stays. If a lender cannot be reached, requests wait for it; after --patience seconds its bytes count as \
lost.

NBD itself has no passwords: a process that can connect to the socket can read and write. These are processes \
of its user and of root, and others if --mode says so. At a port, loopback included, the server listens only \
with --tls require and --verify-clients, so that clients have to authenticate, or with --insecure.

DIR of --tls-certificates has server-cert.pem, server-key.pem and, for --verify-clients, ca-cert.pem: the \
names that qemu and nbdkit use, too.";

/// Examples of `rackmem help blk`.
pub const EXAMPLES: &str = "Examples:\n  \
    rackmem blk 1G --socket /tmp/disk\n  \
    nbdinfo 'nbd+unix:///?socket=/tmp/disk'\n  \
    qemu-img convert disk.qcow2 'nbd+unix:///?socket=/tmp/disk'\n  \
    nbd-client -unix /tmp/disk /dev/nbd0 && mkfs.ext4 /dev/nbd0\n\n  \
    rackmem blk 16G --mirror 2 --listen node1:10809 \\\n      \
        --tls require --tls-certificates /etc/rackmem --verify-clients";

/// Time between two looks at the state of the leases, for the log.
const LOOK: Duration = Duration::from_secs(1);

/// Values of the command line for TLS modes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TlsArg {
    /// Never
    Off,
    /// If a client wants it
    On,
    /// Always
    Require,
}

/// Arguments of `rackmem blk`.
#[derive(Debug, Args)]
pub struct BlkArgs {
    /// Rack that the command works on.
    #[command(flatten)]
    pub rack: RackOrFileArg,
    /// Size of the device
    #[arg(value_name = "SIZE", value_parser = size::parse)]
    pub size: u64,
    /// Listen at this Unix socket
    #[arg(
        long,
        value_name = "PATH",
        required_unless_present = "listen",
        conflicts_with = "listen"
    )]
    pub socket: Option<PathBuf>,
    /// Listen at this TCP port (10809 is NBD's; 0 is any that is free)
    #[arg(long, value_name = "HOST:PORT")]
    pub listen: Option<String>,
    /// Name of the export; clients that name none get it, too
    #[arg(long, value_name = "NAME", default_value = "memory")]
    pub export: String,
    /// Listen at a port although clients prove nothing: every process that reaches it may read and write
    #[arg(long)]
    pub insecure: bool,
    /// Permissions of the Unix socket, in octal: write means connect
    #[arg(long, default_value = "0600", value_parser = parse_mode)]
    pub mode: u32,
    /// Refuse writes
    #[arg(long)]
    pub read_only: bool,
    /// Copies, each with lenders of its own: with two, one lender may die
    #[arg(long, value_name = "COPIES", default_value_t = 1)]
    pub mirror: u32,
    /// Time that requests wait while no lender that has the bytes can be reached
    #[arg(long, value_name = "SECONDS", default_value_t = DEFAULT_PATIENCE.as_secs(),
          value_parser = clap::value_parser!(u64).range(1..=86_400))]
    pub patience: u64,
    /// Whether connections are encrypted
    #[arg(long, value_name = "WHEN", default_value = "off")]
    pub tls: TlsArg,
    /// Directory of the certificates
    #[arg(long, value_name = "DIR")]
    pub tls_certificates: Option<PathBuf>,
    /// Take only clients with a certificate of the authority
    #[arg(long, requires = "tls_certificates")]
    pub verify_clients: bool,
    /// Address of the monitor [default: $RACKMEM_MONITOR, else on this host]
    #[arg(long, value_name = "ADDRESS")]
    pub monitor: Option<Address>,
    /// What this process proves.
    #[command(flatten)]
    pub proof: NodeProofArgs,
    /// Reach lenders of this host over the network, too: for measurements
    #[arg(long, hide = true)]
    pub only_network: bool,
}

/// Serves until it is asked to end.
///
/// # Errors
/// The memory cannot be borrowed, the address is taken, or certificates are missing.
pub fn run(choice: &Choice, args: &BlkArgs) -> Result<()> {
    log(LevelFilter::INFO);
    let interrupt = Interrupt::catch()?;
    let config = config(args)?;
    let borrowed = borrow(&Wanted {
        copies: args.mirror,
        rack: choice.rack_name().map(str::to_owned),
        monitor: monitor(choice, args.monitor.as_ref())?,
        proof: args.proof.read(choice)?,
        purpose: Right::Blk,
        name: Some(names::own(&format!("blk {}", args.export))),
        only_network: args.only_network,
        patience: Duration::from_secs(args.patience),
        ..Wanted::new(args.size)
    })?;
    let server = Server::bind(borrowed.store(), config)?;
    announce(server.address(), args, &borrowed)?;
    let summary = std::thread::scope(|scope| {
        scope.spawn(|| watch(&borrowed, &interrupt));
        let summary = server.run(interrupt.as_fd());
        // A server that failed ends the watch, too.
        if summary.is_err() {
            interrupt.give_up();
        }
        summary
    })?;
    borrowed.release()?;
    conclude(&summary)
}

fn config(args: &BlkArgs) -> Result<Config> {
    let tls_mode = match args.tls {
        TlsArg::Off => TlsMode::Off,
        TlsArg::On => TlsMode::On,
        TlsArg::Require => TlsMode::Require,
    };
    let tls = match (&args.tls_certificates, tls_mode) {
        (None, TlsMode::Off) => None,
        (Some(_), TlsMode::Off) => {
            return Err(Failure::usage("--tls-certificates needs --tls on or --tls require"));
        }
        (None, _) => return Err(Failure::usage("--tls needs --tls-certificates")),
        (Some(directory), _) => Some(tls::load(directory, args.verify_clients)?),
    };
    let address = match (&args.socket, &args.listen) {
        (Some(path), _) => Address::Unix(path.clone()),
        (None, Some(name)) => Address::Tcp(name.clone()),
        (None, None) => unreachable!("the command line has one of them"),
    };
    Ok(Config {
        address,
        name: args.export.clone(),
        description: "borrowed memory".to_owned(),
        is_read_only: args.read_only,
        tls_mode,
        tls,
        is_insecure: args.insecure,
        mode: args.mode,
    })
}

fn announce(address: &Address, args: &BlkArgs, borrowed: &Borrowed) -> Result<()> {
    let scheme = if args.tls == TlsArg::Off { "nbd" } else { "nbds" };
    let export = &args.export;
    let uri = match address {
        Address::Unix(path) => format!("{scheme}+unix:///{export}?socket={}", path.display()),
        Address::Tcp(name) => format!("{scheme}://{name}/{export}"),
    };
    let status = borrowed.state();
    let leases: usize = status.copies.iter().map(|copy| copy.leases.len()).sum();
    let size = size::exact(status.size_bytes);
    console::print(&format!("{size} of borrowed memory ({}) at {uri}\n", count(leases, "lease")))
}

/// Says what becomes of the leases, once each.
fn watch(borrowed: &Borrowed, interrupt: &Interrupt) {
    let mut said = Vec::new();
    while interrupt.sleep(LOOK).is_ok() {
        for text in news(&borrowed.state()) {
            if !said.contains(&text) {
                console::remark(&text);
                said.push(text);
            }
        }
    }
}

fn news(status: &Status) -> Vec<String> {
    let leases = status.copies.iter().flat_map(|copy| &copy.leases);
    let what_next = if status.is_lost {
        "requests that need it fail with EIO"
    } else {
        "the other copy serves on, and a new one is made when a lender has room"
    };
    leases
        .filter_map(|lease| {
            let lender = &lease.lender.name;
            let size = size::exact(lease.size_bytes);
            if lease.is_lost {
                return Some(format!("{size} of {lender} are lost: {what_next}"));
            }
            lease.notice_ms.map(|_| {
                format!(
                    "{lender} takes {size} back soon: they move to another lender that has room"
                )
            })
        })
        .collect()
}

fn conclude(summary: &Summary) -> Result<()> {
    let tally = summary.tally;
    console::print(&format!(
        "served {}: {} requests, {} read, {} written, {} refused\n",
        count(summary.clients as usize, "client"),
        size::rounded(tally.requests as f64),
        size::rounded_bytes(tally.read_bytes as f64),
        size::rounded_bytes(tally.written_bytes as f64),
        size::rounded(tally.errors as f64),
    ))
}
