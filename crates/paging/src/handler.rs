//! Delivery by a thread: the kernel hands faults over, the thread answers them.
//!
//! The thread asks for all faults that are there, up to its window, and delivers pages as they come. Faults that it
//! cannot answer yet, because a page is in transit or the local cache is full, it keeps and tries again.
//! It rests, for a fork or the end, when somebody touches its doorbell: a missing page like any other.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use super::core::{Core, drop_pages};
use super::cores;
use super::options::{FOLLOW_EVERY, PAGE_BYTES, Waiting};
use super::uffd::{Fault, Message};
use super::worker::{Outcome, Worker};
use rackmem_lease::sync::wait::Event;

/// Messages that are taken from the kernel together.
const MESSAGES: usize = 32;
/// Faults that a handler keeps at most; more wait in the kernel.
const KEPT: usize = 128;
/// Longest wait of kept faults before they are tried again without a signal.
const RETRY: Duration = Duration::from_micros(500);

const GO: u32 = 0;
const REST: u32 = 1;
const STOP: u32 = 2;

/// Command to the handler threads, and the number of them that rest.
#[derive(Debug, Default)]
pub(crate) struct Command {
    word: AtomicU32,
    changed: Event,
    resting: AtomicU32,
    rested: Event,
}

impl Command {
    fn wait_until_resting(&self, is_enough: impl Fn(usize) -> bool) {
        loop {
            let ticket = self.rested.ticket();
            if is_enough(self.resting.load(Ordering::Acquire) as usize) {
                return;
            }
            self.rested.wait(ticket, None);
        }
    }

    /// Brings all `handlers` to rest, and waits until they are.
    pub(crate) fn rest(&self, core: &Core, handlers: usize, stop: bool) {
        // A handler that has not left the last rest yet would not hear a bell.
        self.wait_until_resting(|resting| resting == 0);
        drop_pages(core.doorbell.base() as usize, core.doorbell.len());
        self.word.store(if stop { STOP } else { REST }, Ordering::Release);
        for handler in 0..handlers {
            let bell = core.doorbell.base().wrapping_add(handler * PAGE_BYTES);
            // SAFETY: a page of ours; the load waits until a handler has put a page there.
            unsafe { bell.read_volatile() };
        }
        self.wait_until_resting(|resting| resting >= handlers);
    }

    /// Ends the rest.
    pub(crate) fn go(&self) {
        self.word.store(GO, Ordering::Release);
        self.changed.signal();
    }

    /// Resets the command in the child of a fork, which has no handlers yet.
    pub(crate) fn reset(&self) {
        self.word.store(GO, Ordering::Relaxed);
        self.resting.store(0, Ordering::Relaxed);
        self.changed.forget_waiters();
        self.rested.forget_waiters();
    }

    /// Rests; returns whether to go on afterwards.
    fn sleep(&self) -> bool {
        self.resting.fetch_add(1, Ordering::AcqRel);
        self.rested.signal();
        let word = loop {
            let ticket = self.changed.ticket();
            match self.word.load(Ordering::Acquire) {
                REST => self.changed.wait(ticket, None),
                word => break word,
            }
        };
        if word == GO {
            self.resting.fetch_sub(1, Ordering::AcqRel);
            self.rested.signal();
        }
        word == GO
    }
}

struct Handler {
    core: Arc<Core>,
    worker: Worker,
    command: Arc<Command>,
    /// Faults that could not be answered yet.
    kept: Vec<Fault>,
    spin: Duration,
    /// The kernel can say at once that there is no message, on a descriptor that waits.
    can_ask_now: bool,
    is_called: bool,
    until_follow: u32,
    /// Core of the faulting thread, as last seen.
    followed: Option<usize>,
}

/// Answers faults until told to stop.
pub(crate) fn run(core: Arc<Core>, worker: Worker, command: Arc<Command>) {
    let spin = match core.options.waiting {
        Waiting::Spin(time) => time,
        _ => Duration::ZERO,
    };
    let mut probe = [Message::default(); 1];
    let can_ask_now = core.uffd.set_nonblocking(false).is_ok()
        && core.uffd.read(&mut probe[..0], true).is_ok_and(|messages| messages.is_empty());
    let can_ask_now = can_ask_now || core.uffd.set_nonblocking(true).is_err();
    let mut handler = Handler {
        core,
        worker,
        command,
        kept: Vec::with_capacity(KEPT + MESSAGES),
        spin,
        can_ask_now,
        is_called: false,
        until_follow: 1,
        followed: None,
    };
    while handler.turn() {}
}

impl Handler {
    /// One round: messages, answers, kept faults. Returns whether to go on.
    fn turn(&mut self) -> bool {
        let is_busy = self.worker.outstanding() != 0 || !self.kept.is_empty();
        if self.is_called {
            if !is_busy {
                self.is_called = false;
                return self.command.sleep();
            }
        } else {
            self.take_messages(is_busy);
        }
        self.answer();
        true
    }

