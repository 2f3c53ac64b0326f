//! `rackmem nic`: network interfaces lent and borrowed.

use std::net::{IpAddr, SocketAddr, ToSocketAddrs};
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use rackmem_fabric::net::access::DEFAULT_MODE;
use rackmem_fabric::net::proof::Proof;
use rackmem_nic::{
    AttachOptions, Borrower, Carrier, DEFAULT_PORT, DEFAULT_SPIN_US, Event, LendOptions, Lender,
    Mode,
};
use tracing::level_filters::LevelFilter;

use super::access::{AccessArgs, ProofArgs, log};
use crate::args::RackFileArg;
use crate::choice::Choice;
use crate::console;
use crate::failure::{Failure, Result};
use crate::interrupt::Interrupt;

/// First text of `rackmem nic --help`.
pub const ABOUT: &str = "\
Lends a network interface of this host to another host, which gets an interface of its own whose packets leave \
and arrive here. Programs there use it like any other interface: it has the NIC's address, MTU, link state and \
network, and follows when the cable here is unplugged.

A NIC has one borrower at a time. While it is lent, this host neither sends nor receives through it. When \
either side ends, even by SIGKILL, the NIC gets its settings back, and nothing is left on either host.";

/// Last text of it.
pub const EXAMPLES: &str = "\
Examples:
  rackmem nic lend eth1 --listen 10.1.0.2 --secret FILE       on the host that has it
  rackmem nic attach lent0 --from 10.1.0.2 --ip 10.0.0.7/24 --secret FILE     on the other one
  rackmem nic attach lent0 --from lender:7471 --secret FILE --mode tap --link udp

Rights: lending needs CAP_NET_ADMIN and CAP_NET_RAW, and CAP_BPF for --mode kernel. Borrowing needs
CAP_NET_ADMIN, and /dev/net/tun for --mode tap. Root has them all.

Access: a borrower has to know the lender's secret (--secret), or be a node of the lender's rack file with
the right 'nic' (--rack-file), over loopback, too, unless the lender says --insecure. Both ends prove
that before they exchange anything else. What follows depends on the way:

  --link tcp     messages and packets are encrypted, unless both ends say --cleartext
  --link udp     each datagram is encrypted, with --cleartext, too; forged and repeated ones are dropped
  --mode kernel  VXLAN has no authentication: an attacker who reaches the host and sees or guesses the
                 tunnel's random number of 24 bits can send packets into it, from any address

Use a network of the rack's own (--listen), or one that nobody else can send to.";

/// First text of `rackmem nic lend --help`.
pub const LEND_ABOUT: &str = "\
Lends a network interface until Ctrl-C, to one borrower after the other. It prints a line for
whatever happens: free, lent to whom, returned, who was refused.";

/// Last text of it.
pub const LEND_EXAMPLES: &str = "\
Examples:
  rackmem nic lend eth1 --listen 10.1.0.2 --secret ~/.rackmem-secret
  rackmem nic lend eth1 --listen [::]:9000 --secret ~/.rackmem-secret --json

Exit status: 0 after Ctrl-C or SIGTERM, 1 if the NIC cannot be lent or is gone.";

/// First text of `rackmem nic attach --help`.
pub const ATTACH_ABOUT: &str = "\
Makes the network interface NAME, whose packets leave and arrive at the NIC of a lender, until Ctrl-C.

Packets travel in one of two ways. --mode kernel: in a VXLAN tunnel between both kernels (UDP port
4789), which no process touches; its MTU is that of the network between the hosts, less 50 bytes for
the tunnel. --mode tap: through this process and the lender's, over TCP or (--link udp) over
rackmem's own reliable link; with the NIC's own MTU, needs no tunnel, slower. Without --mode the
kernel carries them if both hosts permit it.

Interrupts of the NIC travel before all packets: its link (0), errors (1), packets that wait (2),
changed settings (3). A changed MTU or address of NAME is written to the NIC's registers.";

/// Last text of it.
pub const ATTACH_EXAMPLES: &str = "\
Examples:
  rackmem nic attach lent0 --from 10.1.0.2 --ip 10.0.0.7/24 --secret ~/.rackmem-secret
  rackmem nic attach lent0 --from lender --mode tap --spin 0    never polls, for busy hosts
  rackmem nic attach lent0 --from lender --json                 a JSON line for each event

Exit status: 0 after Ctrl-C or SIGTERM; 1 if there is no such lender, it has lent the NIC already,
rights are missing, or the lender is lost or takes it back. NAME has no link then, and goes.";

/// Arguments of `rackmem nic`.
#[derive(Debug, Args)]
pub struct NicArgs {
    /// Rack whose nodes both ends are.
    #[command(flatten)]
    pub file: RackFileArg,
    /// The command of `rackmem nic`.
    #[command(subcommand)]
    pub command: NicCommand,
}

