//! Requests on memory that is mapped here: replies are sent straight from the mapping, and the bytes of writes are
//! received straight into it.
//!
//! As many requests as have arrived are done before anything is sent; then one system call sends all replies.
//! Nothing is allocated on the way.

use super::connection::{End, Session};
use super::region::Input;
use super::request::{MAX_REPLY_BYTES, Operation, Reply, Request};
use super::socket::{Piece, Stream, piece};
use super::wire::{Errno, REQUEST_BYTES};
use rackmem_lease::error::Result;
use rackmem_lease::store::Lane;

/// Bytes that are received at once.
const INPUT_BYTES: usize = 256 * 1024;

/// Writes from this size on are received without the requests that follow, so that nothing is copied twice.
const BULK_BYTES: u32 = 32 * 1024;

/// Longest range of zeros that is written here and not asked of the lender.
const ZEROS_BYTES: u32 = 256 * 1024;

/// Replies that are sent at once.
const BATCH: usize = 256;

/// Replies that wait to be sent.
struct Batch {
    replies: Box<[[u8; MAX_REPLY_BYTES]; BATCH]>,
    pieces: Box<[Piece; 2 * BATCH]>,
    replies_len: usize,
    pieces_len: usize,
}

// SAFETY: the pieces are addresses in a mapping that all threads have.
unsafe impl Send for Batch {}

impl Batch {
    fn new() -> Batch {
        let nothing = piece(std::ptr::null(), 0);
        Batch {
            replies: Box::new([[0; MAX_REPLY_BYTES]; BATCH]),
            pieces: Box::new([nothing; 2 * BATCH]),
            replies_len: 0,
            pieces_len: 0,
        }
    }

    #[inline]
    fn push(&mut self, reply: &Reply) {
        let bytes = reply.bytes();
        let slot = &mut self.replies[self.replies_len];
        slot[..bytes.len()].copy_from_slice(bytes);
        self.pieces[self.pieces_len] = piece(slot.as_ptr(), bytes.len());
        self.replies_len += 1;
        self.pieces_len += 1;
    }

    #[inline]
    fn push_data(&mut self, base: *const u8, len: usize) {
        self.pieces[self.pieces_len] = piece(base, len);
        self.pieces_len += 1;
    }
}

/// A connection's requests on a mapped store.
pub(super) struct Mapped<'a, S> {
    session: Session<'a>,
    stream: S,
    base: *mut u8,
    input: Input,
    batch: Batch,
    /// Whether the last request was a large write.
    is_bulk: bool,
    /// Lane for requests that the lender must carry out; opened when it is first needed.
    lane: Option<Box<dyn Lane>>,
}

