//! One end of a connection, by which its queues see the other end over either carrier.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use rackmem_rmc::two_sided::{Arrival, Descriptor, Shared};

use super::board::{Board, Head, INLINE_BYTES};
use super::carrier::Carrier;
use super::core::Core;
use super::link::Link;
use super::wire::frame::{Frame, Kind, PART_BYTES};

/// One end of a connection, as far as the other one is concerned. Dropping it closes the connection.
#[derive(Debug)]
pub(super) struct Ends {
    /// Lives as long as this end does.
    _link: Arc<Link>,
    core: Arc<Core>,
    number: u32,
    life: u32,
    /// Registered memory, here and at the peer, of as many bytes; over a network there is none at the peer.
    own: *mut u8,
    peer: *mut u8,
    registered_bytes: u64,
    peer_is_hostile: bool,
    /// Number, plus one, of the receive that the peer knows this end to wait for; 0: none.
    wanted: u64,
    /// Bytes of the present message that were sent.
    parted: u64,
}

// SAFETY: the addresses are those of mappings that live as long as the link, and all threads have them.
unsafe impl Send for Ends {}

impl Ends {
    pub(super) fn new(link: Arc<Link>, number: u32, life: u32) -> Ends {
        let core = link.core().clone();
        let [own, peer] = [core.own(), core.peer()].map(|window| window.registered(number));
        let registered_bytes = core.terms().registered_bytes as u64;
        core.own().head(number).want_receive(false);
        Ends {
            _link: link,
            core,
            number,
            life,
            own,
            peer,
            registered_bytes,
            peer_is_hostile: false,
            wanted: 0,
            parted: 0,
        }
    }

    pub(super) fn core(&self) -> &Arc<Core> {
        &self.core
    }

    pub(super) fn number(&self) -> u32 {
        self.number
    }

    pub(super) fn registered_bytes(&self) -> u64 {
        self.registered_bytes
    }

    /// First byte of the registered memory here.
    pub(super) fn memory(&self) -> *mut u8 {
        self.own
    }

    fn board(&self) -> &Board {
        self.core.own().board(self.number)
    }

    fn peer_board(&self) -> &Board {
        self.core.peer().board(self.number)
    }

    fn head(&self) -> &Head {
        self.core.own().head(self.number)
    }

    fn peer_head(&self) -> &Head {
        self.core.peer().head(self.number)
    }

    pub(super) fn is_closed_by_peer(&self) -> bool {
        self.peer_head().closed_life.load(Ordering::Acquire) == self.life
    }

    pub(super) fn is_lost(&self) -> bool {
        self.core.is_lost() || self.peer_is_hostile
    }

    /// Notifies the peer of messages that were sent.
    #[inline]
    pub(super) fn tell(&self) {
        match self.core.carrier() {
            Carrier::Memory(_) => self.peer_head().bed.wake(),
            Carrier::Network(wire) => wire.flush(),
        }
    }

    /// Sends the n-th message from any memory, as much of it as the buffer takes and leaves at once; returns the number
    /// of bytes. Nobody waits for its confirmation.
    #[inline]
    pub(super) fn send(&mut self, number: u64, message: &[u8], buffer: Descriptor) -> usize {
        self.stop_wanting();
        let length = message.len().min(buffer.size_bytes as usize);
        match self.core.carrier() {
            Carrier::Memory(_) => {
                // SAFETY: the message is the caller's slice, and as much of it is stored as the buffer takes.
                unsafe { self.store(number, message.as_ptr(), length, buffer) };
                length
            }
            Carrier::Network(wire) => {
                let part = &message[..length.min(PART_BYTES)];
                wire.send(self.frame(Kind::Message, number, 0, part.len()), part);
                part.len()
            }
        }
    }

    /// Receives messages that have come, if they do not come by themselves; returns whether there were any.
    #[inline]
    pub(super) fn look(&self) -> bool {
        match self.core.carrier() {
            Carrier::Memory(_) => false,
            Carrier::Network(wire) => !self.core.is_lost() && wire.look(&self.core),
        }
    }

    /// A frame about a message or receive.
    fn frame(&self, kind: Kind, number: u64, value: u64, length: usize) -> Frame {
        let length = length as u32;
        Frame { number, value, length, ..Frame::new(kind, self.number, self.life) }
    }

    /// Stores the n-th message into the peer's window, wherever it lies here.
    ///
    /// # Safety
    /// `message` begins `length` bytes that may be read; the buffer was checked, and they fit into it.
    #[inline]
    unsafe fn store(&self, number: u64, message: *const u8, length: usize, buffer: Descriptor) {
        let arrival = Arrival { length_bytes: length as u64, is_too_long: false };
        if length <= INLINE_BYTES {
            let mut inline = [0; INLINE_BYTES];
            // SAFETY: as the caller promises.
            unsafe { std::ptr::copy_nonoverlapping(message, inline.as_mut_ptr(), length) };
            return self.peer_board().arrive(self.life, number, arrival, &inline[..length]);
        }
        // SAFETY: the buffer lies in the peer's registered memory, and the message fits into it.
        unsafe {
            let to = self.peer.add(buffer.offset as usize);
            std::ptr::copy_nonoverlapping(message, to, length);
        }
        self.peer_board().arrive(self.life, number, arrival, &[]);
    }

