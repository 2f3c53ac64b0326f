//! Requests of a client and the replies to them, as bytes.

use super::export::{Agreed, Export, MAX_PAYLOAD_BYTES};
use super::wire::{self, Errno, REQUEST_BYTES, chunk, command, flag, u16_at, u32_at, u64_at};

/// A request's header, unchecked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Flags, see [`wire::flag`].
    pub flags: u16,
    /// Number of the operation, see [`wire::command`].
    pub command: u16,
    /// Comes back with the reply.
    pub cookie: u64,
    /// First byte.
    pub offset: u64,
    /// Number of bytes.
    pub length: u32,
}

/// The operation of a request that was checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// Bytes are wanted.
    Read,
    /// Bytes follow.
    Write,
    /// Everything that was answered is to be safe. With borrowed memory it is.
    Flush,
    /// The range is not needed any more.
    Trim,
    /// The range will be read soon.
    Cache,
    /// The range is to be zero; with `keep` it must not be given back.
    WriteZeroes {
        /// `NBD_CMD_FLAG_NO_HOLE`.
        keep: bool,
    },
    /// Reports which part of the range is allocated.
    BlockStatus,
}

impl Request {
    /// The header in these bytes; `None` if they are none.
    pub fn parse(bytes: &[u8; REQUEST_BYTES]) -> Option<Request> {
        (u32_at(bytes, 0) == wire::REQUEST_MAGIC).then(|| Request {
            flags: u16_at(bytes, 4),
            command: u16_at(bytes, 6),
            cookie: u64_at(bytes, 8),
            offset: u64_at(bytes, 16),
            length: u32_at(bytes, 24),
        })
    }

    /// Whether the client says goodbye.
    #[inline]
    pub fn is_disconnect(&self) -> bool {
        self.command == command::DISC
    }

    /// Bytes that follow, even if the request is refused.
    #[inline]
    pub fn payload_bytes(&self) -> usize {
        if self.command == command::WRITE { self.length as usize } else { 0 }
    }

    /// Checks the request against the export; returns its operation.
    ///
    /// # Errors
    /// The error of the reply.
    #[inline]
    pub fn check(&self, export: &Export, agreed: Agreed) -> Result<Operation, Errno> {
        let (operation, known_flags) = match self.command {
            command::READ if agreed.structured => (Operation::Read, flag::DF),
            command::READ => (Operation::Read, 0),
            command::WRITE => (Operation::Write, 0),
            command::FLUSH => (Operation::Flush, 0),
            command::TRIM => (Operation::Trim, 0),
            command::CACHE => (Operation::Cache, 0),
            command::WRITE_ZEROES => {
                let keep = self.flags & flag::NO_HOLE != 0;
                // Zeros are always faster than a write: no byte of them travels from the client.
                (Operation::WriteZeroes { keep }, flag::NO_HOLE | flag::FAST_ZERO)
            }
            command::BLOCK_STATUS if agreed.base_allocation => {
                (Operation::BlockStatus, flag::REQ_ONE)
            }
            _ => return Err(Errno::Invalid),
        };
        if self.flags & !(known_flags | flag::FUA) != 0 {
            return Err(Errno::Invalid);
        }
        self.check_range(operation, export)?;
        Ok(operation)
    }

    fn check_range(&self, operation: Operation, export: &Export) -> Result<(), Errno> {
        let grows = matches!(operation, Operation::Write | Operation::WriteZeroes { .. });
        if (grows || operation == Operation::Trim) && export.is_read_only {
            return Err(Errno::NotPermitted);
        }
        if operation == Operation::Flush {
            return Ok(());
        }
        let end = self.offset.checked_add(u64::from(self.length));
        if end.is_none_or(|end| end > export.size_bytes) {
            return Err(if grows { Errno::NoSpace } else { Errno::Invalid });
        }
        let moves = matches!(operation, Operation::Read | Operation::Write);
        if self.length == 0 || moves && self.length > MAX_PAYLOAD_BYTES {
            return Err(Errno::Invalid);
        }
        Ok(())
    }
}

/// Longest beginning of a reply.
pub const MAX_REPLY_BYTES: usize = 32;

/// All of a reply but the bytes that were read.
#[derive(Clone, Copy, Debug)]
pub struct Reply {
    bytes: [u8; MAX_REPLY_BYTES],
    len: usize,
}

impl Reply {
    fn new() -> Reply {
        Reply { bytes: [0; MAX_REPLY_BYTES], len: 0 }
    }

    #[inline]
    fn put<const N: usize>(mut self, bytes: [u8; N]) -> Reply {
        self.bytes[self.len..self.len + N].copy_from_slice(&bytes);
        self.len += N;
        self
    }

    #[inline]
    fn simple(cookie: u64, error: u32) -> Reply {
        let reply = Reply::new().put(wire::SIMPLE_REPLY_MAGIC.to_be_bytes());
        reply.put(error.to_be_bytes()).put(cookie.to_be_bytes())
    }

    #[inline]
    fn chunk(kind: u16, cookie: u64, payload_bytes: u32) -> Reply {
        let reply = Reply::new().put(wire::STRUCTURED_REPLY_MAGIC.to_be_bytes());
        let reply = reply.put(chunk::FLAG_DONE.to_be_bytes()).put(kind.to_be_bytes());
        reply.put(cookie.to_be_bytes()).put(payload_bytes.to_be_bytes())
    }

