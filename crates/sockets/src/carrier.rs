//! Carriers of connections between two processes: memory that both have, or a network.
//!
//! The queues are the same over both. Over memory an end stores into the window of the other one, and wakes sleepers
//! there. Over a network it sends a frame, and the other process stores the same into its window and wakes the same
//! sleepers.

use std::sync::Arc;

use rackmem::transport::Channel;

use super::core::Core;
use super::memory;
use super::wire::Wire;
use super::wire::frame::{Frame, Kind};
use rackmem_fabric::error::Result;

/// The carrier of messages.
#[derive(Debug)]
pub(super) enum Carrier {
    /// The windows, and a socket for new connections and signs of life.
    Memory(Channel),
    /// Frames.
    Network(Arc<Wire>),
}

impl Carrier {
    /// Begins to receive the peer's announcements of connections.
    ///
    /// # Errors
    /// There is no thread for that.
    pub(super) fn start(&self, core: &Arc<Core>) -> Result<()> {
        match self {
            Carrier::Memory(_) => memory::start(core),
            Carrier::Network(wire) => wire.start(core),
        }
    }

    /// Tells the peer that a connection begins.
    ///
    /// # Errors
    /// The peer is gone, or hears nothing.
    pub(super) fn announce(&self, number: u32, life: u32) -> Result<()> {
        match self {
            Carrier::Memory(channel) => memory::announce(channel, number, life),
            Carrier::Network(wire) => {
                wire.say(Frame::new(Kind::Open, number, life));
                Ok(())
            }
        }
    }

    /// A thread goes to sleep in a bed of this side's window: the thread that receives for it wakes it.
    pub(super) fn begin_sleep(&self) {
        if let Carrier::Network(wire) = self {
            wire.begin_sleep();
        }
    }

    /// It has woken.
    pub(super) fn end_sleep(&self) {
        if let Carrier::Network(wire) = self {
            wire.end_sleep();
        }
    }

    /// Ends it: messages that were sent before arrive, if the peer listens.
    pub(super) fn hang_up(&self) {
        match self {
            Carrier::Memory(channel) => channel.hang_up(),
            Carrier::Network(wire) => wire.end(),
        }
    }
}
