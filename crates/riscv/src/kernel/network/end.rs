//! One end of a connection: a state machine that talks to the other end by segments only.
//!
//! Bytes wait twice: in the sender until the receiver has room, and in the receiver until they are read. The sender
//! counts the receiver's room down as it sends, and up by [`Kind::Room`], so it never has more bytes under way than
//! there is room for. A receiver gives room back when half of its buffer has been read: until then the sender, which
//! counts at least the other half, does not stand still.
//!
//! Segments name their connection, and an end takes those of its own only ([`Route`]).
//!
//! An end of TCP that is closed lives on until both directions are finished. One of a Unix socket tells the other
//! end at once that nobody reads any more: what it has written arrives before that, beyond the receiver's room.

use std::collections::VecDeque;

use super::{Connection, Kind, MOST_DATA};
use crate::kernel::{Errno, Result};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
enum State {
    /// The listener has not answered yet.
    Connecting,
    Open,
    /// Refused or reset.
    Over,
}

/// The last byte of this end's stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
enum Last {
    /// The program may write more.
    Unknown,
    /// In the buffer.
    Written,
    /// [`Kind::Finish`] is sent.
    Sent,
}

/// Families of sockets, which close connections in different ways.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(in crate::kernel) enum Family {
    Unix,
    Inet,
}

/// One end of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(test, derive(Hash))]
pub(in crate::kernel) struct End {
    connection: Connection,
    family: Family,
    state: State,
    /// Bytes that each buffer holds.
    capacity: usize,
    /// Bytes that have arrived and are not read.
    arrived: VecDeque<u8>,
    /// Bytes that the program has written, and for which the other end has no room.
    written: VecDeque<u8>,
    /// Bytes that the other end has room for.
    room: usize,
    /// Bytes that have been read since the other end was last told so.
    read: usize,
    last: Last,
    /// The other end has finished its stream.
    is_finished: bool,
    /// The program reads no more.
    is_deaf: bool,
    /// The program has no descriptor any more.
    is_closed: bool,
    /// The error that ended the connection, until the program is told.
    error: Option<Errno>,
    /// Segments to be sent.
    out: Vec<Kind>,
}

/// How the node that a segment comes to takes it.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Route {
    /// The end has it.
    Known,
    /// It asks for a connection. An end of an earlier one is [over](End::make_room).
    Asks,
    /// It takes back that it has asked.
    Withdraws,
    /// Nobody knows its connection, and the sender learns of that.
    Unknown,
    /// The same, but there is no answer to an answer.
    Nothing,
}

impl Route {
    /// That of a segment of a connection to a place where this end is, if any is there.
    pub(super) fn of(end: Option<&End>, connection: Connection, kind: &Kind) -> Route {
        match kind {
            Kind::Connect => Route::Asks,
            _ if end.is_some_and(|end| end.connection == connection && !end.is_over()) => {
                Route::Known
            }
            Kind::Reset => Route::Withdraws,
            Kind::Refuse | Kind::Room { .. } => Route::Nothing,
            Kind::Accept | Kind::Data(_) | Kind::Finish => Route::Unknown,
        }
    }
}

impl End {
    fn new(connection: Connection, family: Family, capacity: usize, state: State) -> End {
        End {
            connection,
            family,
            state,
            capacity,
            arrived: VecDeque::new(),
            written: VecDeque::new(),
            room: capacity,
            read: 0,
            last: Last::Unknown,
            is_finished: false,
            is_deaf: false,
            is_closed: false,
            error: None,
            out: Vec::new(),
        }
    }

    /// The end that asks for a connection.
    pub(super) fn connect(connection: Connection, family: Family, capacity: usize) -> End {
        let mut end = End::new(connection, family, capacity, State::Connecting);
        end.out.push(Kind::Connect);
        end
    }

    /// The end of a listener that has been asked.
    pub(super) fn accept(connection: Connection, family: Family, capacity: usize) -> End {
        let mut end = End::new(connection, family, capacity, State::Open);
        end.out.push(Kind::Accept);
        end
    }

    /// One of a pair that is open from the beginning.
    pub(super) fn paired(connection: Connection, family: Family, capacity: usize) -> End {
        End::new(connection, family, capacity, State::Open)
    }

