//! `rackmem lend`.

use std::path::PathBuf;
use std::time::Duration;

use clap::Args;
use rackmem_fabric::Address;
use rackmem_lease::agent::{Agent, Config, Event, Lend, MonitorAt};
use rackmem_lease::messages::Party;
use tracing::level_filters::LevelFilter;

use super::access::{AccessArgs, log, parse_name};
use crate::args::{RackOrFileArg, parse_mode};
use crate::choice::Choice;
use crate::console;
use crate::failure::Result;
use crate::http::{Endpoint, Server};
use crate::interrupt::{Interrupt, outlive_file_limits};
use crate::metrics::serve_agent;
use crate::size;
use crate::spans::{LeaseSpans, Spans};

/// First text of `rackmem help lend`.
pub const ABOUT: &str = "\
Lends memory of this host, in the foreground, until Ctrl-C. `rackmem borrow`, `rackmem blk` and programs that \
use the library lease pieces of it. A lease has one borrower. Its memory is made for it, and freed when the \
borrower returns it or dies: no borrower ever sees another one's data.

On one host this is all: lenders and borrowers find each other in the rack's directory. The first lender runs \
the monitor, which keeps the ledger of leases; if it dies, another lender takes over, and leases stay. For \
several hosts, start `rackmem monitor --listen HOST:PORT` on one of them and name it with --monitor. Each \
lender says with --listen at which address borrowers reach it.

The first Ctrl-C or SIGTERM drains the lender: it grants no new leases, tells its borrowers to move to other \
lenders, and ends when they have moved or when --grace is over. Ctrl-C after that ends it at once, and the \
memory that it has lent is lost. Another SIGTERM changes nothing: `timeout` sends two.

Access: on this host, processes of the same user and of root, and those to whom the permissions of the socket \
(--mode) give write access. Over the network, loopback included, peers that know the secret (--secret), or \
nodes of the rack file with the right to (--rack-file). Without either a lender listens at no port unless --insecure \
is given. What travels is encrypted, unless both ends say --cleartext. `(umask 077; head -c 32 \
/dev/urandom | base64 > FILE)` makes a secret; a file that others can read is refused.";

/// Examples of `rackmem help lend`.
pub const EXAMPLES: &str = "Examples:\n  \
    rackmem lend 2G\n  \
    rackmem lend 2G --populate                     the memory is there before it is leased\n  \
    rackmem lend 16G --listen node3:7000 --monitor node0:7000 --secret ~/.rackmem-secret\n  \
    rackmem lend 16G --listen node3:7000 --monitor node0:7000 --rack-file rack.toml\n  \
    rackmem leases                                 who lends what to whom";

/// Arguments of commands that listen over the network.
#[derive(Clone, Debug, Args)]
pub struct NetworkArgs {
    /// Listen there over the network
    #[arg(long, value_name = "HOST:PORT")]
    pub listen: Option<String>,
    /// Access to it
    #[command(flatten)]
    pub access: AccessArgs,
    /// Permissions of the sockets on this host, in octal: write means borrow
    #[arg(long, default_value = "0600", value_parser = parse_mode)]
    pub mode: u32,
    /// Name to go by [default: host and process]
    #[arg(long, value_parser = parse_name)]
    pub name: Option<String>,
    /// Serve metrics for Prometheus there, to this host
    #[arg(long, value_name = "ADDRESS")]
    pub metrics: Option<Endpoint>,
}

/// Arguments of `rackmem lend`.
#[derive(Debug, Args)]
pub struct LendArgs {
    /// Rack that the command works on.
    #[command(flatten)]
    pub rack: RackOrFileArg,
    /// How much to lend, all leases together
    #[arg(value_name = "SIZE", value_parser = size::parse)]
    pub size: u64,
    /// Address of the monitor [default: in a lender of this host]
    #[arg(long, value_name = "ADDRESS")]
    pub monitor: Option<Address>,
    /// Options of listening over the network, as of `rackmem monitor`.
    #[command(flatten)]
    pub network: NetworkArgs,
    /// Time that borrowers have to move their memory after the first Ctrl-C
    #[arg(long, value_name = "SECONDS", default_value_t = Config::DEFAULT_GRACE.as_secs())]
    pub grace: u64,
    /// Allocate all pages of a lease before it is granted
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
    /// Append a span for each lease to this file when it ends, as OpenTelemetry's JSON lines
    #[arg(long, value_name = "FILE")]
    pub spans: Option<PathBuf>,
}

impl NetworkArgs {
    /// Applies these arguments to the settings of an agent.
    pub(super) fn apply(&self, choice: &Choice, config: Config) -> Result<Config> {
        Ok(Config {
            name: self.name.clone(),
            listen: self.listen.clone(),
            access: self.access.access(choice, self.mode)?,
            ..config
        })
    }
}

/// Lends until it is asked to end.
///
/// # Errors
/// There is not so much memory, an address is taken, or the monitor cannot be reached.
pub fn run(choice: &Choice, args: &LendArgs) -> Result<()> {
    let config = args.network.apply(choice, Config::lender(choice.rack()?, args.size))?;
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
    let spans = args.spans.as_deref().map(Spans::open).transpose()?;
    let mut spans = spans.map(|spans| LeaseSpans::new(spans, config.rack.name()));
    let trace = move |event: &Event| match (&mut spans, event) {
        (Some(spans), Event::Leased(lease)) => spans.begin(lease),
        (Some(spans), Event::Ended(lease)) => spans.end(lease),
        _ => {}
    };
    let what = format!("lends {} in rack '{}'", size::exact(args.size), config.rack.name());
    serve(config, args.network.metrics, &what, trace)
}

/// Runs an agent in the foreground. `trace` gets its events.
pub(super) fn serve(
    config: Config,
    metrics: Option<Endpoint>,
    what: &str,
    mut trace: impl FnMut(&Event) + Send + 'static,
) -> Result<()> {
    log(LevelFilter::WARN);
    outlive_file_limits();
    let interrupt = Interrupt::catch()?;
    let grace = config.grace;
    let is_lender = config.lend.is_some();
    let rack = config.rack.name().to_owned();
    let server = metrics.map(Server::listen).transpose()?;
    let take = move |event: Event| {
        trace(&event);
        say(&tell(&event));
    };
    let agent = Agent::start(config, take)?;
    if let Some(server) = server {
        say(&format!("metrics at {}metrics", server.url()));
        serve_agent(server, &rack, &agent)?;
    }
    say(what);
    while !agent.has_ended() && interrupt.sleep(Duration::from_secs(1)).is_ok() {}
    if !agent.has_ended() {
        if is_lender {
            say(&format!(
                "drains: borrowers have {} s to move their memory, Ctrl-C ends it now",
                grace.as_secs()
            ));
        } else {
            say("ends: leases stay");
        }
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
        Event::IsMonitor => "is the monitor of this rack".to_owned(),
        Event::Reported => "registered with the monitor".to_owned(),
        Event::MonitorLost(why) => format!("the monitor is lost ({why}); leases stay"),
        Event::Leased(lease) => {
            format!("{} to {}", size::exact(lease.size_bytes), party(&lease.borrower))
        }
        Event::Ended(lease) => {
            format!("{} back from {}", size::exact(lease.size_bytes), party(&lease.borrower))
        }
    }
}

/// A process as people know it: name, process number, host.
pub(crate) fn party(party: &Party) -> String {
    format!("{} (process {} on {})", party.name, party.pid, party.host)
}