/// The commands of `rackmem nic`.
#[derive(Debug, Subcommand)]
pub enum NicCommand {
    /// Lend a network interface of this host
    #[command(long_about = LEND_ABOUT, after_long_help = LEND_EXAMPLES)]
    Lend(LendArgs),
    /// Borrow a network interface of another host
    #[command(long_about = ATTACH_ABOUT, after_long_help = ATTACH_EXAMPLES)]
    Attach(AttachArgs),
}

/// Arguments of `rackmem nic lend`.
#[derive(Debug, Args)]
pub struct LendArgs {
    /// The interface to lend
    pub interface: String,
    /// Address that borrowers connect to, with or without a port
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1", value_parser = parse_address)]
    pub listen: SocketAddr,
    /// Access to it
    #[command(flatten)]
    pub access: AccessArgs,
    /// How long to poll for packets after one came, before sleeping
    #[arg(long, value_name = "MICROSECONDS", default_value_t = DEFAULT_SPIN_US)]
    pub spin: u64,
    /// Print a JSON object for each event
    #[arg(long)]
    pub json: bool,
}

/// Way of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ModeArg {
    /// In a tunnel between both kernels
    Kernel,
    /// Through both processes
    Tap,
}

/// Transport of messages and, through processes, of packets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LinkArg {
    /// TCP: a connection for messages and one for packets
    Tcp,
    /// A reliable link of our own, over UDP
    Udp,
}

/// Arguments of `rackmem nic attach`.
#[derive(Debug, Args)]
pub struct AttachArgs {
    /// Name of the interface that is to be
    pub name: String,
    /// The lender: a host or an address, with or without a port
    #[arg(long, value_name = "ADDR", value_parser = parse_address)]
    pub from: SocketAddr,
    /// What this process proves.
    #[command(flatten)]
    pub proof: ProofArgs,
    /// Address of the interface, with the length of its network's prefix; may be repeated
    #[arg(long, value_name = "IP/LENGTH", value_parser = parse_network)]
    pub ip: Vec<(IpAddr, u8)>,
    /// Way of packets [default: through the kernel if both hosts permit it]
    #[arg(long, value_name = "HOW")]
    pub mode: Option<ModeArg>,
    /// Transport of messages and, with --mode tap, of packets
    #[arg(long, value_name = "WHAT", default_value = "tcp")]
    pub link: LinkArg,
    /// Number of this node in the NIC's interrupt mapping table, and in the rack file if there is one [default: in a
    /// rack file $RACKMEM_NODE, else the node whose private key is here; else 0]
    #[arg(long, value_name = "N")]
    pub node: Option<u16>,
    /// How long to poll for packets after one came, before sleeping
    #[arg(long, value_name = "MICROSECONDS", default_value_t = DEFAULT_SPIN_US)]
    pub spin: u64,
    /// Print a JSON object for each event
    #[arg(long)]
    pub json: bool,
}

fn parse_address(text: &str) -> std::result::Result<SocketAddr, String> {
    if let Ok(ip) = text.parse::<IpAddr>() {
        return Ok((ip, DEFAULT_PORT).into());
    }
    let bare = text.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let found = match text.rsplit_once(':') {
        Some(_) if bare.is_none() => text.to_socket_addrs(),
        _ => (bare.unwrap_or(text), DEFAULT_PORT).to_socket_addrs(),
    };
    match found.map(|mut addresses| addresses.next()) {
        Ok(Some(address)) => Ok(address),
        Ok(None) => Err("that host has no address".to_owned()),
        Err(error) => Err(format!("expected an address or HOST:PORT: {error}")),
    }
}

fn parse_network(text: &str) -> std::result::Result<(IpAddr, u8), String> {
    let wrong =
        || "expected an address and the length of its prefix, such as 10.0.0.7/24".to_owned();
    let (ip, length) = text.split_once('/').ok_or_else(wrong)?;
    let ip: IpAddr = ip.parse().map_err(|_| wrong())?;
    let most = if ip.is_ipv4() { 32 } else { 128 };
    match length.parse() {
        Ok(length) if length <= most => Ok((ip, length)),
        _ => Err(wrong()),
    }
}

/// Lends or borrows.
///
/// # Errors
/// Rights are missing, the other side refuses or is lost.
pub fn run(choice: &Choice, args: &NicArgs) -> Result<()> {
    match &args.command {
        NicCommand::Lend(args) => lend(choice, args),
        NicCommand::Attach(args) => attach(choice, args),
    }
}

