//! Requests on memory that is reached by a lane: requests that a client has sent are asked for ahead, and answered in
//! order, as answers come.
//!
//! Answers are collected and sent together. One thread does it all: it waits for the client while nothing is
//! outstanding, and for the lender while something is.

use std::collections::VecDeque;
use std::io;

use super::connection::{End, Session};
use super::export::MAX_PAYLOAD_BYTES;
use super::region::{Input, Region};
use super::request::{MAX_REPLY_BYTES, Operation, Reply, Request};
use super::socket::{Stream, piece};
use super::wire::{Errno, REQUEST_BYTES};
use rackmem_lease::error::{Error, Result};
use rackmem_lease::store::{Lane, MAX_OUTSTANDING};

/// Most bytes that one call of a lane moves here: large requests are asked for in pieces.
const PIECE_BYTES: usize = 256 * 1024;

/// Bytes that are received from the client at once: a piece must fit with what follows it.
const INPUT_BYTES: usize = 2 * PIECE_BYTES;

/// Most bytes that are asked for and not taken: the client's rest waits in its socket.
const WINDOW_BYTES: usize = 4 << 20;

/// Replies are collected here; the longest fits beside many short ones.
const OUTPUT_BYTES: usize = MAX_PAYLOAD_BYTES as usize + (1 << 20);

/// Replies are sent when so many bytes of them have been collected.
const SEND_BYTES: usize = 1 << 20;

/// The answer that an entry waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wait {
    /// Bytes from the lender.
    Bytes(usize),
    /// The lender's word, of a request that moves so many bytes.
    Word(usize),
    /// Nothing: the answer is known.
    Nothing,
}

/// A request, or a piece of one, that was asked for.
#[derive(Clone, Copy, Debug)]
struct Entry {
    request: Request,
    operation: Operation,
    wait: Wait,
    is_first: bool,
    is_last: bool,
    error: Option<Errno>,
}

impl Entry {
    fn moves_bytes(&self) -> usize {
        match self.wait {
            Wait::Bytes(bytes) | Wait::Word(bytes) => bytes,
            Wait::Nothing => 0,
        }
    }
}

/// A request of which a part was asked for.
#[derive(Clone, Copy, Debug)]
struct Current {
    request: Request,
    operation: Operation,
    done_bytes: usize,
    /// Error of its reply, for which its payload is only read over.
    error: Option<Errno>,
}

/// A connection's requests on a store that is not mapped.
pub(super) struct Piped<'a, S> {
    session: Session<'a>,
    stream: S,
    lane: Option<Box<dyn Lane>>,
    input: Input,
    output: Region,
    /// Bytes of `output` that are filled, and the beginning of the reply that is being put together.
    filled: usize,
    reply_at: usize,
    /// Error of the request whose reply is in `output`.
    failed: Option<Errno>,
    entries: VecDeque<Entry>,
    asked_bytes: usize,
    current: Option<Current>,
    is_ending: bool,
}

type Done<T> = std::result::Result<T, End>;

