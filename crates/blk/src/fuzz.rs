//! Transmission over a stream in memory, for fuzzing.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::connection::{Service, transmit};
use super::export::{Agreed, Export};
use super::negotiate::TlsMode;
use super::socket::{Piece, Stream};
use rackmem_lease::store::Store;

/// A client's bytes in the pieces in which they arrive, and the answers to them.
struct Script<'a> {
    parts: VecDeque<&'a [u8]>,
    output: &'a mut Vec<u8>,
}

impl Stream for Script<'_> {
    unsafe fn receive(&mut self, into: &mut [Piece]) -> io::Result<usize> {
        let Some(mut part) = self.parts.pop_front() else { return Ok(0) };
        let whole = part.len();
        for piece in into {
            let length = piece.iov_len.min(part.len());
            let (here, rest) = part.split_at(length);
            // SAFETY: the caller says that the piece may be written, and no more than its length is.
            unsafe { std::ptr::copy_nonoverlapping(here.as_ptr(), piece.iov_base.cast(), length) };
            part = rest;
        }
        if !part.is_empty() {
            self.parts.push_front(part);
        }
        Ok(whole - part.len())
    }

    unsafe fn receive_now(&mut self, into: &mut [Piece]) -> io::Result<usize> {
        if self.parts.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        // SAFETY: as the caller says.
        unsafe { self.receive(into) }
    }

    unsafe fn send(&mut self, from: &mut [Piece]) -> io::Result<()> {
        for piece in from.iter().filter(|piece| piece.iov_len > 0) {
            // SAFETY: the caller says that the piece may be read.
            let bytes = unsafe { std::slice::from_raw_parts(piece.iov_base.cast(), piece.iov_len) };
            self.output.extend_from_slice(bytes);
        }
        Ok(())
    }
}

/// Serves the bytes of a client after the handshake, in parts of which none is empty; returns all answers, and whether
/// it kept to the protocol.
pub fn serve(
    store: Arc<dyn Store>,
    export: Export,
    agreed: Agreed,
    parts: &[&[u8]],
) -> (Vec<u8>, bool) {
    let (tls_mode, tls, loss_is_known) = (TlsMode::Off, None, AtomicBool::new(false));
    let service = Service { store, export, tls_mode, tls, loss_is_known };
    let mut output = Vec::new();
    let stream = Script { parts: parts.iter().copied().collect(), output: &mut output };
    let (end, _) = transmit(&service, stream, agreed, &[]);
    (output, end.is_orderly())
}
