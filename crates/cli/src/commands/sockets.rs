//! `rackmem sockets`: programs that know sockets, on queue pairs.

use std::io;

use clap::{Args, Subcommand, value_parser};
use rackmem_fabric::Address;
use rackmem_fabric::error::Error;
use rackmem_sockets::Access;
use rackmem_sockets::proxy::{Acceptor, Connector, DEFAULT_SOCKETS, MAX_SOCKETS, Summary};
use tracing::level_filters::LevelFilter;

use super::access::{AccessArgs, NodeProofArgs, log};
use crate::args::{RackFileArg, parse_mode};
use crate::choice::Choice;
use crate::console::{self, count};
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;
use crate::size;

/// First text of `rackmem sockets --help`.
pub const ABOUT: &str = "\
Carries the connections of unmodified programs over queue pairs, from one process to another. `rackmem sockets \
listen` runs beside the server, `rackmem sockets connect` beside its clients. Both meet at MEET: a path for \
two processes on one host, over shared memory, or HOST:PORT for two hosts, over one TCP connection. Each \
connection has a queue pair of its own (SQ, RQ, CQ and registered memory), so a connection that is not read \
does not stop the others.

Programs see an ordinary socket: bytes in order, back-pressure, shutdown of one direction. If a program or a \
proxy dies, TCP clients get a reset within a second, and clients of Unix sockets get the end of the \
connection. A stopped proxy or a torn network is noticed within 5 seconds. Urgent bytes (TCP) and descriptors \
(Unix) are not carried.

MEET and ADDRESS are HOST:PORT, or a path if they contain a '/'.";

/// Last text of it.
pub const EXAMPLES: &str = "\
Examples:
  redis-server --port 6379 &
  rackmem sockets listen /tmp/redis.qp --to 127.0.0.1:6379
  rackmem sockets connect /tmp/redis.qp --listen /tmp/redis.sock
  redis-cli -s /tmp/redis.sock ping

  node1$ rackmem sockets listen node1:7700 --to 127.0.0.1:6379 --secret ~/.rackmem-secret
  node2$ rackmem sockets connect node1:7700 --listen ./redis.sock --secret ~/.rackmem-secret

Access: at a path, processes with write access to its file: the owner and root, and others if --mode
says so. At a port, over loopback, too, peers that know the secret, or nodes of the rack file with the
right 'context' (--rack-file); what travels is encrypted, unless both ends say --cleartext.";

/// First text of `rackmem sockets listen --help`.
pub const LISTEN_ABOUT: &str = "\
Waits at MEET for any number of `rackmem sockets connect`, and connects each of their queue pairs to
the server, until Ctrl-C. The server may start later: connections are refused until then. Without a
secret it listens at no port unless --insecure is given.";

/// Last text of it.
pub const LISTEN_EXAMPLES: &str = "\
Examples:
  rackmem sockets listen /tmp/redis.qp --to 127.0.0.1:6379
  rackmem sockets listen ./db.qp --to /run/postgresql/.s.PGSQL.5432 --sockets 1000
  rackmem sockets listen node1:7700 --to 127.0.0.1:6379 --secret ~/.rackmem-secret

Exit status: 0 after Ctrl-C or SIGTERM, 1 if MEET cannot be listened at.";

/// First text of `rackmem sockets connect --help`.
pub const CONNECT_ABOUT: &str = "\
Listens like a server and carries what connects there to the `rackmem sockets listen` at MEET, until
Ctrl-C. If that one ends, all connections do; those that come later find the next one at MEET.

Programs that know nothing of rackmem cannot prove who they are: at a port, whoever reaches it, as all
users of this host do, gets to the server. So a port needs --insecure; a path has permissions.";

/// Last text of it.
pub const CONNECT_EXAMPLES: &str = "\
Examples:
  rackmem sockets connect /tmp/redis.qp --listen 127.0.0.1:6380 --insecure
  rackmem sockets connect ./db.qp --listen ./.s.PGSQL.5432
  rackmem sockets connect node1:7700 --listen ./redis.sock --secret ~/.rackmem-secret

Exit status: 0 after Ctrl-C or SIGTERM; 1 if nobody listens at MEET, it wants another secret, or the
address is taken.";

/// Arguments of `rackmem sockets`.
#[derive(Debug, Args)]
pub struct SocketsArgs {
    /// Rack whose nodes both ends are.
    #[command(flatten)]
    pub file: RackFileArg,
    /// Side of this process
    #[command(subcommand)]
    pub command: SocketsCommand,
}

