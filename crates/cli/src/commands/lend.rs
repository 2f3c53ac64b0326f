//! `rackmem lend`.

use std::time::Duration;

use clap::Args;
use rackmem::rack::Rack;
use rackmem_borrow::Address;
use rackmem_borrow::agent::{Agent, Config, Event, Lend, MonitorAt};
use rackmem_borrow::lease::messages::Party;
use tracing::level_filters::LevelFilter;

use super::access::{AccessArgs, log, parse_name};
use crate::args::{RackArg, parse_mode};
use crate::console;
use crate::failure::Result;
use crate::interrupt::Interrupt;
use crate::size;

/// What `rackmem help lend` says.
pub const ABOUT: &str = "\
Lends memory of this host, in the foreground, until Ctrl-C. Borrowers lease pieces of it: `rackmem \
borrow`, `rackmem blk`, or programs by the library. A lease has one user at a time and is memory \
of its own, made when it is leased and thrown away when its borrower gives it back or dies, so \
nobody sees what another had in it.

On one host nothing else is needed: lenders and borrowers find each other in the rack's directory, \
and the first lender keeps the ledger (the monitor); if it dies another one takes over, and leases \
stay. Over several hosts, start `rackmem monitor --listen HOST:PORT` on one of them, and name it \
with --monitor; each lender says with --listen where it is reached.

The first Ctrl-C or SIGTERM ends lending in good order: no new leases, borrowers are told, and have \
the grace time to move to other lenders, and it ends when they have; a second one ends it at once. \
Memory of a lender that is gone is gone.

Who may borrow: on this host the same user and root, and others to whom the permissions of the socket \
(--mode) allow it; over the network, loopback included, those who know the secret (--secret). Without \
a secret no port is listened at, unless --insecure is said. The secret proves who one is; the data and \
the requests themselves are not encrypted: use it in a network that you trust, or through a tunnel. \
`(umask 077; head -c 32 /dev/urandom | base64 > FILE)` makes a secret; nobody else may read its file.";

/// Examples of `rackmem help lend`.
pub const EXAMPLES: &str = "Examples:\n  \
    rackmem lend 2G\n  \
    rackmem lend 2G --populate                     the memory is there before it is leased\n  \
    rackmem lend 16G --listen node3:7000 --monitor node0:7000 --secret ~/.rackmem-secret\n  \
    rackmem leases                                 who lends what to whom";

/// How the network is reached.
#[derive(Clone, Debug, Args)]
pub struct NetworkArgs {
    /// Listen there over the network
    #[arg(long, value_name = "HOST:PORT")]
    pub listen: Option<String>,
    /// Who may come there
    #[command(flatten)]
    pub access: AccessArgs,
    /// Permissions of the sockets on this host, in octal: write means borrow
    #[arg(long, default_value = "0600", value_parser = parse_mode)]
    pub mode: u32,
    /// Name to go by [default: host and process]
    #[arg(long, value_parser = parse_name)]
    pub name: Option<String>,
}

/// Arguments of `rackmem lend`.
#[derive(Debug, Args)]
pub struct LendArgs {
    /// What `--rack` names.
    #[command(flatten)]
    pub rack: RackArg,
    /// How much to lend, all leases together
    #[arg(value_name = "SIZE", value_parser = size::parse)]
    pub size: u64,
    /// Where the monitor is [default: in a lender of this host]
    #[arg(long, value_name = "ADDRESS")]
    pub monitor: Option<Address>,
    /// The network
    #[command(flatten)]
    pub network: NetworkArgs,
    /// Time that borrowers have after the first Ctrl-C
    #[arg(long, value_name = "SECONDS", default_value_t = Config::DEFAULT_GRACE.as_secs())]
    pub grace: u64,
    /// Have every page of a lease there before the borrower has it
    #[arg(long)]
    pub populate: bool,
    /// Ask the kernel for huge pages (/sys/kernel/mm/transparent_hugepage/shmem_enabled: advise)
    #[arg(long)]
    pub huge_pages: bool,
    /// Lend more than this host has left
    #[arg(long)]
    pub overcommit: bool,
    /// How long to look for a borrower's next request before sleeping (over the network)
    #[arg(long, value_name = "MICROSECONDS",
        default_value_t = Lend::DEFAULT_SPIN.as_micros() as u64)]
    pub spin: u64,
}

impl NetworkArgs {
    /// What was said, on top of what an agent is.
    pub(super) fn apply(&self, config: Config) -> Result<Config> {
        Ok(Config {
            name: self.name.clone(),
            listen: self.listen.clone(),
            access: self.access.access(self.mode)?,
            ..config
        })
    }
}

/// Lends until it is asked to end.
///
/// # Errors
/// There is not so much memory, an address is taken, or the monitor cannot be reached.
pub fn run(rack: Option<&str>, args: &LendArgs) -> Result<()> {
    let config = args.network.apply(Config::lender(Rack::named(rack)?, args.size))?;
    let config = Config {
        lend: Some(Lend {
            size_bytes: args.size,
            populate: args.populate,
            huge_pages: args.huge_pages,
            spin: Duration::from_micros(args.spin),
            overcommit: args.overcommit,
        }),
        monitor: args.monitor.clone().map_or(MonitorAt::Embedded, MonitorAt::Address),
        grace: Duration::from_secs(args.grace),
        ..config
    };
    let what = format!("lends {} in rack '{}'", size::exact(args.size), config.rack.name());
    serve(config, &what)
}

/// Runs an agent in the foreground.
pub(super) fn serve(config: Config, what: &str) -> Result<()> {
    log(LevelFilter::WARN);
    let interrupt = Interrupt::catch()?;
    let grace = config.grace;
    let agent = Agent::start(config, |event| say(&tell(&event)))?;
    say(what);
    while !agent.has_ended() && interrupt.sleep(Duration::from_secs(1)).is_ok() {}
    if !agent.has_ended() {
        say(&format!("ends; borrowers have {} s to go, Ctrl-C ends it now", grace.as_secs()));
        agent.leave();
    }
    agent.join();
    Ok(())
}

/// A line of the output; that nobody reads it is no reason to stop lending.
fn say(line: &str) {
    let _ = console::print(&format!("{line}\n"));
}

fn tell(event: &Event) -> String {
    match event {
        Event::Listens(address) => format!("listens at {address}"),
        Event::IsMonitor => "keeps the ledger of this rack".to_owned(),
        Event::Reported => "the monitor knows it".to_owned(),
        Event::MonitorLost(why) => format!("the monitor is lost ({why}); leases stay"),
        Event::Leased(bytes, borrower) => {
            format!("{} to {}", size::exact(*bytes), self::party(borrower))
        }
        Event::Ended(bytes, borrower) => {
            format!("{} back from {}", size::exact(*bytes), self::party(borrower))
        }
    }
}

/// Who somebody is, for people.
pub(super) fn party(party: &Party) -> String {
    format!("{} (process {} on {})", party.name, party.pid, party.host)
}
