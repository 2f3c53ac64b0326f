//! One end of a connection, by which its queues see the other one.

use std::ffi::c_int;
use std::ptr::NonNull;
use std::time::Instant;

use rackmem_rmc::two_sided::{Arrival, Descriptor, Shared};
use rustix::rand::{GetRandomFlags, getrandom};

use super::area::{AREA_BYTES, Area, INLINE_BYTES, Life};
use super::{Address, Context, ffi};
use crate::error::{Error, Result};
use crate::shm::mapping::Access;

unsafe extern "C" {
    fn rackmem_inline_write(
        qp: *mut ffi::Qp,
        nid: c_int,
        offset: u64,
        buffer: *const u8,
        length: usize,
    ) -> c_int;
    fn rackmem_inline_compare_swap(
        qp: *mut ffi::Qp,
        nid: c_int,
        offset: u64,
        expected: u64,
        desired: u64,
    ) -> c_int;
}

/// One end of a connection, as far as the other one is concerned. Dropping it closes the connection.
pub(super) struct Ends {
    context: Context,
    /// The queue pair whose remote writes carry everything.
    qp: *mut ffi::Qp,
    /// The area in the own segment, which stays mapped while the context is open.
    own: NonNull<Area>,
    /// Its place in the peer's segment.
    peer: Address,
    life: Life,
    /// The words with which the peer and this end have begun the connection.
    hellos: Hellos,
    /// An operation on the peer has failed, or it does not keep to the protocol.
    has_failed: bool,
}

// SAFETY: the pointers lead to the queue pair that owns this end and to memory that the context keeps mapped.
unsafe impl Send for Ends {}

/// The word of each end in the other one's area: its own random number, and the number that it has seen there. The
/// numbers are new with each connection, so that what a former one left is not taken for an answer.
#[derive(Clone, Copy, Default)]
struct Hellos {
    peer: u64,
    own: u64,
}

fn hello(number: u32, seen: u32) -> u64 {
    u64::from(number) << 32 | u64::from(seen)
}

fn number_of(hello: u64) -> u32 {
    (hello >> 32) as u32
}

fn new_number() -> Result<u32> {
    let mut bytes = [0; 4];
    getrandom(&mut bytes, GetRandomFlags::empty())
        .map_err(|e| Error::io("no random number", e.into()))?;
    Ok(u32::from_ne_bytes(bytes) | 1)
}

/// The peer's area may lie where it says. How large its segment is shows with the first write.
fn check_place(peer: Address) -> Result<()> {
    if peer.offset() % align_of::<Area>() as u64 != 0 {
        return Err(Error::invalid("the peer's area begins at a multiple of 64, too"));
    }
    if peer.offset() > rackmem_abi::MAX_OFFSET - AREA_BYTES {
        let message = format!("no segment has bytes at offset {}", peer.offset());
        return Err(Error::new(libc::ERANGE, message));
    }
    Ok(())
}

/// The area at `offset` of the own segment.
fn area(context: &Context, offset: u64) -> Result<NonNull<Area>> {
    if offset % align_of::<Area>() as u64 != 0 {
        return Err(Error::invalid("the area of a connection begins at a multiple of 64"));
    }
    if context.membership().segment.access() == Access::Read {
        return Err(rackmem_abi::Status::NoPermission.into());
    }
    let is_inside =
        offset.checked_add(AREA_BYTES).is_some_and(|end| end <= context.segment_bytes());
    if !is_inside {
        let message = format!(
            "the {AREA_BYTES} bytes of a connection at offset {offset} leave the segment of {} bytes",
            context.segment_bytes()
        );
        return Err(Error::new(libc::ERANGE, message));
    }
    // SAFETY: the offset lies in the segment.
    let first = unsafe { context.segment_data().add(offset as usize) };
    NonNull::new(first.cast()).ok_or_else(|| Error::invalid("there is no segment"))
}

impl Ends {
    /// Meets the end whose area is at `peer`, which connects to `offset` of this node at the same time.
    pub(super) fn connect(
        qp: *mut ffi::Qp,
        context: &Context,
        offset: u64,
        peer: Address,
        deadline: Option<Instant>,
    ) -> Result<Ends> {
        let own = area(context, offset)?;
        if peer.nid() == c_int::from(context.nid()) && peer.offset().abs_diff(offset) < AREA_BYTES {
            return Err(Error::invalid("a queue pair cannot be connected to its own area"));
        }
        check_place(peer)?;
        let nid = u16::try_from(peer.nid()).unwrap_or(u16::MAX);
        context.wait_joined(nid, deadline)?;
        let number = new_number()?;
        let mut this = Ends {
            context: context.clone(),
            qp,
            own,
            peer,
            life: Life::of(number, number),
            hellos: Hellos::default(),
            has_failed: false,
        };
        this.area().clear();
        this.meet(number, nid, deadline)?;
        Ok(this)
    }

    /// Says hello until the peer has answered, and has got an answer.
    fn meet(&mut self, number: u32, nid: u16, deadline: Option<Instant>) -> Result<()> {
        loop {
            let theirs = self.area().hello();
            let answer = hello(number, number_of(theirs));
            if self.hellos.own != answer {
                self.hellos.own = answer;
                let word = answer;
                self.try_write(Area::HELLO_AT, (&raw const word).cast(), 8)?;
            }
            if number_of(theirs) != 0 && theirs as u32 == number {
                self.hellos.peer = theirs;
                self.life = Life::of(number, number_of(theirs));
                return Ok(());
            }
            let own = self.own;
            // SAFETY: as in `area`.
            let mut has_changed = || unsafe { own.as_ref() }.hello() != theirs;
            self.context.clone().sleep_until(&mut has_changed, Some(nid), deadline).map_err(
                |e| {
                    let message =
                        format!("node {nid} has not connected a queue pair to this one: {e}");
                    Error::new(e.errno(), message)
                },
            )?;
        }
    }

