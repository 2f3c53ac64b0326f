//! A frame as bytes.
//!
//! | bytes | field |
//! |---|---|
//! | 0 | kind; 0x80 is set if the peer is to send again |
//! | 1 | version of this layout |
//! | 2, 3 | length of the payload in bytes |
//! | 4 to 7 | sequence number |
//! | 8 to 11 | acknowledgement: frame expected |
//! | 12 to 15 | acknowledgement: limit |
//! | 16 .. | payload |
//! | last 4 | CRC-32C of all bytes before |
//!
//! Numbers are little endian.

use super::{Ack, Header, Kind};

/// Bytes of a frame beside its payload.
pub const OVERHEAD_BYTES: usize = HEADER_BYTES + CRC_BYTES;

/// Most bytes that one frame carries.
pub const MAX_PAYLOAD_BYTES: usize = u16::MAX as usize;

const HEADER_BYTES: usize = 16;
const CRC_BYTES: usize = 4;
const AGAIN: u8 = 0x80;
const VERSION: u8 = 1;

/// These bytes are no frame: a bit was lost on the way, or they never were one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Damaged;

impl core::fmt::Display for Damaged {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("a frame of the link is damaged")
    }
}

impl core::error::Error for Damaged {}

/// Writes a frame to the start of `frame`. Returns its length.
///
/// # Panics
/// If the payload is longer than [`MAX_PAYLOAD_BYTES`], or `frame` shorter than it and
/// [`OVERHEAD_BYTES`].
pub fn encode(header: &Header, payload: &[u8], frame: &mut [u8]) -> usize {
    assert!(payload.len() <= MAX_PAYLOAD_BYTES, "a frame carries up to 65535 bytes");
    let end = HEADER_BYTES + payload.len();
    frame[0] = header.kind as u8 | if header.ack.again { AGAIN } else { 0 };
    frame[1] = VERSION;
    frame[2..4].copy_from_slice(&(payload.len() as u16).to_le_bytes());
    frame[4..8].copy_from_slice(&header.sequence.to_le_bytes());
    frame[8..12].copy_from_slice(&header.ack.expected.to_le_bytes());
    frame[12..16].copy_from_slice(&header.ack.limit.to_le_bytes());
    frame[HEADER_BYTES..end].copy_from_slice(payload);
    let crc = crc32c(&frame[..end]);
    frame[end..end + CRC_BYTES].copy_from_slice(&crc.to_le_bytes());
    end + CRC_BYTES
}

/// The frame in these bytes, all of them.
///
/// # Errors
/// [`Damaged`] if they are not what [`encode`] writes.
pub fn decode(frame: &[u8]) -> Result<(Header, &[u8]), Damaged> {
    let (checked, crc) = frame.split_last_chunk::<CRC_BYTES>().ok_or(Damaged)?;
    let (head, payload) = checked.split_first_chunk::<HEADER_BYTES>().ok_or(Damaged)?;
    let length = u16::from_le_bytes([head[2], head[3]]);
    if usize::from(length) != payload.len()
        || head[1] != VERSION
        || crc32c(checked) != u32::from_le_bytes(*crc)
    {
        return Err(Damaged);
    }
    let kind = match head[0] & !AGAIN {
        1 => Kind::Data,
        2 => Kind::Ack,
        3 => Kind::Probe,
        _ => return Err(Damaged),
    };
    let word = |at: usize| u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]);
    let ack = Ack { expected: word(8), limit: word(12), again: head[0] & AGAIN != 0 };
    Ok((Header { kind, sequence: word(4), ack }, payload))
}

/// CRC-32C (Castagnoli), as iSCSI and NVMe over TCP use it: it finds every error of up to five bits in
/// frames of up to 655 bytes, and every burst of up to 32 bits. Eight bytes a step, by tables.
pub fn crc32c(bytes: &[u8]) -> u32 {
    let (words, rest) = bytes.as_chunks::<8>();
    let crc = words.iter().fold(!0u32, |crc, word| {
        let word = u64::from_le_bytes(*word) ^ u64::from(crc);
        word.to_le_bytes()
            .iter()
            .zip(TABLES.iter().rev())
            .fold(0, |crc, (&byte, table)| crc ^ table[usize::from(byte)])
    });
    let step = |crc: u32, &byte: &u8| crc >> 8 ^ TABLES[0][usize::from(crc as u8 ^ byte)];
    !rest.iter().fold(crc, step)
}

/// `TABLES[n][b]`: contribution of a byte `b` to the CRC with `n` more bytes after it.
static TABLES: [[u32; 256]; 8] = tables();

const fn tables() -> [[u32; 256]; 8] {
    const POLYNOMIAL: u32 = 0x82f6_3b78;
    let mut tables = [[0; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = byte as u32;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 1 == 1 { crc >> 1 ^ POLYNOMIAL } else { crc >> 1 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut n = 1;
    while n < 8 {
        byte = 0;
        while byte < 256 {
            let crc = tables[n - 1][byte];
            tables[n][byte] = crc >> 8 ^ tables[0][(crc & 0xff) as usize];
            byte += 1;
        }
        n += 1;
    }
    tables
}