    /// Takes messages of the kernel and begins with each; waits for one unless there is something else to do.
    fn take_messages(&mut self, is_busy: bool) {
        let mut messages = [Message::default(); MESSAGES];
        let room = (KEPT - self.kept.len()).min(MESSAGES);
        if room == 0 || !self.worker.has_room(&self.core) {
            return;
        }
        let core = Arc::clone(&self.core);
        let taken = match is_busy {
            true => self.read(&mut messages[..room], true),
            false => self.spin_then_wait(&mut messages[..room]),
        };
        for message in &messages[..taken] {
            if let Some(fault) = message.fault() {
                self.begin(&core, fault);
            }
        }
        // A thread that was seen on another core will be met there.
        if let (0, Some(fault)) =
            (self.until_follow, messages[..taken].last().and_then(Message::fault))
        {
            self.until_follow = FOLLOW_EVERY;
            self.follow(fault.tid);
        }
    }

    fn read(&self, messages: &mut [Message], now: bool) -> usize {
        let now = now && self.can_ask_now;
        self.core.uffd.read(messages, now).map_or(0, |messages| messages.len())
    }

    fn spin_then_wait(&mut self, messages: &mut [Message]) -> usize {
        if !self.spin.is_zero() {
            let end = Instant::now() + self.spin;
            while Instant::now() < end {
                let taken = self.read(messages, true);
                if taken != 0 {
                    return taken;
                }
                std::hint::spin_loop();
            }
        }
        if !self.can_ask_now {
            let taken = self.read(messages, true);
            if taken != 0 {
                return taken;
            }
            let mut poll =
                libc::pollfd { fd: self.core.uffd.raw(), events: libc::POLLIN, revents: 0 };
            // SAFETY: one descriptor, which is open.
            unsafe { libc::poll(&mut poll, 1, -1) };
        }
        self.read(messages, false)
    }

    /// Begins with a fault, or keeps it.
    fn begin(&mut self, core: &Core, fault: Fault) {
        if core.doorbell.contains(fault.page) {
            // The kernel may report a fault twice: the handler that puts the page there is called.
            self.is_called |= loop {
                match core.uffd.zero(fault.page).map_err(|error| error.raw_os_error()) {
                    Err(Some(libc::EAGAIN)) => std::thread::yield_now(),
                    result => break result.is_ok(),
                }
            };
            return;
        }
        if fault.tid == core.evictor_tid.load(Ordering::Relaxed) {
            // The program dropped, by a call that no one told us of, a page that the evictor is looking at.
            let _ = core.uffd.zero(fault.page);
            return;
        }
        self.until_follow = self.until_follow.saturating_sub(1);
        match self.worker.fault(core, fault.page, fault.is_write) {
            Outcome::Done | Outcome::Asked => {}
            Outcome::Transit(_) | Outcome::Full => self.kept.push(fault),
            // The mapping is being removed. A thread that touches it all the same must not wait for ever.
            Outcome::NotOurs => {
                if core.uffd.zero(fault.page).is_err() {
                    core.uffd.wake(fault.page);
                }
            }
            Outcome::Lost => {
                if core.uffd.poison(fault.page).is_err() {
                    core.uffd.wake(fault.page);
                }
            }
        }
    }

    /// Delivers pages that have come, tries kept faults again, and waits if neither is possible.
    fn answer(&mut self) {
        let core = Arc::clone(&self.core);
        let mut is_moving = false;
        while self.worker.is_ready() {
            self.worker.finish(&core);
            is_moving = true;
        }
        if !self.kept.is_empty() && self.worker.has_room(&core) {
            let ticket = core.freed.ticket();
            let before = self.kept.len();
            for _ in 0..before {
                let fault = self.kept.swap_remove(0);
                self.begin(&core, fault);
            }
            is_moving |= self.kept.len() < before;
            if !is_moving && self.worker.outstanding() == 0 {
                return self.wait(&core, ticket);
            }
        }
        if !is_moving && self.worker.outstanding() != 0 {
            self.finish_one(&core);
        }
    }

    /// Waits for an answer; new faults are taken meanwhile while it spins.
    fn finish_one(&mut self, core: &Core) {
        if !self.spin.is_zero() {
            let end = Instant::now() + self.spin;
            while Instant::now() < end && !self.worker.is_ready() {
                if self.worker.has_room(core) && !self.is_called && self.kept.len() < KEPT {
                    let mut message = [Message::default(); 1];
                    if let (1, Some(fault)) = (self.read(&mut message, true), message[0].fault()) {
                        self.begin(core, fault);
                    }
                }
            }
        }
        self.worker.finish(core);
    }

    /// All that was kept waits for others: for a frame, or for the end of a transit.
    fn wait(&mut self, core: &Core, ticket: u32) {
        let fault = self.kept[0];
        match core.table.cell(fault.page).map(|cell| (cell, cell.load())) {
            Some((cell, seen)) if seen.is_in_transit() => cell.wait(seen, Some(RETRY)),
            _ => core.freed.wait(ticket, Some(RETRY)),
        }
    }

    /// Goes where a faulting thread is, if it sleeps: there the kernel switches between both without waking
    /// another core. If it spins, to any other core.
    fn follow(&mut self, tid: i32) {
        let Some(number) = cores::of(tid).filter(|number| self.followed != Some(*number)) else {
            return;
        };
        let wanted = if self.spin.is_zero() {
            cores::only(number, &self.core.allowed)
        } else {
            let mut others = self.core.allowed;
            // SAFETY: takes a core out of a set.
            unsafe { libc::CPU_CLR(number, &mut others) };
            Some(others)
        };
        if wanted.is_some_and(|wanted| cores::bind(0, &wanted)) {
            self.followed = Some(number);
        }
    }
}
