use std::io::{self, IoSliceMut};
use std::ops::{Deref, DerefMut};
use std::os::fd::BorrowedFd;

use rustix::net::{RecvAncillaryBuffer, RecvFlags};

use crate::{Buffer, Incoming};

/// Bytes that come on a connection: opened if they are sealed, and kept until their owner takes them.
#[derive(Debug, Default)]
pub struct Inlet {
    keys: Option<Incoming>,
    input: Buffer,
}

/// Result of a call of [`Inlet::receive`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Received {
    /// Bytes of the socket; 0: the peer has closed the connection.
    pub bytes: usize,
    /// Bytes that went straight to the caller's buffer.
    pub direct: usize,
    /// Whether they fill the room, so that there may be more.
    pub is_full: bool,
}

impl Inlet {
    /// One that begins with bytes that came before, which are open.
    pub fn new(input: Buffer, keys: Option<Incoming>) -> Inlet {
        Inlet { keys, input }
    }

    /// Whether bytes come sealed.
    #[inline]
    pub fn is_sealed(&self) -> bool {
        self.keys.is_some()
    }

    /// Calls the kernel once, for bytes beyond those in `direct`, too. In cleartext the first ones go to the places in
    /// `direct`; the caller has taken all that came before.
    ///
    /// # Errors
    /// The error of the kernel; `InvalidData`: a record was changed on its way, or comes from somebody else.
    #[inline]
    pub fn receive(
        &mut self,
        socket: BorrowedFd<'_>,
        direct: [&mut [u8]; 2],
        room: usize,
        flags: RecvFlags,
    ) -> io::Result<Received> {
        if let Some(keys) = &mut self.keys {
            let (bytes, _) = rustix::net::recv(socket, &mut keys.room(room)[..room], flags)?;
            keys.filled(bytes, &mut self.input)?;
            return Ok(Received { bytes, direct: 0, is_full: bytes == room });
        }
        let behind = &mut self.input.room(room)[..room];
        let wanted = direct[0].len() + direct[1].len();
        let bytes = if wanted == 0 {
            rustix::net::recv(socket, behind, flags)?.0
        } else {
            let [head, body] = direct;
            let mut parts = [head, body, behind].map(IoSliceMut::new);
            let mut none = RecvAncillaryBuffer::default();
            rustix::net::recvmsg(socket, &mut parts, &mut none, flags)?.bytes
        };
        let direct = bytes.min(wanted);
        self.input.filled(bytes - direct);
        Ok(Received { bytes, direct, is_full: bytes == wanted + room })
    }
}

impl Deref for Inlet {
    type Target = Buffer;

    fn deref(&self) -> &Buffer {
        &self.input
    }
}

impl DerefMut for Inlet {
    fn deref_mut(&mut self) -> &mut Buffer {
        &mut self.input
    }
}
