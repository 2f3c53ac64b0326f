//! Two processes that can have connections, as programs have them.

use std::sync::Arc;

use super::carrier::Carrier;
use super::core::Core;
use super::pair::QPair;
use super::window::{Terms, Window};
use super::{memory, wire};
use rackmem_fabric::address::Address;
use rackmem_fabric::error::Result;
use rackmem_fabric::net::proof::Proof;

/// Two processes that can have connections. It lives as long as one of them does: over a network, dropping the last
/// one waits until the peer has all that was sent, or is silent for [`rackmem_fabric::net::SILENCE`].
#[derive(Debug)]
pub struct Link {
    core: Arc<Core>,
}

impl Link {
    /// Connects to the process that listens there: a path is one of this host. Over a network both prove
    /// themselves, if there is a proof.
    ///
    /// # Errors
    /// Nobody listens, it refuses these terms, wants another proof, or it is no such peer.
    pub fn connect(address: &Address, proof: Option<&Proof>, terms: Terms) -> Result<Arc<Link>> {
        terms.check()?;
        match address {
            Address::Unix(path) => {
                let (channel, own, peer) = memory::connect(path, terms)?;
                let name = "the other process".to_owned();
                Link::start(Carrier::Memory(channel), name, [own, peer], terms, true)
            }
            Address::Tcp(name) => {
                let wire = wire::connect(address, proof, terms)?;
                Link::over(wire, name.clone(), terms, true)
            }
        }
    }

    /// A link over a wire.
    pub(super) fn over(
        wire: wire::Wire,
        name: String,
        terms: Terms,
        begins: bool,
    ) -> Result<Arc<Link>> {
        // The second one has what is known of the peer.
        let windows = [Window::create(&terms)?, Window::create(&terms)?];
        Link::start(Carrier::Network(Arc::new(wire)), name, windows, terms, begins)
    }

    pub(super) fn start(
        carrier: Carrier,
        name: String,
        windows: [Window; 2],
        terms: Terms,
        begins: bool,
    ) -> Result<Arc<Link>> {
        let core = Arc::new(Core::new(carrier, name, windows, terms, begins));
        core.carrier().start(&core)?;
        Ok(Arc::new(Link { core }))
    }

    /// Terms that both processes have agreed on.
    pub fn terms(&self) -> Terms {
        self.core.terms()
    }

    /// Name of the peer.
    pub fn name(&self) -> &str {
        self.core.name()
    }

    /// Whether the peer has died, is silent, or hung up.
    pub fn is_lost(&self) -> bool {
        self.core.is_lost()
    }

    /// Begins a connection; the peer gets its end by [`Link::accept`].
    ///
    /// # Errors
    /// All connections are in use, the peer is gone, or only the peer begins connections.
    pub fn open(self: &Arc<Link>) -> Result<QPair> {
        let (number, life) = self.core.open()?;
        Ok(QPair::new(self.clone(), number, life))
    }

    /// Waits for a connection that the peer has begun.
    ///
    /// # Errors
    /// The peer is gone.
    pub fn accept(self: &Arc<Link>) -> Result<QPair> {
        let (number, life) = self.core.accept()?;
        Ok(QPair::new(self.clone(), number, life))
    }

    /// Ends the link and all of its connections, for both sides.
    pub fn hang_up(&self) {
        self.core.lose("this process hung up");
    }

    pub(super) fn core(&self) -> &Arc<Core> {
        &self.core
    }
}

impl Drop for Link {
    fn drop(&mut self) {
        self.hang_up();
        if let Carrier::Network(wire) = self.core.carrier() {
            wire.join();
        }
    }
}