    /// Sends the rest of the n-th message, part by part; returns whether all of it has left.
    ///
    /// # Safety
    /// `message` begins `length` bytes that may be read.
    unsafe fn send_parts(&mut self, number: u64, message: *const u8, length: usize) -> bool {
        let core = self.core.clone();
        let Carrier::Network(wire) = core.carrier() else { unreachable!("the peer is far") };
        loop {
            // SAFETY: as the caller promises. What lies there is the program's to keep still, or it sends what it
            // did not mean; no other process has this memory.
            let rest = unsafe {
                let from = message.add(self.parted as usize);
                std::slice::from_raw_parts(from, length - self.parted as usize)
            };
            let part = &rest[..rest.len().min(PART_BYTES)];
            let is_last = part.len() == rest.len();
            let kind = if is_last { Kind::Message } else { Kind::Part };
            let frame = self.frame(kind, number, self.parted, part.len());
            wire.send(Frame { confirm: is_last, ..frame }, part);
            if is_last {
                self.parted = 0;
                return true;
            }
            self.parted += part.len() as u64;
            if !wire.has_room(self.number, self.head()) {
                return false;
            }
        }
    }

    /// This end waits for a receive: the peer is to notify it when it posts one.
    #[cold]
    fn want(&mut self, number: u64) {
        self.wanted = number + 1;
        self.head().want_receive(true);
        if let Carrier::Network(wire) = self.core.carrier() {
            wire.say(self.frame(Kind::Want, number, 0, 0));
        }
    }

    #[inline]
    fn stop_wanting(&mut self) {
        if self.wanted != 0 {
            self.wanted = 0;
            self.head().want_receive(false);
        }
    }
}

impl Shared for Ends {
    fn publish(&mut self, number: u64, buffer: Descriptor) {
        self.board().publish(self.life, number, buffer.offset, buffer.size_bytes);
        match self.core.carrier() {
            Carrier::Memory(_) => self.peer_head().wake_for_receive(),
            Carrier::Network(wire) => {
                // Whether the peer has used up all others.
                let is_last = number.checked_sub(1).is_none_or(|last| self.arrived_before(last));
                let frame = self.frame(Kind::Receive, number, buffer.size_bytes, 0);
                wire.post(frame, self.peer_head(), is_last);
            }
        }
    }

    #[inline]
    fn posted(&mut self, number: u64) -> Option<Descriptor> {
        let Some((offset, size_bytes)) = self.peer_board().posted(self.life, number) else {
            if self.wanted != number + 1 {
                self.want(number);
            }
            return None;
        };
        let buffer = Descriptor { offset, size_bytes, id: 0 };
        if !buffer.is_inside(0, self.registered_bytes) {
            self.peer_is_hostile = true;
            return None;
        }
        if let Carrier::Network(wire) = self.core.carrier()
            && !wire.has_room(self.number, self.head())
        {
            return None;
        }
        Some(buffer)
    }

    fn deliver(&mut self, number: u64, message: Descriptor, buffer: Descriptor) -> bool {
        self.stop_wanting();
        let length = message.size_bytes as usize;
        // SAFETY: sends are checked when they are posted, the buffer by `posted`, and the queues say that it fits.
        unsafe {
            let from = self.own.add(message.offset as usize);
            match self.core.carrier() {
                Carrier::Memory(_) => {
                    self.store(number, from, length, buffer);
                    true
                }
                Carrier::Network(_) => self.send_parts(number, from, length),
            }
        }
    }

    fn delivered(&mut self) -> u64 {
        match self.core.carrier() {
            // A message that was stored has arrived.
            Carrier::Memory(_) => u64::MAX,
            Carrier::Network(_) => self.peer_head().delivered(self.life),
        }
    }

    fn refuse(&mut self, number: u64, length_bytes: u64) {
        self.stop_wanting();
        match self.core.carrier() {
            Carrier::Memory(_) => {
                let arrival = Arrival { length_bytes, is_too_long: true };
                self.peer_board().arrive(self.life, number, arrival, &[]);
            }
            Carrier::Network(wire) => {
                let frame = self.frame(Kind::TooLong, number, length_bytes, 0);
                wire.send(Frame { confirm: true, ..frame }, &[]);
            }
        }
    }

    #[inline]
    fn arrived(&mut self, number: u64) -> Option<Arrival> {
        self.board().arrived(self.life, number)
    }

    fn collect(&mut self, number: u64, arrival: Arrival, buffer: Descriptor) {
        let length = arrival.length_bytes as usize;
        if length <= INLINE_BYTES {
            let bytes = self.board().inline(number, length);
            // SAFETY: the buffer was checked when it was posted, and the length against it.
            unsafe {
                let to = self.own.add(buffer.offset as usize);
                std::ptr::copy_nonoverlapping(bytes.as_ptr(), to, length);
            }
        }
    }
}

impl Ends {
    fn arrived_before(&self, number: u64) -> bool {
        self.board().arrived(self.life, number).is_some()
    }
}

impl Drop for Ends {
    fn drop(&mut self) {
        self.core.close(self.number, self.life);
    }
}