/// The commands of `rackmem sockets`.
#[derive(Debug, Subcommand)]
pub enum SocketsCommand {
    /// Take queue pairs, and connect each to a server
    #[command(long_about = LISTEN_ABOUT, after_long_help = LISTEN_EXAMPLES)]
    Listen(ListenArgs),
    /// Listen for programs, and give each a queue pair
    #[command(long_about = CONNECT_ABOUT, after_long_help = CONNECT_EXAMPLES)]
    Connect(ConnectArgs),
}

/// Arguments of `rackmem sockets listen`.
#[derive(Debug, Args)]
pub struct ListenArgs {
    /// Address that queue pairs connect to: a path on this host, or HOST:PORT
    #[arg(value_name = "MEET")]
    pub meet: Address,
    /// The server
    #[arg(long, value_name = "ADDRESS")]
    pub to: Address,
    /// Most connections at a time
    #[arg(long, value_name = "N", default_value_t = DEFAULT_SOCKETS,
        value_parser = value_parser!(u32).range(1..=i64::from(MAX_SOCKETS)))]
    pub sockets: u32,
    /// Access to it
    #[command(flatten)]
    pub access: AccessArgs,
    /// Permissions of the socket at a path, in octal: write means connect
    #[arg(long, default_value = "0600", value_parser = parse_mode)]
    pub mode: u32,
}

/// Arguments of `rackmem sockets connect`.
#[derive(Debug, Args)]
pub struct ConnectArgs {
    /// Address at which `rackmem sockets listen` waits
    #[arg(value_name = "MEET")]
    pub meet: Address,
    /// Address that programs connect to; port 0 is any that is free
    #[arg(long, value_name = "ADDRESS")]
    pub listen: Address,
    /// Most connections at a time; more wait
    #[arg(long, value_name = "N", default_value_t = DEFAULT_SOCKETS,
        value_parser = value_parser!(u32).range(1..=i64::from(MAX_SOCKETS)))]
    pub sockets: u32,
    /// What this process proves.
    #[command(flatten)]
    pub proof: NodeProofArgs,
    /// Listen at a port: every process that reaches it may connect, other users of this host, too
    #[arg(long)]
    pub insecure: bool,
    /// Permissions of the socket at a path, in octal: write means connect
    #[arg(long, default_value = "0600", value_parser = parse_mode)]
    pub mode: u32,
}

/// Carries connections until it is asked to end.
///
/// # Errors
/// Nobody listens, an address is taken, or limits do not permit as many connections.
pub fn run(choice: &Choice, args: &SocketsArgs) -> Result<()> {
    log(LevelFilter::INFO);
    let interrupt = Interrupt::catch()?;
    let summary = match &args.command {
        SocketsCommand::Listen(args) => listen(choice, args, &interrupt)?,
        SocketsCommand::Connect(args) => connect(choice, args, &interrupt)?,
    };
    conclude(&summary)
}

fn listen(choice: &Choice, args: &ListenArgs, interrupt: &Interrupt) -> Result<Summary> {
    let access = args.access.access(choice, args.mode)?;
    let acceptor = Acceptor::open(&args.meet, access, args.to.clone(), args.sockets)?;
    console::print(&format!("queue pairs at {} reach {}\n", acceptor.address(), args.to))?;
    Ok(acceptor.run(interrupt.as_fd())?)
}

fn connect(choice: &Choice, args: &ConnectArgs, interrupt: &Interrupt) -> Result<Summary> {
    let proof = args.proof.read(choice)?;
    let access = Access { proof, is_insecure: args.insecure, mode: args.mode };
    let connector = Connector::open(&args.meet, access, &args.listen, args.sockets)
        .map_err(|error| explain(error, &args.meet))?;
    let address = connector.address();
    console::print(&format!("sockets at {address} get queue pairs to {}\n", args.meet))?;
    Ok(connector.run(interrupt.as_fd())?)
}

/// Says what to do about an acceptor that is not there.
fn explain(error: Error, meet: &Address) -> Failure {
    use io::ErrorKind::{ConnectionRefused, NotFound, PermissionDenied};
    let kind = match &error {
        // Only what concerns MEET: the address to listen at has its own errors.
        Error::Io { what, source } if what.ends_with(&meet.to_string()) => source.kind(),
        _ => return error.into(),
    };
    match kind {
        ConnectionRefused | NotFound => {
            Failure::new(format!("{error}; start `rackmem sockets listen` there first"))
        }
        PermissionDenied => {
            Failure::new(format!("{error}; only users with write access to that file may connect"))
        }
        _ => error.into(),
    }
}

fn conclude(summary: &Summary) -> Result<()> {
    console::print(&format!(
        "carried {}: {} not ended in order, {} sent, {} received\n",
        count(summary.connections as usize, "connection"),
        summary.broken,
        size::rounded_bytes(summary.sent_bytes as f64),
        size::rounded_bytes(summary.received_bytes as f64),
    ))
}
