//! Reading from sockets and writing to them.
//!
//! Bytes go between user memory and the buffers of a connection, and leave either only when they have a place in the
//! other. A call that waits for more of them than the buffers hold goes on when there is room: what it has moved
//! ([`Context::moved`]) stays with the thread.

use super::{Context, Errno, Files, Result};
use crate::kernel::files::transfer::MOST_BYTES;
use crate::kernel::network::{BUFFER_BYTES, Family};
use crate::kernel::signals::{Info, SIGPIPE};

/// How a call reads.
#[derive(Clone, Copy)]
pub(in crate::kernel::files) struct Reading {
    /// It waits if the file does.
    pub waits: bool,
    /// The bytes can be read again.
    pub keeps: bool,
    /// It waits for as many bytes as it has room for, unless the stream ends before.
    pub awaits_all: bool,
    /// The bytes of a stream are not copied; of a datagram its whole length is returned.
    pub drops: bool,
}

impl Default for Reading {
    fn default() -> Reading {
        Reading { waits: true, keeps: false, awaits_all: false, drops: false }
    }
}

/// How a call writes.
#[derive(Clone, Copy)]
pub(in crate::kernel::files) struct Writing {
    /// It waits if the file does.
    pub waits: bool,
    /// It raises `SIGPIPE` if nobody reads.
    pub signals: bool,
}

impl Default for Writing {
    fn default() -> Writing {
        Writing { waits: true, signals: true }
    }
}

/// Bytes of pieces of user memory, of which one call moves no more than a limit.
pub(super) fn length(pieces: &[(u64, u64)]) -> u64 {
    pieces.iter().map(|piece| piece.1).fold(0, u64::saturating_add).min(MOST_BYTES)
}

/// The parts of pieces that are behind `skipped` bytes, `most` bytes at most.
fn behind(pieces: &[(u64, u64)], mut skipped: u64, mut most: u64) -> Vec<(u64, u64)> {
    let mut parts = Vec::new();
    for &(start, length) in pieces {
        let before = skipped.min(length);
        let count = (length - before).min(most);
        if count > 0 {
            parts.push((start.wrapping_add(before), count));
        }
        skipped -= before;
        most -= count;
    }
    parts
}

/// The bytes of pieces up to the first that cannot be read. An error counts only if it is the first of all.
pub(super) fn gather(context: &mut Context<'_>, pieces: &[(u64, u64)]) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    for &(start, length) in pieces {
        let from = bytes.len();
        bytes.resize(from + length as usize, 0);
        if let Err(fault) = context.memory.read(start, &mut bytes[from..]) {
            bytes.truncate(from);
            return if from == 0 { Err(fault.into()) } else { Ok(bytes) };
        }
    }
    Ok(bytes)
}

/// Writes bytes to pieces of user memory.
pub(in crate::kernel::files) fn scatter(
    context: &mut Context<'_>,
    pieces: &[(u64, u64)],
    mut bytes: &[u8],
) -> Result<()> {
    for &(to, length) in pieces {
        let (piece, rest) = bytes.split_at((bytes.len() as u64).min(length) as usize);
        context.memory.write(to, piece)?;
        bytes = rest;
    }
    Ok(())
}

impl Files {
    /// Reads from a socket into pieces of user memory.
    pub(in crate::kernel::files) fn read_socket(
        &mut self,
        context: &mut Context<'_>,
        descriptor: u64,
        pieces: &[(u64, u64)],
        reading: Reading,
    ) -> Result {
        let (number, waits) = self.socket_number(context, descriptor)?;
        if self.network().datagrams(number).is_some() {
            let received = self.receive_datagram(context, (number, waits), pieces, reading)?;
            return Ok(received.count);
        }
        let Reading { keeps, awaits_all, .. } = reading;
        let waits = waits && reading.waits;
        let (awaits_all, wanted) = (awaits_all && waits, length(pieces));
        loop {
            let left = wanted.saturating_sub(context.moved) as usize;
            let least = if awaits_all && keeps { left.min(BUFFER_BYTES) } else { 0 };
            let bytes = self.arrived(context, (number, waits), left, least)?;
            if !reading.drops {
                scatter(context, &behind(pieces, context.moved, bytes.len() as u64), &bytes)?;
            }
            if keeps {
                return Ok(bytes.len() as u64);
            }
            self.network().with_end(number, |end| end.remove(bytes.len()));
            context.moved += bytes.len() as u64;
            if !awaits_all || bytes.is_empty() || context.moved >= wanted {
                return Ok(context.moved);
            }
        }
    }