    pub(super) const fn connection(&self) -> Connection {
        self.connection
    }

    /// The other end asks for another connection between the same places, as it knows nothing of this one. One that has
    /// ended in both directions stays as it is, for a program that has not closed it. Returns as [`End::receive`] does.
    pub(super) fn make_room(&mut self) -> bool {
        !self.has_ended() && self.receive(Kind::Reset)
    }

    /// Takes the segments that are to be sent, in their order.
    pub(in crate::kernel) fn take_out(&mut self) -> Vec<Kind> {
        std::mem::take(&mut self.out)
    }

    /// Handles a segment of the other end. Returns whether the program may see a difference.
    pub(in crate::kernel) fn receive(&mut self, kind: Kind) -> bool {
        match (kind, self.state) {
            (_, State::Over) => return false,
            (Kind::Accept, State::Connecting) => self.state = State::Open,
            (Kind::Refuse | Kind::Reset, State::Connecting) => self.fail(Some(Errno::CONNREFUSED)),
            (Kind::Reset, State::Open) => match (self.is_finished, self.family) {
                (true, Family::Inet) => self.fail(Some(Errno::PIPE)),
                _ => self.fail(Some(Errno::CONNRESET)),
            },
            (Kind::Data(bytes), State::Open) => return self.take(&bytes),
            (Kind::Room { bytes }, State::Open) => {
                self.room = self.room.saturating_add(bytes as usize).min(self.capacity);
                let before = self.written.len();
                self.flush();
                return self.written.len() < before;
            }
            // The second one of a Unix socket: nobody reads any more either.
            (Kind::Finish, State::Open) if self.is_finished && self.family == Family::Unix => {
                self.fail(None);
            }
            (Kind::Finish, State::Open) => self.is_finished = true,
            // The other end does not keep to the protocol.
            (Kind::Connect | Kind::Accept | Kind::Refuse, State::Open)
            | (
                Kind::Connect | Kind::Data(_) | Kind::Room { .. } | Kind::Finish,
                State::Connecting,
            ) => {
                self.reset();
                self.error = Some(Errno::CONNRESET);
            }
        }
        true
    }

    /// Takes bytes of the other end, which may not send more than there is room for.
    fn take(&mut self, bytes: &[u8]) -> bool {
        let is_too_much = bytes.len() > self.capacity.saturating_sub(self.arrived.len());
        let is_unexpected = self.is_finished || is_too_much && self.family == Family::Inet;
        // As on Linux, where TCP takes what nobody reads until the program does not write either.
        let is_shut = self.is_deaf && self.last != Last::Unknown && self.family == Family::Inet;
        if self.is_closed || is_shut || is_unexpected {
            self.reset();
            self.error = Some(Errno::CONNRESET);
        } else {
            self.arrived.extend(bytes);
        }
        true
    }

    fn fail(&mut self, error: Option<Errno>) {
        self.state = State::Over;
        self.error = error;
        self.written.clear();
    }

    /// Ends the connection for both ends, or asks for it no more.
    pub(in crate::kernel) fn reset(&mut self) {
        if self.state != State::Over {
            self.out.push(Kind::Reset);
        }
        self.fail(None);
    }

    /// Sends what there is room for, and the end of the stream behind it.
    fn flush(&mut self) {
        while self.room > 0 && !self.written.is_empty() {
            let count = self.written.len().min(self.room).min(MOST_DATA);
            self.out.push(Kind::Data(self.written.drain(..count).collect()));
            self.room -= count;
        }
        if self.written.is_empty() && self.last == Last::Written {
            self.out.push(Kind::Finish);
            self.last = Last::Sent;
        }
    }

    /// The first bytes that have arrived, `most` at most; they stay. `None` if there are none yet.
    pub(in crate::kernel) fn first(&mut self, most: usize) -> Result<Option<Vec<u8>>> {
        if self.arrived.is_empty() {
            return match self.error {
                _ if self.family == Family::Inet && self.is_finished => Ok(Some(Vec::new())),
                Some(error) => {
                    self.error = None;
                    Err(error)
                }
                None if self.is_read_out() => Ok(Some(Vec::new())),
                None => Ok(None),
            };
        }
        Ok(Some(self.arrived.iter().copied().take(most).collect()))
    }

