//! The process of a lender, of the monitor, or of both.
//!
//! One thread serves all control connections; long work (making memory, throwing it away,
//! moving a borrower's bytes over the network) has threads of its own. The first lender of a host
//! embeds the monitor; when the process with the monitor ends, another lender becomes it. A lender
//! talks to its own monitor over a socket, as to any other.

mod config;
pub(crate) mod lane;
mod lender;
mod memory;
mod monitor;
mod running;
mod status;
mod uplink;

use std::sync::mpsc::{Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::error::{Error, Result};
use crate::messages::{PARTIES, Record};
use rackmem_fabric::address::Address;
use rackmem_fabric::net::hub::{Hub, PeerId, Waker};
use rackmem_fabric::net::link::Link;

pub use config::{Config, Lend, MonitorAt, this_party};
pub use memory::{available_bytes, check_available};
pub use status::{LenderStatus, Served, Status};

use memory::Memory;
use running::Running;

/// An event of an agent, for logs and people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// It listens over the network, at this address.
    Listens(Address),
    /// This process is the monitor now.
    IsMonitor,
    /// It has reported to the monitor.
    Reported,
    /// The monitor is gone; leases stay.
    MonitorLost(String),
    /// A lease has begun.
    Leased(Record),
    /// A lease has ended.
    Ended(Record),
}

/// A message of another thread to the agent's.
enum Mail {
    /// The memory of the lease with this base is there, or is not.
    Made(u64, Result<Memory>),
    /// Lanes have ended, as this peer asked.
    Fenced(PeerId),
    /// Somebody wants to know the state.
    Report(Sender<Status>),
    /// A connection to the monitor was made, or not.
    Uplink(Result<Link>),
    /// Begin to leave: no new leases, and those that there are end after the grace time.
    Leave,
    /// End now.
    Stop,
}

/// To the agent's thread.
#[derive(Clone)]
struct Mailbox {
    sender: Sender<Mail>,
    waker: Waker,
}

impl Mailbox {
    fn send(&self, mail: Mail) {
        let _ = self.sender.send(mail);
        self.waker.wake();
    }
}

type Tell = Box<dyn FnMut(Event) + Send>;

/// Asks an agent for its state, from any thread.
#[derive(Clone)]
pub struct Watcher(Mailbox);

impl Watcher {
    /// The agent's state, unless it has ended or does not answer within `patience`.
    pub fn status(&self, patience: Duration) -> Option<Status> {
        let (reply, status) = channel();
        self.0.send(Mail::Report(reply));
        status.recv_timeout(patience).ok()
    }
}

/// A running lender, monitor or both. Dropping it ends it as its death would.
pub struct Agent {
    mailbox: Mailbox,
    thread: Option<JoinHandle<()>>,
}

impl Agent {
    /// Starts. It returns when the agent has reported to the monitor.
    ///
    /// # Errors
    /// There is not enough memory, an address is taken, the monitor refuses or cannot be reached.
    pub fn start(config: Config, tell: impl FnMut(Event) + Send + 'static) -> Result<Agent> {
        config.check()?;
        let hub = Hub::new(config.access.proof.clone(), PARTIES)?;
        let (sender, mails) = channel();
        let mailbox = Mailbox { sender, waker: hub.waker() };
        let mut running = Running::new(config, hub, mailbox.clone(), mails, Box::new(tell))?;
        let (started, has_started) = channel();
        let thread = std::thread::Builder::new()
            .name("rackmem-agent".to_owned())
            .spawn(move || running.run(&started))
            .map_err(|error| Error::io("cannot start a thread", error))?;
        let agent = Agent { mailbox, thread: Some(thread) };
        match has_started.recv() {
            Ok(result) => result.map(|()| agent),
            Err(_) => Err(Error::protocol("the lender's thread has ended".to_owned())),
        }
    }

    /// Takes no new borrowers, tells the others, and ends when the last one has gone, or after the
    /// grace time.
    pub fn leave(&self) {
        self.mailbox.send(Mail::Leave);
    }

    /// What asks it for its state.
    pub fn watcher(&self) -> Watcher {
        Watcher(self.mailbox.clone())
    }

    /// Whether it has ended.
    pub fn has_ended(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Waits until it has ended.
    pub fn join(mut self) {
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.mailbox.send(Mail::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}
