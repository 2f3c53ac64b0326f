//! Frames: four bytes of length, little endian, and as many bytes of JSON.

use serde::{Serialize, de::DeserializeOwned};

use crate::error::{Error, Result};

/// Longest frame without its length; a ledger of all lenders and leases is the longest.
pub const MAX_FRAME_BYTES: usize = 16 << 20;

/// Longest frame of somebody who has not proved anything yet.
pub const MAX_FIRST_FRAME_BYTES: usize = 4096;

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
    serde_json::from_slice(frame)
        .map_err(|error| Error::Protocol(format!("the other side is no rackmem: {error}")))
}

/// Bytes as they come, cut into frames.
#[derive(Debug, Default)]
pub struct Frames {
    bytes: Vec<u8>,
}

impl Frames {
    /// Takes in what came.
    pub fn extend(&mut self, bytes: &[u8]) {
        self.bytes.extend_from_slice(bytes);
    }

    /// What came and is no frame yet.
    pub fn into_rest(self) -> Vec<u8> {
        self.bytes
    }

    /// The next whole frame, without its length.
    ///
    /// # Errors
    /// It is longer than `limit`.
    pub fn next(&mut self, limit: usize) -> Result<Option<Vec<u8>>> {
        let Some((length, rest)) = self.bytes.split_first_chunk::<4>() else { return Ok(None) };
        let length = u32::from_le_bytes(*length) as usize;
        if length > limit {
            return Err(Error::Protocol(format!(
                "the other side is no rackmem: a message of {length} bytes"
            )));
        }
        if rest.len() < length {
            return Ok(None);
        }
        let frame = rest[..length].to_vec();
        self.bytes.drain(..4 + length);
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
            prop_assert!(frames.bytes.is_empty());
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
