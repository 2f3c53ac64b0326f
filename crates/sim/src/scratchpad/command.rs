//! Command buffers (CINI §3.3): lines that start a transfer by themselves when all words of its
//! description have been stored, in whatever order.

use super::{MAX_COPY_BYTES, MAX_MESSAGE_BYTES, WORD_BYTES};
use crate::block::Words;

/// Opcode of a message: its data is in the command.
pub const MESSAGE: u8 = 1;

pub const COPY: u8 = 2;

/// The word with opcode and size.
const HEAD: usize = 0;
const DESTINATION: usize = 1;
const ACK: usize = 2;
/// Of a copy: its source. Of a message: the first word of its data.
pub const SOURCE: usize = 3;

/// A command of which all words have been stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    /// Its data is in the command.
    pub is_message: bool,
    pub bytes: u32,
    /// Virtual address of the first byte to be written.
    pub destination: u64,
    /// Address that acknowledgements go to.
    pub ack: u64,
    /// Of a copy: virtual address of the first byte to be read.
    pub source: u64,
}

/// The fault of a word of opcode and size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    Opcode(u8),
    Size(u32),
}

impl Command {
    pub fn of(words: &Words) -> Command {
        Command {
            is_message: opcode(words) == MESSAGE,
            bytes: size(words),
            destination: words[DESTINATION],
            ack: words[ACK],
            source: words[SOURCE],
        }
    }
}

fn opcode(words: &Words) -> u8 {
    words[HEAD] as u8
}

fn size(words: &Words) -> u32 {
    (words[HEAD] >> 8).min(u64::from(u32::MAX)) as u32
}

/// Whether a command with these valid words is complete.
///
/// # Errors
/// [`Wrong`] as soon as opcode and size are there and make no command.
pub fn is_complete(words: &Words, valid: u8) -> Result<bool, Wrong> {
    if valid >> HEAD & 1 == 0 {
        return Ok(false);
    }
    let bytes = size(words);
    let data_words = match (opcode(words), bytes) {
        (MESSAGE, 1..=MAX_MESSAGE_BYTES) => bytes.div_ceil(WORD_BYTES),
        (COPY, 1..=MAX_COPY_BYTES) => 1,
        (MESSAGE | COPY, _) => return Err(Wrong::Size(bytes)),
        (other, _) => return Err(Wrong::Opcode(other)),
    };
    let needed = (1u16 << (SOURCE as u32 + data_words)) - 1;
    Ok(u16::from(valid) & needed == needed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_is_complete_when_its_last_word_is_there_and_not_before() {
        let copy = [u64::from(COPY) | 64 << 8, 1, 2, 3, 0, 0, 0, 0];
        let message = [u64::from(MESSAGE) | 17 << 8, 1, 2, 3, 4, 5, 0, 0];
        for (words, needed) in [(copy, 0b1111), (message, 0b11_1111)] {
            for valid in 0..=255u8 {
                assert_eq!(is_complete(&words, valid), Ok(valid & needed == needed));
            }
        }
    }

    #[test]
    fn opcode_and_size_are_checked_as_soon_as_they_are_known() {
        let head = |opcode: u8, bytes: u64| [u64::from(opcode) | bytes << 8, 0, 0, 0, 0, 0, 0, 0];
        assert_eq!(is_complete(&head(7, 8), 1), Err(Wrong::Opcode(7)));
        assert_eq!(is_complete(&head(MESSAGE, 41), 1), Err(Wrong::Size(41)));
        assert_eq!(is_complete(&head(COPY, 0), 1), Err(Wrong::Size(0)));
        assert_eq!(is_complete(&head(COPY, 65537), 1), Err(Wrong::Size(65537)));
        assert_eq!(is_complete(&head(COPY, 65536), 1), Ok(false));
    }
}