    fn area(&self) -> &Area {
        // SAFETY: it lies in the own segment, which is mapped as long as `self`. All of it is atomic words.
        unsafe { self.own.as_ref() }
    }

    pub(super) fn context(&self) -> &Context {
        &self.context
    }

    pub(super) fn qp(&self) -> *mut ffi::Qp {
        self.qp
    }

    pub(super) fn peer_nid(&self) -> u16 {
        self.peer.nid() as u16
    }

    pub(super) fn is_closed_by_peer(&self) -> bool {
        number_of(self.area().hello()) != number_of(self.hellos.peer)
    }

    pub(super) fn has_failed(&self) -> bool {
        self.has_failed
    }

    /// Writes into the peer's area.
    fn try_write(&mut self, at: u64, from: *const u8, length: usize) -> Result<()> {
        let (nid, offset) = (self.peer.nid(), self.peer.offset() + at);
        // SAFETY: the queue pair owns this end, and callers pass memory of this length.
        match unsafe { rackmem_inline_write(self.qp, nid, offset, from, length) } {
            0 => Ok(()),
            code => {
                let what = crate::capi::explain(code);
                let message = format!("cannot reach the connection's area at node {nid}: {what}");
                Err(Error::new(-code, message))
            }
        }
    }

    #[inline]
    fn write(&mut self, offset: u64, from: *const u8, length: usize) {
        if self.has_failed {
            return;
        }
        // SAFETY: as in `try_write`.
        let code = unsafe { rackmem_inline_write(self.qp, self.peer.nid(), offset, from, length) };
        self.has_failed = code != 0;
    }

    /// Stores the n-th message into the buffer, which takes it, and reports it.
    ///
    /// # Safety
    /// `message` is valid for so many bytes of reads.
    pub(super) unsafe fn store(
        &mut self,
        number: u64,
        message: *const u8,
        length_bytes: u64,
        buffer: Descriptor,
    ) {
        if length_bytes > INLINE_BYTES as u64 {
            // The write is complete when the call returns, so the report comes after the message.
            self.write(buffer.offset, message, length_bytes as usize);
        }
        let arrival = Arrival { length_bytes, is_too_long: false };
        // SAFETY: as the caller promises.
        unsafe { self.report(number, arrival, message) };
    }

    /// # Safety
    /// As [`Area::draft`].
    unsafe fn report(&mut self, number: u64, arrival: Arrival, message: *const u8) {
        // SAFETY: as the caller promises.
        let (lines, bytes) = unsafe { self.area().draft(self.life, number, arrival, message) };
        self.write(self.peer.offset() + Area::arrival_at(number), lines, bytes);
    }

    /// The byte at an offset of the own segment that was checked.
    fn memory(&self, offset: u64) -> *mut u8 {
        // SAFETY: descriptors are checked against the segment when they are posted.
        unsafe { self.context.segment_data().add(offset as usize) }
    }
}

impl Shared for Ends {
    fn publish(&mut self, number: u64, buffer: Descriptor) {
        let (words, bytes) = self.area().draft_receive(self.life, number, buffer);
        self.write(self.peer.offset() + Area::receive_at(number), words, bytes);
    }

    #[inline]
    fn posted(&mut self, number: u64) -> Option<Descriptor> {
        // A buffer that is not in the peer's segment makes the write fail.
        self.area().posted(self.life, number).filter(|_| !self.has_failed)
    }

    fn deliver(&mut self, number: u64, message: Descriptor, buffer: Descriptor) -> bool {
        // SAFETY: sends are checked when they are posted.
        unsafe { self.store(number, self.memory(message.offset), message.size_bytes, buffer) };
        !self.has_failed
    }

    fn delivered(&mut self) -> u64 {
        u64::MAX
    }

    fn refuse(&mut self, number: u64, length_bytes: u64) {
        let arrival = Arrival { length_bytes, is_too_long: true };
        // SAFETY: no byte of the message is drafted.
        unsafe { self.report(number, arrival, std::ptr::null()) };
    }

    #[inline]
    fn arrived(&mut self, number: u64) -> Option<Arrival> {
        self.area().arrived(self.life, number)
    }

    fn collect(&mut self, number: u64, arrival: Arrival, buffer: Descriptor) {
        if arrival.length_bytes <= INLINE_BYTES as u64 {
            let out = self.memory(buffer.offset);
            // SAFETY: buffers are checked when they are posted, and the length was checked against this one.
            unsafe { self.area().take_message(number, arrival.length_bytes as usize, out) };
        }
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        let (nid, at) = (self.peer.nid(), self.peer.offset() + Area::HELLO_AT);
        if self.hellos.own != 0 {
            // Unless this node has begun another connection there. An operation that failed may have been lost with a
            // link that is up again, so a peer that counts as gone is told, too.
            // SAFETY: the queue pair owns this end.
            unsafe { rackmem_inline_compare_swap(self.qp, nid, at, self.hellos.own, 0) };
        }
    }
}