    /// Done; not for reads and block status.
    #[inline]
    pub fn done(request: &Request) -> Reply {
        Reply::simple(request.cookie, 0)
    }

    /// The bytes follow.
    #[inline]
    pub fn data(request: &Request, agreed: Agreed) -> Reply {
        if !agreed.structured {
            return Reply::simple(request.cookie, 0);
        }
        // The offset is part of the payload.
        let payload_bytes = request.length + 8;
        let reply = Reply::chunk(chunk::OFFSET_DATA, request.cookie, payload_bytes);
        reply.put(request.offset.to_be_bytes())
    }

    /// All of the range is allocated. The context's number is [`super::negotiate::BASE_ALLOCATION_ID`].
    pub fn allocated(request: &Request) -> Reply {
        let reply = Reply::chunk(chunk::BLOCK_STATUS, request.cookie, 12);
        let reply = reply.put(super::negotiate::BASE_ALLOCATION_ID.to_be_bytes());
        reply.put(request.length.to_be_bytes()).put(0_u32.to_be_bytes())
    }

    /// The request failed.
    pub fn error(request: &Request, agreed: Agreed, error: Errno) -> Reply {
        if !agreed.structured {
            return Reply::simple(request.cookie, error as u32);
        }
        // Number and an empty text.
        let reply = Reply::chunk(chunk::ERROR, request.cookie, 6);
        reply.put((error as u32).to_be_bytes()).put(0_u16.to_be_bytes())
    }

    /// The reply as it goes to the wire. The data of a read follow it.
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        &self.bytes[..self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn export(is_read_only: bool) -> Export {
        let name = String::new();
        Export { description: name.clone(), name, size_bytes: 8192, is_read_only }
    }

    fn request(command: u16, flags: u16, offset: u64, length: u32) -> Request {
        Request { flags, command, cookie: 7, offset, length }
    }

    #[test]
    fn ranges_and_flags_are_checked_as_the_protocol_says() {
        let both = Agreed { structured: true, base_allocation: true };
        let neither = Agreed::default();
        let check = |command, flags, offset, length, agreed| {
            request(command, flags, offset, length).check(&export(false), agreed)
        };
        assert_eq!(check(command::READ, 0, 0, 8192, neither), Ok(Operation::Read));
        assert_eq!(check(command::READ, 0, 1, 8192, neither), Err(Errno::Invalid));
        assert_eq!(check(command::READ, 0, u64::MAX, 2, neither), Err(Errno::Invalid));
        assert_eq!(check(command::READ, 0, 0, 0, neither), Err(Errno::Invalid));
        assert_eq!(check(command::READ, flag::DF, 0, 1, neither), Err(Errno::Invalid));
        assert_eq!(check(command::READ, flag::DF, 0, 1, both), Ok(Operation::Read));
        assert_eq!(check(command::WRITE, flag::FUA, 8191, 1, neither), Ok(Operation::Write));
        assert_eq!(check(command::WRITE, 0, 8191, 2, neither), Err(Errno::NoSpace));
        assert_eq!(check(command::WRITE_ZEROES, 0, 8191, 2, neither), Err(Errno::NoSpace));
        assert_eq!(check(command::TRIM, 0, 8191, 2, neither), Err(Errno::Invalid));
        for (flags, keep) in [(flag::FAST_ZERO, false), (flag::FAST_ZERO | flag::NO_HOLE, true)] {
            let zeroed = check(command::WRITE_ZEROES, flags, 0, 8192, neither);
            assert_eq!(zeroed, Ok(Operation::WriteZeroes { keep }));
        }
        assert_eq!(check(command::TRIM, flag::FAST_ZERO, 0, 1, neither), Err(Errno::Invalid));
        assert_eq!(check(command::FLUSH, 0, 0, 0, neither), Ok(Operation::Flush));
        assert_eq!(check(command::BLOCK_STATUS, 0, 0, 1, neither), Err(Errno::Invalid));
        assert_eq!(check(command::BLOCK_STATUS, 8, 0, 1, both), Ok(Operation::BlockStatus));
        assert_eq!(check(77, 0, 0, 1, both), Err(Errno::Invalid));
        for command in [command::WRITE, command::TRIM, command::WRITE_ZEROES] {
            let refused = request(command, 0, 0, 1).check(&export(true), both);
            assert_eq!(refused, Err(Errno::NotPermitted));
        }
    }

    #[test]
    fn replies_have_the_lengths_of_the_protocol() {
        let structured = Agreed { structured: true, base_allocation: true };
        let request = request(command::READ, 0, 4096, 512);
        assert_eq!(Reply::done(&request).bytes().len(), 16);
        assert_eq!(Reply::data(&request, Agreed::default()).bytes().len(), 16);
        assert_eq!(Reply::data(&request, structured).bytes().len(), 28);
        assert_eq!(Reply::allocated(&request).bytes().len(), 32);
        assert_eq!(Reply::error(&request, structured, Errno::Io).bytes().len(), 26);
    }
}
