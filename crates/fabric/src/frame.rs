//! Frames: four bytes of length, little endian, and as many bytes of JSON.

use std::io;

use serde::{Serialize, de::DeserializeOwned};

use crate::{Buffer, names};

/// Bytes before a frame: its length.
pub const PREFIX_BYTES: usize = 4;

/// Bytes that are no frame, or a message that fits into none.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum FrameError {
    /// A message of this end is longer than the limit, or cannot be written.
    #[error("a message of {0} bytes is too long")]
    TooLong(usize),
    /// A message of the other end is longer than the limit.
    #[error("the other side is no rackmem: a message of {0} bytes")]
    Strange(usize),
    /// A frame does not hold the message that is due.
    #[error("the other side is no rackmem: {0}")]
    Other(String),
}

impl From<FrameError> for io::Error {
    fn from(error: FrameError) -> io::Error {
        let kind = match error {
            FrameError::TooLong(_) => io::ErrorKind::InvalidInput,
            FrameError::Strange(_) | FrameError::Other(_) => io::ErrorKind::InvalidData,
        };
        io::Error::new(kind, error)
    }
}

type Result<T> = std::result::Result<T, FrameError>;

/// A message as a frame of `limit` bytes at most, without its length.
///
/// # Errors
/// It is too long.
pub fn encode(message: &impl Serialize, limit: usize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; PREFIX_BYTES];
    serde_json::to_writer(&mut bytes, message)
        .map_err(|error| FrameError::Other(error.to_string()))?;
    let length = bytes.len() - PREFIX_BYTES;
    if length > limit {
        return Err(FrameError::TooLong(length));
    }
    bytes[..PREFIX_BYTES].copy_from_slice(&(length as u32).to_le_bytes());
    Ok(bytes)
}

/// A frame's message.
///
/// # Errors
/// It is none.
pub fn decode<T: DeserializeOwned>(frame: &[u8]) -> Result<T> {
    serde_json::from_slice(frame)
        .map_err(|error| FrameError::Other(names::printable(&error.to_string())))
}

/// The first frame of these bytes, without its length; `None` if it is not whole. With its length it has
/// [`PREFIX_BYTES`] more.
///
/// # Errors
/// It is longer than `limit`.
pub fn first(bytes: &[u8], limit: usize) -> Result<Option<&[u8]>> {
    let Some((length, rest)) = bytes.split_first_chunk::<PREFIX_BYTES>() else { return Ok(None) };
    let length = u32::from_le_bytes(*length) as usize;
    if length > limit {
        return Err(FrameError::Strange(length));
    }
    Ok(rest.get(..length))
}

/// Takes the message of the first frame off the input; `None` if it is not whole.
///
/// # Errors
/// The frame is longer than `limit`, or holds no such message.
pub fn take<T: DeserializeOwned>(input: &mut Buffer, limit: usize) -> Result<Option<T>> {
    let Some(frame) = first(input.bytes(), limit)? else { return Ok(None) };
    let (message, length) = (decode(frame), frame.len());
    input.take(PREFIX_BYTES + length);
    message.map(Some)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn frames_come_out_as_they_went_in(
            messages in prop::collection::vec(".{0,40}", 0..20),
            cuts in prop::collection::vec(1_usize..50, 1..20),
        ) {
            let mut bytes = Vec::new();
            for message in &messages {
                bytes.extend(encode(message, 200).unwrap());
            }
            let mut input = Buffer::default();
            let mut got: Vec<String> = Vec::new();
            let mut cuts = cuts.into_iter().cycle();
            while !bytes.is_empty() {
                let rest = bytes.split_off(cuts.next().unwrap().min(bytes.len()));
                input.extend(&bytes);
                bytes = rest;
                while let Some(message) = take(&mut input, 200).unwrap() {
                    got.push(message);
                }
            }
            prop_assert_eq!(got, messages);
            prop_assert!(input.is_empty());
        }
    }

    #[test]
    fn what_is_too_long_is_no_frame() {
        assert_eq!(encode(&"four", 5), Err(FrameError::TooLong(6)));
        assert_eq!(first(&[6, 0, 0, 0, b'x'], 5), Err(FrameError::Strange(6)));
        assert_eq!(first(&[6, 0, 0, 0, b'x'], 6), Ok(None));
    }
}
