//! A connection that control talks on: to a process of this host, or to a daemon of another one.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, MutexGuard, Weak};

use rackmem_fabric::frame;
use rackmem_fabric::stream::Stream;
use serde::{Serialize, de::DeserializeOwned};

use crate::transport::{Channel, MAX_MESSAGE_BYTES, Received};

/// Bytes for another host that may wait to leave.
const MAX_STAGED_BYTES: usize = 8 * MAX_MESSAGE_BYTES;

/// One end of a connection.
#[derive(Debug)]
pub enum Line {
    /// To a process of this host; descriptors travel with messages.
    Near(Channel),
    /// To a daemon of another host.
    Far(FarLine),
}

/// A connection to a daemon of another host, on which a second thread may say something.
#[derive(Debug)]
pub struct FarLine {
    stream: Arc<Mutex<Stream>>,
    /// The stream's socket.
    socket: OwnedFd,
}

impl FarLine {
    /// A line over a stream.
    ///
    /// # Errors
    /// The process has no more descriptors.
    pub fn new(stream: Stream) -> io::Result<FarLine> {
        let socket = stream.as_fd().try_clone_to_owned()?;
        Ok(FarLine { stream: Arc::new(Mutex::new(stream)), socket })
    }

    /// The way of another thread to this line, as long as there is the line.
    pub fn second(&self) -> SecondLine {
        SecondLine(Arc::downgrade(&self.stream))
    }

    /// Reason for the end of the connection, if it has ended.
    pub fn lost(&self) -> Option<String> {
        self.stream().lost().map(str::to_owned)
    }

    fn stream(&self) -> MutexGuard<'_, Stream> {
        self.stream.lock().expect("no holder panics")
    }
}

/// The way of another thread to a line.
#[derive(Debug)]
pub struct SecondLine(Weak<Mutex<Stream>>);

impl SecondLine {
    /// Sends a message. A peer that does not read loses the connection. Returns false if there is no line any more.
    pub fn send(&self, message: &impl Serialize) -> bool {
        let Some(stream) = self.0.upgrade() else { return false };
        let mut stream = stream.lock().expect("no holder panics");
        if send_far(&mut stream, message).is_err() {
            stream.lose("it does not listen");
        }
        stream.lost().is_none()
    }
}

impl Line {
    /// Sends a message. A receiver that does not read makes it fail, not wait.
    ///
    /// # Errors
    /// The other end is gone or does not read, the message is too long, or descriptors are for another host.
    pub fn send(&mut self, message: &impl Serialize, fds: &[BorrowedFd<'_>]) -> io::Result<()> {
        match self {
            Line::Near(channel) => channel.send(message, fds),
            Line::Far(line) if fds.is_empty() => send_far(&mut line.stream(), message),
            Line::Far(_) => Err(io::ErrorKind::Unsupported.into()),
        }
    }

    /// Receives a message.
    ///
    /// # Errors
    /// `WouldBlock`: none has come; `UnexpectedEof`: the other end is gone; `InvalidData`: it is no such message.
    pub fn receive<T: DeserializeOwned>(&mut self) -> io::Result<Received<T>> {
        match self {
            Line::Near(channel) => channel.receive(),
            Line::Far(line) => {
                receive_far(&mut line.stream()).map(|message| Received { message, fds: Vec::new() })
            }
        }
    }

    /// Ends the connection for both ends, which notice it when they next receive.
    pub fn hang_up(&mut self, why: &str) {
        match self {
            Line::Near(channel) => channel.hang_up(),
            Line::Far(line) => line.stream().lose(why),
        }
    }

    /// Whether the other end has hung up.
    pub fn is_hung_up(&self) -> bool {
        match self {
            Line::Near(channel) => channel.is_hung_up(),
            Line::Far(line) => line.stream().lost().is_some(),
        }
    }

    /// Sends what could not leave before. Returns whether something is left.
    pub fn flush(&mut self) -> bool {
        match self {
            Line::Near(_) => false,
            Line::Far(line) => {
                let mut stream = line.stream();
                stream.transmit();
                stream.staged_bytes() > 0
            }
        }
    }
}

fn send_far(stream: &mut Stream, message: &impl Serialize) -> io::Result<()> {
    let bytes = frame::encode(message, MAX_MESSAGE_BYTES)?;
    if stream.staged_bytes() > MAX_STAGED_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "messages that are not taken"));
    }
    stream.out().extend_from_slice(&bytes);
    stream.transmit();
    Ok(())
}

fn receive_far<T: DeserializeOwned>(stream: &mut Stream) -> io::Result<T> {
    loop {
        if let Some(message) = frame::take(stream.both().0, MAX_MESSAGE_BYTES)? {
            return Ok(message);
        }
        if !stream.receive() {
            return Err(match stream.lost() {
                Some(_) => io::ErrorKind::UnexpectedEof.into(),
                None => io::ErrorKind::WouldBlock.into(),
            });
        }
    }
}

impl AsFd for Line {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Line::Near(channel) => channel.as_fd(),
            Line::Far(line) => line.socket.as_fd(),
        }
    }
}
