//! A connection: one request comes, one response goes.

use std::io::{self, ErrorKind, Read, Write};
use std::net::{Shutdown, TcpStream};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::{Duration, Instant};

use rustix::event::PollFlags;

use super::request::{MAX_REQUEST_BYTES, Parsed, Request, Response, parse};

/// Time that a request has to come, that the response has to go, and that a client has to hang up.
pub const STEP_TIMEOUT: Duration = Duration::from_secs(5);

/// Bytes beyond the request that are thrown away before the connection is cut.
const MAX_DRAINED_BYTES: usize = 64 << 10;

enum State {
    /// Bytes of the request.
    Asks(Vec<u8>),
    /// The response, and how much of it has gone.
    Answers(Vec<u8>, usize),
    /// The client may still send: a socket that is closed with bytes unread resets, and the response may be lost.
    Drains(usize),
}

/// A client.
pub struct Connection {
    stream: TcpStream,
    state: State,
    deadline: Instant,
}

/// The connection goes on, or is over.
pub type Step = io::Result<()>;

impl Connection {
    /// A client that has just come, by a socket that does not block.
    pub fn new(stream: TcpStream) -> Connection {
        let state = State::Asks(Vec::new());
        Connection { stream, state, deadline: Instant::now() + STEP_TIMEOUT }
    }

    /// Whether no whole request has come.
    pub fn asks(&self) -> bool {
        matches!(self.state, State::Asks(_))
    }

    /// End of its time.
    pub fn deadline(&self) -> Instant {
        self.deadline
    }

    /// What it waits for.
    pub fn awaited(&self) -> (BorrowedFd<'_>, PollFlags) {
        let flags = match self.state {
            State::Answers(..) => PollFlags::OUT,
            State::Asks(_) | State::Drains(_) => PollFlags::IN,
        };
        (self.stream.as_fd(), flags)
    }

    /// Does what it can without waiting.
    ///
    /// # Errors
    /// The connection is over, in order or not.
    pub fn go_on(&mut self, answer: &mut dyn FnMut(&Request) -> Response) -> Step {
        loop {
            let went_on = match &mut self.state {
                State::Asks(_) => self.ask(answer),
                State::Answers(..) => self.send(),
                State::Drains(_) => self.drain(),
            };
            match went_on {
                Ok(()) => {}
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
    }

    fn ask(&mut self, answer: &mut dyn FnMut(&Request) -> Response) -> Step {
        let State::Asks(bytes) = &mut self.state else { return Ok(()) };
        let mut room = [0; 1 << 10];
        let most = room.len().min(MAX_REQUEST_BYTES - bytes.len());
        match self.stream.read(&mut room[..most])? {
            0 => return Err(ErrorKind::UnexpectedEof.into()),
            count => bytes.extend_from_slice(&room[..count]),
        }
        let response = match parse(bytes) {
            Parsed::Part => return Ok(()),
            Parsed::Whole(request) => answer(&request).encode(request.head_only),
            Parsed::Refused(response) => response.encode(false),
        };
        self.step_to(State::Answers(response, 0));
        Ok(())
    }

    fn send(&mut self) -> Step {
        let State::Answers(bytes, sent) = &mut self.state else { return Ok(()) };
        *sent += self.stream.write(&bytes[*sent..])?;
        if *sent == bytes.len() {
            self.stream.shutdown(Shutdown::Write)?;
            self.step_to(State::Drains(0));
        }
        Ok(())
    }

    fn drain(&mut self) -> Step {
        let State::Drains(drained) = &mut self.state else { return Ok(()) };
        let mut room = [0; 4 << 10];
        match self.stream.read(&mut room)? {
            0 => Err(ErrorKind::UnexpectedEof.into()),
            _ if *drained > MAX_DRAINED_BYTES => Err(ErrorKind::InvalidData.into()),
            count => {
                *drained += count;
                Ok(())
            }
        }
    }

    fn step_to(&mut self, state: State) {
        self.state = state;
        self.deadline = Instant::now() + STEP_TIMEOUT;
    }
}
