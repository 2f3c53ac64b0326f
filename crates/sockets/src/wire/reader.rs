//! Bytes from a socket, cut into frames. Bytes of a message go from the kernel to their place, unless they came along
//! with other frames.

use std::io::ErrorKind;
use std::os::fd::BorrowedFd;

use rackmem_fabric::{Inlet, Received};
use rustix::net::RecvFlags;

use super::frame::{Frame, HEADER_BYTES, Kind, Malformed};
use crate::board::INLINE_BYTES;

/// Bytes taken in at a time, beside those that go to their place.
const CHUNK_BYTES: usize = 64 << 10;

/// Reads before others have their turn.
const ROUNDS: u32 = 16;

/// Reason why nothing more can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Over {
    /// The peer has hung up, or the network says so.
    Gone(String),
    /// It sends bytes that are no frames.
    Nonsense,
}

impl From<Malformed> for Over {
    fn from(_: Malformed) -> Over {
        Over::Nonsense
    }
}

/// Consumer of frames.
pub(super) trait Sink {
    /// Address for the bytes that follow this frame: as many as it says may be written there.
    fn place(&mut self, frame: &Frame) -> Result<*mut u8, Over>;
    /// A frame has come whole; with its bytes, if it is a message that travels in the queue.
    fn take(&mut self, frame: &Frame, inline: &[u8]) -> Result<(), Over>;
}

/// A frame whose bytes are coming.
#[derive(Debug)]
struct Coming {
    frame: Frame,
    to: *mut u8,
    done: usize,
}

impl Coming {
    fn missing(&self) -> usize {
        self.frame.length as usize - self.done
    }
}

/// Bytes received that are not taken yet.
#[derive(Debug)]
pub(super) struct Reader {
    input: Inlet,
    /// Bytes came before the first read.
    has_early: bool,
    coming: Option<Coming>,
}

// SAFETY: the one address in it is that of memory that all threads have.
unsafe impl Send for Reader {}

/// Whether a message travels in the queue: it is taken when all of it is there.
fn is_inline(frame: &Frame) -> bool {
    frame.kind == Kind::Message && frame.value == 0 && frame.length as usize <= INLINE_BYTES
}

impl Reader {
    /// One that begins with bytes that came before.
    pub(super) fn new(input: Inlet) -> Reader {
        Reader { has_early: !input.is_empty(), input, coming: None }
    }

    /// Takes bytes that are there, without waiting; returns whether there were any.
    pub(super) fn drain(
        &mut self,
        socket: BorrowedFd<'_>,
        sink: &mut impl Sink,
    ) -> Result<bool, Over> {
        let mut has_read = std::mem::take(&mut self.has_early);
        self.cut(sink)?;
        for _ in 0..ROUNDS {
            let (got, is_all) = self.fill(socket)?;
            has_read |= got > 0;
            self.cut(sink)?;
            if is_all {
                break;
            }
        }
        Ok(has_read)
    }

    /// Reads once; returns the number of bytes, and whether the socket had no more.
    fn fill(&mut self, socket: BorrowedFd<'_>) -> Result<(usize, bool), Over> {
        let direct: &mut [u8] = match &self.coming {
            // SAFETY: the sink gave this place for all bytes of the frame.
            Some(coming) => unsafe {
                std::slice::from_raw_parts_mut(coming.to.add(coming.done), coming.missing())
            },
            None => &mut [],
        };
        let direct = [direct, &mut []];
        match self.input.receive(socket, direct, CHUNK_BYTES, RecvFlags::DONTWAIT) {
            Ok(Received { bytes: 0, .. }) => Err(Over::Gone("it hung up".to_owned())),
            Ok(Received { bytes, direct, is_full }) => {
                if let Some(coming) = &mut self.coming {
                    coming.done += direct;
                }
                Ok((bytes, !is_full))
            }
            Err(error) => match error.kind() {
                ErrorKind::WouldBlock => Ok((0, true)),
                ErrorKind::Interrupted => Ok((0, false)),
                ErrorKind::InvalidData => Err(Over::Nonsense),
                _ => Err(Over::Gone(error.to_string())),
            },
        }
    }

    /// Takes all frames that are whole.
    fn cut(&mut self, sink: &mut impl Sink) -> Result<(), Over> {
        while self.take_coming(sink)? && self.take_next(sink)? {}
        Ok(())
    }

    /// Takes the frame whose bytes are coming; `false` if some are missing.
    fn take_coming(&mut self, sink: &mut impl Sink) -> Result<bool, Over> {
        let Some(coming) = &mut self.coming else { return Ok(true) };
        let here = coming.missing().min(self.input.len());
        // SAFETY: the sink gave this place for all bytes of the frame.
        unsafe {
            let to = coming.to.add(coming.done);
            std::ptr::copy_nonoverlapping(self.input.bytes().as_ptr(), to, here);
        }
        coming.done += here;
        self.input.take(here);
        if coming.missing() > 0 {
            return Ok(false);
        }
        let frame = coming.frame;
        self.coming = None;
        sink.take(&frame, &[])?;
        Ok(true)
    }

    /// Begins with the next frame; `false` if it is not there.
    fn take_next(&mut self, sink: &mut impl Sink) -> Result<bool, Over> {
        let Some((header, rest)) = self.input.bytes().split_first_chunk::<HEADER_BYTES>() else {
            return Ok(false);
        };
        let frame = Frame::decode(header)?;
        let length = frame.length as usize;
        if is_inline(&frame) {
            let Some(inline) = rest.get(..length) else { return Ok(false) };
            sink.take(&frame, inline)?;
            self.input.take(HEADER_BYTES + length);
            return Ok(true);
        }
        self.input.take(HEADER_BYTES);
        if length == 0 {
            sink.take(&frame, &[])?;
        } else {
            let to = sink.place(&frame)?;
            self.coming = Some(Coming { frame, to, done: 0 });
        }
        Ok(true)
    }
}