fn lend(choice: &Choice, args: &LendArgs) -> Result<()> {
    let interrupt = Interrupt::catch()?;
    log(LevelFilter::WARN);
    let mut lender = Lender::open(LendOptions {
        interface: args.interface.clone(),
        listen: args.listen,
        access: args.access.access(choice, DEFAULT_MODE)?,
        spin: Duration::from_micros(args.spin),
    })?;
    let mut reporter = Reporter::new(args.json);
    let served = lender.serve(interrupt.as_fd(), &mut |event| reporter.report(&event));
    served?;
    reporter.end()
}

fn attach(choice: &Choice, args: &AttachArgs) -> Result<()> {
    let interrupt = Interrupt::catch()?;
    let proof = args.proof.read(choice, args.node)?;
    let own_node = proof.as_ref().and_then(Proof::own_node);
    let options = AttachOptions {
        name: args.name.clone(),
        from: args.from,
        proof,
        node: args.node.or(own_node).unwrap_or(0),
        mode: args.mode.map(|mode| match mode {
            ModeArg::Kernel => Mode::Kernel,
            ModeArg::Tap => Mode::Tap,
        }),
        carrier: match args.link {
            LinkArg::Tcp => Carrier::Tcp,
            LinkArg::Udp => Carrier::Udp,
        },
        addresses: args.ip.clone(),
        spin: Duration::from_micros(args.spin),
    };
    let mut borrower = match Borrower::attach(&options, interrupt.as_fd()) {
        Err(rackmem_fabric::error::Error::Stopped) => return Ok(()),
        attached => attached?,
    };
    let mut reporter = Reporter::new(args.json);
    reporter.report(&borrower.describe());
    borrower.run(interrupt.as_fd(), &mut |event| reporter.report(&event))?;
    borrower.detach();
    reporter.end()
}

/// Prints events. A reader that has gone does not take the NIC away from its borrower: it shows at the end.
struct Reporter {
    json: bool,
    failed: Option<Failure>,
}

impl Reporter {
    fn new(json: bool) -> Reporter {
        Reporter { json, failed: None }
    }

    fn report(&mut self, event: &Event) {
        let line = match self.json {
            true => serde_json::to_string(event).ok(),
            false => sentence(event),
        };
        if let Some(line) = line
            && let Err(failure) = console::print(&(line + "\n"))
        {
            self.failed.get_or_insert(failure);
        }
    }

    fn end(self) -> Result<()> {
        self.failed.map_or(Ok(()), Err)
    }
}

fn sentence(event: &Event) -> Option<String> {
    Some(match event {
        Event::Free { interface, address } => {
            format!("{interface} is free, to be had at {address}")
        }
        Event::Lent { to, node, mode } => {
            format!("lent to {to}, node {node}, packets pass through {}", way(*mode))
        }
        Event::Returned { from, reason, traffic } => {
            format!("back from {from}: {reason} ({traffic})")
        }
        Event::Refused { peer, reason } => format!("{peer} was refused: {reason}"),
        Event::Attached { name, interface, from, mode, mac, mtu } => format!(
            "{name} is {interface} of {from}: {mac}, MTU {mtu}, packets pass through {}",
            way(*mode)
        ),
        Event::Interrupt { id: 0, asserted } => {
            format!("the link is {}", if *asserted { "up" } else { "down" })
        }
        Event::Interrupt { id: 1, asserted: true } => "the NIC counts new errors".to_owned(),
        Event::Interrupt { .. } => return None,
        Event::Remark { text } => text.clone(),
    })
}

fn way(mode: Mode) -> &'static str {
    match mode {
        Mode::Kernel => "the kernel's tunnel, into which whoever knows its number can send",
        Mode::Tap => "both processes",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_have_a_port_or_get_one() {
        let parse = |text| parse_address(text).map(|address| address.to_string());
        assert_eq!(parse("10.0.0.1"), Ok("10.0.0.1:7471".to_owned()));
        assert_eq!(parse("10.0.0.1:80"), Ok("10.0.0.1:80".to_owned()));
        assert_eq!(parse("::1"), Ok("[::1]:7471".to_owned()));
        assert_eq!(parse("[::1]"), Ok("[::1]:7471".to_owned()));
        assert_eq!(parse("[::1]:80"), Ok("[::1]:80".to_owned()));
        assert!(parse("10.0.0.1:port").is_err());
    }

    #[test]
    fn networks_have_a_prefix() {
        assert_eq!(parse_network("10.0.0.7/24"), Ok(("10.0.0.7".parse().unwrap(), 24)));
        assert_eq!(parse_network("fd00::7/64"), Ok(("fd00::7".parse().unwrap(), 64)));
        for wrong in ["10.0.0.7", "10.0.0.7/33", "fd00::7/129", "10.0.0/8", "10.0.0.7/-1"] {
            assert!(parse_network(wrong).is_err(), "{wrong}");
        }
    }
}
