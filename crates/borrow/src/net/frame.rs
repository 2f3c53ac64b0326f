//! Frames: four bytes of length, little endian, and as many bytes of JSON.

use serde::{Serialize, de::DeserializeOwned};

use super::names;
use crate::error::{Error, Result};

/// Longest frame without its length; a ledger of all lenders and leases is the longest.
pub const MAX_FRAME_BYTES: usize = 16 << 20;

/// A message as a frame.
///
/// # Errors
/// It is too long.
pub fn encode(message: &impl Serialize) -> Result<Vec<u8>> {
    let mut bytes = vec![0; 4];
    serde_json::to_writer(&mut bytes, message)
        .map_err(|error| Error::Protocol(format!("cannot write a message: {error}")))?;
    let length = bytes.len() - 4;
    if length > MAX_FRAME_BYTES {
        return Err(Error::Protocol(format!("a message of {length} bytes is too long")));
    }
    bytes[..4].copy_from_slice(&(length as u32).to_le_bytes());
    Ok(bytes)
}

/// A frame's message.
///
/// # Errors
/// It is none.
pub fn decode<T: DeserializeOwned>(frame: &[u8]) -> Result<T> {
    serde_json::from_slice(frame).map_err(|error| {
        let error = names::printable(&error.to_string());
        Error::Protocol(format!("the other side is no rackmem: {error}"))
    })
}

/// The first frame of these bytes, without its length; `None` if it is not whole. With its length it has four bytes
/// more.
///
/// # Errors
/// It is longer than `limit`.
pub fn first(bytes: &[u8], limit: usize) -> Result<Option<&[u8]>> {
    let Some((length, rest)) = bytes.split_first_chunk::<4>() else { return Ok(None) };
    let length = u32::from_le_bytes(*length) as usize;
    if length > limit {
        return Err(Error::Protocol(format!(
            "the other side is no rackmem: a message of {length} bytes"
        )));
    }
    Ok(rest.get(..length))
}

/// Bytes as they come, cut into frames.
#[derive(Debug, Default)]
pub struct Frames {
    bytes: Vec<u8>,
    /// Bytes at the front that were returned as frames.
    cut: usize,
}

impl Frames {
    /// Adds received bytes.
    pub fn extend(&mut self, bytes: &[u8]) {
        // Each byte is moved at most once for each time that as many have been cut off.
        if self.cut > self.bytes.len() / 2 {
            self.bytes.drain(..self.cut);
            self.cut = 0;
        }
        self.bytes.extend_from_slice(bytes);
    }

    /// Bytes received that are not a whole frame yet.
    pub fn waiting(&self) -> usize {
        self.bytes.len() - self.cut
    }

    /// The bytes received that are not a whole frame yet.
    pub fn into_rest(mut self) -> Vec<u8> {
        self.bytes.split_off(self.cut)
    }

    /// The next whole frame, without its length.
    ///
    /// # Errors
    /// It is longer than `limit`.
    pub fn next(&mut self, limit: usize) -> Result<Option<Vec<u8>>> {
        let Some(frame) = first(&self.bytes[self.cut..], limit)? else { return Ok(None) };
        let frame = frame.to_vec();
        self.cut += 4 + frame.len();
        Ok(Some(frame))
    }
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
                bytes.extend(encode(message).unwrap());
            }
            let mut frames = Frames::default();
            let mut got: Vec<String> = Vec::new();
            let mut cuts = cuts.into_iter().cycle();
            while !bytes.is_empty() {
                let rest = bytes.split_off(cuts.next().unwrap().min(bytes.len()));
                frames.extend(&bytes);
                bytes = rest;
                while let Some(frame) = frames.next(MAX_FRAME_BYTES).unwrap() {
                    got.push(decode(&frame).unwrap());
                }
            }
            prop_assert_eq!(got, messages);
            prop_assert_eq!(frames.waiting(), 0);
        }

        #[test]
        fn noise_is_an_error_or_nothing(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            use crate::lease::messages::{Reply, Request};
            let mut frames = Frames::default();
            frames.extend(&bytes);
            while let Ok(Some(frame)) = frames.next(64) {
                let _ = decode::<Request>(&frame);
                let _ = decode::<Reply>(&frame);
            }
            let _ = decode::<Request>(&bytes);
        }
    }
}