    /// Removes bytes that the program has read.
    pub(in crate::kernel) fn remove(&mut self, count: usize) {
        self.arrived.drain(..count);
        self.read += count;
        if self.read * 2 >= self.capacity {
            self.give_room();
        }
    }

    /// Tells the other end that it may send as much as has been read.
    pub(in crate::kernel) fn give_room(&mut self) {
        if self.state == State::Open && !self.is_finished && self.read > 0 {
            // The capacity of a buffer is far below.
            let bytes = u32::try_from(self.read).unwrap_or(u32::MAX);
            self.out.push(Kind::Room { bytes });
            self.read = 0;
        }
    }

    /// Writes as much as the buffer holds; `None` if it is full.
    pub(in crate::kernel) fn write(&mut self, bytes: &[u8]) -> Result<Option<usize>> {
        if self.is_written_out() {
            let error = if self.family == Family::Inet { self.error.take() } else { None };
            return Err(error.unwrap_or(Errno::PIPE));
        }
        let free = self.capacity.saturating_sub(self.written.len());
        if self.state == State::Connecting || free == 0 && !bytes.is_empty() {
            return Ok(None);
        }
        let count = bytes.len().min(free);
        self.written.extend(&bytes[..count]);
        self.flush();
        Ok(Some(count))
    }

    /// The program writes no more.
    pub(in crate::kernel) fn finish(&mut self) {
        if self.state == State::Open && self.last == Last::Unknown {
            self.last = Last::Written;
            self.flush();
        }
    }

    /// The program reads no more. What arrives can be read still, as on Linux.
    pub(in crate::kernel) fn stop_reading(&mut self) {
        self.is_deaf = true;
    }

    /// The program has closed its last descriptor; `aborts` says whether what is under way may be lost.
    pub(in crate::kernel) fn close(&mut self, aborts: bool) {
        self.is_closed = true;
        let is_lost = aborts || !self.arrived.is_empty();
        if self.family == Family::Unix && self.state == State::Open {
            self.close_at_once(is_lost);
        } else if is_lost || self.state == State::Connecting {
            self.reset();
        } else {
            self.finish();
        }
    }

    /// Sends all that is written, and that nobody reads any more; `is_lost` says whether bytes were not read.
    fn close_at_once(&mut self, is_lost: bool) {
        self.room = self.room.max(self.written.len());
        if is_lost {
            self.flush();
            self.reset();
        } else {
            self.finish();
            self.flush();
            self.out.push(Kind::Finish);
            self.fail(None);
        }
    }

    /// Whether the connection has ended for both ends, and no segment belongs to it any more.
    pub(in crate::kernel) fn is_over(&self) -> bool {
        self.state == State::Over
    }

    /// Whether nobody needs this end any more.
    pub(in crate::kernel) fn is_done(&self) -> bool {
        self.is_closed && (self.is_over() || self.has_ended())
    }

    /// Whether both streams have come to their ends.
    fn has_ended(&self) -> bool {
        self.last == Last::Sent && self.is_finished
    }

    pub(in crate::kernel) fn is_connecting(&self) -> bool {
        self.state == State::Connecting
    }

    /// Whether no bytes follow those that have arrived.
    pub(in crate::kernel) fn is_read_out(&self) -> bool {
        self.is_finished || self.is_deaf || self.is_over()
    }

    /// Whether the program can write no more.
    pub(in crate::kernel) fn is_written_out(&self) -> bool {
        self.last != Last::Unknown || self.is_over()
    }

    /// Whether a good part of the buffer is free: a third, as on Linux.
    pub(in crate::kernel) fn has_space(&self) -> bool {
        self.state == State::Open && self.written.len() * 3 <= self.capacity * 2
    }

    /// Bytes that can be read.
    pub(in crate::kernel) fn arrived_bytes(&self) -> usize {
        self.arrived.len()
    }

    /// The error that ended the connection, if the program has not been told yet.
    pub(in crate::kernel) const fn error(&self) -> Option<Errno> {
        self.error
    }

    /// Takes it.
    pub(in crate::kernel) fn take_error(&mut self) -> Option<Errno> {
        self.error.take()
    }
}
