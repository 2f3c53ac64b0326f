//! Sending and receiving datagrams.

use std::net::SocketAddrV4;

use super::streams::{Reading, gather, length, scatter};
use super::{Context, Errno, Files, Result};
use crate::kernel::network::MOST_DATAGRAM;

/// What a call has received.
pub(super) struct Received {
    pub count: u64,
    /// The sender of a datagram.
    pub from: Option<SocketAddrV4>,
    /// There was no room for all of it.
    pub is_cut: bool,
}

impl Received {
    pub(super) const fn bytes(count: u64) -> Received {
        Received { count, from: None, is_cut: false }
    }
}

impl Files {
    /// Sends pieces of user memory as one datagram, to a place or to the peer of the socket. It never waits.
    pub(super) fn send_datagram(
        &mut self,
        context: &mut Context<'_>,
        number: u32,
        pieces: &[(u64, u64)],
        to: Option<SocketAddrV4>,
    ) -> Result {
        let wanted = length(pieces);
        if wanted > MOST_DATAGRAM as u64 {
            return Err(Errno::MSGSIZE);
        }
        let bytes = gather(context, pieces)?;
        if bytes.len() as u64 != wanted {
            return Err(Errno::FAULT);
        }
        self.network().send_datagram(number, to, bytes).map(|()| wanted)
    }

    /// Receives the first datagram into pieces of user memory: what has no place there is lost.
    pub(super) fn receive_datagram(
        &mut self,
        context: &mut Context<'_>,
        (number, waits): (u32, bool),
        pieces: &[(u64, u64)],
        reading: Reading,
    ) -> Result<Received> {
        let limit_ns = self.network().socket(number)?.settings.receive_ns;
        let datagrams = self.network().datagrams(number).ok_or(Errno::BADF)?;
        let Some(first) = datagrams.first()? else {
            return match datagrams.is_shut.0 {
                true => Ok(Received::bytes(0)),
                false => Err(context.wait_for_socket(waits && reading.waits, limit_ns)),
            };
        };
        if !reading.keeps {
            datagrams.remove();
        }
        let whole = first.bytes.len() as u64;
        let count = whole.min(length(pieces));
        scatter(context, pieces, &first.bytes[..count as usize])?;
        let shown = if reading.drops { whole } else { count };
        Ok(Received { count: shown, from: Some(first.from), is_cut: count < whole })
    }
}
