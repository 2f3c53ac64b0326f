//! Messages on one channel of a link, packets on the other.

use std::collections::VecDeque;
use std::net::SocketAddr;

use rackmem_fabric::udp::LinkStream;

use crate::message::Message;
use rackmem_fabric::error::Result;

const MESSAGES: usize = 0;
const PACKETS: usize = 1;

/// A transport over the reliable link.
#[derive(Debug)]
pub struct Link {
    pub(super) stream: LinkStream,
    pub(super) peer: SocketAddr,
    pub(super) outgoing: VecDeque<Vec<u8>>,
    /// Bytes of the oldest piece of the stream of packets that were taken.
    pub(super) taken: usize,
}

impl Link {
    pub(super) fn drive(&mut self) -> Result<()> {
        while let Some(message) = self.outgoing.front()
            && self.stream.push(MESSAGES, message)?
        {
            self.outgoing.pop_front();
        }
        match self.stream.drive() {
            // Messages that arrived are taken before the end is reported.
            Err(_) if self.has_arrived() => Ok(()),
            driven => Ok(driven.map(drop)?),
        }
    }

    pub(super) fn has_arrived(&self) -> bool {
        self.stream.front(MESSAGES).is_some() || self.stream.front(PACKETS).is_some()
    }

    pub(super) fn take(&mut self) -> Result<Option<Message>> {
        let Some(bytes) = self.stream.front(MESSAGES) else { return Ok(None) };
        let message = Message::decode(bytes);
        self.stream.consume(MESSAGES);
        message.map(Some)
    }

    pub(super) fn send_packets(&mut self, bytes: &[u8]) -> Result<usize> {
        let mut sent = 0;
        for piece in bytes.chunks(self.stream.max_message_bytes()) {
            if !self.stream.push(PACKETS, piece)? {
                break;
            }
            sent += piece.len();
        }
        Ok(sent)
    }

    pub(super) fn receive_packets(&mut self, into: &mut [u8]) -> usize {
        let mut got = 0;
        while got < into.len()
            && let Some(piece) = self.stream.front(PACKETS)
        {
            let rest = &piece[self.taken..];
            let length = rest.len().min(into.len() - got);
            into[got..got + length].copy_from_slice(&rest[..length]);
            got += length;
            self.taken += length;
            if self.taken == piece.len() {
                self.stream.consume(PACKETS);
                self.taken = 0;
            }
        }
        got
    }
}