impl<'a, S: Stream> Piped<'a, S> {
    /// `early` has arrived already.
    pub(super) fn new(session: Session<'a>, stream: S, early: &[u8]) -> io::Result<Piped<'a, S>> {
        let mut input = Input::new(INPUT_BYTES)?;
        input.room(early.len())[..early.len()].copy_from_slice(early);
        input.arrived(early.len());
        Ok(Piped {
            session,
            stream,
            lane: None,
            input,
            output: Region::new(OUTPUT_BYTES)?,
            filled: 0,
            reply_at: 0,
            failed: None,
            entries: VecDeque::with_capacity(MAX_OUTSTANDING),
            asked_bytes: 0,
            current: None,
            is_ending: false,
        })
    }

    /// Serves until the connection ends.
    pub(super) fn serve(mut self) -> (End, Session<'a>) {
        let end = self.run().unwrap_err();
        (end, self.session)
    }

    fn run(&mut self) -> Done<std::convert::Infallible> {
        loop {
            while self.has_room() && self.ask_one()? {}
            if self.entries.is_empty() {
                self.send()?;
                if self.is_ending {
                    return Err(End::Goodbye);
                }
                self.receive()?;
                continue;
            }
            self.push();
            self.take_one()?;
            while self.filled < SEND_BYTES && self.is_next_ready() {
                self.take_one()?;
            }
            self.send_whole_replies()?;
            if self.has_room() && !self.is_ending {
                self.receive_now()?;
            }
        }
    }

    fn has_room(&self) -> bool {
        self.entries.len() < MAX_OUTSTANDING && self.asked_bytes < WINDOW_BYTES
    }

    /// Asks for the next piece of the requests that have arrived; `false` if more has to arrive first.
    fn ask_one(&mut self) -> Done<bool> {
        if self.is_ending {
            return Ok(false);
        }
        if let Some(current) = self.current {
            return Ok(self.ask_piece(current));
        }
        let Some(header) = self.input.bytes().first_chunk::<REQUEST_BYTES>() else {
            return Ok(false);
        };
        let request = self.session.parse(header)?;
        self.input.consume(REQUEST_BYTES);
        if request.is_disconnect() {
            self.is_ending = true;
            return Ok(false);
        }
        self.begin(request);
        Ok(true)
    }

    fn begin(&mut self, request: Request) {
        let (operation, error) = match self.session.admit(&request) {
            Ok(operation) => (operation, None),
            Err(error) if request.payload_bytes() > 0 => (Operation::Write, Some(error)),
            Err(error) => (Operation::Flush, Some(error)),
        };
        match operation {
            Operation::Read | Operation::Write => {
                self.current = Some(Current { request, operation, done_bytes: 0, error });
            }
            Operation::Trim | Operation::WriteZeroes { .. } => {
                let bytes = u64::from(request.length);
                let asked = self.with_lane(|lane| lane.ask_discard(request.offset, bytes));
                self.enter(request, operation, Wait::Word(0), true, true, asked.err());
            }
            Operation::Flush | Operation::Cache | Operation::BlockStatus => {
                self.enter(request, operation, Wait::Nothing, true, true, error);
            }
        }
    }

    /// Asks for the next piece of a read or a write; `false` if its bytes have not arrived.
    fn ask_piece(&mut self, mut current: Current) -> bool {
        let Current { request, operation, done_bytes, error } = current;
        let bytes = (request.length as usize - done_bytes).min(PIECE_BYTES);
        let here = self.input.bytes().len();
        if operation == Operation::Write && here < bytes {
            if error.is_some() {
                // Nobody wants them.
                self.input.consume(here);
                current.done_bytes += here;
                self.current = Some(current);
            }
            return false;
        }
        let offset = request.offset.wrapping_add(done_bytes as u64);
        let outcome = match (operation, error) {
            (_, Some(error)) => Err(error),
            (Operation::Write, None) => self.ask_write(offset, bytes),
            _ => self.with_lane(|lane| lane.ask_read(offset, bytes)),
        };
        let wait = match operation {
            Operation::Write => {
                self.input.consume(bytes);
                Wait::Word(bytes)
            }
            _ => Wait::Bytes(bytes),
        };
        current.done_bytes += bytes;
        let is_last = current.done_bytes == request.length as usize;
        // Of a refused write only the end is worth an entry.
        if error.is_none() || is_last {
            let is_first = done_bytes == 0 || error.is_some();
            self.enter(request, operation, wait, is_first, is_last, outcome.err());
        }
        self.current = (!is_last).then_some(current);
        true
    }

    fn ask_write(&mut self, offset: u64, bytes: usize) -> std::result::Result<(), Errno> {
        // The input is set aside while the lane is at work.
        let Some(mut lane) = self.open() else { return Err(Errno::Io) };
        let asked = lane.ask_write(offset, &self.input.bytes()[..bytes]);
        self.lane = Some(lane);
        asked.map_err(|error| self.broken(&error))
    }

    fn with_lane(
        &mut self,
        ask: impl FnOnce(&mut dyn Lane) -> Result<()>,
    ) -> std::result::Result<(), Errno> {
        let Some(mut lane) = self.open() else { return Err(Errno::Io) };
        let asked = ask(&mut *lane);
        self.lane = Some(lane);
        asked.map_err(|error| self.broken(&error))
    }

    /// The lane, a new one if there is none.
    fn open(&mut self) -> Option<Box<dyn Lane>> {
        if self.lane.is_some() {
            return self.lane.take();
        }
        match self.session.store.lane() {
            Ok(lane) => Some(lane),
            Err(error) => {
                self.session.note(&error);
                None
            }
        }
    }

    /// A lane that has failed answers nothing any more: all that was asked of it has failed.
    #[cold]
    fn broken(&mut self, error: &Error) -> Errno {
        self.session.note(error);
        self.lane = None;
        for entry in self.entries.iter_mut().filter(|entry| entry.wait != Wait::Nothing) {
            entry.error.get_or_insert(Errno::Io);
        }
        Errno::Io
    }

    fn enter(
        &mut self,
        request: Request,
        operation: Operation,
        wait: Wait,
        is_first: bool,
        is_last: bool,
        error: Option<Errno>,
    ) {
        let entry = Entry { request, operation, wait, is_first, is_last, error };
        self.asked_bytes += entry.moves_bytes();
        self.entries.push_back(entry);
    }

    fn push(&mut self) {
        if let Some(lane) = &mut self.lane
            && let Err(error) = lane.push()
        {
            self.broken(&error);
        }
    }

    /// Whether the oldest entry can be answered without waiting.
    fn is_next_ready(&mut self) -> bool {
        match self.entries.front() {
            None => false,
            Some(entry) if entry.error.is_some() || entry.wait == Wait::Nothing => true,
            Some(_) => self.lane.as_mut().is_some_and(|lane| lane.is_ready()),
        }
    }

    /// Answers the oldest entry; waits for the lender if it has to.
    fn take_one(&mut self) -> Done<()> {
        let entry = *self.entries.front().expect("something is outstanding");
        if entry.is_first {
            self.failed = None;
            let reply_bytes =
                MAX_REPLY_BYTES + entry.request.length.min(MAX_PAYLOAD_BYTES) as usize;
            if self.filled + reply_bytes > OUTPUT_BYTES {
                self.send()?;
            }
            self.reply_at = self.filled;
            if entry.operation == Operation::Read {
                self.put(Reply::data(&entry.request, self.session.agreed));
            }
        }
        // If the lane breaks here, it marks this entry, too.
        if entry.error.is_none()
            && let Err(error) = self.take(entry.wait)
        {
            self.broken(&error);
        }
        let entry = self.entries.pop_front().expect("it is still there");
        self.asked_bytes -= entry.moves_bytes();
        self.failed = self.failed.or(entry.error);
        if entry.is_last {
            self.conclude(&entry);
        }
        Ok(())
    }

    fn take(&mut self, wait: Wait) -> Result<()> {
        let bytes = match wait {
            Wait::Nothing => return Ok(()),
            Wait::Bytes(bytes) => bytes,
            Wait::Word(_) => 0,
        };
        let lane = self.lane.as_mut().expect("what has no lane has an error");
        lane.take(&mut self.output[self.filled..self.filled + bytes])?;
        self.filled += bytes;
        Ok(())
    }

    /// All pieces of a request are there.
    fn conclude(&mut self, entry: &Entry) {
        let agreed = self.session.agreed;
        match (self.failed, entry.operation) {
            (Some(error), _) => {
                self.filled = self.reply_at;
                self.put(Reply::error(&entry.request, agreed, error));
            }
            (None, Operation::Read) => {}
            (None, Operation::BlockStatus) => self.put(Reply::allocated(&entry.request)),
            (None, _) => self.put(Reply::done(&entry.request)),
        }
        self.reply_at = self.filled;
    }

    fn put(&mut self, reply: Reply) {
        let bytes = reply.bytes();
        self.output[self.filled..self.filled + bytes.len()].copy_from_slice(bytes);
        self.filled += bytes.len();
    }

    /// Sends the replies that are whole, if none is being put together behind them.
    fn send_whole_replies(&mut self) -> Done<()> {
        if self.reply_at == self.filled { self.send() } else { Ok(()) }
    }

    fn send(&mut self) -> Done<()> {
        if self.filled > 0 {
            // SAFETY: the piece is a part of the output.
            unsafe { self.stream.send(&mut [piece(self.output.as_ptr(), self.filled)])? };
            (self.filled, self.reply_at) = (0, 0);
        }
        Ok(())
    }

    fn receive(&mut self) -> Done<()> {
        let is_idle = self.current.is_none() && self.input.bytes().is_empty();
        let room = self.input.room(PIECE_BYTES);
        // SAFETY: the piece is room of the input.
        match unsafe { self.stream.receive(&mut [piece(room.as_mut_ptr(), room.len())]) }? {
            0 => Err(End::hung_up(is_idle)),
            bytes => {
                self.input.arrived(bytes);
                Ok(())
            }
        }
    }

    /// Receives bytes that are there. The end is noticed when there is nothing else to do.
    fn receive_now(&mut self) -> Done<()> {
        let room = self.input.room(PIECE_BYTES);
        if room.is_empty() {
            return Ok(());
        }
        // SAFETY: the piece is room of the input.
        match unsafe { self.stream.receive_now(&mut [piece(room.as_mut_ptr(), room.len())]) } {
            Ok(bytes) => self.input.arrived(bytes),
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {}
            Err(error) => return Err(error.into()),
        }
        Ok(())
    }
}
