//! One end of a connection.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rackmem_rmc::two_sided::{Completion, Descriptor, Kind, Queues, Shared, Status};

use super::board::DEPTH;
use super::core::Core;
use super::ends::Ends;
use super::link::Link;
use rackmem_fabric::error::{Error, Result};

/// Time that a wait polls before it sleeps.
pub const SPIN: Duration = Duration::from_micros(30);

/// Longest sleep between two looks.
const NAP: Duration = Duration::from_millis(100);

/// One end of a connection: SQ, RQ, CQ and registered memory. Dropping it closes the connection.
#[derive(Debug)]
pub struct QPair {
    queues: Queues,
    ends: Ends,
}

/// Wakes threads that wait for the peer's next action on a connection, without having its end in hand.
#[derive(Debug)]
pub(super) struct Doorbell {
    core: Arc<Core>,
    number: u32,
}

impl Doorbell {
    /// Sleeps once, unless `ready()`; at most for `timeout`. Spurious returns happen.
    pub(super) fn sleep_unless(&self, ready: &mut dyn FnMut() -> bool, timeout: Duration) {
        let carrier = self.core.carrier();
        carrier.begin_sleep();
        self.core.own().head(self.number).bed.sleep_unless(ready, timeout);
        carrier.end_sleep();
    }

    /// Wakes all threads that sleep there.
    pub(super) fn ring(&self) {
        self.core.own().head(self.number).bed.shake();
    }
}

impl QPair {
    pub(super) fn new(link: Arc<Link>, number: u32, life: u32) -> QPair {
        QPair { queues: Queues::new(DEPTH), ends: Ends::new(link, number, life) }
    }

    /// The connection's number.
    pub fn number(&self) -> u32 {
        self.ends.number()
    }

    /// Bytes of registered memory.
    pub fn registered_bytes(&self) -> u64 {
        self.ends.registered_bytes()
    }

    pub(super) fn doorbell(&self) -> Doorbell {
        Doorbell { core: self.ends.core().clone(), number: self.ends.number() }
    }

    fn check(&self, offset: u64, length: u64) -> Result<()> {
        let size_bytes = self.ends.registered_bytes();
        if (Descriptor { offset, size_bytes: length, id: 0 }).is_inside(0, size_bytes) {
            return Ok(());
        }
        let what = format!(
            "{length} bytes at {offset} are outside of the {size_bytes} that were registered"
        );
        Err(Error::io(what, io::Error::from_raw_os_error(libc::ERANGE)))
    }

    /// Copies into registered memory.
    ///
    /// # Errors
    /// [`Error::Io`]: it is not inside of registered memory.
    pub fn store(&mut self, offset: u64, from: &[u8]) -> Result<()> {
        self.check(offset, from.len() as u64)?;
        // SAFETY: the range was checked. The peer may store there at the same time: then it garbles what
        // it gets.
        unsafe {
            let to = self.ends.memory().add(offset as usize);
            std::ptr::copy_nonoverlapping(from.as_ptr(), to, from.len());
        }
        Ok(())
    }

    /// Copies from registered memory.
    ///
    /// # Errors
    /// [`Error::Io`]: it is not inside of registered memory.
    pub fn load(&self, offset: u64, into: &mut [u8]) -> Result<()> {
        self.check(offset, into.len() as u64)?;
        // SAFETY: as in `store`.
        unsafe {
            let from = self.ends.memory().add(offset as usize);
            std::ptr::copy_nonoverlapping(from, into.as_mut_ptr(), into.len());
        }
        Ok(())
    }

    /// Posts a message; `false` if the SQ is full. Its memory stays as it is until the completion. One that has to
    /// wait for a buffer leaves when its sender next looks: [`QPair::poll`], [`QPair::wait`].
    ///
    /// # Errors
    /// [`Error::Io`]: it is not inside of registered memory.
    pub fn post_send(&mut self, message: Descriptor) -> Result<bool> {
        self.check(message.offset, message.size_bytes)?;
        let is_posted = self.queues.post_send(message);
        self.progress();
        Ok(is_posted)
    }

