//! Messages on one TCP connection, packets on another.

use std::net::SocketAddr;
use std::time::Instant;

use rackmem_fabric::stream::Stream;

use super::{ALIVE_INTERVAL, DEAD_AFTER, lost};
use crate::message::{MAX_MESSAGE_BYTES, Message};
use rackmem_fabric::error::{Error, Result};

/// Messages, and from some time on packets, over TCP.
#[derive(Debug)]
pub struct Tcp {
    pub(super) messages: Stream,
    pub(super) packets: Option<Stream>,
    pub(super) peer: SocketAddr,
    pub(super) last_heard: Instant,
    pub(super) last_said: Instant,
}

impl Tcp {
    /// Stages a message behind its length.
    pub(super) fn put(&mut self, message: &[u8]) {
        let out = self.messages.out();
        out.extend_from_slice(&(message.len() as u16).to_le_bytes());
        out.extend_from_slice(message);
    }

    pub(super) fn drive(&mut self, now: Instant) -> Result<()> {
        if now >= self.last_said + ALIVE_INTERVAL && self.messages.staged_bytes() == 0 {
            self.put(&Message::Alive.encode());
        }
        if self.messages.staged_bytes() > 0 {
            self.messages.transmit();
            self.last_said = now;
        }
        if let Some(packets) = &mut self.packets {
            packets.transmit();
        }
        // Messages that arrived are taken before the end is reported.
        if self.messages.input().is_empty() {
            self.check()?;
        }
        // If this end slept past the deadline, it drains the socket before it declares the peer dead.
        if now > self.last_heard + DEAD_AFTER && !self.fill(now)? {
            let reason = format!("nothing was heard of it for {} s", DEAD_AFTER.as_secs());
            return Err(lost(self.peer, &reason));
        }
        Ok(())
    }

    /// Whether both connections are there.
    fn check(&self) -> Result<()> {
        let streams = std::iter::once(&self.messages).chain(&self.packets);
        match streams.filter_map(Stream::lost).next() {
            Some(why) => Err(lost(self.peer, why)),
            None => Ok(()),
        }
    }

    pub(super) fn take(&mut self, now: Instant) -> Result<Option<Message>> {
        if self.whole().is_none() && !self.fill(now)? {
            return Ok(None);
        }
        let Some(length) = self.whole() else { return self.check_length() };
        let message = Message::decode(&self.messages.input()[2..2 + length]);
        self.messages.take(2 + length);
        message.map(Some)
    }

    /// Reads bytes of messages. Whether there were any.
    fn fill(&mut self, now: Instant) -> Result<bool> {
        let came = self.messages.receive();
        if came {
            self.last_heard = now;
            return Ok(true);
        }
        self.check().map(|()| false)
    }

    fn length(&self) -> Option<usize> {
        let length = self.messages.input().first_chunk::<2>()?;
        Some(usize::from(u16::from_le_bytes(*length)))
    }

    /// The length of the oldest message, if all of it is there.
    fn whole(&self) -> Option<usize> {
        self.length().filter(|&length| self.messages.input().len() >= 2 + length)
    }

    fn check_length(&self) -> Result<Option<Message>> {
        match self.length() {
            Some(length) if length > MAX_MESSAGE_BYTES => Err(Error::Protocol(format!(
                "{} sends a message of {length} bytes, more than {MAX_MESSAGE_BYTES}: it is no rackmem \
                 that lends or borrows a NIC",
                self.peer
            ))),
            _ => Ok(None),
        }
    }

    /// Takes packets to send, unless those before have not left yet.
    pub(super) fn send_packets(&mut self, bytes: &[u8]) -> Result<usize> {
        let Some(packets) = &mut self.packets else { return Ok(0) };
        packets.transmit();
        let sent = if packets.staged_bytes() == 0 { bytes.len() } else { 0 };
        packets.out().extend_from_slice(&bytes[..sent]);
        packets.transmit();
        self.check().map(|()| sent)
    }

    pub(super) fn receive_packets(&mut self, into: &mut [u8], now: Instant) -> Result<usize> {
        let Some(packets) = &mut self.packets else { return Ok(0) };
        if into.is_empty() {
            return Ok(0);
        }
        if packets.input().is_empty() && packets.receive() {
            self.last_heard = now;
        }
        let length = packets.both().0.give(into);
        match packets.lost() {
            Some(why) if length == 0 => Err(lost(self.peer, why)),
            _ => Ok(length),
        }
    }

    /// Whether messages or packets were read and not taken.
    pub(super) fn keeps_arrivals(&self) -> bool {
        let mut streams = std::iter::once(&self.messages).chain(&self.packets);
        streams.any(|stream| !stream.input().is_empty())
    }
}