impl<'a, S: Stream> Mapped<'a, S> {
    /// `base` is the address of the session's store; `early` are the bytes that have arrived already.
    pub(super) fn new(
        session: Session<'a>,
        stream: S,
        base: *mut u8,
        early: &[u8],
    ) -> std::io::Result<Mapped<'a, S>> {
        let mut input = Input::new(INPUT_BYTES)?;
        input.room(early.len())[..early.len()].copy_from_slice(early);
        input.arrived(early.len());
        let batch = Batch::new();
        Ok(Mapped { session, stream, base, input, batch, is_bulk: false, lane: None })
    }

    /// Serves until the connection ends.
    pub(super) fn serve(mut self) -> (End, Session<'a>) {
        let end = self.run().unwrap_err();
        (end, self.session)
    }

    fn run(&mut self) -> std::result::Result<std::convert::Infallible, End> {
        loop {
            while let Some(header) = self.input.bytes().first_chunk::<REQUEST_BYTES>() {
                let request = self.session.parse(header)?;
                self.input.consume(REQUEST_BYTES);
                if request.is_disconnect() {
                    self.flush()?;
                    return Err(End::Goodbye);
                }
                self.handle(&request)?;
                if self.batch.replies_len == BATCH {
                    self.flush()?;
                }
            }
            self.flush()?;
            let got = self.receive(piece(std::ptr::null(), 0), false)?;
            self.input.arrived(got);
        }
    }

    /// Receives into `first`, and bytes behind that into the input. `owes` says whether bytes of a request are missing.
    #[inline]
    fn receive(&mut self, first: Piece, owes: bool) -> std::result::Result<usize, End> {
        let wants =
            if self.is_bulk { REQUEST_BYTES - self.input.bytes().len() } else { usize::MAX };
        let room = self.input.room(INPUT_BYTES / 2);
        let mut into = [first, piece(room.as_mut_ptr(), room.len().min(wants))];
        let into = if first.iov_len == 0 { &mut into[1..] } else { &mut into[..] };
        // SAFETY: the first piece is a part of the mapping, the second one of the input; both are this
        // connection's to write.
        match unsafe { self.stream.receive(into) }? {
            0 => Err(End::hung_up(self.input.bytes().is_empty() && !owes)),
            bytes => Ok(bytes),
        }
    }

    #[inline]
    fn flush(&mut self) -> std::result::Result<(), End> {
        if self.batch.pieces_len > 0 {
            let pieces = &mut self.batch.pieces[..self.batch.pieces_len];
            // SAFETY: the pieces are replies of the batch and checked ranges of the mapping.
            unsafe { self.stream.send(pieces)? };
            (self.batch.replies_len, self.batch.pieces_len) = (0, 0);
        }
        Ok(())
    }

    #[inline]
    fn handle(&mut self, request: &Request) -> std::result::Result<(), End> {
        self.is_bulk = false;
        let agreed = self.session.agreed;
        match self.session.admit(request) {
            Ok(Operation::Read) => {
                self.batch.push(&Reply::data(request, agreed));
                self.batch.push_data(self.at(request), request.length as usize);
            }
            Ok(Operation::Write) => {
                self.session.store.begin_write();
                let written = self.write(request);
                self.session.store.end_write(request.offset, request.length.into());
                written?;
                self.batch.push(&Reply::done(request));
            }
            Ok(Operation::Flush | Operation::Cache) => self.batch.push(&Reply::done(request)),
            Ok(Operation::BlockStatus) => self.batch.push(&Reply::allocated(request)),
            Ok(Operation::WriteZeroes { keep }) if keep || request.length <= ZEROS_BYTES => {
                self.session.store.begin_write();
                // SAFETY: a checked range; a lease has one user, who answers for what his connections do
                // to the same bytes at the same time.
                unsafe { self.at(request).write_bytes(0, request.length as usize) };
                self.session.store.end_write(request.offset, request.length.into());
                self.batch.push(&Reply::done(request));
            }
            Ok(Operation::Trim | Operation::WriteZeroes { .. }) => {
                self.flush()?;
                let reply = match self.discard(request) {
                    Ok(()) => Reply::done(request),
                    Err(error) => {
                        self.session.note(&error);
                        Reply::error(request, agreed, Errno::Io)
                    }
                };
                self.batch.push(&reply);
            }
            Err(error) => {
                self.skip(request.payload_bytes())?;
                self.batch.push(&Reply::error(request, agreed, error));
            }
        }
        Ok(())
    }

    /// Address of the range of a checked request.
    #[inline]
    fn at(&self, request: &Request) -> *mut u8 {
        // SAFETY: the range lies inside of the export, which is as large as the mapping.
        unsafe { self.base.add(request.offset as usize) }
    }

    /// Puts the payload into the mapping. Bytes that have not arrived are received right there.
    fn write(&mut self, request: &Request) -> std::result::Result<(), End> {
        self.is_bulk = request.length >= BULK_BYTES;
        let (mut to, mut rest) = (self.at(request), request.length as usize);
        let here = self.input.bytes().len().min(rest);
        // SAFETY: `to` begins a checked range of `rest` bytes; the input is no part of the mapping.
        unsafe { std::ptr::copy_nonoverlapping(self.input.bytes().as_ptr(), to, here) };
        self.input.consume(here);
        (to, rest) = (to.wrapping_add(here), rest - here);
        if rest > 0 {
            // Others' replies must not wait for this client's bytes.
            self.flush()?;
        }
        while rest > 0 {
            let got = self.receive(piece(to, rest), true)?;
            let here = got.min(rest);
            (to, rest) = (to.wrapping_add(here), rest - here);
            self.input.arrived(got - here);
        }
        Ok(())
    }

    /// Reads over the payload of a request that was refused.
    fn skip(&mut self, mut bytes: usize) -> std::result::Result<(), End> {
        loop {
            let here = self.input.bytes().len().min(bytes);
            self.input.consume(here);
            bytes -= here;
            if bytes == 0 {
                return Ok(());
            }
            self.flush()?;
            let got = self.receive(piece(std::ptr::null(), 0), true)?;
            self.input.arrived(got);
        }
    }

    fn discard(&mut self, request: &Request) -> Result<()> {
        let mut lane = match self.lane.take() {
            Some(lane) => lane,
            None => self.session.store.lane()?,
        };
        lane.discard(request.offset, u64::from(request.length))?;
        self.lane = Some(lane);
        Ok(())
    }
}

// SAFETY: the base is an address in a mapping that all threads have.
unsafe impl<S: Send> Send for Mapped<'_, S> {}