    /// Posts a buffer for the next message; `false` if the RQ is full.
    ///
    /// # Errors
    /// [`Error::Io`]: it is not inside of registered memory.
    pub fn post_receive(&mut self, buffer: Descriptor) -> Result<bool> {
        self.check(buffer.offset, buffer.size_bytes)?;
        Ok(self.queues.post_receive(buffer, |number, buffer| self.ends.publish(number, buffer)))
    }

    /// Sends a message from any memory, without a completion, if the peer has a buffer for it now. Returns the number
    /// of bytes that it took, of a longer message the first ones; `None` if it has to wait.
    pub fn try_send(&mut self, message: &[u8]) -> Option<usize> {
        self.advance();
        let number = self.queues.next_send()?;
        let buffer = match self.ends.posted(number) {
            None if self.ends.look() => {
                self.advance();
                self.ends.posted(self.queues.next_send()?)
            }
            posted => posted,
        }?;
        let length = self.ends.send(number, message, buffer);
        self.queues.count_send();
        self.ends.tell();
        Some(length)
    }

    /// Writes a receive descriptor where the peer looks for the n-th one, unchecked, as a hostile process can; for
    /// tests.
    #[doc(hidden)]
    pub fn forge_receive(&mut self, number: u64, offset: u64, size_bytes: u64) {
        self.ends.publish(number, Descriptor { offset, size_bytes, id: 0 });
    }

    /// Sends, receives and completes messages as far as possible, and notices whether the peer is gone.
    pub fn progress(&mut self) {
        self.advance();
        if self.queues.completed() == 0 && self.ends.look() {
            self.advance();
        }
    }

    /// The same with messages that have come already.
    fn advance(&mut self) {
        if self.queues.progress(&mut self.ends) {
            self.ends.tell();
        }
        if self.queues.end().is_some() {
            return;
        }
        // In this order: a peer that has closed or died sends nothing after that, so all that it sent is seen. A
        // peer that first closed and then ended counts as closed: it had closed when it is found to be lost.
        let is_lost = self.ends.is_lost();
        let status = match (self.ends.is_closed_by_peer(), is_lost) {
            (true, _) => Status::Closed,
            (false, true) => Status::Lost,
            (false, false) => return,
        };
        self.queues.finish(status, &mut self.ends);
    }

    /// The status that ended the connection, if it has ended.
    pub fn end(&self) -> Option<Status> {
        self.queues.end()
    }

    /// Takes the next completion, if there is one.
    #[inline]
    pub fn poll(&mut self) -> Option<Completion> {
        if self.queues.completed() == 0 {
            self.progress();
        }
        self.queues.poll()
    }

    /// Waits for the next completion; `None` after the timeout.
    pub fn wait(&mut self, timeout: Duration) -> Option<Completion> {
        if self.wait_until(timeout, |pair| pair.queues.completed() > 0) {
            self.queues.poll()
        } else {
            None
        }
    }

    /// Waits until the peer has a buffer for the next message, or is gone, or a completion is there.
    pub(super) fn wait_to_send(&mut self, timeout: Duration) -> bool {
        self.wait_until(timeout, |pair| {
            let next = pair.queues.next_send();
            pair.queues.completed() > 0
                || next.is_none_or(|number| pair.ends.posted(number).is_some())
        })
    }

    fn wait_until(&mut self, timeout: Duration, is_there: impl Fn(&mut QPair) -> bool) -> bool {
        let begin = Instant::now();
        let ready = |pair: &mut QPair| {
            pair.progress();
            is_there(pair)
        };
        loop {
            for _ in 0..64 {
                if ready(self) {
                    return true;
                }
                std::hint::spin_loop();
            }
            let waited = begin.elapsed();
            if waited >= timeout {
                return false;
            }
            if waited < SPIN {
                // The peer may be waiting for this very core.
                std::thread::yield_now();
                continue;
            }
            self.doorbell().sleep_unless(&mut || ready(self), NAP.min(timeout - waited));
        }
    }

    /// The bytes of the message that a completed receive put into its buffer.
    ///
    /// # Errors
    /// [`Error::Io`]: it is not inside of registered memory.
    pub fn received(&self, buffer: Descriptor, completion: &Completion) -> Result<Vec<u8>> {
        debug_assert_eq!(completion.kind, Kind::Receive);
        let mut bytes = vec![0; completion.length_bytes as usize];
        self.load(buffer.offset, &mut bytes)?;
        Ok(bytes)
    }
}
