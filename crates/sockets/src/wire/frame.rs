//! Frames of a wire: headers of fixed size, some followed by bytes of a message.
//!
//! All numbers are little endian.
//!
//! ```text
//! byte   0     1         2     4           8      12      16       24       32
//!        kind  confirm   0 0   connection  life   length  number   value
//! ```
//!
//! | kind | number | value | `length` bytes follow |
//! |---|---|---|---|
//! | alive | 0 | 0 | |
//! | open, close | 0 | 0 | |
//! | receive | of the receive | size of its buffer | |
//! | want | of the receive that is waited for | 0 | |
//! | part | of the message | where in the message | some of its bytes |
//! | message | of the message | where in the message | the last of its bytes |
//! | too long | of the message | its size | |
//! | delivered | of the last message that is in its buffer | 0 | |

/// Size of a header.
pub const HEADER_BYTES: usize = 32;

/// Most bytes of a message in one frame: longer ones let others pass between their parts.
pub const PART_BYTES: usize = 128 << 10;

/// Kinds of frames.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// The process lives.
    Alive = 0,
    /// A connection begins.
    Open = 1,
    /// This end of a connection is closed.
    Close = 2,
    /// A receive was posted.
    Receive = 3,
    /// A message waits for a receive.
    Want = 4,
    /// A part of a message; more follow.
    Part = 5,
    /// A message, or the last part of one.
    Message = 6,
    /// A message that does not fit.
    TooLong = 7,
    /// All messages up to this one are in their buffers.
    Delivered = 8,
}

/// A header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Frame {
    /// The kind of the frame.
    pub kind: Kind,
    /// Whether the sender of a message wants to hear that it was delivered.
    pub confirm: bool,
    /// Number of the connection.
    pub connection: u32,
    /// Life of the connection: each use of its number is one.
    pub life: u32,
    /// Bytes that follow.
    pub length: u32,
    /// Number of the message or receive.
    pub number: u64,
    /// Argument of the frame; its meaning depends on `kind`, see the table.
    pub value: u64,
}

/// Bytes that are no header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

impl Frame {
    /// One without numbers.
    pub fn new(kind: Kind, connection: u32, life: u32) -> Frame {
        Frame { kind, confirm: false, connection, life, length: 0, number: 0, value: 0 }
    }

    /// The header's bytes.
    #[inline]
    pub fn encode(&self) -> [u8; HEADER_BYTES] {
        let mut header = [0; HEADER_BYTES];
        header[0] = self.kind as u8;
        header[1] = u8::from(self.confirm);
        header[4..8].copy_from_slice(&self.connection.to_le_bytes());
        header[8..12].copy_from_slice(&self.life.to_le_bytes());
        header[12..16].copy_from_slice(&self.length.to_le_bytes());
        header[16..24].copy_from_slice(&self.number.to_le_bytes());
        header[24..].copy_from_slice(&self.value.to_le_bytes());
        header
    }

    /// A header, with no more bytes after it than there may be.
    ///
    /// # Errors
    /// The bytes are none.
    #[inline]
    pub fn decode(header: &[u8; HEADER_BYTES]) -> Result<Frame, Malformed> {
        let short = |at: usize| {
            u32::from_le_bytes(*header[at..].first_chunk().expect("the header has a word there"))
        };
        let long = |at: usize| u64::from(short(at)) | u64::from(short(at + 4)) << 32;
        let kind = Kind::decode(header[0]).ok_or(Malformed)?;
        let (confirm, length) = (header[1], short(12));
        let may_confirm = matches!(kind, Kind::Message | Kind::TooLong);
        let may_follow = matches!(kind, Kind::Part | Kind::Message);
        let is_right = header[2..4] == [0, 0]
            && confirm <= u8::from(may_confirm)
            && length as usize <= if may_follow { PART_BYTES } else { 0 };
        if !is_right {
            return Err(Malformed);
        }
        let confirm = confirm == 1;
        let (connection, life, number, value) = (short(4), short(8), long(16), long(24));
        Ok(Frame { kind, confirm, connection, life, length, number, value })
    }
}

impl Kind {
    fn decode(code: u8) -> Option<Kind> {
        use Kind::*;
        let all = [Alive, Open, Close, Receive, Want, Part, Message, TooLong, Delivered];
        all.get(usize::from(code)).copied()
    }
}
