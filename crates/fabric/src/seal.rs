//! Sealed records: encrypted, authentic, in order.
//!
//! A record is two bytes of length, little endian, and a message of Noise. The two directions of a connection have keys
//! and counters of their own, so that one thread may send while another receives.

use std::io;
use std::sync::Arc;

use snow::StatelessTransportState;

use crate::buffer::Buffer;

/// Bytes before a record: its length.
const PREFIX_BYTES: usize = 2;

/// Bytes by which a record is longer than its contents.
pub(crate) const TAG_BYTES: usize = 16;

/// Longest contents of a record, which Noise bounds. An owner that sends more does so record by record, so that the
/// other end opens one while the next is sealed.
pub const MAX_PLAIN_BYTES: usize = 65_535 - TAG_BYTES;

/// Keys of one connection, both ways.
#[derive(Debug)]
pub struct Seal {
    sealer: Sealer,
    opener: Opener,
}

/// Keys for the records that this end sends.
#[derive(Debug)]
pub struct Sealer {
    keys: Arc<StatelessTransportState>,
    /// Number of the next record.
    next: u64,
}

/// Keys for the records of the other end.
#[derive(Debug)]
struct Opener {
    keys: Arc<StatelessTransportState>,
    next: u64,
}

fn broken(error: snow::Error) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("a record that is not authentic: {error}"))
}

impl Seal {
    pub(crate) fn new(keys: StatelessTransportState) -> Seal {
        let keys = Arc::new(keys);
        let sealer = Sealer { keys: keys.clone(), next: 0 };
        Seal { sealer, opener: Opener { keys, next: 0 } }
    }

    /// The keys, for an owner that numbers what it seals by itself.
    pub(crate) fn into_keys(self) -> Arc<StatelessTransportState> {
        self.sealer.keys
    }

    /// See [`Sealer::seal`].
    ///
    /// # Errors
    /// As there.
    pub fn seal(&mut self, plain: &[u8], wire: &mut Vec<u8>) -> io::Result<()> {
        self.sealer.seal(plain, wire)
    }

    /// Opens the next record of `wire`, appends its contents, and returns the bytes that it took; `None`: it is not
    /// whole.
    ///
    /// # Errors
    /// It was changed on its way, or comes from somebody else.
    pub fn open(&mut self, wire: &[u8], plain: &mut Vec<u8>) -> io::Result<Option<usize>> {
        let Some(record) = first(wire) else { return Ok(None) };
        let at = plain.len();
        plain.resize(at + record.len(), 0);
        let opened = self.opener.open(record, &mut plain[at..]);
        // Of a record that is not authentic nothing stays.
        plain.truncate(at + opened.as_ref().copied().unwrap_or(0));
        opened?;
        Ok(Some(PREFIX_BYTES + record.len()))
    }
}

/// The first record of these bytes, without its length, if it is whole.
#[inline]
fn first(wire: &[u8]) -> Option<&[u8]> {
    let (prefix, rest) = wire.split_first_chunk::<PREFIX_BYTES>()?;
    rest.get(..usize::from(u16::from_le_bytes(*prefix)))
}

impl Sealer {
    /// Appends `plain` as records. Without any bytes it is one empty record.
    ///
    /// # Errors
    /// The connection has had 2^64 records.
    pub fn seal(&mut self, plain: &[u8], wire: &mut Vec<u8>) -> io::Result<()> {
        let mut rest = plain;
        loop {
            let (now, later) = rest.split_at(rest.len().min(MAX_PLAIN_BYTES));
            let at = wire.len();
            wire.resize(at + PREFIX_BYTES + now.len() + TAG_BYTES, 0);
            let sealed = self.keys.write_message(self.next, now, &mut wire[at + PREFIX_BYTES..]);
            let length = sealed.map_err(broken)?;
            self.next += 1;
            wire[at..at + PREFIX_BYTES].copy_from_slice(&(length as u16).to_le_bytes());
            rest = later;
            if rest.is_empty() {
                return Ok(());
            }
        }
    }
}

impl Opener {
    /// Opens a record; `into` is as long as the record at least. Returns the bytes of its contents.
    #[inline]
    fn open(&mut self, record: &[u8], into: &mut [u8]) -> io::Result<usize> {
        let opened = self.keys.read_message(self.next, record, into).map_err(broken)?;
        self.next += 1;
        Ok(opened)
    }
}

/// Both directions of a connection whose owner reads and writes the socket.
#[derive(Debug)]
pub struct Records {
    /// Seals what leaves.
    pub sealer: Sealer,
    /// Opens what has come.
    pub incoming: Incoming,
}

/// Records that have come.
#[derive(Debug)]
pub struct Incoming {
    opener: Opener,
    wire: Buffer,
}

impl Records {
    /// The records of a connection whose handshake has ended. What has come behind it is opened.
    ///
    /// # Errors
    /// It was changed on its way, or comes from somebody else.
    pub fn new(seal: Seal, input: &mut Buffer) -> io::Result<Records> {
        let Seal { sealer, opener } = seal;
        let mut incoming = Incoming { opener, wire: std::mem::take(input) };
        incoming.filled(0, input)?;
        Ok(Records { sealer, incoming })
    }
}

impl Incoming {
    /// Room for bytes of the socket, for `wanted` at least.
    #[inline]
    pub fn room(&mut self, wanted: usize) -> &mut [u8] {
        self.wire.room(wanted)
    }

    /// So many bytes have come into the room. Opens the records that are whole.
    ///
    /// # Errors
    /// One was changed on its way, or comes from somebody else.
    #[inline]
    pub fn filled(&mut self, bytes: usize, plain: &mut Buffer) -> io::Result<()> {
        self.wire.filled(bytes);
        while let Some(record) = first(self.wire.bytes()) {
            let opened = self.opener.open(record, plain.room(record.len()))?;
            plain.filled(opened);
            let taken = PREFIX_BYTES + record.len();
            self.wire.take(taken);
        }
        Ok(())
    }

    /// Adds bytes of the socket, as [`Incoming::filled`].
    ///
    /// # Errors
    /// As there.
    pub fn extend(&mut self, bytes: &[u8], plain: &mut Buffer) -> io::Result<()> {
        self.room(bytes.len())[..bytes.len()].copy_from_slice(bytes);
        self.filled(bytes.len(), plain)
    }
}