    /// The first bytes of a socket, `most` at most, when there are as many as `least` or the stream ends before.
    fn arrived(
        &mut self,
        context: &mut Context<'_>,
        (number, waits): (u32, bool),
        most: usize,
        least: usize,
    ) -> Result<Vec<u8>> {
        let socket = self.network().socket(number)?;
        let limit_ns = socket.settings.receive_ns;
        let family = socket.family;
        let Some(end) = self.network().end(number) else {
            return Err(if family == Family::Unix { Errno::INVAL } else { Errno::NOTCONN });
        };
        let is_over = end.is_read_out() || end.error().is_some();
        if end.arrived_bytes() < least && !is_over {
            self.network().with_end(number, |end| end.give_room());
        }
        let Some(end) = self.network().end(number) else { return Err(Errno::NOTCONN) };
        let is_short = end.arrived_bytes() < least && !is_over;
        if end.arrived_bytes() == 0 && is_over && context.moved > 0 {
            // An error is for the next call.
            return Ok(Vec::new());
        }
        match end.first(most) {
            Ok(Some(bytes)) if !is_short => Ok(bytes),
            Err(errno) => Err(errno),
            Ok(_) => Err(context.wait_for_socket(waits, limit_ns)),
        }
    }

    /// Writes pieces of user memory to a socket.
    pub(in crate::kernel::files) fn write_socket(
        &mut self,
        context: &mut Context<'_>,
        descriptor: u64,
        pieces: &[(u64, u64)],
        writing: Writing,
    ) -> Result {
        let (number, waits) = self.socket_number(context, descriptor)?;
        if self.network().datagrams(number).is_some() {
            return self.send_datagram(context, number, pieces, None);
        }
        let socket = (number, waits && writing.waits);
        let wanted = length(pieces);
        loop {
            let left = wanted.saturating_sub(context.moved);
            let parts = behind(pieces, context.moved, left.min(BUFFER_BYTES as u64));
            let bytes = gather(context, &parts)?;
            let count = self.put_in_socket(context, socket, &bytes, writing.signals)?;
            context.moved += count as u64;
            if count == 0 || context.moved >= wanted {
                return Ok(context.moved);
            }
        }
    }

    /// Writes to a socket from a buffer of the kernel, as much as there is room for; `signals` says whether one that
    /// nobody reads raises `SIGPIPE`.
    pub(in crate::kernel::files) fn put_in_socket(
        &mut self,
        context: &mut Context<'_>,
        (number, waits): (u32, bool),
        buffer: &[u8],
        signals: bool,
    ) -> Result<usize> {
        if self.network().datagrams(number).is_some() {
            let count = buffer.len();
            return self.network().send_datagram(number, None, buffer.to_vec()).map(|()| count);
        }
        let socket = self.network().socket(number)?;
        let limit_ns = socket.settings.send_ns;
        // As on Linux, where TCP takes no connection for one that is over.
        let missing = if socket.family == Family::Unix { Errno::NOTCONN } else { Errno::PIPE };
        let is_over = self.network().end(number).is_some_and(|end| end.is_written_out());
        if is_over && context.moved > 0 {
            // The reason is for the next call.
            return Ok(0);
        }
        let written = self.network().with_end(number, |end| end.write(buffer));
        match written.unwrap_or(Err(missing)) {
            Ok(Some(count)) => Ok(count),
            Ok(None) => Err(context.wait_for_socket(waits, limit_ns)),
            Err(errno) => {
                if errno == Errno::PIPE && signals {
                    context.raised = Some(Info::by_write(SIGPIPE));
                }
                Err(errno)
            }
        }
    }
}
