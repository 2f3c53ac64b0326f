//! Messages on one TCP connection, packets on another.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Instant;

use super::{ALIVE_INTERVAL, DEAD_AFTER, lost, when_ready};
use crate::error::{Error, Result};
use crate::nic::message::{MAX_MESSAGE_BYTES, Message};

/// Messages, and from some time on packets, over TCP.
#[derive(Debug)]
pub struct Tcp {
    pub(super) messages: TcpStream,
    pub(super) packets: Option<TcpStream>,
    pub(super) peer: SocketAddr,
    pub(super) incoming: Vec<u8>,
    pub(super) outgoing: Vec<u8>,
    pub(super) last_heard: Instant,
    pub(super) last_said: Instant,
}

impl Tcp {
    pub(super) fn drive(&mut self, now: Instant) -> Result<()> {
        if now >= self.last_said + ALIVE_INTERVAL && self.outgoing.is_empty() {
            let alive = Message::Alive.encode();
            self.outgoing.extend_from_slice(&(alive.len() as u16).to_le_bytes());
            self.outgoing.extend_from_slice(&alive);
        }
        if !self.outgoing.is_empty() {
            let sent = when_ready(self.messages.write(&self.outgoing));
            let sent = sent.map_err(|error| lost(self.peer, &error.to_string()))?;
            self.outgoing.drain(..sent);
            self.last_said = now;
        }
        // If this end slept past the deadline, it drains the socket before it declares the peer dead.
        if now > self.last_heard + DEAD_AFTER && !self.fill(now)? {
            let reason = format!("nothing was heard of it for {} s", DEAD_AFTER.as_secs());
            return Err(lost(self.peer, &reason));
        }
        Ok(())
    }

    pub(super) fn take(&mut self, now: Instant) -> Result<Option<Message>> {
        if self.whole().is_none() && !self.fill(now)? {
            return Ok(None);
        }
        let Some(length) = self.whole() else { return self.check_length() };
        let message = Message::decode(&self.incoming[2..2 + length]);
        self.incoming.drain(..2 + length);
        message.map(Some)
    }

    /// Reads bytes of messages. Whether there were any.
    fn fill(&mut self, now: Instant) -> Result<bool> {
        let mut bytes = [0; 4 * MAX_MESSAGE_BYTES];
        match self.messages.read(&mut bytes) {
            Ok(0) => Err(lost(self.peer, "it has ended the connection")),
            Ok(length) => {
                self.incoming.extend_from_slice(&bytes[..length]);
                self.last_heard = now;
                Ok(true)
            }
            Err(error) => match when_ready(Err(error)) {
                Ok(_) => Ok(false),
                Err(error) => Err(lost(self.peer, &error.to_string())),
            },
        }
    }

    pub(super) fn length(&self) -> Option<usize> {
        let length = self.incoming.first_chunk::<2>()?;
        Some(usize::from(u16::from_le_bytes(*length)))
    }

    /// The length of the oldest message, if all of it is there.
    pub(super) fn whole(&self) -> Option<usize> {
        self.length().filter(|&length| self.incoming.len() >= 2 + length)
    }

    pub(super) fn check_length(&self) -> Result<Option<Message>> {
        match self.length() {
            Some(length) if length > MAX_MESSAGE_BYTES => Err(Error::Protocol(format!(
                "{} sends a message of {length} bytes, more than {MAX_MESSAGE_BYTES}: it is no rackmem \
                 that lends or borrows a NIC",
                self.peer
            ))),
            _ => Ok(None),
        }
    }

    pub(super) fn receive_packets(&mut self, into: &mut [u8], now: Instant) -> Result<usize> {
        let Some(packets) = &mut self.packets else { return Ok(0) };
        if into.is_empty() {
            return Ok(0);
        }
        match packets.read(into) {
            Ok(0) => Err(lost(self.peer, "it has ended the connection")),
            Ok(length) => {
                self.last_heard = now;
                Ok(length)
            }
            Err(error) => {
                when_ready(Err(error)).map_err(|error| lost(self.peer, &error.to_string()))
            }
        }
    }
}
